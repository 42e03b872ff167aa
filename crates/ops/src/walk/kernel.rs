//! The system calls of a walk, relative to a descriptor and never through a link. It decides nothing.
//!
//! Everything here exists since Linux 4.18, the oldest kernel that atta runs on. Newer things that are used, here and in `at.rs`,
//! have a fallback that [`Features`] switches on for tests.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind, Metadata, Timestamp};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, Statx, StatxAttributes, StatxFlags, StatxTimestamp,
};

use crate::descriptors;

/// What the running kernel is taken to have. Switched off in tests to prove that the fallback does the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `statx` tells the id of the mount (Linux 5.8); else it is read from `/proc/self/fdinfo`.
    pub statx_mount_id: bool,
    /// There are calls for modes and extended attributes by a descriptor and a name (`fchmodat2`, Linux 6.6; `getxattrat` and its
    /// like, 6.13); else it is done through `/proc/self/fd`.
    pub calls_at: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { statx_mount_id: true, calls_at: true }
    }
}

/// Which directory a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Id of the mount; two mounts of one file system differ in it.
    pub(crate) mount: u64,
}

const STAT_MASK: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

/// Repeats a call that a signal interrupted (file systems in user space and NFS may return so), and one that found no descriptor.
#[inline]
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => return retry_later(call),
            other => return other.map_err(errno),
        }
    }
}

/// Out of line: no call of a hot loop comes here.
#[cold]
#[inline(never)]
fn retry_later<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, Errno> {
    descriptors::wait_for(&mut || retry_interrupted(&mut call))
}

/// Repeats a call that a signal interrupted. For calls that open nothing.
#[inline]
fn retry_interrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(errno),
        }
    }
}

/// The metadata of a name in a directory; a link is not followed.
///
/// Without the birth time `newfstatat` does: where metadata is cached it takes some 2 % less of a walk than `statx`.
#[inline]
pub(crate) fn stat_at(directory: impl AsFd, name: &CStr, birth_time: bool) -> Result<Metadata, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    if birth_time {
        retry_interrupted(|| rustix::fs::statx(&directory, name, flags, STAT_MASK))
            .map(|statx| metadata(&statx))
    } else {
        retry_interrupted(|| rustix::fs::statat(&directory, name, flags)).map(|stat| metadata_of_stat(&stat))
    }
}

/// `statx` of what a descriptor refers to.
pub(crate) fn stat_of(descriptor: impl AsFd) -> Result<Metadata, Errno> {
    retry_interrupted(|| rustix::fs::statx(&descriptor, c"", AtFlags::EMPTY_PATH, STAT_MASK))
        .map(|statx| metadata(&statx))
}

/// `statx` of a path that the operator gave: links in it are followed, the last one only if asked.
pub(crate) fn stat_path(path: &[u8], follow: bool) -> Result<Metadata, Errno> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    retry(|| rustix::fs::statx(CWD, path, flags, STAT_MASK)).map(|statx| metadata(&statx))
}

/// The metadata of what a descriptor refers to, without the birth time.
pub(crate) fn stat_descriptor(descriptor: impl AsFd) -> Result<Metadata, Errno> {
    retry_interrupted(|| rustix::fs::fstat(&descriptor)).map(|stat| metadata_of_stat(&stat))
}

/// Gives the file that a descriptor refers to another name.
pub(crate) fn link_of(file: impl AsFd, directory: impl AsFd, name: &CStr) -> Result<(), Errno> {
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    match retry(|| rustix::fs::linkat(CWD, link.as_str(), &directory, name, AtFlags::SYMLINK_FOLLOW)) {
        // Without /proc. Before Linux 6.10 only a process that may read everything is allowed to.
        Err(Errno::NOENT) => retry(|| rustix::fs::linkat(&file, c"", &directory, name, AtFlags::EMPTY_PATH)),
        linked => linked,
    }
}

/// Opens a directory to look at, as `..` is one that may not be readable.
pub(crate) fn open_path_at(directory: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat(&directory, name, flags, Mode::empty()))
}

/// Opens a directory for reading by its name in another; a link is refused.
pub(crate) fn open_directory_at(directory: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    retry(|| rustix::fs::openat(&directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()))
}

/// Opens a directory by a path that the operator gave; an empty one is the working directory.
pub(crate) fn open_directory_path(path: &[u8], follow: bool) -> Result<OwnedFd, Errno> {
    let flags = if follow { DIRECTORY } else { DIRECTORY | OFlags::NOFOLLOW };
    let path = if path.is_empty() { b"." } else { path };
    retry(|| rustix::fs::open(path, flags, Mode::empty()))
}

