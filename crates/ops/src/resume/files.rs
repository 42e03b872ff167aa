//! The files in the directory of a job. Who holds a job, and which logs are still written. What the files say is the part of others.

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use atta_entry::Errno;
use atta_ledger::LogName;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};

use super::error::NotBegun;
use super::header::{BYTES_MAX, Header};
use crate::jobs::record::Record;
use crate::plain::{is_kept_by_nfs, open_plain, read_open, remove, sync_directory};
use crate::underway;
use atta_sys::{self as sys, retry};

/// Most logs of a job.
pub(super) const LOGS_MAX: usize = 1 << 20;
/// Most files of a catalog that is not complete.
const FILES_MAX: usize = 1 << 24;
const HOLDER: &CStr = c"holder";
/// The header.
pub(super) const JOB: &CStr = c"job";
/// The header while it is written.
pub(super) const JOB_PARTIAL: &CStr = c"job.partial";
/// The summary of a job that is complete.
pub(super) const END: &CStr = c"end";
pub(super) const END_PARTIAL: &CStr = c"end.partial";
/// The directory of a catalog that is not complete.
pub(super) const CATALOG: &CStr = c"catalog";
/// How long to wait for processes of earlier runs that are about to end.
const LOCK_WAIT: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 5000 });
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The name of a log, if it is one.
pub(super) fn log_name(name: &CStr) -> Option<LogName> {
    let text = name.to_str().ok()?;
    let numbers: Option<Vec<u32>> = text.split('.').map(|number| number.parse().ok()).collect();
    let found = match numbers?[..] {
        [run, rank] => LogName { run, rank, part: 0 },
        [run, rank, part] => LogName { run, rank, part },
        _ => return None,
    };
    // One spelling.
    (found.to_string() == text).then_some(found)
}

