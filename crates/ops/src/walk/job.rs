//! The walk as a job of the runtime: what each task does, from opening a directory to the caller's function.
//!
//! ```text
//!  Feed ─▶ Start ─▶ Enter ──▶ read a buffer of names ──▶ look at them: statx ──▶ the caller's function
//!                     ▲          │ large directory:          │
//!                     │          ├─▶ ReadOn (oldest, so the   └─▶ Enter for each directory found
//!                     │          │   first to be stolen)
//!                     └──────────┴─▶ Look (batches of names)
//! ```
//!
//! The names of a large directory are never all in memory: whoever runs out of names reads the next buffer.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::{Errno, Failure, Kind, Operation};
use atta_runtime::{Job, Queue, Rate};
use crossbeam_utils::CachePadded;
use rustix::fd::OwnedFd;
use rustix::fs::RawDir;

use super::directory::{Directory, Held};
use super::kernel::{self, Features, Place};
use super::look::Look;
use super::names::Names;
use super::profile::{Counters, Phase, Profile, Stopwatch};
use super::roots::Roots;
use super::task::{self, Task};
use super::visit::{Tasks, Visit};
use super::{Options, Start, link};

/// The buffer for `getdents64`. Larger ones no longer help; it holds some 8,000 short names.
const BUFFER_BYTES: usize = 256 << 10;
/// A batch of names for another thread should be this much work: enough to pay for handing it over.
const BATCH_NS: u64 = 2_000_000;
/// Names in a batch, at most: bounds what one batch holds in memory.
const BATCH_NAMES_MAX: usize = 4096;
/// Names in a batch, at least, when threads are idle and asking is quick.
const BATCH_NAMES_WANTED: usize = 64;
/// Descriptors kept free for the rest of the program.
const DESCRIPTORS_RESERVED: u64 = 128;

/// Starts that are taken from the caller's list at a time: a long list never is in memory as a whole.
const FEED_STARTS: usize = 256;

/// A walk, as the runtime runs it.
pub(crate) struct WalkJob<'a, V: Visit> {
    pub(crate) visit: &'a V,
    pub(crate) options: &'a Options<'a>,
    pub(crate) roots: Roots,
    /// What the caller wants walked, as far as it has not been taken.
    starts: Mutex<Box<dyn Iterator<Item = Start> + Send + 'a>>,
    pub(crate) counters: Vec<CachePadded<Counters>>,
    /// What one `statx` takes at present, in nanoseconds: how large a batch should be.
    pub(crate) stat_ns: AtomicU64,
    descriptors_per_worker: usize,
    /// Large directories that are open between two buffers; their descriptors cannot be closed.
    reading: AtomicUsize,
    reading_max: usize,
}

/// What one thread of a walk keeps.
pub(crate) struct WalkWorker<V: Visit> {
    pub(crate) visit: V::Worker,
    pub(crate) index: usize,
    pub(crate) held: Held,
    pub(crate) watch: Stopwatch,
    pub(crate) tasks: Tasks,
    /// The path of the directory at hand.
    pub(crate) path: Vec<u8>,
    pub(crate) look: Look,
    buffer: Vec<MaybeUninit<u8>>,
    names: Names,
}

impl<'a, V: Visit> WalkJob<'a, V> {
    pub(crate) fn new(
        visit: &'a V,
        starts: Box<dyn Iterator<Item = Start> + Send + 'a>,
        options: &'a Options<'a>,
        threads_max: usize,
    ) -> Self {
        let usable = kernel::raise_descriptor_limit().saturating_sub(DESCRIPTORS_RESERVED).max(32);
        let usable = usize::try_from(usable).unwrap_or(usize::MAX).min(1 << 16);
        Self {
            visit,
            options,
            roots: Roots::default(),
            starts: Mutex::new(starts),
            counters: (0..threads_max).map(|_| CachePadded::default()).collect(),
            stat_ns: AtomicU64::new(1_000),
            descriptors_per_worker: (usable / 2 / threads_max.max(1)).clamp(4, 1024),
            reading: AtomicUsize::new(0),
            reading_max: usable / 4,
        }
    }

    /// The sum over all threads, also while they run.
    pub(crate) fn profile(&self) -> Profile {
        self.counters.iter().map(|counters| counters.read()).sum()
    }

    pub(crate) fn features(&self) -> Features {
        self.options.features
    }

    pub(crate) fn throttle(&self, operations: u32) {
        if let Some(rate) = self.options.rate {
            Rate::acquire(rate, operations);
        }
    }

    pub(crate) fn fail(
        &self,
        worker: &mut WalkWorker<V>,
        operation: Operation,
        path: &[u8],
        root: &[u8],
        errno: Errno,
    ) {
        self.counters[worker.index].failure();
        let failure = Failure { operation, root: root.into(), path: path.into(), errno };
        self.visit.failure(&mut worker.visit, &failure);
    }

