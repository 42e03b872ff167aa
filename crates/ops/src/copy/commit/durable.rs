//! How copies become durable one by one: the steps after a file or directory was synced on its own. For files that
//! are synced together see `publish.rs`; for the threads that sync see `syncing.rs`.
//!
//! ```text
//!   complete ─▶ Batch: publish.rs ─▶ one syncfs for many ─▶ renamed
//!           └─▶ Each: syncing.rs ─▶ fsync ─▶ renamed; after the last file of a new directory the directory is renamed
//!   a directory has all its names and attributes ─▶ Each: fsync
//! ```

use std::sync::Arc;

use rustix::fd::OwnedFd;

use crate::copy::commit::Committer;
use crate::copy::commit::batch::Ready;
use crate::copy::commit::checks::Check;
use crate::copy::commit::pending::{Pending, PendingFile};
use crate::copy::commit::syncing::{Opened, Synced};
use crate::copy::options::Fsync;
use crate::copy::target::mirror::Location;
use crate::copy::target::place::{Made, Place, remove};
use crate::file::error::FileError;
use crate::tree::directory::Directory;

/// Most outcomes that a thread handles between two of its tasks, while others copy.
const OUTCOMES_MOST: usize = 16;

impl Committer<'_> {
    /// Queues a complete file to be synced and then renamed, while this thread goes on.
    pub(crate) fn sync_file(&mut self, file: OwnedFd, pending: PendingFile) {
        self.sync_later(Opened::File(file), Pending::File(Box::new(pending)));
    }

    /// Queues a directory that has all its names to be synced.
    pub(crate) fn sync_directory(&mut self, at: &Arc<Directory>, opened: Arc<OwnedFd>) {
        if self.maker.target.options.fsync != Fsync::None {
            let pending = Pending::Directory(Location::Target(Arc::clone(at)));
            self.sync_later(Opened::Directory(opened), pending);
        }
    }

    fn sync_later(&mut self, opened: Opened, pending: Pending) {
        while self.commit.syncing.is_full() {
            let Some(synced) = self.commit.syncing.wait() else { break };
            self.finish_synced(synced);
        }
        self.commit.syncing.add(opened, pending);
    }

    /// Handles some outcomes of finished syncs.
    pub(crate) fn finish_some(&mut self) {
        for _ in 0..OUTCOMES_MOST {
            let Some(synced) = self.commit.syncing.take() else { return };
            self.finish_synced(synced);
        }
    }

    /// Waits for the next sync that was queued, and handles its outcome. Returns whether there was one.
    pub(crate) fn finish_next(&mut self) -> bool {
        let synced = self.commit.syncing.wait();
        let is_any = synced.is_some();
        synced.into_iter().for_each(|synced| self.finish_synced(synced));
        is_any
    }

    fn finish_synced(&mut self, synced: Synced<Pending>) {
        let Synced { what, outcome } = synced;
        match what {
            Pending::Directory(at) => {
                if let Err(error) = outcome {
                    self.maker.fail(&at, error);
                }
            }
            Pending::File(mut pending) => {
                let part = pending.part.take();
                let checks = std::mem::take(&mut pending.checks);
                self.apart(part, |committer| committer.finish_file(&pending, checks, outcome));
            }
        }
    }

    /// Counts a durable file and renames it to its final name. A file whose sync failed is written again, or removed and reported.
    fn finish_file(&mut self, pending: &PendingFile, mut checks: Vec<Check>, outcome: Result<(), FileError>) {
        let outcome = match outcome {
            Err(error) if error.is_worth_another_copy() => self.write_file_again(pending),
            outcome => outcome.map(|()| None),
        };
        let PendingFile { at, mirror, name, temporary, bytes, elapsed, identity, .. } = pending;
        let another = match outcome {
            Ok(another) => another,
            Err(error) => {
                if let Ok(to) = self.maker.place(mirror, name) {
                    remove(&to, &Made { temporary: temporary.clone(), ..Made::default() });
                }
                self.maker.fail(at, error);
                return self.forget_checks(checks);
            }
        };
        checks.iter_mut().for_each(|check| check.version.inode = another.unwrap_or(check.version.inode));
        self.maker.target.failures.space.find();
        self.count_file(at, *bytes, *elapsed);
        let is_named = match temporary.clone() {
            None => true,
            Some(temporary) => {
                let names = Some((temporary, name.clone()));
                let (origin, mirror, since) = (at.clone(), Arc::clone(mirror), self.stores().failed_syncs());
                let (bytes, identity) = (*bytes, *identity);
                let (has_noted_chunks, part, results) = (false, None, None);
                let ready =
                    Ready { origin, mirror, names, bytes, has_noted_chunks, since, identity, part, results };
                self.publish_now(&ready)
            }
        };
        if is_named { self.commit.checks.add(checks) } else { self.forget_checks(checks) }
    }

    /// Rewrites a file whose sync failed: a second sync would report success although data is lost. Returns the inode of the file if it is another one
    /// than before.
    fn write_file_again(&mut self, pending: &PendingFile) -> Result<Option<u64>, FileError> {
        let directory = self.maker.place(&pending.mirror, &pending.name)?.directory;
        let name = pending.temporary.as_deref().unwrap_or(&pending.name);
        let to = Place { mirror: &pending.mirror, directory, name, slice: None };
        match pending.has_noted_chunks {
            true => self.file_beside(&pending.at, &to, Some(&pending.version)).map(Some),
            false => self.file_again(&pending.at, &to, Some(&pending.version)),
        }
    }
}
