//! Copies that share the bytes of their source until one of them is changed (`FICLONE`), where nobody needs to see the bytes and the
//! file system can: within one btrfs, one XFS, one bcachefs. Holes are shared like bytes.

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
    /// Location they can, and no digest is wanted.
    #[default]
    Auto,
    /// A file that cannot is not copied.
    Always,
    /// Never.
    Never,
}

/// Devices whose files cannot be cloned to the target.
#[derive(Debug, Default)]
pub(crate) struct Unable(Mutex<HashSet<u64>>);

impl Copying<'_> {
    /// Makes a file share the bytes of its source. False: they are to be moved.
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
                // Nobody has read it.
                worker.mover.check_end(source.as_fd(), metadata.size)?;
                worker.totals.cloned += 1;
                Ok(true)
            }
            Err(errno) if self.options.reflink == Reflink::Always => Err(FileError::new(Step::Clone, errno)),
            Err(errno) => {
                // No file of that device can. Everything else may be this one's affair.
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
