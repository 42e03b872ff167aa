//! The rights that this process can give to files on a file system: another owner, set-id bits, attributes that grant rights. Each kind
//! of right is tried once per file system, on a probe file. A right that cannot be given therefore does not make a file differ from its
//! source. No right is given to a file that another process has written.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::{Errno, Metadata};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, XattrFlags};

use crate::copy::target::Maker;
use crate::copy::target::place::Place;
use crate::file::error::{FileError, Step};
use crate::metadata::differences::Changes;
use crate::metadata::keep::gives_rights;
use atta_sys::{self as sys, retry};

/// A right that not every process can give to a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Grant {
    Owner(Uid),
    Group(Gid),
    /// A mode, for a file of this group.
    Mode(u32, Option<Gid>),
    /// An extended attribute. Its value counts only the first time.
    Attribute(CString),
}

/// The rights that this process can give to files where a copy goes, as far as they were tried.
#[derive(Debug)]
pub(crate) struct Grants {
    /// The result of each tried right, by device number.
    tried: Mutex<HashMap<(u64, Grant), bool>>,
    /// A directory on TARGET's file system, for probe files: other directories there stay unchanged.
    top: Arc<OwnedFd>,
    top_device: Option<u64>,
}

impl Grants {
    pub(crate) fn new(top: Arc<OwnedFd>) -> Self {
        let top_device = sys::stat_descriptor(&top).ok().map(|found| found.device);
        Self { tried: Mutex::default(), top, top_device }
    }

    /// Whether this process can give a right, with the value of an attribute, to its own files in a directory. `unused`: a name for a
    /// probe file.
    pub(crate) fn can_give(
        &self,
        directory: &OwnedFd,
        (grant, value): (Grant, &[u8]),
        unused: impl FnOnce() -> CString,
    ) -> Result<bool, FileError> {
        let failed = |errno| FileError::new(Step::Create, errno);
        let device = sys::stat_descriptor(directory).map_err(failed)?.device;
        let key = (device, grant);
        if let Some(known) = self.lock().get(&key) {
            return Ok(*known);
        }
        let directory = if Some(device) == self.top_device { &*self.top } else { directory };
        let probe = probe_file(directory, &unused()).map_err(failed)?;
        let is_given = is_given(&probe, &key.1, value);
        self.lock().insert(key, is_given);
        Ok(is_given)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(u64, Grant), bool>> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maker<'_> {
    /// Whether this process can give a right to its own files where a copy goes. `value`: of an attribute.
    pub(crate) fn can_give(&self, to: &Place<'_>, grant: Grant, value: &[u8]) -> Result<bool, FileError> {
        self.target
            .grants
            .can_give(&to.directory, (grant, value), || self.target.shared.namer.of_file(self.scratch.index))
    }

    /// Whether a file belongs to the user that this process creates files as. Any file does if that user is root.
    pub(crate) fn is_mine(&self, there: &Metadata) -> bool {
        let own = self.target.stores.own_uid(there.device);
        own == Some(there.uid) || own == Some(0) && rustix::process::geteuid().is_root()
    }

    /// Whether changes would give rights: another owner, set-id bits, or attributes that make a file trusted.
    ///
    /// A previous owner, or a process that has the file open, may have written its bytes. Rights that this process or file system cannot
    /// give are dropped from the changes and counted.
    pub(crate) fn gives_rights(
        &mut self,
        to: &Place<'_>,
        changes: &mut Changes<'_>,
    ) -> Result<bool, FileError> {
        if let Some(owner) = changes.owner {
            if self.can_give(to, Grant::Owner(owner), b"")? {
                return Ok(true);
            }
            (changes.owner, changes.is_refused) = (None, true);
        }
        if let Some(group) = changes.group
            && !self.can_give(to, Grant::Group(group), b"")?
        {
            (changes.group, changes.is_refused) = (None, true);
        }
        self.results.totals.not_kept.owners += u64::from(changes.is_refused);
        if changes.gained_bits() != 0 {
            let mode = changes.whole_mode().unwrap_or_default();
            if self.can_give(to, Grant::Mode(mode, changes.wanted_group()), b"")? {
                return Ok(true);
            }
            changes.is_refused = true;
        }
        // A change of the group removes capabilities.
        let lost = |name: &CStr| name == c"security.capability" && changes.group.is_some();
        for (name, value) in changes.given().filter(|(name, _)| gives_rights(name)) {
            let is_new = changes.set.pairs().iter().any(|(new, _)| new == name);
            if !is_new && !lost(name) {
                continue;
            }
            if self.can_give(to, Grant::Attribute(name.clone()), value)? {
                return Ok(true);
            }
            self.results.totals.not_kept.extended += 1;
        }
        changes.set = changes.set.select(|(name, _)| !gives_rights(name));
        Ok(false)
    }
}

/// Makes a file and unlinks it at once.
fn probe_file(directory: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let private = Mode::RUSR | Mode::WUSR;
    let file = retry(|| rustix::fs::openat(directory, name, flags, private))?;
    let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
    Ok(file)
}

/// Tries to give a right and reads it back: a file system may report success without effect.
fn is_given(probe: &OwnedFd, grant: &Grant, value: &[u8]) -> bool {
    let given = match grant {
        Grant::Owner(owner) => retry(|| rustix::fs::fchown(probe, Some(*owner), None)),
        Grant::Group(group) => retry(|| rustix::fs::fchown(probe, None, Some(*group))),
        Grant::Mode(mode, group) => {
            let _ = retry(|| rustix::fs::fchown(probe, None, *group));
            retry(|| rustix::fs::fchmod(probe, Mode::from_raw_mode(*mode)))
        }
        Grant::Attribute(name) => {
            retry(|| rustix::fs::fsetxattr(probe, name.as_c_str(), value, XattrFlags::empty()))
        }
    };
    let Ok(found) = given.and_then(|()| sys::stat_descriptor(probe)) else { return false };
    match grant {
        Grant::Owner(owner) => found.uid == owner.as_raw(),
        Grant::Group(group) => found.gid == group.as_raw(),
        Grant::Mode(mode, _) => found.mode & 0o7777 == *mode,
        Grant::Attribute(name) => {
            let mut kept = vec![0; value.len() + 1];
            let length = retry(|| rustix::fs::fgetxattr(probe, name.as_c_str(), &mut kept[..]));
            length.is_ok_and(|length| kept[..length] == *value)
        }
    }
}
