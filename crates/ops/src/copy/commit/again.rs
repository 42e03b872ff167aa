//! Writes once more what a failed sync has left in doubt. Which of the files that it was of are lost nobody says, and a second sync
//! would say that all is well: so each file that was begun before it is emptied, where nobody sees it as yet, written again from its
//! source, and synced by itself. What then fails is removed and told.
//!
//! It is emptied since a file system need not write to disk what is written over bytes that it has failed to write: ext4 forgets
//! that their blocks count as zeros until they are written.
//!
//! ```text
//!   a batch ─▶ syncfs fails ─▶ each file of it, and each in a new directory of it: unchanged since? ─▶ written, synced ─▶ named
//!                                                  └─ no, or its own sync fails ─▶ removed, told
//! ```
//!
//! It does not sync file systems: see `publish.rs`.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::commit::publish::Ready;
use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::large::Version;
use crate::copy::target::existing::is_alike;
use crate::copy::target::file::Place;
use crate::copy::target::mirror::Mirror;
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::mover::Way;
use crate::file::source::{is_same, look, open, settled};
use crate::jobs::names::PREFIX;
use crate::metadata::give;
use crate::tree::directory::Directory;
use crate::tree::location::Location;
use atta_sys::at;
use atta_sys::{self as sys, Features, retry};

