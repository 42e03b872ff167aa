//! What a copy ends when no task is left on a rank: names that had to wait for a copy, entries that wait for a sync, copies that wait to be
//! read back. Directories close then, as after any other task. It does none of that itself.

use std::sync::atomic::Ordering;

use crate::copy::handler::{CopyWorker, Copying};

impl Copying<'_> {
    /// Whether anything waits that this rank can end.
    pub(super) fn has_waiting(&self) -> bool {
        self.batch.waits()
            || self.syncing.has_any()
            || self.checks.count.load(Ordering::Relaxed) > 0
            || (self.repair.is_none() && self.links.have_new())
    }

    /// Ends what waits, but for copies to read back. Returns whether there are any.
    pub(super) fn end_waiting(&self, worker: &mut CopyWorker) -> bool {
        if self.repair.is_none() {
            // On one rank no thread is copying now: a name without a copy never gets one.
            self.make_waiting_links(worker, self.seat.ranks == 1);
        }
        self.finish_all(worker);
        self.publish_waiting(worker);
        self.checks.count.load(Ordering::Relaxed) > 0
    }

    /// Makes some of the names that had to wait, between two tasks, if there are many.
    pub(super) fn make_some_links(&self, worker: &mut CopyWorker) {
        if self.repair.is_none() && self.links.are_many() {
            self.make_waiting_links(worker, false);
        }
    }

    /// Makes names that had to wait; all of them, or those whose file is complete.
    fn make_waiting_links(&self, worker: &mut CopyWorker, all: bool) {
        let mut deferred = self.links.take_deferred();
        if !all {
            let waiting = deferred.extract_if(.., |deferred| !self.has_copy(deferred)).collect();
            self.links.put_back(waiting);
        }
        self.make_all(worker, deferred);
    }
}
