//! The walk's handler for comparisons. It looks up each entry of SOURCE in TARGET and compares it there. Large files, and names that exist
//! in TARGET only, become tasks.
//!
//! ```text
//!   entry ─▶ not in TARGET: missing; what is below it is not walked
//!        ├─▶ compared ─▶ the same, or different
//!        └─▶ a large file whose bytes are compared ─▶ large.rs
//!   all names of a directory looked at, on all ranks ─▶ has TARGET more? ─▶ extra.rs
//!   all done ─▶ which names are one file ─▶ links.rs
//! ```

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_entry::{Code as _, Entry, Errno, Failure, Field, Kind, Metadata, Operation, Side};
use atta_runtime::{Rate, Results as _, Seat, Stop};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;

use super::counterpart::Counterpart;
use super::counterpart::SourceDirectory;
use super::counterpart::{CurrentPath, Here, Tasks};
use super::equal::Equal;
use super::findings::Findings;
use super::links;
use super::pair::{At, Both, Finding, Named, Pair, Verdict};
use super::tally::Key;
use super::task::Task;
use super::{Options, Trees, Watch};
use crate::descriptors::{Budget, Needs};
use crate::file::chunks::UnderWay;
use crate::file::compare::Blocks;
use crate::file::error::failed;
use crate::file::mover::Mover;
use crate::file::source::Source;
use crate::large::log::LargeLog;
use crate::large::{self, Chunked as _, LargeFiles, Plan};
use crate::metadata::granularity::Shown;
use crate::tree::listing::descriptor_cache::DescriptorCache;
use crate::tree::mark;
use crate::tree::operation::{Again, Cx, Handler, Stage};
use crate::tree::progress::Counted;
use atta_sys::{self as sys, Features};

/// The walk's handler for comparisons. `LOGGED`: the run has a log. Then slices keep what a later run has to know, and directories are followed until
/// they are closed.
pub(crate) struct Comparing<'a, const LOGGED: bool> {
    pub(crate) options: &'a Options<'a>,
    pub(crate) watch: &'a dyn Watch,
    pub(crate) trees: &'a Trees,
    /// Key of the name hashes.
    key: Key,
    pub(crate) large: LargeFiles<Self>,
    pub(crate) seat: Seat,
    pub(crate) equal: Equal,
    /// Time granularity of the target's file systems.
    pub(crate) granularity: Shown,
    pub(crate) live: Live,
    /// Number of directory descriptors that each thread keeps open.
    held: usize,
    pub(crate) log: Option<LargeLog<'a, Findings>>,
}

/// The place of this rank, and the key of name hashes, which all ranks have.
pub(crate) struct Ranks {
    pub(crate) seat: Seat,
    pub(crate) key: Key,
}

/// The share of the walk's memory for equal files with several names, as a divisor.
const EQUAL_PART: u64 = 4;

/// Live counts, for the observer.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) differences: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// State of one thread.
pub(crate) struct VerifyWorker {
    pub(crate) held: DescriptorCache,
    pub(crate) blocks: Blocks,
    /// Reads files whose reported size is unreliable.
    pub(crate) mover: Mover,
    /// Buffer for names of extended attributes.
    pub(crate) attribute_names: Vec<u8>,
    /// Buffer for names of a directory.
    pub(crate) buffer: Vec<MaybeUninit<u8>>,
    pub(crate) current: CurrentPath,
    pub(crate) names: links::Names,
    /// What the thread has gathered.
    pub(crate) findings: Findings,
    /// What it has gathered that belongs to no slice.
    of_no_slice: Findings,
}

impl VerifyWorker {
    fn new(held: usize, stop: &Stop) -> Self {
        Self {
            held: DescriptorCache::new(held),
            blocks: Blocks::default(),
            mover: Mover::reading(stop),
            attribute_names: Vec::new(),
            buffer: Vec::new(),
            current: CurrentPath::default(),
            names: links::Names::default(),
            findings: Findings::default(),
            of_no_slice: Findings::default(),
        }
    }
}

