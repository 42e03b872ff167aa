//! Runs the walk as a job of the runtime: each task, from opening a directory to calling the caller's function.
//!
//! ```text
//!  Feed ─▶ Start ─▶ Enter ──▶ read a buffer of names ──▶ look at them: statx ──▶ the caller's function
//!                     ▲          │ large directory:          │
//!                     │          ├─▶ ReadOn (oldest, so the   └─▶ Enter for each directory found
//!                     │          │   first to be stolen)
//!                     └──────────┴─▶ Look (batches of names)
//! ```
//!
//! The names of a large directory are never all in memory. A thread that runs out of names reads the next buffer.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atta_entry::{Errno, Failure, Operation};
use atta_runtime::{Job, Queue};
use crossbeam_utils::CachePadded;
use rustix::fd::OwnedFd;

use crate::descriptors::Budget;
use crate::inject::{Poison, meet};
use crate::tree::anchors::Anchors;
use crate::tree::away::Sent;
use crate::tree::debts::Due;
use crate::tree::directory::Directory;
use crate::tree::journal::Journal;
use crate::tree::journal::noter::Noter;
use crate::tree::life::Closer;
use crate::tree::listing::descriptor_cache::DescriptorCache;
use crate::tree::listing::facts::Fact;
use crate::tree::listing::link;
use crate::tree::listing::names::Names;
use crate::tree::operation::{Cx, DirectoryOf, Handler, Here, Of, Own, ResultsOf, Stage, Tasks};
use crate::tree::options::Options;
use crate::tree::profile::{Counters, Phase, Profile, Stopwatch};
use crate::tree::slice::{CurrentSlice, Extent, OpenSlices, Part};
use crate::tree::slot::Slot;
use crate::tree::start::Seed;
use crate::tree::start::roots::Roots;
use crate::tree::task::Task;
use crate::tree::task::bytes::{self, PackedBy};
use crate::tree::thread::{LEFT_OUT, Thread};
use atta_sys::{self as sys, Features, Place};

/// A walk in the form that the runtime runs.
pub(crate) struct TreeJob<'a, V: Handler> {
    pub(crate) visit: &'a V,
    pub(crate) options: &'a Options<'a>,
    /// This rank.
    pub(crate) rank: u32,
    /// How many ranks the job has.
    pub(crate) ranks: u32,
    pub(crate) roots: Roots<V::State>,
    /// Starts from the caller that have not been taken yet.
    pub(crate) starts: Mutex<Box<dyn Iterator<Item = Seed> + Send + 'a>>,
    pub(crate) counters: Vec<CachePadded<Counters>>,
    /// Current duration of one `statx` in nanoseconds. It determines the size of batches.
    pub(crate) stat_ns: CachePadded<AtomicU64>,
    /// How many descriptors it may hold open, and how many threads that allows.
    pub(crate) budget: Budget,
    /// Large directories that are open between two buffers. Their descriptors cannot be closed.
    pub(crate) reading: AtomicUsize,
    /// Directories and slices of spilled tasks.
    pub(crate) anchors: Anchors<V::State>,
    /// Whether tasks run on this rank.
    pub(crate) runs_tasks: bool,
    /// Names of tasks that were sent to other ranks. They end here after the next task.
    pub(crate) sent: Sent<V::State>,
    /// Directories and slices of tasks that were sent to other ranks, with their units.
    pub(crate) lent: Anchors<V::State>,
    /// Units that go back to other ranks.
    pub(crate) due: Due,
    /// Slices that have not ended.
    pub(crate) open: OpenSlices<V::State>,
    /// What is noted for the log of the job, if it has one.
    pub(crate) journal: Option<&'a Journal<ResultsOf<V>>>,
}

/// The rank that a job runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnRank {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Whether tasks run there; otherwise it only hands them out.
    pub(crate) runs_tasks: bool,
}

/// If more parts than this have ended, other threads get some; otherwise this thread ends them all.
const ENDED_AT_ONCE: usize = 256;

/// The state of one thread of a walk.
pub(crate) struct Worker<'a, V: Handler> {
    pub(crate) visit: V::Worker,
    pub(crate) index: usize,
    pub(crate) held: DescriptorCache,
    pub(crate) watch: Stopwatch,
    pub(crate) tasks: Tasks<V::State>,
    /// The sum of the results of slices that have ended on this thread.
    pub(crate) results: ResultsOf<V>,
    /// Buffer for one block of names.
    pub(crate) facts: Vec<Fact>,
    pub(crate) buffer: Vec<MaybeUninit<u8>>,
    pub(crate) names: Names,
    pub(crate) noter: Noter<'a, V::State>,
    pub(crate) slot: Slot<'a>,
    /// Names of the current buffer that the rules exclude.
    pub(crate) excluded: u64,
}

