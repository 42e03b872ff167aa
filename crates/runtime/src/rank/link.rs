//! One rank's end of a fabric, for all uses in a session. It sorts arrivals: messages of a job's engine and of meetings are
//! queued, output of other ranks goes to the writing thread, and five control words concern the whole session: stop, failed,
//! waiting, alive, and copies of logs. It makes no decisions and does not wait.
//!
//! | first byte | belongs to |
//! | --- | --- |
//! | below 0x7e | the engine of a job |
//! | 0x7e | a session within this one (`within.rs`) |
//! | 0x7f, a step | a meeting; the last five steps are the words |
//! | 0x80 to 0xfe | a stream of output for the first rank |
//! | 0xff | the answer to a message of a stream: it was written |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use atta_engine::{Place, Rank, Tree, WireError};
use atta_entry::Code;
use atta_fabric::{Endpoint, InProcess, Received, Wake};

use super::error::RankError;
use super::mirror::Mirror;
use super::outbox::{self, Outbox};
use super::writer::Writer;
use crate::bell::Bell;
use crate::stop::Stop;

/// Children of each rank in the tree of meetings.
const WIDTH: u32 = 16;
/// The first byte of messages of meetings, and of words.
const TAG: u8 = 0x7f;
/// The first byte of messages of a session within this one.
pub(crate) const WITHIN: u8 = 0x7e;
/// The tag and the step.
const HEADER_BYTES: usize = 5;
/// A rank asks all others to end early.
const STOP: u32 = u32::MAX;
/// A rank cannot continue: why. To the first rank.
const FAILED: u32 = u32::MAX - 1;
/// A rank waits for these others. To its parent in the tree.
const WAITING: u32 = u32::MAX - 2;
/// The sender, or a rank that notified it, is still at work after a request to end. To the neighbours in the tree.
const ALIVE: u32 = u32::MAX - 3;
/// A part of a log, which the receiver keeps ([`Mirror`]).
const COPY: u32 = u32::MAX - 4;
/// The maximum number of ranks named as missing.
const MISSING_MAX: usize = 8;
/// Bytes of the reason that a failed rank sends.
const REASON_BYTES_MAX: usize = 1024;

/// Whether a message is a control word, or malformed.
fn is_word(message: &[u8]) -> bool {
    let step = message.get(1..HEADER_BYTES).and_then(|step| step.try_into().ok());
    message.first() == Some(&TAG) && step.is_none_or(|step| u32::from_le_bytes(step) >= COPY)
}

/// What rings a bell.
fn ringer(bell: &Bell) -> Wake {
    let bell = bell.clone();
    std::sync::Arc::new(move || bell.ring())
}

/// The endpoint: of the caller, or that of a session alone.
pub(crate) enum End<'e> {
    Lent(&'e mut dyn Endpoint),
    Alone(InProcess),
}

/// A link. See the module documentation.
pub(crate) struct Link<'e> {
    end: End<'e>,
    /// Rung on arrivals, if the fabric reports them.
    pub(crate) bell: Bell,
    /// Whether the others go on when a rank dies.
    pub(crate) survives: bool,
    /// Whether what this rank leaves is done by the others.
    pub(crate) may_leave: bool,
    /// Whether the fabric never rings, so that it must be polled.
    pub(crate) is_polled: bool,
    /// Messages for the engine of a job, which may not have begun here.
    engine: VecDeque<Received>,
    /// Messages of meetings, perhaps of later steps: from, step, bytes.
    steps: VecDeque<(u32, u32, Vec<u8>)>,
    /// Messages for a session within this one, which may not have begun here.
    pub(crate) inner: VecDeque<Received>,
    /// The ranks that were found dead.
    lost: BTreeSet<u32>,
    /// Output of this rank for the first one.
    pub(crate) outbox: Outbox,
    /// Copies of logs, if there are to be any.
    pub(crate) mirror: Option<Mirror>,
    /// On the first rank, while output of others is taken.
    writer: Option<Writer>,
    /// Output that arrived before that. It is bounded like output in flight: see `outbox.rs`.
    unwritten: VecDeque<Received>,
    /// The request to end early.
    pub(crate) stop: Stop,
    /// Whether the neighbours in the tree were notified of it.
    is_stop_passed: bool,
    /// Messages received.
    pub(crate) arrived: u64,
    /// Messages received, except control words.
    pub(crate) messages: u64,
    /// `ALIVE` words received.
    pub(crate) alive: u64,
    /// Their senders since this rank last passed one on.
    alive_from: BTreeSet<u32>,
    /// When this rank last sent one.
    alive_sent: Instant,
    /// The first `FAILED` word.
    failed: Option<(u32, String)>,
    /// The ranks that each rank below this one waits for.
    waiting: BTreeMap<u32, Vec<u32>>,
    /// Messages and bytes sent, by receiver.
    traffic: BTreeMap<u32, (u64, u64)>,
}

