//! Complete entries that wait until they are durable and get their final names together. No I/O.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use crate::copy::commit::checks::Check;
use crate::copy::results::Results;
use crate::copy::target::mirror::{Location, Mirror, Part};
use crate::file::source::Identity;
use crate::tree::slice::hand_over;

/// Bytes in a batch.
pub(crate) const BATCH_BYTES: u64 = 512 << 20;
/// Files and directories in a batch.
pub(crate) const BATCH_ITEMS: usize = 16 << 10;

/// A complete file or directory that waits for its final name.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Its source: for messages, and to hold the directory open for its attributes.
    pub(crate) origin: Location,
    pub(crate) mirror: Arc<Mirror>,
    /// Temporary and final name of a file. `None`: the directory itself is to be renamed.
    pub(crate) names: Option<(CString, CString)>,
    pub(crate) bytes: u64,
    /// Its chunks are in the log of the job: a later run would not copy them again.
    pub(crate) has_noted_chunks: bool,
    /// How many syncs had failed when its first byte was written.
    pub(crate) since: u64,
    /// Identity of the file, if known.
    pub(crate) identity: Option<Identity>,
    /// The slice that it is in. The slice does not end before the rename.
    pub(crate) part: Option<Part>,
    /// The results of that slice, if nothing but this part keeps it open. The batch adds them up: many slices may wait.
    pub(crate) results: Option<Box<Results>>,
}

/// Names in a directory that are other files than before, each with its inode. None: the file is lost, which was reported.
pub(crate) type Rewritten = Vec<(CString, Option<u64>)>;

/// Directories and names that are not to be read back any more, and names that are other files by now.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    directories: HashSet<*const Mirror>,
    /// The inode of the file that has the name now. None: the file is lost.
    names: HashMap<(*const Mirror, CString), Option<u64>>,
}

impl Lost {
    pub(crate) fn add(&mut self, ready: &Ready) {
        match &ready.names {
            Some((_, name)) => self.add_names(&ready.mirror, vec![(name.clone(), None)]),
            None => drop(self.directories.insert(Arc::as_ptr(&ready.mirror))),
        }
    }

    pub(crate) fn add_names(&mut self, mirror: &Arc<Mirror>, names: Rewritten) {
        self.names.extend(names.into_iter().map(|(name, inode)| ((Arc::as_ptr(mirror), name), inode)));
    }

    /// Removes and returns the checks of lost directories and names. Those of names that are other files by now become checks of these.
    pub(crate) fn take_from(&self, checks: &mut Vec<Check>) -> Vec<Check> {
        if self.directories.is_empty() && self.names.is_empty() {
            return Vec::new();
        }
        let is_lost = |check: &mut Check| {
            let mirror = Arc::as_ptr(&check.mirror);
            match self.names.get(&(mirror, check.name.clone())) {
                Some(Some(inode)) => check.version.inode = *inode,
                Some(None) => return true,
                None => {}
            }
            self.directories.contains(&mirror)
        };
        checks.extract_if(.., is_lost).collect()
    }
}

impl Ready {
    /// A directory that has all its files.
    pub(crate) fn directory(origin: Location, mirror: Arc<Mirror>, part: Option<Part>) -> Self {
        let since = mirror.since();
        let (names, identity, results) = (None, None, None);
        Self { origin, mirror, names, bytes: 0, has_noted_chunks: false, since, identity, part, results }
    }
}

/// Entries that wait until they are durable.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) ready: Vec<Ready>,
    /// Checks to run once the entries are durable and renamed.
    pub(crate) checks: Vec<Check>,
    pub(crate) bytes: u64,
    /// Results of slices that only this batch keeps open.
    pub(crate) results: Results,
    /// Something was added since the last sync. Checks that were put back do not count: a sync does not help them.
    is_new: bool,
}

impl Batch {
    /// Adds an entry. Returns the whole batch once it is full.
    pub(crate) fn add(&self, mut ready: Option<Ready>, bytes: u64, checks: Vec<Check>) -> Option<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes = waiting.bytes.saturating_add(bytes);
        waiting.is_new = true;
        let results = ready.as_mut().and_then(|ready| ready.results.take());
        results.into_iter().for_each(|mut results| hand_over(&mut *results, &mut waiting.results));
        waiting.ready.extend(ready);
        waiting.checks.extend(checks);
        let items = waiting.ready.len().max(waiting.checks.len()).max(waiting.results.rows.len());
        let is_full = waiting.bytes >= BATCH_BYTES || items >= BATCH_ITEMS;
        is_full.then(|| std::mem::take(&mut *waiting))
    }

    /// Whether anything waits that a sync would end.
    pub(crate) fn waits(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_new && !(waiting.ready.is_empty() && waiting.checks.is_empty())
    }

    /// Puts checks back to wait for the next sync. Returns those of lost entries.
    pub(crate) fn put_back(&self, checks: Vec<Check>, lost: &Lost) -> Vec<Check> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.checks.extend(checks);
        lost.take_from(&mut waiting.checks)
    }

    pub(crate) fn take(&self) -> Waiting {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
