//! Entries that already exist under the name of a copy: kept, repaired, or written in place. Without options they are replaced, and this
//! file is not involved.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::options::Existing;
use crate::copy::target::grants::Grant;
use crate::copy::target::place::{Item, OpenFile, Pair, Place};
use crate::copy::target::special::read_link;
use crate::copy::target::{Maker, Target};
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::source::{Source, device, look, open};
use crate::metadata::differences::{Changes, Wanted};
use crate::metadata::extended::Extended;
use crate::metadata::give;
use crate::metadata::granularity::Granularity;
use atta_sys::{self as sys, retry};

const OPENED: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl Maker<'_> {
    /// Whether the existing entry is kept, so that nothing is made. If so, counts it.
    pub(crate) fn is_left(&mut self, item: Item<'_>) -> Result<bool, FileError> {
        let Item { to, metadata, .. } = item;
        if to.mirror.is_new() {
            return Ok(false);
        }
        match self.target.options.existing {
            Existing::Replace => Ok(false),
            Existing::Ignore => {
                let is_there = there(to)?.is_some();
                self.results.totals.skipped += u64::from(is_there);
                Ok(is_there)
            }
            // Files with several names are handled with their links.
            Existing::Update if metadata.nlink > 1 && self.target.options.keep.links => Ok(false),
            Existing::Update if metadata.kind() == Kind::File => Ok(self.mended(item)?.is_some()),
            Existing::Update => self.is_named_left(item),
        }
    }

    /// Returns a file that already has the bytes of its source, judged by size and time, after setting its other attributes. Counts it.
    pub(crate) fn mended(&mut self, item: Item<'_>) -> Result<Option<OwnedFd>, FileError> {
        let Item { from, to, metadata, .. } = item;
        let is_asked = self.target.options.existing == Existing::Update && !to.mirror.is_new();
        let stores = &self.target.stores;
        let is_alike =
            |from: &Metadata, there: &Metadata| is_alike(from, there, stores.granularity(there.device));
        // A file with a stated size of 0 may have bytes. Only reading it shows this.
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
            // A file that cannot be opened can be replaced.
            return Ok(None);
        };
        let (before, there) = (look(&source)?, look(&file)?);
        // A source with one name needs a copy with one name.
        let is_own = there.nlink == 1 || before.nlink > 1 && self.target.options.keep.links;
        let pair = Pair { source: OpenFile::new(&source, &before), copy: OpenFile::new(&file, &there) };
        if !self.has_the_bytes(pair)? || !is_own {
            return Ok(None);
        }
        let counted = self.results.totals.not_kept;
        let is_mended = self.mend(to, pair, false)?;
        if !is_mended {
            // The new copy will be counted instead.
            self.results.totals.not_kept = counted;
            return Ok(None);
        }
        self.results.totals.skipped += 1;
        Ok(Some(file))
    }

    /// Whether an existing file counts as a copy: by size and time, and by its bytes if the source's stated size is not reliable.
    fn has_the_bytes(&mut self, pair: Pair<'_>) -> Result<bool, FileError> {
        let Pair { source: OpenFile { file: source, metadata: before }, copy } = pair;
        let granularity = self.target.stores.granularity(copy.metadata.device);
        if self.scratch.mover.sizes.is_stated(source, before) {
            return Ok(is_alike(before, copy.metadata, granularity));
        }
        let is_as_old = is_alike(before, &Metadata { size: before.size, ..*copy.metadata }, granularity);
        Ok(is_as_old && self.scratch.mover.is_same_to_end(source, copy.file)?)
    }

    /// Gives an existing file the attributes that it lacks. False: it must be copied anew, since it must not get them.
    ///
    /// `needs_times`: its times differ.
    pub(crate) fn mend(
        &mut self,
        to: &Place<'_>,
        pair: Pair<'_>,
        needs_times: bool,
    ) -> Result<bool, FileError> {
        let Pair { source, copy: OpenFile { file, metadata: there } } = pair;
        let extended = self.extended(source.file)?;
        let others = self.extended_there(file)?;
        let needs_times = needs_times && self.target.options.keep.times;
        let wanted = Wanted { needs_times, ..self.target.wanted(source.metadata, &extended) };
        let mut changes = Changes::between(wanted, there, &others);
        if self.gives_rights(to, &mut changes)? {
            return Ok(false);
        }
        if (changes.are_beside_owner() || needs_times) && !self.is_mine(there) {
            // A user who may not change the file may still replace it.
            return Ok(false);
        }
        let mode = changes.whole_mode();
        let changed = match changes.apply(file, &mut self.results.totals.not_kept) {
            Err(FileError::Failed(Step::SetMode, Errno::PERM))
                if !self.can_give(to, Grant::Mode(mode.unwrap_or_default(), None), b"")? =>
            {
                self.results.totals.not_kept.modes_and_times += 1;
                true
            }
            changed => changed?,
        };
        if changed && self.target.stores.sync_each() {
            let synced = self.target.stores.sync_file(file);
            synced.map_err(|errno| FileError::new(Step::Sync, errno))?;
        }
        Ok(true)
    }

    /// Whether an existing link or special file equals its source. If so, counts it.
    fn is_named_left(&mut self, item: Item<'_>) -> Result<bool, FileError> {
        let Item { to, metadata, .. } = item;
        let is_own = there(to)?.is_some_and(|there| there.kind() == metadata.kind() && there.nlink == 1);
        let copy = Source { directory: to.directory.as_fd(), name: to.name };
        Ok(is_own && self.is_copy_of(item, copy)?)
    }

    /// Whether an existing link or special file with several names equals its source.
    ///
    /// If so, counts it. It then has a name in the links' directory, where it was compared: the original name may refer to another file
    /// by now.
    pub(crate) fn is_named_left_as(
        &mut self,
        item: Item<'_>,
        known: &OwnedFd,
        key: &CStr,
    ) -> Result<bool, FileError> {
        let Item { to, metadata, .. } = item;
        let is_asked = self.target.options.existing == Existing::Update && !to.mirror.is_new();
        if !is_asked || there(to)?.is_none_or(|there| there.kind() != metadata.kind()) {
            return Ok(false);
        }
        let none = AtFlags::empty();
        if retry(|| rustix::fs::linkat(&to.directory, to.name, known, key, none)).is_err() {
            return Ok(false);
        }
        let copy = Source { directory: known.as_fd(), name: key };
        let is_copy = self.is_copy_of(item, copy);
        if !matches!(is_copy, Ok(true)) {
            let _ = rustix::fs::unlinkat(known, key, none);
        }
        is_copy
    }

    fn is_copy_of(&mut self, item: Item<'_>, copy: Source<'_>) -> Result<bool, FileError> {
        let Item { from, to, metadata, .. } = item;
        let failed = |errno| FileError::new(Step::LookAtCopy, errno);
        let there = sys::stat_at(copy.directory, copy.name, false).map_err(failed)?;
        let granularity = self.target.stores.granularity(there.device);
        if !is_alike_named(
            (from, metadata),
            (copy, &there),
            self.target.options.keep.times.then_some(granularity),
        )? {
            return Ok(false);
        }
        let counted = self.results.totals.not_kept;
        let extended = self.extended_of_name(from, metadata)?;
        let others = self.extended_of_name(copy, &there)?;
        // The mode of a symbolic link has no meaning.
        let mode = if metadata.kind() == Kind::Symlink { there.mode } else { metadata.mode };
        let metadata = Metadata { mode, ..*metadata };
        let mut changes = Changes::between(self.target.wanted(&metadata, &extended), &there, &others);
        let is_copy = !self.gives_rights(to, &mut changes)? && changes.are_none();
        if is_copy {
            self.results.totals.skipped += 1;
        } else {
            self.results.totals.not_kept = counted;
        }
        Ok(is_copy)
    }

    /// Opens an existing file for writing in place, and returns its mode. No other user can open it until it gets its mode.
    ///
    /// None: the file must be replaced. It is not a regular file, has other names, or cannot be opened or changed by this user; or it is
    /// to get another owner, set-id bits or capabilities while another process may have it open.
    pub(crate) fn in_place(
        &mut self,
        source: OpenFile<'_>,
        to: &Place<'_>,
    ) -> Result<Option<(OwnedFd, u32)>, FileError> {
        let metadata = source.metadata;
        // With `Existing::Ignore`, the file has appeared only just now.
        if !self.target.options.in_place
            || to.mirror.is_new()
            || self.target.options.existing == Existing::Ignore
        {
            return Ok(None);
        }
        let identity = |of: &Metadata| (of.device, of.inode);
        let may_be = |there: &Metadata| {
            there.kind() == Kind::File && there.nlink == 1 && identity(there) != identity(metadata)
        };
        // Opening another kind of file may have side effects.
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
        if !self.keeps_rights(to, Pair { source, copy: OpenFile::new(&file, &there) })? {
            return Ok(None);
        }
        let keep = &self.target.options.keep;
        // The group permissions that the file's ACL grants, if the ACL is to be removed.
        let mode = if keep.lists { give::mode_without_list(&file, there.mode) } else { there.mode };
        if retry(|| rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)).is_err() {
            return Ok(None);
        }
        // Where the source has a hole, the copy must have no data.
        let has_holes = may_have_holes(metadata);
        let length = if has_holes { 0 } else { there.size.min(metadata.size) };
        if length < there.size {
            let cut = retry(|| rustix::fs::ftruncate(&file, length));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        Ok(Some((file, mode)))
    }

    /// Whether a file to write in place has its final owner and gains no set-id bits and no capabilities. Writing removes those that it
    /// has.
    fn keeps_rights(&mut self, to: &Place<'_>, pair: Pair<'_>) -> Result<bool, FileError> {
        let Pair { source: OpenFile { file: source, metadata: from }, copy } = pair;
        let there = copy.metadata;
        let counted = self.results.totals.not_kept;
        let extended = self.extended(source)?;
        let others = self.extended_there(copy.file)?;
        let others = others.select(|(name, _)| name.as_c_str() != c"security.capability");
        let written = Metadata { mode: there.mode & !give::SET_ID, ..*there };
        let mut changes = Changes::between(self.target.wanted(from, &extended), &written, &others);
        let gives_rights = self.gives_rights(to, &mut changes)?;
        self.results.totals.not_kept = counted;
        let (owner, _) = self.target.options.keep.owners_of(from);
        let has_owner = owner.is_some_and(|owner| owner.as_raw() == there.uid);
        Ok(!gives_rights && (has_owner || self.target.stores.own_uid(there.device) == Some(there.uid)))
    }

    /// Gives a file that was written in place its attributes and no others. Users who could open it before can open it again.
    pub(crate) fn settle(
        &mut self,
        to: &Place<'_>,
        source: OpenFile<'_>,
        (file, was): (&OwnedFd, u32),
    ) -> Result<(), FileError> {
        let extended = self.extended(source.file)?;
        let others = self.extended_there(file)?;
        let needs_times = self.target.options.keep.times;
        let wanted = Wanted {
            own_mode: Some(was & 0o777),
            needs_times,
            ..self.target.wanted(source.metadata, &extended)
        };
        let mut changes = Changes::between(wanted, &look(file)?, &others);
        if self.gives_rights(to, &mut changes)? {
            // The file had no such right when it was opened.
            return Err(FileError::Changed);
        }
        changes.apply(file, &mut self.results.totals.not_kept).map(drop)
    }
}

