//! What is done when no task is left on any rank: names that had to wait, the job's own directory, the last attributes, the last
//! sync. It copies nothing by itself.
//!
//! ```text
//!   all ranks: links that waited, what waits to be durable ─▶ the first: the job's directory goes, roots get their names
//!     ─▶ all: directories that come late, the deepest of all ranks first ─▶ all: the last sync ─▶ the first: totals
//! ```

use std::sync::atomic::Ordering;
use std::time::Duration;

use atta_runtime::{Meeting, RankError};

use super::existing::Existing;
use super::handler::{CopyWorker, Copying, Where, below};
use super::links::Deferred;
use super::times::{Clock, Phase, RankReport};
use super::trouble::{Doing, Trouble};
use super::{Fsync, Outcome};
use crate::walk;
use crate::walk::visit::Handler;

/// A copy on one rank whose tasks are done.
pub struct Ending<'a> {
    copying: Copying<'a>,
    walked: walk::Outcome<CopyWorker>,
    /// What is done from here on.
    worker: CopyWorker,
    clock: Clock,
}

impl std::fmt::Debug for Ending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ending").field("seat", &self.copying.seat).finish_non_exhaustive()
    }
}

impl<'a> Ending<'a> {
    pub(super) fn new(copying: Copying<'a>, walked: walk::Outcome<CopyWorker>, mut clock: Clock) -> Self {
        clock.end(Phase::Copying);
        let worker = copying.worker(walked.workers.len());
        Self { copying, walked, worker, clock }
    }

    /// Does all of it together with the other ranks, up to [`end`](Self::end).
    ///
    /// # Errors
    /// The fabric fails.
    pub fn settle(&mut self, meeting: &mut Meeting<'_>) -> Result<(), RankError> {
        // That all ranks have ended.
        self.clock.end(Phase::Others);
        self.link_rest();
        self.meet(meeting)?;
        if self.copying.seat.rank == 0 {
            self.clean();
        }
        self.meet(meeting)?;
        loop {
            let own = self.deepest().map_or(0, |depth| depth + 1);
            let deeper = |one: &[u8], other: &[u8]| one.max(other).to_vec();
            let deepest = meeting.gather(own.to_be_bytes().to_vec(), deeper)?;
            let said = meeting.tell(deepest)?;
            let deepest = said.try_into().map_or(0, u32::from_be_bytes);
            self.clock.end(Phase::Others);
            let Some(depth) = deepest.checked_sub(1) else { return Ok(()) };
            self.close(depth);
        }
    }

    /// Returns when all ranks have come so far.
    fn meet(&mut self, meeting: &mut Meeting<'_>) -> Result<(), RankError> {
        let there = meeting.gather(Vec::new(), |_, _| Vec::new())?;
        meeting.tell(there)?;
        self.clock.end(Phase::Others);
        Ok(())
    }

    /// Makes the names that waited for others, and names what waits to be durable. What was not completed is removed.
    pub(super) fn link_rest(&mut self) {
        let Self { copying, walked, worker, clock } = self;
        for deferred in copying.links.take_deferred() {
            walked.stopped |= copying.options.walk.stop.is_set();
            if !walked.stopped {
                copying.make_deferred(worker, &deferred);
            }
        }
        // Their last parts left this rank when it had nothing else to do.
        for directory in copying.shared.take_nameless() {
            copying.name_directory(worker, &directory);
        }
        clock.end(Phase::Links);
        self.finish_syncs();
        let Self { copying, worker, clock, .. } = self;
        copying.publish_rest(worker);
        copying.forget_large(worker);
        clock.end(Phase::Batch);
        self.check_rest();
        self.clock.end(Phase::Verify);
    }

    /// Waits for what is synced by itself, and does what follows on as many threads as have copied.
    fn finish_syncs(&mut self) {
        let Self { copying, walked, worker, .. } = self;
        let copying = &*copying;
        std::thread::scope(|scope| {
            for other in walked.workers.iter_mut().skip(1) {
                scope.spawn(|| copying.finish_all(other));
            }
            copying.finish_all(worker);
        });
    }

