//! What is there already under the name of a copy: left as it is, mended, or written into. Without options it is replaced, and
//! nothing here has a part in it.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::target::file::Place;
use crate::copy::target::grants::Grant;
use crate::copy::target::special::read_link;
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::source::device;
use crate::file::source::{Source, look, open};
use crate::metadata::differences::{Changes, Wanted};
use crate::metadata::extended::Extended;
use crate::metadata::give;
use crate::metadata::granularity::Granularity;
use crate::metadata::keep::gives_rights;
use atta_sys::{self as sys, retry};

/// What is done where something is there under the name of a copy. Directories are merged whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    #[default]
    Replace,
    /// A file with the size and the time of change of its source keeps its bytes, and gets what else it is to have, unless that would
    /// give rights to bytes that somebody else may have written. A link or a special file that is what its copy would be is left.
    /// Everything else is replaced.
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
    ) -> Result<bool, FileError> {
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
            Existing::Update => self.is_named_left(worker, from, to, metadata),
        }
    }

    /// A file that has the bytes of its source already, as far as size and time tell; it has the rest, too, now. Counts it.
    pub(crate) fn mended(
        &self,
        worker: &mut CopyWorker,
        from: Source<'_>,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<Option<OwnedFd>, FileError> {
        let is_asked = self.options.existing == Existing::Update && !to.mirror.is_new();
        let is_alike =
            |from: &Metadata, there: &Metadata| is_alike(from, there, self.stores.granularity(there.device));
        // One that says that it is empty may have bytes: only reading it shows.
        let may_be = |there: Metadata| match metadata.size {
            0 => is_alike(metadata, &Metadata { size: 0, ..there }),
            _ => is_alike(metadata, &there),
        };
        if !is_asked || !there(to)?.is_some_and(may_be) {
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
        if !self.has_the_bytes(worker, (&source, &before), (&file, &there))? || !is_own {
            return Ok(None);
        }
        let counted = worker.totals.not_kept;
        let is_mended = self.mend(worker, to, (&source, &before), (&file, &there), false)?;
        if !is_mended {
            // It will be counted of the copy.
            worker.totals.not_kept = counted;
            return Ok(None);
        }
        worker.totals.skipped += 1;
        Ok(Some(file))
    }

    /// Whether a file may be taken for a copy: by size and time, and by its bytes where the size of the source says nothing.
    fn has_the_bytes(
        &self,
        worker: &mut CopyWorker,
        (source, before): (&OwnedFd, &Metadata),
        (file, there): (&OwnedFd, &Metadata),
    ) -> Result<bool, FileError> {
        let granularity = self.stores.granularity(there.device);
        if worker.mover.sizes.is_stated(source, before) {
            return Ok(is_alike(before, there, granularity));
        }
        let is_as_old = is_alike(before, &Metadata { size: before.size, ..*there }, granularity);
        Ok(is_as_old && worker.mover.is_same_to_end(source.as_fd(), file.as_fd())?)
    }

    /// Gives a file that was there what it has not of its source. Whether it may have that: else it is to be copied anew.
    /// `needs_times`: its times differ.
    pub(crate) fn mend(
        &self,
        worker: &mut CopyWorker,
        to: &Place<'_>,
        (source, from): (&OwnedFd, &Metadata),
        (file, there): (&OwnedFd, &Metadata),
        needs_times: bool,
    ) -> Result<bool, FileError> {
        let extended = self.extended(worker, source)?;
        let others = self.extended_there(worker, file)?;
        let needs_times = needs_times && self.options.keep.times;
        let wanted = Wanted { needs_times, ..self.wanted(from, &extended) };
        let mut changes = Changes::between(wanted, there, &others);
        if self.gives_rights(worker, to, &mut changes)? {
            return Ok(false);
        }
        if (changes.are_beside_owner() || needs_times) && !self.is_mine(there) {
            // Whoever may not change it may replace it.
            return Ok(false);
        }
        let mode = changes.whole_mode();
        let changed = match changes.apply(file, &mut worker.totals.not_kept) {
            Err(FileError::Failed(Step::SetMode, Errno::PERM))
                if !self.can_give(worker, to, Grant::Mode(mode.unwrap_or_default(), None), b"")? =>
            {
                worker.totals.not_kept.modes_and_times += 1;
                true
            }
            changed => changed?,
        };
        if changed && self.syncs_each() {
            let synced = self.syncs.timed(|| retry(|| rustix::fs::fsync(file)));
            synced.map_err(|errno| FileError::new(Step::Sync, errno))?;
        }
        Ok(true)
    }

    /// What an existing entry is to have; times aside.
    fn wanted<'w>(&'w self, from: &'w Metadata, extended: &'w Extended) -> Wanted<'w> {
        let keep = &self.options.keep;
        Wanted { from, extended, keep, is_old: true, own_mode: None, needs_times: false }
    }

    /// What extended attributes an existing file or directory has.
    pub(crate) fn extended_there(
        &self,
        worker: &mut CopyWorker,
        file: impl AsFd,
    ) -> Result<Extended, FileError> {
        let CopyWorker { room, totals, .. } = worker;
        let read = Extended::read(file, room, |name| self.options.keep.gives(name), &mut totals.not_kept);
        read.map_err(|errno| FileError::new(Step::SetExtended, errno))
    }

    /// Whether a file belongs to whom this process makes files for, or to anybody where that is root.
    fn is_mine(&self, there: &Metadata) -> bool {
        let own = self.stores.own_uid(there.device);
        own == Some(there.uid) || own == Some(0) && rustix::process::geteuid().is_root()
    }

    /// Whether changes would give rights: another owner, set-id bits, attributes that files are trusted by. Whoever owned a file, or
    /// has it open, may have written its bytes. What this process or this file system cannot give is no change, and is counted.
    fn gives_rights(
        &self,
        worker: &mut CopyWorker,
        to: &Place<'_>,
        changes: &mut Changes<'_>,
    ) -> Result<bool, FileError> {
        if let Some(owner) = changes.owner {
            if self.can_give(worker, to, Grant::Owner(owner), b"")? {
                return Ok(true);
            }
            (changes.owner, changes.is_refused) = (None, true);
        }
        if let Some(group) = changes.group
            && !self.can_give(worker, to, Grant::Group(group), b"")?
        {
            (changes.group, changes.is_refused) = (None, true);
        }
        worker.totals.not_kept.owners += u64::from(changes.is_refused);
        if changes.gained_bits() != 0 {
            let mode = changes.whole_mode().unwrap_or_default();
            if self.can_give(worker, to, Grant::Mode(mode, changes.wanted_group()), b"")? {
                return Ok(true);
            }
            changes.is_refused = true;
        }
        // A change of the group takes capabilities away.
        let lost = |name: &CStr| name == c"security.capability" && changes.group.is_some();
        for (name, value) in changes.given().filter(|(name, _)| gives_rights(name)) {
            let is_new = changes.set.pairs().iter().any(|(new, _)| new == name);
            if !is_new && !lost(name) {
                continue;
            }
            if self.can_give(worker, to, Grant::Attribute(name.clone()), value)? {
                return Ok(true);
            }
            worker.totals.not_kept.extended += 1;
        }
        changes.set = changes.set.select(|(name, _)| !gives_rights(name));
        Ok(false)
    }

    /// Whether a link or a special file that is there is what a copy would be; then it is counted.
    fn is_named_left(
        &self,
        worker: &mut CopyWorker,
        from: Source<'_>,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<bool, FileError> {
        let is_own = there(to)?.is_some_and(|there| there.kind() == metadata.kind() && there.nlink == 1);
        let copy = Source { directory: to.directory.as_fd(), name: to.name };
        Ok(is_own && self.is_copy_of(worker, (from, metadata), to, copy)?)
    }

    /// Whether a link or a special file of several names that is there is what a copy would be. Then it is counted, and has a name in
    /// the links' directory, where it was compared: what is there may be another one by now.
    pub(crate) fn is_named_left_as(
        &self,
        worker: &mut CopyWorker,
        (from, metadata): (Source<'_>, &Metadata),
        to: &Place<'_>,
        (known, key): (&OwnedFd, &CStr),
    ) -> Result<bool, FileError> {
        let is_asked = self.options.existing == Existing::Update && !to.mirror.is_new();
        if !is_asked || there(to)?.is_none_or(|there| there.kind() != metadata.kind()) {
            return Ok(false);
        }
        let none = AtFlags::empty();
        if retry(|| rustix::fs::linkat(&to.directory, to.name, known, key, none)).is_err() {
            return Ok(false);
        }
        let copy = Source { directory: known.as_fd(), name: key };
        let is_copy = self.is_copy_of(worker, (from, metadata), to, copy);
        if !matches!(is_copy, Ok(true)) {
            let _ = rustix::fs::unlinkat(known, key, none);
        }
        is_copy
    }

    fn is_copy_of(
        &self,
        worker: &mut CopyWorker,
        (from, metadata): (Source<'_>, &Metadata),
        to: &Place<'_>,
        copy: Source<'_>,
    ) -> Result<bool, FileError> {
        let failed = |errno| FileError::new(Step::LookAtCopy, errno);
        let there = sys::stat_at(copy.directory, copy.name, false).map_err(failed)?;
        let granularity = self.stores.granularity(there.device);
        if !is_alike_named((from, metadata), (copy, &there), self.options.keep.times.then_some(granularity))?
        {
            return Ok(false);
        }
        let counted = worker.totals.not_kept;
        let extended = self.extended_of_name(worker, from, metadata)?;
        let others = self.extended_of_name(worker, copy, &there)?;
        // A link's mode means nothing.
        let mode = if metadata.kind() == Kind::Symlink { there.mode } else { metadata.mode };
        let metadata = Metadata { mode, ..*metadata };
        let mut changes = Changes::between(self.wanted(&metadata, &extended), &there, &others);
        let is_copy = !self.gives_rights(worker, to, &mut changes)? && changes.are_none();
        if is_copy {
            worker.totals.skipped += 1;
        } else {
            worker.totals.not_kept = counted;
        }
        Ok(is_copy)
    }

    /// Whether a name is one of a copy already, which another name was found to be.
    pub(crate) fn is_linked(&self, known: &OwnedFd, key: &CStr, to: &Place<'_>) -> Result<bool, FileError> {
        if self.options.existing != Existing::Update || to.mirror.is_new() {
            return Ok(false);
        }
        let Some(there) = there(to)? else { return Ok(false) };
        let copy = sys::stat_at(known, key, false);
        Ok(copy.is_ok_and(|copy| (copy.device, copy.inode) == (there.device, there.inode)))
    }

    /// The file that is there, opened to be written into, and its mode. Nobody else can open it from here on until it gets its
    /// mode. None: it is to be replaced, since it is none, or another name's too, or not this user's to write and to close, or since
    /// somebody else may have it open and it is to get another owner, set-id bits or capabilities.
    pub(crate) fn in_place(
        &self,
        worker: &mut CopyWorker,
        source: BorrowedFd<'_>,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<Option<(OwnedFd, u32)>, FileError> {
        // Location what is there stays, it has turned up just now.
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
        if !self.keeps_rights(worker, (source, metadata), to, (&file, &there))? {
            return Ok(None);
        }
        let keep = &self.options.keep;
        // What the file's list lets its group do, if that is not to stay.
        let mode = if keep.lists { give::mode_without_list(&file, there.mode) } else { there.mode };
        if retry(|| rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)).is_err() {
            return Ok(None);
        }
        // Location the source has a hole there must be nothing.
        let has_holes = may_have_holes(metadata);
        let length = if has_holes { 0 } else { there.size.min(metadata.size) };
        if length < there.size {
            let cut = retry(|| rustix::fs::ftruncate(&file, length));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        Ok(Some((file, mode)))
    }

    /// Whether a file that is to be written into has its final owner and gets no set-id bits and no capabilities: writing takes
    /// those that it has away.
    fn keeps_rights(
        &self,
        worker: &mut CopyWorker,
        (source, from): (BorrowedFd<'_>, &Metadata),
        to: &Place<'_>,
        (file, there): (&OwnedFd, &Metadata),
    ) -> Result<bool, FileError> {
        let counted = worker.totals.not_kept;
        let extended = self.extended(worker, source)?;
        let others = self.extended_there(worker, file)?;
        let others = others.select(|(name, _)| name.as_c_str() != c"security.capability");
        let written = Metadata { mode: there.mode & !give::SET_ID, ..*there };
        let mut changes = Changes::between(self.wanted(from, &extended), &written, &others);
        let gives_rights = self.gives_rights(worker, to, &mut changes)?;
        worker.totals.not_kept = counted;
        let (owner, _) = self.options.keep.owners_of(from);
        let has_owner = owner.is_some_and(|owner| owner.as_raw() == there.uid);
        Ok(!gives_rights && (has_owner || self.stores.own_uid(there.device) == Some(there.uid)))
    }

    /// Gives a file that was written into what it is to have, and nothing beyond that. Whoever could open it before can again.
    pub(crate) fn settle(
        &self,
        worker: &mut CopyWorker,
        to: &Place<'_>,
        (source, from): (BorrowedFd<'_>, &Metadata),
        (file, was): (&OwnedFd, u32),
    ) -> Result<(), FileError> {
        let extended = self.extended(worker, source)?;
        let others = self.extended_there(worker, file)?;
        let needs_times = self.options.keep.times;
        let wanted = Wanted { own_mode: Some(was & 0o777), needs_times, ..self.wanted(from, &extended) };
        let mut changes = Changes::between(wanted, &look(file)?, &others);
        if self.gives_rights(worker, to, &mut changes)? {
            // It had none when it was opened.
            return Err(FileError::Changed);
        }
        changes.apply(file, &mut worker.totals.not_kept).map(drop)
    }
}

/// What has the name; none: nothing.
pub(crate) fn there(to: &Place<'_>) -> Result<Option<Metadata>, FileError> {
    match sys::stat_at(&to.directory, to.name, false) {
        Ok(there) => Ok(Some(there)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(FileError::new(Step::LookAtCopy, errno)),
    }
}

/// Whether the file that was found by a name has that name, and not one that is the same to a target that folds case.
fn is_spelled_so(to: &Place<'_>, identity: (u64, u64)) -> Result<bool, FileError> {
    let swapped: Vec<u8> = to.name.to_bytes().iter().map(|byte| swap_case(*byte)).collect();
    if swapped == to.name.to_bytes() {
        return Ok(true);
    }
    // It has one name, so only a directory that folds case finds it by another one.
    let folds = || {
        let swapped = CString::new(swapped).unwrap_or_default();
        sys::stat_at(&to.directory, &swapped, false)
            .is_ok_and(|found| (found.device, found.inode) == identity)
    };
    let failed = |errno| FileError::new(Step::LookAtCopy, errno);
    Ok(!*to.mirror.folds_case.get_or_init(folds) || sys::has_name(&to.directory, to.name).map_err(failed)?)
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte }
}

/// Whether a file may be taken for a copy: size and time of change are its source's, the latter as exact as the file system of the
/// copy keeps it.
pub(crate) fn is_alike(source: &Metadata, copy: &Metadata, granularity: Granularity) -> bool {
    copy.kind() == Kind::File && source.size == copy.size && granularity.is_kept(source.mtime, copy.mtime)
}

/// Whether a link leads where another one does, and a special file is the other one's kind and device; with the same time of change,
/// if that is kept.
pub(crate) fn is_alike_named(
    (from, source): (Source<'_>, &Metadata),
    (to, copy): (Source<'_>, &Metadata),
    granularity: Option<Granularity>,
) -> Result<bool, FileError> {
    let has_times = granularity.is_none_or(|granularity| granularity.is_kept(source.mtime, copy.mtime));
    if source.kind() != copy.kind() || !has_times {
        return Ok(false);
    }
    match source.kind() {
        Kind::Symlink => Ok(read_link(from)? == read_link(to)?),
        Kind::CharDevice | Kind::BlockDevice => Ok(device(from)? == device(to)?),
        kind => Ok(matches!(kind, Kind::Fifo | Kind::Socket)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Arc;

    use atta_entry::Timestamp;
    use atta_testkit::scratch::Scratch;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::{Copy, Options, Seat};
    use crate::tree::operation::Handler;

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
        let metadata = sys::stat_path(source.as_os_str().as_bytes(), false).unwrap();
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
            let mut worker = copying.worker(0);
            let opened = fs::File::open(&source).unwrap();
            let mirror = &copying.roots.find(&sources[0]).unwrap().parent;
            for name in [c"file", c"one", c"fifo", c"link", c"none"] {
                let to = Place { mirror, directory: Arc::clone(&copying.top), name, slice: None };
                let is_opened =
                    copying.in_place(&mut worker, opened.as_fd(), &to, &metadata).unwrap().is_some();
                assert_eq!(is_opened, written_into.contains(&name.to_str().unwrap()), "{name:?}");
            }
        }
    }

    #[test]
    fn a_copy_has_the_size_and_the_time_of_its_source() {
        let file = |size, seconds, nanoseconds| Metadata {
            mode: 0o100_644,
            size,
            mtime: Timestamp { seconds, nanoseconds },
            ..Metadata::default()
        };
        let source = file(5, 7, 123_456_789);
        let is_alike = |copy: &Metadata| is_alike(&source, copy, Granularity::EXACT);
        assert!(is_alike(&file(5, 7, 123_456_789)));
        for (size, seconds, nanoseconds) in
            [(6, 7, 123_456_789), (5, 8, 0), (5, 7, 1), (5, 7, 123_456_790), (5, 7, 123_456_000), (5, 7, 0)]
        {
            assert!(!is_alike(&file(size, seconds, nanoseconds)));
        }
        assert!(!is_alike(&Metadata { mode: 0o120_777, ..source }));
    }
}
