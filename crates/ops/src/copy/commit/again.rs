//! Rewrites files that a failed sync has left in doubt. The kernel does not report which files are lost, and a second sync would succeed.
//! So each file begun before the failure is truncated while it is not visible yet, written again from its source, and synced with its own
//! `fsync`. If that fails, the file is removed and the failure reported.
//!
//! The file is truncated because a file system need not write data to disk that overwrites bytes it failed to write: ext4 forgets that
//! their blocks count as zeros until they are written.
//!
//! ```text
//!   a batch ─▶ syncfs fails ─▶ each file of it, and each in a new directory of it: unchanged since? ─▶ written, synced ─▶ renamed
//!                                                  └─ no, or its own sync fails ─▶ removed, reported
//! ```
//!
//! A large file whose chunks are in the log of a job is written again in a new file, which then replaces it: a run that is killed meanwhile leaves the old
//! one, of which the log says which chunks are on storage. So is a file with its final name in a directory that is not visible yet: its slice may be done.
//!
//! It does not sync file systems: see `publish.rs`.

use std::ffi::CStr;
use std::sync::Arc;

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::commit::Committer;
use crate::copy::commit::batch::{Ready, Rewritten};
use crate::copy::target::existing::is_alike;
use crate::copy::target::mirror::{Location, Mirror, SourceDirectory};
use crate::copy::target::place::{OpenFile, Place};
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::mover::Pass;
use crate::file::source::{is_same, look, open, settled};
use crate::file::version::Version;
use crate::jobs::names::PREFIX;
use crate::metadata::give::{self, SourceAttributes};
use atta_sys::at;
use atta_sys::{self as sys, Features, retry};

