//! What a copy has beside its bytes: owner, mode, times, extended attributes with ACLs and capabilities. Read from the source,
//! given to the target by descriptor. In this order: owner, extended attributes, mode, times, since a change of owner takes
//! set-id bits and capabilities away. What cannot be opened is not dealt with here, but in `named.rs`.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Metadata, Timestamp};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};

use super::changes::is_of_system;
use super::keep::{self, Keep};
use super::trouble::{Doing, Trouble};
use crate::walk::at::NameAt;
use crate::walk::kernel::{self, retry};

/// What a directory is to have when it is complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) metadata: Metadata,
    pub(crate) extended: Extended,
    /// It was there before.
    pub(crate) is_old: bool,
}

/// How a copy gets what it is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner<'a> {
    pub(crate) keep: &'a Keep,
    /// It was there before this job.
    pub(crate) is_old: bool,
}

/// Extended attributes: names and values, in the order in which the source lists them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extended(Vec<(CString, Vec<u8>)>);

/// What could not be kept although the copy is there; counted, and said once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotKept {
    /// Owners or groups that this user may not give away.
    pub owners: u64,
    /// Set-id bits, where the owner could not be set: they would have given the rights of another user.
    pub set_id_bits: u64,
    /// Permissions and times, each by itself, that the target does not take.
    pub modes_and_times: u64,
    /// Extended attributes, ACLs among them, that cannot be read or that the target does not take.
    pub extended: u64,
    /// Hard links that had to become files of their own.
    pub hard_links: u64,
}

impl std::ops::AddAssign for NotKept {
    fn add_assign(&mut self, other: Self) {
        self.owners += other.owners;
        self.set_id_bits += other.set_id_bits;
        self.modes_and_times += other.modes_and_times;
        self.extended += other.extended;
        self.hard_links += other.hard_links;
    }
}

impl NotKept {
    /// Counts a mode or times that a file system does not take. What was there may be somebody else's: that is told.
    pub(crate) fn unless_taken(
        &mut self,
        given: Result<(), Errno>,
        doing: Doing,
        is_old: bool,
    ) -> Result<(), Trouble> {
        match given {
            Ok(()) => Ok(()),
            // EOPNOTSUPP, ENOSYS; EPERM, of what this process has made.
            Err(Errno(errno)) if matches!(errno, 95 | 38) || errno == 1 && !is_old => {
                self.modes_and_times += 1;
                Ok(())
            }
            Err(errno) => Err(Trouble::new(doing, errno)),
        }
    }
}

/// What has extended attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder<'a> {
    /// An open file.
    Open(BorrowedFd<'a>),
    /// A name that is neither followed nor opened.
    Named(NameAt<'a>),
}

impl Holder<'_> {
    fn list(self, room: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Open(fd) => rustix::fs::flistxattr(fd, room),
            Self::Named(at) => at.list(room),
        }
    }

    fn get(self, name: &CStr, value: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Open(fd) => rustix::fs::fgetxattr(fd, name, value),
            Self::Named(at) => at.get(name, value),
        }
    }

    fn set(self, name: &CStr, value: &[u8]) -> rustix::io::Result<()> {
        match self {
            Self::Open(fd) => rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            Self::Named(at) => at.set(name, value),
        }
    }
}

/// Whether an extended attribute is one that a copy takes along.
pub(crate) fn is_copied(name: &CStr) -> bool {
    let name = name.to_bytes();
    let is_root = rustix::process::geteuid().is_root();
    !name.starts_with(b"lustre.") && (is_root || !name.starts_with(b"trusted."))
}

/// The bits that give rights of others.
pub(crate) const SET_ID: u32 = 0o6000;
/// Room for the names of extended attributes, mostly enough.
const NAMES_ROOM: usize = 256;
/// More than the kernel gives of a list, or of a value.
const EXTENDED_MOST: usize = 64 << 10;
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

impl Extended {
    /// What an open file has.
    pub(crate) fn read(
        file: impl AsFd,
        room: &mut Vec<u8>,
        wanted: impl Fn(&CStr) -> bool,
        not_kept: &mut NotKept,
    ) -> Result<Self, Errno> {
        Self::read_from(Holder::Open(file.as_fd()), room, wanted, not_kept)
    }