impl<'a, V: Handler> TreeJob<'a, V> {
    pub(crate) fn new(
        visit: &'a V,
        starts: Box<dyn Iterator<Item = Seed> + Send + 'a>,
        options: &'a Options<'a>,
        on: OnRank,
    ) -> Self {
        let budget = Budget::of_process(V::NEEDS, options.threads.max(options.cores));
        Self {
            visit,
            options,
            rank: on.rank,
            ranks: on.ranks,
            runs_tasks: on.runs_tasks,
            sent: Sent::default(),
            lent: Anchors::default(),
            due: Due::default(),
            open: OpenSlices::default(),
            journal: None,
            roots: Roots::default(),
            starts: Mutex::new(starts),
            counters: (0..budget.threads).map(|_| CachePadded::default()).collect(),
            stat_ns: CachePadded::new(AtomicU64::new(1_000)),
            budget,
            reading: AtomicUsize::new(0),
            anchors: Anchors::default(),
        }
    }

    /// The sum over all threads; may be called while they run.
    pub(crate) fn profile(&self) -> Profile {
        self.counters.iter().map(|counters| counters.read()).sum()
    }

    pub(crate) fn features(&self) -> Features {
        self.options.features
    }

    /// The journal, if the operation reads files: then slices end by bytes, too.
    pub(crate) fn journal_of_files(&self) -> Option<&'a Journal<ResultsOf<V>>> {
        self.journal.filter(|_| self.visit.reads_files())
    }

    /// Whether few names are to leave for another rank at once, since they are one slice there.
    pub(crate) fn leaves_by_few(&self) -> bool {
        self.ranks > 1 && self.journal_of_files().is_some()
    }

    /// Counts the steps of the first tasks and returns the tasks.
    pub(crate) fn seeds(&self, tasks: Vec<Task<V::State>>) -> Vec<Task<V::State>> {
        if let Some(counters) = self.counters.first() {
            counters.known(tasks.iter().map(Task::steps).sum());
        }
        tasks
    }

    /// Adds a task of the walk itself.
    pub(crate) fn push(&self, index: usize, task: Task<V::State>, queue: &mut Queue<'_, Self>) {
        self.counters[index].known(task.steps());
        self.identify_for_ranks(task.directory());
        queue.push(task);
    }

    pub(crate) fn throttle(&self, operations: u32) {
        if let Some(rate) = self.options.rate {
            rate.acquire(operations.into(), &self.options.stop);
        }
    }

    pub(crate) fn fail(
        &self,
        worker: &mut Worker<'a, V>,
        operation: Operation,
        path: &[u8],
        root: &[u8],
        errno: Errno,
    ) {
        self.counters[worker.index].failure();
        // An entry that has vanished is not tried again.
        if !errno.is_of_vanished() {
            worker.noter.note_failure();
        }
        let failure =
            Failure { operation, root: root.into(), path: path.into(), errno, spelled: None, at: None };
        self.visit.failure(&mut worker.visit, &failure);
    }

    /// Reports a failure of `name` in `parent`, or of `parent` itself.
    pub(crate) fn fail_at(
        &self,
        worker: &mut Worker<'a, V>,
        operation: Operation,
        parent: &DirectoryOf<V>,
        name: Option<&[u8]>,
        errno: Errno,
    ) {
        parent.life().note_failure();
        let mut path = Vec::new();
        parent.path_into(&mut path);
        if let Some(name) = name {
            crate::tree::listing::path::join(&mut path, name);
        }
        let root = self.roots.get(parent.root_index());
        self.fail(worker, operation, &path, &root.path, errno);
    }

    /// Identifies the directory if the options need that.
    pub(crate) fn place_if_needed(&self, descriptor: &Arc<OwnedFd>) -> Result<Option<Place>, Errno> {
        if self.options.one_file_system || self.options.follow {
            return sys::place_of(descriptor, self.features()).map(Some);
        }
        Ok(None)
    }

    /// Adds a task to enter a directory that was found in another.
    pub(crate) fn push_found(
        &self,
        index: usize,
        (parent, name, target): (&Arc<DirectoryOf<V>>, CString, Option<Vec<u8>>),
        queue: &mut Queue<'_, Self>,
    ) {
        if V::STAGE >= Stage::Closed {
            parent.life().add_child();
        }
        self.push(index, Task::Enter { parent: Arc::clone(parent), name, target }, queue);
    }

    /// Opens a directory and reads it.
    fn enter(
        &self,
        worker: &mut Worker<'a, V>,
        parent: &Arc<DirectoryOf<V>>,
        (name, target): (&CString, Option<Vec<u8>>),
        queue: &mut Queue<'_, Self>,
    ) {
        self.throttle(1);
        let is_left_out = self.is_left_out(worker, parent, name);
        match if is_left_out { Ok(None) } else { self.open(worker, parent, name, target) } {
            Ok(Some(directory)) => return Thread { job: self, worker, queue }.read(&directory),
            Ok(None) if is_left_out => {
                Thread { job: self, worker, queue }.fail_name(parent, name.as_bytes(), LEFT_OUT);
            }
            Ok(None) => {}
            Err(errno) => {
                self.fail_at(worker, Operation::OpenDirectory, parent, Some(name.as_bytes()), errno);
            }
        }
        if V::STAGE >= Stage::Closed {
            self.end_unopened(worker, (parent, name), queue);
        }
    }

    /// Ends a directory that could not be opened, or is left out.
    pub(crate) fn end_unopened(
        &self,
        worker: &mut Worker<'a, V>,
        (parent, name): (&Arc<DirectoryOf<V>>, &CStr),
        queue: &mut Queue<'_, Self>,
    ) {
        let directory = Arc::new(Directory::below(parent, name, None));
        let opened = parent.descriptor(&mut worker.held, self.features()).ok();
        let here = opened.as_ref().map(|descriptor| Here { directory: parent, descriptor, slice: None });
        self.visit.not_entered(&mut worker.visit, here, &directory);
        self.end_empty(worker, &directory, queue);
    }

    /// Ends a directory that has no known names.
    pub(crate) fn end_empty(
        &self,
        worker: &mut Worker<'a, V>,
        directory: &Arc<DirectoryOf<V>>,
        queue: &mut Queue<'_, Self>,
    ) {
        let slice = CurrentSlice::new(directory, Extent::Whole);
        self.end_names(worker, &slice, queue);
    }

    /// Ends slices and directories on this thread.
    pub(crate) fn closer<'t>(&'t self, worker: &'t mut Worker<'a, V>) -> Closer<'t, 'a, V> {
        let Worker { visit, tasks, results, noter, .. } = worker;
        Closer { handler: self.visit, worker: visit, tasks, results, open: &self.open, noter }
    }

    /// Ends the current names: all of them have been looked at.
    pub(crate) fn end_names(
        &self,
        worker: &mut Worker<'a, V>,
        slice: &CurrentSlice<'_, V::State>,
        queue: &mut Queue<'_, Self>,
    ) {
        self.closer(worker).end_names(slice);
        push_own(self, &mut worker.tasks, queue);
    }

    /// Ends the parts that have ended on this thread. If there are many, other threads get some.
    fn end_parts(&self, worker: &mut Worker<'a, V>, queue: &mut Queue<'_, Self>) {
        // What the task gathered and left belongs to no slice, or to one that has ended.
        self.closer(worker).end_rest();
        if let Some(parts) = self.sent.take() {
            self.end_each(worker, parts);
        }
        loop {
            let mut ended = self.visit.ended(&mut worker.visit, &mut worker.results);
            ended.append(&mut worker.tasks.ended);
            if ended.is_empty() {
                break;
            }
            while ended.len() > ENDED_AT_ONCE && !queue.is_stopping() {
                queue.push(Task::Ended(ended.split_off(ended.len() - ENDED_AT_ONCE)));
            }
            self.end_each(worker, ended);
        }
    }

    /// Ends what has ended meanwhile, and keeps what was noted. Called after each task, and in a task between slices, when nothing is gathered of one that goes on.
    pub(crate) fn between(&self, worker: &mut Worker<'a, V>, queue: &mut Queue<'_, Self>) {
        self.visit.between(&mut worker.visit);
        self.end_parts(worker, queue);
        self.visit.handed_over(&mut worker.visit, &mut worker.results);
        self.visit.keep_noted(&mut worker.visit, worker.noter.waiting(), false);
        push_own(self, &mut worker.tasks, queue);
    }

    pub(crate) fn end_each(&self, worker: &mut Worker<'a, V>, parts: Vec<Part<V::State>>) {
        let mut closer = self.closer(worker);
        for part in parts {
            closer.end_part(&part);
            // Of directories that were closed.
            closer.end_rest();
        }
    }

    /// Opens a directory. Returns none if it is on another file system that the options leave out.
    pub(crate) fn open(
        &self,
        worker: &mut Worker<'a, V>,
        parent: &Arc<DirectoryOf<V>>,
        name: &CString,
        target: Option<Vec<u8>>,
    ) -> Result<Option<Arc<DirectoryOf<V>>>, Errno> {
        let open = |worker: &mut Worker<'a, V>| {
            if let Some(target) = &target {
                if parent.known_place().is_none() {
                    // Another rank named it. The directories above must be identified, or a loop would not be detected.
                    parent.descriptor(&mut worker.held, self.features())?;
                }
                let root = self.open_root(parent.root_index(), true)?;
                let root = root.descriptor(&mut worker.held, self.features())?;
                return link::reopen(&root, target);
            }
            let features = self.features();
            parent.try_anew(&mut worker.held, features, |above| sys::open_directory_at(above, name))
        };
        meet(Poison::Opening, name.to_bytes());
        let descriptor = Arc::new(open(worker)?);
        let place = self.place_if_needed(&descriptor)?;
        if let (true, Some(here), Some(above)) =
            (self.options.one_file_system, place, parent.identify(self.features()))
            && (here.device, here.mount) != (above.device, above.mount)
        {
            return Ok(None);
        }
        let directory = Directory::below(parent, name, target).with_descriptor(descriptor).with_place(place);
        let directory = Arc::new(directory);
        // This includes directories without subdirectories: a file that waits for its name or another thread may keep one for long.
        worker.held.keep(&directory, self.features());
        Ok(Some(directory))
    }
}

