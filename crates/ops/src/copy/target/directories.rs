//! Directories of the target: made under temporary names, checked when they are entered, renamed when their files exist, and given their
//! attributes at the end. Where a rename may lose what is below, they have their final names at once. `mirror.rs` and `commit/publish.rs` decide when each step is due.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use atta_entry::{Errno, Metadata};
use atta_ledger::Seen;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::Mode;

use crate::copy::target::Maker;
use crate::copy::target::existing::folds_case;
use crate::copy::target::mirror::{Here, Location, Mirror, SourceDirectory};
use crate::copy::target::place::{Item, Place, refuse_taken};
use crate::file::error::{FileError, Step};
use crate::file::source::Source;
use crate::jobs::names::PREFIX;
use crate::metadata::differences::{Changes, Wanted};
use crate::metadata::extended::Extended;
use crate::metadata::give::Attributes;
use crate::metadata::inherited::{admit_owner, disinherit};
use crate::tree::directory::{Directory, STALE_MOST, State as _};
use atta_sys::{self as sys, retry};

/// An open copy of a directory.
pub(crate) struct Opened {
    descriptor: Arc<OwnedFd>,
    /// If it was looked at.
    found: Option<Metadata>,
}

impl Maker<'_> {
    /// Makes a directory under a temporary name, unless it exists. Counts it.
    pub(crate) fn make_directory(&mut self, item: Item<'_>) -> Result<(), FileError> {
        if item.to.name != c"." {
            self.make_named_directory(item)?;
        }
        self.count_directory();
        Ok(())
    }

    /// Counts a directory that is there, or that another task makes.
    pub(crate) fn count_directory(&mut self) {
        self.results.totals.directories += 1;
    }

    fn make_named_directory(&mut self, item: Item<'_>) -> Result<(), FileError> {
        let Item { from, to, metadata, .. } = item;
        let failed = |errno| FileError::new(Step::MakeDirectory, errno);
        // Also in a new directory of this job: the source may list a name twice.
        match sys::open_directory_at(&to.directory, to.name) {
            Ok(opened) if self.is_own_home(to, &opened) => return Err(failed(Errno::EXIST)),
            Ok(_) if to.mirror.is_new() => return refuse_taken(to, Step::MakeDirectory),
            Ok(opened) if self.is_of_another(item, &opened)? => return Err(failed(Errno::EXIST)),
            Ok(_) => return Ok(()),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        if self.target.names_at_once() {
            // Not needed if the mode is preserved.
            let extended = match self.target.options.keep.mode {
                true => Extended::default(),
                false => self.extended_of_name(from, metadata)?,
            };
            let mode = self.target.mode_at_once(metadata, extended.access_list());
            return self.target.make_at_once(&to.directory, to.name, mode).map(drop).map_err(failed);
        }
        let alias = to.mirror.alias(to.name);
        match retry(|| rustix::fs::mkdirat(&to.directory, &alias, Mode::RWXU)) {
            Ok(()) => {
                if self.target.is_resumed() {
                    to.mirror.note_made(to.name);
                }
                Ok(())
            }
            Err(Errno::EXIST) => self.take_alias(from, to, &alias).map_err(failed),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Whether an existing directory is the copy of another directory of the source: their names differ only in case, and the target folds
    /// case. Somebody else's directory in another spelling is none.
    fn is_of_another(
        &self,
        Item { at, from, to, .. }: Item<'_>,
        opened: &OwnedFd,
    ) -> Result<bool, FileError> {
        let failed = |errno| FileError::new(Step::MakeDirectory, errno);
        let identity = |found: Metadata| (found.device, found.inode);
        if !folds_case(to, || sys::stat_descriptor(opened).map(identity).map_err(failed))? {
            return Ok(false);
        }
        let roots = matches!(at, Location::Root(_)).then(|| self.target.roots.names());
        let is_alike = |name: &CString| *name.as_c_str() != *to.name && folded(name) == folded(to.name);
        let has_twin = match &roots {
            Some(roots) => roots.iter().any(is_alike),
            // Read once for all directories in it.
            None => match to.mirror.has_names_alike.get() {
                Some(known) => *known,
                None => {
                    let found = has_names_alike(from.directory).map_err(failed)?;
                    *to.mirror.has_names_alike.get_or_init(|| found)
                }
            },
        };
        if !has_twin || sys::has_name(&to.directory, to.name).map_err(failed)? {
            return Ok(false);
        }
        let Some(spelled) = sys::other_spelling(&to.directory, to.name) else { return Ok(false) };
        let in_source = |name: &CStr| sys::stat_at(from.directory, name, false).map(identity);
        Ok(match roots {
            Some(roots) => roots.contains(&spelled),
            None => in_source(&spelled).is_ok_and(|other| in_source(from.name) != Ok(other)),
        })
    }

    /// Accepts an existing directory under the temporary name of a new one.
    ///
    /// No other process can know that name. Either the reply to the first request to make it was lost, or an earlier run of the job has made it,
    /// or the source lists its name twice.
    fn take_alias(&self, from: Source<'_>, to: &Place<'_>, alias: &CStr) -> Result<(), Errno> {
        let opened = sys::open_directory_at(&to.directory, alias)?;
        let found = sys::stat_descriptor(&opened)?;
        let own = self.target.stores.own_uid(found.device);
        let is_private = found.mode & 0o777 == 0o700 && own.is_none_or(|own| own == found.uid);
        if !is_private {
            return Err(Errno::EXIST);
        }
        if self.target.is_resumed() || sys::names_of(&opened, 1)?.is_empty() {
            return Ok(());
        }
        // For a SOURCE itself no directory was listed.
        let names = sys::names_of(from.directory, usize::MAX).unwrap_or_default();
        let times = names.iter().filter(|name| name.as_c_str() == from.name).count();
        if times > 1 { Ok(()) } else { Err(Errno::EXIST) }
    }

    /// Whether an existing directory is the private directory of this copy and of concurrent copies.
    fn is_own_home(&self, to: &Place<'_>, opened: &OwnedFd) -> bool {
        let namer = &self.target.shared.namer;
        to.name.to_bytes().starts_with(PREFIX)
            && *to.name == *namer.home()
            && sys::stat_at(opened, &namer.tag(), false).is_ok()
    }

    /// Refuses a directory that contains its own copy by a mount that no path shows: the copy would never end.
    pub(crate) fn refuse_endless(&mut self, item: Item<'_>) -> Result<(), FileError> {
        let Item { from, to, .. } = item;
        // With `one_file_system`, mounts are not entered.
        if self.target.options.walk.one_file_system || !sys::may_be_mount(from.directory, from.name) {
            return Ok(());
        }
        let failed = |errno| FileError::new(Step::MakeDirectory, errno);
        let identity = |of: Metadata| (of.device, of.inode);
        let entered = sys::stat_at(from.directory, from.name, false).map(identity).map_err(failed)?;
        let is_it = |found: Result<Metadata, Errno>| found.is_ok_and(|found| identity(found) == entered);
        let mut next = Some(&to.mirror.target);
        let mut is_endless = is_it(sys::stat_at(&to.directory, to.name, false));
        while let Some(above) = next.filter(|_| !is_endless) {
            is_endless = match above.known_place() {
                Some(place) => (place.device, place.inode) == entered,
                None => {
                    let opened =
                        above.descriptor(&mut self.scratch.held, self.target.features).map_err(failed)?;
                    is_it(sys::stat_descriptor(&opened))
                }
            };
            next = above.parent();
        }
        // ELOOP
        if is_endless { Err(failed(Errno::LOOP)) } else { Ok(()) }
    }

    /// Records the attributes that an opened directory is to get, and whether this job made its copy.
    pub(crate) fn enter(&mut self, here: Here<'_>) -> Result<(), FileError> {
        let Some(mirror) = Mirror::of(here.directory) else { return Ok(()) };
        let failed = |errno| FileError::new(Step::OpenDirectory, errno);
        let Opened { descriptor: opened, found } = self.open_made(&mirror).map_err(failed)?;
        let above = here.directory.parent().and_then(Mirror::of);
        if !above.is_some_and(|above| above.take_made(here.directory.name())) {
            self.begin_unknown(&mirror)?;
        }
        if mirror.target.alias().is_some() {
            mirror.set_new(self.target.stores.failed_syncs());
            if self.target.stores.waits_in(&mirror) && self.target.stores.failed_syncs() > 0 {
                // The directory may have been made before a sync that failed.
                retry(|| rustix::fs::fsync(&opened)).map_err(|errno| FileError::new(Step::Sync, errno))?;
            }
        }
        let is_old = !mirror.is_new();
        let metadata = sys::stat_descriptor(here.descriptor);
        let metadata = metadata.map_err(|errno| FileError::new(Step::Read, errno))?;
        let extended = self.extended(here.descriptor)?;
        if self.target.run_of_job.is_some() {
            let there = found.map_or_else(|| sys::stat_descriptor(&opened), Ok).map_err(failed)?;
            let changed = (metadata.ctime.seconds, metadata.ctime.nanoseconds);
            mirror.set_seen(Seen { source_inode: metadata.inode, target_inode: there.inode, changed });
        }
        mirror.will_have(Attributes { metadata, extended, is_old });
        Ok(())
    }

    /// Sets what the log says of a directory that is not entered, as only slices of it are done again: which copy there is. Of the source it says
    /// nothing, since that may have changed after it was read.
    pub(crate) fn see(&mut self, directory: &Arc<SourceDirectory>) {
        let Some(mirror) = Mirror::of(directory).filter(|mirror| mirror.seen().is_none()) else { return };
        let opened = mirror.target.descriptor(&mut self.scratch.held, self.target.features);
        if let Ok(there) = opened.and_then(sys::stat_descriptor) {
            mirror.set_seen(Seen { target_inode: there.inode, ..Seen::default() });
        }
    }

    /// Opens the copy of a directory.
    ///
    /// If this job has just made it, inherited attributes are removed before any entry is put into it. If it is not the directory that
    /// was made, or if it keeps inherited attributes, no entry is put into it.
    pub(crate) fn open_made(&mut self, mirror: &Arc<Mirror>) -> Result<Opened, Errno> {
        let mut opened = mirror.target.descriptor(&mut self.scratch.held, self.target.features);
        if matches!(opened, Err(Errno::ACCES))
            && let (Some(alias), Some(above)) = (mirror.target.alias(), mirror.target.parent())
        {
            let above = above.descriptor(&mut self.scratch.held, self.target.features)?;
            let own = self.target.stores.own_uid(sys::stat_descriptor(&above)?.device);
            if admit_owner(&above, alias, own, self.target.features).is_ok() {
                opened = mirror.target.descriptor(&mut self.scratch.held, self.target.features);
            }
        }
        let (descriptor, mut found) = (opened?, None);
        if mirror.target.alias().is_some() {
            let settled = self.refuse_foreign(mirror, &descriptor);
            let settled = settled.and_then(|settled| disinherit(&descriptor).map(|_| settled));
            let (is_known, metadata) = settled.inspect_err(|_| mirror.set_foreign())?;
            if is_known {
                mirror.seal();
            }
            found = Some(metadata);
        }
        Ok(Opened { descriptor, found })
    }

    /// Refuses a directory that this job did not make: it has another owner, or is on another file system than its parent.
    ///
    /// Where other users may create names, they may replace a new directory by one of theirs; and nothing is mounted on a new directory.
    /// Returns whether it is certain that the directory belongs to the user that this process creates files as, and its metadata.
    fn refuse_foreign(
        &mut self,
        mirror: &Arc<Mirror>,
        opened: &Arc<OwnedFd>,
    ) -> Result<(bool, Metadata), Errno> {
        let found = sys::stat_descriptor(opened)?;
        let above = mirror
            .target
            .parent()
            .map(|above| above.descriptor(&mut self.scratch.held, self.target.features));
        let is_there = match above.transpose()? {
            Some(above) => sys::stat_descriptor(&above)?.device == found.device,
            None => true,
        };
        mirror.store.get_or_init(|| self.target.stores.note_as(&found, opened));
        let own = self.target.stores.own_uid(found.device);
        let is_own = own.is_none_or(|own| own == found.uid);
        if is_there && is_own { Ok((own.is_some(), found)) } else { Err(Errno::STALE) }
    }

    /// Gives a directory its attributes. Retries on ESTALE, which means that the server no longer knows the descriptor.
    ///
    /// The retry opens the directory by its names again: GlusterFS then makes it on a brick where it was missing.
    pub(crate) fn close_anew(
        &mut self,
        target: &Arc<Directory>,
        attributes: Option<&Attributes>,
    ) -> Result<Arc<OwnedFd>, FileError> {
        let (mut tries, not_kept) = (0, self.results.totals.not_kept);
        loop {
            let opened = target.descriptor(&mut self.scratch.held, self.target.features);
            let opened = opened.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
            match attributes.map_or(Ok(()), |attributes| self.close_one(&opened, attributes)) {
                Err(FileError::Failed(_, Errno::STALE)) if tries < STALE_MOST => tries += 1,
                outcome => return outcome.map(|()| opened),
            }
            // The successful attempt counts it.
            self.results.totals.not_kept = not_kept;
            target.close_lineage(self.target.features);
        }
    }

    /// Gives a directory what it lacks of its source's attributes, and removes those that its source lacks.
    fn close_one(&mut self, opened: &OwnedFd, attributes: &Attributes) -> Result<(), FileError> {
        let Attributes { metadata, extended, is_old } = attributes;
        let there = sys::stat_descriptor(opened);
        let there = there.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        let others = self.extended_there(opened)?;
        let keep = &self.target.options.keep;
        let granularity = self.target.stores.granularity(there.device);
        let needs_times = keep.times && !granularity.is_kept(metadata.mtime, there.mtime);
        let wanted = Wanted { from: metadata, extended, keep, is_old: *is_old, own_mode: None, needs_times };
        Changes::between(wanted, &there, &others).apply(opened, &mut self.results.totals.not_kept).map(drop)
    }
}

/// How a name reads where case does not count. Two ways to write an accent are two names.
fn folded(name: &CStr) -> String {
    name.to_string_lossy().to_lowercase()
}

/// Whether two names of a directory differ only in case. Rarely true although they do not: it compares hashes.
fn has_names_alike(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let hashes = RandomState::new();
    let mut seen = HashSet::new();
    sys::any_name(directory, |name| !seen.insert(hashes.hash_one(folded(name))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::time::Duration;

    use atta_testkit::lock::Lock;
    use atta_testkit::scratch::Scratch;
    use atta_testkit::skip;
    use atta_testkit::slow::SlowFs;
    use rustix::fs::CWD;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::{Options, Watch};
    use crate::copy::{Copy, Seat};
    use crate::tree::operation::Handler;

    /// Accepts failures.
    struct MayFail;

    impl Watch for MayFail {
        fn failure(&self, _failure: &atta_entry::Failure<'_>) {}
    }

    // Hazard 32.
    #[test]
    fn name_of_a_new_directory_is_taken_if_empty() {
        let scratch = Scratch::new("directories").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::create_dir(&target).unwrap();
        fs::create_dir(&source).unwrap();
        let sources = [source.as_os_str().as_bytes().to_vec()];
        let (options, path) = (Options::default(), target.as_os_str().as_bytes());
        let prepared = Copy::prepare(&sources, path, &options, &NothingFails, Seat::alone());
        let Copy { operation, .. } = prepared.unwrap();
        let mut worker = operation.worker(0);
        let mirror = &operation.target.roots.find(&sources[0]).unwrap().parent;
        let to = Place {
            mirror,
            directory: Arc::clone(&operation.target.top.directory),
            name: c"copy",
            slice: None,
        };
        let from = Source { directory: CWD, name: c"copy" };
        let alias = target.join(std::ffi::OsStr::from_bytes(mirror.alias(to.name).as_bytes()));
        let metadata = sys::stat_path(&sources[0], false).unwrap();
        for (mode, content, is_taken) in
            [(0o700, None, true), (0o700, Some("other"), false), (0o770, None, false)]
        {
            rustix::fs::mkdirat(CWD, &alias, Mode::from_raw_mode(mode)).unwrap();
            content.iter().for_each(|name| fs::write(alias.join(name), "").unwrap());
            let item = Item { at: &Location::Root(Vec::new()), from, to: &to, metadata: &metadata };
            let made = operation.maker(&mut worker).make_directory(item);
            let expected = Err(FileError::new(Step::MakeDirectory, Errno::EXIST));
            assert_eq!(made, if is_taken { Ok(()) } else { expected }, "{mode:o} {content:?}");
            content.iter().for_each(|name| fs::remove_file(alias.join(name)).unwrap());
            fs::remove_dir(&alias).unwrap();
        }
    }

    // Row 19 of docs/hazards.md: another thread may have completed the other directory by now.
    #[test]
    fn copy_of_another_spelling_is_not_entered() {
        let test = "copy_of_another_spelling_is_not_entered";
        let _lock = Lock::for_mounts().expect("take the lock of mounts");
        let scratch = Scratch::new("directories-case").unwrap();
        let (source, behind) = (scratch.join("source"), scratch.join("behind"));
        for name in ["source/Both", "source/both", "source/one", "behind/Both", "behind/One"] {
            fs::create_dir_all(scratch.join(name)).unwrap();
        }
        let builder = SlowFs::builder().latency(Duration::ZERO).over(&behind).fold_case();
        let Some(shown) = skip::unless_available(test, builder.mount()) else { return };
        let sources = [[source.as_os_str().as_bytes(), b"/."].concat()];
        let (options, path) = (Options::default(), shown.path().as_os_str().as_bytes());
        let prepared = Copy::prepare(&sources, path, &options, &NothingFails, Seat::alone());
        let Copy { operation, .. } = prepared.unwrap();
        let mut worker = operation.worker(0);
        let mirror = &operation.target.roots.find(&sources[0]).unwrap().mirror;
        let opened = fs::File::open(&source).unwrap();
        for (name, expected) in [
            (c"both", Err(FileError::new(Step::MakeDirectory, Errno::EXIST))),
            (c"Both", Ok(())),
            // Somebody else has made that one.
            (c"one", Ok(())),
        ] {
            let directory = Arc::clone(&operation.target.top.directory);
            let to = Place { mirror, directory, name, slice: None };
            let from = Source { directory: rustix::fd::AsFd::as_fd(&opened), name };
            let metadata = &sys::stat_at(&opened, name, false).unwrap();
            let item = Item { at: &Location::Target(Arc::clone(&mirror.target)), from, to: &to, metadata };
            assert_eq!(operation.maker(&mut worker).make_directory(item), expected, "{name:?}");
        }
    }

    // Row 19 of docs/hazards.md.
    #[test]
    fn source_of_another_spelling_is_not_merged() {
        let test = "source_of_another_spelling_is_not_merged";
        let _lock = Lock::for_mounts().expect("take the lock of mounts");
        let scratch = Scratch::new("roots-case").unwrap();
        let behind = scratch.join("behind");
        for name in ["Both", "both", "one", "behind/Both", "behind/One"] {
            fs::create_dir_all(scratch.join(name)).unwrap();
            fs::write(scratch.join(name).join("in"), name).unwrap();
        }
        let builder = SlowFs::builder().latency(Duration::ZERO).over(&behind).fold_case();
        let Some(shown) = skip::unless_available(test, builder.mount()) else { return };
        let path = |name: &str| scratch.join(name).into_os_string().into_encoded_bytes();
        let sources = [path("Both"), path("both"), path("one")];
        let (options, target) = (Options::default(), shown.path().as_os_str().as_bytes());
        let copy = Copy::prepare(&sources, target, &options, &MayFail, Seat::alone()).unwrap();
        let totals = copy.run_alone(|_| {}).totals;
        assert_eq!((totals.files, totals.failed()), (2, 1));
        assert_eq!(fs::read(behind.join("Both/in")).unwrap(), b"Both");
        assert_eq!(fs::read(behind.join("One/in")).unwrap(), b"one");
    }
}
