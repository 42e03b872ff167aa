//! Copies entries that are neither files nor directories. Symbolic links are copied as links. FIFOs, sockets and devices are not opened.

use std::ffi::CStr;

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode};

use crate::copy::target::place::{Item, Made, NAMES_TRIED, Place, refuse_taken};
use crate::copy::target::{Maker, Target};
use crate::file::error::{FileError, Step};
use crate::file::retries::until_found;
use crate::file::source::{Source, device, identity_of};
use crate::metadata::extended::{Extended, Holder};
use crate::metadata::give::SourceAttributes;
use crate::metadata::inherited::open_private;
use crate::metadata::keep::ExtendedNames;
use crate::metadata::named;
use crate::metadata::not_kept::NotKept;
use atta_sys::at::NameAt;
use atta_sys::{self as sys, retry};

/// An entry to make, with its metadata.
struct Model<'a> {
    metadata: &'a Metadata,
    extended: Extended,
    /// The key under which other threads find it to link to it.
    key: Option<&'a CStr>,
    step: Step,
}

impl Maker<'_> {
    /// Makes a symbolic link with the source's target, a FIFO, a socket or a device. `key`: set if the source has several names.
    pub(crate) fn named(&mut self, item: Item<'_>, key: Option<&CStr>) -> Result<Made, FileError> {
        let Item { from, to, metadata, .. } = item;
        if metadata.kind() == Kind::Symlink {
            let target = read_link(from)?;
            if key.is_some() {
                refuse_another(from, metadata)?;
            }
            let extended = self.extended_of_name(from, metadata)?;
            let model = Model { metadata, extended, key, step: Step::MakeLink };
            let make =
                |directory: &OwnedFd, name: &CStr| rustix::fs::symlinkat(target.as_slice(), directory, name);
            let made = self.under_a_name(to, &model, make)?;
            self.results.totals.symlinks += 1;
            return Ok(Made { target: Some(target), ..made });
        }
        let (kind, device) = match metadata.kind() {
            Kind::Fifo => (FileType::Fifo, 0),
            Kind::Socket => (FileType::Socket, 0),
            Kind::CharDevice => (FileType::CharacterDevice, device(from)?),
            Kind::BlockDevice => (FileType::BlockDevice, device(from)?),
            _ => return Err(FileError::Changed),
        };
        if matches!(metadata.kind(), Kind::CharDevice | Kind::BlockDevice) {
            refuse_another(from, metadata)?;
        }
        let extended = self.extended_of_name(from, metadata)?;
        let model = Model { metadata, extended, key, step: Step::MakeSpecial };
        let private = Mode::RUSR | Mode::WUSR;
        let make =
            |directory: &OwnedFd, name: &CStr| rustix::fs::mknodat(directory, name, kind, private, device);
        let made = self.under_a_name(to, &model, make)?;
        self.results.totals.specials += 1;
        Ok(made)
    }

    /// Makes an entry that cannot be opened and so gets its metadata by name.
    ///
    /// It is made under its final name if no other process can access the directory. Otherwise it is made in a private directory and
    /// moved to a temporary name beside its final one.
    fn under_a_name(
        &mut self,
        to: &Place<'_>,
        model: &Model<'_>,
        make: impl Fn(&OwnedFd, &CStr) -> rustix::io::Result<()>,
    ) -> Result<Made, FileError> {
        let (target, who) = (self.target, self.scratch.index);
        let since = target.stores.failed_syncs();
        let failed = |errno| FileError::new(model.step, errno);
        let complete = |directory: &OwnedFd, name: &CStr, not_kept: &mut NotKept| {
            retry(|| make(directory, name)).map_err(failed)?;
            let Model { metadata, extended, key, .. } = model;
            let at = NameAt { directory: directory.as_fd(), name, features: target.features };
            let source = SourceAttributes { metadata, extended };
            named::give(at, source, &target.options.keep, not_kept)?;
            let is_found = key.is_none_or(|key| target.link_as(directory, name, key).is_ok());
            not_kept.hard_links += u64::from(!is_found);
            Ok(())
        };
        if to.is_direct() && to.mirror.is_sealed() {
            match complete(&to.directory, to.name, &mut self.results.totals.not_kept) {
                Ok(()) => return Ok(Made { since, ..Made::default() }),
                // The source may list a name twice.
                Err(FileError::Failed(_, Errno::EXIST)) => refuse_taken(to, model.step)?,
                Err(error) => return Err(error),
            }
        }
        let make_in = |private: &OwnedFd, not_kept: &mut NotKept| {
            let mut tried = 1;
            loop {
                let name = target.shared.namer.of_file(who);
                let made = complete(private, &name, not_kept)
                    .and_then(|()| move_out(private, &to.directory, &name).map_err(failed));
                if made.is_err() {
                    let _ = rustix::fs::unlinkat(private, &name, AtFlags::empty());
                }
                match made {
                    // The reply to the first request was lost. The existing entry is not used.
                    Err(FileError::Failed(step, Errno::EXIST))
                        if step == model.step && tried < NAMES_TRIED =>
                    {
                        tried += 1;
                    }
                    made => return made.map(|()| name),
                }
            }
        };
        let mut not_kept = NotKept::default();
        let made = match to.mirror.is_mounted() {
            true => Err(failed(Errno::XDEV)),
            false => make_in(target.private.links().map_err(failed)?, &mut not_kept),
        };
        let name = match made {
            // The entry cannot be moved there from the job's own directory: another file system, or another project of the same one.
            Err(FileError::Failed(_, Errno::XDEV)) => {
                not_kept = NotKept::default();
                target.beside(who, to, |own| make_in(own, &mut not_kept)).map_err(failed)??
            }
            made => made?,
        };
        self.results.totals.not_kept += &not_kept;
        let identity = sys::stat_at(&to.directory, &name, false).ok().as_ref().map(identity_of);
        Ok(Made { since, identity, ..Made::temporary(name) })
    }
}