    /// What a file has, opened or not.
    pub(crate) fn read_from(
        holder: Holder<'_>,
        room: &mut Vec<u8>,
        wanted: impl Fn(&CStr) -> bool,
        not_kept: &mut NotKept,
    ) -> Result<Self, Errno> {
        let (names, are_all) = match list(holder, room)? {
            Listed::None => return Ok(Self::default()),
            Listed::Names(length) => (&room[..length], true),
            // What says who may do what is asked for by name: else the mode would say too much.
            Listed::TooLong => (RIGHTS, false),
        };
        not_kept.extended += u64::from(!are_all);
        let mut found = Vec::new();
        let mut value = Vec::new();
        for name in names.split_inclusive(|byte| *byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            if !wanted(name) {
                continue;
            }
            value.resize(EXTENDED_MOST, 0);
            match retry(|| holder.get(name, &mut value)) {
                Ok(bytes) => found.push((name.to_owned(), value[..bytes].to_vec())),
                // It went away meanwhile.
                Err(Errno(NODATA)) => {}
                // Its name may be told, and what it says not: EPERM, EACCES, EOPNOTSUPP.
                Err(Errno(1 | 13 | NOT_SUPPORTED)) => not_kept.extended += u64::from(are_all),
                Err(errno) => return Err(errno),
            }
        }
        Ok(Self(found))
    }

