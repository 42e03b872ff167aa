//! Copies of logs in the memory of other ranks, for jobs without a directory that all ranks see. Each part of a log that a rank writes goes to
//! some others, which keep it. It is no message of a job or a meeting, waits for no answer, and is lost with its sender. It writes no files.
//!
//! ```text
//!   log ── note ──▶ Mirror ── communicating thread ──▶ K other ranks: kept
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::Code;
use atta_ledger::LogName;

use crate::bell::Bell;

/// A part of a log: its log, where it begins, its bytes.
type Part = (LogName, u64, Vec<u8>);

/// The copies of a rank. Clones are the same one; any thread may note.
#[derive(Clone, Debug)]
pub struct Mirror(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    bell: Bell,
    /// The ranks that get what this one notes.
    next: Vec<u32>,
}

#[derive(Debug, Default)]
struct State {
    /// Nothing is sent any more.
    is_over: bool,
    queue: VecDeque<(u32, Arc<Vec<u8>>)>,
    kept: BTreeMap<LogName, Vec<u8>>,
}

impl Mirror {
    /// The mirror of a rank of so many, with `copies` copies on other ranks. Those on other hosts come first, each on another one where ranks of a host
    /// have numbers in a row. `neighbours`: the ranks on the host of this one.
    pub(crate) fn new(bell: Bell, (rank, ranks): (u32, u32), neighbours: &[u32], copies: u32) -> Self {
        let on_host =
            u32::try_from(neighbours.iter().filter(|other| **other != rank).count()).unwrap_or(0) + 1;
        let far = (1..ranks.div_ceil(on_host)).map(|step| step * on_host).chain(1..ranks);
        let far = far.map(|step| (rank + step) % ranks).filter(|other| !neighbours.contains(other));
        let near = (1..ranks).map(|step| (rank + step) % ranks);
        let mut next = Vec::new();
        for other in far.chain(near) {
            if next.len() == copies as usize {
                break;
            }
            if other != rank && !next.contains(&other) {
                next.push(other);
            }
        }
        Self(Arc::new(Inner { state: Mutex::default(), bell, next }))
    }

    /// Sends a part of a log to those ranks.
    pub(crate) fn note(&self, log: LogName, offset: u64, bytes: &[u8]) {
        let part: Part = (log, offset, bytes.to_vec());
        let message = Arc::new(part.encoded());
        let to_each = self.0.next.iter().map(|to| (*to, Arc::clone(&message)));
        let mut state = self.lock();
        if !state.is_over {
            state.queue.extend(to_each);
        }
        drop(state);
        self.0.bell.ring();
    }

    /// The job has come to its end. What has not been sent is not needed, and its receiver may have left.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.queue.clear();
    }

    /// The next message, and the rank that gets it.
    pub(crate) fn next(&self) -> Option<(u32, Arc<Vec<u8>>)> {
        self.lock().queue.pop_front()
    }

    /// Keeps what another rank has noted. False: it is not valid. Parts of a log come in order, so one that does not continue what is kept is from before a
    /// write that failed, and is written again.
    pub(crate) fn keep(&self, message: &[u8]) -> bool {
        let Some((log, offset, bytes)) = Part::decode_all(message) else { return false };
        let mut state = self.lock();
        let kept = state.kept.entry(log).or_default();
        let Some(offset) = usize::try_from(offset).ok().filter(|offset| *offset <= kept.len()) else {
            return true;
        };
        kept.truncate(offset);
        kept.extend_from_slice(&bytes);
        true
    }

    /// The logs of other ranks that are kept here, as far as they have come.
    #[must_use]
    pub fn kept(&self) -> Vec<(LogName, Vec<u8>)> {
        self.lock().kept.iter().map(|(log, bytes)| (*log, bytes.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_go_to_other_hosts_first() {
        let next = |of, neighbours: &[u32], copies| {
            Mirror::new(Bell::default(), of, neighbours, copies).0.next.clone()
        };
        // Two ranks on each host, in a row.
        assert_eq!(next((0, 6), &[0, 1], 2), [2, 4]);
        assert_eq!(next((5, 6), &[4, 5], 3), [1, 3, 0]);
        // Dealt out in turn.
        assert_eq!(next((1, 6), &[1, 4], 2), [3, 5]);
        // One host.
        assert_eq!(next((2, 4), &[0, 1, 2, 3], 2), [3, 0]);
        assert_eq!(next((2, 4), &[0, 1, 3], 9), [3, 0, 1]);
    }

    #[test]
    fn parts_go_to_the_next_ranks_and_are_kept_in_order() {
        let mirror = |rank, ranks, copies| Mirror::new(Bell::default(), (rank, ranks), &[], copies);
        let log = LogName { run: 1, rank: 3, part: 0 };
        let own = mirror(3, 4, 2);
        own.note(log, 0, b"one ");
        own.note(log, 4, b"two");
        let sent: Vec<_> = std::iter::from_fn(|| own.next()).collect();
        assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [0, 1, 0, 1]);
        let other = mirror(0, 4, 2);
        for (_, message) in sent.iter().filter(|(to, _)| *to == 0) {
            assert!(other.keep(message));
        }
        assert_eq!(other.kept(), [(log, b"one two".to_vec())]);
        // A write is repeated; another one has a gap before it.
        own.note(log, 4, b"too");
        own.note(log, 9, b"lost");
        while let Some((_, message)) = own.next() {
            assert!(other.keep(&message));
        }
        assert_eq!(other.kept(), [(log, b"one too".to_vec())]);
        assert!(!other.keep(b"\xff"));
        own.note(log, 0, b"again");
        own.end();
        own.note(log, 5, b"and again");
        assert!(own.next().is_none());
        // There are no more than the others.
        mirror(0, 2, 5).note(log, 0, b"");
        assert_eq!(mirror(1, 3, 9).0.next, [2, 0]);
        assert!(mirror(0, 1, 1).0.next.is_empty());
    }
}
