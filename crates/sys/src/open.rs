//! Opens and reads links, relative to a descriptor and through no link.

use std::ffi::{CStr, CString};

use atta_entry::Errno;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::retry::retry;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory to look at, as `..` is one that may not be readable.
pub fn open_path_at(directory: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat(&directory, name, flags, Mode::empty()))
}

/// Opens a directory for reading by its name in another; a link is refused.
pub fn open_directory_at(directory: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    retry(|| rustix::fs::openat(&directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()))
}

/// Opens a directory by a path that the operator gave; an empty one is the working directory.
pub fn open_directory_path(path: &[u8], follow: bool) -> Result<OwnedFd, Errno> {
    let flags = if follow { DIRECTORY } else { DIRECTORY | OFlags::NOFOLLOW };
    let path = if path.is_empty() { b"." } else { path };
    retry(|| rustix::fs::open(path, flags, Mode::empty()))
}

/// Opens a name without side effects: no device is opened, no pipe blocks, no link is followed.
pub fn open_name_at(directory: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat(&directory, name, flags, Mode::empty()))
}

/// The target of a link by its name in a directory; with an empty name, of the link that the descriptor refers to.
pub fn read_link_at(directory: impl AsFd, name: &CStr) -> Result<Vec<u8>, Errno> {
    retry(|| rustix::fs::readlinkat(&directory, name, Vec::with_capacity(128))).map(CString::into_bytes)
}

/// The path that the kernel knows for a descriptor. Only for comparing text, never for opening.
pub fn real_path(descriptor: impl AsFd) -> Option<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
    rustix::fs::readlink(link, Vec::new()).ok().map(CString::into_bytes)
}

/// Gives the file that a descriptor refers to another name.
pub fn link_of(file: impl AsFd, directory: impl AsFd, name: &CStr) -> Result<(), Errno> {
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    match retry(|| rustix::fs::linkat(CWD, link.as_str(), &directory, name, AtFlags::SYMLINK_FOLLOW)) {
        // Without /proc. Before Linux 6.10 only a process that may read everything is allowed to.
        Err(Errno::NOENT) => retry(|| rustix::fs::linkat(&file, c"", &directory, name, AtFlags::EMPTY_PATH)),
        linked => linked,
    }
}