impl<'a, V: Handler> TreeJob<'a, V> {
    /// Runs a task that the caller added.
    fn own(&self, worker: &mut Worker<'a, V>, own: &Own<V::State>, queue: &mut Queue<'_, Self>) {
        let directory = own.directory();
        let open = directory.map(|directory| directory.descriptor(&mut worker.held, self.features()));
        let here = open.transpose().map(|descriptor| descriptor.zip(directory));
        let slice = match &own.of {
            Of::Part(part) => Some(CurrentSlice::of_part(part)),
            _ => None,
        };
        let here = match &here {
            Ok(here) => Ok(here.as_ref().map(|(descriptor, directory)| Here {
                directory,
                descriptor,
                slice: slice.as_ref(),
            })),
            Err(errno) => Err(*errno),
        };
        self.note_own(worker, own);
        self.visit.task(&mut Cx::new(&mut worker.visit, &mut worker.tasks, here), &own.bytes);
        // A task has no directory to prune, and the next entry must not inherit the flag.
        worker.tasks.pruned = false;
        if let Of::Part(part) = &own.of {
            let mut closer = self.closer(worker);
            closer.gather(part.slice());
            closer.end_part(part);
        }
        push_own(self, &mut worker.tasks, queue);
        worker.watch.book(Phase::Callback, &self.counters[worker.index]);
    }
}

