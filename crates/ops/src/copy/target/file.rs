//! Copies one regular file as a whole: open, bytes, attributes, and proof that the source did not change meanwhile. The file gets its
//! final name here only if its directory is not yet visible; otherwise see `commit/publish.rs`.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use atta_entry::{Errno, Kind, Metadata, Timestamp};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode};

use crate::copy::commit::durable::SyncRule;
use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::target::mirror::Mirror;
use crate::copy::target::mirror::{CurrentSlice, Part};
use crate::copy::target::spelling::refuse_taken;
use crate::digest::{HOLE_BYTES_MAX, Hash, Piece};
use crate::file::direct::bypass_cache;
use crate::file::error::{FileError, Step};
use crate::file::holes::{self, may_have_holes};
use crate::file::mover::Way;
use crate::file::retries::{ask_close, close};
use crate::file::source::Identity;
use crate::file::source::Source;
use crate::file::source::TRIES;
use crate::file::source::identity_of;
use crate::file::source::is_same;
use crate::file::source::look;
use crate::file::source::open;
use crate::file::source::settled;
use crate::file::version::Version;
use crate::metadata::extended::Extended;
use crate::metadata::give::{self, Manner};
use atta_sys::{self as sys, retry};

/// A name in the target.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) mirror: &'a Arc<Mirror>,
    pub(crate) directory: Arc<OwnedFd>,
    pub(crate) name: &'a CStr,
    /// The slice of the source directory that it belongs to, if known.
    pub(crate) slice: Option<&'a CurrentSlice<'a>>,
}

impl<'a> Place<'a> {
    /// The same place, in this slice.
    pub(crate) fn within(self, slice: Option<&'a CurrentSlice<'a>>) -> Self {
        Self { slice, ..self }
    }

    /// Whether the entry gets its final name at once: its directory stays invisible until this slice has been looked at.
    pub(crate) fn is_direct(&self) -> bool {
        self.slice.is_some_and(CurrentSlice::is_whole)
            && self.mirror.is_new()
            && self.mirror.target.alias().is_some()
    }

    /// A part of its slice that ends elsewhere.
    pub(crate) fn part(&self) -> Option<Part> {
        self.slice.map(CurrentSlice::part)
    }

    /// A part that keeps the names of its slice from counting as all looked at.
    pub(crate) fn part_of_names(&self) -> Option<Part> {
        self.slice.map(CurrentSlice::part_of_names)
    }
}

/// An entry that exists as a whole.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Its temporary name, if it does not have its final name.
    pub(crate) temporary: Option<CString>,
    pub(crate) bytes: u64,
    /// How long the copy took.
    pub(crate) elapsed: std::time::Duration,
    pub(crate) digest: Option<Hash>,
    /// Target of the link, if the entry is a symbolic link.
    pub(crate) target: Option<Vec<u8>>,
    /// The open copy, and device and inode of its source. For making links if it has several names, or for emptying a failed in-place
    /// copy.
    pub(crate) file: Option<(OwnedFd, (u64, u64))>,
    /// The version of its source, if the copy is to be read back.
    pub(crate) version: Option<Version>,
    /// The open copy and the version of its source, if it is synced individually before it gets its final name.
    pub(crate) unsynced: Option<(OwnedFd, Version)>,
    /// The access time it was given, if it is to be read back.
    pub(crate) atime: Option<Timestamp>,
    /// Whether it is another name of a copy that was made before.
    pub(crate) is_link: bool,
    /// Its identity, if it has a temporary name. It reveals a rename whose reply was lost.
    pub(crate) identity: Option<Identity>,
    /// The previous mode of a file that was written in place.
    pub(crate) in_place: Option<u32>,
    /// Number of failed syncs when the copy was started; for a link, when the linked copy was started.
    pub(crate) since: u64,
}

impl Made {
    pub(crate) fn temporary(name: CString) -> Self {
        Self { temporary: Some(name), ..Self::default() }
    }
}

/// How many new names to try if the server reports each of them as taken.
pub(crate) const NAMES_TRIED: u32 = 4;
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
                let layout = self.layout_of(source, metadata);
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
                let manner = self.manner();
                give::give(file, metadata, &extended, manner, &mut worker.totals.not_kept)?;
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
        let way = Way { has_holes, size: metadata.size, hasher: hasher.as_mut() };
        made.bytes = worker.mover.copy(source, file.as_fd(), 0..metadata.size, way)?;
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

/// Empties an in-place copy that failed.
///
/// A later run must not take it for a copy by its size and time. A second attempt must not write over pages that a sync failed to write.
fn spoil(file: &OwnedFd) {
    let _ = retry(|| rustix::fs::ftruncate(file, 0));
    let _ = retry(|| rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR));
}

/// Removes a new entry, or empties it if it was written in place.
pub(crate) fn remove(to: &Place<'_>, made: &Made) {
    if made.in_place.is_some() {
        // The previous content is already gone.
        return made.file.iter().for_each(|(file, _)| spoil(file));
    }
    let name = made.temporary.as_deref().unwrap_or(to.name);
    // A file that cannot be removed has a temporary name that shows its origin, or is in a directory that is not visible.
    let _ = rustix::fs::unlinkat(&to.directory, name, AtFlags::empty());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::target::mirror::Shared;
    use crate::jobs::names::Namer;
    use crate::tree::directory::Directory;
    use crate::tree::slice::Extent;

    #[test]
    fn files_of_a_new_directory_get_final_names() {
        let opened: Arc<OwnedFd> = Arc::new(std::fs::File::open("/").unwrap().into());
        let place = sys::Place { device: 1, inode: 1, mount: 1 };
        let source = Directory::root(c"/from".into(), 0, Arc::clone(&opened), place);
        let target = Directory::root(c"/to".into(), 0, Arc::clone(&opened), place);
        source.set_state(Mirror::new(target, &Shared::new(Namer::new(1))));
        let directory = Arc::new(Directory::below(&source, c"new", None));
        let mirror = Mirror::of(&directory).unwrap();
        let is_direct = |slice: Option<&CurrentSlice<'_>>| {
            let directory = Arc::clone(&opened);
            Place { mirror: &mirror, directory, name: c"file", slice }.is_direct()
        };
        let whole = CurrentSlice::new(&directory, Extent::Whole);
        assert!(!is_direct(Some(&whole)), "it may have been there");
        mirror.set_new(0);
        assert!(is_direct(Some(&whole)));
        let (batch, part) = (whole.batch(), whole.part());
        assert!(is_direct(Some(&CurrentSlice::of_batch(&batch))), "also on another thread");
        assert!(!is_direct(Some(&CurrentSlice::of_part(&part))), "the directory may have its name by then");
        assert!(
            !is_direct(Some(&CurrentSlice::new(&directory, Extent::First))),
            "nobody waits for the other slices"
        );
        assert!(!is_direct(None));
        mirror.target.end_alias();
        assert!(!is_direct(Some(&whole)), "it has its name");
    }
}
