//! Compares the metadata of an existing file or directory with its source and changes what differs. The same rules hold for entries that
//! are left, written into or merged into. `copy/target/existing.rs` decides whether an existing file may be changed.
//!
//! Extended attributes that are not kept are neither compared nor changed. Others are set if missing or different, and removed if the
//! source lacks them, except those that the system maintains.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Gid, Mode, Uid};

use super::extended::{Extended, Holder, is_access_list};
use super::give::{self, Manner, SET_ID, SourceAttributes};
use super::keep::Keep;
use super::not_kept::NotKept;
use crate::file::error::{FileError, Step};
use crate::metadata::keep::is_of_system;
use atta_sys::{self as sys, retry};

/// The metadata that an entry is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) from: &'a Metadata,
    pub(crate) extended: &'a Extended,
    pub(crate) keep: &'a Keep,
    /// It was there before this job.
    pub(crate) is_old: bool,
    /// The mode that it keeps where the source's is not kept and no access list comes along.
    pub(crate) own_mode: Option<u32>,
    /// Its times are to be its source's.
    pub(crate) needs_times: bool,
}

/// The differences between wanted and existing metadata.
#[derive(Debug)]
pub(crate) struct Changes<'a> {
    wanted: Wanted<'a>,
    /// The mode that it has.
    mode: u32,
    pub(crate) owner: Option<Uid>,
    pub(crate) group: Option<Gid>,
    pub(crate) set: Extended,
    removed: Vec<CString>,
    /// It has the access list of its source already.
    has_list: bool,
    /// Its owner or group differs and could not be changed.
    pub(crate) is_refused: bool,
}

impl<'a> Changes<'a> {
    /// Between what an entry is to have and what it has.
    pub(crate) fn between(wanted: Wanted<'a>, there: &Metadata, extended: &Extended) -> Self {
        let keep = wanted.keep;
        let (owner, group) = keep.owners_of(wanted.from);
        let given: Vec<_> = wanted.extended.pairs().iter().filter(|(name, _)| keep.gives(name)).collect();
        let is_stale = |name: &CStr| {
            keep.gives(name) && !is_of_system(name) && given.iter().all(|(known, _)| known.as_c_str() != name)
        };
        let has = |pair: &(CString, Vec<u8>)| extended.pairs().contains(pair);
        let names = extended.pairs().iter().map(|(name, _)| name);
        Self {
            wanted,
            mode: there.mode & 0o7777,
            owner: owner.filter(|owner| owner.as_raw() != there.uid),
            group: group.filter(|group| group.as_raw() != there.gid),
            set: wanted.extended.select(|pair| keep.gives(&pair.0) && !has(pair)),
            removed: names.filter(|name| is_stale(name)).cloned().collect(),
            has_list: given.iter().any(|pair| is_access_list(&pair.0) && has(pair)),
            is_refused: false,
        }
    }

    /// The mode that it is to have, if its access list is the source's or not; none: it keeps its own.
    pub(crate) fn mode(&self, has_list: bool) -> Option<u32> {
        let Wanted { from, extended, keep, is_old, own_mode, .. } = self.wanted;
        let own = own_mode.filter(|_| !has_list && !keep.mode);
        let (source, manner) = (SourceAttributes { metadata: from, extended }, Manner { keep, is_old });
        let mode = own.or_else(|| give::mode_beside(source, has_list, manner))?;
        Some(if self.is_owned() { mode } else { mode & !SET_ID })
    }

    /// The mode that it is to have if all attributes can be given.
    pub(crate) fn whole_mode(&self) -> Option<u32> {
        self.mode(self.has_list || self.set.access_list().is_some_and(|_| self.wanted.keep.lists))
    }

    /// Whether set-id bits would grant the rights of the source's owner. On a directory they grant none.
    fn is_owned(&self) -> bool {
        let Wanted { from, keep, .. } = self.wanted;
        let owners = keep.owners_of(from);
        let is_source = owners == (Some(Uid::from_raw(from.uid)), Some(Gid::from_raw(from.gid)));
        let is_directory = from.kind() == Kind::Directory && owners != (None, None);
        !self.is_refused && (is_source || is_directory)
    }

    /// Which set-id bits it would get that it has not; the one of the group, too, if that becomes another one.
    pub(crate) fn gained_bits(&self) -> u32 {
        const GROUP: u32 = 0o2000;
        let kept = if self.group.is_some() { self.mode & !GROUP } else { self.mode };
        self.whole_mode().map_or(0, |mode| mode & SET_ID & !kept)
    }

    /// The group that it is to have, if that is known.
    pub(crate) fn wanted_group(&self) -> Option<Gid> {
        self.wanted.keep.owners_of(self.wanted.from).1
    }

