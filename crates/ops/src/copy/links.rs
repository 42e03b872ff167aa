//! Hard links: the first name of a file, symbolic link or special file is copied; the other names become links of that copy.
//!
//! Which names belong together is kept in the target's file system, not in memory: a directory private to the job holds a link of each
//! such copy under the source's device and inode. So memory use does not grow with their number, every rank finds the copies, and the
//! directory survives if the job is killed. It is removed at the end.
//!
//! ```text
//!   links/DEVICE-INODE     the copy, as soon as it is complete; in the job's private directory
//!   links/DEVICE-INODE.c   a thread makes the copy: the number of its rank; once complete: how many syncs had failed before, how
//!                                     many names the source has, which run of a job has copied which name, the source's kind, size and
//!                                     modification time, and its digest
//!   links/synced           which of them are on storage: see links/synced.rs
//! ```

pub(crate) mod claims;
pub(crate) mod forget;
pub(crate) mod make;
pub(crate) mod private;
pub(crate) mod ranks;
pub(crate) mod synced;

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::Metadata;

use crate::copy::plan::repair::later::{Later, PutOff};
use crate::copy::target::existing::there;
use crate::copy::target::mirror::{Location, Mirror, Part};
use crate::copy::target::place::Item;
use crate::file::error::{FileError, Step};
use crate::file::source::identity_of;
use crate::sorted::errno_of;
use claims::key;
use ranks::Copying;

/// The names that wait for the copy that they become links of.
#[derive(Debug, Default)]
pub(crate) struct Links {
    waiting: Mutex<Waiting>,
    /// Names that a repair has put off: see `plan/repair.rs`.
    pub(crate) later: Option<Later>,
    /// Names can be made, or were deferred since the deferred ones were last tried.
    is_due: AtomicBool,
    /// The files that this rank is copying.
    pub(crate) copying: Copying,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By the key of the copy.
    deferred: HashMap<CString, Vec<Deferred>>,
    /// Keys of copies whose rank was asked.
    asked: HashSet<CString>,
    count: usize,
    /// Names whose copies have ended.
    ready: Vec<Deferred>,
    /// The number of names from which on they are tried before the rank has nothing else to do. 0: [`DEFERRED_MOST`].
    most: usize,
}

/// So many names may wait before they are tried again. After that, only names of files that are being copied wait.
const DEFERRED_MOST: usize = 4096;

/// A name whose file another thread or rank is copying.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) at: Location,
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) metadata: Metadata,
    /// The final name in the target.
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
}

impl Links {
    /// For a repair: all names without a copy are put off, until [`Later::take`].
    pub(crate) fn set_later(&mut self, memory: u64, directory: &Path) {
        self.later = Some(Later::new(memory, directory));
    }

    /// Puts a name off, if names are put off now. Returns whether it was.
    pub(crate) fn put_off(&self, item: Item<'_>) -> Result<bool, FileError> {
        let Some(later) = self.later.as_ref().filter(|later| later.is_open()) else { return Ok(false) };
        let (root, path) = item.at.root_and_path();
        let names = item.metadata.nlink.into();
        let replaced = there(item.to)?.map(|found| identity_of(&found));
        let put_off = later.push(&PutOff { file: identity_of(item.metadata), names, replaced, root, path });
        put_off.map_err(|error| FileError::new(Step::Link, errno_of(&error)))?;
        Ok(true)
    }

    /// Adds a name that has to wait.
    pub(crate) fn defer(&self, item: Item<'_>) {
        let mut waiting = self.lock();
        waiting.count += 1;
        waiting.deferred.entry(key(item.metadata)).or_default().push(Deferred::new(item));
        self.is_due.store(true, Ordering::Release);
    }

    /// Notes that the copy with this key is complete or was given up: its names can be made.
    pub(crate) fn note_ended(&self, key: &CStr) {
        let mut waiting = self.lock();
        waiting.asked.remove(key);
        if let Some(names) = waiting.deferred.remove(key) {
            waiting.count -= names.len();
            waiting.ready.extend(names);
            self.is_due.store(true, Ordering::Release);
        }
    }

    /// Notes that names which wait are to be tried again.
    pub(crate) fn note_due(&self) {
        self.is_due.store(true, Ordering::Release);
    }

    /// Whether the rank that makes a copy is yet to be asked for names of this rank. Notes that it is asked now.
    pub(crate) fn is_first_to_ask(&self, key: &CStr) -> bool {
        self.lock().asked.insert(key.to_owned())
    }

    /// Whether names wait that may be made now.
    pub(crate) fn are_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// Whether so many names wait that some should be made now.
    pub(crate) fn are_many(&self) -> bool {
        self.are_due() && {
            let waiting = self.lock();
            waiting.count + waiting.ready.len() >= waiting.most.max(DEFERRED_MOST)
        }
    }

    /// Takes the names that need not wait: those whose copies have ended, and those for whose key `is_copied` is false.
    pub(crate) fn take_due(&self, is_copied: impl Fn(&CStr) -> bool) -> Vec<Deferred> {
        self.is_due.store(false, Ordering::Release);
        let mut due = std::mem::take(&mut self.lock().ready);
        // Reads files, so not under the lock.
        let keys: Vec<_> = self.lock().deferred.keys().cloned().collect();
        let ended: Vec<_> = keys.into_iter().filter(|key| !is_copied(key)).collect();
        let mut waiting = self.lock();
        for key in ended {
            waiting.asked.remove(&key);
            due.extend(waiting.deferred.remove(&key).unwrap_or_default());
        }
        waiting.count = waiting.deferred.values().map(Vec::len).sum();
        waiting.most = waiting.count + DEFERRED_MOST;
        due
    }

    /// Takes all names that wait.
    pub(crate) fn take_all(&self) -> Vec<Deferred> {
        self.take_due(|_| false)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
