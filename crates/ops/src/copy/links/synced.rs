//! Which copies in the links' directory were on storage when a run died, for a later run on another host or after a power cut. It syncs
//! nothing itself.
//!
//! Each claim has the number of syncs that had begun when its copy was complete. Each successful sync that some claim waits for is
//! recorded in the file `synced` before facts that rest on it are noted in the log. A copy is on storage if a sync with a higher number is
//! recorded. Numbers of a later run are higher than those of all earlier ones. After a sync that failed, the record says so: which copies
//! are whole is not known any more, also on the same host.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use atta_entry::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

use atta_sys::{self as sys, retry};

/// Name of the record in the links' directory.
pub(crate) const SYNCED: &CStr = c"synced";
/// Bits of a number that count syncs; the others are the run's.
const SYNC_BITS: u32 = 32;
/// In place of a number: a sync has failed.
const FAILED: u64 = u64::MAX;

/// The syncs of a run, as far as claims wait for them.
#[derive(Debug)]
pub(crate) struct SyncedLinks {
    /// Number of syncs that have begun.
    begun: AtomicU64,
    /// A claim waits for the next sync.
    is_due: AtomicBool,
    /// The links' directory, once it has the record. None: the record cannot be made or written.
    directory: OnceLock<Option<OwnedFd>>,
    /// A sync has failed, or could not be recorded: no other is recorded.
    has_failed: AtomicBool,
}

/// A sync that has begun.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Begun {
    number: u64,
    is_due: bool,
}

impl SyncedLinks {
    /// For this run of a job with a log, from 1. 0: nothing is recorded.
    pub(crate) fn new(run: u32) -> Self {
        let begun = AtomicU64::new(u64::from(run) << SYNC_BITS);
        Self {
            begun,
            is_due: AtomicBool::default(),
            directory: OnceLock::new(),
            has_failed: AtomicBool::default(),
        }
    }

    /// A number for a claim whose copy is complete. 0: no sync is recorded.
    pub(crate) fn number(&self, links: &OwnedFd) -> u64 {
        let number = self.begun.load(Ordering::Acquire);
        if number >> SYNC_BITS == 0 || self.directory.get_or_init(|| make(links).ok()).is_none() {
            return 0;
        }
        self.is_due.store(true, Ordering::Release);
        number
    }

    /// Called before a sync. One begins after the other has ended.
    pub(crate) fn begin(&self) -> Begun {
        let is_due = self.is_due.swap(false, Ordering::AcqRel);
        Begun { number: self.begun.fetch_add(1, Ordering::AcqRel) + 1, is_due }
    }

    /// Called after a sync, before another one begins. After one that failed, no other is recorded.
    pub(crate) fn end(&self, Begun { number, is_due }: Begun, is_synced: bool) {
        if self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        let recorded = match self.directory.get() {
            Some(Some(directory)) if !is_synced => write(directory, FAILED),
            Some(Some(directory)) if is_due => write(directory, number),
            _ => Ok(()),
        };
        if !is_synced || recorded.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
    }
}

/// Makes the record, unless an earlier run has done so: with its bytes, so that a full disk can record a sync. Keeps the directory open, and
/// not the file: it can be removed at any time.
fn make(links: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match retry(|| rustix::fs::openat(links, SYNCED, flags, Mode::RUSR | Mode::WUSR)) {
        Ok(file) => sys::data::write_all_at(&file, &0_u64.to_le_bytes(), 0)?,
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    rustix::io::dup(links).map_err(|error| Errno(error.raw_os_error()))
}

fn write(links: &OwnedFd, number: u64) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = retry(|| rustix::fs::openat(links, SYNCED, flags, Mode::empty()))?;
    sys::data::write_all_at(&file, &number.to_le_bytes(), 0)?;
    retry(|| rustix::fs::fdatasync(&file))
}

/// The number of the last recorded sync; 0: there is none. `None`: one has failed.
pub(crate) fn last_synced(links: &OwnedFd) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut bytes = [0; 8];
    let file = retry(|| rustix::fs::openat(links, SYNCED, flags, Mode::empty()));
    match file.and_then(|file| sys::data::read_full_at(&file, &mut bytes, 0)) {
        Ok(8) => Some(u64::from_le_bytes(bytes)).filter(|number| *number != FAILED),
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use atta_testkit::scratch::Scratch;

    use super::*;

    #[test]
    fn sync_that_began_after_the_copy_is_recorded() {
        let scratch = Scratch::new("links-synced").unwrap();
        let links: OwnedFd = std::fs::File::open(scratch.path()).unwrap().into();
        let first = SyncedLinks::new(1);
        first.end(first.begin(), true);
        assert_eq!(last_synced(&links), Some(0), "nothing waits for it");
        let begun = first.begin();
        let during = first.number(&links);
        first.end(begun, true);
        assert!(last_synced(&links) <= Some(during));
        let after = first.number(&links);
        first.end(first.begin(), true);
        assert!(last_synced(&links) > Some(after) && after >= during && during > 0);
        // A later run has higher numbers from its start.
        let recorded = last_synced(&links).unwrap();
        let second = SyncedLinks::new(2);
        assert!(second.number(&links) > recorded);
        second.end(second.begin(), false);
        assert!(second.number(&links) > recorded);
        second.end(second.begin(), true);
        assert_eq!(last_synced(&links), None, "one sync has failed");
        assert_eq!(SyncedLinks::new(0).number(&links), 0);
    }
}