impl Target<'_> {
    /// Runs `act` with a new private directory in the directory that the entry goes to.
    fn beside<T>(&self, who: u64, to: &Place<'_>, act: impl FnOnce(&OwnedFd) -> T) -> Result<T, Errno> {
        let name = self.shared.namer.of_file(who);
        let device = sys::stat_descriptor(&to.directory)?.device;
        let made = retry(|| rustix::fs::mkdirat(&to.directory, &name, Mode::RWXU));
        if matches!(made, Err(errno) if errno != Errno::EXIST) {
            made?;
        }
        let opened =
            open_private(&to.directory, &name, self.stores.own_uid(device), self.features).and_then(|own| {
                // After a lost reply the directory exists and is empty.
                let is_own = made.is_ok() || sys::names_of(&own, 1)?.is_empty();
                if is_own { Ok(own) } else { Err(Errno::EXIST) }
            });
        let done = opened.map(|own| act(&own));
        let _ = rustix::fs::unlinkat(&to.directory, &name, AtFlags::REMOVEDIR);
        done
    }

    /// Links a new entry into the private directory under `key`, so that other threads find it.
    fn link_as(&self, directory: &OwnedFd, name: &CStr, key: &CStr) -> Result<(), Errno> {
        let private = self.private.links()?;
        match retry(|| rustix::fs::linkat(directory, name, private, key, AtFlags::empty())) {
            Err(Errno::EXIST) => {
                // If both names refer to the same inode, the reply to the first request was lost.
                let [own, there] =
                    [(directory, name), (private, key)].map(|(at, name)| sys::stat_at(at, name, false));
                if identity_of(&own?) == identity_of(&there?) { Ok(()) } else { Err(Errno::EXIST) }
            }
            linked => linked,
        }
    }
}

