//! The end of a copy, when no task is left on any rank: names that had to wait, the job's private directory, the last attributes and the
//! last sync. This module copies nothing itself.
//!
//! ```text
//!   all ranks: links that waited, data that waits to be durable; interrupted: directories get their final names
//!     ─▶ all, interrupted: incomplete data is removed ─▶ the first: roots get their final names, the job's directory is removed
//!     ─▶ all: directories closed last, deepest of all ranks first ─▶ all: the last sync ─▶ the first: totals
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use atta_entry::Errno;
use atta_runtime::{RankError, Results as _, Session};
use rustix::fs::{AtFlags, FlockOperation};

use crate::copy::commit::batch::Ready;
use crate::copy::handler::CopyOperation;
use crate::copy::links::Deferred;
use crate::copy::links::forget::{count_elsewhere, forget_links};
use crate::copy::options::{Existing, Fsync, Leftovers, Outcome};
use crate::copy::plan::beside::left_by;
use crate::copy::results::Results;
use crate::copy::resume::large::forget_begun;
use crate::copy::resume::noting::Noting;
use crate::copy::thread::Worker;

use crate::copy::results::times::{Clock, Phase, RankReport};
use crate::copy::target::Target;
use crate::copy::target::mirror::{CurrentSlice, Location, Mirror};

use crate::file::error::{FileError, Step};
use crate::tree::directory::Directory;
use crate::tree::journal::noter::Noter;
use crate::tree::life::Closer;
use crate::tree::location::below;
use crate::tree::operation::{Handler, Tasks};
use crate::tree::slice::{OpenSlices, hand_over};
use crate::tree::{self, Walked};
use atta_sys::{self as sys, retry};

/// A copy on one rank after its last task.
pub(super) struct Ending<'a> {
    operation: CopyOperation<'a>,
    walked: tree::Outcome<Worker, Results>,
    /// Slices that have not ended.
    open: OpenSlices<Arc<Mirror>>,
    /// The worker for everything done from here on.
    worker: Worker,
    clock: Clock,
    leftovers: Option<Leftovers>,
    /// What earlier runs of the job have come to, if there is a log of it.
    earlier: Option<Results>,
}

impl std::fmt::Debug for Ending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ending").field("seat", &self.operation.target.seat).finish_non_exhaustive()
    }
}

impl<'a> Ending<'a> {
    pub(super) fn new(
        operation: CopyOperation<'a>,
        walked: Walked<CopyOperation<'a>>,
        mut clock: Clock,
    ) -> Self {
        let Walked { outcome: walked, open } = walked;
        clock.end_after(Phase::Copying, walked.elapsed);
        let worker = operation.worker(walked.workers.len());
        Self { operation, walked, open, worker, clock, leftovers: None, earlier: None }
    }

    /// With what earlier runs of the job have come to.
    pub(super) fn with_earlier(self, earlier: Option<Results>) -> Self {
        Self { earlier, ..self }
    }

