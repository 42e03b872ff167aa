//! How copies become durable: the sync rule of a directory, and the steps after a file or directory was synced on its own. For files that
//! are synced together see `publish.rs`; for the threads that sync see `syncing.rs`.
//!
//! ```text
//!   complete ─▶ Batch: publish.rs ─▶ one syncfs for many ─▶ renamed
//!           └─▶ Each: syncing.rs ─▶ fsync ─▶ renamed; after the last file of a new directory the directory is renamed
//!   a directory has all its names and attributes ─▶ Each: fsync
//! ```

use std::sync::Arc;

use rustix::fd::OwnedFd;

use crate::copy::commit::batch::Ready;
use crate::copy::commit::checks::Check;
use crate::copy::commit::pending::{Pending, PendingFile, SyncRule};
use crate::copy::commit::syncing::{Opened, Synced};
use crate::copy::handler::Copying;
use crate::copy::options::Fsync;
use crate::copy::target::mirror::{Location, Mirror};
use crate::copy::target::place::{Made, Place, remove};
use crate::copy::thread::Worker;
use crate::file::error::FileError;
use crate::tree::directory::Directory;
use atta_sys::file_systems::Durability;

/// Most outcomes that a thread handles between two of its tasks, while others copy.
const OUTCOMES_MOST: usize = 16;

impl Copying<'_> {
    /// When entries of a directory are made durable.
    pub(crate) fn sync_rule(&self, mirror: &Mirror) -> SyncRule {
        let durability = mirror.durability().unwrap_or_else(|| self.stores.top_durability());
        match (self.options.fsync, durability) {
            (Fsync::None, _) | (_, Durability::Volatile) => SyncRule::Never,
            (Fsync::Batch, Durability::Whole) => SyncRule::Batch,
            (Fsync::Batch, Durability::Each) | (Fsync::File, _) => SyncRule::Each,
        }
    }

    /// Whether entries of a directory get their final names only after a sync of the whole batch.
    pub(crate) fn waits_in(&self, mirror: &Mirror) -> bool {
        self.sync_rule(mirror) == SyncRule::Batch
    }

    /// Whether each file in a directory is synced on its own.
    pub(crate) fn syncs_each_in(&self, mirror: &Mirror) -> bool {
        self.sync_rule(mirror) == SyncRule::Each
    }

    /// Queues a complete file to be synced and then renamed, while this thread goes on.
    pub(crate) fn sync_file(&self, worker: &mut Worker, file: OwnedFd, pending: PendingFile) {
        self.sync_later(worker, Opened::File(file), Pending::File(Box::new(pending)));
    }

    /// Queues a directory that has all its names to be synced.
    pub(crate) fn sync_directory(&self, worker: &mut Worker, at: &Arc<Directory>, opened: Arc<OwnedFd>) {
        if self.options.fsync != Fsync::None {
            let pending = Pending::Directory(Location::Target(Arc::clone(at)));
            self.sync_later(worker, Opened::Directory(opened), pending);
        }
    }

    fn sync_later(&self, worker: &mut Worker, opened: Opened, pending: Pending) {
        while self.syncing.is_full() {
            let Some(synced) = self.syncing.wait() else { break };
            self.finish_synced(worker, synced);
        }
        self.syncing.add(opened, pending);
    }

    /// Handles some outcomes of finished syncs.
    pub(crate) fn finish_some(&self, worker: &mut Worker) {
        for _ in 0..OUTCOMES_MOST {
            let Some(synced) = self.syncing.take() else { return };
            self.finish_synced(worker, synced);
        }
    }

    /// Waits for all queued syncs and handles their outcomes. Closes the directories that are complete then.
    pub(crate) fn finish_all(&self, worker: &mut Worker) {
        while let Some(synced) = self.syncing.wait() {
            self.finish_synced(worker, synced);
            self.end_parts(worker);
        }
    }

    fn finish_synced(&self, worker: &mut Worker, synced: Synced<Pending>) {
        let Synced { what, outcome } = synced;
        match what {
            Pending::Directory(at) => {
                if let Err(error) = outcome {
                    self.fail(worker, &at, error);
                }
            }
            Pending::File(mut pending) => {
                let part = pending.part.take();
                let checks = std::mem::take(&mut pending.checks);
                self.finish_file(worker, &pending, checks, outcome);
                worker.ended.extend(part);
            }
        }
    }

    /// Counts a durable file and renames it to its final name. A file whose sync failed is written again, or removed and reported.
    fn finish_file(
        &self,
        worker: &mut Worker,
        pending: &PendingFile,
        checks: Vec<Check>,
        outcome: Result<(), FileError>,
    ) {
        let outcome = match outcome {
            Err(error) if error.is_worth_another_copy() => self.write_file_again(worker, pending),
            outcome => outcome,
        };
        let PendingFile { at, mirror, name, temporary, bytes, elapsed, identity, .. } = pending;
        if let Err(error) = outcome {
            if let Ok(to) = self.place(worker, mirror, name) {
                remove(&to, &Made { temporary: temporary.clone(), ..Made::default() });
            }
            self.fail(worker, at, error);
            return self.forget_checks(worker, checks);
        }
        self.room.find();
        self.count_file(worker, at, *bytes, *elapsed);
        let is_named = match temporary.clone() {
            None => true,
            Some(temporary) => {
                let names = Some((temporary, name.clone()));
                let (origin, mirror, since) = (at.clone(), Arc::clone(mirror), self.batch.failures());
                let (bytes, identity) = (*bytes, *identity);
                let ready = Ready { origin, mirror, names, bytes, since, identity, part: None };
                self.publish_now(worker, &ready)
            }
        };
        if is_named { self.checks.add(checks) } else { self.forget_checks(worker, checks) }
    }

    /// Rewrites a file whose sync failed: a second sync would report success although data is lost.
    fn write_file_again(&self, worker: &mut Worker, pending: &PendingFile) -> Result<(), FileError> {
        let directory = self.place(worker, &pending.mirror, &pending.name)?.directory;
        let name = pending.temporary.as_deref().unwrap_or(&pending.name);
        let to = Place { mirror: &pending.mirror, directory, name, slice: None };
        self.file_again(worker, &pending.at, &to, Some(&pending.version)).map(drop)
    }
}