    /// Reports a failure of `name` in `parent`, or of `parent` itself.
    fn fail_at(
        &self,
        worker: &mut WalkWorker<V>,
        operation: Operation,
        parent: &Directory,
        name: Option<&[u8]>,
        errno: Errno,
    ) {
        let mut path = Vec::new();
        parent.path_into(&mut path);
        if let Some(name) = name {
            super::look::join(&mut path, name);
        }
        let root = self.roots.get(parent.root_index());
        self.fail(worker, operation, &path, &root.path, errno);
    }

    /// Takes some more of what the caller wants walked.
    fn feed(&self, queue: &mut Queue<'_, Self>) {
        let starts: Vec<_> = {
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            starts.by_ref().take(FEED_STARTS).collect()
        };
        if starts.len() == FEED_STARTS {
            queue.push(Task::Feed);
        }
        for Start { root, below } in starts {
            let root = self.roots.intern(root);
            queue.push(Task::Start { root, below });
        }
    }

    /// Looks at a root: the entry itself, then what is below it.
    fn start(&self, worker: &mut WalkWorker<V>, index: u32, queue: &mut Queue<'_, Self>) {
        let path = self.roots.get(index).path.clone();
        self.throttle(1);
        let metadata = match kernel::stat_path(&path, self.options.follow) {
            Ok(metadata) => metadata,
            Err(errno) => return self.fail(worker, Operation::Stat, &path, &path, errno),
        };
        let spent = worker.watch.book(Phase::Stat, &self.counters[worker.index]);
        self.stat_ns.store(spent.max(1), Ordering::Relaxed);
        let enter = self.show_root(worker, &path, &metadata, queue);
        worker.watch.book(Phase::Callback, &self.counters[worker.index]);
        if enter && self.options.max_depth != Some(0) {
            match self.open_root(index, self.options.follow) {
                Ok(directory) => self.read(worker, &directory, queue),
                Err(errno) => self.fail(worker, Operation::OpenDirectory, &path, &path, errno),
            }
        }
    }

    /// Looks at one listed name below a root, without following a link on the way to it.
    fn start_below(&self, worker: &mut WalkWorker<V>, index: u32, below: &[u8], queue: &mut Queue<'_, Self>) {
        let path = self.roots.get(index).path.clone();
        let names: Option<Vec<CString>> = link::names(below).map(|name| CString::new(name).ok()).collect();
        let names = names.filter(|names| names.iter().all(|name| name.as_c_str() != c".."));
        let Some((last, above)) = names.as_deref().and_then(<[CString]>::split_last) else {
            let whole = [path.as_slice(), below].join(&b'/');
            return self.fail(worker, Operation::Stat, &whole, &path, Errno::INVAL);
        };
        // The operator named the root: links in its path are the operator's.
        match self.open_root(index, true) {
            Ok(root) => {
                let above: Vec<_> = above.iter().map(CString::as_c_str).collect();
                let directory = task::chain_to(&root, &above);
                let mut names = Names::default();
                names.push(last, Kind::Unknown, 0);
                self.look(worker, &directory, names, queue);
            }
            Err(errno) => self.fail(worker, Operation::OpenDirectory, &path, &path, errno),
        }
    }

    /// The directory of a root, opened unless it is open. One that was closed meanwhile must be the same again.
    pub(crate) fn open_root(&self, index: u32, follow: bool) -> Result<Arc<Directory>, Errno> {
        let root = self.roots.get(index);
        if let Some(directory) = root.directory() {
            return Ok(directory);
        }
        self.throttle(1);
        let descriptor = Arc::new(kernel::open_directory_path(&root.path, follow)?);
        let place = kernel::place_of(&descriptor, self.features())?;
        if self.options.follow {
            let _ = root.real_path.set(kernel::real_path(&descriptor));
        }
        let path = CString::new(root.path.clone()).map_err(|_| Errno::INVAL)?;
        let directory = Directory::root(path, index, descriptor, place);
        if !root.is_same(place) {
            return Err(Errno::STALE);
        }
        self.roots.keep(&root, &directory);
        Ok(directory)
    }

    /// Which directory it is, where the options make that a question.
    fn place_if_needed(&self, descriptor: &Arc<OwnedFd>) -> Result<Option<Place>, Errno> {
        if self.options.one_file_system || self.options.follow {
            return kernel::place_of(descriptor, self.features()).map(Some);
        }
        Ok(None)
    }