impl<'a, V: Handler> TreeJob<'a, V> {
    /// Ends what waits on this rank.
    fn settle(&self, worker: &mut Worker<'a, V>, is_help: bool, queue: &mut Queue<'_, Self>) {
        if is_help {
            if self.visit.help(&mut worker.visit) {
                queue.push(Task::Settle(true));
            }
            return;
        }
        if self.visit.settle(&mut worker.visit) {
            (0..self.budget.threads).for_each(|_| queue.push(Task::Settle(true)));
        }
        for seed in self.visit.more(&mut worker.visit) {
            self.push(worker.index, self.start_task(seed), queue);
        }
    }
}

impl<'a, V: Handler> Job for TreeJob<'a, V> {
    type Task = Task<V::State>;
    type Worker = Worker<'a, V>;

    fn worker(&self, index: usize) -> Self::Worker {
        Worker {
            visit: self.visit.worker(index),
            index,
            held: DescriptorCache::new(self.budget.held),
            watch: Stopwatch::start(),
            tasks: Tasks::default(),
            results: ResultsOf::<V>::default(),
            facts: Vec::new(),
            buffer: Vec::new(),
            names: Names::default(),
            noter: Noter::new(self.journal, &self.options.stop),
            slot: Slot::default(),
            excluded: 0,
        }
    }