impl<'a, const LOGGED: bool> Comparing<'a, LOGGED> {
    pub(crate) fn new(
        options: &'a Options<'a>,
        watch: &'a dyn Watch,
        trees: &'a Trees,
        Ranks { seat, key }: Ranks,
    ) -> Self {
        let walk = &options.walk;
        let budget = Budget::of_process(Needs::VERIFY, walk.threads.max(walk.cores));
        Self {
            options,
            watch,
            trees,
            key,
            large: UnderWay::new(budget.large),
            seat,
            equal: Equal::new(walk.memory_bytes / EQUAL_PART),
            granularity: Shown::default(),
            live: Live::default(),
            held: budget.held_in_target,
            log: None,
        }
    }

    /// Notes chunks of large files in the log of the job.
    pub(crate) fn with_log(self, log: LargeLog<'a, Findings>) -> Self {
        Self { log: Some(log), ..self }
    }
}

impl<const LOGGED: bool> Comparing<'_, LOGGED> {
    pub(crate) fn features(&self) -> Features {
        self.options.walk.features
    }

    /// What `act` finds belongs to no slice, and is not in the log.
    fn of_no_slice(worker: &mut VerifyWorker, act: impl FnOnce(&mut VerifyWorker)) {
        let of_slice = std::mem::take(&mut worker.findings);
        act(worker);
        let mut found = std::mem::replace(&mut worker.findings, of_slice);
        found.keep_totals();
        worker.of_no_slice.add(&found);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.options.walk.stop.is_set()
    }

    pub(crate) fn throttle(&self, operations: u32) {
        if let Some(rate) = self.options.walk.rate {
            Rate::acquire(rate, operations.into(), &self.options.walk.stop);
        }
    }

    pub(crate) fn count_bytes(&self, worker: &mut VerifyWorker, bytes: u64) {
        worker.findings.totals.bytes = worker.findings.totals.bytes.saturating_add(bytes);
        self.live.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Opens the target's directory that belongs to a source directory. None: it cannot be opened, which is reported once.
    pub(crate) fn open(
        &self,
        worker: &mut VerifyWorker,
        directory: &Arc<SourceDirectory>,
        counterpart: &Counterpart,
    ) -> Option<Arc<OwnedFd>> {
        if counterpart.is_lost() {
            worker.findings.lost += 1;
            return None;
        }
        match counterpart.target.descriptor(&mut worker.held, self.features()) {
            Ok(opened) => Some(opened),
            Err(errno) => {
                if counterpart.set_lost() {
                    let parents = directory.parent().zip(counterpart.target.parent());
                    let at = At { directories: parents, name: directory.name() };
                    self.fail(worker, at, failed(Side::Target, Operation::OpenDirectory)(errno));
                }
                None
            }
        }
    }

    /// Compares an entry. Returns whether it is a directory on both sides.
    fn visit(&self, cx: &mut Cx<'_, Self>, named: Named<'_>, listed: &Metadata) -> bool {
        let Named { at, pair, counterpart } = named;
        let finding = |verdict| Finding { at, kind: listed.kind(), verdict };
        self.throttle(1);
        let target = match sys::stat_at(pair.target.directory, pair.target.name, false) {
            Ok(target) => target,
            Err(errno) => {
                let missing = (errno == Errno::NOENT).then_some(Verdict::Missing);
                let verdict = missing.ok_or_else(|| failed(Side::Target, Operation::Stat)(errno));
                self.conclude(cx.worker, finding(verdict));
                return false;
            }
        };
        if let Some(counterpart) = counterpart {
            counterpart.add(pair.target.name);
        }
        if LOGGED {
            cx.tasks.beside = mark::of(&target);
        }
        let both = Both { source: *listed, target };
        if both.kinds() == (Kind::File, Kind::File) {
            if links::has_names(&both) && self.options.fields.has(Field::Links) {
                let name = links::Name::of(self.trees.files_of(&both), at.below());
                if LOGGED {
                    name.encode(&mut cx.worker.findings.names);
                }
                cx.worker.names.note(&name, &self.trees.links);
            }
            if self.is_large(listed) {
                let plan = Plan::first(at.name.to_bytes(), listed.size);
                large::plan_later::<Self>(plan, cx.here(), cx.tasks);
                return false;
            }
        }
        let verdict = self.compare(cx.worker, pair, both);
        self.conclude(cx.worker, finding(verdict));
        both.kinds() == (Kind::Directory, Kind::Directory)
    }

    /// Calls `then` with a name in the directory of an entry or a task, or with the roots if there is no directory. None: TARGET's directory
    /// cannot be opened, which is reported once.
    pub(crate) fn with_named<T>(
        &self,
        cx: &mut Cx<'_, Self>,
        name: &CStr,
        then: impl FnOnce(&mut Cx<'_, Self>, Named<'_>) -> T,
    ) -> Option<T> {
        let Some(Here { directory, descriptor, .. }) = cx.here() else {
            let source = Source { directory: CWD, name };
            let pair = Pair { source, target: Source { directory: CWD, name: &self.trees.target } };
            let at = At { directories: None, name };
            return Some(then(cx, Named { at, pair, counterpart: None }));
        };
        let counterpart = Counterpart::of(directory)?;
        let target = self.open(cx.worker, directory, &counterpart)?;
        let at = At { directories: Some((directory, &counterpart.target)), name };
        let source = Source { directory: descriptor.as_fd(), name };
        let pair = Pair { source, target: Source { directory: target.as_fd(), name } };
        Some(then(cx, Named { at, pair, counterpart: Some(&counterpart) }))
    }
}

