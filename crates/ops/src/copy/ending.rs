//! What is done when no task is left on any rank: names that had to wait, the job's own directory, the last attributes, the last
//! sync. It copies nothing by itself.
//!
//! ```text
//!   all ranks: links that waited, what waits to be durable; interrupted: directories get their names
//!     ─▶ all, interrupted: what is not complete is removed ─▶ the first: roots get their names, the job's directory goes
//!     ─▶ all: directories that come late, the deepest of all ranks first ─▶ all: the last sync ─▶ the first: totals
//! ```

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use atta_entry::Errno;
use atta_runtime::{RankError, Session};
use rustix::fs::{AtFlags, FlockOperation};

use crate::copy::commit::publish::Ready;
use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::links::Deferred;
use crate::copy::plan::beside::{Leftovers, left_by};
use crate::copy::target::existing::Existing;
use crate::copy::target::mirror::Mirror;
use crate::copy::times::{Clock, Phase, RankReport};
use crate::copy::{Fsync, Outcome};
use crate::file::error::{FileError, Step};
use crate::tree;
use crate::tree::directory::Directory;
use crate::tree::location::{Location, below};
use crate::tree::operation::Handler;
use crate::tree::slice::AtHand;
use atta_sys::{self as sys, retry};

/// A copy on one rank whose tasks are done.
pub(super) struct Ending<'a> {
    copying: Copying<'a>,
    walked: tree::Outcome<CopyWorker>,
    /// What is done from here on.
    worker: CopyWorker,
    clock: Clock,
    leftovers: Option<Leftovers>,
}

impl std::fmt::Debug for Ending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ending").field("seat", &self.copying.seat).finish_non_exhaustive()
    }
}

impl<'a> Ending<'a> {
    pub(super) fn new(copying: Copying<'a>, walked: tree::Outcome<CopyWorker>, mut clock: Clock) -> Self {
        clock.end_after(Phase::Copying, walked.elapsed);
        let worker = copying.worker(walked.workers.len());
        Self { copying, walked, worker, clock, leftovers: None }
    }

    /// Does all of it together with the other ranks, up to [`end`](Self::end).
    ///
    /// # Errors
    /// The fabric fails.
    pub(super) fn settle(&mut self, session: &mut Session<'_>) -> Result<(), RankError> {
        // That all ranks have ended.
        self.clock.end(Phase::Others);
        session.beside(|| self.link_rest())?;
        self.meet(session, 0)?;
        let left = session.beside(|| self.sweep())?;
        let left = self.meet(session, left)?;
        if session.is_first() {
            session.beside(|| self.clean(left))?;
        }
        self.meet(session, 0)?;
        loop {
            let own = session.beside(|| self.deepest())?.map_or(0, |depth| depth + 1);
            let deepest = session.all_reduce(own, |deepest, other| *deepest = other.max(*deepest))?;
            self.clock.end(Phase::Others);
            let Some(depth) = deepest.checked_sub(1) else { return Ok(()) };
            session.beside(|| self.close(depth))?;
        }
    }

    /// Returns when all ranks have come so far: the sum of what each has counted.
    fn meet(&mut self, session: &mut Session<'_>, counted: u64) -> Result<u64, RankError> {
        let sum = session.all_reduce(counted, |sum, more| *sum = sum.saturating_add(more))?;
        self.clock.end(Phase::Others);
        Ok(sum)
    }

    /// Makes the names that waited for others, and names what waits to be durable. What was not completed is removed.
    fn link_rest(&mut self) {
        let Self { copying, walked, worker, clock, .. } = self;
        let deferred = copying.links.take_deferred();
        if !walked.stopped {
            copying.find_partners(worker, &deferred);
        }
        for deferred in deferred {
            walked.stopped |= copying.options.walk.stop.is_set();
            if !walked.stopped {
                copying.make_deferred(worker, &deferred);
            }
            worker.ended.extend(deferred.part);
        }
        clock.end(Phase::Links);
        self.finish_syncs();
        let Self { copying, worker, clock, .. } = self;
        copying.publish_rest(worker);
        copying.forget_large(worker);
        copying.end_parts(worker);
        clock.end(Phase::Batch);
        self.check_rest();
        self.copying.end_parts(&mut self.worker);
        self.clock.end(Phase::Verify);
        debug_assert!(self.is_all_closed(), "a directory that nobody has anything to do in stayed open");
        if self.walked.stopped {
            self.name_unfinished();
        }
    }

    /// Whether no directory waits for the end but those that have to.
    fn is_all_closed(&self) -> bool {
        let Self { copying, .. } = self;
        let may_wait =
            |mirror: &Arc<Mirror>| copying.roots.has(mirror) || copying.is_listed && mirror.waits_for_end();
        let is_interrupted = copying.options.walk.stop.is_set();
        is_interrupted || copying.seat.ranks > 1 || copying.shared.open.all().iter().all(may_wait)
    }

