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

pub(crate) mod claims;
pub(crate) mod forget;
pub(crate) mod make;
pub(crate) mod private;

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::Metadata;

use crate::copy::target::mirror::{Location, Mirror, Part};
use crate::copy::target::place::Item;

/// The names that wait for the copy that they become links of.
#[derive(Debug, Default)]
pub(crate) struct Links {
    deferred: Mutex<Vec<Deferred>>,
    /// Whether all names wait, until partners have been searched for: see `plan/repair.rs`.
    defers_all: AtomicBool,
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
    fn new(item: Item<'_>) -> Self {
        let Item { at, to, metadata, .. } = item;
        let (mirror, name) = (Arc::clone(to.mirror), to.name.to_owned());
        Self { at: at.clone(), mirror, metadata: *metadata, name, part: to.part() }
    }

    /// The final name in the target.
    pub(crate) fn name(&self) -> CString {
        self.name.clone()
    }
}

impl Links {
    /// Lets all names wait, or none that need not.
    pub(crate) fn set_defers_all(&self, defers_all: bool) {
        self.defers_all.store(defers_all, Ordering::Release);
    }

    /// Whether a name without a copy has to wait.
    pub(crate) fn defers_all(&self) -> bool {
        self.defers_all.load(Ordering::Acquire)
    }

    /// Adds a name that has to wait.
    pub(crate) fn defer(&self, item: Item<'_>) {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner).push(Deferred::new(item));
        self.is_new.store(true, Ordering::Release);
    }

    /// Returns names to those that wait: another thread or rank is still copying their files.
    pub(crate) fn put_back(&self, names: Vec<Deferred>) {
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        deferred.extend(names);
        self.most.store(deferred.len() + DEFERRED_MOST, Ordering::Relaxed);
    }

    /// Whether names wait that were not tried again.
    pub(crate) fn have_new(&self) -> bool {
        self.is_new.load(Ordering::Acquire)
    }

    /// Whether so many names wait that some should be made now.
    pub(crate) fn are_many(&self) -> bool {
        self.have_new() && {
            let waiting = self.deferred.lock().unwrap_or_else(PoisonError::into_inner).len();
            waiting >= self.most.load(Ordering::Relaxed).max(DEFERRED_MOST)
        }
    }

    /// Takes the names that waited for others.
    pub(crate) fn take_deferred(&self) -> Vec<Deferred> {
        self.is_new.store(false, Ordering::Release);
        std::mem::take(&mut *self.deferred.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
