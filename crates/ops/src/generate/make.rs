//! Makes a planned tree, as tasks for the pool. A directory gets its subdirectories, symbolic links and files, then its mode and time. Hard
//! links follow when all files exist.
//!
//! ```text
//!   Fill(target) ─▶ Subdirectories ─▶ Subdirectories ...   halved until one is left, which is then filled
//!                └▶ Files ─▶ Files                         halved while others have nothing to do
//!                     └▶ Piece ─▶ Piece                    of a file too large for one task
//! ```
//!
//! Only a directory's own entries change its time. So it is final once these exist, even while deeper entries are being made. A later hard
//! link sets it again. All calls are relative to directory descriptors. Paths are built only for messages.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::{Errno as EntryErrno, Operation, Timestamp};
use atta_runtime::{Job, Queue, Stop};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, Mode, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens, linkat, mkdirat, symlinkat, utimensat,
};
use rustix::io::Errno;

use super::content::Source;
use super::error::Report;
use super::file::OpenFile;
use super::names::Node;
use super::open::{Directory, Opener, Place};
use super::plan::Plan;
use super::symlink;

/// The most files that one task makes: some milliseconds of work.
const FILES_MAX: u64 = 256;
/// The most hard links that one task makes.
const LINKS_MAX: u64 = 64;
/// Mode of a directory until it is complete: access for the owner only.
const PRIVATE: Mode = Mode::RWXU;

/// A failed system call and its entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MakeError {
    pub(crate) operation: Operation,
    pub(crate) node: Node,
    pub(crate) errno: EntryErrno,
}

impl MakeError {
    /// Returns a function that converts an error number to this error.
    pub(crate) fn at(operation: &'static str, node: Node) -> impl Fn(Errno) -> Self {
        move |errno| Self {
            operation: Operation::Custom(operation),
            node,
            errno: EntryErrno(errno.raw_os_error()),
        }
    }
}

/// One unit of work; ranges are never empty.
#[derive(Debug)]
pub(crate) enum Task {
    Fill(Arc<Directory>),
    Subdirectories(Place, Range<u32>),
    Files(Arc<Directory>, Range<u64>),
    Piece(Arc<OpenFile>, Range<u64>),
    HardLinks(Range<u64>),
}

/// State of one thread, kept between tasks.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    pub(crate) made: Report,
    pub(crate) buffer: Vec<u8>,
}

/// State of a run that makes one tree.
#[derive(Debug)]
pub(crate) struct Make<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) source: Source,
    opener: Opener<'a>,
    /// Whether this run made the target, which then gets a mode.
    is_root_new: bool,
    /// Ends the run; also set after a failure.
    end: Stop,
    error: Mutex<Option<MakeError>>,
    entries: AtomicU64,
}

/// A thread that runs a task: the run, the thread's state, and the queue for more tasks.
pub(crate) struct Thread<'t, 'm, 'q> {
    pub(crate) make: &'t Make<'m>,
    pub(crate) worker: &'t mut Worker,
    pub(crate) queue: &'t mut Queue<'q, Make<'m>>,
}

impl<'a> Make<'a> {
    pub(crate) fn new(plan: &'a Plan, root: OwnedFd, is_root_new: bool, end: Stop) -> Self {
        Self {
            plan,
            source: Source::new(plan.spec().seed, plan.spec().contents),
            opener: Opener::new(plan, root),
            is_root_new,
            end,
            error: Mutex::default(),
            entries: AtomicU64::new(0),
        }
    }

    /// Returns the task that leads to everything but hard links.
    pub(crate) fn first(&self) -> Result<Task, MakeError> {
        Ok(Task::Fill(self.opener.root()?))
    }

    /// Returns the first error.
    pub(crate) fn error(&self) -> Option<MakeError> {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) {
        self.entries.fetch_add(1, Ordering::Relaxed);
    }

    fn symlink(&self, at: &Directory, index: u64) -> Result<(), MakeError> {
        let node = Node::Symlink(index);
        let name = self.plan.names.of(node);
        let made = symlinkat(symlink::target(self.plan, index), &at.fd, name.as_slice());
        made.map_err(MakeError::at("make symlink", node))?;
        self.count();
        let times = timestamps(self.plan.mtime(node));
        let timed = utimensat(&at.fd, name, &times, AtFlags::SYMLINK_NOFOLLOW);
        timed.map_err(MakeError::at("set times", node))
    }

    fn set_directory_time(&self, index: u32, fd: &OwnedFd) -> Result<(), MakeError> {
        let node = Node::Directory(index);
        match futimens(fd, &timestamps(self.plan.mtime(node))) {
            // An existing target may belong to another user.
            Err(Errno::PERM) if index == 0 && !self.is_root_new => Ok(()),
            outcome => outcome.map_err(MakeError::at("set times", node)),
        }
    }