impl<'e> Link<'e> {
    pub(crate) fn new(mut end: End<'e>, stop: Stop) -> Self {
        let bell = Bell::default();
        let is_polled = !end.get().on_arrival(ringer(&bell));
        let outbox = Outbox::new(bell.clone(), end.look().size());
        let survives = end.look().survives();
        Self {
            end,
            survives,
            may_leave: false,
            outbox,
            mirror: None,
            bell,
            is_polled,
            engine: VecDeque::new(),
            steps: VecDeque::new(),
            inner: VecDeque::new(),
            lost: BTreeSet::new(),
            writer: None,
            unwritten: VecDeque::new(),
            stop,
            is_stop_passed: false,
            arrived: 0,
            messages: 0,
            alive: 0,
            alive_from: BTreeSet::new(),
            alive_sent: Instant::now(),
            failed: None,
            waiting: BTreeMap::new(),
            traffic: BTreeMap::new(),
        }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.end.look().rank()
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.end.look().size()
    }

    /// Whether there is no fabric.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.end, End::Alone(_))
    }

    pub(crate) fn neighbours(&self) -> &[u32] {
        self.end.look().neighbours()
    }

    /// The place of this rank, as far as the fabric knows.
    pub(crate) fn place(&self) -> Place {
        let neighbours = self.neighbours().iter().copied().map(Rank).collect();
        Place::new(Rank(self.rank()), self.ranks(), neighbours)
    }

    /// The tree along which ranks meet.
    pub(crate) fn tree(&self) -> Tree {
        Tree::new(Rank(self.rank()), self.ranks(), WIDTH)
    }

    /// The tree of the ranks of a group, by their places in it.
    pub(crate) fn tree_of_group(place: usize, size: usize) -> Tree {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Tree::new(Rank(number(place)), number(size), WIDTH)
    }

    pub(crate) fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), RankError> {
        let (messages, bytes) = self.traffic.entry(to).or_default();
        *messages += 1;
        *bytes += message.len() as u64;
        Ok(self.end.get().send(to, message)?)
    }

    /// Sends a message of a step.
    pub(crate) fn send_step(&mut self, to: u32, step: u32, bytes: &[u8]) -> Result<(), RankError> {
        self.send_step_of(to, step, &[bytes])
    }

    /// The same in pieces.
    pub(crate) fn send_step_of(&mut self, to: u32, step: u32, pieces: &[&[u8]]) -> Result<(), RankError> {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut message = Vec::with_capacity(HEADER_BYTES + length);
        message.push(TAG);
        message.extend(step.to_le_bytes());
        pieces.iter().for_each(|piece| message.extend_from_slice(piece));
        self.send(to, message)
    }

    /// Messages that have not gone yet; moves them on.
    pub(crate) fn unsent(&mut self) -> Result<usize, RankError> {
        self.look_for_deaths()?;
        self.unsent_of_fabric()
    }

    /// The same without a look for deaths.
    pub(crate) fn unsent_of_fabric(&mut self) -> Result<usize, RankError> {
        Ok(self.end.get().unsent()?)
    }

    /// Has this called on arrivals instead of ringing the bell. Returns whether the fabric does so.
    pub(crate) fn on_arrival(&mut self, wake: Wake) -> bool {
        self.end.get().on_arrival(wake)
    }

    /// Has the bell rung on arrivals again.
    pub(crate) fn ring_on_arrival(&mut self) {
        let ringer = ringer(&self.bell);
        self.is_polled = !self.on_arrival(ringer);
    }

    /// Ends all ranks at once.
    pub(crate) fn abort(&mut self, exit_code: i32) {
        self.end.get().abort(exit_code);
    }

    /// Messages and bytes sent since the last call, by receiver.
    pub(crate) fn take_traffic(&mut self) -> Vec<(u32, u64, u64)> {
        std::mem::take(&mut self.traffic)
            .into_iter()
            .map(|(to, (messages, bytes))| (to, messages, bytes))
            .collect()
    }

    /// The next message for the engine of a job, if one has come.
    pub(crate) fn next_of_engine(&mut self) -> Result<Option<Received>, RankError> {
        loop {
            if let Some(received) = self.engine.pop_front() {
                return Ok(Some(received));
            }
            if !self.take_in()? {
                return Ok(None);
            }
        }
    }

    /// A rank's message of a step, if it has arrived. Messages of a rank keep their order, so its first one is meant.
    pub(crate) fn step_from(&mut self, rank: u32, step: u32) -> Result<Option<Vec<u8>>, RankError> {
        let Some(at) = self.steps.iter().position(|(from, ..)| *from == rank) else { return Ok(None) };
        let Some((_, sent, bytes)) = self.steps.remove(at) else { return Ok(None) };
        if sent != step {
            return Err(RankError::Wire { from: Rank(rank), error: WireError::Value });
        }
        Ok(Some(bytes))
    }

    /// All ranks that were found dead.
    pub(crate) fn lost(&mut self) -> Result<Vec<u32>, RankError> {
        self.lost.extend(self.end.get().lost()?);
        Ok(self.lost.iter().copied().collect())
    }

    /// Fails if a rank has died and the others go on. They do so in another session.
    fn look_for_deaths(&mut self) -> Result<(), RankError> {
        if !self.survives {
            return Ok(());
        }
        let ranks = self.lost()?;
        match () {
            // The first one stays: all may have been asked.
            () if self.may_leave && self.stop.leaves() && self.rank() > 0 => Err(RankError::Leaves),
            () if ranks.is_empty() => Ok(()),
            () => Err(RankError::Lost { ranks }),
        }
    }

    /// Takes one message in. False: none has arrived.
    pub(crate) fn take_in(&mut self) -> Result<bool, RankError> {
        let has_arrived = self.arrive()?;
        if !has_arrived {
            self.look_for_deaths()?;
        }
        Ok(has_arrived)
    }

    /// The same without a look for deaths.
    pub(crate) fn arrive(&mut self) -> Result<bool, RankError> {
        let Some(mut received) = self.end.get().receive()? else { return Ok(false) };
        self.arrived += 1;
        let from = received.from;
        if !is_word(&received.message) {
            self.messages += 1;
            self.waiting.remove(&from);
        }
        match received.message.first() {
            Some(&TAG) => self.sort(from, &received.message)?,
            Some(&WITHIN) => {
                received.message.remove(0);
                self.inner.push_back(received);
            }
            Some(&outbox::TAKEN) if from == Rank::ROOT.0 && self.outbox.taken() => {}
            _ => match outbox::open(&received.message) {
                None => self.engine.push_back(received),
                Some(_) if self.rank() > 0 => {
                    return Err(RankError::Wire { from: Rank(from), error: WireError::Value });
                }
                Some(_) => {
                    self.unwritten.push_back(received);
                    self.write()?;
                }
            },
        }
        Ok(true)
    }

    /// Starts or stops the writing of other ranks' output.
    pub(crate) fn set_writer(&mut self, writer: Option<Writer>) {
        self.writer = writer;
    }

    /// Passes received output to the writing thread, if there is one.
    fn write(&mut self) -> Result<(), RankError> {
        while let Some(writer) = &self.writer
            && let Some(Received { from, message }) = self.unwritten.pop_front()
        {
            if let Some((stream, bytes)) = outbox::open(&message) {
                writer.write(from, stream, bytes)?;
            }
        }
        Ok(())
    }

    /// Queues a message of a meeting, or handles a control word.
    fn sort(&mut self, from: u32, message: &[u8]) -> Result<(), RankError> {
        let Some((header, bytes)) = message.split_at_checked(HEADER_BYTES) else {
            return Err(RankError::Wire { from: Rank(from), error: WireError::Length });
        };
        let wrong = RankError::Wire { from: Rank(from), error: WireError::Value };
        match header[1..].try_into().map(u32::from_le_bytes) {
            Ok(STOP) => self.stop.set(),
            Ok(ALIVE) => {
                self.alive += 1;
                self.alive_from.insert(from);
            }
            Ok(FAILED) => {
                let why = String::decode_all(bytes).ok_or(wrong)?;
                self.failed.get_or_insert((from, why));
            }
            Ok(WAITING) => {
                let ranks =
                    Vec::<u32>::decode_all(bytes).filter(|ranks| ranks.len() <= MISSING_MAX).ok_or(wrong)?;
                self.waiting.insert(from, ranks);
            }
            // A rank that has no mirror yet gets the rest later, and cannot use it.
            Ok(COPY) if self.mirror.as_ref().is_none_or(|mirror| mirror.keep(bytes)) => {}
            Ok(COPY) => return Err(wrong),
            Ok(step) => self.steps.push_back((from, step, bytes.to_vec())),
            Err(_) => return Err(wrong),
        }
        Ok(())
    }

    /// Sends waiting messages: output for the first rank, answers to written output, a request to end early.
    pub(crate) fn serve(&mut self) -> Result<(), RankError> {
        while let Some(message) = self.outbox.next() {
            self.send(Rank::ROOT.0, message)?;
        }
        while let Some((to, part)) = self.mirror.as_ref().and_then(Mirror::next) {
            self.send_step(to, COPY, &part)?;
        }
        self.write()?;
        while let Some(from) = self.writer.as_ref().map(Writer::written).transpose()?.flatten() {
            self.send(from, vec![outbox::TAKEN])?;
        }
        if self.stop.is_set() && !self.is_stop_passed {
            self.is_stop_passed = true;
            self.near().into_iter().try_for_each(|rank| self.send_step(rank.0, STOP, &[]))?;
        }
        Ok(())
    }

    /// The neighbours of this rank in the tree.
    fn near(&self) -> Vec<Rank> {
        let tree = self.tree();
        tree.parent().into_iter().chain(tree.children()).collect()
    }

    /// After a request to end: reports that this rank, or one that notified it, is at work, at most once per period. A rank does not
    /// get its own report back, so reports do not circulate.
    pub(crate) fn send_alive(&mut self, is_at_work: bool, period: Duration) -> Result<(), RankError> {
        let has_something = is_at_work || !self.alive_from.is_empty();
        if !self.stop.is_set() || !has_something || self.alive_sent.elapsed() < period {
            return Ok(());
        }
        self.alive_sent = Instant::now();
        let from = std::mem::take(&mut self.alive_from);
        let is_recipient = |rank: &Rank| is_at_work || from.iter().any(|other| *other != rank.0);
        let near: Vec<Rank> = self.near().into_iter().filter(is_recipient).collect();
        near.into_iter().try_for_each(|rank| self.send_step(rank.0, ALIVE, &[]))
    }

    /// A step begins. Earlier reports are not passed on: they could arrive after another rank's last step.
    pub(crate) fn forget_alive(&mut self) {
        self.alive_from.clear();
    }

    /// Stops forwarding requests to end: the last meeting has begun, and no message may follow it.
    pub(crate) fn keep_stop_to_itself(&mut self) {
        self.is_stop_passed = true;
    }

    /// Notifies the first rank that this one cannot continue.
    pub(crate) fn fail(&mut self, why: &str) -> Result<(), RankError> {
        let why = why.get(..why.floor_char_boundary(REASON_BYTES_MAX)).unwrap_or_default().to_owned();
        self.send_step(Rank::ROOT.0, FAILED, &why.encoded())
    }

    /// The error of another rank that cannot continue, if any.
    pub(crate) fn failure(&self) -> Option<RankError> {
        let (rank, why) = self.failed.clone()?;
        Some(RankError::Failed { rank, why })
    }

    /// The missing ranks among those awaited: silent ones, and those that the others wait for.
    pub(crate) fn missing(&self, awaited: &[u32]) -> Vec<u32> {
        let is_here = |rank: &u32| self.steps.iter().any(|(from, ..)| from == rank);
        let mut looked = BTreeSet::new();
        let mut missing = BTreeSet::new();
        let mut open: Vec<u32> = awaited.iter().copied().filter(|rank| !is_here(rank)).collect();
        while let Some(rank) = open.pop() {
            match self.waiting.get(&rank) {
                Some(others) if looked.insert(rank) => open.extend(others),
                Some(_) => {}
                None => drop(missing.insert(rank)),
            }
        }
        missing.into_iter().take(MISSING_MAX).collect()
    }

    /// Reports to the parent which ranks this one waits for.
    pub(crate) fn send_waiting(&mut self, missing: &[u32]) -> Result<(), RankError> {
        match self.tree().parent() {
            Some(parent) => self.send_step(parent.0, WAITING, &missing.to_vec().encoded()),
            None => Ok(()),
        }
    }

    /// Waits until something may have arrived, up to a limit.
    pub(crate) fn wait(&self, at_most: Duration) {
        self.bell.wait(at_most);
    }
}