impl Target<'_> {
    /// Whether a name already refers to a copy that was found under another name.
    pub(crate) fn is_linked(&self, known: &OwnedFd, key: &CStr, to: &Place<'_>) -> Result<bool, FileError> {
        if self.options.existing != Existing::Update || to.mirror.is_new() {
            return Ok(false);
        }
        let Some(there) = there(to)? else { return Ok(false) };
        let copy = sys::stat_at(known, key, false);
        Ok(copy.is_ok_and(|copy| (copy.device, copy.inode) == (there.device, there.inode)))
    }

    /// The attributes an existing entry is to have, except times.
    fn wanted<'w>(&'w self, from: &'w Metadata, extended: &'w Extended) -> Wanted<'w> {
        let keep = &self.options.keep;
        Wanted { from, extended, keep, is_old: true, own_mode: None, needs_times: false }
    }
}

/// The existing entry with this name; none: no entry.
pub(crate) fn there(to: &Place<'_>) -> Result<Option<Metadata>, FileError> {
    match sys::stat_at(&to.directory, to.name, false) {
        Ok(there) => Ok(Some(there)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(FileError::new(Step::LookAtCopy, errno)),
    }
}

/// Whether the file found by a name has exactly that name, not one that only a case-folding target treats as equal.
fn is_spelled_so(to: &Place<'_>, identity: (u64, u64)) -> Result<bool, FileError> {
    let failed = |errno| FileError::new(Step::LookAtCopy, errno);
    Ok(!folds_case(to, || Ok(identity))? || sys::has_name(&to.directory, to.name).map_err(failed)?)
}

/// Whether the directory of a name that exists treats names as one that differ only in case. Asked once for each directory. `identify`: device
/// and inode of the entry.
pub(crate) fn folds_case(
    to: &Place<'_>,
    identify: impl FnOnce() -> Result<(u64, u64), FileError>,
) -> Result<bool, FileError> {
    let swapped: Vec<u8> = to.name.to_bytes().iter().map(|byte| swap_case(*byte)).collect();
    if let Some(known) = to.mirror.folds_case.get() {
        return Ok(*known);
    }
    if swapped == to.name.to_bytes() {
        // Such a name does not show it.
        return Ok(false);
    }
    // The entry has one name, so only a directory that folds case finds it by another one.
    let (swapped, identity) = (CString::new(swapped).unwrap_or_default(), identify()?);
    let found = sys::stat_at(&to.directory, &swapped, false);
    let folds = found.is_ok_and(|found| (found.device, found.inode) == identity);
    Ok(*to.mirror.folds_case.get_or_init(|| folds))
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte }
}

