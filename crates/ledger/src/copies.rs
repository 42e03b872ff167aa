//! Copies of logs in the memory of other processes, for jobs without a directory that all see: who gets what a process writes to its log, what a process
//! keeps of the logs of others, and what counts when the copies are united. No I/O, and no messages: the caller sends what [`Copies`] returns.
//!
//! ```text
//!   log ─▶ Copies::note ─▶ Copies::next_message ─▶ other processes: Copies::keep
//!   after deaths:  own log, and Copies::kept ─▶ unite ─▶ run_without_first
//! ```
//!
//! Nobody waits for a copy. What no log says is done is done again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use atta_code::Code;

use crate::log::LogName;

/// A log as far as a process has it.
pub type LogSoFar = (LogName, Vec<u8>);

/// A part of a log: its log, where it begins, its bytes.
type Part = (LogName, u64, Vec<u8>);

/// The copies of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Copies {
    /// The ranks that get what this process notes.
    receivers: Vec<u32>,
    /// Nothing is sent any more.
    is_over: bool,
    queue: VecDeque<(u32, Arc<Vec<u8>>)>,
    kept: BTreeMap<LogName, Vec<u8>>,
}

impl Copies {
    /// Those of a process whose log these ranks get.
    #[must_use]
    pub fn new(receivers: Vec<u32>) -> Self {
        Self { receivers, ..Self::default() }
    }

    /// The process has written a part of its log.
    pub fn note(&mut self, log: LogName, offset: u64, bytes: &[u8]) {
        let part: Part = (log, offset, bytes.to_vec());
        let message = Arc::new(part.encoded());
        if !self.is_over {
            self.queue.extend(self.receivers.iter().map(|to| (*to, Arc::clone(&message))));
        }
    }

    /// The job has come to its end. What has not been sent is not needed, and its receiver may have left.
    pub fn end(&mut self) {
        self.is_over = true;
        self.queue.clear();
    }

    /// The next message, and the rank that gets it.
    pub fn next_message(&mut self) -> Option<(u32, Arc<Vec<u8>>)> {
        self.queue.pop_front()
    }

    /// Keeps what another process has noted. False: it is not valid. Parts of a log come in order, so one that does not continue what is kept is from before
    /// a write that failed, and is written again.
    pub fn keep(&mut self, message: &[u8]) -> bool {
        let Some((log, offset, bytes)) = Part::decode_all(message) else { return false };
        let kept = self.kept.entry(log).or_default();
        let Some(offset) = usize::try_from(offset).ok().filter(|offset| *offset <= kept.len()) else {
            return true;
        };
        kept.truncate(offset);
        kept.extend_from_slice(&bytes);
        true
    }

    /// The logs of other processes that are kept here, as far as they have come.
    #[must_use]
    pub fn kept(&self) -> Vec<LogSoFar> {
        self.kept.iter().map(|(log, bytes)| (*log, bytes.clone())).collect()
    }
}

/// The ranks that get the log of one of so many ranks, if `copies` others are to have it. Those on other hosts come first, each on another one where ranks of
/// a host have numbers in a row. `neighbours`: the ranks on the host of this one.
#[must_use]
pub fn receivers((rank, ranks): (u32, u32), neighbours: &[u32], copies: u32) -> Vec<u32> {
    let on_host = u32::try_from(neighbours.iter().filter(|other| **other != rank).count()).unwrap_or(0) + 1;
    let far = (1..ranks.div_ceil(on_host)).map(|step| step * on_host).chain(1..ranks);
    let far = far.map(|step| (rank + step) % ranks).filter(|other| !neighbours.contains(other));
    let near = (1..ranks).map(|step| (rank + step) % ranks);
    let mut receivers = Vec::new();
    for other in far.chain(near) {
        if receivers.len() == copies as usize {
            break;
        }
        if other != rank && !receivers.contains(&other) {
            receivers.push(other);
        }
    }
    receivers
}

/// Whether a copy of a log takes the place of one with so many bytes: the longest counts, as each is a beginning of the same log.
#[must_use]
pub fn is_longer(copy: &[u8], there: u64) -> bool {
    copy.len() as u64 > there
}

