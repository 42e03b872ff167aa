//! A file to read: opens it without blocking or following links, and checks its metadata to detect changes while it is read. It reads no
//! bytes.

use std::ffi::CStr;

use atta_entry::{Metadata, Timestamp};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::error::{FileError, Step};
use super::retries::patiently;
use atta_sys::{self as sys, retry};

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a CStr,
}

/// Device and inode.
pub(crate) type Identity = (u64, u64);

/// What identifies an entry.
pub(crate) fn identity_of(found: &Metadata) -> Identity {
    (found.device, found.inode)
}

/// Longer than one tick of the clock that sets file times.
const TICKS: std::time::Duration = std::time::Duration::from_millis(20);
/// How often the metadata of a constantly written source is checked.
const LOOKS: u32 = 10;
/// How often a source is read if it changes or its copy may be lost.
pub(crate) const TRIES: u32 = 2;

/// Opens a file for reading, without blocking and without following a link.
pub(crate) fn open(from: Source<'_>) -> Result<OwnedFd, FileError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    patiently(|| retry(|| rustix::fs::openat(from.directory, from.name, flags, Mode::empty())))
        .map_err(|errno| FileError::new(Step::Open, errno))
}

pub(crate) fn look(source: &OwnedFd) -> Result<Metadata, FileError> {
    sys::stat_descriptor(source).map_err(|errno| FileError::new(Step::Read, errno))
}

/// Gets metadata once a file has not changed within the last clock ticks: a change in the same tick would get the same time.
pub(crate) fn settled(source: &OwnedFd) -> Result<Metadata, FileError> {
    for _ in 0..LOOKS {
        let found = look(source)?;
        if !is_fresh(&found) {
            return Ok(found);
        }
        std::thread::sleep(TICKS);
    }
    Err(FileError::Changed)
}

/// Whether a file was changed within the last clock ticks. Since Linux 6.13 its time may be ahead of the clock, by less than a tick: the kernel gives no
/// file an older time than the last one that it took from the fine clock.
pub(crate) fn is_fresh(found: &Metadata) -> bool {
    is_fresh_at(clock_of_files(), found.ctime)
}

fn is_fresh_at(now: Timestamp, changed: Timestamp) -> bool {
    (now.as_nanoseconds() - changed.as_nanoseconds()).unsigned_abs() < TICKS.as_nanos()
}

/// The time that a local file system would give a file now.
pub(crate) fn clock_of_files() -> Timestamp {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    // Below 10^9.
    Timestamp { seconds: now.tv_sec, nanoseconds: u32::try_from(now.tv_nsec).unwrap_or_default() }
}

/// Whether size, times of change and mode of a file are unchanged.
pub(crate) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.size, one.mtime, one.ctime, one.mode) == (other.size, other.mtime, other.ctime, other.mode)
}

/// Which device a name stands for.
pub(crate) fn device(from: Source<'_>) -> Result<u64, FileError> {
    let stat = retry(|| rustix::fs::statat(from.directory, from.name, AtFlags::SYMLINK_NOFOLLOW));
    stat.map(|stat| stat.st_rdev).map_err(|errno| FileError::new(Step::Read, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_just_ahead_of_the_clock_is_fresh() {
        let at = |milliseconds: i64| Timestamp {
            seconds: milliseconds.div_euclid(1000),
            nanoseconds: u32::try_from(milliseconds.rem_euclid(1000) * 1_000_000).unwrap_or_default(),
        };
        for (changed, is_fresh) in [(0, true), (19, true), (20, false), (-1, true), (-19, true), (-20, false)]
        {
            assert_eq!(is_fresh_at(at(5000), at(5000 - changed)), is_fresh, "changed {changed} ms ago");
        }
    }
}
