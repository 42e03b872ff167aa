//! Names of a directory that is open.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind};
use rustix::fd::AsFd;
use rustix::fs::FileType;

use crate::retry::{errno, retry};
use crate::stat::stat_at;

/// The first names in an open directory, at most that many.
pub fn names_of(directory: impl AsFd, most: usize) -> Result<Vec<CString>, Errno> {
    let read = retry(|| rustix::fs::Dir::read_from(&directory))?;
    let names = read.map(|entry| entry.map(|entry| entry.file_name().to_owned()).map_err(errno));
    names
        .filter(|name| !matches!(name, Ok(name) if name.as_c_str() == c"." || name.as_c_str() == c".."))
        .take(most)
        .collect()
}

/// Calls `each` with each name in an open directory, as the kernel returns them.
///
/// # Errors
/// The directory cannot be read, or `each` fails; then it reads no further.
pub fn each_name(
    directory: impl AsFd,
    mut each: impl FnMut(&CStr) -> Result<(), Errno>,
) -> Result<(), Errno> {
    for entry in retry(|| rustix::fs::Dir::read_from(&directory))? {
        let entry = entry.map_err(errno)?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            each(name)?;
        }
    }
    Ok(())
}

/// Whether a directory has a name for which that holds. It reads no further then.
pub fn any_name(directory: impl AsFd, mut holds: impl FnMut(&CStr) -> bool) -> Result<bool, Errno> {
    for entry in retry(|| rustix::fs::Dir::read_from(&directory))? {
        let entry = entry.map_err(errno)?;
        let name = entry.file_name();
        if name != c"." && name != c".." && holds(name) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a directory has a name spelled just so: a file system may find it by another spelling.
pub fn has_name(directory: impl AsFd, name: &CStr) -> Result<bool, Errno> {
    for entry in retry(|| rustix::fs::Dir::read_from(&directory))? {
        if entry.map_err(errno)?.file_name() == name {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The name that a directory has for what it finds by this one, if that is spelled otherwise. Of several names of one file it may
/// be another one, unless it differs in case alone.
pub fn other_spelling(directory: impl AsFd, name: &CStr) -> Option<CString> {
    let identity =
        |name: &CStr| stat_at(&directory, name, false).ok().map(|found| (found.device, found.inode));
    let found = identity(name)?;
    let mut other = None;
    for entry in retry(|| rustix::fs::Dir::read_from(&directory)).ok()? {
        let entry = entry.ok()?;
        let each = entry.file_name();
        if each == name {
            return None;
        }
        let is_alike = each.to_bytes().eq_ignore_ascii_case(name.to_bytes());
        if (other.is_none() || is_alike) && entry.ino() == found.1 && identity(each) == Some(found) {
            other = Some(each.to_owned());
        }
    }
    other
}

/// The kind that `d_type` reports.
pub fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => Kind::Unknown,
    }
}
