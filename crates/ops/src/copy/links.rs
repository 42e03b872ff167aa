//! Hard links: the first name of a file, symbolic link or special file is copied; the other names become links of that copy.
//!
//! Which names belong together is kept in the target's file system, not in memory: a directory private to the job holds a link of each
//! such copy under the source's device and inode. So memory use does not grow with their number, every rank finds the copies, and the
//! directory survives if the job is killed. It is removed at the end.
//!
//! ```text
//!   links/DEVICE-INODE     the copy, as soon as it is complete; in the job's private directory
//!   links/DEVICE-INODE.c   a thread makes the copy; once complete: how many syncs had failed before, how many names the
//!                                     source has, its kind, size and modification time, and its digest
//! ```

pub(super) mod make;

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use atta_entry::{Errno, Metadata};
use rustix::fd::OwnedFd;

use crate::copy::target::mirror::{Location, Mirror, Part};
use crate::copy::target::place::Place;

/// The links' directory, and the names that wait: see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) directory: OnceLock<Result<OwnedFd, Errno>>,
    pub(crate) deferred: Mutex<Vec<Deferred>>,
    /// A name was deferred since the deferred ones were last tried.
    is_new: AtomicBool,
    /// The number of names from which on they are tried before the rank has nothing else to do. 0: [`DEFERRED_MOST`].
    most: AtomicUsize,
}

/// So many names may wait before they are tried again. After that, only names of files that are being copied wait.
const DEFERRED_MOST: usize = 4096;

/// A name whose file another thread or rank is copying.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) at: Location,
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) metadata: Metadata,
    pub(crate) name: CString,
    /// The slice that the name is in.
    pub(crate) part: Option<Part>,
}

impl Deferred {
    pub(crate) fn new(at: Location, to: &Place<'_>, metadata: Metadata) -> Self {
        let (mirror, name) = (Arc::clone(to.mirror), to.name.to_owned());
        Self { at, mirror, metadata, name, part: to.part() }
    }

    /// The final name in the target.
    pub(crate) fn name(&self) -> CString {
        self.name.clone()
    }
}

impl Links {
    /// Whether files with several names may exist by now.
    pub(crate) fn are_used(&self) -> bool {
        self.directory.get().is_some()
    }

    /// Adds a name that has to wait.
    pub(crate) fn defer(&self, deferred: Deferred) {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner).push(deferred);
        self.is_new.store(true, Ordering::Release);
    }

    /// Returns names to those that wait: another rank is still copying their files.
    pub(crate) fn put_back(&self, names: Vec<Deferred>) {
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        deferred.extend(names);
        self.most.store(deferred.len() + DEFERRED_MOST, Ordering::Relaxed);
    }

    /// Whether so many names wait that some should be made now.
    pub(crate) fn are_many(&self) -> bool {
        self.have_new() && {
            let waiting = self.deferred.lock().unwrap_or_else(PoisonError::into_inner).len();
            waiting >= self.most.load(Ordering::Relaxed).max(DEFERRED_MOST)
        }
    }

    /// Whether names wait that were not tried again.
    pub(crate) fn have_new(&self) -> bool {
        self.is_new.load(Ordering::Acquire)
    }

    /// Takes the names that waited for others.
    pub(crate) fn take_deferred(&self) -> Vec<Deferred> {
        self.is_new.store(false, Ordering::Release);
        std::mem::take(&mut *self.deferred.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