    /// Runs the steps together with the other ranks, up to [`end`](Self::end).
    ///
    /// # Errors
    /// The communication between ranks fails.
    pub(super) fn settle(&mut self, session: &mut Session<'_>) -> Result<(), RankError> {
        // Time spent waiting until all ranks have ended.
        self.clock.end(Phase::Others);
        let linked = session.beside(|| self.link_rest());
        let stopped = linked.and_then(|()| self.meet(session, u64::from(self.walked.stopped)));
        let is_left = match &stopped {
            Ok(stopped) => *stopped > 0,
            Err(error) => error.goes_on_elsewhere(),
        };
        if is_left && self.is_of_job() {
            // A later run of the job goes on with all that is there.
            self.leave();
            return stopped.map(drop);
        }
        if stopped.as_ref().is_err_and(RankError::goes_on_elsewhere) {
            // What the ranks leave under temporary names is known by the record.
            self.operation.target.private.keep();
        }
        stopped?;
        if session.is_first()
            && let Some(noting) = &self.operation.commit.noting
        {
            noting.end_log();
        }
        let left = session.beside(|| self.sweep())?;
        session.beside(|| self.log_links())?;
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

    /// Waits until all ranks reach this point. Returns the sum of their counts.
    fn meet(&mut self, session: &mut Session<'_>, counted: u64) -> Result<u64, RankError> {
        let sum = session.all_reduce(counted, |sum, more| *sum = sum.saturating_add(more))?;
        self.clock.end(Phase::Others);
        Ok(sum)
    }

    /// Makes the deferred names and publishes data that waits to be durable. Incomplete data is removed.
    fn link_rest(&mut self) {
        let Self { operation, walked, worker, clock, .. } = self;
        let deferred = operation.links.take_all();
        operation.make_all(worker, deferred);
        walked.stopped |= operation.target.options.walk.stop.is_set();
        clock.end(Phase::Links);
        self.finish_syncs();
        let Self { operation, worker, clock, open, .. } = self;
        operation.committer(worker).publish_rest();
        operation.forget_large(worker);
        operation.end_parts(worker, open);
        clock.end(Phase::Batch);
        self.check_rest();
        self.operation.end_parts(&mut self.worker, &self.open);
        self.clock.end(Phase::Verify);
        debug_assert!(self.is_all_closed(), "a directory without pending work stayed open");
        if self.walked.stopped && !self.is_of_job() {
            self.name_unfinished();
        }
    }

    /// Leaves everything to a later run of the job.
    fn leave(&mut self) {
        self.walked.stopped = true;
        // What has ended since the last sync is not done again.
        self.operation.committer(&mut self.worker).sync_held();
        self.operation.target.shared.take_open(0);
        self.operation.target.private.keep();
    }

    /// Whether only directories that have to wait for the end are still open.
    fn is_all_closed(&self) -> bool {
        let Self { operation, .. } = self;
        let seat = operation.target.seat;
        // On several ranks, two of them may have objects for one listed directory.
        let is_listed =
            |mirror: &Mirror| operation.target.is_listed && (mirror.denies_owner() || seat.ranks > 1);
        let may_wait = |mirror: &Arc<Mirror>| {
            operation.target.roots.has(mirror) || mirror.is_redone() || is_listed(mirror)
        };
        let is_interrupted = operation.target.options.walk.stop.is_set();
        is_interrupted || operation.target.shared.open.all().iter().all(may_wait)
    }

    /// Renames the directories of an interrupted copy to their final names, with the complete files in them.
    fn name_unfinished(&mut self) {
        let Self { operation, worker, .. } = self;
        // Directories of a list are made under their final names.
        if operation.target.is_listed {
            return;
        }
        let is_durable =
            operation.target.options.fsync != Fsync::Batch || operation.target.stores.sync().is_ok();
        for mirror in operation.target.shared.open.all() {
            if mirror.target.alias().is_none() {
                continue;
            }
            match mirror.own_since() {
                Some(since) if is_durable && since == operation.target.stores.failed_syncs() => {
                    let at = Location::Target(Arc::clone(&mirror.target));
                    operation.committer(worker).publish_now(&Ready::directory(at, mirror, None));
                }
                _ => {
                    operation.commit.leave();
                }
            }
        }
    }

    /// Removes incomplete files and empty directories of an interrupted copy. Runs after every rank has published its complete ones.
    /// Returns how many entries are left.
    fn sweep(&mut self) -> u64 {
        let Self { operation, walked, worker, .. } = self;
        if walked.stopped {
            let roots = operation.target.roots.mirrors().into_iter();
            let swept: Vec<_> = roots.chain(operation.target.shared.open.all()).collect();
            swept.iter().for_each(|mirror| operation.sweep_directory(worker, &mirror.target));
        }
        operation.commit.left_over() + self.failed_of_job()
    }

    /// Puts on storage what the log says of names that are links, before the links' directory is removed: a later run that makes such names
    /// again would not find their file.
    fn log_links(&mut self) {
        let Self { operation, worker, .. } = self;
        let has_log = operation.commit.noting.is_some() && operation.is_of_job();
        if !has_log || !operation.target.private.is_used() {
            return;
        }
        // The kernel reports a failure once.
        if let Err(errno) = operation.committer(worker).sync_stores() {
            let top = Location::Root(operation.target.top.path.clone());
            operation.maker(worker).fail(&top, FileError::new(Step::Sync, errno));
        }
        operation.commit.noting.iter().for_each(Noting::sync_log);
    }

    /// Entries that failed so far, if a later run of the job tries them again: what it needs for that is not removed.
    fn failed_of_job(&self) -> u64 {
        let Self { walked, worker, .. } = self;
        let of_workers = walked.workers.iter().chain([worker]).map(|worker| worker.results.totals.failed());
        let failed = of_workers.sum::<u64>() + walked.results.totals.failed();
        if self.operation.target.options.tries_again() { failed } else { 0 }
    }

    /// Whether a later run of a job may go on. Asked after a stop: a log that was not begun begins now.
    fn is_of_job(&self) -> bool {
        self.operation.is_of_job()
    }

    /// Waits for single syncs and handles their outcomes, on as many threads as have copied.
    fn finish_syncs(&mut self) {
        let Self { operation, walked, worker, open, .. } = self;
        let (operation, open) = (&*operation, &*open);
        std::thread::scope(|scope| {
            for other in walked.workers.iter_mut().skip(1) {
                scope.spawn(|| operation.finish_all(other, open));
            }
            operation.finish_all(worker, open);
        });
    }

    /// Reads back the remaining copies, on as many threads as have copied.
    fn check_rest(&mut self) {
        let Self { operation, walked, worker, open, .. } = self;
        if !walked.stopped {
            let (operation, open) = (&*operation, &*open);
            std::thread::scope(|scope| {
                for other in walked.workers.iter_mut().skip(1) {
                    scope.spawn(|| operation.check_all(other, open));
                }
                operation.check_all(worker, open);
            });
        }
        // The checks hold directories open, which still need their attributes.
        let left = operation.commit.checks.forget();
        worker.results.totals.not_verified += left;
        walked.stopped |= left > 0;
    }

    /// Removes the job's own files before their directory gets its times. `left`: how many entries have to stay, on all ranks.
    fn clean(&mut self, left: u64) {
        let is_tried_again = self.operation.target.options.tries_again() && left > 0;
        let forgotten = if is_tried_again { Ok(()) } else { self.forget_links() };
        let Self { operation, walked, worker, .. } = self;
        if let Err(errno) = forgotten {
            operation.commit.leave();
            operation
                .maker(worker)
                .fail(&Location::Root(operation.target.top.path.clone()), FileError::new(Step::Clean, errno));
        }
        if operation.is_repair {
            operation.repairer(worker).expect_roots();
        }
        if let Some(noting) = &operation.commit.noting {
            forget_begun(&operation.target, noting, &mut worker.scratch.held);
        }
        for mirror in operation.target.roots.mirrors() {
            // A directory that could not be read gets its final name, too.
            operation.committer(worker).name_root(mirror);
        }
        let is_left = left + operation.commit.left_over() > 0;
        let ended = match is_tried_again {
            true => {
                operation.target.private.keep();
                Ok(None)
            }
            false => {
                if is_left && !walked.stopped {
                    operation.target.private.note_end();
                }
                operation.end_job(is_left)
            }
        };
        match ended {
            Ok(leftovers) => self.leftovers = leftovers,
            Err(errno) => {
                operation.maker(worker).fail(
                    &Location::Root(operation.target.top.path.clone()),
                    FileError::new(Step::Clean, errno),
                );
            }
        }
        self.clock.end(Phase::Directories);
    }

    /// Removes the links' directory. The log has the number of names outside of the copy first: after that, nothing is left to count them by.
    fn forget_links(&mut self) -> Result<(), Errno> {
        let Self { operation, walked, worker, earlier, .. } = self;
        let (private, threads) = (&operation.target.private, walked.workers.len());
        // Otherwise some names were not visited, or existed already; or a run that ended here has counted them.
        let counts = !walked.stopped && operation.target.options.existing != Existing::Ignore;
        if counts && earlier.as_ref().is_none_or(|earlier| earlier.totals.elsewhere == 0) {
            let mut counted = Results::default();
            counted.totals.elsewhere = count_elsewhere(private, threads)?;
            if counted.totals.elsewhere > 0
                && let Some(noting) = &operation.commit.noting
            {
                noting.note_results(&counted);
            }
            worker.results.add(&counted);
        }
        forget_links(private, threads)
    }

    /// Depth of the deepest directory that waits for its attributes.
    fn deepest(&mut self) -> Option<u32> {
        self.operation.target.shared.deepest_open()
    }

    /// Sets the attributes of the directories at this depth or deeper.
    fn close(&mut self, depth: u32) {
        for mirror in self.operation.target.shared.take_open(depth) {
            self.operation.committer(&mut self.worker).close(&mirror);
        }
        self.clock.end(Phase::Directories);
    }

    /// Makes everything durable and returns the outcome of this rank.
    #[must_use]
    pub(super) fn end(mut self) -> Outcome {
        let Self { operation, worker, open, .. } = &mut self;
        let needs_none =
            operation.target.stores.are_volatile() || operation.target.options.fsync == Fsync::None;
        operation.finish_all(worker, open);
        let synced = if needs_none { Ok(()) } else { operation.target.stores.sync_last() };
        if let Err(errno) = synced {
            operation
                .maker(worker)
                .fail(&Location::Root(operation.target.top.path.clone()), FileError::new(Step::Sync, errno));
        }
        operation.finish(worker);
        // Closing is not enough: a child process may have inherited the descriptor.
        let _ = rustix::fs::flock(&self.operation.target.top.directory, FlockOperation::Unlock);
        let parked = self.operation.target.failures.space.is_full();
        self.clock.end(Phase::Sync);
        let rank = self.report();
        let Self { operation, walked, worker, leftovers, open, earlier, .. } = self;
        // Slices are open after a stop only.
        let of_open = open.all().into_iter().filter_map(|slice| slice.take_results());
        let of_threads = walked.workers.into_iter().chain([worker]).map(|worker| Box::new(worker.results));
        let mut results = walked.results;
        of_open.chain(of_threads).for_each(|more| results.add(&more));
        earlier.iter().for_each(|earlier| results.add(earlier));
        let Results { totals, report, signature, rows } = results;
        if !rows.is_empty() {
            operation.target.failures.watch.rows(rows);
        }
        // The signature is valid only for a whole copy.
        let is_read = totals.skipped == 0 && totals.not_hashed == 0;
        let is_whole = totals.failed() == 0 && is_read && !walked.stopped && !operation.target.is_listed;
        let signature = (operation.target.options.digest && is_whole).then_some(signature);
        let rank = RankReport { files: totals.files, ..rank };
        let (threads, elapsed, stopped) = (walked.threads, rank.elapsed(), walked.stopped);
        let exchanged = walked.exchanged;
        Outcome { totals, report, rank, signature, threads, elapsed, stopped, parked, leftovers, exchanged }
    }

    /// The report of this rank, without the counts of its threads.
    fn report(&self) -> RankReport {
        let Self { operation, walked, clock, .. } = self;
        let waiting: Duration = walked.threads.iter().map(|thread| thread.worker.waiting).sum();
        let lived: Duration = walked.workers.iter().map(|worker| worker.lived).sum();
        let (syncs, syncing) = operation.target.stores.syncs().read();
        RankReport {
            rank: operation.target.seat.rank,
            files: 0,
            bytes: operation.live.bytes.load(Ordering::Relaxed),
            phases: clock.phases(),
            busy: lived.saturating_sub(waiting),
            finding: walked.profile.readdir + walked.profile.stat,
            waiting,
            syncs,
            syncing,
        }
    }
}

impl CopyOperation<'_> {
    /// Ends the parts that have finished on this thread, with all that follows from that.
    fn end_parts(&self, worker: &mut Worker, open: &OpenSlices<Arc<Mirror>>) {
        let mut results = Results::default();
        loop {
            let ended = self.ended(worker, &mut results);
            if ended.is_empty() {
                break;
            }
            let tasks = &mut Tasks::default();
            let noter = &mut Noter::default();
            let mut closer = Closer { handler: self, worker, tasks, results: &mut results, open, noter };
            ended.iter().for_each(|part| closer.end_part(part));
        }
        hand_over(&mut results, &mut worker.results);
    }

