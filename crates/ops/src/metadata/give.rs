//! Sets the metadata of a copy by descriptor: owner, extended attributes with ACLs and capabilities, mode, times. In this order, since a
//! change of owner clears set-id bits and capabilities. Entries that cannot be opened are in `named.rs`. It reads nothing from the source.

use atta_entry::{Errno, Metadata, Timestamp};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid};

use super::extended::{ACCESS_LIST, Extended, Holder};
use super::keep::{self, Keep};
use super::not_kept::NotKept;
use crate::file::error::{FileError, Step};
use atta_sys::{self as sys, retry};

/// The metadata that a directory gets when it is complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) metadata: Metadata,
    pub(crate) extended: Extended,
    /// It was there before.
    pub(crate) is_old: bool,
}

/// What was read from a source for its copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceAttributes<'a> {
    pub(crate) metadata: &'a Metadata,
    pub(crate) extended: &'a Extended,
}

/// How a copy gets its attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner<'a> {
    pub(crate) keep: &'a Keep,
    /// It was there before this job.
    pub(crate) is_old: bool,
}

/// The bits that grant rights of another user or group.
pub(crate) const SET_ID: u32 = 0o6000;

/// Sets the attributes of an open file to those of its source. Returns whether its access list is the source's.
pub(crate) fn give(
    file: impl AsFd,
    source: SourceAttributes<'_>,
    manner: Manner<'_>,
    not_kept: &mut NotKept,
) -> Result<bool, FileError> {
    let fd = file.as_fd();
    let Manner { keep, is_old } = manner;
    let SourceAttributes { metadata: from, extended } = source;
    let owned = give_owner(fd, from, keep, not_kept)?;
    let has_list = extended.give(Holder::Open(fd), keep, not_kept)?;
    if let Some(mut mode) = mode_beside(source, has_list, manner) {
        if !owned && mode & SET_ID != 0 {
            mode &= !SET_ID;
            not_kept.set_id_bits += 1;
        }
        let given = retry(|| rustix::fs::fchmod(fd, Mode::from_raw_mode(mode)));
        not_kept.unless_taken(given, Step::SetMode, is_old)?;
    }
    if keep.times {
        let times = times(from);
        let given = retry(|| rustix::fs::futimens(fd, &times));
        not_kept.unless_taken(given, Step::SetTimes, is_old)?;
    }
    Ok(has_list)
}

/// The mode to set after the extended attributes. None: the copy has the right one.
pub(crate) fn mode_beside(source: SourceAttributes<'_>, has_list: bool, manner: Manner<'_>) -> Option<u32> {
    let Manner { keep, is_old } = manner;
    // An access list that was copied holds the permissions.
    if has_list && !keep.mode {
        return None;
    }
    keep.mode_of(source.metadata, source.extended.access_list().filter(|_| !has_list), is_old)
}

/// Sets the owner of an open file. Returns whether set-id bits keep their meaning.
fn give_owner(
    fd: BorrowedFd<'_>,
    from: &Metadata,
    keep: &Keep,
    not_kept: &mut NotKept,
) -> Result<bool, FileError> {
    let (owner, group) = keep.owners_of(from);
    if (owner, group) == (None, None) {
        return Ok(false);
    }
    match retry(|| rustix::fs::fchown(fd, owner, group)) {
        // A directory's bits pass on its group and grant no rights.
        Ok(()) if from.kind() == atta_entry::Kind::Directory => Ok(true),
        Ok(()) => Ok((owner, group) == (Some(Uid::from_raw(from.uid)), Some(Gid::from_raw(from.gid)))),
        Err(errno) if may_not(errno) => {
            not_kept.owners += 1;
            // The group alone may be one of this user's.
            let _ = retry(|| rustix::fs::fchown(fd, None, group));
            Ok(false)
        }
        Err(errno) => Err(FileError::new(Step::SetOwner, errno)),
    }
}

/// Narrows the mode of a file that is about to lose its access list, so that its group gets no more rights than by the list. For files
/// that do not get the mode of their source.
pub(crate) fn narrow(file: BorrowedFd<'_>, keep: &Keep) -> Result<(), Errno> {
    if keep.mode {
        return Ok(());
    }
    let was = sys::stat_descriptor(file)?.mode & 0o7777;
    match mode_without_list(file, was) {
        mode if mode == was => Ok(()),
        mode => retry(|| rustix::fs::fchmod(file, Mode::from_raw_mode(mode))),
    }
}

/// The mode of a file without its access list, if it has one.
pub(crate) fn mode_without_list(file: impl AsFd, mode: u32) -> u32 {
    let mut nothing = [0_u8; 0];
    let Ok(length) = rustix::fs::fgetxattr(&file, ACCESS_LIST, &mut nothing[..]) else { return mode };
    let mut list = vec![0; length];
    // One that has grown meanwhile lets the group do nothing.
    let read = rustix::fs::fgetxattr(&file, ACCESS_LIST, &mut list[..]).unwrap_or_default();
    keep::without_list(mode, &list[..read])
}

/// Whether a change of owner was refused to this user or by a file system without owners.
pub(crate) fn may_not(errno: Errno) -> bool {
    // EINVAL: an identity that the user namespace does not have.
    matches!(errno, Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP)
}

/// Sets the time of access of an open file, and no other time.
pub(crate) fn set_atime(file: impl AsFd, atime: Timestamp) -> Result<(), Errno> {
    let last_access = Timespec { tv_sec: atime.seconds, tv_nsec: atime.nanoseconds.into() };
    let last_modification = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    retry(|| rustix::fs::futimens(&file, &Timestamps { last_access, last_modification }))
}

pub(crate) fn times(from: &Metadata) -> Timestamps {
    let time = |time: Timestamp| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    Timestamps { last_access: time(from.atime), last_modification: time(from.mtime) }
}
