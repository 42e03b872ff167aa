//! Files that share the bytes of another file until one of them is changed (`FICLONE`). The file system must support it: within one btrfs,
//! one XFS, one bcachefs. Holes are shared like bytes.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use atta_entry::Errno;
use rustix::fd::AsFd;

use crate::file::error::{FileError, Step};
use atta_sys::retry;

/// Whether copies share the bytes of their sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reflink {
    /// Clone where possible, if no digest is wanted.
    #[default]
    Auto,
    /// Clone every file. A file that cannot be cloned is not copied.
    Always,
    /// Never clone.
    Never,
}

/// Clones files where that is wanted and possible.
#[derive(Debug)]
pub(crate) struct Cloner {
    rule: Reflink,
    /// Devices whose files cannot be cloned to the target.
    unable: Mutex<HashSet<u64>>,
}

impl Cloner {
    pub(crate) fn new(rule: Reflink) -> Self {
        Self { rule, unable: Mutex::default() }
    }

    /// Clones the bytes of a file of this device into another file. False: the bytes must be copied.
    pub(crate) fn clone_bytes(
        &self,
        source: impl AsFd,
        copy: impl AsFd,
        device: u64,
    ) -> Result<bool, FileError> {
        let is_wanted = match self.rule {
            Reflink::Auto => !self.is_unable(device),
            Reflink::Always => true,
            Reflink::Never => false,
        };
        if !is_wanted {
            return Ok(false);
        }
        match retry(|| rustix::fs::ioctl_ficlone(&copy, &source)) {
            Ok(()) => Ok(true),
            Err(errno) if self.rule == Reflink::Always => Err(FileError::new(Step::Clone, errno)),
            Err(errno) => {
                // These errors apply to all files of the device. Other errors may concern only this file.
                if matches!(errno, Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::NOSYS) {
                    self.unable.lock().unwrap_or_else(PoisonError::into_inner).insert(device);
                }
                Ok(false)
            }
        }
    }

    fn is_unable(&self, device: u64) -> bool {
        self.unable.lock().unwrap_or_else(PoisonError::into_inner).contains(&device)
    }
}
