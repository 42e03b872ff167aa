//! Frames of which nothing is done any more: directories that they say are done are gone, or are others. No I/O.
//!
//! The results of a frame are one sum, so they cannot be taken back for one directory. All of the frame is done again: what it says is done
//! ([`Fact::Done`](crate::Fact::Done), [`Fact::Closed`](crate::Fact::Closed)), its results and its parts of a catalog do not count. What it
//! says was found stays true. `fold/again.rs` finds these frames.

use std::collections::BTreeMap;

use crate::log::LogName;
use crate::record::Record;

/// What no longer counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Void {
    /// These frames: their logs, and where they begin.
    Frames(Vec<(LogName, u64)>),
    /// Everything that the logs say: so much is done again that what was found is of no use.
    All,
}

/// The frames that do not count, and the run that has found each of them.
#[derive(Debug, Default)]
pub(crate) struct Voids(BTreeMap<(LogName, u64), u32>);

impl Voids {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, frame: (LogName, u64), by: u32) {
        let before = self.0.entry(frame).or_insert(by);
        *before = by.max(*before);
    }

    /// The run that has found a frame.
    pub(crate) fn by(&self, (log, offset): (LogName, u64)) -> Option<u32> {
        self.0.get(&(log, offset)).copied()
    }

    /// Whether they are of logs of earlier runs than those that have found them, and none is newer than this one.
    pub(crate) fn are_older_than(&self, run: u32) -> bool {
        self.0.iter().all(|((log, _), by)| log.run < *by && *by <= run)
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'static>> + '_ {
        self.0.iter().map(|((log, offset), by)| Record::Void { log: *log, offset: *offset, by: *by })
    }
}
