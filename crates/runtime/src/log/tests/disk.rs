//! A disk in memory that fails on request. It keeps what a process would read apart from what a power cut leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use atta_ledger::LogName;
use rustix::io::Errno;

use crate::log::file::Calls;

/// What is wrong with the disk.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// The answer to each reservation.
    pub(super) reserve: Option<Errno>,
    /// The answer to each creation.
    pub(super) create: Option<Errno>,
    /// The answers to writes and syncs of these parts.
    pub(super) write: BTreeMap<u32, Errno>,
    pub(super) sync: BTreeMap<u32, Errno>,
    /// Bytes that one write takes; a write that fails has taken so many.
    pub(super) short: Option<usize>,
    /// Syncs hang.
    pub(super) hangs: bool,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) faults: Faults,
    /// What a process reads.
    pub(super) files: BTreeMap<LogName, Vec<u8>>,
    /// What a power cut leaves.
    pub(super) stored: BTreeMap<LogName, Vec<u8>>,
    /// Until where space is reserved.
    pub(super) reserved: BTreeMap<LogName, u64>,
    /// The most bytes of a file that were not on storage.
    pub(super) most_unsynced: usize,
    pub(super) syncs_begun: u64,
    /// Parts that were written after they had failed.
    pub(super) written_after_failure: BTreeSet<u32>,
    failed: BTreeSet<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Disk {
    state: Mutex<State>,
    changed: Condvar,
}

impl Disk {
    pub(super) fn file(self: &Arc<Self>, name: LogName) -> Arc<dyn Calls> {
        let mut state = self.lock();
        state.files.insert(name, Vec::new());
        state.stored.insert(name, Vec::new());
        Arc::new(File { disk: Arc::clone(self), name })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn set(&self, set: impl FnOnce(&mut Faults)) {
        set(&mut self.lock().faults);
        self.changed.notify_all();
    }

    pub(super) fn wait(&self, until: impl Fn(&State) -> bool) {
        drop(self.changed.wait_while(self.lock(), |state| !until(state)).unwrap());
    }

    pub(super) fn files(&self) -> BTreeMap<LogName, Vec<u8>> {
        self.lock().files.clone()
    }

    pub(super) fn stored(&self) -> BTreeMap<LogName, Vec<u8>> {
        self.lock().stored.clone()
    }
}

#[derive(Debug)]
struct File {
    disk: Arc<Disk>,
    name: LogName,
}

impl State {
    fn fail(&mut self, part: u32, errno: Option<Errno>) -> Result<(), Errno> {
        let Some(errno) = errno else { return Ok(()) };
        self.failed.insert(part);
        Err(errno)
    }
}

impl Calls for File {
    fn name(&self) -> LogName {
        self.name
    }

    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        let mut state = self.disk.lock();
        if let Some(errno) = state.faults.reserve {
            return Err(errno);
        }
        state.reserved.insert(self.name, offset + bytes);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let mut state = self.disk.lock();
        let part = self.name.part;
        if state.failed.contains(&part) {
            state.written_after_failure.insert(part);
        }
        let errno = state.faults.write.get(&part).copied();
        let most = if errno.is_some() { 0 } else { usize::MAX };
        let count = bytes.len().min(state.faults.short.unwrap_or(most));
        let stored = state.stored[&self.name].len();
        let file = state.files.get_mut(&self.name).unwrap();
        assert!(offset as usize <= file.len(), "no frame leaves a hole");
        file.truncate(offset as usize);
        file.extend(&bytes[..count]);
        let unsynced = file.len() - stored;
        state.most_unsynced = state.most_unsynced.max(unsynced);
        let outcome = state.fail(part, errno).map(|()| count);
        self.disk.changed.notify_all();
        outcome
    }

    fn sync(&self) -> Result<(), Errno> {
        let mut state = self.disk.lock();
        state.syncs_begun += 1;
        // A sync promises only what was written before it began.
        let bytes = state.files[&self.name].clone();
        self.disk.changed.notify_all();
        state = self.disk.changed.wait_while(state, |state| state.faults.hangs).unwrap();
        let errno = state.faults.sync.get(&self.name.part).copied();
        state.fail(self.name.part, errno)?;
        state.stored.insert(self.name, bytes);
        Ok(())
    }

    fn next(&self) -> Result<Arc<dyn Calls>, Errno> {
        if let Some(errno) = self.disk.lock().faults.create {
            return Err(errno);
        }
        Ok(self.disk.file(LogName { part: self.name.part + 1, ..self.name }))
    }
}
