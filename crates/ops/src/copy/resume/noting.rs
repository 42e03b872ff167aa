//! What is done is noted in the log of the job only when it is on storage: after a sync that began when it was done. Such a sync begins at least
//! every five seconds, and when so many bytes of large files were copied as a batch has. It writes no log.
//!
//! ```text
//!   a batch is synced ─▶ renamed ─▶ its slices end: held ─▶ the next sync ─▶ confirmed: the next frame of the log has it
//! ```
//!
//! A thread of its own begins such a sync if no batch does ([`CopyOperation::while_syncing`]), so that no thread that copies waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atta_entry::Errno;

use crate::copy::commit::Committer;
use crate::copy::commit::batch::BATCH_BYTES;
use crate::copy::commit::syncing::{Opened, make_durable};
use crate::copy::handler::CopyOperation;
use crate::copy::results::Results;
use crate::copy::target::Target;
use crate::copy::target::mirror::{Mirror, SourceDirectory};
use crate::tree::Journal;
use crate::tree::directory::Directory;
use crate::tree::journal::Held;
use crate::tree::listing::descriptor_cache::DescriptorCache;

/// How long after the begin of a sync the next one begins, in milliseconds.
const EVERY_MS: u64 = 5000;
/// How often it is looked whether one is due.
const PAUSE: Duration = Duration::from_millis(100);

/// Descriptors that the thread which syncs keeps open.
const HELD_OPEN: usize = 8;

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
    /// When the last batch was taken to be published, as `last`.
    published: AtomicU64,
    /// The copy is over.
    is_over: Mutex<bool>,
    /// Something is due, or the copy is over.
    wakes: Condvar,
}

/// By the address of the directory: it, and when it was noted last.
type Unsynced = HashMap<usize, (Arc<Directory>, u64)>;

impl<'a> Noting<'a> {
    pub(crate) fn new(journal: &'a Journal<Results>) -> Self {
        let [last, notes, bytes, published] = [0; 4].map(AtomicU64::new);
        let (unsynced, began) = (Mutex::default(), Instant::now());
        let (is_over, wakes) = (Mutex::default(), Condvar::new());
        Self { journal, unsynced, began, last, notes, bytes, published, is_over, wakes }
    }

    /// Whether something waits for a sync.
    pub(crate) fn has_held(&self) -> bool {
        self.journal.has_held()
    }

    /// Whether a sync of what is held is due.
    fn is_due(&self) -> bool {
        let is_old = self.now().saturating_sub(self.last.load(Ordering::Relaxed)) >= EVERY_MS;
        self.has_held() && (is_old || self.bytes.load(Ordering::Relaxed) >= BATCH_BYTES)
    }

    /// Whether the batch is to be published. True for one thread: the others take it that this one does that.
    fn is_batch_due(&self) -> bool {
        let (last, now) = (self.published.load(Ordering::Relaxed), self.now());
        now.saturating_sub(last) >= EVERY_MS
            && self.published.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Waits until a sync is due. Returns false when the copy is over.
    fn wait_until_due(&self) -> bool {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_over {
            if self.is_due() {
                return true;
            }
            let waited = self.wakes.wait_timeout(is_over, PAUSE);
            (is_over, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        false
    }

    /// Says that the copy is over.
    fn end_all(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wakes.notify_all();
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Counts bytes of a chunk.
    pub(crate) fn count(&self, bytes: u64) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before < BATCH_BYTES && before + bytes >= BATCH_BYTES {
            self.wakes.notify_one();
        }
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

/// Ends the thread that syncs when it is dropped, also if the copy panics.
struct Over<'n, 'j>(&'n Noting<'j>);

impl Drop for Over<'_, '_> {
    fn drop(&mut self) {
        self.0.end_all();
    }
}

impl Target<'_> {
    /// Makes all data durable that was written, as [`Stores::sync`](crate::copy::commit::stores::Stores::sync) does. What was done before is
    /// noted in the log of the job, if there is one.
    fn sync_noting(&self, noting: Option<&Noting<'_>>, held_open: &mut DescriptorCache) -> Result<(), Errno> {
        let Some(noting) = noting else { return self.stores.sync() };
        let (held, unsynced) = noting.begin();
        let synced = self.stores.sync();
        let mut sync_one = |target: &Arc<Directory>| {
            let opened = target.descriptor(held_open, self.features);
            opened.is_ok_and(|opened| make_durable(Opened::Directory(opened)).is_ok())
        };
        if synced.is_ok() && unsynced.values().all(|(target, _)| sync_one(target)) {
            noting.end(held, &unsynced);
        }
        synced
    }
}

impl CopyOperation<'_> {
    /// Copies while a thread of its own syncs what is held for the log of the job, if there is one.
    pub(crate) fn while_syncing<T>(&self, copy: impl FnOnce() -> T) -> T {
        let Some(noting) = &self.commit.noting else { return copy() };
        std::thread::scope(|scope| {
            let _over = Over(noting);
            let thread = std::thread::Builder::new().name("atta-sync".to_owned());
            let syncs = || {
                let mut held_open = DescriptorCache::new(HELD_OPEN);
                while noting.wait_until_due() {
                    // If it fails, a later run does again what was held.
                    let _ = self.target.sync_noting(Some(noting), &mut held_open);
                }
            };
            // Without it, batches sync what was done before them, and the last sync the rest.
            let _ = thread.spawn_scoped(scope, syncs);
            copy()
        })
    }
}

impl Committer<'_> {
    /// Makes all data durable that was written. What was done before is noted in the log of the job, if there is one.
    pub(crate) fn sync_stores(&mut self) -> Result<(), Errno> {
        self.maker.target.sync_noting(self.commit.noting.as_ref(), &mut self.maker.scratch.held)
    }

    /// Publishes what waits, if a copy with a log has not done so for some time.
    pub(crate) fn publish_if_due(&mut self) {
        if self.commit.noting.as_ref().is_some_and(Noting::is_batch_due) {
            self.publish_waiting();
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
