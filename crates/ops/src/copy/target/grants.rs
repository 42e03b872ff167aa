//! The rights that this process can give to files on a file system: another owner, set-id bits, attributes that grant rights. Each kind
//! of right is tried once per file system, on a probe file. A right that cannot be given therefore does not make a file differ from its
//! source. No right is given to a file that another process has written.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use atta_entry::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, XattrFlags};

use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::target::file::Place;
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

/// The result of each tried right, by device number.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<HashMap<(u64, Grant), bool>>);

impl Copying<'_> {
    /// Whether this process can give a right to its own files where a copy goes. `value`: of an attribute.
    pub(crate) fn can_give(
        &self,
        worker: &CopyWorker,
        to: &Place<'_>,
        grant: Grant,
        value: &[u8],
    ) -> Result<bool, FileError> {
        let failed = |errno| FileError::new(Step::Create, errno);
        let device = sys::stat_descriptor(&to.directory).map_err(failed)?.device;
        let key = (device, grant);
        if let Some(known) = self.grants.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(*known);
        }
        // The probe leaves the other directories of TARGET's file system unchanged.
        let directory = if device == self.top_identity.0 { &self.top } else { &to.directory };
        let probe = self.probe_file(worker.index, directory).map_err(failed)?;
        let is_given = is_given(&probe, &key.1, value);
        self.grants.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, is_given);
        Ok(is_given)
    }

    /// Makes a file and unlinks it at once.
    fn probe_file(&self, who: u64, directory: &OwnedFd) -> Result<OwnedFd, Errno> {
        let name = self.shared.namer.of_file(who);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let private = Mode::RUSR | Mode::WUSR;
        let file = retry(|| rustix::fs::openat(directory, &name, flags, private))?;
        let _ = rustix::fs::unlinkat(directory, &name, AtFlags::empty());
        Ok(file)
    }
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
