//! Copies the first name of a file and links the others to that copy. What the files of the links' directory are: see `links.rs`.

use std::ffi::CStr;

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::AtFlags;

use crate::copy::commit::stores::SyncRule;
use crate::copy::links::claims::{
    Claim, Known, MakerOf, Trust, claim, facts_of, forget_link, is_there, keep_known, key, link_key,
    read_claim,
};
use crate::copy::links::{Deferred, Links};
use crate::copy::target::Maker;
use crate::copy::target::mirror::{Location, Mirror};
use crate::copy::target::place::{Item, Made, Place, remove};
use crate::copy::target::special::read_link;
use crate::file::error::{FileError, Step};
use crate::file::source::{Identity, Source, identity_of};
use crate::file::version::Version;
use atta_sys::{self as sys, retry};

/// Result of an attempt to link.
enum Linked {
    Made(Box<Made>),
    /// There is no copy yet.
    NotYet,
    /// A link is not possible there.
    Never,
}

/// Makes hard links on one thread.
pub(crate) struct Linker<'w> {
    pub(crate) links: &'w Links,
    pub(crate) maker: Maker<'w>,
}

impl Linker<'_> {
    /// Makes one of several names. `None`: another thread or rank is copying the file, and the name is made later; or the existing entry is
    /// left.
    pub(crate) fn linked(&mut self, item: Item<'_>) -> Result<Option<Made>, FileError> {
        let (target, Item { to, metadata, .. }) = (self.maker.target, item);
        let known = match target.private.links() {
            Ok(known) if !to.mirror.is_mounted() => known,
            // A hard link cannot cross file systems.
            _ => return self.maker.unlinked(item).map(Some),
        };
        let key = key(metadata);
        match self.link(known, metadata, (item.at, to))? {
            Linked::Made(made) => return Ok(Some(*made)),
            Linked::Never => return self.maker.unlinked(item).map(Some),
            Linked::NotYet => {}
        }
        if self.links.put_off(item)? {
            return Ok(None);
        }
        // A thread of this rank may be at it.
        if !self.links.copying.begin(&key) {
            self.links.defer(item);
            return Ok(None);
        }
        let claimed = self.claim(item, known, &key);
        let is_claimed = matches!(claimed, Ok(Some(_)));
        let made = claimed.and_then(|claim| match claim {
            // Other names must not wait for a copy that nobody makes.
            Some(claim) => self.copy_claimed(item, (known, &key), claim).inspect_err(|_| {
                let _ = forget_link(known, &key);
            }),
            None => Ok(None),
        });
        // In this order: a name that is deferred meanwhile finds the copy when it is tried.
        self.links.copying.end(&key);
        match is_claimed {
            true => self.links.note_ended(&key),
            false => self.links.note_due(),
        }
        made
    }

    /// Claims a file. `None`: another rank has claimed it, and the name waits for that rank.
    fn claim(&mut self, item: Item<'_>, known: &OwnedFd, key: &CStr) -> Result<Option<OwnedFd>, FileError> {
        let seat = self.maker.target.seat;
        let claim = claim(known, item.metadata, seat.rank)?;
        if claim.is_none() {
            self.links.defer(item);
            let maker = if seat.ranks > 1 { maker_of(known, key) } else { None };
            if let Some(maker) = maker.filter(|maker| *maker != seat.rank && self.links.is_first_to_ask(key))
            {
                self.links.copying.ask(maker, key, seat.rank);
            }
        }
        Ok(claim)
    }

    /// Copies a file that was claimed. `None`: the existing entry is left.
    fn copy_claimed(
        &mut self,
        item: Item<'_>,
        (known, key): (&OwnedFd, &CStr),
        claim: OwnedFd,
    ) -> Result<Option<Made>, FileError> {
        let (target, Item { to, metadata, .. }) = (self.maker.target, item);
        let now = Known::new(metadata, target.stores.failed_syncs(), None)
            .made_by(MakerOf::of(target.run_of_job, item.at));
        if metadata.kind() != Kind::File {
            let is_left = self.maker.is_named_left_as(item, known, key)?;
            if is_left {
                keep_known(claim, &Known { trust: self.trust_in(to.mirror, known), ..now })?;
                self.maker.note_left(to)?;
                return Ok(None);
            }
            let made = self.maker.named(item, Some(key))?;
            if keep_known(claim, &Known { trust: self.trust_in(to.mirror, known), ..now }).is_err() {
                self.forget_kept(known, key);
            }
            return Ok(Some(made));
        }
        if let Some(file) = self.maker.mended(item)? {
            // Names that cannot be linked to it are copied instead.
            let _ = link_key(&file, known, key);
            let digest = self.maker.note_left(to)?;
            keep_known(claim, &Known { digest, trust: self.trust_in(to.mirror, known), ..now })?;
            return Ok(None);
        }
        let made = self.maker.file(item)?;
        let is_synced = target.seat.ranks > 1 && target.stores.waits_in(to.mirror);
        if let Some((file, _)) = made.file.as_ref().filter(|_| is_synced) {
            // Another rank may rename a link of this file to its final name, and that rank's sync would not cover these bytes.
            if let Err(errno) = target.stores.sync_file(file) {
                remove(to, &made);
                return Err(FileError::new(Step::Sync, errno));
            }
        }
        // Link by descriptor: the name may lead to another file by now. Do not link if the source's name led to another file.
        let linked = match &made.file {
            Some((file, source)) if *source == (metadata.device, metadata.inode) => {
                link_key(file, known, key)
            }
            _ => Err(Errno::STALE),
        };
        if linked.is_err() {
            self.maker.results.totals.not_kept.hard_links += 1;
        }
        let trust = match is_synced || target.stores.syncs_each_in(to.mirror) {
            true => Trust::ON_STORAGE,
            false => self.trust_in(to.mirror, known),
        };
        if keep_known(claim, &Known { since: made.since, digest: made.digest, trust, ..now }).is_err() {
            self.forget_kept(known, key);
        }
        Ok(Some(made))
    }

    /// From when on a later run can trust a copy in this directory that is complete now and is in the links' directory.
    fn trust_in(&self, mirror: &Mirror, links: &OwnedFd) -> Trust {
        let target = self.maker.target;
        match target.stores.sync_rule(mirror) {
            // The record is that of one rank. With several, each file is synced by itself.
            SyncRule::Batch if target.seat.ranks == 1 => {
                Trust::after_sync(target.stores.synced_links().number(links))
            }
            SyncRule::Never | SyncRule::Batch | SyncRule::Each => Trust::after_sync(0),
        }
    }

    /// Forgets a copy whose record cannot be written. The copy is good, but no other name will find it.
    fn forget_kept(&mut self, known: &OwnedFd, key: &CStr) {
        self.maker.results.totals.not_kept.hard_links += 1;
        let _ = forget_link(known, key);
    }

    /// Makes a name a link of a complete copy.
    fn link(
        &mut self,
        known: &OwnedFd,
        metadata: &Metadata,
        (at, to): (&Location, &Place<'_>),
    ) -> Result<Linked, FileError> {
        let (target, key) = (self.maker.target, &*key(metadata));
        let Some(Known { since, digest, source, maker, .. }) = self.known_of(known, key)? else {
            return Ok(Linked::NotYet);
        };
        if source != facts_of(metadata) {
            return Ok(Linked::Never);
        }
        // Read the copy's target: the source's name may lead to something else by now.
        let link = (metadata.kind() == Kind::Symlink)
            .then(|| read_link(Source { directory: known.as_fd(), name: key }));
        let link = match link.transpose() {
            Err(FileError::Failed(_, Errno::NOENT)) => return Ok(Linked::NotYet),
            link => link?,
        };
        if target.is_linked(known, key, to)? {
            self.maker.results.totals.skipped += 1;
            return Ok(Linked::Made(Box::new(Made { is_link: true, target: link, ..Made::default() })));
        }
        let copy = self.linked_copy(known, key, metadata);
        let bytes = copy.map_or(metadata.size, |copy| copy.size);
        let atime = copy.map(|copy| copy.atime);
        let version =
            copy.filter(|_| target.options.verify).map(|copy| Version::of_copy(metadata, copy.inode));
        // Data left in doubt by a failed sync must not become visible together with its directory.
        let is_sure = since == target.stores.failed_syncs();
        let is_direct = to.is_direct() && is_sure;
        let temporary = (!is_direct).then(|| target.shared.namer.of_file(self.maker.scratch.index));
        let name = temporary.as_deref().unwrap_or(to.name);
        match retry(|| rustix::fs::linkat(known, key, &to.directory, name, AtFlags::empty())) {
            Err(Errno::EXIST) if !is_there(known, key, &to.directory, name) => Ok(Linked::Never),
            // The link exists already if a directory lists a name twice, or if the reply to the first request was lost.
            Ok(()) | Err(Errno::EXIST) => {
                let is_redone = target.is_resumed() && maker.is_redone_by(MakerOf::of(target.run_of_job, at));
                let is_file = self.count_link(metadata.kind(), is_redone);
                let copy = temporary.as_ref().and_then(|_| sys::stat_at(known, key, false).ok());
                let identity = copy.as_ref().map(identity_of);
                let made =
                    Made { temporary, bytes, digest, since, target: link, identity, ..Made::default() };
                let made = Made { version, atime, is_link: true, is_file, ..made };
                Ok(Linked::Made(Box::new(made)))
            }
            Err(Errno::NOENT) => Ok(Linked::NotYet),
            Err(Errno::MLINK | Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP) => Ok(Linked::Never),
            Err(errno) => Err(FileError::new(Step::Link, errno)),
        }
    }

    /// Counts a name that has become a link. `is_redone`: an earlier run has copied it, and this one counts that. Returns whether it counts as a
    /// copied file.
    fn count_link(&mut self, kind: Kind, is_redone: bool) -> bool {
        let totals = &mut self.maker.results.totals;
        match kind {
            _ if !is_redone => totals.hard_links += 1,
            Kind::File => return true,
            Kind::Symlink => totals.symlinks += 1,
            _ => totals.specials += 1,
        }
        false
    }

    /// Metadata of a linked copy, if the source's metadata is not enough. This is so if the copy is read back, or if the source reports a
    /// size of zero, which may be wrong.
    fn linked_copy(&self, known: &OwnedFd, key: &CStr, metadata: &Metadata) -> Option<Metadata> {
        let is_wanted =
            metadata.kind() == Kind::File && (self.maker.target.options.verify || metadata.size == 0);
        if is_wanted { sys::stat_at(known, key, false).ok() } else { None }
    }

    /// Keeps an existing file as the copy of a source with this metadata. Other names then become links of it. Returns false if the name
    /// leads to another file by now, or if another copy is kept already.
    pub(crate) fn keep_linked(
        &self,
        metadata: &Metadata,
        to: &Place<'_>,
        found: Identity,
    ) -> Result<bool, FileError> {
        let target = self.maker.target;
        let known = match target.private.links() {
            Ok(known) if !to.mirror.is_mounted() => known,
            _ => return Ok(false),
        };
        let key = key(metadata);
        let Some(claim) = claim(known, metadata, target.seat.rank)? else { return Ok(false) };
        let link = || rustix::fs::linkat(&to.directory, to.name, known, &key, AtFlags::empty());
        let is_linked = retry(link).is_ok();
        let is_it = || sys::stat_at(known, &key, false).is_ok_and(|now| (now.device, now.inode) == found);
        if is_linked && is_it() {
            let trust = self.trust_in(to.mirror, known);
            keep_known(claim, &Known { trust, ..Known::new(metadata, target.stores.failed_syncs(), None) })?;
            return Ok(true);
        }
        drop(claim);
        forget_link(known, &key).map_err(|errno| FileError::new(Step::Link, errno))?;
        Ok(false)
    }

    /// Reads the record of a complete copy. `None`: the copy is not complete.
    fn known_of(&self, known: &OwnedFd, key: &CStr) -> Result<Option<Known>, FileError> {
        let target = self.maker.target;
        let Claim::Complete(found) =
            read_claim(known, key).map_err(|errno| FileError::new(Step::Link, errno))?
        else {
            return Ok(None);
        };
        Ok(Some(Known {
            // With several ranks, the maker has synced the copy with its own `fsync`.
            since: if target.seat.ranks > 1 { target.stores.failed_syncs() } else { found.since },
            digest: found.digest.filter(|_| target.options.digest),
            ..found
        }))
    }

    /// Whether a file is being copied.
    pub(crate) fn is_copied(&self, key: &CStr) -> bool {
        let known = self.maker.target.private.opened_links();
        let is_claimed = |known| matches!(read_claim(known, key), Ok(Claim::Copying(_)));
        self.links.copying.has(key) || known.is_some_and(is_claimed)
    }

    /// Links a name that had to wait. Copies the file if its maker has failed.
    pub(crate) fn link_deferred(&mut self, deferred: &Deferred) -> Result<Made, FileError> {
        let Deferred { at, mirror, metadata, name, .. } = deferred;
        let target = self.maker.target;
        let directory = mirror.target.descriptor(&mut self.maker.scratch.held, target.features);
        let directory = directory.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        let to = &Place { mirror, directory, name, slice: None };
        if let Some(known) = target.private.opened_links()
            && let Linked::Made(made) = self.link(known, metadata, (at, to))?
        {
            return Ok(*made);
        }
        self.maker.results.totals.not_kept.hard_links += 1;
        self.maker.with_source(at, |maker, from| maker.single(Item { at, from, to, metadata }))
    }
}

