//! Copies of logs in the memory of other ranks, for jobs without a directory that all ranks see. Each part of a log that a rank writes goes to
//! some others, which keep it. It is no message of a job or a meeting, waits for no answer, and is lost with its sender. It writes no files, and who gets
//! what is decided by `atta_ledger` (`copies.rs`).
//!
//! ```text
//!   log ── note ──▶ Mirror ── communicating thread ──▶ K other ranks: kept
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_ledger::{Copies, LogName, LogSoFar, receivers};

use crate::bell::Bell;

/// The copies of a rank. Clones are the same one; any thread may note.
#[derive(Clone, Debug)]
pub struct Mirror(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    copies: Mutex<Copies>,
    bell: Bell,
}

impl Mirror {
    /// The mirror of a rank of so many, with `copies` copies on other ranks. `neighbours`: the ranks on the host of this one.
    pub(crate) fn new(bell: Bell, rank_of_ranks: (u32, u32), neighbours: &[u32], copies: u32) -> Self {
        let copies = Mutex::new(Copies::new(receivers(rank_of_ranks, neighbours, copies)));
        Self(Arc::new(Inner { copies, bell }))
    }

    /// Sends a part of a log to those ranks.
    pub(crate) fn note(&self, log: LogName, offset: u64, bytes: &[u8]) {
        self.lock().note(log, offset, bytes);
        self.0.bell.ring();
    }

    /// The job has come to its end.
    pub(crate) fn end(&self) {
        self.lock().end();
    }

    /// The next message, and the rank that gets it.
    pub(crate) fn next(&self) -> Option<(u32, Arc<Vec<u8>>)> {
        self.lock().next_message()
    }

    /// Keeps what another rank has noted. False: it is not valid.
    pub(crate) fn keep(&self, message: &[u8]) -> bool {
        self.lock().keep(message)
    }

    /// The logs of other ranks that are kept here, as far as they have come.
    #[must_use]
    pub fn kept(&self) -> Vec<LogSoFar> {
        self.lock().kept()
    }

    fn lock(&self) -> MutexGuard<'_, Copies> {
        self.0.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_one_mirror() {
        let mirror = Mirror::new(Bell::default(), (3, 4), &[3], 1);
        let log = LogName { run: 1, rank: 3, part: 0 };
        mirror.clone().note(log, 0, b"frame");
        let (to, message) = mirror.next().unwrap();
        assert_eq!(to, 0);
        let other = Mirror::new(Bell::default(), (0, 4), &[0], 1);
        assert!(other.clone().keep(&message) && !other.keep(b"\xff"));
        assert_eq!(other.kept(), [(log, b"frame".to_vec())]);
        mirror.clone().end();
        mirror.note(log, 5, b"late");
        assert!(mirror.next().is_none());
    }
}
