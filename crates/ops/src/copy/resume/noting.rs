//! What is done is noted in the log of the job only when it is on storage: after a sync that began when it was done. Such a sync begins at least
//! every five seconds, and when so many bytes of large files were copied as a batch has. It writes no log.
//!
//! ```text
//!   a batch is synced ─▶ renamed ─▶ its slices end: held ─▶ the next sync ─▶ confirmed: the next frame of the log has it
//! ```
//!
//! A thread of its own begins such a sync if no batch does ([`Noting::while_syncing`]), so that no thread that copies waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atta_entry::Errno;
use atta_runtime::Stop;

use crate::copy::commit::Committer;
use crate::copy::commit::batch::BATCH_BYTES;
use crate::copy::commit::syncing::{Opened, make_durable};
use crate::copy::handler::CopyOperation;
use crate::copy::options::Options;
use crate::copy::results::Results;
use crate::copy::target::Target;
use crate::copy::target::mirror::{Mirror, SourceDirectory};
use crate::tree::Journal;
use crate::tree::directory::Directory;
use crate::tree::journal::Held;
use crate::tree::listing::descriptor_cache::DescriptorCache;

/// How long after the begin of a sync the next one begins.
const EVERY: Duration = Duration::from_secs(5);
/// The least share of a rank in a batch of chunks.
const SHARE_LEAST: u64 = 64 << 20;
/// How often it is looked whether one is due.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of chunks of large files, since the copy began.
#[derive(Default)]
struct ChunkBytes {
    copied: AtomicU64,
    /// Of these, before the last sync began.
    begun: AtomicU64,
    /// Of these, before a sync that has ended.
    ended: AtomicU64,
}

impl ChunkBytes {
    /// Bytes that the next sync is for.
    fn unbegun(&self) -> u64 {
        self.copied.load(Ordering::Relaxed).saturating_sub(self.begun.load(Ordering::Relaxed))
    }

    /// Bytes that no sync has ended for.
    fn left(&self) -> u64 {
        self.copied.load(Ordering::Relaxed).saturating_sub(self.ended.load(Ordering::Relaxed))
    }
}

/// What is due before its time, because a commit was asked for.
#[derive(Default)]
struct Asked {
    /// How often that was, when it was looked at last.
    commits: AtomicU64,
    /// The batch is to be published.
    batch: AtomicBool,
    /// What is held is to be synced.
    sync: AtomicBool,
}

/// Descriptors that the thread which syncs keeps open.
const HELD_OPEN: usize = 8;

/// What is done and waits for a sync.
pub(crate) struct Noting<'a> {
    pub(crate) journal: &'a Journal<Results>,
    log: &'a dyn CopyLog,
    /// The job goes on after this run, if entries failed: a rank without work syncs what is held.
    outlives_run: bool,
    /// Target directories in which something has ended, and which are synced by themselves.
    unsynced: Mutex<Unsynced>,
    began: Instant,
    /// When the last sync began, in milliseconds since `began`.
    last: AtomicU64,
    /// How long after the begin of a sync the next one begins, in milliseconds.
    every_ms: u64,
    /// Counts notes.
    notes: AtomicU64,
    chunks: ChunkBytes,
    /// So many bytes of chunks begin a sync, and twice as many wait for it: this rank's share of a batch.
    share: u64,
    /// When the last batch was taken to be published, as `last`.
    published: AtomicU64,
    asked: Asked,
    /// A thread of its own syncs what is held.
    is_served: AtomicBool,
    /// The copy is over.
    is_over: Mutex<bool>,
    /// Something is due, or the copy is over.
    wakes: Condvar,
}

/// By the address of the directory: it, and when it was noted last.
type Unsynced = HashMap<usize, (Arc<Directory>, u64)>;

/// The log of a copy, as its caller writes it.
pub trait CopyLog: Sync {
    /// Writes now what was noted.
    fn write(&self);

    /// As [`write`](Self::write); it is also on storage, if a log has begun.
    fn sync(&self) {
        self.write();
    }

    /// Whether there is a log with which a later run goes on. One that has not begun begins now.
    fn is_kept(&self) -> bool;