impl Copying<'_> {
    /// Makes sure that something is on stable storage although a sync of it failed. Returns which names of it are not to be read
    /// back: they are lost, and told, or other files than before.
    ///
    /// # Errors
    /// All of it is lost.
    pub(crate) fn write_again(
        &self,
        worker: &mut CopyWorker,
        ready: &Ready,
    ) -> Result<Vec<CString>, FileError> {
        let target = ready.mirror.target.descriptor(&mut worker.held, self.features);
        let target = target.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        let lost = match (&ready.names, &ready.origin) {
            (Some((temporary, name)), origin) => {
                let (mirror, directory) = (&ready.mirror, Arc::clone(&target));
                let to = Place { mirror, directory, name: temporary, slice: None };
                let is_another = self.file_again(worker, origin, &to, None)?;
                is_another.then(|| name.clone()).into_iter().collect()
            }
            (None, Location::Itself(source)) => {
                self.directory_again(worker, source, &ready.mirror, &target)?
            }
            // Nothing was put into it.
            (None, _) => Vec::new(),
        };
        retry(|| rustix::fs::fsync(&target)).map_err(|errno| FileError::new(Step::Sync, errno))?;
        Ok(lost)
    }

    /// Each file that is in a directory that this job has made, and has its name there.
    fn directory_again(
        &self,
        worker: &mut CopyWorker,
        source: &Arc<Directory>,
        mirror: &Arc<Mirror>,
        target: &Arc<OwnedFd>,
    ) -> Result<Vec<CString>, FileError> {
        let mut lost = Vec::new();
        let names = sys::names_of(target, usize::MAX);
        let names = names.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        for name in names {
            let at = Location::In(Arc::clone(source), name.clone());
            if self.waits_for_itself(worker, source, &name) {
                continue;
            }
            let to = Place { mirror, directory: Arc::clone(target), name: &name, slice: None };
            match self.file_again(worker, &at, &to, None) {
                Ok(false) => {}
                Ok(true) => lost.push(name),
                Err(error) => {
                    let _ = rustix::fs::unlinkat(target, &name, AtFlags::empty());
                    self.fail(worker, &at, error);
                    lost.push(name);
                }
            }
        }
        Ok(lost)
    }

    /// Whether a name is of something that is in a batch of its own, and not a name of the source.
    fn waits_for_itself(&self, worker: &mut CopyWorker, source: &Arc<Directory>, name: &CStr) -> bool {
        name.to_bytes().starts_with(PREFIX)
            && source
                .descriptor(&mut worker.held, self.features)
                .is_ok_and(|source| sys::stat_at(&source, name, false) == Err(Errno::NOENT))
    }

    /// One name; what is no file has no bytes, and is where its directory is. Whether it is another file than before. `version`: what
    /// its source was, if that is known.
    pub(crate) fn file_again(
        &self,
        worker: &mut CopyWorker,
        at: &Location,
        to: &Place<'_>,
        version: Option<&Version>,
    ) -> Result<bool, FileError> {
        let failed = |errno| FileError::new(Step::LookAtCopy, errno);
        let (target, name) = (&*to.directory, to.name);
        let found = sys::stat_at(target, name, false).map_err(failed)?;
        if found.kind() != Kind::File {
            return Ok(false);
        }
        let source = self.with_source(worker, at, |_, from| open(from))?;
        let before = settled(&source)?;
        let is_it = version
            .map_or_else(|| self.is_what_was_copied(&before, &found), |version| version.is_of(&before));
        if !is_it {
            return Err(FileError::Changed);
        }
        // Another name of it may be seen already.
        let is_another = found.nlink > 1;
        let file = match is_another {
            true => self.replace(worker, to)?,
            false => empty(target, name, &found, self.features)?,
        };
        self.bytes_again(worker, &source, &before, &file)?;
        worker.totals.mended += 1;
        self.syncs
            .timed(|| retry(|| rustix::fs::fsync(&file)))
            .map_err(|errno| FileError::new(Step::Sync, errno))?;
        if is_same(&before, &look(&source)?) { Ok(is_another) } else { Err(FileError::Changed) }
    }

    /// A new file in the place of a name that nobody sees.
    fn replace(&self, worker: &mut CopyWorker, to: &Place<'_>) -> Result<OwnedFd, FileError> {
        let failed = |errno| FileError::new(Step::Create, errno);
        match retry(|| rustix::fs::unlinkat(&to.directory, to.name, AtFlags::empty())) {
            // The answer to the first request was lost.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        worker.totals.not_kept.hard_links += 1;
        self.create_with(worker, to, to.name, None).map_err(failed)
    }

    fn bytes_again(
        &self,
        worker: &mut CopyWorker,
        source: &OwnedFd,
        metadata: &Metadata,
        file: &OwnedFd,
    ) -> Result<(), FileError> {
        let has_holes = may_have_holes(metadata);
        let way = Way { has_holes, size: metadata.size, hasher: None };
        let came = worker.mover.copy(source.as_fd(), file.as_fd(), 0..metadata.size, way)?;
        if came < metadata.size {
            return Err(FileError::Changed);
        }
        if has_holes {
            let cut = retry(|| rustix::fs::ftruncate(file, came));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        // Writing takes rights and capabilities away, and sets the time.
        let extended = self.extended(worker, source)?;
        give::give(file, metadata, &extended, self.manner(), &mut worker.totals.not_kept).map(drop)
    }

    /// Whether a source is still what its copy was made of, by what is left to tell. It was read only when it had been left alone
    /// for some ticks of the clock.
    fn is_what_was_copied(&self, source: &Metadata, copy: &Metadata) -> bool {
        let is_the_same = match self.options.keep.times {
            true => is_alike(source, copy, self.stores.granularity(copy.device)),
            false => source.size == copy.size,
        };
        source.kind() == Kind::File && is_the_same && source.ctime <= self.began
    }
}

/// A copy to be written once more, whatever mode it has been given, without any of the bytes that it has.
fn empty(
    directory: &OwnedFd,
    name: &CStr,
    found: &Metadata,
    features: Features,
) -> Result<OwnedFd, FileError> {
    let failed = |errno| FileError::new(Step::Write, errno);
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = || retry(|| rustix::fs::openat(directory, name, flags, Mode::empty()));
    let file = match open() {
        Err(Errno::ACCES) => {
            let named = sys::open_name_at(directory, name).map_err(failed)?;
            at::set_mode(&named, Mode::RUSR | Mode::WUSR, features).map_err(failed)?;
            open()
        }
        opened => opened,
    };
    let file = file.map_err(failed)?;
    let opened = sys::stat_descriptor(&file).map_err(failed)?;
    if opened.inode != found.inode {
        return Err(failed(Errno::STALE));
    }
    // Else the next one would tell of what was written the first time.
    let _ = retry(|| rustix::fs::fsync(&file));
    retry(|| rustix::fs::ftruncate(&file, 0)).map_err(failed)?;
    Ok(file)
}
