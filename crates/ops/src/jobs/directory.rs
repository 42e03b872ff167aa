//! The private directory of a run and its record, as files: opened, read, created and removed. Whose they are, and whether that run still runs: see
//! `jobs.rs` and `others.rs`.

use std::ffi::CStr;

use atta_entry::{Errno, Kind};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::record::{BYTES_MAX, Record};
use atta_sys::{self as sys, retry};

/// Name of the record in a private directory.
pub(super) const RECORD: &CStr = c"record";
/// How often a record is created again if the reply is lost.
const TRIES: u32 = 16;

/// Opens a private directory: mode 0700, on the same device, and owned by `own_uid` if that is given.
pub(crate) fn open_private(above: impl AsFd, name: &CStr, own_uid: Option<u32>) -> Result<OwnedFd, Errno> {
    let opened = sys::open_directory_at(above.as_fd(), name)?;
    let (found, over) = (sys::stat_descriptor(&opened)?, sys::stat_descriptor(above.as_fd())?);
    let is_private = found.mode & 0o777 == 0o700
        && found.device == over.device
        && own_uid.is_none_or(|own| own == found.uid);
    if is_private { Ok(opened) } else { Err(Errno::STALE) }
}

/// The record in a private directory, and its file. None: there is no valid record.
pub(crate) fn read_record(directory: &OwnedFd) -> Result<Option<(OwnedFd, Record)>, Errno> {
    let open = |access: OFlags| {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        retry(|| rustix::fs::openat(directory, RECORD, flags, Mode::empty()))
    };
    // A lock over NFS needs write access.
    let file = match open(OFlags::RDWR).or_else(|_| open(OFlags::RDONLY)) {
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        file => file?,
    };
    let (found, over) = (sys::stat_descriptor(&file)?, sys::stat_descriptor(directory)?);
    let is_plain = found.kind() == Kind::File && found.nlink == 1 && found.uid == over.uid;
    if !is_plain || found.size > BYTES_MAX as u64 {
        return Ok(None);
    }
    let mut text = vec![0; usize::try_from(found.size).unwrap_or_default()];
    let filled = sys::data::read_full_at(&file, &mut text, 0)?;
    Ok(Record::from_text(&text[..filled]).map(|record| (file, record)))
}

/// Creates the file of a record, in a private directory.
pub(super) fn create_record(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        match retry(|| rustix::fs::openat(directory, RECORD, flags, Mode::RUSR | Mode::WUSR)) {
            // The reply to the first request was lost. The file is created again, not opened.
            Err(Errno::EXIST) => {
                missing_is_removed(retry(|| rustix::fs::unlinkat(directory, RECORD, AtFlags::empty())))?;
            }
            created => return created,
        }
    }
    Err(Errno::EXIST)
}

/// Accepts that an entry is missing when it is removed: the reply to the first request may have been lost.
pub(super) fn missing_is_removed(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Removes the private directory of a run, which has nothing in it but the record. `file`: the open record, which has the lock. Whoever
/// takes the lock of a record that has no name ignores it (`others.rs`).
pub(super) fn remove_own(
    above: &OwnedFd,
    directory: &OwnedFd,
    name: &CStr,
    file: &mut Option<OwnedFd>,
) -> Result<(), Errno> {
    sys::until_empty(|| {
        let names = sys::names_of(directory, 2)?;
        let is_alone = names.iter().all(|name| name.as_c_str() == RECORD);
        if is_alone { Ok(()) } else { Err(Errno::NOTEMPTY) }
    })?;
    missing_is_removed(retry(|| rustix::fs::unlinkat(directory, RECORD, AtFlags::empty())))?;
    // An NFS client keeps a name of it until it is closed.
    drop(file.take());
    sys::remove_empty(above, name)
}