    /// The copy has come to its end: no log begins any more.
    fn end(&self) {}

    /// How often it was asked to put on storage now what is done.
    fn commits(&self) -> u64 {
        0
    }
}

impl Noting<'_> {
    /// See [`CopyLog::end`].
    pub(crate) fn end_log(&self) {
        self.log.end();
    }

    /// See [`CopyLog::sync`].
    pub(crate) fn sync_log(&self) {
        self.log.sync();
    }

    /// Puts on storage what belongs to no directory.
    pub(crate) fn note_results(&self, results: &Results) {
        self.journal.note_results(results);
        self.log.sync();
    }
}

impl CopyOperation<'_> {
    /// Whether a later run goes on with what this one leaves.
    pub(crate) fn is_of_job(&self) -> bool {
        self.commit.noting.as_ref().map_or(self.lacks_log, |noting| noting.log.is_kept())
    }
}

impl<'a> Noting<'a> {
    /// `ranks`: how many copy.
    pub(crate) fn new(
        journal: &'a Journal<Results>,
        log: &'a dyn CopyLog,
        (options, ranks): (&Options<'_>, u32),
    ) -> Self {
        let share = (BATCH_BYTES / u64::from(ranks.max(1))).max(SHARE_LEAST);
        let every = options.sync_every.unwrap_or(EVERY).as_millis();
        let every_ms = u64::try_from(every).unwrap_or(u64::MAX);
        let ([last, notes, published], chunks) = ([0; 3].map(AtomicU64::new), ChunkBytes::default());
        let asked = Asked { commits: AtomicU64::new(log.commits()), ..Asked::default() };
        let (unsynced, began) = (Mutex::default(), Instant::now());
        let (is_served, is_over, wakes) = (AtomicBool::new(false), Mutex::default(), Condvar::new());
        Self {
            journal,
            log,
            outlives_run: options.tries_again(),
            unsynced,
            began,
            last,
            every_ms,
            notes,
            chunks,
            share,
            published,
            asked,
            is_served,
            is_over,
            wakes,
        }
    }

    /// Whether something waits for a sync.
    pub(crate) fn has_held(&self) -> bool {
        self.journal.has_held()
    }

    /// Whether a rank that has nothing left to do must sync what is held. A copy whose job ends with it syncs everything at its end.
    pub(crate) fn must_sync(&self) -> bool {
        self.outlives_run && self.has_held()
    }

    /// Whether a sync of what is held is due.
    fn is_due(&self) -> bool {
        let is_old = self.now().saturating_sub(self.last.load(Ordering::Relaxed)) >= self.every_ms;
        let is_asked =
            (self.has_held() || self.chunks.unbegun() > 0) && self.asked.sync.load(Ordering::Relaxed);
        self.has_held() && is_old || is_asked || self.chunks.unbegun() >= self.share
    }

    /// Whether the batch is to be published. True for one thread: the others take it that this one does that.
    fn is_batch_due(&self) -> bool {
        let (last, now) = (self.published.load(Ordering::Relaxed), self.now());
        now.saturating_sub(last) >= self.every_ms
            && self.published.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Waits until a sync is due. Returns false when the copy is over.
    fn wait_until_due(&self) -> bool {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_over {
            self.look_for_commits();
            if self.is_due() {
                return true;
            }
            let waited = self.wakes.wait_timeout(is_over, PAUSE);
            (is_over, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        false
    }

    /// Lets the next batch and the next sync come before their time, if that was asked for.
    fn look_for_commits(&self) {
        let asked = self.log.commits();
        if self.asked.commits.swap(asked, Ordering::Relaxed) != asked {
            self.asked.batch.store(true, Ordering::Relaxed);
            self.asked.sync.store(true, Ordering::Relaxed);
        }
    }

    /// Says that the copy is over.
    fn end_all(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wakes.notify_all();
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Counts bytes of a chunk that was noted and waits for a sync.
    pub(crate) fn count(&self, bytes: u64) {
        self.chunks.copied.fetch_add(bytes, Ordering::Relaxed);
        if self.chunks.unbegun() >= self.share {
            self.wakes.notify_all();
        }
    }

    /// Waits while twice this rank's share of a batch waits for the storage: a kill would lose all of that.
    pub(crate) fn wait_for_storage(&self, stop: &Stop) {
        while self.chunks.left() >= 2 * self.share && self.has_thread() && !stop.is_set() {
            std::thread::sleep(PAUSE / 20);
        }
    }

    /// Whether a thread of its own syncs what is held.
    fn has_thread(&self) -> bool {
        self.journal.is_holding() && self.is_served.load(Ordering::Relaxed)
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

    /// Takes what is done so far, before a sync, and returns the directories that are synced by themselves, and the bytes of chunks so far.
    fn begin(&self) -> (Held<Results>, Unsynced, u64) {
        self.asked.sync.store(false, Ordering::Relaxed);
        self.last.store(self.now(), Ordering::Relaxed);
        let copied = self.chunks.copied.load(Ordering::Relaxed);
        self.chunks.begun.fetch_max(copied, Ordering::Relaxed);
        let held = self.journal.begin_sync();
        (held, self.unsynced().clone(), copied)
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

/// Says that the thread that syncs has ended when it is dropped, also if it panics: others must not wait for it.
struct Served<'n, 'j>(&'n Noting<'j>);

impl Drop for Served<'_, '_> {
    fn drop(&mut self) {
        self.0.is_served.store(false, Ordering::Relaxed);
    }
}

impl Target<'_> {
    /// Makes all data durable that was written, as [`Stores::sync`](crate::copy::commit::stores::Stores::sync) does. What was done before is
    /// noted in the log of the job, if there is one.
    fn sync_noting(&self, noting: Option<&Noting<'_>>, held_open: &mut DescriptorCache) -> Result<(), Errno> {
        let Some(noting) = noting else { return self.stores.sync() };
        let failed = self.stores.failed_syncs();
        let (held, unsynced, copied) = noting.begin();
        let synced = self.stores.sync();
        let mut sync_one = |target: &Arc<Directory>| {
            let opened = target.descriptor(held_open, self.features);
            opened.is_ok_and(|opened| make_durable(Opened::Directory(opened)).is_ok())
        };
        // The kernel reports a failure once, perhaps to another sync that has begun later.
        let is_sure = || self.stores.failed_syncs() == failed;
        if synced.is_ok() && unsynced.values().all(|(target, _)| sync_one(target)) && is_sure() {
            noting.end(held, &unsynced);
        }
        // Also if it failed: what was held is forgotten then.
        if noting.chunks.ended.fetch_max(copied, Ordering::Relaxed) < copied {
            // Within a second, much more may be copied.
            noting.log.write();
        }
        synced
    }
}

impl Noting<'_> {
    /// Copies while a thread of its own syncs what is held.
    pub(crate) fn while_syncing<T>(&self, target: &Target<'_>, copy: impl FnOnce() -> T) -> T {
        let noting = self;
        std::thread::scope(|scope| {
            let _over = Over(noting);
            let thread = std::thread::Builder::new().name("atta-sync".to_owned());
            let syncs = || {
                let _served = Served(noting);
                noting.is_served.store(true, Ordering::Relaxed);
                let mut held_open = DescriptorCache::new(HELD_OPEN);
                while noting.wait_until_due() {
                    // If it fails, a later run does again what was held.
                    let _ = target.sync_noting(Some(noting), &mut held_open);
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
        let Some(noting) = &self.commit.noting else { return };
        let is_asked = noting.asked.batch.swap(false, Ordering::Relaxed);
        if is_asked || noting.is_batch_due() {
            self.publish_waiting();
        }
        if let Some(noting) = self.commit.noting.as_ref().filter(|_| is_asked) {
            // What the batch has ended waits for another sync.
            noting.asked.sync.store(true, Ordering::Relaxed);
        }
    }

    /// Syncs what must not be left to the next sync when this rank has nothing left to do.
    pub(crate) fn sync_if_idle(&mut self) {
        if self.commit.noting.as_ref().is_some_and(Noting::must_sync) {
            // If it fails, a later run does again what was held.
            let _ = self.sync_stores();
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
