//! Copies that share the bytes of their source until one of them is changed (`FICLONE`). Used where no digest is wanted and the file
//! system supports it: within one btrfs, one XFS, one bcachefs. Holes are shared like bytes.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use atta_entry::{Errno, Metadata};
use rustix::fd::AsFd;

use crate::copy::handler::{CopyWorker, Copying};
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

/// Devices whose files cannot be cloned to the target.
#[derive(Debug, Default)]
pub(crate) struct Unable(Mutex<HashSet<u64>>);

impl Copying<'_> {
    /// Clones the bytes of the source into a file. False: the bytes must be copied.
    pub(crate) fn clone_bytes(
        &self,
        worker: &mut CopyWorker,
        source: impl AsFd,
        copy: impl AsFd,
        metadata: &Metadata,
    ) -> Result<bool, FileError> {
        let is_wanted = match self.options.reflink {
            Reflink::Auto => !self.options.digest && !self.unable.contains(metadata.device),
            Reflink::Always => !self.options.digest,
            Reflink::Never => false,
        };
        if !is_wanted || metadata.size == 0 {
            return Ok(false);
        }
        match retry(|| rustix::fs::ioctl_ficlone(&copy, &source)) {
            Ok(()) => {
                // No bytes were read.
                worker.mover.check_end(source.as_fd(), metadata.size)?;
                worker.totals.cloned += 1;
                Ok(true)
            }
            Err(errno) if self.options.reflink == Reflink::Always => Err(FileError::new(Step::Clone, errno)),
            Err(errno) => {
                // These errors apply to all files of the device. Other errors may concern only this file.
                if matches!(errno, Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::NOSYS) {
                    self.unable.add(metadata.device);
                }
                Ok(false)
            }
        }
    }
}

impl Unable {
    fn contains(&self, device: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&device)
    }

    fn add(&self, device: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(device);
    }
}