/// Whether a file counts as a copy: size and modification time equal the source's.
///
/// The times are compared at the granularity of the copy's file system.
pub(crate) fn is_alike(source: &Metadata, copy: &Metadata, granularity: Granularity) -> bool {
    copy.kind() == Kind::File && source.size == copy.size && granularity.is_kept(source.mtime, copy.mtime)
}

/// Whether two links have the same target, or two special files the same kind and device.
///
/// The modification times must match, too, if times are preserved.
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
    use crate::copy::options::Options;
    use crate::copy::{Copy, Seat};
    use crate::tree::operation::Handler;

    #[test]
    fn only_files_with_one_name_are_written_in_place() {
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
            let Copy { operation, .. } = prepared.unwrap();
            let mut worker = operation.worker(0);
            let opened = OwnedFd::from(fs::File::open(&source).unwrap());
            let from = OpenFile::new(&opened, &metadata);
            let mirror = &operation.target.roots.find(&sources[0]).unwrap().parent;
            for name in [c"file", c"one", c"fifo", c"link", c"none"] {
                let to = Place {
                    mirror,
                    directory: Arc::clone(&operation.target.top.directory),
                    name,
                    slice: None,
                };
                let is_opened = operation.maker(&mut worker).in_place(from, &to).unwrap().is_some();
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
