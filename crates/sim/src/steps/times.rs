//! The clocks of all ranks, and what messages cost. It knows the lengths of values, not what they mean.

use crate::network::Network;
use crate::steps::rank_tree::RankTree;

/// What a step costs a rank beside the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCosts {
    /// Making the own value of a reduction.
    pub own_ns: u64,
    /// Sending a message, without what depends on its length.
    pub send_ns: u64,
    /// Receiving a message, in the same way.
    pub receive_ns: u64,
    /// Bytes per microsecond that a rank decodes, merges and encodes.
    pub bytes_per_us: u64,
    /// Bytes of a message before the value.
    pub header_bytes: u64,
}

impl StepCosts {
    /// Nothing but the network, with the header of a session's messages.
    pub const NETWORK_ALONE: Self =
        Self { own_ns: 0, send_ns: 0, receive_ns: 0, bytes_per_us: u64::MAX, header_bytes: 5 };

    /// A rank with a core of its own. 0.5 us for a message on either side, as everywhere in this crate; 0.6 us to name a path and to hash the
    /// name (0031); 100 bytes a microsecond for runs of classes (0035).
    pub const QUERIES: Self =
        Self { own_ns: 600, send_ns: 500, receive_ns: 500, bytes_per_us: 100, header_bytes: 5 };
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTraffic {
    /// Messages of all ranks.
    pub messages: u64,
    /// Their bytes, with headers.
    pub bytes: u64,
    /// The bytes of the longest one.
    pub longest: u64,
    /// The messages of the longest chain in which each was sent after the one before had come.
    pub rounds: u32,
}

/// A message on its way up.
pub(crate) struct Sent {
    from: u32,
    at_ns: u64,
    /// Rounds up to and with this message.
    round: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Who gets a value.
pub(crate) enum Members<'m> {
    All(u32),
    /// Ascending.
    Listed(&'m [u32]),
}

impl Members<'_> {
    fn len(&self) -> u32 {
        match self {
            Self::All(ranks) => *ranks,
            Self::Listed(members) => members.len() as u32,
        }
    }

    fn rank(&self, place: u32) -> u32 {
        match self {
            Self::All(_) => place,
            Self::Listed(members) => members[place as usize],
        }
    }
}

/// The state of one rank.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    now_ns: u64,
    /// Until then it takes in a message.
    busy_ns: u64,
    round: u32,
}

/// All ranks.
pub(crate) struct Clocks {
    tree: RankTree,
    network: Network,
    costs: StepCosts,
    clocks: Vec<Clock>,
    pub(crate) traffic: StepTraffic,
}

impl Clocks {
    pub(crate) fn new(ranks: u32, tree: RankTree, network: Network, costs: StepCosts) -> Self {
        let clocks = vec![Clock::default(); ranks as usize];
        Self { tree, network, costs, clocks, traffic: StepTraffic::default() }
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.clocks.len() as u32
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.clocks.iter().map(|clock| clock.now_ns).max().unwrap_or(0)
    }

    /// All ranks begin together.
    pub(crate) fn restart(&mut self) {
        self.clocks.fill(Clock::default());
        self.traffic = StepTraffic::default();
    }

    /// A rank makes its value, after other work.
    pub(crate) fn begin_value(&mut self, rank: u32, work_ns: u64) {
        self.clocks[rank as usize].now_ns += work_ns + self.costs.own_ns;
    }

    /// A rank takes in a message, and merges it.
    pub(crate) fn receive(&mut self, rank: u32, sent: &Sent) {
        let bytes = self.bytes_of(sent.bytes.len());
        let came_ns = sent.at_ns + self.network.latency_ns(sent.from, rank);
        let transfer_ns = self.transfer_ns(sent.from, rank, bytes);
        let handled_ns = self.costs.receive_ns + self.handling_ns(bytes);
        let clock = &mut self.clocks[rank as usize];
        clock.busy_ns = clock.busy_ns.max(came_ns) + transfer_ns;
        clock.now_ns = clock.now_ns.max(clock.busy_ns) + handled_ns;
        clock.round = clock.round.max(sent.round);
    }

    /// A rank sends to its parent.
    pub(crate) fn send_up(&mut self, rank: u32, bytes: Vec<u8>) -> (u32, Sent) {
        let parent = self.tree.parent(rank, self.ranks()).expect("a rank other than 0 has a parent");
        self.clocks[rank as usize].now_ns += self.costs.send_ns;
        let Clock { now_ns, round, .. } = self.clocks[rank as usize];
        self.count(self.bytes_of(bytes.len()), round + 1);
        (parent, Sent { from: rank, at_ns: now_ns, round: round + 1, bytes })
    }

    /// The first member passes a value to the others, along a tree of their places.
    pub(crate) fn pass_down(&mut self, members: &Members<'_>, bytes: usize, work_ns: u64) {
        let (bytes, places) = (self.bytes_of(bytes), members.len());
        self.clocks[members.rank(0) as usize].now_ns += work_ns;
        for place in 0..places {
            let from = members.rank(place);
            for child in self.tree.children(place, places) {
                self.pass_on(from, members.rank(child), bytes);
            }
            // The first one knows the value, and the others pass it on before they decode it.
            if place > 0 {
                self.clocks[from as usize].now_ns += self.handling_ns(bytes);
            }
        }
    }

    fn pass_on(&mut self, from: u32, to: u32, bytes: u64) {
        let transfer_ns = self.transfer_ns(from, to, bytes);
        let receive_ns = self.costs.receive_ns;
        let sender = &mut self.clocks[from as usize];
        sender.now_ns += self.costs.send_ns + transfer_ns;
        let (came_ns, round) = (sender.now_ns + self.network.latency_ns(from, to), sender.round + 1);
        let receiver = &mut self.clocks[to as usize];
        receiver.now_ns = receiver.now_ns.max(came_ns) + receive_ns;
        receiver.round = receiver.round.max(round);
        self.count(bytes, round);
    }

    fn count(&mut self, bytes: u64, round: u32) {
        self.traffic.messages += 1;
        self.traffic.bytes += bytes;
        self.traffic.longest = self.traffic.longest.max(bytes);
        self.traffic.rounds = self.traffic.rounds.max(round);
    }

    fn bytes_of(&self, value: usize) -> u64 {
        value as u64 + self.costs.header_bytes
    }

    fn handling_ns(&self, bytes: u64) -> u64 {
        bytes * 1000 / self.costs.bytes_per_us
    }

    /// The time during which a message occupies the link.
    fn transfer_ns(&self, from: u32, to: u32, bytes: u64) -> u64 {
        let shares_host = self.network.host(from) == self.network.host(to);
        let bytes_per_us =
            if shares_host { self.network.shared_bytes_per_us } else { self.network.bytes_per_us };
        bytes * 1000 / bytes_per_us
    }
}