    /// Reads back what was not yet, on as many threads as have copied.
    fn check_rest(&mut self) {
        let Self { copying, walked, worker, .. } = self;
        if !walked.stopped {
            let copying = &*copying;
            std::thread::scope(|scope| {
                for other in walked.workers.iter_mut().skip(1) {
                    scope.spawn(|| copying.check_all(other));
                }
                copying.check_all(worker);
            });
        }
        // It holds directories, which are to get what they are to have.
        let left = copying.checks.forget();
        worker.totals.not_verified += left;
        walked.stopped |= left > 0;
    }

    /// Removes what the job has made for itself, before the directory that it is in gets its times.
    pub(super) fn clean(&mut self) {
        let Self { copying, walked, worker, .. } = self;
        match copying.forget_links(walked.workers.len()) {
            // Else names were not met, or were there.
            Ok(elsewhere) if !walked.stopped && copying.options.existing != Existing::Ignore => {
                worker.totals.elsewhere += elsewhere;
            }
            Ok(_) => {}
            Err(errno) => {
                copying.fail(worker, &Where::Root(copying.target.clone()), Trouble::new(Doing::Clean, errno));
            }
        }
        for mirror in copying.roots.mirrors() {
            // A directory that could not be read has its name all the same.
            copying.name_root(worker, mirror);
        }
        self.clock.end(Phase::Directories);
    }

    /// How deep the deepest directory is that waits for its attributes.
    pub(super) fn deepest(&mut self) -> Option<u32> {
        // They hold the directories of the roots.
        self.copying.roots.clear();
        let complete = self.copying.shared.take_complete();
        self.copying.close(&mut self.worker, complete);
        self.clock.end(Phase::Directories);
        self.copying.shared.deepest_late()
    }

    /// Gives attributes to the directories that are so deep or deeper.
    pub(super) fn close(&mut self, depth: u32) {
        let late = self.copying.shared.take_late(depth);
        self.copying.close(&mut self.worker, late);
        self.clock.end(Phase::Directories);
    }

    /// Makes all of it durable, and says what there is: of this rank.
    #[must_use]
    pub fn end(mut self) -> Outcome {
        let Self { copying, worker, .. } = &mut self;
        let needs_none = copying.stores.are_volatile() || copying.options.fsync == Fsync::None;
        copying.finish_all(worker);
        let synced = if needs_none { Ok(()) } else { copying.sync_last() };
        if let Err(errno) = synced {
            copying.fail(worker, &Where::Root(copying.target.clone()), Trouble::new(Doing::Sync, errno));
        }
        copying.finish(worker);
        let parked = self.copying.room.is_gone();
        self.clock.end(Phase::Sync);
        let rank = self.report();
        let Self { copying, walked, worker, .. } = self;
        let (mut totals, mut signature, mut report) = (worker.totals, worker.signature, worker.report);
        for worker in &walked.workers {
            totals += &worker.totals;
            report += &worker.report;
            signature.merge(&worker.signature);
        }
        // It would be that of a whole copy.
        let is_read = totals.skipped == 0 && totals.not_hashed == 0;
        let is_whole = totals.failed() == 0 && is_read && !walked.stopped && !copying.is_listed;
        let signature = (copying.options.digest && is_whole).then_some(signature);
        let rank = RankReport { files: totals.files, ..rank };
        let (threads, elapsed, stopped) = (walked.threads, rank.elapsed(), walked.stopped);
        Outcome { totals, report, rank, signature, threads, elapsed, stopped, parked }
    }

    /// What this rank did, but for what its threads have counted for themselves.
    fn report(&self) -> RankReport {
        let Self { copying, walked, clock, .. } = self;
        let waiting: Duration = walked.threads.iter().map(|thread| thread.worker.waiting).sum();
        let lived: Duration = walked.workers.iter().map(|worker| worker.lived).sum();
        let (syncs, syncing) = copying.syncs.read();
        RankReport {
            rank: copying.seat.rank,
            files: 0,
            bytes: copying.live.bytes.load(Ordering::Relaxed),
            phases: clock.phases(),
            busy: lived.saturating_sub(waiting),
            finding: walked.profile.readdir + walked.profile.stat,
            waiting,
            syncs,
            syncing,
        }
    }
}

