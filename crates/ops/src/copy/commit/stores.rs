//! The file systems that the copy writes to: TARGET's, and those mounted below it as they are found. Records their durability, the owner
//! of new files, which syncs reach storage, and which syncs have failed. This module mounts nothing and knows nothing of the servers behind them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::{Errno, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::links::synced::SyncedLinks;
use crate::copy::options::{Fsync, Options};
use crate::copy::results::times::Syncs;
use crate::copy::target::mirror::{Mirror, Shared, StoreFacts};
use crate::copy::target::place::NAMES_TRIED;
use crate::metadata::granularity::Granularity;
use atta_sys::file_systems::{Durability, durability_of};
use atta_sys::{self as sys, Features, retry};

/// One file system.
#[derive(Debug)]
struct Store {
    device: u64,
    durability: Durability,
    /// A directory on it, if it is persistent.
    directory: Option<Arc<OwnedFd>>,
    /// The owner of files that this process makes there: on a server not always this user.
    own_uid: Option<u32>,
    /// Granularity of its timestamps.
    granularity: Granularity,
}

/// The file systems that the copy writes to.
#[derive(Debug)]
pub(crate) struct Stores {
    /// TARGET's comes first.
    all: Mutex<Vec<Store>>,
    top: u64,
    /// Most file systems kept open to be synced. On any further one each file is synced on its own.
    most: usize,
    top_durability: Durability,
    shared: Arc<Shared>,
    /// Number in the names of probe files: not that of a thread.
    who: u64,
    /// At least one of them is persistent.
    keeps: AtomicBool,
    /// At least one of them needs a sync of each file.
    has_each: AtomicBool,
    /// The kernel does not report errors of a sync of a whole file system.
    is_silent: bool,
    features: Features,
    fsync: Fsync,
    /// DescriptorCache by the thread that syncs.
    turn: Mutex<()>,
    /// Syncs that failed. The kernel reports an error once, to the first caller, so everything begun before stays in doubt.
    failed: AtomicU64,
    syncs: Arc<Syncs>,
    synced_links: SyncedLinks,
}

/// When entries of a directory are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncRule {
    /// Not synced by this copy.
    Never,
    /// Together with others, by one sync of the file system.
    Batch,
    /// Each on its own, by `fsync`.
    Each,
}

impl Stores {
    /// Starts with TARGET's file system alone.
    pub(crate) fn new(top: &Arc<OwnedFd>, shared: &Arc<Shared>, who: u64, options: &Options<'_>) -> Self {
        let device = sys::stat_descriptor(top).map_or(0, |found| found.device);
        let (keeps, has_each) = (AtomicBool::new(false), AtomicBool::new(false));
        let (shared, is_silent) = (Arc::clone(shared), syncfs_is_silent());
        let (all, top_durability) = (Mutex::default(), Durability::Each);
        let mut stores = Self {
            all,
            top: device,
            most: 1,
            top_durability,
            shared,
            who,
            keeps,
            has_each,
            is_silent,
            features: options.walk.features,
            fsync: options.fsync,
            turn: Mutex::default(),
            failed: AtomicU64::new(0),
            syncs: Arc::default(),
            synced_links: SyncedLinks::new(options.run_of_job.unwrap_or_default()),
        };
        stores.top_durability = stores.add(device, top);
        stores
    }

    /// Sets how many file systems are kept open.
    pub(crate) fn with_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// How entries of TARGET itself are made durable.
    pub(crate) fn top_durability(&self) -> Durability {
        self.top_durability
    }

    /// Notes the file system of a directory that is written to.
    pub(crate) fn note(&self, directory: &Arc<OwnedFd>) -> StoreFacts {
        // The next call reports why `stat` of the directory fails.
        let Ok(found) = sys::stat_descriptor(directory) else {
            return StoreFacts { is_mounted: false, durability: self.top_durability };
        };
        self.note_as(&found, directory)
    }

    /// The same for a directory that was looked at.
    pub(crate) fn note_as(&self, found: &Metadata, directory: &Arc<OwnedFd>) -> StoreFacts {
        if found.device == self.top {
            return StoreFacts { is_mounted: false, durability: self.top_durability };
        }
        StoreFacts { is_mounted: true, durability: self.add(found.device, directory) }
    }

    /// Adds a file system. If two threads add it, the first one counts. No slow call is made while the lock is held.
    fn add(&self, device: u64, directory: &Arc<OwnedFd>) -> Durability {
        let known =
            |all: &[Store]| all.iter().find(|store| store.device == device).map(|store| store.durability);
        if let Some(durability) = known(&self.lock()) {
            return durability;
        }
        let mut durability = durability_of(directory, self.features);
        let (own_uid, granularity) = self.probe(directory);
        let mut all = self.lock();
        if let Some(durability) = known(&all) {
            return durability;
        }
        let is_kept = durability != Durability::Volatile && all.len() < self.most;
        if durability == Durability::Whole && (self.is_silent || !is_kept) {
            durability = Durability::Each;
        }
        match durability {
            Durability::Volatile => {}
            Durability::Whole => self.keeps.store(true, Ordering::Release),
            Durability::Each => {
                self.keeps.store(true, Ordering::Release);
                self.has_each.store(true, Ordering::Release);
            }
        }
        let directory = is_kept.then(|| Arc::clone(directory));
        all.push(Store { device, durability, directory, own_uid, granularity });
        durability
    }