    /// Opens a directory and reads it.
    fn enter(
        &self,
        worker: &mut WalkWorker<V>,
        parent: &Arc<Directory>,
        name: &CString,
        target: Option<Vec<u8>>,
        queue: &mut Queue<'_, Self>,
    ) {
        self.throttle(1);
        match self.open(worker, parent, name, target) {
            Ok(Some(directory)) => self.read(worker, &directory, queue),
            Ok(None) => {}
            Err(errno) => {
                self.fail_at(worker, Operation::OpenDirectory, parent, Some(name.as_bytes()), errno);
            }
        }
    }

    /// Opens a directory; none if it lies on another file system and that one is not wanted.
    fn open(
        &self,
        worker: &mut WalkWorker<V>,
        parent: &Arc<Directory>,
        name: &CString,
        target: Option<Vec<u8>>,
    ) -> Result<Option<Arc<Directory>>, Errno> {
        let open = |worker: &mut WalkWorker<V>| {
            if let Some(target) = &target {
                let root = self.open_root(parent.root_index(), true)?;
                let root = root.descriptor(&mut worker.held, self.features())?;
                return link::reopen(&root, target);
            }
            let above = parent.descriptor(&mut worker.held, self.features())?;
            kernel::open_directory_at(&above, name)
        };
        let opened = match open(worker) {
            // Too many open files: give some up and try once more.
            Err(errno) if errno.is_too_many_open() => {
                worker.held.close_oldest(usize::MAX, self.features());
                open(worker)
            }
            other => other,
        };
        let descriptor = Arc::new(opened?);
        let place = self.place_if_needed(&descriptor)?;
        if let (true, Some(here), Some(above)) =
            (self.options.one_file_system, place, parent.identify(self.features()))
            && (here.device, here.mount) != (above.device, above.mount)
        {
            return Ok(None);
        }
        let directory = Directory::below(parent, name, target).with_descriptor(descriptor).with_place(place);
        Ok(Some(Arc::new(directory)))
    }

    /// Reads a directory that is open.
    fn read(&self, worker: &mut WalkWorker<V>, directory: &Arc<Directory>, queue: &mut Queue<'_, Self>) {
        self.counters[worker.index].directory();
        match directory.descriptor(&mut worker.held, self.features()) {
            Ok(descriptor) => self.read_on(worker, directory, &descriptor, queue),
            Err(errno) => self.fail_at(worker, Operation::OpenDirectory, directory, None, errno),
        }
    }

    /// Reads a directory from where its descriptor stands, until it is done or so large that others may help.
    fn read_on(
        &self,
        worker: &mut WalkWorker<V>,
        directory: &Arc<Directory>,
        descriptor: &Arc<OwnedFd>,
        queue: &mut Queue<'_, Self>,
    ) {
        let mut buffer = std::mem::take(&mut worker.buffer);
        let mut more = true;
        while more && !queue.is_stopping() {
            self.throttle(1);
            let mut names = std::mem::take(&mut worker.names);
            names.clear();
            more = self.fill(worker, directory, descriptor, &mut buffer, &mut names);
            worker.watch.book(Phase::Readdir, &self.counters[worker.index]);
            let batch = self.batch_names(names.len(), queue);
            if names.len() > 2 * batch {
                if more && self.reading.fetch_add(1, Ordering::Relaxed) < self.reading_max {
                    // Pushed before the names, so it is older than they: the next idle thread reads on.
                    let (directory, descriptor) = (Arc::clone(directory), Arc::clone(descriptor));
                    queue.push(Task::ReadOn { directory, descriptor });
                    more = false;
                } else if more {
                    self.reading.fetch_sub(1, Ordering::Relaxed);
                }
                self.hand_out(worker, directory, &mut names, batch, queue);
            }
            worker.names = self.look(worker, directory, names, queue);
        }
        worker.buffer = buffer;
    }

    /// How many names make a batch at present.
    fn batch_names(&self, count: usize, queue: &Queue<'_, Self>) -> usize {
        let by_time = BATCH_NS / self.stat_ns.load(Ordering::Relaxed).max(1);
        let batch = usize::try_from(by_time).unwrap_or(BATCH_NAMES_MAX).clamp(1, BATCH_NAMES_MAX);
        if queue.is_wanted() { batch.min(BATCH_NAMES_WANTED.max(count / 8)) } else { batch }
    }

    /// Gives all names but one batch to whoever is idle.
    fn hand_out(
        &self,
        worker: &mut WalkWorker<V>,
        directory: &Arc<Directory>,
        names: &mut Names,
        batch: usize,
        queue: &mut Queue<'_, Self>,
    ) {
        worker.held.keep(directory, self.features());
        while names.len() > batch {
            let names = names.split_last(batch.min(names.len() - batch).max(1));
            queue.push(Task::Look { directory: Arc::clone(directory), names });
        }
        worker.watch.book(Phase::Callback, &self.counters[worker.index]);
    }