impl Copying<'_> {
    /// Makes a name whose file somebody else was copying.
    fn make_deferred(&self, worker: &mut CopyWorker, deferred: &Deferred) {
        let kind = deferred.metadata.kind();
        let made = match self.link_deferred(worker, deferred) {
            Ok(made) => made,
            Err(trouble) => return self.fail(worker, &deferred.at, trouble),
        };
        if self.options.digest {
            let (root, path) = deferred.at.told();
            let path = below(&path, root.len());
            self.sign(worker, path, kind, &made);
        }
        let name = deferred.name();
        let to = self.place(worker, &deferred.mirror, &name);
        match to {
            Ok(to) => self.complete(worker, &deferred.at, &to, kind, made),
            Err(trouble) => self.fail(worker, &deferred.at, trouble),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{CString, OsStr};
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Arc;

    use atta_testkit::scratch::Scratch;

    use super::super::mirror::Mirror;
    use super::super::nothing_fails::NothingFails;
    use super::super::{Copy, Options, Seat};
    use super::*;
    use crate::walk::directory::Directory;
    use crate::walk::kernel::Place;

    #[test]
    fn a_directory_whose_last_part_left_a_rank_that_has_nothing_else_to_do_gets_its_name() {
        let scratch = Scratch::new("ending").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::create_dir_all(source.join("new")).unwrap();
        fs::create_dir(&target).unwrap();
        let (sources, options) = ([source.as_os_str().as_bytes().to_vec()], Options::default());
        let prepared =
            Copy::prepare(&sources, target.as_os_str().as_bytes(), &options, &NothingFails, Seat::alone());
        let Copy { copying, .. } = prepared.unwrap();
        let walked = walk::run_handler(&copying, std::iter::empty(), &options.walk, |_| {});
        let (path, opened) = (CString::new(sources[0].clone()).unwrap(), fs::File::open(&source).unwrap());
        let place = Place { device: 1, inode: 1, mount: 1 };
        let root = Directory::root(path, 0, Arc::new(opened.into()), place);
        copying.root(&root);
        let new = Arc::new(Directory::below(&root, c"new", None));
        let mirror = Mirror::of(&new).unwrap();
        let alias = |mirror: &Mirror| mirror.target.alias().unwrap().to_bytes().to_vec();
        let above = target.join(OsStr::from_bytes(&alias(&Mirror::of(&root).unwrap())));
        fs::create_dir_all(above.join(OsStr::from_bytes(&alias(&mirror)))).unwrap();
        mirror.set_new(0);
        mirror.parts.set(1);
        drop(mirror);
        copying.packed(&new, true);
        Ending::new(copying, walked, Clock::start()).link_rest();
        assert!(above.join("new").is_dir());
    }

    /// More threads than there are would only hold work that others could have.
    #[test]
    fn whoever_chooses_the_number_of_threads_hears_of_the_cap_on_bytes() {
        let scratch = Scratch::new("cap").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::write(&source, "source").unwrap();
        let (sources, target) = ([source.as_os_str().as_bytes().to_vec()], target.as_os_str().as_bytes());
        let rate = Arc::new(atta_runtime::Rate::per_second(1000));
        let options = Options { bandwidth: Some(Arc::clone(&rate)), ..Options::default() };
        let copy = Copy::prepare(&sources, target, &options, &NothingFails, Seat::alone()).unwrap();
        assert_eq!(copy.copying.throttled(), Duration::ZERO);
        rate.acquire(50, &atta_runtime::Stop::new());
        rate.acquire(1, &atta_runtime::Stop::new());
        assert!(copy.copying.throttled() > Duration::ZERO);
    }
}