    /// Names that are not there, or have another value, in a copy; in order. What the system maintains there is its own.
    pub(crate) fn differing(&self, copy: &Self) -> Vec<Vec<u8>> {
        let alone = |one: &Self, other: &Self| {
            let own = one.0.iter().filter(|pair| !other.0.contains(pair));
            own.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let mut names: Vec<_> = alone(self, copy).into_iter().map(CString::into_bytes).collect();
        let extra = alone(copy, self).into_iter().filter(|name| !is_of_system(name));
        names.extend(extra.map(CString::into_bytes));
        names.sort();
        names.dedup();
        names
    }

    pub(crate) fn access_list(&self) -> Option<&[u8]> {
        self.0.iter().find(|(name, _)| name.as_c_str() == ACCESS_LIST).map(|(_, value)| value.as_slice())
    }

    /// Names and values.
    pub(crate) fn pairs(&self) -> &[(CString, Vec<u8>)] {
        &self.0
    }

    /// Some of them.
    pub(crate) fn select(&self, is_wanted: impl Fn(&(CString, Vec<u8>)) -> bool) -> Self {
        Self(self.0.iter().filter(|pair| is_wanted(pair)).cloned().collect())
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives them to a copy. Whether its access list, should there be one, is the source's.
    pub(crate) fn give(
        &self,
        copy: Holder<'_>,
        keep: &Keep,
        not_kept: &mut NotKept,
    ) -> Result<bool, Trouble> {
        let mut has_list = false;
        let given = self.0.iter().filter(|(name, _)| keep.gives(name));
        // ACLs come last: they may let not even the owner write, which other attributes need.
        let (lists, others): (Vec<_>, Vec<_>) = given.partition(|(name, _)| keep::is_list(name.to_bytes()));
        for (name, value) in others.into_iter().chain(lists) {
            match retry(|| copy.set(name, value)) {
                Ok(()) => has_list |= name.as_c_str() == ACCESS_LIST,
                // Not on this file system, not by this user, or no room: EOPNOTSUPP, EPERM, EACCES, EINVAL, E2BIG, ENOSPC, ERANGE.
                Err(Errno(95 | 1 | 13 | 22 | 7 | 28 | 34)) => not_kept.extended += 1,
                // Before Linux 6.13 and without /proc nothing leads to what this process has just made.
                Err(Errno::NOENT) if matches!(copy, Holder::Named(_)) => not_kept.extended += 1,
                Err(errno) => return Err(Trouble::new(Doing::SetExtended, errno)),
            }
        }
        Ok(has_list)
    }
}

/// Whether an attribute is the list that says who may do what with a file.
pub(crate) fn is_access_list(name: &CStr) -> bool {
    name == ACCESS_LIST
}

const NODATA: i32 = 61;
const RANGE: i32 = 34;
const TOO_LONG: i32 = 7;
const NOT_SUPPORTED: i32 = 95;
/// Attributes that say who may do what, as a list of names.
const RIGHTS: &[u8] =
    b"system.posix_acl_access\0system.posix_acl_default\0system.nfs4_acl\0security.capability\0";

/// What a list of names is.
enum Listed {
    /// There are none, or the file system has no such thing.
    None,
    /// So many bytes of names.
    Names(usize),
    /// The kernel lists no more than 64 KiB, and then nothing at all.
    TooLong,
}

/// The list of names, in `room`.
fn list(holder: Holder<'_>, room: &mut Vec<u8>) -> Result<Listed, Errno> {
    if room.is_empty() {
        room.resize(NAMES_ROOM, 0);
    }
    loop {
        match retry(|| holder.list(room)) {
            Ok(0) | Err(Errno(NOT_SUPPORTED)) => return Ok(Listed::None),
            Ok(length) => return Ok(Listed::Names(length)),
            Err(Errno(TOO_LONG)) => return Ok(Listed::TooLong),
            Err(Errno(RANGE)) if room.len() < EXTENDED_MOST => room.resize(EXTENDED_MOST, 0),
            Err(errno) => return Err(errno),
        }
    }
}

/// Gives an open file what it is to have of its source. Whether its access list is the source's.
pub(crate) fn give(
    file: impl AsFd,
    from: &Metadata,
    extended: &Extended,
    manner: Manner<'_>,
    not_kept: &mut NotKept,
) -> Result<bool, Trouble> {
    let fd = file.as_fd();
    let Manner { keep, is_old } = manner;
    let owned = give_owner(fd, from, keep, not_kept)?;
    let has_list = extended.give(Holder::Open(fd), keep, not_kept)?;
    if let Some(mut mode) = mode_beside(extended, has_list, from, keep, is_old) {
        if !owned && mode & SET_ID != 0 {
            mode &= !SET_ID;
            not_kept.set_id_bits += 1;
        }
        let given = retry(|| rustix::fs::fchmod(fd, Mode::from_raw_mode(mode)));
        not_kept.unless_taken(given, Doing::SetMode, is_old)?;
    }
    if keep.times {
        let times = times(from);
        let given = retry(|| rustix::fs::futimens(fd, &times));
        not_kept.unless_taken(given, Doing::SetTimes, is_old)?;
    }
    Ok(has_list)
}

/// The mode that is left to be set when the extended attributes are; none: what is there has it.
pub(crate) fn mode_beside(
    extended: &Extended,
    has_list: bool,
    from: &Metadata,
    keep: &Keep,
    is_old: bool,
) -> Option<u32> {
    // A list that came along holds the permissions.
    if has_list && !keep.mode {
        return None;
    }
    keep.mode_of(from, extended.access_list().filter(|_| !has_list), is_old)
}

/// Gives an open file its owner. Whether that is the one who gave the set-id bits their meaning.
fn give_owner(
    fd: BorrowedFd<'_>,
    from: &Metadata,
    keep: &Keep,
    not_kept: &mut NotKept,
) -> Result<bool, Trouble> {
    let (owner, group) = keep.owners_of(from);
    if (owner, group) == (None, None) {
        return Ok(false);
    }
    match retry(|| rustix::fs::fchown(fd, owner, group)) {
        // A directory's bits hand its group down, and give nobody any rights.
        Ok(()) if from.kind() == atta_entry::Kind::Directory => Ok(true),
        Ok(()) => Ok((owner, group) == (Some(Uid::from_raw(from.uid)), Some(Gid::from_raw(from.gid)))),
        Err(errno) if may_not(errno) => {
            not_kept.owners += 1;
            // The group alone may be one of this user's.
            let _ = retry(|| rustix::fs::fchown(fd, None, group));
            Ok(false)
        }
        Err(errno) => Err(Trouble::new(Doing::SetOwner, errno)),
    }
}

/// Lets the group of a file that is about to lose its access list do no more than the list did, where the mode is not the source's.
pub(crate) fn narrow(file: BorrowedFd<'_>, keep: &Keep) -> Result<(), Errno> {
    if keep.mode {
        return Ok(());
    }
    let was = kernel::stat_descriptor(file)?.mode & 0o7777;
    match mode_without_list(file, was) {
        mode if mode == was => Ok(()),
        mode => retry(|| rustix::fs::fchmod(file, Mode::from_raw_mode(mode))),
    }
}

/// What of a mode is left where the access list that a file has, if it has one, goes.
pub(crate) fn mode_without_list(file: impl AsFd, mode: u32) -> u32 {
    let mut nothing = [0_u8; 0];
    let Ok(length) = rustix::fs::fgetxattr(&file, ACCESS_LIST, &mut nothing[..]) else { return mode };
    let mut list = vec![0; length];
    // One that has grown meanwhile lets the group do nothing.
    let read = rustix::fs::fgetxattr(&file, ACCESS_LIST, &mut list[..]).unwrap_or_default();
    keep::without_list(mode, &list[..read])
}

/// Whether an owner was refused for who asks, or by a file system that has none.
pub(crate) fn may_not(errno: Errno) -> bool {
    // EPERM, EINVAL (an identity that the user namespace does not have), EOPNOTSUPP.
    matches!(errno, Errno(1 | 22 | 95))
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
