//! What a copy ends when no task is left on a rank: names that had to wait for a copy, entries that wait for a sync, copies that wait to be
//! read back. Directories close then, as after any other task. It does none of that itself.

use crate::copy::handler::CopyOperation;
use crate::copy::thread::Worker;

impl CopyOperation<'_> {
    /// Whether anything waits that this rank can end.
    pub(super) fn has_waiting(&self) -> bool {
        self.commit.waits() || (!self.is_repair && self.links.have_new())
    }

    /// Ends what waits, but for copies to read back. Returns whether there are any.
    pub(super) fn end_waiting(&self, worker: &mut Worker) -> bool {
        if !self.is_repair {
            // On one rank no thread is copying now: a name without a copy never gets one.
            self.make_waiting_links(worker, self.target.seat.ranks == 1);
        }
        let mut committer = self.committer(worker);
        while committer.finish_next() {}
        committer.publish_waiting();
        self.commit.has_checks()
    }

    /// Makes some of the names that had to wait, between two tasks, if there are many.
    pub(super) fn make_some_links(&self, worker: &mut Worker) {
        if !self.is_repair && self.links.are_many() {
            self.make_waiting_links(worker, false);
        }
    }

    /// Makes names that had to wait; all of them, or those whose file is complete.
    fn make_waiting_links(&self, worker: &mut Worker, all: bool) {
        let mut deferred = self.links.take_deferred();
        if !all {
            let linker = self.linker(worker);
            let waiting = deferred.extract_if(.., |deferred| !linker.has_copy(deferred)).collect();
            self.links.put_back(waiting);
        }
        self.make_all(worker, deferred);
    }
}
