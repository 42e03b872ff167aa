//! The file systems that things are put into: TARGET's, and those that are mounted below it, as they are met. What they are, and
//! how all of them are made durable; whose what this process makes there is. It mounts nothing, and knows nothing of servers behind
//! them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::granularity::Granularity;
use super::mirror::Shared;
use crate::walk::kernel::{self, retry};

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;
const FUSE: i64 = 0x6573_5546;

/// One file system.
#[derive(Debug)]
struct Store {
    device: u64,
    /// Some directory of it, if it keeps what it is given.
    directory: Option<Arc<OwnedFd>>,
    /// The owner of what this process makes there: on a server not always this user.
    own_uid: Option<u32>,
    /// How exactly it keeps times.
    granularity: Granularity,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Stores {
    /// TARGET's comes first.
    all: Mutex<Vec<Store>>,
    top: u64,
    /// So many are kept open to be synced. Of those beyond each file is synced by itself.
    most: usize,
    shared: Arc<Shared>,
    /// Who makes files to see whose they are: no thread.
    who: u64,
    /// One of them keeps what it is given.
    keeps: AtomicBool,
    /// A sync of everything tells no errors on one of them, or does not reach its server.
    is_silent: AtomicBool,
}

impl Stores {
    /// TARGET's alone.
    pub(crate) fn new(top: &Arc<OwnedFd>, shared: &Arc<Shared>, who: u64) -> Self {
        let device = kernel::stat_descriptor(top).map_or(0, |found| found.device);
        let (keeps, is_silent) = (AtomicBool::new(false), AtomicBool::new(syncfs_is_silent()));
        let shared = Arc::clone(shared);
        let stores = Self { all: Mutex::default(), top: device, most: 1, shared, who, keeps, is_silent };
        stores.add(device, top);
        stores
    }

    /// The same, with so many others that are kept open.
    pub(crate) fn with_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Notes a directory that things are put into. Whether it is on another file system than TARGET.
    pub(crate) fn note(&self, directory: &Arc<OwnedFd>) -> bool {
        // Of a directory that cannot be looked at the next call tells.
        let Ok(found) = kernel::stat_descriptor(directory) else { return false };
        if found.device == self.top {
            return false;
        }
        self.add(found.device, directory);
        true
    }

    /// Notes one. Where two threads do, the first one counts; nothing that may take long is asked while others wait.
    fn add(&self, device: u64, directory: &Arc<OwnedFd>) {
        if self.lock().iter().any(|store| store.device == device) {
            return;
        }
        let is_volatile = is_one_of(directory, &[TMPFS, RAMFS]);
        if !is_volatile {
            self.keeps.store(true, Ordering::Release);
        }
        if is_one_of(directory, &[FUSE]) {
            self.is_silent.store(true, Ordering::Release);
        }
        let (own_uid, granularity) = self.probe(directory);
        let mut all = self.lock();
        if all.iter().any(|store| store.device == device) {
            return;
        }
        let is_kept = !is_volatile && all.len() < self.most;
        if !is_volatile && !is_kept {
            self.is_silent.store(true, Ordering::Release);
        }
        all.push(Store { device, directory: is_kept.then(|| Arc::clone(directory)), own_uid, granularity });
    }

    /// Whose what this process makes in a directory is, and how exactly its times are kept, by a file that nobody can replace before
    /// it is looked at.
    fn probe(&self, directory: &OwnedFd) -> (Option<u32>, Granularity) {
        let name = self.shared.namer.of_file(self.who);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR) else {
            return (None, Granularity::EXACT);
        };
        // What cannot be removed is found by its name.
        let _ = rustix::fs::unlinkat(directory, &name, AtFlags::empty());
        let own_uid = kernel::stat_descriptor(&file).ok().map(|found| found.uid);
        (own_uid, Granularity::probe(&file))
    }

    /// How exactly the file system with this number keeps times.
    pub(crate) fn granularity(&self, device: u64) -> Granularity {
        let all = self.lock();
        let store = all.iter().find(|store| store.device == device);
        store.map_or(Granularity::EXACT, |store| store.granularity)
    }

    /// The owner of what this process makes in the file system with this number; none: not known.
    pub(crate) fn own_uid(&self, device: u64) -> Option<u32> {
        self.lock().iter().find(|store| store.device == device)?.own_uid
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Store>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether none of them keeps anything when the machine goes down.
    pub(crate) fn are_volatile(&self) -> bool {
        !self.keeps.load(Ordering::Acquire)
    }

    /// Whether what was synced as a whole is not surely durable.
    pub(crate) fn are_silent(&self) -> bool {
        self.is_silent.load(Ordering::Acquire)
    }

    /// Makes durable what was written to any of them.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        let all: Vec<_> = self.lock().iter().filter_map(|store| store.directory.clone()).collect();
        // Each is asked, whatever the others say.
        let synced: Vec<_> = all.iter().map(|directory| retry(|| rustix::fs::syncfs(directory))).collect();
        synced.into_iter().collect()
    }
}

/// Whether a file system is one of these.
pub(crate) fn is_one_of(directory: impl AsFd, magics: &[i64]) -> bool {
    #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
    let magic = |found: rustix::fs::StatFs| i64::from(found.f_type);
    rustix::fs::fstatfs(directory).is_ok_and(|found| magics.contains(&magic(found)))
}

/// Whether the kernel's `syncfs` tells no errors of writing back: before Linux 5.8.
fn syncfs_is_silent() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    is_before(&release, (5, 8))
}

/// Whether a release of the kernel, as it calls itself, is older than another one. One that says nothing is.
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
    fn releases_of_the_kernel_are_told_apart() {
        for old in ["5.7.19", "4.18.0-553.el8_10.x86_64", "3.10", "", "strange"] {
            assert!(is_before(old, (5, 8)), "{old}");
        }
        for new in ["5.8.0", "5.14.0-427.el9", "6.18.44-fc", "10.0"] {
            assert!(!is_before(new, (5, 8)), "{new}");
        }
    }
}
