//! Messages in flight: departure and arrival times, and counts. The parameters are those of the LogGP model (Alexandrov et al.,
//! 1995): a latency, an overhead on either side, and a time per byte during which an interface is busy.

use std::collections::BTreeMap;

use atta_engine::{Message, Random};

use crate::network::Network;
use crate::setup::Disturbance;
use crate::task;

/// Kinds of messages.
pub const KINDS: [&str; 13] = [
    "request",
    "nothing",
    "parcel",
    "accepted",
    "quiet",
    "probe",
    "census",
    "token",
    "totals",
    "stop",
    "finish",
    "farewell",
    "totals taken",
];

/// The index of a message's kind in [`KINDS`].
pub(crate) fn kind(message: &Message) -> usize {
    match message {
        Message::Request { .. } => 0,
        Message::Nothing => 1,
        Message::Parcel { .. } => 2,
        Message::Accepted { .. } => 3,
        Message::Quiet(_) => 4,
        Message::Probe { .. } => 5,
        Message::Census { .. } => 6,
        Message::Token { .. } => 7,
        Message::Totals { .. } => 8,
        Message::Stop(_) => 9,
        Message::Finish(_) => 10,
        Message::Farewell => 11,
        Message::TotalsTaken => 12,
    }
}

/// The length of a message. Tasks count with the length that a real program would write.
pub(crate) fn bytes(message: &Message) -> u64 {
    let encoded = message.encode().len() as u64;
    match message {
        Message::Parcel { tasks, .. } => encoded - tasks.bytes.len() as u64 + task::wire_bytes(&tasks.bytes),
        _ => encoded,
    }
}

/// A number of messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// The number of messages.
    pub messages: u64,
    /// The number of bytes.
    pub bytes: u64,
}

impl Volume {
    fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// All messages of a job.
#[derive(Debug)]
pub(crate) struct Traffic {
    network: Network,
    disturbance: Disturbance,
    random: Random,
    ranks: usize,
    /// The time until which the interface of each host is busy.
    interfaces: Vec<u64>,
    /// With random delays: the arrival time of the last message of each pair.
    arrivals: BTreeMap<(u32, u32), u64>,
    pub(crate) kinds: [Volume; KINDS.len()],
    /// By pair of ranks; the index is the sender's number times the number of ranks plus the receiver's.
    pub(crate) pairs: Option<Vec<Volume>>,
}

impl Traffic {
    pub(crate) fn new(
        network: Network,
        disturbance: Disturbance,
        ranks: u32,
        pairs: bool,
        seed: u64,
    ) -> Self {
        let ranks = ranks as usize;
        let hosts = ranks.div_ceil(network.ranks_per_host as usize);
        Self {
            network,
            disturbance,
            random: Random::stream(seed, u64::MAX),
            ranks,
            interfaces: vec![0; hosts],
            arrivals: BTreeMap::new(),
            kinds: [Volume::default(); KINDS.len()],
            pairs: pairs.then(|| vec![Volume::default(); ranks * ranks]),
        }
    }

    /// Sends a message at `now`. Returns when its sender has finished copying it, and when it arrives.
    pub(crate) fn send(&mut self, now: u64, from: u32, to: u32, kind: usize, bytes: u64) -> (u64, u64) {
        self.kinds[kind].add(bytes);
        if let Some(pairs) = &mut self.pairs {
            pairs[from as usize * self.ranks + to as usize].add(bytes);
        }
        self.travel(now, from, to, bytes)
    }

    /// The same without counting the message.
    pub(crate) fn travel(&mut self, now: u64, from: u32, to: u32, bytes: u64) -> (u64, u64) {
        let latency = self.network.latency_ns(from, to);
        let host = self.network.host(from);
        let (free, leaves) = if host == self.network.host(to) {
            let copied = now + bytes * 1000 / self.network.shared_bytes_per_us;
            (copied, copied)
        } else {
            let interface = &mut self.interfaces[host as usize];
            *interface = now.max(*interface) + bytes * 1000 / self.network.bytes_per_us;
            (now, *interface)
        };
        (free, self.delay(leaves + latency, from, to))
    }

    fn delay(&mut self, arrives: u64, from: u32, to: u32) -> u64 {
        if self.disturbance.jitter_ns == 0 {
            return arrives;
        }
        let late = arrives + self.random.below(self.disturbance.jitter_ns);
        let last = self.arrivals.entry((from, to)).or_default();
        *last = late.max(*last);
        *last
    }

    /// Whether to deliver this parcel twice.
    pub(crate) fn duplicates(&mut self) -> bool {
        let one_in = u64::from(self.disturbance.duplicate_one_in);
        one_in > 0 && self.random.below(one_in) == 0
    }
}