    fn hard_link(&self, index: u64) -> Result<(), MakeError> {
        let node = Node::HardLink(index);
        let file = Node::File(self.plan.linked_file(index));
        let source = self.opener.descend(self.plan.directory_of(file))?;
        let directory = self.plan.directory_of(node);
        let target = self.opener.descend(directory)?;
        let (old, new) = (self.plan.names.of(file), self.plan.names.of(node));
        linkat(source, old, &target, new, AtFlags::empty()).map_err(MakeError::at("make hard link", node))?;
        // Other threads may add to the same directory now. Each sets the time after its own link, so the last one sets it finally.
        self.set_directory_time(directory, &target)
    }
}

impl Thread<'_, '_, '_> {
    /// Makes the entries directly in a directory, and adds tasks for the rest.
    fn fill(&mut self, at: &Arc<Directory>) -> Result<(), MakeError> {
        let children = self.make.plan.skeleton.children(at.index);
        for child in children.clone() {
            let node = Node::Directory(child);
            let made = mkdirat(&at.fd, self.make.plan.names.of(node), PRIVATE);
            made.map_err(MakeError::at("make directory", node))?;
            if self.queue.is_stopping() {
                return Ok(());
            }
        }
        for symlink in self.make.plan.symlinks_in(at.index) {
            self.make.symlink(at, symlink)?;
            self.worker.made.symlinks += 1;
            if self.queue.is_stopping() {
                return Ok(());
            }
        }
        // The newest task runs first, so files are made while their directory is open.
        if !children.is_empty() {
            self.queue.push(Task::Subdirectories(self.make.opener.place(at), children));
        }
        let files = self.make.plan.files_in(at.index);
        if files.is_empty() {
            return self.finish_directory(at);
        }
        self.queue.push(Task::Files(Arc::clone(at), files));
        Ok(())
    }

    fn subdirectories(&mut self, parent: Place, range: Range<u32>) -> Result<(), MakeError> {
        let mut end = range.end;
        while end - range.start > 1 {
            let middle = range.start + (end - range.start) / 2;
            self.queue.push(Task::Subdirectories(parent.clone(), middle..end));
            end = middle;
        }
        let directory = self.make.opener.child(&parent, range.start)?;
        // Closed before its subdirectories are added: a deep chain keeps few descriptors open.
        drop(parent);
        self.fill(&directory)
    }

    fn files(&mut self, at: &Arc<Directory>, range: Range<u64>) -> Result<(), MakeError> {
        let Range { start: mut file, mut end } = range;
        let mut made = 0;
        while file < end && !self.queue.is_stopping() {
            let left = end - file;
            if left > FILES_MAX || (left > 1 && self.queue.is_wanted()) {
                let middle = file + left / 2;
                self.queue.push(Task::Files(Arc::clone(at), middle..end));
                end = middle;
                continue;
            }
            let large = self.file(at, file)?;
            made += 1;
            file += 1;
            if let Some(piece) = large {
                // The rest waits, so that each thread has at most one large file open.
                if file < end {
                    self.queue.push(Task::Files(Arc::clone(at), file..end));
                }
                self.queue.push(piece);
                break;
            }
        }
        if at.files_left.fetch_sub(made, Ordering::AcqRel) == made {
            self.finish_directory(at)?;
        }
        Ok(())
    }

    /// Sets the mode and time of a directory whose entries are complete.
    fn finish_directory(&mut self, at: &Directory) -> Result<(), MakeError> {
        let node = Node::Directory(at.index);
        if at.index > 0 || self.make.is_root_new {
            let mode = fchmod(&at.fd, Mode::from_raw_mode(self.make.plan.mode(node)));
            mode.map_err(MakeError::at("set mode", node))?;
        }
        if at.index > 0 {
            self.worker.made.directories += 1;
            self.make.count();
        }
        self.make.set_directory_time(at.index, &at.fd)
    }

    fn hard_links(&mut self, range: Range<u64>) -> Result<(), MakeError> {
        let mut end = range.end;
        while end - range.start > LINKS_MAX {
            let middle = range.start + (end - range.start) / 2;
            self.queue.push(Task::HardLinks(middle..end));
            end = middle;
        }
        for index in range.start..end {
            if self.queue.is_stopping() {
                break;
            }
            self.make.hard_link(index)?;
            self.worker.made.hard_links += 1;
            self.make.count();
        }
        Ok(())
    }
}

impl Job for Make<'_> {
    type Task = Task;
    type Worker = Worker;

    fn worker(&self, _index: usize) -> Worker {
        Worker::default()
    }

    fn run(&self, worker: &mut Worker, task: Task, queue: &mut Queue<'_, Self>) {
        let mut thread = Thread { make: self, worker, queue };
        let outcome = match task {
            Task::Fill(directory) => thread.fill(&directory),
            Task::Subdirectories(parent, range) => thread.subdirectories(parent, range),
            Task::Files(directory, range) => thread.files(&directory, range),
            Task::Piece(file, range) => thread.piece(&file, range),
            Task::HardLinks(range) => thread.hard_links(range),
        };
        if let Err(error) = outcome {
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.end.set();
        }
    }

    fn progress(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }
}

/// Sets the modification time and leaves the access time. The access time is the later one, so reading the tree does not have to write it
/// ("relatime").
pub(crate) fn timestamps(mtime: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: i64::from(mtime.nanoseconds) },
    }
}
