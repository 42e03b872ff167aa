//! What is there already under the name of a copy: left as it is, mended, or written into. Without options it is replaced, and
//! nothing here has a part in it.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

use super::attributes::{self, Extended, Manner};
use super::file::{Place, Source, look, open};
use super::handler::{CopyWorker, Copying};
use super::trouble::{Doing, Trouble};
use crate::walk::kernel::{self, retry};

/// What is done where something is there under the name of a copy. Directories are merged whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    #[default]
    Replace,
    /// A file with the size and the time of change of its source keeps its bytes, and gets what else it is to have; everything else
    /// is replaced.
    Update,
    /// It is left as it is.
    Ignore,
}

const OPENED: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl Copying<'_> {
    /// Whether there is nothing to be made, since what is there does; then it is counted.
    pub(crate) fn is_left(
        &self,
        worker: &mut CopyWorker,
        from: Source<'_>,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<bool, Trouble> {
        if to.mirror.is_new() {
            return Ok(false);
        }
        match self.options.existing {
            Existing::Replace => Ok(false),
            Existing::Ignore => {
                let is_there = there(to)?.is_some();
                worker.totals.skipped += u64::from(is_there);
                Ok(is_there)
            }
            // The other names of such a file must know.
            Existing::Update if metadata.nlink > 1 && self.options.keep.links => Ok(false),
            Existing::Update if metadata.kind() == Kind::File => {
                Ok(self.mended(worker, from, to, metadata)?.is_some())
            }
            Existing::Update => Ok(false),
        }
    }

    /// A file that has the bytes of its source already, as far as size and time tell; it has the rest, too, now. Counts it.
    pub(crate) fn mended(
        &self,
        worker: &mut CopyWorker,
        from: Source<'_>,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<Option<OwnedFd>, Trouble> {
        let is_asked = self.options.existing == Existing::Update && !to.mirror.is_new();
        if !is_asked || !there(to)?.is_some_and(|there| is_alike(metadata, &there)) {
            return Ok(None);
        }
        let source = open(from)?;
        let flags = OFlags::RDONLY | OPENED;
        let Ok(file) = retry(|| rustix::fs::openat(&to.directory, to.name, flags, Mode::empty())) else {
            // What cannot be opened can be replaced.
            return Ok(None);
        };
        let (before, there) = (look(&source)?, look(&file)?);
        // A file of its own must be no other one's.
        let is_own = there.nlink == 1 || before.nlink > 1 && self.options.keep.links;
        if !is_alike(&before, &there) || !is_own {
            return Ok(None);
        }
        let extended = self.extended(worker, &source)?;
        self.mend(worker, &file, &before, &there, &extended)?;
        worker.totals.skipped += 1;
        Ok(Some(file))
    }

    /// Gives a file that was there what it has not of its source.
    fn mend(
        &self,
        worker: &mut CopyWorker,
        file: &OwnedFd,
        from: &Metadata,
        there: &Metadata,
        extended: &Extended,
    ) -> Result<(), Trouble> {
        let keep = &self.options.keep;
        let CopyWorker { room, totals, .. } = worker;
        let differs = attributes::take_others(file, keep, extended, room, &mut totals.not_kept)?;
        let (owner, group) = keep.owners_of(from);
        let is_owned = owner.is_none_or(|owner| owner.as_raw() == there.uid)
            && group.is_none_or(|group| group.as_raw() == there.gid);
        let list = extended.access_list().filter(|_| !keep.lists);
        let mode = keep.mode_of(from, list, true);
        let has_mode = mode.is_none_or(|mode| mode == there.mode & 0o7777);
        if differs || !is_owned || !has_mode {
            let manner = Manner { keep, is_old: true };
            attributes::give(file, from, extended, manner, &mut totals.not_kept)?;
            if self.syncs_each() {
                let synced = self.syncs.timed(|| retry(|| rustix::fs::fsync(file)));
                synced.map_err(|errno| Trouble::new(Doing::Sync, errno))?;
            }
        }
        Ok(())
    }

    /// Whether a name is one of a copy already, which another name was found to be.
    pub(crate) fn is_linked(&self, known: &OwnedFd, key: &CStr, to: &Place<'_>) -> Result<bool, Trouble> {
        if self.options.existing != Existing::Update || to.mirror.is_new() {
            return Ok(false);
        }
        let Some(there) = there(to)? else { return Ok(false) };
        let copy = kernel::stat_at(known, key, false);
        Ok(copy.is_ok_and(|copy| (copy.device, copy.inode) == (there.device, there.inode)))
    }

    /// The file that is there, opened to be written into, and its mode. Nobody else can open it from here on until it gets its
    /// mode. None: it is to be replaced, since it is none, or another name's too, or not this user's to write and to close.
    pub(crate) fn in_place(
        &self,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<Option<(OwnedFd, u32)>, Trouble> {
        // Where what is there stays, it has turned up just now.
        if !self.options.in_place || to.mirror.is_new() || self.options.existing == Existing::Ignore {
            return Ok(None);
        }
        let identity = |of: &Metadata| (of.device, of.inode);
        let may_be = |there: &Metadata| {
            there.kind() == Kind::File && there.nlink == 1 && identity(there) != identity(metadata)
        };
        // To open something else may do something to it.
        let Some(named) = there(to)?.filter(may_be) else { return Ok(None) };
        if !is_spelled_so(to, identity(&named))? {
            return Ok(None);
        }
        let flags = OFlags::WRONLY | OPENED;
        let Ok(file) = retry(|| rustix::fs::openat(&to.directory, to.name, flags, Mode::empty())) else {
            return Ok(None);
        };
        let there = look(&file)?;
        if identity(&there) != identity(&named) || !may_be(&there) {
            return Ok(None);
        }
        let keep = &self.options.keep;
        // What the file's list lets its group do, if that is not to stay.
        let mode = if keep.lists { attributes::mode_without_list(&file, there.mode) } else { there.mode };
        if retry(|| rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)).is_err() {
            return Ok(None);
        }
        // Where the source has a hole there must be nothing.
        let has_holes = metadata.allocated_bytes() < metadata.size;
        let length = if has_holes { 0 } else { there.size.min(metadata.size) };
        if length < there.size {
            let cut = retry(|| rustix::fs::ftruncate(&file, length));
            cut.map_err(|errno| Trouble::new(Doing::Write, errno))?;
        }
        Ok(Some((file, mode)))
    }

    /// Takes from a file that was written into what its source has not. Whoever could open it before can again.
    pub(crate) fn settle(
        &self,
        worker: &mut CopyWorker,
        file: &OwnedFd,
        was: u32,
        extended: &Extended,
        has_list: bool,
    ) -> Result<(), Trouble> {
        let keep = &self.options.keep;
        let CopyWorker { room, totals, .. } = worker;
        attributes::take_others(file, keep, extended, room, &mut totals.not_kept)?;
        // A list that came along holds the permissions.
        if keep.mode || has_list {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(was & 0o777);
        retry(|| rustix::fs::fchmod(file.as_fd(), mode)).map_err(|errno| Trouble::new(Doing::SetMode, errno))
    }
}

