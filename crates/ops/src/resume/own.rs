//! The directory of a job that one rank has for itself, in memory or on a disk of its host, where the ranks of a job have no directory in common. It
//! is private and locked while its process lives, and removed at the end. What processes have left that were killed, the next one removes. The ranks
//! exchange logs themselves: it sends nothing.
//!
//! ```text
//!   BASE/atta-survive-UID-HOST-RANDOM/lock     locked (flock) by its process
//!   BASE/atta-survive-UID-HOST-RANDOM/job/     as any directory of a job
//! ```

use std::ffi::{CStr, CString, OsStr};
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use atta_entry::Errno;
use atta_ledger::{LogName, LogSoFar, is_longer, run_without_first};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::files::{JOB, JOB_PARTIAL, LOGS_MAX, log_name};
use super::header::BYTES_MAX;
use crate::jobs::record::host;
use crate::plain::{open_plain, read_open, remove, write};
use atta_sys::{self as sys, retry};

const LOCK: &CStr = c"lock";
const JOB_DIRECTORY: &CStr = c"job";
/// The most bytes of a log.
const LOG_MAX: usize = 1 << 30;

/// The directory. Dropping it removes it.
#[derive(Debug)]
pub struct OwnDirectory {
    base: OwnedFd,
    name: CString,
    top: OwnedFd,
    job: OwnedFd,
    path: PathBuf,
    /// The lock is released when it is closed.
    _lock: OwnedFd,
}

/// What names of such directories of this user on this host begin with. Locks of other hosts may not be seen.
fn prefix() -> String {
    let plain = |byte: char| if byte.is_ascii_alphanumeric() { byte } else { '_' };
    let host: String = host().chars().map(plain).collect();
    format!("atta-survive-{}-{host}-", rustix::process::geteuid().as_raw())
}

impl OwnDirectory {
    /// Makes one in this directory. Removes those there that processes of this user have left.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn begin(base: &Path) -> Result<Self, Errno> {
        let opened = sys::open_directory_path(base.as_os_str().as_bytes(), true)?;
        remove_left(&opened);
        let random = RandomState::new().hash_one(std::process::id());
        let name = CString::new(format!("{}{random:016x}", prefix())).map_err(|_| Errno::INVAL)?;
        retry(|| rustix::fs::mkdirat(&opened, &name, Mode::RWXU))?;
        let path = base.join(OsStr::from_bytes(name.as_bytes())).join("job");
        match make_in(&opened, &name) {
            Ok((top, job, lock)) => Ok(Self { base: opened, name, top, job, path, _lock: lock }),
            Err(errno) => {
                if let Ok(top) = sys::open_directory_at(opened.as_fd(), &name) {
                    let _ = rustix::fs::unlinkat(&top, JOB_DIRECTORY, AtFlags::REMOVEDIR);
                    let _ = remove(&top, LOCK);
                }
                let _ = rustix::fs::unlinkat(&opened, &name, AtFlags::REMOVEDIR);
                Err(errno)
            }
        }
    }

    /// The directory of the job.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The header of the job, for the other ranks; empty: it has not begun.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        open_plain(&self.job, JOB, OFlags::RDONLY)
            .and_then(|file| read_open(&file, BYTES_MAX))
            .unwrap_or_default()
    }

    /// Takes over the header that another rank has begun the job with.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put_header(&self, bytes: &[u8]) -> Result<(), Errno> {
        write(&self.job, (JOB_PARTIAL, JOB), bytes)
    }

    /// The logs of the last run that are here. One that cannot be read is missing.
    #[must_use]
    pub fn last_logs(&self) -> Vec<LogSoFar> {
        let names = self.logs();
        let last = names.iter().map(|name| name.run).max();
        let of_last = names.into_iter().filter(|name| Some(name.run) == last);
        let read = |name: LogName| -> Result<_, Errno> {
            let file = open_plain(&self.job, &file_name(name)?, OFlags::RDONLY)?;
            Ok((name, read_open(&file, LOG_MAX)?))
        };
        of_last.filter_map(|name| read(name).ok()).collect()
    }

    /// Empties the logs of the last run, if the beginning of the log of its first rank is lost, which says what counts of older ones. All of that run is
    /// done again. The files stay, so that no later run has its number. All ranks have the same logs when they call it.
    ///
    /// # Errors
    /// One cannot be emptied.
    pub fn forget_without_first(&self) -> Result<(), Errno> {
        let size = |name| -> Result<u64, Errno> {
            Ok(sys::stat_descriptor(&open_plain(&self.job, &file_name(name)?, OFlags::RDONLY)?)?.size)
        };
        let sized = |name: LogName| (name, size(name).unwrap_or(0));
        let logs: Vec<_> = self.logs().into_iter().map(sized).collect();
        let Some(run) = run_without_first(&logs) else { return Ok(()) };
        for (name, _) in logs.into_iter().filter(|(name, _)| name.run == run) {
            let file = open_plain(&self.job, &file_name(name)?, OFlags::RDWR)?;
            retry(|| rustix::fs::ftruncate(&file, 0))?;
        }
        Ok(())
    }

    /// Takes over a log as far as another rank has it. The longest one counts.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put_log(&self, name: LogName, bytes: &[u8]) -> Result<(), Errno> {
        let file = open_plain(&self.job, &file_name(name)?, OFlags::RDWR | OFlags::CREATE)?;
        let there = sys::stat_descriptor(&file)?.size;
        if is_longer(bytes, there) { sys::data::write_all_at(&file, bytes, 0) } else { Ok(()) }
    }

    fn logs(&self) -> Vec<LogName> {
        let names = sys::names_of(&self.job, LOGS_MAX).unwrap_or_default();
        names.iter().filter_map(|name| log_name(name)).collect()
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        remove_files(&self.top, &self.job);
        let _ = rustix::fs::unlinkat(&self.base, &self.name, AtFlags::REMOVEDIR);
    }
}