    /// Waits for all queued syncs and handles their outcomes. Closes the directories that are complete then.
    fn finish_all(&self, worker: &mut Worker, open: &OpenSlices<Arc<Mirror>>) {
        while self.committer(worker).finish_next() {
            self.end_parts(worker, open);
        }
    }

    /// Reads back all waiting copies, unless the run is stopped.
    fn check_all(&self, worker: &mut Worker, open: &OpenSlices<Arc<Mirror>>) {
        while self.committer(worker).check_next() {
            self.end_parts(worker, open);
        }
    }

    /// Removes this job's incomplete entries in a directory.
    fn sweep_directory(&self, worker: &mut Worker, target: &Arc<Directory>) {
        let opened = target.descriptor(&mut worker.scratch.held, self.target.features);
        // A missing directory has no entries.
        let Ok(opened) = opened else { return };
        let names = sys::names_of(&opened, usize::MAX).unwrap_or_default();
        for name in names.iter().filter(|name| self.target.shared.namer.gave(name.to_bytes())) {
            let remove = |flags| retry(|| rustix::fs::unlinkat(&opened, name, flags));
            let removed = match remove(AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => remove(AtFlags::REMOVEDIR),
                removed => removed,
            };
            if removed.is_err_and(|errno| errno != Errno::NOENT) {
                self.commit.leave();
            }
        }
    }