/// What has the name; none: nothing.
fn there(to: &Place<'_>) -> Result<Option<Metadata>, Trouble> {
    match kernel::stat_at(&to.directory, to.name, false) {
        Ok(there) => Ok(Some(there)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Trouble::new(Doing::LookAtCopy, errno)),
    }
}

/// Whether the file that was found by a name has that name, and not one that is the same to a target that folds case.
fn is_spelled_so(to: &Place<'_>, identity: (u64, u64)) -> Result<bool, Trouble> {
    let swapped: Vec<u8> = to.name.to_bytes().iter().map(|byte| swap_case(*byte)).collect();
    if swapped == to.name.to_bytes() {
        return Ok(true);
    }
    // It has one name, so only a directory that folds case finds it by another one.
    let folds = || {
        let swapped = CString::new(swapped).unwrap_or_default();
        kernel::stat_at(&to.directory, &swapped, false)
            .is_ok_and(|found| (found.device, found.inode) == identity)
    };
    let failed = |errno| Trouble::new(Doing::LookAtCopy, errno);
    Ok(!*to.mirror.folds_case.get_or_init(folds)
        || kernel::has_name(&to.directory, to.name).map_err(failed)?)
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte }
}

/// Whether a file may be taken for a copy: size and time of change are its source's, the latter as exact as the file system of the
/// copy keeps it.
pub(crate) fn is_alike(source: &Metadata, copy: &Metadata) -> bool {
    /// Nanoseconds in what file systems count: 1, 100, a microsecond, a second.
    const UNITS: [u32; 4] = [1, 100, 1_000, 1_000_000_000];
    let nanoseconds = source.mtime.nanoseconds;
    copy.kind() == Kind::File
        && (source.size, source.mtime.seconds) == (copy.size, copy.mtime.seconds)
        && UNITS.iter().any(|unit| nanoseconds - nanoseconds % unit == copy.mtime.nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Arc;

    use atta_entry::Timestamp;
    use atta_testkit::scratch::Scratch;

    use super::super::nothing_fails::NothingFails;
    use super::super::{Copy, Options, Seat};
    use super::*;

    #[test]
    fn only_a_file_of_one_name_is_written_into_and_not_where_what_is_there_stays() {
        let scratch = Scratch::new("in-place").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::create_dir(&target).unwrap();
        fs::write(&source, "source").unwrap();
        for name in ["file", "one"] {
            fs::write(target.join(name), "there").unwrap();
        }
        fs::hard_link(target.join("one"), target.join("two")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, target.join("fifo"), fifo, Mode::RUSR, 0).unwrap();
        std::os::unix::fs::symlink("file", target.join("link")).unwrap();
        let metadata = kernel::stat_path(source.as_os_str().as_bytes(), false).unwrap();
        for (existing, written_into) in [(Existing::Replace, &["file"][..]), (Existing::Ignore, &[])] {
            let sources = [source.as_os_str().as_bytes().to_vec()];
            let options = Options { in_place: true, existing, ..Options::default() };
            let prepared = Copy::prepare(
                &sources,
                target.as_os_str().as_bytes(),
                &options,
                &NothingFails,
                Seat::alone(),
            );
            let Copy { copying, .. } = prepared.unwrap();
            let mirror = &copying.roots.find(&sources[0]).unwrap().parent;
            for name in [c"file", c"one", c"fifo", c"link", c"none"] {
                let to = Place { mirror, directory: Arc::clone(&copying.top), name };
                let is_opened = copying.in_place(&to, &metadata).unwrap().is_some();
                assert_eq!(is_opened, written_into.contains(&name.to_str().unwrap()), "{name:?}");
            }
        }
    }

    #[test]
    fn a_copy_is_told_by_size_and_time_as_its_file_system_keeps_it() {
        let file = |size, seconds, nanoseconds| Metadata {
            mode: 0o100_644,
            size,
            mtime: Timestamp { seconds, nanoseconds },
            ..Metadata::default()
        };
        let source = file(5, 7, 123_456_789);
        for nanoseconds in [123_456_789, 123_456_700, 123_456_000, 0] {
            assert!(is_alike(&source, &file(5, 7, nanoseconds)), "{nanoseconds}");
        }
        for (size, seconds, nanoseconds) in [(6, 7, 123_456_789), (5, 8, 0), (5, 7, 1), (5, 7, 123_456_790)] {
            assert!(!is_alike(&source, &file(size, seconds, nanoseconds)));
        }
        assert!(!is_alike(&source, &Metadata { mode: 0o120_777, ..source }));
    }
}
