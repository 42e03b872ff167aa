//! The checkers: they watch every run from outside, at a constant cost per event, and share no code with the protocol. A
//! violation shows which rule of the protocol prevents it.
//!
//! Sums show that every task is done exactly once. Each task created, and each task done, adds numbers that follow from the
//! task. A range of files adds the same numbers in any number of parts. A task that is lost or done twice makes the sums
//! differ, except with a chance of 2^-64.

use std::fmt;

use atta_engine::{Message, ProtocolError, Rank, Reason};

use crate::task::{Kind, Task};
use crate::totals::Totals;
use crate::traffic::{self, KINDS};
use crate::tree::mix;

/// The kinds of violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The engine refused a message.
    Protocol(ProtocolError),
    /// The root announced the end, but not every task was done exactly once.
    Tasks {
        /// Files done.
        files_done: u64,
        /// Files of the tree.
        files: u64,
    },
    /// The root announced the end while this many tasks wait or run.
    Busy(u64),
    /// The root announced the end while this many parcels are in flight.
    ParcelsUnderWay(u64),
    /// The root announced the end twice.
    AnnouncedTwice,
    /// A message was sent to a rank that has left.
    SentToTheDeparted {
        /// The sender.
        by: Rank,
        /// The message.
        message: Box<Message>,
    },
    /// A rank left with unread messages.
    LeftUnread,
    /// The totals differ from those of the tree, or from the work done.
    Totals {
        /// The totals added up by the engines. None: there was no result.
        reported: Option<Totals>,
        /// The totals of the work done.
        done: Totals,
    },
    /// More messages of a kind are in flight to a rank, or unread by it, than there are other ranks.
    Queue {
        /// The kind.
        kind: &'static str,
        /// The number of messages.
        messages: u32,
    },
    /// No events are left, and this many ranks have not left.
    Stuck(u32),
    /// The run exceeded the maximum number of events.
    Endless,
}

/// A violation, with the time and the rank at which it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The kind.
    pub wrong: Wrong,
    /// The time in nanoseconds.
    pub time_ns: u64,
    /// The rank.
    pub rank: Rank,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ns, rank {}: ", self.time_ns, self.rank)?;
        match &self.wrong {
            Wrong::Protocol(error) => error.fmt(f),
            Wrong::Tasks { files_done, files } => {
                write!(f, "not every task was done once ({files_done} of {files} files)")
            }
            Wrong::Busy(count) => write!(f, "the end is announced, and {count} tasks wait or run"),
            Wrong::ParcelsUnderWay(count) => {
                write!(f, "the end is announced, and {count} parcels are in flight")
            }
            Wrong::AnnouncedTwice => f.write_str("the end is announced twice"),
            Wrong::SentToTheDeparted { by, message } => {
                write!(f, "has left, and rank {by} sends it {message:?}")
            }
            Wrong::LeftUnread => f.write_str("leaves with messages unread"),
            Wrong::Totals { reported, done } => {
                write!(f, "the totals are {reported:?}, but the work done is {done:?}")
            }
            Wrong::Queue { kind, messages } => {
                write!(f, "{messages} messages of the kind {kind} are in flight to it or unread by it")
            }
            Wrong::Stuck(count) => write!(f, "no events are left, and {count} ranks have not left"),
            Wrong::Endless => f.write_str("the run exceeded the maximum number of events"),
        }
    }
}

impl std::error::Error for Violation {}

/// Sums over tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ledger {
    sum: u64,
    squares: u64,
}

impl Ledger {
    fn add(&mut self, task: &Task) {
        match task.kind {
            Kind::Directory => {
                self.sum = self.sum.wrapping_add(mix(task.seed));
                self.squares = self.squares.wrapping_add(mix(!task.seed));
            }
            Kind::Files => {
                // A polynomial of the file numbers: it adds up over the parts of a range.
                let [zeroth, first, second] = [1, 2, 3].map(|salt| mix(task.seed ^ salt << 60));
                let upto = task.from + task.files;
                let numbers = sum_below(upto).wrapping_sub(sum_below(task.from));
                let squares = squares_below(upto).wrapping_sub(squares_below(task.from));
                let linear = zeroth.wrapping_mul(task.files).wrapping_add(first.wrapping_mul(numbers));
                self.sum = self.sum.wrapping_add(linear);
                self.squares = self.squares.wrapping_add(second.wrapping_mul(squares));
            }
        }
    }
}

/// The sum of the numbers below `n`, modulo 2^64.
fn sum_below(n: u64) -> u64 {
    (u128::from(n) * u128::from(n.saturating_sub(1)) / 2) as u64
}

/// The sum of the squares of the numbers below `n` (at most 2^41), modulo 2^64.
fn squares_below(n: u64) -> u64 {
    let n = u128::from(n);
    (n * n.saturating_sub(1) * (2 * n).saturating_sub(1) / 6) as u64
}