    fn run(&self, worker: &mut Self::Worker, task: Task<V::State>, queue: &mut Queue<'_, Self>) {
        worker.watch = Stopwatch::start();
        let steps = task.steps();
        match task {
            Task::Feed => Thread { job: self, worker, queue }.feed(),
            Task::Start { root, below, differs } => {
                let mut thread = Thread { job: self, worker, queue };
                match (below, differs) {
                    (None, None) => thread.start(root),
                    (Some(below), None) => thread.start_below(root, &below),
                    (None, Some(differs)) => thread.start_differing(root, differs),
                    (Some(below), Some(differs)) => thread.start_differing_below(root, &below, differs),
                }
            }
            Task::Enter { parent, name, target } => self.enter(worker, &parent, (&name, target), queue),
            Task::ReadOn { directory, descriptor, reading } => {
                self.reading.fetch_sub(1, Ordering::Relaxed);
                Thread { job: self, worker, queue }.read_on(&directory, &descriptor, reading);
            }
            Task::Look { slice, names } => {
                self.note_taken(worker, (&slice, &names), || queue.is_stopping());
                let slice = CurrentSlice::of_batch(&slice);
                drop(Thread { job: self, worker, queue }.look(&slice, names));
            }
            Task::Own(own) => self.own(worker, &own, queue),
            Task::Ended(parts) => self.end_each(worker, parts),
            // The parts end after the task.
            Task::EndSent => self.sent.note_run(),
            Task::Paid(paid) => self.end_paid(worker, paid),
            // It leaves with all that is due.
            Task::Pay(to) => queue.send(to, Task::Pay(to)),
            Task::Settle(is_help) => self.settle(worker, is_help, queue),
            Task::Redo(redo) => Thread { job: self, worker, queue }.redo(*redo),
        }
        self.note_nothing(worker);
        // What failed outside of a slice keeps none from being done.
        worker.noter.take_failure();
        self.counters[worker.index].looked(steps);
        self.between(worker, queue);
    }

    fn rest(&self) -> Option<Task<V::State>> {
        self.visit.waits().then_some(Task::Settle(false))
    }

    fn finish(&self, worker: &mut Self::Worker) {
        self.visit.keep_noted(&mut worker.visit, worker.noter.waiting(), true);
        self.visit.finish(&mut worker.visit);
    }

    fn progress(&self) -> u64 {
        let profile = self.profile();
        profile.entries + profile.directories + self.visit.progress()
    }

    fn throttled(&self) -> Duration {
        self.visit.throttled()
    }

    fn weigh(&self, task: &Task<V::State>) -> usize {
        task.weigh()
    }

    fn pack(&self, task: &Task<V::State>, last: Option<&Task<V::State>>, out: &mut Vec<u8>) -> bool {
        self.pack_task(task, last, out)
    }

    fn spill(&self, task: &Task<V::State>, last: Option<&Task<V::State>>, out: &mut Vec<u8>) -> bool {
        self.spill_task(task, last, out)
    }

    fn spilled(&self, task: &Task<V::State>) {
        self.end_of_spilled(task);
    }

    fn not_spilled(&self, task: &Task<V::State>) {
        self.release_anchor(task);
    }

    fn sent(&self, task: &Task<V::State>) -> Option<Task<V::State>> {
        self.end_of_sent(task)
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<Task<V::State>>, &'static str> {
        bytes::unpack(bytes, PackedBy::Itself, self)
    }

    fn arrive(&self, bytes: &[u8]) -> Result<Vec<Task<V::State>>, &'static str> {
        bytes::unpack(bytes, PackedBy::Another { ranks: self.ranks }, self)
    }

    fn lost(&self, worker: &mut Self::Worker, count: u64, _why: &str) {
        let path = format!("{count} directories or batches of names that waited in the spill file");
        self.fail(worker, Operation::Custom("read back"), path.as_bytes(), b"", Errno::IO);
    }
}

/// Moves the tasks that the caller added to the pool or to the ranks that they name.
///
/// Called after each entry. Most add no task, so that is found out without a call.
#[inline]
pub(crate) fn push_own<'a, V: Handler>(
    job: &TreeJob<'a, V>,
    tasks: &mut Tasks<V::State>,
    queue: &mut Queue<'_, TreeJob<'a, V>>,
) {
    if !tasks.pushed.is_empty() || !tasks.payments.is_empty() {
        push_all(job, tasks, queue);
    }
}

fn push_all<'a, V: Handler>(
    job: &TreeJob<'a, V>,
    tasks: &mut Tasks<V::State>,
    queue: &mut Queue<'_, TreeJob<'a, V>>,
) {
    tasks.pushed.drain(..).for_each(|own| {
        job.identify_for_ranks(own.directory());
        match own.to {
            Some(to) if to != job.rank => queue.send(to, Task::Own(own)),
            _ => queue.push(Task::Own(own)),
        }
    });
    if !tasks.payments.is_empty() {
        job.pay(&mut tasks.payments, queue);
    }
}
