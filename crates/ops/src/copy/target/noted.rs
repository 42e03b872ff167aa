//! Notes what the target has, with the digests that the copy computes, as rows of a manifest. A row is noted when its entry has been made,
//! and reported when the slice of the entry has ended. It writes no file and sorts nothing.
//!
//! An entry that fails after it was noted, such as one that cannot get its final name, is noted as failed as well.

use atta_entry::{Errno, Kind};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};

use crate::copy::failures::target_path;
use crate::copy::results::manifest::{Kept, ManifestRow};
use crate::copy::target::Maker;
use crate::copy::target::mirror::{Location, Mirror};
use crate::copy::target::place::{Made, OpenFile, Place};
use crate::digest::{Hash, Piece};
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::mover::Pass;
use crate::file::source::{TRIES, is_same, look, settled};
use crate::tree::directory::Directory;
use atta_sys::{self as sys, retry};

impl Maker<'_> {
    /// Notes an entry that was made, or that was already what it becomes.
    pub(crate) fn note(&mut self, to: &Place<'_>, kind: Kind, made: &Made) -> Result<(), FileError> {
        if self.target.options.manifest.is_none() {
            return Ok(());
        }
        if kind == Kind::File && made.digest.is_none() && made.is_link && made.temporary.is_none() {
            // It may have been a link of the copy before.
            return self.note_left(to).map(drop);
        }
        let element = made.element(b"", kind);
        let digest = element.digest.map(|digest| *digest.as_bytes());
        let (path, target) = (to.mirror.path_of(to.name), made.target.clone());
        let row = ManifestRow { path, kind, size: element.size, digest, target, is_failed: false };
        self.results.rows.push(row);
        Ok(())
    }

    /// Notes a directory that was made, although no entry of the sources was passed for it.
    pub(crate) fn note_directory(&mut self, directory: &Directory) {
        if self.target.options.manifest.is_some() {
            let mut path = Vec::new();
            directory.path_into(&mut path);
            let (kind, digest, target) = (Kind::Directory, None, None);
            self.results.rows.push(ManifestRow { path, kind, size: 0, digest, target, is_failed: false });
        }
    }

    /// Notes an entry that is left as it is. Returns its digest, if it was read.
    pub(crate) fn note_left(&mut self, to: &Place<'_>) -> Result<Option<Hash>, FileError> {
        let Some(kept) = self.target.options.manifest else { return Ok(None) };
        let failed = |errno| FileError::new(Step::LookAtCopy, errno);
        let found = sys::stat_at(&to.directory, to.name, false).map_err(failed)?;
        let (path, kind) = (to.mirror.path_of(to.name), found.kind());
        let mut row = ManifestRow { path, kind, size: 0, digest: None, target: None, is_failed: false };
        match kind {
            Kind::File if kept == Kept::Read => (row.size, row.digest) = self.digest_left(to)?,
            Kind::File => row.size = found.size,
            Kind::Symlink => {
                row.target = Some(sys::read_link_at(&*to.directory, to.name).map_err(failed)?);
            }
            _ => {}
        }
        let digest = row.digest.map(Hash::from_bytes);
        self.results.rows.push(row);
        Ok(digest)
    }

    /// Notes that a directory did not get its name: nothing below it counts either.
    pub(crate) fn note_lost(&mut self, directory: &Directory) {
        if self.target.options.manifest.is_some() {
            self.note_directory(directory);
            self.results.rows.last_mut().into_iter().for_each(|row| row.is_failed = true);
        }
    }

    /// Notes that an entry failed.
    pub(crate) fn note_failed(&mut self, at: &Location) {
        if self.target.options.manifest.is_none() {
            return;
        }
        if let Location::Itself(source) = at
            && let Some(mirror) = Mirror::of(source).filter(|mirror| mirror.is_foreign())
        {
            return self.note_lost(&mirror.target);
        }
        if let Some(path) = target_path(at, &self.target.roots) {
            let (kind, digest, target) = (Kind::Unknown, None, None);
            self.results.rows.push(ManifestRow { path, kind, size: 0, digest, target, is_failed: true });
        }
    }

    /// Reads a file of the target. Returns its size and digest.
    fn digest_left(&mut self, to: &Place<'_>) -> Result<(u64, Option<[u8; 32]>), FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = retry(|| rustix::fs::openat(&to.directory, to.name, flags, Mode::empty()));
        let file = file.map_err(failed)?;
        for _ in 0..TRIES {
            let before = settled(&file)?;
            if before.kind() != Kind::File {
                return Err(failed(Errno::STALE));
            }
            if !self.target.data.is_hashed(OpenFile::new(&file, &before))? {
                return Ok((before.size, None));
            }
            let has_holes = may_have_holes(&before);
            let mut piece = Piece::at(0);
            let (size, hasher) = (before.size, Some(&mut piece));
            let pass = Pass { source: file.as_fd(), target: None, has_holes, size, hasher };
            let read = self.scratch.mover.pass(pass, 0..size)?;
            if read == size && is_same(&before, &look(&file)?) {
                return Ok((size, Some(*piece.digest().as_bytes())));
            }
        }
        Err(FileError::Changed)
    }
}
