//! How the bytes of a file get to its copy: whether they are read, hashed or shared, and how the copy is laid out. Makes no files.

use atta_sys::file_systems::{CopyBy, is_copied_by};
use rustix::fd::{AsFd, OwnedFd};

use crate::copy::options::Options;
use crate::copy::target::place::OpenFile;
use crate::copy::target::stripe::Striping;
use crate::digest::HOLE_BYTES_MAX;
use crate::file::clone::Cloner;
use crate::file::error::FileError;
use crate::file::holes;
use crate::file::kernel_copy::{Race, Within};
use crate::file::mover::Mover;

/// See the head of this file.
pub(crate) struct Data<'a> {
    options: &'a Options<'a>,
    cloner: Cloner,
    pub(crate) striping: Striping<'a>,
    /// Who can copy bytes that this process need not read: servers, the kernel, or nothing.
    within: Within,
}

impl<'a> Data<'a> {
    /// `top`: the directory that is written to.
    pub(crate) fn new(options: &'a Options<'a>, striping: Striping<'a>, top: &OwnedFd) -> Self {
        let within = match () {
            () if is_copied_by(top, CopyBy::Server) => Within::Servers,
            () if is_copied_by(top, CopyBy::Pages) => Within::Kernel(Race::default()),
            () => Within::Nobody,
        };
        Self { options, cloner: Cloner::new(options.reflink), striping, within }
    }

    /// What moves bytes on one thread.
    pub(crate) fn mover(&self) -> Mover {
        let Options { bandwidth, direct, walk, .. } = self.options;
        Mover::new(bandwidth.as_ref(), *direct, self.within, &walk.stop)
    }

    /// Whether a file gets a digest: digests are wanted and it does not have too many holes.
    pub(crate) fn is_hashed(&self, source: OpenFile<'_>) -> Result<bool, FileError> {
        let most = self.options.hole_bytes_max.unwrap_or(HOLE_BYTES_MAX);
        let stop = &self.options.walk.stop;
        Ok(self.options.digest && !holes::exceed(source.file, source.metadata, most, stop)?)
    }

    /// Clones the bytes of the source into a file. False: the bytes must be copied.
    pub(crate) fn clone_bytes(
        &self,
        mover: &mut Mover,
        source: OpenFile<'_>,
        copy: impl AsFd,
    ) -> Result<bool, FileError> {
        let OpenFile { file, metadata } = source;
        // A digest needs the bytes.
        if self.options.digest
            || metadata.size == 0
            || !self.cloner.clone_bytes(file, copy, metadata.device)?
        {
            return Ok(false);
        }
        // No bytes were read.
        mover.check_end(file, metadata.size)?;
        Ok(true)
    }
}