/// Unites logs.
pub fn unite(logs: &mut Vec<LogSoFar>, more: Vec<LogSoFar>) {
    for (name, bytes) in more {
        match logs.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if is_longer(&bytes, known.len() as u64) => *known = bytes,
            Some(_) => {}
            None => logs.push((name, bytes)),
        }
    }
}

/// The last run, if the beginning of the log of its first rank is lost, which says what counts of older logs: then nothing of it counts, and all of it is done
/// again. `logs`: all logs of the job, with their sizes.
#[must_use]
pub fn run_without_first(logs: &[(LogName, u64)]) -> Option<u32> {
    let last = logs.iter().map(|(name, _)| name.run).max()?;
    let has_older = logs.iter().any(|(name, _)| name.run < last);
    let first = LogName { run: last, rank: 0, part: 0 };
    let has_first = logs.iter().any(|(name, bytes)| *name == first && *bytes > 0);
    (has_older && !has_first).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn name(run: u32, rank: u32) -> LogName {
        LogName { run, rank, part: 0 }
    }

    #[test]
    fn copies_go_to_other_hosts_first() {
        // Two ranks on each host, in a row.
        assert_eq!(receivers((0, 6), &[0, 1], 2), [2, 4]);
        assert_eq!(receivers((5, 6), &[4, 5], 3), [1, 3, 0]);
        // Dealt out in turn.
        assert_eq!(receivers((1, 6), &[1, 4], 2), [3, 5]);
        // One host.
        assert_eq!(receivers((2, 4), &[0, 1, 2, 3], 2), [3, 0]);
        assert_eq!(receivers((2, 4), &[0, 1, 3], 9), [3, 0, 1]);
        // There are no more than the others.
        assert_eq!(receivers((1, 3), &[], 9), [2, 0]);
        assert_eq!(receivers((0, 1), &[], 1), []);
    }

    #[test]
    fn parts_go_to_the_receivers_and_are_kept_in_order() {
        let (log, mut own, mut other) = (name(1, 3), Copies::new(vec![0, 1]), Copies::default());
        own.note(log, 0, b"one ");
        own.note(log, 4, b"two");
        let sent: Vec<_> = std::iter::from_fn(|| own.next_message()).collect();
        assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [0, 1, 0, 1]);
        for (_, message) in sent.iter().filter(|(to, _)| *to == 0) {
            assert!(other.keep(message));
        }
        assert_eq!(other.kept(), [(log, b"one two".to_vec())]);
        // A write is repeated; another one has a gap before it.
        own.note(log, 4, b"too");
        own.note(log, 9, b"lost");
        while let Some((_, message)) = own.next_message() {
            assert!(other.keep(&message));
        }
        assert_eq!(other.kept(), [(log, b"one too".to_vec())]);
        assert!(!other.keep(b"\xff"));
        own.note(log, 0, b"again");
        own.end();
        own.note(log, 5, b"and again");
        assert!(own.next_message().is_none());
    }

    #[test]
    fn longest_of_each_log_counts() {
        let mut logs = vec![(name(1, 0), b"be".to_vec()), (name(1, 1), b"whole".to_vec())];
        unite(&mut logs, vec![(name(1, 0), b"begin".to_vec()), (name(1, 1), b"wh".to_vec())]);
        unite(&mut logs, vec![(name(1, 2), b"new".to_vec()), (name(1, 0), b"b".to_vec())]);
        let found: Vec<_> = logs.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        assert_eq!(found, [b"begin".as_slice(), b"whole", b"new"]);
    }

    #[test]
    fn run_without_its_first_frame_is_found() {
        let (older, first, other) = ((name(1, 0), 9), name(2, 0), (name(2, 1), 9));
        assert_eq!(run_without_first(&[]), None);
        // No run is older, so nothing says what counts of one.
        assert_eq!(run_without_first(&[other]), None);
        assert_eq!(run_without_first(&[older, (first, 9), other]), None);
        assert_eq!(run_without_first(&[older, (first, 0), other]), Some(2));
        assert_eq!(run_without_first(&[older, other]), Some(2));
        // Only the last run may be without it.
        assert_eq!(run_without_first(&[older, other, (name(3, 0), 9)]), None);
    }
}