impl End<'_> {
    fn get(&mut self) -> &mut dyn Endpoint {
        match self {
            Self::Lent(endpoint) => &mut **endpoint,
            Self::Alone(endpoint) => endpoint,
        }
    }

    fn look(&self) -> &dyn Endpoint {
        match self {
            Self::Lent(endpoint) => &**endpoint,
            Self::Alone(endpoint) => endpoint,
        }
    }
}

#[cfg(test)]
mod tests {
    use atta_engine::Message;
    use atta_fabric::in_process;

    use super::*;

    #[test]
    fn meeting_messages_are_distinct_from_others() {
        for tag in [TAG, WITHIN] {
            assert_eq!(Message::decode(&[tag, 0, 0, 0, 0]), Err(WireError::Tag(tag)));
        }
        assert!(outbox::open(&[TAG]).is_none());
    }

    /// What the first rank of two makes of a message of the second.
    fn taken_in(message: Vec<u8>) -> (Result<bool, RankError>, Option<RankError>, Vec<u32>) {
        let mut ranks = in_process(2);
        ranks[1].send(0, message).unwrap();
        let mut link = Link::new(End::Lent(&mut ranks[0]), Stop::new());
        (link.take_in(), link.failure(), link.missing(&[1]))
    }

    fn word(step: u32, bytes: &[u8]) -> Vec<u8> {
        [&[TAG][..], &step.to_le_bytes(), bytes].concat()
    }

