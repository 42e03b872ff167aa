//! What is done is noted in the log of the job only when it is on storage: after a sync that began when it was done. Such a sync begins at least
//! every five seconds, and when so many bytes of large files were copied as a batch has. It writes no log.
//!
//! ```text
//!   a batch is synced ─▶ renamed ─▶ its slices end: held ─▶ the next sync ─▶ confirmed: the next frame of the log has it
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atta_entry::Errno;

use crate::copy::commit::Committer;
use crate::copy::commit::batch::BATCH_BYTES;
use crate::copy::commit::syncing::{Opened, make_durable};
use crate::copy::results::Results;
use crate::copy::target::mirror::{Mirror, SourceDirectory};
use crate::tree::Journal;
use crate::tree::directory::Directory;
use crate::tree::journal::Held;

/// How long after the begin of a sync the next one begins.
const EVERY: Duration = Duration::from_secs(5);

/// What is done and waits for a sync.
pub(crate) struct Noting<'a> {
    pub(crate) journal: &'a Journal<Results>,
    /// Target directories in which something has ended, and which are synced by themselves.
    unsynced: Mutex<Unsynced>,
    began: Instant,
    /// When the last sync began, in milliseconds since `began`.
    last: AtomicU64,
    /// Counts notes.
    notes: AtomicU64,
    /// Bytes of chunks that were copied since the last sync began.
    bytes: AtomicU64,
}

/// By the address of the directory: it, and when it was noted last.
type Unsynced = HashMap<usize, (Arc<Directory>, u64)>;

impl<'a> Noting<'a> {
    pub(crate) fn new(journal: &'a Journal<Results>) -> Self {
        let [last, notes, bytes] = [0; 3].map(AtomicU64::new);
        Self { journal, unsynced: Mutex::default(), began: Instant::now(), last, notes, bytes }
    }

    /// Whether something waits for a sync.
    pub(crate) fn has_held(&self) -> bool {
        self.journal.has_held()
    }

    /// Whether a sync is due. True for one thread: the others take it that this one begins a sync.
    fn is_due(&self) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        let now = self.now();
        let every = u64::try_from(EVERY.as_millis()).unwrap_or(u64::MAX);
        if self.bytes.load(Ordering::Relaxed) >= BATCH_BYTES {
            return self.bytes.swap(0, Ordering::Relaxed) >= BATCH_BYTES;
        }
        now.saturating_sub(last) >= every
            && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Counts bytes of a chunk.
    pub(crate) fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Called before the end of a slice of a directory, or its closing, is noted.
    pub(crate) fn note(&self, directory: &Arc<SourceDirectory>) {
        if let Some(mirror) = Mirror::of(directory).filter(|mirror| mirror.is_synced_by_itself()) {
            let (target, now) = (&mirror.target, self.notes.fetch_add(1, Ordering::Relaxed));
            // It may have got its name in the one above.
            for directory in std::iter::once(target).chain(target.parent()) {
                let address = Arc::as_ptr(directory) as usize;
                self.unsynced().insert(address, (Arc::clone(directory), now));
            }
        }
    }

    fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is done so far, before a sync, and returns the directories that are synced by themselves.
    fn begin(&self) -> (Held<Results>, Unsynced) {
        self.last.store(self.now(), Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        let held = self.journal.begin_sync();
        (held, self.unsynced().clone())
    }

    /// Notes that a sync has succeeded. Until then, another one has to sync the directories, too.
    fn end(&self, held: Held<Results>, synced: &Unsynced) {
        self.journal.confirm(held);
        let is_synced =
            |address: &usize, noted: u64| synced.get(address).is_some_and(|(_, then)| *then == noted);
        self.unsynced().retain(|address, (_, noted)| !is_synced(address, *noted));
    }
}

impl Committer<'_> {
    /// Makes all data durable that was written, as [`Stores::sync`](crate::copy::commit::stores::Stores::sync) does. What was done before is
    /// noted in the log of the job.
    pub(crate) fn sync_stores(&mut self) -> Result<(), Errno> {
        let Some(noting) = &self.commit.noting else { return self.stores().sync() };
        let (held, unsynced) = noting.begin();
        let synced = self.stores().sync();
        if synced.is_ok() && unsynced.values().all(|(target, _)| self.sync_one(target)) {
            noting.end(held, &unsynced);
        }
        synced
    }

    fn sync_one(&mut self, target: &Arc<Directory>) -> bool {
        let opened = target.descriptor(&mut self.maker.scratch.held, self.maker.target.features);
        opened.is_ok_and(|opened| make_durable(Opened::Directory(opened)).is_ok())
    }

    /// Begins a sync if one is due, so that what is done gets into the log of the job.
    pub(crate) fn sync_if_due(&mut self) {
        if self.commit.noting.as_ref().is_some_and(Noting::is_due) {
            self.publish_waiting();
            self.sync_held();
        }
    }

    /// Syncs what is done and not noted in the log of the job.
    pub(crate) fn sync_held(&mut self) {
        if self.commit.noting.as_ref().is_some_and(Noting::has_held) {
            // If it fails, a later run does again what was held.
            let _ = self.sync_stores();
        }
    }

    /// Lets what is done wait for a sync, if a directory was found on a file system that outlives the machine.
    pub(crate) fn hold_if_needed(&self) {
        if let Some(noting) = self.commit.noting.as_ref().filter(|_| self.maker.target.is_durable()) {
            noting.journal.hold();
        }
    }
}