    /// Returns the owner of new files in a directory, and the granularity of its timestamps. Creates a probe file for that, which stays
    /// open, so that a replaced name does not matter.
    fn probe(&self, directory: &OwnedFd) -> (Option<u32>, Granularity) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..NAMES_TRIED {
            let name = self.shared.namer.of_file(self.who);
            let file = rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR);
            if matches!(file, Err(errno) if errno != rustix::io::Errno::EXIST) {
                break;
            }
            // A file that cannot be removed is found later by its name. If the reply to the first request was lost, the file is this
            // process's too, but it is not opened.
            let _ = rustix::fs::unlinkat(directory, &name, AtFlags::empty());
            if let Ok(file) = file {
                let own_uid = sys::stat_descriptor(&file).ok().map(|found| found.uid);
                return (own_uid, Granularity::probe(&file));
            }
        }
        (None, Granularity::EXACT)
    }

    /// Granularity of the timestamps of the file system with this device number.
    pub(crate) fn granularity(&self, device: u64) -> Granularity {
        let all = self.lock();
        let store = all.iter().find(|store| store.device == device);
        store.map_or(Granularity::EXACT, |store| store.granularity)
    }

    /// The owner of files that this process makes in the file system with this device number. `None`: not known.
    pub(crate) fn own_uid(&self, device: u64) -> Option<u32> {
        self.lock().iter().find(|store| store.device == device)?.own_uid
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Store>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether none of them keeps data when the machine goes down.
    pub(crate) fn are_volatile(&self) -> bool {
        !self.keeps.load(Ordering::Acquire)
    }

    /// Whether at least one of them needs a sync of each file.
    fn have_each(&self) -> bool {
        self.has_each.load(Ordering::Acquire)
    }

    /// When entries of a directory are made durable.
    pub(crate) fn sync_rule(&self, mirror: &Mirror) -> SyncRule {
        let durability = mirror.durability().unwrap_or(self.top_durability);
        match (self.fsync, durability) {
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

    /// Whether some files are synced on their own.
    ///
    /// This is so if the user requested it, or if a sync of the whole file system is not known to reach storage.
    pub(crate) fn sync_each(&self) -> bool {
        let is_wanted = self.fsync == Fsync::File;
        let is_needed = self.have_each() && self.fsync == Fsync::Batch;
        !self.are_volatile() && (is_wanted || is_needed)
    }

    /// How many syncs have failed.
    pub(crate) fn failed_syncs(&self) -> u64 {
        self.failed.load(Ordering::Acquire)
    }

    /// Which files with several names are on storage.
    pub(crate) fn synced_links(&self) -> &SyncedLinks {
        &self.synced_links
    }

    /// The number and duration of syncs.
    pub(crate) fn syncs(&self) -> &Arc<Syncs> {
        &self.syncs
    }

    /// Syncs one file, and measures it.
    pub(crate) fn sync_file(&self, file: impl AsFd) -> Result<(), Errno> {
        self.syncs.timed(|| retry(|| rustix::fs::fsync(&file)))
    }

    /// Syncs the data of one file, and measures it.
    pub(crate) fn sync_data(&self, file: impl AsFd) -> Result<(), Errno> {
        self.syncs.timed(|| retry(|| rustix::fs::fdatasync(&file)))
    }

    /// Makes all data durable that was written where `syncfs` does that. After a failure, all data begun before is in doubt.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = self.synced_links.begin();
        let synced = self.syncs.timed(|| self.sync_those(|store| store.durability == Durability::Whole));
        self.synced_links.end(begun, synced.is_ok());
        if synced.is_err() {
            self.failed.fetch_add(1, Ordering::AcqRel);
        }
        synced
    }

    /// Makes copies of an earlier run durable that are in the links' directory, and records that, where a sync of a file system does it.
    pub(crate) fn sync_links(&self, links: &OwnedFd) -> Result<(), Errno> {
        if self.fsync == Fsync::Batch && self.top_durability == Durability::Whole {
            self.synced_links.number(links);
            return self.sync();
        }
        Ok(())
    }

    /// Syncs all file systems for the last time. No rename waits for this sync. Where each file was synced on its own, nothing is known to
    /// be left to sync.
    pub(crate) fn sync_last(&self) -> Result<(), Errno> {
        self.syncs.timed(|| self.sync_those(|_| true))
    }

    fn sync_those(&self, are_those: impl Fn(&Store) -> bool) -> Result<(), Errno> {
        let all: Vec<_> = self
            .lock()
            .iter()
            .filter(|store| are_those(store))
            .filter_map(|store| store.directory.clone())
            .collect();
        // Sync each one, even if another one fails.
        let synced: Vec<_> = all.iter().map(|directory| retry(|| rustix::fs::syncfs(directory))).collect();
        synced.into_iter().collect()
    }
}

/// Whether the kernel's `syncfs` does not report writeback errors: before Linux 5.8.
fn syncfs_is_silent() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    is_before(&release, (5, 8))
}

/// Whether a kernel release is older than the wanted one. A release that cannot be parsed counts as older.
fn is_before(release: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = release.split(|digit: char| !digit.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < wanted,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_compared_by_number() {
        for old in ["5.7.19", "4.18.0-553.el8_10.x86_64", "3.10", "", "strange"] {
            assert!(is_before(old, (5, 8)), "{old}");
        }
        for new in ["5.8.0", "5.14.0-427.el9", "6.18.44-fc", "10.0"] {
            assert!(!is_before(new, (5, 8)), "{new}");
        }
    }
}
