//! Directory descriptors of a tree that is being made. A directory is opened from its parent or from the target down. Open ones are
//! counted, so that a broad tree stays within the process's limit. Makes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::make::MakeError;
use super::names::Node;
use super::plan::Plan;

/// The most directories that tasks keep open for their subdirectories; further ones are opened from the target down. Most processes may
/// have 1,024 files open; 64 threads use three each in addition. Tests reach both cases with few directories.
const OPEN_MAX: usize = if cfg!(test) { 4 } else { 256 };

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const PASSAGE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open directory whose entries are being made.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) index: u32,
    pub(crate) fd: OwnedFd,
    /// Files that are not complete. The thread that makes the last one sets the directory's time.
    pub(crate) files_left: AtomicU64,
    open: Arc<AtomicUsize>,
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a waiting task reaches a directory.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// It is open.
    Open(Arc<Directory>),
    /// It must be opened by its number, from the target down.
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

    /// Opens the target.
    pub(crate) fn root(&self) -> Result<Arc<Directory>, MakeError> {
        Ok(self.counted(0, self.descend(0)?))
    }

    /// Opens a subdirectory of a directory.
    pub(crate) fn child(&self, parent: &Place, index: u32) -> Result<Arc<Directory>, MakeError> {
        let fd = match parent {
            Place::Open(parent) => self.enter(parent.fd.as_fd(), index, DIRECTORY)?,
            Place::Closed => self.descend(index)?,
        };
        Ok(self.counted(index, fd))
    }

    /// Returns how tasks for the subdirectories reach this directory.
    pub(crate) fn place(&self, directory: &Arc<Directory>) -> Place {
        if self.open.load(Ordering::Relaxed) < OPEN_MAX {
            Place::Open(Arc::clone(directory))
        } else {
            Place::Closed
        }
    }

    /// Opens a directory by its number, with one step for each level.
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
