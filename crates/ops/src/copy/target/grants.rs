//! The rights that this process can give to files on a file system: another owner, set-id bits, attributes that grant rights. Each kind
//! of right is tried once per file system, on a probe file. A right that cannot be given therefore does not make a file differ from its
//! source. No right is given to a file that another process has written.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, XattrFlags};

use crate::file::error::{FileError, Step};
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
