//! What a copy ends when no task is left on a rank: names that had to wait for a copy, entries that wait for a sync, copies that wait to be
//! read back, names that a repair has put off. Directories close then, as after any other task. It does none of that itself.

use crate::copy::handler::CopyOperation;
use crate::copy::thread::Worker;
use crate::tree::start::Seed;

impl CopyOperation<'_> {
    /// Whether anything waits that this rank can end.
    pub(super) fn has_waiting(&self) -> bool {
        self.commit.waits() || self.links.are_due() || self.has_later()
    }

    /// Ends what waits, but for copies to read back. Returns whether there are any.
    pub(super) fn end_waiting(&self, worker: &mut Worker) -> bool {
        self.make_waiting_links(worker);
        let mut committer = self.committer(worker);
        while committer.finish_next() {}
        committer.publish_waiting();
        committer.sync_if_idle();
        self.commit.has_checks()
    }

    /// Names to look at now that nothing else is left to do.
    pub(super) fn more(&self, worker: &mut Worker) -> Vec<Seed> {
        let is_done = !self.commit.waits() && !self.links.are_due();
        if is_done { self.take_later(worker) } else { Vec::new() }
    }

    /// Makes some of the names that had to wait, between two tasks, if there are many.
    pub(super) fn make_some_links(&self, worker: &mut Worker) {
        if self.links.are_many() {
            self.make_waiting_links(worker);
        }
    }

    /// Makes names that had to wait, but those whose file is being copied.
    fn make_waiting_links(&self, worker: &mut Worker) {
        let linker = self.linker(worker);
        let due = self.links.take_due(|key| linker.is_copied(key));
        self.make_all(worker, due);
    }
}