    #[test]
    fn control_words_arrive() {
        let (taken, failure, missing) = taken_in(word(FAILED, &"no disk".to_owned().encoded()));
        assert!(taken.unwrap());
        assert_eq!((failure.unwrap().to_string().as_str(), missing), ("rank 1 failed: no disk", vec![1]));
        let (taken, failure, missing) = taken_in(word(WAITING, &vec![17_u32, 18].encoded()));
        assert!(taken.unwrap() && failure.is_none());
        assert_eq!(missing, [17, 18]);
        let (taken, failure, missing) = taken_in(word(ALIVE, &[]));
        assert!(taken.unwrap() && failure.is_none());
        assert_eq!(missing, [1]);
        assert_eq!(taken_in(word(3, b"of a meeting")).2, [0; 0]);
    }

    #[test]
    fn what_is_no_word_is_an_error() {
        let long = vec![1_u32; MISSING_MAX + 1].encoded();
        let cases = [
            vec![TAG, 1, 0],
            word(FAILED, &[9]),
            word(WAITING, &[9]),
            word(WAITING, &long),
            vec![outbox::TAKEN, 0],
        ];
        for message in cases {
            let (taken, ..) = taken_in(message.clone());
            // The engine refuses an unexpected answer.
            let is_kept = message[0] == outbox::TAKEN;
            assert_eq!(taken.is_ok(), is_kept, "{message:?}");
        }
    }
}
