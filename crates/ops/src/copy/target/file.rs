//! Copies one regular file as a whole: open, bytes, attributes, and proof that the source did not change meanwhile. The file gets its
//! final name here only if its directory is not yet visible; otherwise see `commit/publish.rs`.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::AtFlags;

use crate::copy::commit::pending::SyncRule;
use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::target::place::{Made, NAMES_TRIED, Place, refuse_taken, remove};
use crate::digest::{HOLE_BYTES_MAX, Piece};
use crate::file::direct::bypass_cache;
use crate::file::error::{FileError, Step};
use crate::file::holes::{self, may_have_holes};
use crate::file::mover::Pass;
use crate::file::retries::{ask_close, close};
use crate::file::source::{Source, TRIES, identity_of, is_same, look, open, settled};
use crate::file::version::Version;
use crate::metadata::extended::Extended;
use crate::metadata::give::{self, Manner, SourceAttributes};
use atta_sys::{self as sys, retry};

impl Copying<'_> {
    /// Copies a regular file with all its metadata.
    pub(crate) fn file(
        &self,
        worker: &mut CopyWorker,
        from: Source<'_>,
        to: &Place<'_>,
    ) -> Result<Made, FileError> {
        let began = std::time::Instant::now();
        let mut error = FileError::Changed;
        // A file that is written in place temporarily loses its mode.
        let mut was = None;
        for _ in 0..TRIES {
            let source = open(from)?;
            let before = settled(&source)?;
            if before.kind() != Kind::File {
                // It was a regular file when it was listed.
                continue;
            }
            error = match self.make(worker, source.as_fd(), &before, to, &mut was) {
                Ok(mut made) => {
                    made.elapsed = began.elapsed();
                    let now = look(&source);
                    if now.as_ref().is_ok_and(|now| is_same(&before, now)) {
                        return Ok(made);
                    }
                    remove(to, &made);
                    now.map(|_| FileError::Changed)?
                }
                Err(error) if error.is_worth_another_copy() => error,
                Err(error) => return Err(error),
            };
        }
        Err(error)
    }

    fn make(
        &self,
        worker: &mut CopyWorker,
        source: BorrowedFd<'_>,
        metadata: &Metadata,
        to: &Place<'_>,
        was: &mut Option<u32>,
    ) -> Result<Made, FileError> {
        let since = self.batch.failures();
        let (file, mut made) = match self.in_place(worker, source, to, metadata)? {
            Some((file, mode)) => {
                (file, Made { in_place: Some(*was.get_or_insert(mode)), since, ..Made::default() })
            }
            None => {
                let layout = self.striping.layout_of(source, metadata);
                let (file, temporary) = self.create(worker, to, layout.as_deref())?;
                (file, Made { temporary, since, ..Made::default() })
            }
        };
        let filled = self.fill(worker, source, metadata, &file, &mut made, to);
        if filled.is_ok() && (self.options.verify || made.temporary.is_some()) {
            let copy = sys::stat_descriptor(&file).ok();
            made.identity = copy.as_ref().map(identity_of);
            let copy = copy.filter(|_| self.options.verify);
            made.version = copy.map(|copy| Version::of_copy(metadata, copy.inode));
            made.atime = copy.map(|copy| copy.atime);
        }
        let closed = match filled {
            Ok(()) if metadata.nlink == 1 && made.in_place.is_none() => match self.syncs_each_in(to.mirror) {
                true => {
                    made.unsynced = Some((file, Version::of_copy(metadata, 0)));
                    Ok(())
                }
                false => close(file),
            },
            filled => {
                let asked = filled.and_then(|()| ask_close(&file));
                made.file = Some((file, (metadata.device, metadata.inode)));
                asked
            }
        };
        if closed.is_err() {
            remove(to, &made);
        }
        closed.map(|()| made)
    }

    /// Makes a new file: under its final name if the directory is not yet visible, else under a temporary name, which is returned.
    fn create(
        &self,
        worker: &mut CopyWorker,
        to: &Place<'_>,
        layout: Option<&[u8]>,
    ) -> Result<(OwnedFd, Option<CString>), FileError> {
        if to.is_direct() {
            match self.create_with(worker, to, to.name, layout) {
                Ok(file) => return Ok((file, None)),
                // Accepts a name that the source lists twice. Refuses two names that are one to the target.
                Err(Errno::EXIST) => refuse_taken(to, Step::Create)?,
                Err(errno) => return Err(FileError::new(Step::Create, errno)),
            }
        }
        self.create_temporary(worker, to, layout).map(|(file, name)| (file, Some(name)))
    }

    /// Makes a new file under a temporary name.
    pub(crate) fn create_temporary(
        &self,
        worker: &mut CopyWorker,
        to: &Place<'_>,
        layout: Option<&[u8]>,
    ) -> Result<(OwnedFd, CString), FileError> {
        let mut last = Errno::EXIST;
        for _ in 0..NAMES_TRIED {
            let name = self.shared.namer.of_file(worker.index);
            match self.create_with(worker, to, &name, layout) {
                Ok(file) => return Ok((file, name)),
                Err(errno) => last = errno,
            }
            if last != Errno::EXIST {
                break;
            }
            // No other process knows the name: the reply to the first request was lost. The existing file is not opened.
            let _ = rustix::fs::unlinkat(&to.directory, &name, AtFlags::empty());
        }
        Err(FileError::new(Step::Create, last))
    }

    fn fill(
        &self,
        worker: &mut CopyWorker,
        source: BorrowedFd<'_>,
        metadata: &Metadata,
        file: &OwnedFd,
        made: &mut Made,
        to: &Place<'_>,
    ) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::Sync, errno);
        self.fill_bytes(worker, source, metadata, file, made)?;
        // A file with its final name cannot wait for a sync of many files: a failure could not be reported.
        let syncs_in_place = made.in_place.is_some() && self.sync_rule(to.mirror) != SyncRule::Never;
        if syncs_in_place {
            // The sync comes before the times are set: with its times, a later run would take the file for a copy.
            self.syncs.timed(|| retry(|| rustix::fs::fdatasync(file))).map_err(failed)?;
        }
        match made.in_place {
            Some(was) => self.settle(worker, to, (source, metadata), (file, was))?,
            None => {
                let extended = self.extended(worker, source)?;
                let attributes = SourceAttributes { metadata, extended: &extended };
                give::give(file, attributes, self.manner(), &mut worker.totals.not_kept)?;
            }
        }
        // Other names of the file may appear before this one.
        let syncs_at_once = metadata.nlink > 1 && self.syncs_each_in(to.mirror);
        if syncs_at_once || syncs_in_place {
            self.syncs.timed(|| retry(|| rustix::fs::fsync(file))).map_err(failed)?;
        }
        Ok(())
    }

    fn fill_bytes(
        &self,
        worker: &mut CopyWorker,
        source: BorrowedFd<'_>,
        metadata: &Metadata,
        file: &OwnedFd,
        made: &mut Made,
    ) -> Result<(), FileError> {
        if !worker.mover.sizes.is_stated(source, metadata) {
            let mut hasher = self.options.digest.then(|| Piece::at(0));
            made.bytes = worker.mover.pass_to_end(source, Some(file.as_fd()), hasher.as_mut())?;
            made.digest = hasher.map(|hasher| hasher.digest());
            return Ok(());
        }
        if self.clone_bytes(worker, source, file, metadata)? {
            made.bytes = metadata.size;
            return Ok(());
        }
        let has_holes = may_have_holes(metadata);
        if self.options.direct && !bypass_cache(source, file, metadata.size, has_holes) {
            worker.totals.not_direct += 1;
        }
        let mut hasher = self.is_hashed(source, metadata)?.then(|| Piece::at(0));
        let (target, size) = (Some(file.as_fd()), metadata.size);
        let pass = Pass { source, target, has_holes, size, hasher: hasher.as_mut() };
        made.bytes = worker.mover.pass(pass, 0..size)?;
        if made.bytes < metadata.size {
            return Err(FileError::Changed);
        }
        made.digest = hasher.map(|hasher| hasher.digest());
        if has_holes {
            let cut = retry(|| rustix::fs::ftruncate(file, made.bytes));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        Ok(())
    }

    /// Makes a new file, with a layout if one is wanted and can be set.
    pub(crate) fn create_with(
        &self,
        worker: &mut CopyWorker,
        to: &Place<'_>,
        name: &CStr,
        layout: Option<&[u8]>,
    ) -> Result<OwnedFd, Errno> {
        let directory = (&*to.directory, to.mirror.is_sealed());
        let (file, has_layout) = self.striping.create(directory, name, layout)?;
        worker.totals.not_striped += u64::from(!has_layout);
        Ok(file)
    }

    /// Clones the bytes of the source into a file. False: the bytes must be copied.
    pub(crate) fn clone_bytes(
        &self,
        worker: &mut CopyWorker,
        source: impl AsFd,
        copy: impl AsFd,
        metadata: &Metadata,
    ) -> Result<bool, FileError> {
        // A digest needs the bytes.
        if self.options.digest
            || metadata.size == 0
            || !self.cloner.clone_bytes(&source, copy, metadata.device)?
        {
            return Ok(false);
        }
        // No bytes were read.
        worker.mover.check_end(source.as_fd(), metadata.size)?;
        worker.totals.cloned += 1;
        Ok(true)
    }

    /// Whether a file gets a digest: digests are wanted and it does not have too many holes.
    pub(crate) fn is_hashed(&self, source: impl AsFd, metadata: &Metadata) -> Result<bool, FileError> {
        let most = self.options.hole_bytes_max.unwrap_or(HOLE_BYTES_MAX);
        Ok(self.options.digest && !holes::exceed(source, metadata, most, &self.options.walk.stop)?)
    }

    /// Reads the extended attributes of the source.
    pub(crate) fn extended(&self, worker: &mut CopyWorker, source: impl AsFd) -> Result<Extended, FileError> {
        let CopyWorker { room, totals, .. } = worker;
        let wanted = |name: &CStr| self.options.keep.reads(name);
        let read = Extended::read(source, room, wanted, &mut totals.not_kept);
        read.map_err(|errno| FileError::new(Step::ReadExtended, errno))
    }

    /// How entries of this job get their attributes.
    pub(crate) fn manner(&self) -> Manner<'_> {
        Manner { keep: &self.options.keep, is_old: false }
    }
}
