//! Copies one regular file as a whole: open, bytes, attributes, and proof that the source did not change meanwhile. The file gets its
//! final name here only if its directory is not yet visible; otherwise see `commit/publish.rs`.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::AtFlags;

use crate::copy::commit::stores::SyncRule;
use crate::copy::target::Maker;
use crate::copy::target::place::{Item, Made, NAMES_TRIED, OpenFile, Place, refuse_taken, remove};
use crate::digest::Piece;
use crate::file::direct::bypass_cache;
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::mover::Pass;
use crate::file::retries::{ask_close, close};
use crate::file::source::{TRIES, identity_of, is_same, look, open, settled};
use crate::file::version::Version;
use crate::metadata::give::{self, SourceAttributes};
use atta_sys::{self as sys, retry};

/// A file that is being filled, and what is known of it.
struct Unfinished {
    file: OwnedFd,
    made: Made,
}

impl Maker<'_> {
    /// Copies a regular file with all its metadata.
    pub(crate) fn file(&mut self, item: Item<'_>) -> Result<Made, FileError> {
        let began = std::time::Instant::now();
        let mut error = FileError::Changed;
        // A file that is written in place temporarily loses its mode.
        let mut was = None;
        for _ in 0..TRIES {
            let source = open(item.from)?;
            let before = settled(&source)?;
            if before.kind() != Kind::File {
                // It was a regular file when it was listed.
                continue;
            }
            error = match self.make(OpenFile::new(&source, &before), item.to, &mut was) {
                Ok(mut made) => {
                    made.elapsed = began.elapsed();
                    let now = look(&source);
                    if now.as_ref().is_ok_and(|now| is_same(&before, now)) {
                        return Ok(made);
                    }
                    remove(item.to, &made);
                    now.map(|_| FileError::Changed)?
                }
                Err(error) if error.is_worth_another_copy() => error,
                Err(error) => return Err(error),
            };
        }
        Err(error)
    }

    fn make(
        &mut self,
        source: OpenFile<'_>,
        to: &Place<'_>,
        was: &mut Option<u32>,
    ) -> Result<Made, FileError> {
        let (target, metadata) = (self.target, source.metadata);
        let since = target.stores.failed_syncs();
        let (file, made) = match self.in_place(source, to)? {
            Some((file, mode)) => {
                (file, Made { in_place: Some(*was.get_or_insert(mode)), since, ..Made::default() })
            }
            None => {
                let layout = target.data.striping.layout_of(source.file, metadata);
                let (file, temporary) = self.create(to, layout.as_deref())?;
                (file, Made { temporary, since, ..Made::default() })
            }
        };
        let mut unfinished = Unfinished { file, made: Made { is_file: true, ..made } };
        let filled = self.fill(source, &mut unfinished, to);
        let Unfinished { file, mut made } = unfinished;
        if filled.is_ok() && (target.options.verify || made.temporary.is_some()) {
            let copy = sys::stat_descriptor(&file).ok();
            made.identity = copy.as_ref().map(identity_of);
            let copy = copy.filter(|_| target.options.verify);
            made.version = copy.map(|copy| Version::of_copy(metadata, copy.inode));
            made.atime = copy.map(|copy| copy.atime);
        }
        let closed = match filled {
            Ok(()) if metadata.nlink == 1 && made.in_place.is_none() => {
                match target.stores.syncs_each_in(to.mirror) {
                    true => {
                        made.unsynced = Some((file, Version::of_copy(metadata, 0)));
                        Ok(())
                    }
                    false => close(file),
                }
            }
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
        &mut self,
        to: &Place<'_>,
        layout: Option<&[u8]>,
    ) -> Result<(OwnedFd, Option<CString>), FileError> {
        if to.is_direct() {
            match self.create_with(to, to.name, layout) {
                Ok(file) => return Ok((file, None)),
                // Accepts a name that the source lists twice. Refuses two names that are one to the target.
                Err(Errno::EXIST) => refuse_taken(to, Step::Create)?,
                Err(errno) => return Err(FileError::new(Step::Create, errno)),
            }
        }
        self.create_temporary(to, layout).map(|(file, name)| (file, Some(name)))
    }

    /// Makes a new file under a temporary name.
    pub(crate) fn create_temporary(
        &mut self,
        to: &Place<'_>,
        layout: Option<&[u8]>,
    ) -> Result<(OwnedFd, CString), FileError> {
        let mut last = Errno::EXIST;
        for _ in 0..NAMES_TRIED {
            let name = self.target.shared.namer.of_file(self.scratch.index);
            match self.create_with(to, &name, layout) {
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

    /// Gives a new file the bytes and attributes of its source.
    fn fill(
        &mut self,
        source: OpenFile<'_>,
        unfinished: &mut Unfinished,
        to: &Place<'_>,
    ) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::Sync, errno);
        let (target, metadata) = (self.target, source.metadata);
        self.fill_bytes(source, unfinished)?;
        let Unfinished { file, made } = &*unfinished;
        // A file with its final name cannot wait for a sync of many files: a failure could not be reported.
        let syncs_in_place = made.in_place.is_some() && target.stores.sync_rule(to.mirror) != SyncRule::Never;
        if syncs_in_place {
            // The sync comes before the times are set: with its times, a later run would take the file for a copy.
            target.stores.sync_data(file).map_err(failed)?;
        }
        match made.in_place {
            Some(was) => self.settle(to, source, (file, was))?,
            None => {
                let extended = self.extended(source.file)?;
                let attributes = SourceAttributes { metadata, extended: &extended };
                give::give(file, attributes, target.manner(), &mut self.results.totals.not_kept)?;
            }
        }
        // Other names of the file may appear before this one.
        let syncs_at_once = metadata.nlink > 1 && target.stores.syncs_each_in(to.mirror);
        if syncs_at_once || syncs_in_place {
            target.stores.sync_file(file).map_err(failed)?;
        }
        Ok(())
    }

    fn fill_bytes(&mut self, source: OpenFile<'_>, unfinished: &mut Unfinished) -> Result<(), FileError> {
        let OpenFile { file: from, metadata } = source;
        let Unfinished { file, made } = unfinished;
        let (options, data) = (self.target.options, &self.target.data);
        if !self.scratch.mover.sizes.is_stated(from, metadata) {
            let mut hasher = options.digest.then(|| Piece::at(0));
            made.bytes = self.scratch.mover.pass_to_end(from, Some(file.as_fd()), hasher.as_mut())?;
            made.digest = hasher.map(|hasher| hasher.digest());
            return Ok(());
        }
        if self.clone_bytes(source, &*file)? {
            made.bytes = metadata.size;
            return Ok(());
        }
        let has_holes = may_have_holes(metadata);
        if options.direct && !bypass_cache(from, &*file, metadata.size, has_holes) {
            self.results.totals.not_direct += 1;
        }
        let mut hasher = data.is_hashed(source)?.then(|| Piece::at(0));
        let (target, hasher_of_pass) = (Some(file.as_fd()), hasher.as_mut());
        let pass = Pass { source: from, target, has_holes, size: metadata.size, hasher: hasher_of_pass };
        made.bytes = self.scratch.mover.pass(pass, 0..metadata.size)?;
        if made.bytes < metadata.size {
            return Err(FileError::Changed);
        }
        made.digest = hasher.map(|hasher| hasher.digest());
        if has_holes {
            let cut = retry(|| rustix::fs::ftruncate(&*file, made.bytes));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        Ok(())
    }

    /// Makes a new file, with a layout if one is wanted and can be set.
    pub(crate) fn create_with(
        &mut self,
        to: &Place<'_>,
        name: &CStr,
        layout: Option<&[u8]>,
    ) -> Result<OwnedFd, Errno> {
        let directory = (&*to.directory, to.mirror.is_sealed());
        let (file, has_layout) = self.target.data.striping.create(directory, name, layout)?;
        self.results.totals.not_striped += u64::from(!has_layout);
        Ok(file)
    }

    /// Clones the bytes of the source into a file, and counts that. False: the bytes must be copied.
    pub(crate) fn clone_bytes(&mut self, source: OpenFile<'_>, copy: impl AsFd) -> Result<bool, FileError> {
        let is_cloned = self.target.data.clone_bytes(&mut self.scratch.mover, source, copy)?;
        self.results.totals.cloned += u64::from(is_cloned);
        Ok(is_cloned)
    }
}