/// The first names in a directory that is open, so many at most.
pub(crate) fn names_of(directory: impl AsFd, most: usize) -> Result<Vec<CString>, Errno> {
    let read = retry(|| rustix::fs::Dir::read_from(&directory))?;
    let names = read.map(|entry| entry.map(|entry| entry.file_name().to_owned()).map_err(errno));
    names
        .filter(|name| !matches!(name, Ok(name) if name.as_c_str() == c"." || name.as_c_str() == c".."))
        .take(most)
        .collect()
}

/// Whether a directory has a name spelled just so: a file system may find it by another spelling.
pub(crate) fn has_name(directory: impl AsFd, name: &CStr) -> Result<bool, Errno> {
    for entry in retry(|| rustix::fs::Dir::read_from(&directory))? {
        if entry.map_err(errno)?.file_name() == name {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The name that a directory has for what it finds by this one, if that is spelled otherwise. Of several names of one file it may
/// be another one, unless it differs in case alone.
pub(crate) fn other_spelling(directory: impl AsFd, name: &CStr) -> Option<CString> {
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

/// Opens a name without touching what it is: no device is opened, no pipe blocks, a link is itself.
pub(crate) fn open_name_at(directory: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat(&directory, name, flags, Mode::empty()))
}

/// The target of a link by its name in a directory; with an empty name, of the link that the descriptor refers to.
pub(crate) fn read_link_at(directory: impl AsFd, name: &CStr) -> Result<Vec<u8>, Errno> {
    retry(|| rustix::fs::readlinkat(&directory, name, Vec::with_capacity(128))).map(CString::into_bytes)
}

/// The path that the kernel knows for a descriptor. Only for comparing text, never for opening.
pub(crate) fn real_path(descriptor: impl AsFd) -> Option<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
    rustix::fs::readlink(link, Vec::new()).ok().map(CString::into_bytes)
}

/// Which directory a descriptor refers to.
pub(crate) fn place_of(descriptor: impl AsFd, features: Features) -> Result<Place, Errno> {
    let mask = StatxFlags::INO | StatxFlags::MNT_ID;
    let statx = retry(|| rustix::fs::statx(&descriptor, c"", AtFlags::EMPTY_PATH, mask))?;
    let known = features.statx_mount_id && statx.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let mount = if known { statx.stx_mnt_id } else { mount_from_fdinfo(&descriptor)? };
    Ok(Place { device: device(&statx), inode: statx.stx_ino, mount })
}

/// Whether a name may be where something is mounted; before Linux 5.8 nobody knows.
pub(crate) fn may_be_mount(directory: impl AsFd, name: &CStr) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let statx = retry(|| rustix::fs::statx(&directory, name, flags, StatxFlags::empty()));
    let root = StatxAttributes::MOUNT_ROOT;
    statx.map_or(true, |statx| {
        !statx.stx_attributes_mask.contains(root) || statx.stx_attributes.contains(root)
    })
}

/// The mount id from the `mnt_id:` line of `/proc/self/fdinfo/N` (since Linux 3.15).
fn mount_from_fdinfo(descriptor: impl AsFd) -> Result<u64, Errno> {
    let path = format!("/proc/self/fdinfo/{}", descriptor.as_fd().as_raw_fd());
    let text =
        std::fs::read_to_string(path).map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    id.and_then(|id| id.trim().parse().ok()).ok_or(Errno::IO)
}

fn device(statx: &Statx) -> u64 {
    u64::from(statx.stx_dev_major) << 32 | u64::from(statx.stx_dev_minor)
}

#[inline]
fn metadata(statx: &Statx) -> Metadata {
    let time = |time: StatxTimestamp| Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec };
    let has_btime = statx.stx_mask & StatxFlags::BTIME.bits() != 0;
    Metadata {
        mode: u32::from(statx.stx_mode),
        uid: statx.stx_uid,
        gid: statx.stx_gid,
        nlink: statx.stx_nlink,
        size: statx.stx_size,
        blocks: statx.stx_blocks,
        inode: statx.stx_ino,
        device: device(statx),
        atime: time(statx.stx_atime),
        mtime: time(statx.stx_mtime),
        ctime: time(statx.stx_ctime),
        btime: has_btime.then(|| time(statx.stx_btime)),
    }
}

#[inline]
fn metadata_of_stat(stat: &Stat) -> Metadata {
    let time = |seconds, nanoseconds: u64| Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or_default(),
    };
    let device = u64::from(rustix::fs::major(stat.st_dev)) << 32 | u64::from(rustix::fs::minor(stat.st_dev));
    Metadata {
        mode: stat.st_mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        inode: stat.st_ino,
        device,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        btime: None,
    }
}

/// The kind that `d_type` says.
pub(crate) fn kind_of(file_type: FileType) -> Kind {
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