/// Whether a rank sends no second message of this kind to the same rank before the first was read.
///
/// Then the number of ranks bounds the queue. A rank that has asked waits for the answer. Each wave, the token and the end pass
/// a pair of ranks once before they can come again. Totals wait until the previous ones were taken.
///
/// The number of ranks does not bound the other kinds. Parcels follow from tasks: a slave returns its tasks without waiting for
/// the master, and each parcel may be acknowledged. Reports of quiet ranks come once per interval, however slow the reader is.
fn is_one_at_a_time(message: &Message) -> bool {
    !matches!(message, Message::Parcel { .. } | Message::Accepted { .. } | Message::Quiet(_))
}

/// The state of the checkers.
#[derive(Debug, Default)]
pub(crate) struct Check {
    created: Ledger,
    done: Ledger,
    /// The work done on all ranks.
    pub(crate) totals: Totals,
    /// Units that wait, plus tasks that run, on all ranks.
    pub(crate) busy: u64,
    /// Parcels sent but not handled yet.
    pub(crate) parcels: u64,
    /// Messages in flight to each rank or unread by it, by kind.
    queues: Vec<[u32; KINDS.len()]>,
    /// The reason and time of the announced end.
    pub(crate) announced: Option<(Reason, u64)>,
    reported: Option<Totals>,
    pub(crate) left: u32,
    first: Option<Violation>,
}

impl Check {
    /// The checkers for a number of ranks.
    pub(crate) fn new(ranks: u32) -> Self {
        Self { queues: vec![[0; KINDS.len()]; ranks as usize], ..Self::default() }
    }

    /// A message was sent to a rank.
    pub(crate) fn sent(&mut self, time_ns: u64, to: u32, message: &Message) {
        let kind = traffic::kind(message);
        let others = self.queues.len() as u32 - 1;
        let queue = &mut self.queues[to as usize][kind];
        *queue += 1;
        let messages = *queue;
        if messages > others && is_one_at_a_time(message) {
            self.fail(time_ns, to, Wrong::Queue { kind: KINDS[kind], messages });
        }
    }

    /// A rank read a message, or left before it arrived.
    pub(crate) fn read(&mut self, by: u32, message: &Message) {
        self.queues[by as usize][traffic::kind(message)] -= 1;
    }

    pub(crate) fn created(&mut self, task: &Task) {
        self.created.add(task);
    }

    pub(crate) fn done(&mut self, task: &Task) {
        self.done.add(task);
    }

    pub(crate) fn fail(&mut self, time_ns: u64, rank: u32, wrong: Wrong) {
        self.first.get_or_insert(Violation { wrong, time_ns, rank: Rank(rank) });
    }

    /// The root announced the end. `files`: of the tree, if all of them are done by this run.
    pub(crate) fn announce(&mut self, time_ns: u64, reason: Reason, files: Option<u64>) {
        if self.announced.replace((reason, time_ns)).is_some() {
            self.fail(time_ns, 0, Wrong::AnnouncedTwice);
        }
        if reason != Reason::Done {
            return;
        }
        if self.busy > 0 {
            self.fail(time_ns, 0, Wrong::Busy(self.busy));
        }
        if self.parcels > 0 {
            self.fail(time_ns, 0, Wrong::ParcelsUnderWay(self.parcels));
        }
        let files = files.unwrap_or(self.totals.files);
        if self.created != self.done || self.totals.files != files {
            self.fail(time_ns, 0, Wrong::Tasks { files_done: self.totals.files, files });
        }
    }

    /// The root has the totals of all ranks.
    pub(crate) fn result(&mut self, reported: Totals) {
        self.reported = Some(reported);
    }

    /// No events are left.
    pub(crate) fn end(&mut self, time_ns: u64, ranks: u32) {
        if self.left < ranks {
            self.fail(time_ns, 0, Wrong::Stuck(ranks - self.left));
        }
        if self.reported != Some(self.totals) {
            self.fail(time_ns, 0, Wrong::Totals { reported: self.reported, done: self.totals });
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.first.is_some()
    }

    pub(crate) fn violation(self) -> Option<Violation> {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_queue_is_detected() {
        let request = Message::Request { idle: true, wait: false };
        let mut check = Check::new(3);
        for _ in 0..2 {
            check.sent(1, 0, &request);
            check.sent(1, 0, &Message::Nothing);
            check.sent(1, 1, &request);
        }
        check.read(1, &request);
        check.sent(2, 1, &request);
        (0..9).for_each(|_| check.sent(2, 0, &Message::Accepted { sequence: 1 }));
        assert!(!check.has_failed());
        check.sent(3, 0, &request);
        let wrong = Wrong::Queue { kind: "request", messages: 3 };
        assert_eq!(check.violation(), Some(Violation { wrong, time_ns: 3, rank: Rank(0) }));
    }

    #[test]
    fn range_sum_does_not_depend_on_its_parts() {
        let files = |from, files| Task { kind: Kind::Files, seed: 5, depth: 0, files, from };
        let sum = |tasks: &[Task]| {
            let mut ledger = Ledger::default();
            tasks.iter().for_each(|task| ledger.add(task));
            ledger
        };
        let whole = sum(&[files(3, 1000)]);
        assert_eq!(whole, sum(&[files(500, 503), files(3, 1), files(4, 496)]));
        assert_ne!(whole, sum(&[files(3, 999), files(3, 1)]));
        assert_ne!(whole, sum(&[files(4, 1000)]));
    }
}