impl Committer<'_> {
    /// Makes data durable although a sync of it failed.
    ///
    /// # Errors
    /// All of the data is lost.
    pub(crate) fn write_again(&mut self, ready: &Ready) -> Result<Rewritten, FileError> {
        let target = ready.mirror.target.descriptor(&mut self.maker.scratch.held, self.maker.target.features);
        let target = target.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        let rewritten = match (&ready.names, &ready.origin) {
            (Some((temporary, name)), origin) => {
                let (mirror, directory) = (&ready.mirror, Arc::clone(&target));
                let to = Place { mirror, directory, name: temporary, slice: None };
                let inode = match ready.has_noted_chunks {
                    true => Some(self.file_beside(origin, &to, None)?),
                    false => self.file_again(origin, &to, None)?,
                };
                inode.map(|inode| (name.clone(), Some(inode))).into_iter().collect()
            }
            (None, Location::Itself(source)) => self.directory_again(source, &ready.mirror, &target)?,
            // Nothing was written into it.
            (None, _) => Vec::new(),
        };
        retry(|| rustix::fs::fsync(&target)).map_err(|errno| FileError::new(Step::Sync, errno))?;
        Ok(rewritten)
    }

    /// Rewrites each file with its final name in a directory that this job has made.
    fn directory_again(
        &mut self,
        source: &Arc<SourceDirectory>,
        mirror: &Arc<Mirror>,
        target: &Arc<OwnedFd>,
    ) -> Result<Rewritten, FileError> {
        let mut rewritten = Rewritten::new();
        let names = sys::names_of(target, usize::MAX);
        let names = names.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        for name in names {
            let at = Location::In(Arc::clone(source), name.clone());
            if self.waits_for_itself(source, &name) {
                continue;
            }
            let to = Place { mirror, directory: Arc::clone(target), name: &name, slice: None };
            match self.named_file_again(&at, &to) {
                Ok(None) => {}
                Ok(inode) => rewritten.push((name, inode)),
                Err(error) => {
                    let _ = rustix::fs::unlinkat(target, &name, AtFlags::empty());
                    self.maker.fail(&at, error);
                    rewritten.push((name, None));
                }
            }
        }
        Ok(rewritten)
    }

    /// Whether a name belongs to an entry in a batch of its own, and is not a name of the source.
    fn waits_for_itself(&mut self, source: &Arc<SourceDirectory>, name: &CStr) -> bool {
        name.to_bytes().starts_with(PREFIX)
            && source
                .descriptor(&mut self.maker.scratch.held, self.maker.target.features)
                .is_ok_and(|source| sys::stat_at(&source, name, false) == Err(Errno::NOENT))
    }

    /// Rewrites a file that has its final name. With a log the old one stays until the new one is whole: the log may say that it is done. Returns the inode of
    /// the file if it is another one than before.
    fn named_file_again(&mut self, at: &Location, to: &Place<'_>) -> Result<Option<u64>, FileError> {
        let is_logged = self.commit.noting.is_some();
        let found = is_logged.then(|| sys::stat_at(&to.directory, to.name, false).ok()).flatten();
        match found.is_some_and(|found| found.kind() == Kind::File && found.nlink == 1) {
            true => self.file_beside(at, to, None).map(Some),
            false => self.file_again(at, to, None),
        }
    }

    /// Rewrites one name. Entries other than regular files have no bytes of their own and are synced with their directory. Returns
    /// the inode of the file if it is another one than before. `version`: the version of its source, if known.
    pub(crate) fn file_again(
        &mut self,
        at: &Location,
        to: &Place<'_>,
        version: Option<&Version>,
    ) -> Result<Option<u64>, FileError> {
        let (target, name) = (&*to.directory, to.name);
        let found = sys::stat_at(target, name, false);
        let found = found.map_err(|errno| FileError::new(Step::LookAtCopy, errno))?;
        if found.kind() != Kind::File {
            return Ok(None);
        }
        let (source, before) = self.unchanged_source(at, &found, version)?;
        // Another name of the file may be visible already.
        let is_another = found.nlink > 1;
        let file = match is_another {
            true => self.replace(to)?,
            false => empty(target, name, &found, self.maker.target.features)?,
        };
        self.write_and_sync((&source, &before), &file)?;
        if is_another { inode_of(&file).map(Some) } else { Ok(None) }
    }

    /// Rewrites one file as a new one, which then gets its name. Returns its inode.
    pub(crate) fn file_beside(
        &mut self,
        at: &Location,
        to: &Place<'_>,
        version: Option<&Version>,
    ) -> Result<u64, FileError> {
        let found = sys::stat_at(&to.directory, to.name, false);
        let found = found.map_err(|errno| FileError::new(Step::LookAtCopy, errno))?;
        let (source, before) = self.unchanged_source(at, &found, version)?;
        let (file, beside) = self.maker.create_temporary(to, None)?;
        let written = self.write_and_sync((&source, &before), &file).and_then(|()| {
            let inode = inode_of(&file)?;
            let renamed = retry(|| rustix::fs::renameat(&to.directory, &beside, &to.directory, to.name));
            renamed.map(|()| inode).map_err(|errno| FileError::new(Step::Rename, errno))
        });
        written.inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&to.directory, &beside, AtFlags::empty());
        })
    }

    /// Opens the source of a copy, if it is what was copied.
    fn unchanged_source(
        &mut self,
        at: &Location,
        copy: &Metadata,
        version: Option<&Version>,
    ) -> Result<(OwnedFd, Metadata), FileError> {
        let source = self.maker.with_source(at, |_, from| open(from))?;
        let before = settled(&source)?;
        let is_it = version
            .map_or_else(|| self.is_what_was_copied(&before, copy), |version| version.is_of_source(&before));
        if is_it { Ok((source, before)) } else { Err(FileError::Changed) }
    }

    fn write_and_sync(
        &mut self,
        (source, before): (&OwnedFd, &Metadata),
        file: &OwnedFd,
    ) -> Result<(), FileError> {
        self.bytes_again(OpenFile::new(source, before), file)?;
        self.maker.results.totals.mended += 1;
        self.stores().sync_file(file).map_err(|errno| FileError::new(Step::Sync, errno))?;
        if is_same(before, &look(source)?) { Ok(()) } else { Err(FileError::Changed) }
    }

    /// Creates a new file under a name that is not visible yet.
    fn replace(&mut self, to: &Place<'_>) -> Result<OwnedFd, FileError> {
        let failed = |errno| FileError::new(Step::Create, errno);
        match retry(|| rustix::fs::unlinkat(&to.directory, to.name, AtFlags::empty())) {
            // The reply to the first request was lost.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        self.maker.results.totals.not_kept.hard_links += 1;
        self.maker.create_with(to, to.name, None).map_err(failed)
    }

    fn bytes_again(&mut self, source: OpenFile<'_>, file: &OwnedFd) -> Result<(), FileError> {
        let OpenFile { file: source, metadata } = source;
        let has_holes = may_have_holes(metadata);
        let pass = Pass { source, target: Some(file.as_fd()), has_holes, size: metadata.size, hasher: None };
        let written = self.maker.scratch.mover.pass(pass, 0..metadata.size)?;
        if written < metadata.size {
            return Err(FileError::Changed);
        }
        if has_holes {
            let cut = retry(|| rustix::fs::ftruncate(file, written));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        // Writing clears set-id bits and capabilities, and sets the modification time.
        let extended = self.maker.extended(source)?;
        let attributes = SourceAttributes { metadata, extended: &extended };
        give::give(file, attributes, self.maker.target.manner(), &mut self.maker.results.totals.not_kept)
            .map(drop)
    }

    /// Whether a source is unchanged since its copy, as far as its metadata show. The source was read only after it had been unchanged
    /// for some clock ticks.
    fn is_what_was_copied(&self, source: &Metadata, copy: &Metadata) -> bool {
        let is_the_same = match self.maker.target.options.keep.times {
            true => is_alike(source, copy, self.stores().granularity(copy.device)),
            false => source.size == copy.size,
        };
        source.kind() == Kind::File && is_the_same && source.ctime <= self.commit.began
    }
}

fn inode_of(file: &OwnedFd) -> Result<u64, FileError> {
    let found = sys::stat_descriptor(file).map_err(|errno| FileError::new(Step::LookAtCopy, errno))?;
    Ok(found.inode)
}

/// Opens a copy and truncates it to rewrite it, whatever its mode.
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
    // Otherwise the next `fsync` would report errors of the first write.
    let _ = retry(|| rustix::fs::fsync(&file));
    retry(|| rustix::fs::ftruncate(&file, 0)).map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a directory of the test's own")]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use atta_ledger::Key;
    use atta_testkit::scratch::Scratch;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::Options;
    use crate::copy::{Copy, CopyLog, Results, Seat};
    use crate::tree::journal::Journal;
    use crate::tree::operation::Handler as _;

    /// A log without a place.
    struct NoPlace;

    impl CopyLog for NoPlace {
        fn write(&self) {}

        fn is_kept(&self) -> bool {
            true
        }
    }

    /// With a log, a run that is killed meanwhile must find the old file: its slice may be done.
    #[test]
    fn named_file_is_replaced_if_there_is_a_log() {
        let scratch = Scratch::new("again-named").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::write(&source, "the bytes").unwrap();
        // The copy must begin later than that.
        settled(&fs::File::open(&source).unwrap().into()).unwrap();
        let sources = [source.as_os_str().as_bytes().to_vec()];
        let (options, target) = (Options::default(), target.as_os_str().as_bytes());
        let journal = Journal::new(Key::of_job(&[1; 16]), 1, 0);
        for is_logged in [false, true] {
            let copy = Copy::prepare(&sources, target, &options, &NothingFails, Seat::alone()).unwrap();
            let copy = if is_logged { copy.logged(&journal, &NoPlace, Results::default()) } else { copy };
            let (operation, mut worker) = (&copy.operation, copy.operation.worker(0));
            let root = operation.target.roots.find(&sources[0]).unwrap();
            let mut committer = operation.committer(&mut worker);
            let to = committer.maker.place(&root.parent, &root.name).unwrap();
            let path = scratch.join("target");
            fs::write(&path, "torn one?").unwrap();
            let time = fs::metadata(&source).unwrap().modified().unwrap();
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            let before = fs::metadata(&path).unwrap().ino();
            let another = committer.named_file_again(&Location::Root(sources[0].clone()), &to).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "the bytes");
            let inode = fs::metadata(&path).unwrap().ino();
            assert_eq!((another, inode != before), (is_logged.then_some(inode), is_logged));
            fs::remove_file(&path).unwrap();
        }
    }

    /// A run that is killed meanwhile must find the old file: its chunks may be in a log.
    #[test]
    fn file_beside_replaces_the_old_one_when_it_is_whole() {
        let scratch = Scratch::new("again-beside").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::write(&source, "the bytes").unwrap();
        let sources = [source.as_os_str().as_bytes().to_vec()];
        let options = Options::default();
        let target = target.as_os_str().as_bytes();
        let copy = Copy::prepare(&sources, target, &options, &NothingFails, Seat::alone()).unwrap();
        let (operation, mut worker) = (&copy.operation, copy.operation.worker(0));
        let root = operation.target.roots.find(&sources[0]).unwrap();
        let at = Location::Root(sources[0].clone());
        let mut committer = operation.committer(&mut worker);
        let to = committer.maker.place(&root.parent, &root.name).unwrap();
        let (_, old) = committer.maker.create_temporary(&to, None).unwrap();
        let path = scratch.join(old.to_str().unwrap());
        fs::write(&path, "torn one?").unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        let version = Version::of_copy(&sys::stat_path(&sources[0], false).unwrap(), before);
        let to = Place { name: &old, ..to };
        committer.file_beside(&at, &to, Some(&version)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "the bytes");
        assert_ne!(fs::metadata(&path).unwrap().ino(), before);
        // A source that has changed since replaces nothing, and leaves nothing.
        fs::write(&path, "torn two?").unwrap();
        fs::write(&source, "other bytes").unwrap();
        assert_eq!(committer.file_beside(&at, &to, Some(&version)), Err(FileError::Changed));
        assert_eq!(fs::read_to_string(&path).unwrap(), "torn two?");
        let names: Vec<_> =
            fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        // The source, the private directory, and the copy.
        assert_eq!(names.len(), 3, "{names:?}");
    }
}