    /// The attributes that it is to have.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'a (CString, Vec<u8>)> + use<'a> {
        let Wanted { extended, keep, .. } = self.wanted;
        extended.pairs().iter().filter(move |(name, _)| keep.gives(name))
    }

    /// Whether more than owner and group is to be changed.
    pub(crate) fn are_beside_owner(&self) -> bool {
        let has_mode = self.whole_mode().is_none_or(|mode| mode == self.mode);
        !(self.set.is_empty() && self.removed.is_empty() && has_mode)
    }

    /// Whether there is nothing to be changed.
    pub(crate) fn are_none(&self) -> bool {
        self.owner.is_none() && self.group.is_none() && !self.are_beside_owner()
    }

    /// Changes what differs. Returns whether anything did.
    pub(crate) fn apply(&mut self, file: impl AsFd, not_kept: &mut NotKept) -> Result<bool, FileError> {
        let fd = file.as_fd();
        let Wanted { from, keep, is_old, needs_times, .. } = self.wanted;
        let mut has_changed = !self.are_none();
        self.give_owner(fd, not_kept)?;
        let own_mode = self.mode;
        let is_lent = self.lend_writing(fd);
        let touches_list = self.remove(fd, not_kept)?;
        let is_given = !self.set.is_empty() && self.set.give(Holder::Open(fd), keep, not_kept)?;
        if touches_list || is_given || self.owner.is_some() || self.group.is_some() {
            let now = sys::stat_descriptor(fd).map_err(|errno| FileError::new(Step::SetMode, errno))?;
            self.mode = now.mode & 0o7777;
        }
        if !self.is_owned() && keep.mode && from.mode & SET_ID != 0 {
            not_kept.set_id_bits += 1;
        }
        let wanted =
            self.mode(self.has_list || is_given).or_else(|| (is_lent && !is_given).then_some(own_mode));
        if let Some(mode) = wanted.filter(|mode| *mode != self.mode) {
            let given = retry(|| rustix::fs::fchmod(fd, Mode::from_raw_mode(mode)));
            not_kept.unless_taken(given, Step::SetMode, is_old)?;
        }
        if needs_times {
            has_changed = true;
            let times = give::times(from);
            let given = retry(|| rustix::fs::futimens(fd, &times));
            not_kept.unless_taken(given, Step::SetTimes, is_old)?;
        }
        Ok(has_changed)
    }

    /// Gives the owner write permission while `user.` attributes change, which needs it. Returns whether it did.
    fn lend_writing(&mut self, fd: BorrowedFd<'_>) -> bool {
        const WRITING: u32 = 0o200;
        let is_of_users = |name: &CStr| name.to_bytes().starts_with(b"user.");
        let set = self.set.pairs().iter().map(|(name, _)| name);
        let is_needed = self.mode & WRITING == 0 && set.chain(&self.removed).any(|name| is_of_users(name));
        // If the mode cannot be changed, setting the attributes fails, and that is reported.
        let is_lent = is_needed
            && !rustix::process::geteuid().is_root()
            && retry(|| rustix::fs::fchmod(fd, Mode::from_raw_mode(self.mode | WRITING))).is_ok();
        if is_lent {
            self.mode |= WRITING;
        }
        is_lent
    }

    fn give_owner(&mut self, fd: BorrowedFd<'_>, not_kept: &mut NotKept) -> Result<(), FileError> {
        if (self.owner, self.group) == (None, None) {
            return Ok(());
        }
        match retry(|| rustix::fs::fchown(fd, self.owner, self.group)) {
            Ok(()) => Ok(()),
            Err(errno) if give::may_not(errno) => {
                not_kept.owners += 1;
                self.is_refused = true;
                // The group alone may be one of this user's.
                let _ = self.owner.map(|_| retry(|| rustix::fs::fchown(fd, None, self.group)));
                Ok(())
            }
            Err(errno) => Err(FileError::new(Step::SetOwner, errno)),
        }
    }

    /// Removes attributes that the source has not. Whether an access list was among them.
    fn remove(&self, fd: BorrowedFd<'_>, not_kept: &mut NotKept) -> Result<bool, FileError> {
        let failed = |errno| FileError::new(Step::SetExtended, errno);
        let mut touches_list = false;
        for name in &self.removed {
            if is_access_list(name) {
                touches_list = true;
                give::narrow(fd, self.wanted.keep).map_err(failed)?;
            }
            match retry(|| rustix::fs::fremovexattr(fd, name.as_c_str())) {
                // Another process removed it first.
                Ok(()) | Err(Errno::NODATA) => {}
                Err(Errno::PERM | Errno::ACCES | Errno::OPNOTSUPP) => not_kept.extended += 1,
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(touches_list)
    }
}
