//! Directories of a tree that is being made, as descriptors: opened from the one above, or from the target down, and
//! counted, so that a broad tree does not use up what a process may have open. Makes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::make::MakeError;
use super::names::Node;
use super::plan::Plan;

/// Directories that tasks keep open for the ones below, before these are opened from the target down instead. Most
/// processes may have 1,024 files open; 64 threads use three each on top. Tests come by both ways with few directories.
const OPEN_MAX: usize = if cfg!(test) { 4 } else { 256 };

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const PASSAGE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory in which something is being made.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) index: u32,
    pub(crate) fd: OwnedFd,
    /// Files that are not there yet. Whoever makes the last one gives the directory its time.
    pub(crate) files_left: AtomicU64,
    open: Arc<AtomicUsize>,
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a waiting task gets at a directory.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// It is open.
    Open(Arc<Directory>),
    /// It is to be opened by its number, from the target down.
    Closed,
}

/// Opens the directories of one tree.
#[derive(Debug)]
pub(crate) struct Opener<'a> {
    plan: &'a Plan,
    root: OwnedFd,
    open: Arc<AtomicUsize>,
}

impl<'a> Opener<'a> {
    pub(crate) fn new(plan: &'a Plan, root: OwnedFd) -> Self {
        Self { plan, root, open: Arc::default() }
    }

    /// The target.
    pub(crate) fn root(&self) -> Result<Arc<Directory>, MakeError> {
        Ok(self.counted(0, self.descend(0)?))
    }

    /// A subdirectory of a directory.
    pub(crate) fn child(&self, parent: &Place, index: u32) -> Result<Arc<Directory>, MakeError> {
        let fd = match parent {
            Place::Open(parent) => self.enter(parent.fd.as_fd(), index, DIRECTORY)?,
            Place::Closed => self.descend(index)?,
        };
        Ok(self.counted(index, fd))
    }

    /// How the tasks for its subdirectories get at a directory.
    pub(crate) fn place(&self, directory: &Arc<Directory>) -> Place {
        if self.open.load(Ordering::Relaxed) < OPEN_MAX {
            Place::Open(Arc::clone(directory))
        } else {
            Place::Closed
        }
    }

    /// Opens a directory by its number. Takes a step for each level.
    pub(crate) fn descend(&self, index: u32) -> Result<OwnedFd, MakeError> {
        let lineage = self.plan.skeleton.lineage(index);
        let mut here: Option<OwnedFd> = None;
        for each in lineage {
            let flags = if each == index { DIRECTORY } else { PASSAGE };
            let next = self.enter(here.as_ref().unwrap_or(&self.root).as_fd(), each, flags)?;
            here = Some(next);
        }
        match here {
            Some(fd) => Ok(fd),
            None => fcntl_dupfd_cloexec(&self.root, 0).map_err(at(index)),
        }
    }

    fn enter(&self, parent: BorrowedFd<'_>, index: u32, flags: OFlags) -> Result<OwnedFd, MakeError> {
        let name = self.plan.names.of(Node::Directory(index));
        openat(parent, name, flags, Mode::empty()).map_err(at(index))
    }

    fn counted(&self, index: u32, fd: OwnedFd) -> Arc<Directory> {
        self.open.fetch_add(1, Ordering::Relaxed);
        let files = self.plan.files_in(index);
        let files_left = AtomicU64::new(files.end - files.start);
        Arc::new(Directory { index, fd, files_left, open: Arc::clone(&self.open) })
    }
}

fn at(index: u32) -> impl Fn(Errno) -> MakeError {
    MakeError::at("open directory", Node::Directory(index))
}