    /// Gives the directories of an interrupted copy their names, with those files in them that are complete.
    fn name_unfinished(&mut self) {
        let Self { copying, worker, .. } = self;
        let is_durable = copying.options.fsync != Fsync::Batch || copying.sync().is_ok();
        for mirror in copying.shared.open.all() {
            if mirror.target.alias().is_none() {
                continue;
            }
            match mirror.own_since() {
                Some(since) if is_durable && since == copying.batch.failures() => {
                    let at = Location::Itself(Arc::clone(&mirror.target));
                    copying.publish_now(worker, &Ready::directory(at, mirror, None));
                }
                _ => {
                    copying.left_over.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Removes what an interrupted copy has not completed, when every rank has named what is: files, and directories that nobody has
    /// entered. How much of it is left.
    fn sweep(&mut self) -> u64 {
        let Self { copying, walked, worker, .. } = self;
        if walked.stopped {
            let roots = copying.roots.mirrors().into_iter();
            let swept: Vec<_> = roots.chain(copying.shared.open.all()).collect();
            swept.iter().for_each(|mirror| copying.sweep_directory(worker, &mirror.target));
        }
        copying.left_over.load(Ordering::Relaxed)
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

    /// Removes what the job has made for itself, before the directory that it is in gets its times. `left`: so much of it has to stay,
    /// on all ranks.
    fn clean(&mut self, left: u64) {
        let Self { copying, walked, worker, .. } = self;
        match copying.forget_links(walked.workers.len()) {
            // Else names were not met, or were there.
            Ok(elsewhere) if !walked.stopped && copying.options.existing != Existing::Ignore => {
                worker.totals.elsewhere += elsewhere;
            }
            Ok(_) => {}
            Err(errno) => {
                copying.left_over.fetch_add(1, Ordering::Relaxed);
                copying.fail(
                    worker,
                    &Location::Root(copying.target.clone()),
                    FileError::new(Step::Clean, errno),
                );
            }
        }
        if copying.repair.is_some() {
            copying.expect_roots(worker);
        }
        for mirror in copying.roots.mirrors() {
            // A directory that could not be read has its name all the same.
            copying.name_root(worker, mirror);
        }
        let is_left = left + copying.left_over.load(Ordering::Relaxed) > 0;
        let ended = copying.end_job(is_left);
        match ended {
            Ok(leftovers) => self.leftovers = leftovers,
            Err(errno) => {
                copying.fail(
                    worker,
                    &Location::Root(copying.target.clone()),
                    FileError::new(Step::Clean, errno),
                );
            }
        }
        self.clock.end(Phase::Directories);
    }

    /// How deep the deepest directory is that waits for its attributes.
    fn deepest(&mut self) -> Option<u32> {
        self.copying.shared.deepest_open()
    }

    /// Gives attributes to the directories that are so deep or deeper.
    fn close(&mut self, depth: u32) {
        for mirror in self.copying.shared.take_open(depth) {
            self.copying.close(&mut self.worker, &mirror);
        }
        self.clock.end(Phase::Directories);
    }

    /// Makes all of it durable, and says what there is: of this rank.
    #[must_use]
    pub(super) fn end(mut self) -> Outcome {
        let Self { copying, worker, .. } = &mut self;
        let needs_none = copying.stores.are_volatile() || copying.options.fsync == Fsync::None;
        copying.finish_all(worker);
        let synced = if needs_none { Ok(()) } else { copying.sync_last() };
        if let Err(errno) = synced {
            copying.fail(worker, &Location::Root(copying.target.clone()), FileError::new(Step::Sync, errno));
        }
        copying.finish(worker);
        // Closing would not do: a child process of the program may have the descriptor, too.
        let _ = rustix::fs::flock(&self.copying.top, FlockOperation::Unlock);
        let parked = self.copying.room.is_gone();
        self.clock.end(Phase::Sync);
        let rank = self.report();
        let Self { copying, walked, worker, leftovers, .. } = self;
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
        let exchanged = walked.exchanged;
        Outcome { totals, report, rank, signature, threads, elapsed, stopped, parked, leftovers, exchanged }
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
    /// Removes what this job has not completed in a directory.
    fn sweep_directory(&self, worker: &mut CopyWorker, target: &Arc<Directory>) {
        let opened = target.descriptor(&mut worker.held, self.features);
        // A directory that is not there has nothing in it.
        let Ok(opened) = opened else { return };
        let names = sys::names_of(&opened, usize::MAX).unwrap_or_default();
        for name in names.iter().filter(|name| self.shared.namer.gave(name.to_bytes())) {
            let remove = |flags| retry(|| rustix::fs::unlinkat(&opened, name, flags));
            let removed = match remove(AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => remove(AtFlags::REMOVEDIR),
                removed => removed,
            };
            if removed.is_err_and(|errno| errno != Errno::NOENT) {
                self.left_over.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Removes the job's own directory, or leaves it with the record if something is left that it proves: what that is.
    fn end_job(&self, is_left: bool) -> Result<Option<Leftovers>, Errno> {
        let mut job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(job) = job.as_mut() else { return Ok(None) };
        if !is_left {
            return job.end().map(|()| None);
        }
        job.keep();
        Ok(Some(left_by((&self.top, self.target.as_slice()), &self.shared.namer, job.record(), self.options)))
    }

    /// Makes a name whose file somebody else was copying.
    fn make_deferred(&self, worker: &mut CopyWorker, deferred: &Deferred) {
        let kind = deferred.metadata.kind();
        let made = match self.repair {
            Some(_) => self.make_put_off(worker, deferred),
            None => self.link_deferred(worker, deferred).map(Some),
        };
        let made = match made {
            Ok(Some(made)) => made,
            // Whoever was to copy it has failed.
            Ok(None) => return self.fail(worker, &deferred.at, FileError::new(Step::Link, Errno::NOENT)),
            Err(error) => return self.fail(worker, &deferred.at, error),
        };
        if self.options.digest {
            let (root, path) = deferred.at.root_and_path();
            let path = below(&path, root.len());
            self.sign(worker, path, kind, &made);
        }
        let name = deferred.name();
        let slice = deferred.part.as_ref().map(AtHand::of_part);
        let to = self.place(worker, &deferred.mirror, &name);
        match to.map(|to| to.within(slice.as_ref())) {
            Ok(to) => self.complete(worker, &deferred.at, &to, kind, made),
            Err(error) => self.fail(worker, &deferred.at, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Arc;

    use atta_testkit::scratch::Scratch;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::{Copy, Options, Seat};

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