/// Refuses logs whose processes have not ended. Some that were killed may need a moment.
pub(super) fn refuse_writers(directory: &OwnedFd, logs: &[LogName]) -> Result<(), NotBegun> {
    let until = Instant::now() + LOCK_WAIT;
    for log in logs {
        let name = CString::new(log.to_string()).unwrap_or_default();
        // Whoever reads it reports why it cannot be opened.
        let Ok(opened) = open_plain(directory, &name, OFlags::RDONLY) else { continue };
        // Another error: the file system has no locks.
        let is_held = || {
            retry(|| rustix::fs::flock(&opened, FlockOperation::NonBlockingLockShared)) == Err(Errno::AGAIN)
        };
        while is_held() {
            if Instant::now() >= until {
                return Err(NotBegun::Writes(*log));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }
    Ok(())
}

/// Removes the files of a job but its holder: the header first, since a log without the others would be misread.
pub(super) fn forget(directory: &OwnedFd, names: &[CString]) -> Result<(), Errno> {
    let others = names.iter().map(CString::as_c_str).filter(|name| ![HOLDER, JOB].contains(name));
    if names.iter().any(|name| name.as_c_str() == JOB) {
        remove(directory, JOB)?;
        // A power cut must not bring a complete job back.
        sync_directory(directory)?;
    }
    others.into_iter().try_for_each(|name| match name == CATALOG {
        true => remove_catalog(directory),
        false => remove(directory, name),
    })
}

/// Removes a catalog that is not complete: it has only files.
fn remove_catalog(directory: &OwnedFd) -> Result<(), Errno> {
    let catalog = sys::open_directory_at(directory.as_fd(), CATALOG)?;
    sys::names_of(&catalog, FILES_MAX)?.iter().try_for_each(|name| remove(&catalog, name))?;
    sys::remove_empty(directory, CATALOG)
}

/// How many files a catalog has that is not complete, and their size on the disk.
fn measure_catalog(directory: &OwnedFd) -> (u64, u64) {
    let Ok(catalog) = sys::open_directory_at(directory.as_fd(), CATALOG) else { return (0, 0) };
    let names = sys::names_of(&catalog, FILES_MAX).unwrap_or_default();
    let sizes = names.iter().filter_map(|name| sys::stat_at(&catalog, name, false).ok());
    (names.len() as u64, sizes.map(|found| found.allocated_bytes()).sum())
}

/// Removes all files of a job, if nothing else is in its directory. Returns how many there were, and their size on the disk; none: it is no job of this
/// version, and is left alone.
pub(super) fn forget_files(directory: &OwnedFd, removes: bool) -> Result<Option<(u64, u64)>, Errno> {
    let names = sys::names_of(directory, LOGS_MAX)?;
    let has_header = names.iter().any(|name| name.as_c_str() == JOB);
    // An empty one is what a process left that was killed when it removed the job.
    if !names.iter().all(|name| is_own(name)) || has_header && number_in(directory).is_none() {
        return Ok(None);
    }
    let (in_catalog, mut bytes) = measure_catalog(directory);
    for name in &names {
        bytes += sys::stat_at(directory, name, false).map_or(0, |found| found.allocated_bytes());
    }
    if removes {
        forget(directory, &names)?;
        forget_holder(directory)?;
    }
    Ok(Some((names.len() as u64 + in_catalog, bytes)))
}

/// Whether a job has this file as its holder. Else another process has removed the job before this one had the lock.
pub(super) fn is_held_by(directory: &OwnedFd, holder: &OwnedFd) -> bool {
    sys::is_name_of(directory, HOLDER, holder)
}

/// Whether a process holds a job.
#[derive(Debug)]
pub(super) enum Holding {
    /// None does, as long as this value lives. Without a file to lock, none has begun.
    Free(Option<OwnedFd>),
    Held,
}

/// Takes the lock of a job without naming this process as its holder.
pub(super) fn try_hold(directory: &OwnedFd) -> Result<Holding, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match retry(|| rustix::fs::openat(directory, HOLDER, flags, Mode::empty())) {
        Err(Errno::NOENT) => return Ok(Holding::Free(None)),
        file => file?,
    };
    match sys::locks::try_lock(&file) {
        Err(Errno::AGAIN) => Ok(Holding::Held),
        // Without locks only a process of this host can be known to have ended.
        Err(_) if holder_of(&file).is_some_and(|record| may_run(&record)) => Ok(Holding::Held),
        _ => Ok(Holding::Free(Some(file))),
    }
}

/// The process that holds a job, or held it last.
pub(super) fn last_holder(directory: &OwnedFd) -> Option<Record> {
    holder_of(&open_plain(directory, HOLDER, OFlags::RDONLY).ok()?)
}

fn holder_of(file: &OwnedFd) -> Option<Record> {
    read_open(file, crate::jobs::record::BYTES_MAX).ok().and_then(|text| Record::from_text(&text))
}

/// Whether the process of a record may be running, as far as can be known without locks.
fn may_run(record: &Record) -> bool {
    // This process may have held it before.
    !record.is_of_this_process()
        && (!record.is_of_this_host() || record.is_of_this_boot() && record.holder.is_alive())
}

/// Removes the file that names who holds a job.
pub(super) fn forget_holder(directory: &OwnedFd) -> Result<(), Errno> {
    remove(directory, HOLDER)
}

pub(super) fn is_own(name: &CStr) -> bool {
    [HOLDER, JOB, JOB_PARTIAL, END, END_PARTIAL, CATALOG].contains(&name)
        || log_name(name).is_some()
        || underway::is_own(name)
        || is_kept_by_nfs(name)
}

/// Takes the lock of a job, and names this process as its holder.
pub(super) fn hold(directory: &OwnedFd) -> Result<OwnedFd, NotBegun> {
    let failed = |errno| NotBegun::Failed("lock", errno);
    let file = match open_plain(directory, HOLDER, OFlags::RDWR | OFlags::CREATE) {
        Err(Errno::NOENT) => return Err(NotBegun::Removed),
        file => file.map_err(failed)?,
    };
    let until = Instant::now() + LOCK_WAIT;
    let locked = loop {
        match sys::locks::try_lock(&file) {
            // A process that was killed may need a moment.
            Err(Errno::AGAIN) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
            locked => break locked,
        }
    };
    match locked {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Err(NotBegun::Runs(holder_of(&file).map(|record| record.holder))),
        // Without locks only a process of this host can be known to have ended.
        Err(_) => {
            if let Some(record) = holder_of(&file).filter(may_run) {
                return Err(NotBegun::Runs(Some(record.holder)));
            }
        }
    }
    let text = Record::of_this_process(0, (0, 0), false, Vec::new()).to_text();
    retry(|| rustix::fs::ftruncate(&file, 0)).map_err(failed)?;
    sys::data::write_all_at(&file, text.as_bytes(), 0).map_err(failed)?;
    retry(|| rustix::fs::fsync(&file)).map_err(failed)?;
    Ok(file)
}

/// The bytes of a file, if it is there.
pub(super) fn read(directory: &OwnedFd, name: &CStr, most: usize) -> Result<Option<Vec<u8>>, NotBegun> {
    let read = match open_plain(directory, name, OFlags::RDONLY) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened.and_then(|file| read_open(&file, most)),
    };
    read.map(Some).map_err(|errno| NotBegun::Failed("read", errno))
}

/// The header of a job, if there is one.
pub(super) fn read_header(directory: &OwnedFd) -> Result<Option<Header>, NotBegun> {
    let Some(text) = read(directory, JOB, BYTES_MAX)? else { return Ok(None) };
    Header::from_text(&text).map(Some).ok_or(NotBegun::Invalid)
}

/// The number of the job in an open directory, as names of temporary files have it. None: there is no valid header.
pub(super) fn number_in(directory: &OwnedFd) -> Option<u64> {
    read_header(directory).ok().flatten().map(|header| short(header.number))
}

/// The number that names of temporary files follow from.
#[must_use]
pub fn short(number: [u8; 16]) -> u64 {
    u64::from_le_bytes(*number.first_chunk().unwrap_or(&[0; 8]))
}
