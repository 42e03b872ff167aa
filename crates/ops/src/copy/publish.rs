//! Gives what is complete its own name: at once, or when it is durable. Then the old content of a name, if there was one, is gone.
//!
//! With `--fsync batch` nothing is visible before it is on stable storage: what is complete waits in a batch until one `syncfs`
//! has made all of it durable. A file system in memory has no stable storage and is not asked.

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::Errno;
use rustix::fd::OwnedFd;

use super::file::Place;
use super::handler::{CopyWorker, Copying, Where};
use super::mirror::Mirror;
use super::trouble::{Doing, Trouble};
use crate::walk::kernel::{self, retry};

/// Bytes in a batch.
const BATCH_BYTES: u64 = 512 << 20;
/// Files and directories in a batch.
const BATCH_ITEMS: usize = 16 << 10;

/// Something that is complete and waits for its name.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Where it is from: for messages, and what holds the directory open for attributes.
    pub(crate) origin: Where,
    pub(crate) mirror: Arc<Mirror>,
    /// None: the directory itself is to have its name.
    pub(crate) names: Option<(CString, CString)>,
    pub(crate) bytes: u64,
}

/// What waits until it is durable.
#[derive(Debug)]
pub(crate) struct Batch {
    waiting: Mutex<Waiting>,
    /// What came of the last sync; held while there is one.
    synced: Mutex<Result<(), Errno>>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { waiting: Mutex::default(), synced: Mutex::new(Ok(())) }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    ready: Vec<Ready>,
    bytes: u64,
}

impl Batch {
    /// Adds something; gives all of them if there are enough.
    fn add(&self, ready: Option<Ready>, bytes: u64) -> Option<Vec<Ready>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes += bytes;
        waiting.ready.extend(ready);
        let is_full = waiting.bytes >= BATCH_BYTES || waiting.ready.len() >= BATCH_ITEMS;
        is_full.then(|| std::mem::take(&mut *waiting).ready)
    }

    fn take(&self) -> Vec<Ready> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner)).ready
    }
}

impl Copying<'_> {
    /// Gives something its name when that may be.
    pub(crate) fn publish(&self, worker: &mut CopyWorker, ready: Ready) {
        if !self.waits() {
            return self.publish_now(worker, &ready);
        }
        let bytes = ready.bytes;
        if let Some(full) = self.batch.add(Some(ready), bytes) {
            self.publish_durable(worker, &full);
        }
    }

    /// Counts bytes that are in a directory that will be published.
    pub(crate) fn add_bytes(&self, worker: &mut CopyWorker, bytes: u64) {
        if self.waits()
            && let Some(full) = self.batch.add(None, bytes)
        {
            self.publish_durable(worker, &full);
        }
    }

    /// Publishes all that waits.
    pub(crate) fn publish_rest(&self, worker: &mut CopyWorker) {
        let rest = self.batch.take();
        if !rest.is_empty() {
            self.publish_durable(worker, &rest);
        }
    }

    fn publish_durable(&self, worker: &mut CopyWorker, all: &[Ready]) {
        match self.sync() {
            Ok(()) => all.iter().for_each(|ready| self.publish_now(worker, ready)),
            Err(errno) => {
                let trouble = Trouble::new(Doing::Sync, errno);
                for ready in all {
                    self.take_back(worker, ready);
                    self.fail(worker, &ready.origin, trouble);
                }
            }
        }
    }

    /// Removes a file that will not get its name. Directories are left, under names that nobody looks for.
    fn take_back(&self, worker: &mut CopyWorker, ready: &Ready) {
        if let Some((temporary, _)) = &ready.names
            && let Ok(directory) = ready.mirror.target.descriptor(&mut worker.held, self.features)
        {
            let _ = rustix::fs::unlinkat(&directory, temporary, rustix::fs::AtFlags::empty());
        }
    }

    /// Gives the directory of a root its name, if it is there and has it not.
    pub(crate) fn name_root(&self, worker: &mut CopyWorker, mirror: Arc<Mirror>) {
        if mirror.target.alias().is_some() {
            let origin = Where::Root(Vec::new());
            let _ = self.rename(worker, &Ready { origin, mirror, names: None, bytes: 0 });
        }
    }

    fn publish_now(&self, worker: &mut CopyWorker, ready: &Ready) {
        if let Err(trouble) = self.rename(worker, ready) {
            self.fail(worker, &ready.origin, trouble);
        }
    }

    fn rename(&self, worker: &mut CopyWorker, ready: &Ready) -> Result<(), Trouble> {
        let target = &ready.mirror.target;
        let held = &mut worker.held;
        let mut open = |directory: &Arc<crate::walk::directory::Directory>| -> Result<Arc<OwnedFd>, Trouble> {
            directory
                .descriptor(held, self.features)
                .map_err(|errno| Trouble::new(Doing::OpenDirectory, errno))
        };
        let failed = |errno| Trouble::new(Doing::Rename, errno);
        match &ready.names {
            Some((temporary, name)) => {
                let directory = open(target)?;
                let to = Place { mirror: &ready.mirror, directory: Arc::clone(&directory), name };
                let renamed = self.refuse_respelled(&to, temporary).and_then(|()| {
                    retry(|| rustix::fs::renameat(&directory, temporary, &directory, name)).map_err(failed)
                });
                // To rename a name to another one of the same file does nothing: where a directory tells a name twice.
                if renamed.is_err() || self.links.are_used() {
                    let _ = rustix::fs::unlinkat(&directory, temporary, rustix::fs::AtFlags::empty());
                }
                renamed
            }
            None => {
                // It may have been there before this job, or have got its name: then it has no other one.
                let opened = open(target)?;
                let (Some(alias), Some(parent)) = (target.alias(), target.parent()) else { return Ok(()) };
                let parent = open(parent)?;
                // It replaces nothing but an empty directory.
                match retry(|| rustix::fs::renameat(&parent, alias, &parent, target.name())) {
                    // A directory that tells a name twice: whoever had it first has named it.
                    Ok(()) | Err(Errno::NOENT) => target.end_alias(),
                    Err(errno) => return Err(failed(errno)),
                }
                // Somebody may have put another one in its place after it was opened.
                let own = kernel::stat_descriptor(&opened).map_err(failed)?;
                let named = kernel::stat_at(&parent, target.name(), false).map_err(failed)?;
                if (own.device, own.inode) != (named.device, named.inode) {
                    return Err(failed(Errno::STALE));
                }
                Ok(())
            }
        }
    }

    /// Makes durable what has been written to the target. Once that has failed, nothing that was written is to be trusted: an
    /// error is told once, to whoever asks first.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        let mut state = self.batch.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_ok() {
            *state = retry(|| rustix::fs::syncfs(&self.top));
        }
        *state
    }
}