    /// Removes the job's directory. Keeps it with its record if entries are left that it identifies, and returns these.
    fn end_job(&self, is_left: bool) -> Result<Option<Leftovers>, Errno> {
        let Target { top, shared, options, private, .. } = &self.target;
        let top = (&top.directory, top.path.as_slice());
        private.end(is_left, |record| left_by(top, &shared.namer, record, options))
    }

    /// Makes names whose files other threads or ranks were copying, unless the run is stopped.
    pub(super) fn make_all(&self, worker: &mut Worker, all: Vec<Deferred>) {
        for mut deferred in all {
            let current = std::mem::take(&mut worker.results);
            if !self.target.options.walk.stop.is_set() {
                self.make_deferred(worker, &deferred);
            }
            let own = std::mem::replace(&mut worker.results, current);
            worker.ended.add(deferred.part.take(), own);
        }
    }

    /// Makes a name whose file another thread or rank was copying.
    fn make_deferred(&self, worker: &mut Worker, deferred: &Deferred) {
        let kind = deferred.metadata.kind();
        let made = match self.linker(worker).link_deferred(deferred) {
            Ok(made) => made,
            Err(error) => return self.maker(worker).fail(&deferred.at, error),
        };
        if self.target.options.digest {
            let (root, path) = deferred.at.root_and_path();
            let path = below(&path, root.len());
            worker.results.signature.add(&made.element(path, kind));
        }
        let slice = deferred.part.as_ref().map(CurrentSlice::of_part);
        let to = self.maker(worker).place(&deferred.mirror, &deferred.name);
        match to.map(|to| to.within(slice.as_ref())) {
            Ok(to) => match self.maker(worker).note(&to, kind, &made) {
                Ok(()) => self.committer(worker).complete(&deferred.at, &to, made),
                Err(error) => self.maker(worker).fail(&deferred.at, error),
            },
            Err(error) => self.maker(worker).fail(&deferred.at, error),
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
    use crate::copy::options::Options;
    use crate::copy::{Copy, Seat};

    /// The time spent waiting for the bandwidth cap is reported: more threads would not help.
    #[test]
    fn fixed_thread_count_obeys_the_byte_cap() {
        let scratch = Scratch::new("cap").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::write(&source, "source").unwrap();
        let (sources, target) = ([source.as_os_str().as_bytes().to_vec()], target.as_os_str().as_bytes());
        let rate = Arc::new(atta_runtime::Rate::per_second(1000));
        let options = Options { bandwidth: Some(Arc::clone(&rate)), ..Options::default() };
        let copy = Copy::prepare(&sources, target, &options, &NothingFails, Seat::alone()).unwrap();
        assert_eq!(copy.operation.throttled(), Duration::ZERO);
        rate.acquire(50, &atta_runtime::Stop::new());
        rate.acquire(1, &atta_runtime::Stop::new());
        assert!(copy.operation.throttled() > Duration::ZERO);
    }
}