/// Makes what is in such a directory: itself, the directory of the job, the lock.
fn make_in(base: &OwnedFd, name: &CStr) -> Result<(OwnedFd, OwnedFd, OwnedFd), Errno> {
    let top = sys::open_directory_at(base.as_fd(), name)?;
    let lock = open_plain(&top, LOCK, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
    // Others look for the directory of the job before they try the lock. Without locks nobody removes it.
    match sys::locks::try_lock(&lock) {
        Err(Errno::AGAIN) => return Err(Errno::AGAIN),
        _ => retry(|| rustix::fs::mkdirat(&top, JOB_DIRECTORY, Mode::RWXU))?,
    }
    let job = sys::open_directory_at(top.as_fd(), JOB_DIRECTORY)?;
    Ok((top, job, lock))
}

fn file_name(name: LogName) -> Result<CString, Errno> {
    CString::new(name.to_string()).map_err(|_| Errno::INVAL)
}

/// Removes all of a directory but itself.
fn remove_files(top: &OwnedFd, job: &OwnedFd) {
    for name in sys::names_of(job, LOGS_MAX).unwrap_or_default() {
        let _ = remove(job, &name);
    }
    let _ = rustix::fs::unlinkat(top, JOB_DIRECTORY, AtFlags::REMOVEDIR);
    let _ = remove(top, LOCK);
}

/// Removes what processes of this user have left here that were killed.
fn remove_left(base: &OwnedFd) {
    let (prefix, own) = (prefix(), rustix::process::geteuid().as_raw());
    let names = sys::names_of(base, LOGS_MAX).unwrap_or_default();
    for name in names.iter().filter(|name| name.to_bytes().starts_with(prefix.as_bytes())) {
        let Ok(top) = sys::open_directory_at(base.as_fd(), name) else { continue };
        if sys::stat_descriptor(&top).is_ok_and(|found| found.uid == own)
            && let Ok(job) = sys::open_directory_at(top.as_fd(), JOB_DIRECTORY)
            && let Ok(lock) = open_plain(&top, LOCK, OFlags::RDWR)
            && sys::locks::try_lock(&lock).is_ok()
        {
            remove_files(&top, &job);
            let _ = rustix::fs::unlinkat(base, name, AtFlags::REMOVEDIR);
        }
    }
}

#[cfg(test)]
mod tests {
    use atta_testkit::scratch::Scratch;

    use super::*;

    #[test]
    fn own_directory_is_removed_at_the_end_and_by_others() {
        let scratch = Scratch::new("own").unwrap();
        let base = sys::open_directory_path(scratch.path().as_os_str().as_bytes(), false).unwrap();
        let there = || sys::names_of(&base, 9).unwrap().len();
        let own = OwnDirectory::begin(scratch.path()).unwrap();
        let log = |rank| LogName { run: 2, rank, part: 0 };
        own.put_header(b"header").unwrap();
        own.put_log(LogName { run: 1, ..log(0) }, b"of an older run").unwrap();
        for bytes in [&b"begin"[..], b"beginning", b"beg"] {
            own.put_log(log(1), bytes).unwrap();
        }
        assert_eq!(own.last_logs(), [(log(1), b"beginning".to_vec())]);
        // The log of the first rank of that run is lost, or empty.
        for first in [None, Some(&b""[..]), Some(b"first")] {
            own.put_log(log(1), b"beginning").unwrap();
            if let Some(bytes) = first {
                own.put_log(log(0), bytes).unwrap();
            }
            own.forget_without_first().unwrap();
            let logs = own.last_logs();
            let kept = logs.iter().find(|(name, _)| *name == log(1)).unwrap();
            assert_eq!(kept.1.is_empty(), first.is_none_or(<[u8]>::is_empty), "{first:?}");
        }
        // Another process does not remove what this one has.
        let other = OwnDirectory::begin(scratch.path()).unwrap();
        assert_eq!((there(), own.header()), (2, b"header".to_vec()));
        assert!(other.header().is_empty() && other.last_logs().is_empty());
        drop(other);
        assert_eq!(there(), 1);
        // A process that was killed has left this.
        let left = scratch.join(format!("{}0123", prefix()));
        std::fs::create_dir_all(left.join("job")).unwrap();
        for file in ["lock", "job/job", "job/1.0"] {
            std::fs::write(left.join(file), b"").unwrap();
        }
        drop(OwnDirectory::begin(scratch.path()).unwrap());
        assert_eq!(there(), 1);
        drop(own);
        assert_eq!(there(), 0);
    }
}