    /// Fills `names` with what one `getdents64` gives. Returns false at the end, or when it failed.
    fn fill(
        &self,
        worker: &mut WalkWorker<V>,
        directory: &Arc<Directory>,
        descriptor: &Arc<OwnedFd>,
        buffer: &mut Vec<MaybeUninit<u8>>,
        names: &mut Names,
    ) -> bool {
        if buffer.is_empty() {
            buffer.resize(BUFFER_BYTES, MaybeUninit::uninit());
        }
        let rules = self.options.rules.as_ref();
        let root_bytes = if rules.is_some() { directory.path_into(&mut worker.path) } else { 0 };
        let mut reader = RawDir::new(descriptor, buffer);
        loop {
            let entry = match reader.next() {
                None => return false,
                Some(Err(rustix::io::Errno::INTR)) => continue,
                // A directory that was removed while it was read has no more names.
                Some(Err(rustix::io::Errno::NOENT)) => return false,
                Some(Err(error)) => {
                    let errno = Errno(error.raw_os_error());
                    self.fail_at(worker, Operation::ReadDirectory, directory, None, errno);
                    return false;
                }
                Some(Ok(entry)) => entry,
            };
            let (name, kind, inode) = (entry.file_name(), kernel::kind_of(entry.file_type()), entry.ino());
            if name != c"." && name != c".." {
                let excluded = rules.is_some_and(|rules| {
                    kind != Kind::Unknown
                        && super::look::is_excluded(
                            rules,
                            &mut worker.path,
                            root_bytes,
                            name.to_bytes(),
                            kind,
                        )
                });
                if excluded {
                    self.counters[worker.index].excluded();
                } else if name.to_bytes().contains(&b'/') || name.is_empty() {
                    // A damaged or hostile file system: such a name would lead elsewhere.
                    self.fail_at(worker, Operation::ReadDirectory, directory, None, Errno::IO);
                } else {
                    names.push(name, kind, inode);
                }
            }
            if reader.is_buffer_empty() {
                return true;
            }
        }
    }
}

impl<V: Visit> Job for WalkJob<'_, V> {
    type Task = Task;
    type Worker = WalkWorker<V>;

    fn worker(&self, index: usize) -> Self::Worker {
        WalkWorker {
            visit: self.visit.worker(index),
            index,
            held: Held::new(self.descriptors_per_worker),
            watch: Stopwatch::start(),
            tasks: Tasks::default(),
            path: Vec::new(),
            look: Look::default(),
            buffer: Vec::new(),
            names: Names::default(),
        }
    }

    fn run(&self, worker: &mut Self::Worker, task: Task, queue: &mut Queue<'_, Self>) {
        worker.watch = Stopwatch::start();
        match task {
            Task::Feed => self.feed(queue),
            Task::Start { root, below: None } => self.start(worker, root, queue),
            Task::Start { root, below: Some(below) } => self.start_below(worker, root, &below, queue),
            Task::Enter { parent, name, target } => self.enter(worker, &parent, &name, target, queue),
            Task::ReadOn { directory, descriptor } => {
                self.reading.fetch_sub(1, Ordering::Relaxed);
                self.read_on(worker, &directory, &descriptor, queue);
            }
            Task::Look { directory, names } => drop(self.look(worker, &directory, names, queue)),
            Task::Own(bytes) => {
                self.visit.task(&mut worker.visit, &bytes, &mut worker.tasks);
                push_own(&mut worker.tasks, queue);
                worker.watch.book(Phase::Callback, &self.counters[worker.index]);
            }
        }
    }

    fn finish(&self, worker: &mut Self::Worker) {
        self.visit.finish(&mut worker.visit);
    }

    fn progress(&self) -> u64 {
        let profile = self.profile();
        profile.entries + profile.directories
    }

    fn weigh(&self, task: &Task) -> usize {
        task.weigh()
    }

    fn pack(&self, tasks: Vec<Task>, out: &mut Vec<u8>) -> Vec<Task> {
        task::pack(tasks, out, self.features())
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<Task>, &'static str> {
        task::unpack(bytes, |index| {
            self.roots.find(index)?;
            self.open_root(index, true).ok()
        })
    }

    fn lost(&self, worker: &mut Self::Worker, count: u64, _why: &str) {
        let path = format!("{count} directories or batches of names that waited in the spill file");
        self.fail(worker, Operation::Custom("read back"), path.as_bytes(), b"", Errno::IO);
    }
}

/// Moves the tasks that the caller gave back to the pool.
pub(crate) fn push_own<V: Visit>(tasks: &mut Tasks, queue: &mut Queue<'_, WalkJob<'_, V>>) {
    tasks.pushed.drain(..).for_each(|bytes| queue.push(Task::Own(bytes)));
}