impl Maker<'_> {
    /// Reads the extended attributes of a link or a special file.
    ///
    /// One call if it has none. No call for a link if no extended attributes are preserved.
    pub(crate) fn extended_of_name(
        &mut self,
        from: Source<'_>,
        metadata: &Metadata,
    ) -> Result<Extended, FileError> {
        let (keep, kind) = (&self.target.options.keep, metadata.kind());
        if kind == Kind::Symlink && keep.extended == ExtendedNames::None {
            return Ok(Extended::default());
        }
        let at = NameAt { directory: from.directory, name: from.name, features: self.target.features };
        let not_kept = &mut self.results.totals.not_kept;
        let wanted = |name: &CStr| keep.reads_of(kind, name);
        match self.scratch.extended(Holder::Named(at), wanted, not_kept) {
            Ok(found) if found.is_empty() || named::is_still_there(from, metadata) => Ok(found),
            // They may belong to another entry, and grant rights to other users.
            Ok(_) => Err(FileError::Changed),
            // Before Linux 6.13 without /proc, or permission denied.
            Err(Errno::NOENT | Errno::PERM | Errno::ACCES) if named::is_still_there(from, metadata) => {
                not_kept.extended += 1;
                Ok(Extended::default())
            }
            Err(errno) => Err(FileError::new(Step::ReadExtended, errno)),
        }
    }
}

/// Moves an entry out of a private directory to a name that no other process can know. Replaces nothing.
fn move_out(private: &OwnedFd, to: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let is_there = || sys::stat_at(private, name, false).is_ok();
    match until_found(is_there, || retry(|| rustix::fs::renameat(private, name, to, name))) {
        // If the entry is at its destination, the reply to the first request was lost.
        Err(Errno::NOENT) => sys::stat_at(to, name, false).map(drop),
        moved => moved,
    }
}

/// Refuses a name that refers to another entry by now. The rights and the key of the old entry would do harm there.
fn refuse_another(from: Source<'_>, metadata: &Metadata) -> Result<(), FileError> {
    if named::is_still_there(from, metadata) { Ok(()) } else { Err(FileError::Changed) }
}

/// Reads the target of a symbolic link.
pub(crate) fn read_link(from: Source<'_>) -> Result<Vec<u8>, FileError> {
    sys::read_link_at(from.directory, from.name).map_err(|errno| FileError::new(Step::ReadLink, errno))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use atta_testkit::scratch::Scratch;
    use rustix::fs::CWD;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::Options;
    use crate::copy::target::mirror::Location;
    use crate::copy::{Copy, Seat};
    use crate::tree::operation::Handler;

    /// The name was listed as one link and then replaced by another.
    #[test]
    fn entry_of_another_type_gets_no_old_attributes() {
        let scratch = Scratch::new("special").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::create_dir(&target).unwrap();
        symlink("one", &source).unwrap();
        let sources = [source.as_os_str().as_bytes().to_vec()];
        let (options, to) = (Options::default(), target.as_os_str().as_bytes());
        let prepared = Copy::prepare(&sources, to, &options, &NothingFails, Seat::alone());
        let Copy { operation, .. } = prepared.unwrap();
        let mut worker = operation.worker(0);
        let mirror = &operation.target.roots.find(&sources[0]).unwrap().parent;
        let to = Place {
            mirror,
            directory: Arc::clone(&operation.target.top.directory),
            name: c"copy",
            slice: None,
        };
        let path = std::ffi::CString::new(sources[0].clone()).unwrap();
        let from = Source { directory: rustix::fd::AsFd::as_fd(&CWD), name: &path };
        let listed = sys::stat_path(&sources[0], false).unwrap();
        // Both links exist at the same time, so the second one has another inode number.
        symlink("another", scratch.join("another")).unwrap();
        fs::rename(scratch.join("another"), &source).unwrap();
        let at = &Location::Root(Vec::new());
        let mut named = |metadata: &Metadata, key| {
            operation.maker(&mut worker).named(Item { at, from, to: &to, metadata }, key)
        };
        let made = named(&listed, Some(c"key"));
        assert!(matches!(made, Err(FileError::Changed)), "{made:?}");
        for kind in [0o020_000, 0o060_000] {
            let device = Metadata { mode: kind | 0o666, ..listed };
            let made = named(&device, None);
            assert!(matches!(made, Err(FileError::Changed)), "{made:?}");
        }
        assert_eq!(
            sys::names_of(&operation.target.top.directory, 10).unwrap(),
            [operation.target.shared.namer.home()]
        );
        let now = sys::stat_path(&sources[0], false).unwrap();
        assert!(named(&now, None).is_ok());
    }
}
