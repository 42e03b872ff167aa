//! Plain files in a private directory: regular files with one name that belong to the owner of the directory. They are opened without following a
//! link, and written so that a reader sees all of a file or none. What they say is the part of others.

use std::ffi::CStr;

use atta_entry::{Errno, Kind};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};

use atta_sys::{self as sys, retry};

/// Opens a regular file without following a link. It must have one name, and the owner of its directory.
pub(crate) fn open_plain(directory: &OwnedFd, name: &CStr, access: OFlags) -> Result<OwnedFd, Errno> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = retry(|| rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR))?;
    let found = sys::stat_descriptor(&file)?;
    let is_plain = found.kind() == Kind::File && found.nlink == 1;
    let is_own = found.uid == sys::stat_descriptor(directory)?.uid;
    if is_plain && is_own { Ok(file) } else { Err(Errno::PERM) }
}

/// All bytes of a file, which may have so many.
pub(crate) fn read_open(file: &OwnedFd, most: usize) -> Result<Vec<u8>, Errno> {
    let size = usize::try_from(sys::stat_descriptor(file)?.size).unwrap_or(usize::MAX);
    if size > most {
        return Err(Errno(rustix::io::Errno::FBIG.raw_os_error()));
    }
    let mut bytes = vec![0; size];
    let filled = sys::data::read_full_at(file, &mut bytes, 0)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Writes a file and gives it its name when it is on storage.
pub(crate) fn write(directory: &OwnedFd, (partial, name): (&CStr, &CStr), bytes: &[u8]) -> Result<(), Errno> {
    // Of a run that was killed.
    let _ = retry(|| rustix::fs::unlinkat(directory, partial, AtFlags::empty()));
    let file = open_plain(directory, partial, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    sys::data::write_all_at(&file, bytes, 0)?;
    retry(|| rustix::fs::fsync(&file))?;
    retry(|| rustix::fs::renameat(directory, partial, directory, name))?;
    sync_directory(directory)
}

/// Syncs a directory, where the file system can.
pub(crate) fn sync_directory(directory: &OwnedFd) -> Result<(), Errno> {
    match retry(|| rustix::fs::fsync(directory)) {
        // This file system syncs no directories.
        Err(Errno::INVAL) => Ok(()),
        synced => synced,
    }
}

/// Removes a file, if it is there.
pub(crate) fn remove(directory: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    match retry(|| rustix::fs::unlinkat(directory, name, AtFlags::empty())) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // A process of this host has it open. It goes when that closes it.
        Err(Errno::BUSY) if is_kept_by_nfs(name) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Whether an NFS client may have given this name to a file that was removed while it was open. It stays if the client goes down.
pub(crate) fn is_kept_by_nfs(name: &CStr) -> bool {
    let digits = name.to_bytes().strip_prefix(b".nfs");
    digits.is_some_and(|digits| digits.len() == 24 && digits.iter().all(u8::is_ascii_hexdigit))
}