/// How often to look for the number of the rank that has just made a claim.
const LOOKS: u32 = 2000;

/// The rank that copies a file; `None`: the copy has ended, or the rank cannot be found out.
fn maker_of(known: &OwnedFd, key: &CStr) -> Option<u32> {
    for _ in 0..LOOKS {
        match read_claim(known, key) {
            Ok(Claim::Copying(None)) => std::thread::sleep(std::time::Duration::from_millis(1)),
            Ok(Claim::Copying(rank)) => return rank,
            Ok(Claim::None | Claim::Complete(_)) | Err(_) => return None,
        }
    }
    None
}

impl Maker<'_> {
    /// Makes a copy that has only one name.
    pub(crate) fn single(&mut self, item: Item<'_>) -> Result<Made, FileError> {
        match item.metadata.kind() {
            Kind::File => self.file(item),
            _ => self.named(item, None),
        }
    }

    /// Makes a copy of its own for one of several names, and counts that.
    fn unlinked(&mut self, item: Item<'_>) -> Result<Made, FileError> {
        self.results.totals.not_kept.hard_links += 1;
        self.single(item)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Arc;

    use atta_testkit::scratch::Scratch;
    use rustix::fs::{Mode, OFlags};

    use super::*;
    use crate::copy::links::claims::claim_of;
    use crate::copy::links::ranks::LinkTask;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::Options;
    use crate::copy::target::mirror::Location;
    use crate::copy::{Copy, Seat};
    use crate::tree::operation::Handler as _;

    #[test]
    fn copy_with_the_same_inode_number_is_not_linked() {
        let scratch = Scratch::new("links").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::create_dir(&source).unwrap();
        fs::write(source.join("a"), "a").unwrap();
        fs::hard_link(source.join("a"), source.join("b")).unwrap();
        let (sources, options) = ([source.as_os_str().as_bytes().to_vec()], Options::default());
        for is_other in [false, true] {
            let path = target.as_os_str().as_bytes();
            let copy = Copy::prepare(&sources, path, &options, &NothingFails, Seat::alone()).unwrap();
            let known = copy.operation.target.private.links().unwrap();
            let mut metadata = sys::stat_path(source.join("a").as_os_str().as_bytes(), false).unwrap();
            let key = key(&metadata);
            let flags = OFlags::WRONLY | OFlags::CREATE;
            let make = |name: &CStr| rustix::fs::openat(known, name, flags, Mode::RUSR | Mode::WUSR).unwrap();
            rustix::io::write(make(&key), b"other").unwrap();
            metadata.size += u64::from(is_other);
            keep_known(make(&claim_of(&key)), &Known::new(&metadata, 0, None)).unwrap();
            let totals = copy.run_alone(|_| {}).totals;
            assert_eq!(
                (totals.hard_links, totals.not_kept.hard_links),
                if is_other { (0, 2) } else { (2, 0) }
            );
            for name in ["a", "b"] {
                let found = fs::read_to_string(target.join(name)).unwrap();
                assert_eq!(found, if is_other { "a" } else { "other" }, "the key alone tells nothing");
                fs::remove_file(target.join(name)).unwrap();
            }
            fs::remove_dir(&target).unwrap();
        }
    }

    /// A name whose file another thread or rank is copying waits, and is not copied on its own.
    #[test]
    fn name_of_a_file_that_is_being_copied_waits() {
        let scratch = Scratch::new("links-wait").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::write(&source, "a").unwrap();
        fs::hard_link(&source, scratch.join("other")).unwrap();
        let (sources, options) = ([source.as_os_str().as_bytes().to_vec()], Options::default());
        let path = target.as_os_str().as_bytes();
        let seat = Seat { ranks: 4, ..Seat::alone() };
        let copy = Copy::prepare(&sources, path, &options, &NothingFails, seat).unwrap();
        let operation = &copy.operation;
        let known = operation.target.private.links().unwrap();
        let metadata = &sys::stat_path(&sources[0], false).unwrap();
        let (key, mut worker) = (key(metadata), operation.worker(0));
        let root = operation.target.roots.find(&sources[0]).unwrap();
        let directory = Arc::clone(&operation.target.top.directory);
        let to = Place { mirror: &root.parent, directory, name: &root.name, slice: None };
        let name = CString::new(&*sources[0]).unwrap();
        let from = Source { directory: rustix::fs::CWD, name: &name };
        let item = Item { at: &Location::Root(sources[0].clone()), from, to: &to, metadata };
        let mut linker = operation.linker(&mut worker);
        let due = |linker: &Linker<'_>| operation.links.take_due(|key| linker.is_copied(key)).len();

        // A thread of this rank is at it, before and after it has made the claim.
        assert!(operation.links.copying.begin(&key));
        assert_eq!(linker.linked(item).unwrap().map(|made| made.bytes), None);
        assert!(operation.links.are_due());
        assert_eq!(due(&linker), 0);
        let claimed = claim(known, metadata, 0).unwrap().unwrap();
        operation.links.copying.end(&key);
        assert_eq!((due(&linker), operation.links.are_due()), (0, false));
        // The copy is given up.
        drop(claimed);
        forget_link(known, &key).unwrap();
        operation.links.note_ended(&key);
        assert!(operation.links.are_due());
        assert_eq!(due(&linker), 1);

        // Another rank is at it.
        let claimed = claim(known, metadata, 3).unwrap().unwrap();
        assert_eq!(linker.linked(item).unwrap().map(|made| made.bytes), None);
        let asked = LinkTask::Wait { key: key.clone(), from: 0 };
        assert_eq!(operation.links.copying.take_out(), [(3, asked)]);
        assert_eq!(due(&linker), 0);
        keep_known(claimed, &Known::new(metadata, 0, None)).unwrap();
        operation.links.note_ended(&key);
        assert_eq!(due(&linker), 1);
    }
}