impl<const LOGGED: bool> Handler for Comparing<'_, LOGGED> {
    type Worker = VerifyWorker;
    type State = Arc<Counterpart>;

    const IS_SLOW: bool = true;
    const STAGE: Stage = if LOGGED { Stage::Closed } else { Stage::Done };
    const NEEDS: Needs = Needs::VERIFY;

    fn reads_files(&self) -> bool {
        self.options.fields.has(Field::Content)
    }

    fn worker(&self, _index: usize) -> VerifyWorker {
        VerifyWorker::new(self.held, &self.options.walk.stop)
    }

    fn root(&self, directory: &Arc<SourceDirectory>) {
        if let Some(top) = &self.trees.top {
            directory.set_state(Counterpart::new(Arc::clone(top), self.key));
        }
    }

    /// What only TARGET has in it is not known.
    fn not_entered(&self, _: &mut VerifyWorker, _: Option<Here<'_>>, directory: &Arc<SourceDirectory>) {
        if let Some(counterpart) = Counterpart::of(directory) {
            counterpart.set_lost();
        }
    }

    /// It counts as a name of both sides: if TARGET seemed to have more names, all of them would be looked up in SOURCE, this one, too.
    fn name_left_out(&self, directory: &Arc<SourceDirectory>, name: &CStr) {
        if let Some(counterpart) = Counterpart::of(directory) {
            counterpart.add(name);
        }
    }

    fn done(&self, worker: &mut VerifyWorker, directory: &Arc<SourceDirectory>, tasks: &mut Tasks) {
        if let Some(names) = self.target_names(directory).filter(|_| !LOGGED && !self.is_stopped()) {
            names.count(worker, tasks);
        }
    }

    /// What only TARGET has belongs to no slice. So with a log it belongs to the closing, and is all looked up by this thread. A directory of which earlier
    /// runs have done something may have slices that end after it is closed here: it stays left.
    fn closed(&self, worker: &mut VerifyWorker, directory: &Arc<SourceDirectory>) {
        if !(LOGGED && directory.life().is_found()) || self.is_stopped() {
            return;
        }
        let is_new = directory.again().is_none();
        let Some(names) = self.target_names(directory) else { return };
        if is_new {
            names.look_up_all(worker);
        } else {
            Self::of_no_slice(worker, |worker| names.look_up_all(worker));
        }
        if !is_new || worker.findings.is_left() {
            directory.life().note_failure();
        }
    }

    fn beside(&self, worker: &mut VerifyWorker, here: Here<'_>) -> u32 {
        let Some(counterpart) = Counterpart::of(here.directory) else { return mark::NONE };
        // Whoever looks up its names reports that it cannot be opened.
        let opened = counterpart.target.descriptor(&mut worker.held, self.features());
        opened.and_then(sys::stat_descriptor).map_or(mark::NONE, |metadata| mark::of(&metadata))
    }

    /// A directory that was read by an earlier run is not closed here, whatever else is left of it. So each run looks up again what only TARGET has, until
    /// the job ends; the log has none of it, unless the directory was closed by the run that found it.
    fn again(&self, worker: &mut VerifyWorker, here: Here<'_>, again: &Again<'_>) {
        let is_due = again.is_read && !again.was_closed;
        if let Some(names) = self.target_names(here.directory).filter(|_| is_due) {
            Self::of_no_slice(worker, |worker| names.look_up_all(worker));
        }
    }

    fn gone(&self, worker: &mut VerifyWorker, (_, path): (u32, &[u8])) {
        let (root, operation) = (self.trees.source.to_bytes(), Operation::OpenDirectory);
        let path = [root, b"/", path].concat();
        let (root, errno) = (root.into(), Errno::NOENT);
        self.count_failure(
            worker,
            &Failure { operation, root, path: path.into(), errno, spelled: None, at: None },
        );
    }

    fn report(&self, directory: &Arc<SourceDirectory>) -> Vec<u8> {
        directory.state().map(|counterpart| counterpart.report()).unwrap_or_default()
    }

    fn reported(&self, directory: &Arc<SourceDirectory>, report: &[u8]) -> bool {
        Counterpart::of(directory).is_some_and(|counterpart| counterpart.add_report(report))
    }

    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let Some(listed) = entry.metadata else { return };
        if self.watch.leaves_out((entry.name, (listed.device, listed.inode))) {
            return cx.tasks.prune();
        }
        let name = CString::new(entry.name).unwrap_or_default();
        let is_walked = self.with_named(cx, &name, |cx, named| self.visit(cx, named, listed));
        if is_walked != Some(true) {
            cx.tasks.prune();
        }
    }

    fn results<'w>(&self, worker: &'w mut VerifyWorker) -> Option<&'w mut Findings> {
        Some(&mut worker.findings)
    }

    fn handed_over(&self, worker: &mut VerifyWorker, findings: &mut Findings) {
        findings.add(&std::mem::take(&mut worker.of_no_slice));
    }

    fn is_task(&self, task: &[u8], in_directory: bool) -> bool {
        Task::decode_all(task).is_some_and(|task| task.is_possible(in_directory))
    }

    fn file_of(&self, task: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
        self.large_file_of(task)
    }

    fn task(&self, cx: &mut Cx<'_, Self>, task: &[u8]) {
        match (Task::decode_all(task), cx.opened()) {
            (Some(Task::Large(task)), _) => self.large_task(cx, task),
            (Some(Task::Names(from)), Ok(Some(here))) => {
                if let Some(names) = self.target_names(here.directory) {
                    names.look_up_from(cx, here, from);
                }
            }
            (Some(Task::LookUp(names)), Ok(Some(here))) => {
                if let Some(of) = self.target_names(here.directory) {
                    of.look_up(cx.worker, here, &names);
                }
            }
            // The path of an unreachable directory is unknown.
            (Some(Task::Names(_) | Task::LookUp(_)), Err(errno)) => {
                let at = At { directories: None, name: &self.trees.source };
                let operation = Operation::Custom("look up names of TARGET in a directory below");
                self.fail(cx.worker, at, failed(Side::Source, operation)(errno));
            }
            _ => {}
        }
    }

    fn failure(&self, worker: &mut VerifyWorker, failure: &Failure<'_>) {
        self.count_failure(worker, failure);
    }

    fn finish(&self, worker: &mut VerifyWorker) {
        worker.names.hand_over(&self.trees.links);
    }

    fn counted(&self) -> Counted {
        let Live { differences, bytes } = &self.live;
        [differences.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed), 0, 0]
    }

    fn progress(&self) -> u64 {
        // Weight: 1 MiB counts as one file.
        self.live.bytes.load(Ordering::Relaxed) >> 20
    }
}
