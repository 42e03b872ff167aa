//! Copies the first name of a file and links the others to that copy. What the files of the links' directory are: see `links.rs`.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError};

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::handler::Copying;
use crate::copy::links::Deferred;
use crate::copy::target::mirror::Location;
use crate::copy::target::place::{Made, Place, remove};
use crate::copy::target::special::read_link;
use crate::copy::thread::Worker;
use crate::digest::Hash;
use crate::file::error::{FileError, Step};
use crate::file::source::{Source, identity_of};
use crate::file::version::Version;
use crate::jobs;
use crate::metadata::inherited::open_private;
use atta_sys::{self as sys, retry};

/// Names read at once while the links' directory is removed.
const NAMES_AT_ONCE: usize = 4096;
/// Name of the links' directory in the job's private directory.
const LINKS: &CStr = c"links";
/// Suffix of a claim's name.
const CLAIM: &[u8] = b".c";

/// Result of an attempt to link.
enum Linked {
    Made(Box<Made>),
    /// There is no copy yet.
    NotYet,
    /// A link is not possible there.
    Never,
}

/// What the maker of a copy records for the threads that link it.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// How many syncs had failed when the copy was begun, as seen by the rank that made it.
    since: u64,
    /// How many names the source has.
    names: u64,
    /// Facts about the source. Its inode number is not enough: other hosts may give it to another file, and it may be reused later.
    source: [u64; SOURCE_FACTS],
    digest: Option<Hash>,
}

/// Kind, size and modification time, as seconds and nanoseconds.
const SOURCE_FACTS: usize = 4;

fn facts_of(metadata: &Metadata) -> [u64; SOURCE_FACTS] {
    let Metadata { mode, size, mtime, .. } = *metadata;
    [u64::from(mode & 0o170_000), size, mtime.seconds.cast_unsigned(), u64::from(mtime.nanoseconds)]
}

impl Known {
    const NUMBERS: usize = 2 + SOURCE_FACTS;
    const MOST: usize = 8 * Self::NUMBERS + 32;

    /// For a source with this metadata that is copied now.
    fn new(metadata: &Metadata, since: u64, digest: Option<Hash>) -> Self {
        Self { since, names: metadata.nlink.into(), source: facts_of(metadata), digest }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.since, self.names].into_iter().chain(self.source);
        let mut bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        bytes.extend(self.digest.iter().flat_map(Hash::as_bytes));
        bytes
    }

    /// Returns `None` while the copy is not complete.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, digest) = bytes.split_at_checked(8 * Self::NUMBERS)?;
        let mut numbers = numbers.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
        let (since, names) = (numbers.next()?, numbers.next()?);
        let mut source = [0; SOURCE_FACTS];
        source.iter_mut().zip(numbers).for_each(|(fact, number)| *fact = number);
        Some(Self { since, names, source, digest: digest.try_into().ok().map(Hash::from_bytes) })
    }
}

impl Copying<'_> {
    /// Makes one of several names. `None`: another thread or rank is copying the file, and the name is made later.
    pub(crate) fn linked(
        &self,
        worker: &mut Worker,
        at: &Location,
        from: Source<'_>,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<Option<Made>, FileError> {
        let known = match self.private() {
            Ok(known) if !to.mirror.is_mounted() => known,
            // A hard link cannot cross file systems.
            _ => {
                worker.results.totals.not_kept.hard_links += 1;
                return self.single(worker, from, to, metadata).map(Some);
            }
        };
        let key = key(metadata);
        match self.link(worker, known, metadata, to)? {
            Linked::Made(made) => return Ok(Some(*made)),
            Linked::Never => {
                worker.results.totals.not_kept.hard_links += 1;
                return self.single(worker, from, to, metadata).map(Some);
            }
            Linked::NotYet => {}
        }
        if self.defers_names() {
            self.defer(at, to, metadata);
            return Ok(None);
        }
        let Some(claim) = self.claim(known, metadata)? else {
            self.defer(at, to, metadata);
            return Ok(None);
        };
        let now = Known::new(metadata, self.batch.failures(), None);
        if metadata.kind() != Kind::File {
            let is_left = self.is_named_left_as(worker, (from, metadata), to, (known, &key))?;
            keep_known(claim, &now)?;
            if is_left {
                return Ok(None);
            }
            return self.named(worker, from, to, metadata, Some(&key)).map(Some);
        }
        if let Some(file) = self.mended(worker, from, to, metadata)? {
            keep_known(claim, &now)?;
            // Names that cannot be linked to it are copied instead.
            let _ = link_key(&file, known, &key);
            return Ok(None);
        }
        let made = self.file(worker, from, to)?;
        if let Some((file, _)) =
            made.file.as_ref().filter(|_| self.seat.ranks > 1 && self.waits_in(to.mirror))
        {
            // Another rank may rename a link of this file to its final name, and that rank's sync would not cover these bytes.
            if let Err(errno) = self.syncs.timed(|| retry(|| rustix::fs::fsync(file))) {
                remove(to, &made);
                return Err(FileError::new(Step::Sync, errno));
            }
        }
        if keep_known(claim, &Known { since: made.since, digest: made.digest, ..now }).is_err() {
            // The copy is good, but no other name will find it.
            worker.results.totals.not_kept.hard_links += 1;
            return Ok(Some(made));
        }
        // Link by descriptor: the name may lead to another file by now. Do not link if the source's name led to another file.
        let linked = match &made.file {
            Some((file, source)) if *source == (metadata.device, metadata.inode) => {
                link_key(file, known, &key)
            }
            _ => Err(Errno::STALE),
        };
        if linked.is_err() {
            worker.results.totals.not_kept.hard_links += 1;
        }
        Ok(Some(made))
    }

    /// Makes a name a link of a complete copy.
    fn link(
        &self,
        worker: &mut Worker,
        known: &OwnedFd,
        metadata: &Metadata,
        to: &Place<'_>,
    ) -> Result<Linked, FileError> {
        let key = &*key(metadata);
        let Some(Known { since, digest, source, .. }) = self.known_of(known, key)? else {
            return Ok(Linked::NotYet);
        };
        if source != facts_of(metadata) {
            return Ok(Linked::Never);
        }
        // Read the copy's target: the source's name may lead to something else by now.
        let target = (metadata.kind() == Kind::Symlink)
            .then(|| read_link(Source { directory: known.as_fd(), name: key }));
        let target = match target.transpose() {
            Err(FileError::Failed(_, Errno::NOENT)) => return Ok(Linked::NotYet),
            target => target?,
        };
        if self.is_linked(known, key, to)? {
            worker.results.totals.skipped += 1;
            return Ok(Linked::Made(Box::new(Made { is_link: true, target, ..Made::default() })));
        }
        let copy = self.linked_copy(known, key, metadata);
        let bytes = copy.map_or(metadata.size, |copy| copy.size);
        let atime = copy.map(|copy| copy.atime);
        let version = copy.filter(|_| self.options.verify).map(|copy| Version::of_copy(metadata, copy.inode));
        // Data left in doubt by a failed sync must not become visible together with its directory.
        let is_sure = since == self.batch.failures();
        let is_direct = to.is_direct() && is_sure;
        let temporary = (!is_direct).then(|| self.shared.namer.of_file(worker.scratch.index));
        let name = temporary.as_deref().unwrap_or(to.name);
        match retry(|| rustix::fs::linkat(known, key, &to.directory, name, AtFlags::empty())) {
            Err(Errno::EXIST) if !is_there(known, key, &to.directory, name) => Ok(Linked::Never),
            // The link exists already if a directory lists a name twice, or if the reply to the first request was lost.
            Ok(()) | Err(Errno::EXIST) => {
                worker.results.totals.hard_links += 1;
                let copy = temporary.as_ref().and_then(|_| sys::stat_at(known, key, false).ok());
                let identity = copy.as_ref().map(identity_of);
                let made = Made { temporary, bytes, digest, since, target, identity, ..Made::default() };
                let made = Made { version, atime, is_link: true, ..made };
                Ok(Linked::Made(Box::new(made)))
            }
            Err(Errno::NOENT) => Ok(Linked::NotYet),
            Err(Errno::MLINK | Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP) => Ok(Linked::Never),
            Err(errno) => Err(FileError::new(Step::Link, errno)),
        }
    }

    /// Metadata of a linked copy, if the source's metadata is not enough. This is so if the copy is read back, or if the source reports a
    /// size of zero, which may be wrong.
    fn linked_copy(&self, known: &OwnedFd, key: &CStr, metadata: &Metadata) -> Option<Metadata> {
        let is_wanted = metadata.kind() == Kind::File && (self.options.verify || metadata.size == 0);
        if is_wanted { sys::stat_at(known, key, false).ok() } else { None }
    }

    /// Keeps an existing file as the copy of a source with this metadata. Other names then become links of it. Returns false if the name
    /// leads to another file by now, or if another copy is kept already.
    pub(crate) fn keep_linked(
        &self,
        known: &OwnedFd,
        metadata: &Metadata,
        to: &Place<'_>,
        found: (u64, u64),
    ) -> Result<bool, FileError> {
        let key = key(metadata);
        let Some(claim) = self.claim(known, metadata)? else { return Ok(false) };
        let link = || rustix::fs::linkat(&to.directory, to.name, known, &key, AtFlags::empty());
        let is_linked = retry(link).is_ok();
        let is_it = || sys::stat_at(known, &key, false).is_ok_and(|now| (now.device, now.inode) == found);
        if is_linked && is_it() {
            keep_known(claim, &Known::new(metadata, self.batch.failures(), None))?;
            return Ok(true);
        }
        drop(claim);
        forget_link(known, &key).map_err(|errno| FileError::new(Step::Link, errno))?;
        Ok(false)
    }

    /// Reads the record of a complete copy. `None`: the copy is not complete.
    fn known_of(&self, known: &OwnedFd, key: &CStr) -> Result<Option<Known>, FileError> {
        let found = read_claim(known, key).map_err(|errno| FileError::new(Step::Link, errno))?;
        Ok(found.map(|found| Known {
            // With several ranks, the maker has synced the copy with its own `fsync`.
            since: if self.seat.ranks > 1 { self.batch.failures() } else { found.since },
            digest: found.digest.filter(|_| self.options.digest),
            ..found
        }))
    }

    /// Claims a file for this thread. `None`: another thread or rank has claimed it.
    fn claim(&self, known: &OwnedFd, metadata: &Metadata) -> Result<Option<OwnedFd>, FileError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = claim_of(&key(metadata));
        match retry(|| rustix::fs::openat(known, &name, flags, Mode::RUSR | Mode::WUSR)) {
            Ok(claim) => Ok(Some(claim)),
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(FileError::new(Step::Create, errno)),
        }
    }

    /// Links a name that had to wait. Copies the file if its maker has failed.
    pub(crate) fn link_deferred(&self, worker: &mut Worker, deferred: &Deferred) -> Result<Made, FileError> {
        let Deferred { at, mirror, metadata, name, .. } = deferred;
        let directory = mirror.target.descriptor(&mut worker.scratch.held, self.features);
        let directory = directory.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        let to = Place { mirror, directory, name, slice: None };
        if let Some(Ok(known)) = self.links.directory.get()
            && let Linked::Made(made) = self.link(worker, known, metadata, &to)?
        {
            return Ok(*made);
        }
        worker.results.totals.not_kept.hard_links += 1;
        self.with_source(worker, at, |worker, from| self.single(worker, from, &to, metadata))
    }

    /// The links' directory. Other users cannot access it.
    pub(crate) fn private(&self) -> Result<&OwnedFd, Errno> {
        self.links.directory.get_or_init(|| self.links_directory()).as_ref().map_err(|errno| *errno)
    }

    fn links_directory(&self) -> Result<OwnedFd, Errno> {
        let own_uid = self.stores.own_uid(self.top_identity.0);
        self.with_own_directory(|own| {
            let made = retry(|| rustix::fs::mkdirat(own, LINKS, Mode::RWXU));
            let opened = match made {
                Ok(()) | Err(Errno::EXIST) => open_private(own, LINKS, own_uid, self.features)?,
                Err(errno) => return Err(errno),
            };
            // Another rank has made it first, or the reply to the first request was lost.
            if made.is_err() && self.seat.ranks == 1 && !sys::names_of(&opened, 1)?.is_empty() {
                return Err(Errno::EXIST);
            }
            Ok(opened)
        })
    }

    /// Calls `act` with the job's private directory.
    fn with_own_directory<T>(&self, act: impl FnOnce(&OwnedFd) -> Result<T, Errno>) -> Result<T, Errno> {
        if self.seat.rank > 0 {
            let own_uid = self.stores.own_uid(self.top_identity.0);
            return act(&jobs::open_of_another_rank(&self.top, &self.shared.namer, own_uid)?);
        }
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        act(job.as_ref().and_then(jobs::Job::directory).ok_or(Errno::ACCES)?)
    }

    /// Removes the links' directory, whichever rank made it, on this many threads. Returns how many names of copied files were outside
    /// the copy.
    pub(crate) fn forget_links(&self, threads: usize) -> Result<u64, Errno> {
        let others = || {
            let opened = || self.with_own_directory(|own| sys::open_directory_at(own, LINKS)).ok();
            (self.seat.ranks > 1).then(opened).flatten()
        };
        let found = match self.links.directory.get() {
            Some(Ok(_)) => None,
            Some(Err(_)) | None => others(),
        };
        let own = self.links.directory.get().and_then(|directory| directory.as_ref().ok());
        let Some(known) = own.or(found.as_ref()) else { return Ok(0) };
        let mut elsewhere = 0;
        loop {
            let names = sys::names_of(known, NAMES_AT_ONCE)?;
            if names.is_empty() {
                break;
            }
            let keys: BTreeSet<_> = names.iter().map(|name| key_of(name)).collect();
            let gone = forget_all(known, &keys.into_iter().collect::<Vec<_>>(), threads)?;
            elsewhere += gone.elsewhere;
            if gone.removed == 0 {
                // Names are listed but do not exist: removing the directory reports the error.
                break;
            }
        }
        let removed = |own: &OwnedFd| retry(|| rustix::fs::unlinkat(own, LINKS, AtFlags::REMOVEDIR));
        match self.with_own_directory(removed) {
            // The reply to the first request was lost.
            Ok(()) | Err(Errno::NOENT) => Ok(elsewhere),
            Err(errno) => Err(errno),
        }
    }
}

/// Result of removing a part of the links' directory.
#[derive(Default)]
struct Gone {
    removed: u64,
    /// How many names the sources have that their copies lack.
    elsewhere: u64,
}

/// Removes the copies with these keys, and their claims, from the links' directory.
fn forget_all(known: &OwnedFd, keys: &[CString], threads: usize) -> Result<Gone, Errno> {
    let (removed, elsewhere, failed) = (AtomicU64::new(0), AtomicU64::new(0), OnceLock::new());
    let forget = |key: &CString| {
        let gone = forget_link(known, key)?;
        removed.fetch_add(gone.removed, Ordering::Relaxed);
        elsewhere.fetch_add(gone.elsewhere, Ordering::Relaxed);
        Ok(())
    };
    std::thread::scope(|scope| {
        for part in keys.chunks(keys.len().div_ceil(threads.max(1)).max(1)) {
            scope.spawn(|| {
                if let Err(errno) = part.iter().try_for_each(&forget) {
                    let _ = failed.set(errno);
                }
            });
        }
    });
    match failed.into_inner() {
        Some(errno) => Err(errno),
        None => Ok(Gone { removed: removed.into_inner(), elsewhere: elsewhere.into_inner() }),
    }
}

fn forget_link(known: &OwnedFd, key: &CStr) -> Result<Gone, Errno> {
    let claimed = read_claim(known, key).ok().flatten();
    let copy = sys::stat_at(known, key, false).ok();
    let mut gone = Gone::default();
    for name in [key, &claim_of(key)] {
        match retry(|| rustix::fs::unlinkat(known, name, AtFlags::empty())) {
            Ok(()) => gone.removed += 1,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    // One of the copy's links was the one in the links' directory.
    let missing = |(claimed, copy): (Known, Metadata)| (claimed.names + 1).saturating_sub(copy.nlink.into());
    gone.elsewhere = claimed.zip(copy).map_or(0, missing);
    Ok(gone)
}

/// Links an open file into the links' directory under its key. An existing link under that key is accepted only if it is this file: then
/// the reply to the first request was lost.
fn link_key(file: &OwnedFd, known: &OwnedFd, key: &CStr) -> Result<(), Errno> {
    match sys::link_of(file, known, key) {
        Err(Errno::EXIST) => {
            let (own, there) = (sys::stat_descriptor(file)?, sys::stat_at(known, key, false)?);
            if identity_of(&own) == identity_of(&there) { Ok(()) } else { Err(Errno::EXIST) }
        }
        linked => linked,
    }
}

/// Writes the record of a copy before others can find the copy.
fn keep_known(claim: OwnedFd, known: &Known) -> Result<(), FileError> {
    let written = retry(|| rustix::io::pwrite(&claim, &known.to_bytes(), 0));
    // NFS makes the data visible to other clients on close.
    drop(claim);
    written.map(drop).map_err(|errno| FileError::new(Step::Link, errno))
}

/// Reads the record of the copy with this key. `None`: the copy is not complete.
fn read_claim(known: &OwnedFd, key: &CStr) -> Result<Option<Known>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let claim = match retry(|| rustix::fs::openat(known, claim_of(key), flags, Mode::empty())) {
        Ok(claim) => claim,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let mut bytes = [0_u8; Known::MOST];
    let read = retry(|| rustix::io::pread(&claim, &mut bytes[..], 0))?;
    Ok(Known::from_bytes(&bytes[..read]))
}

/// Whether a name is a link of this copy.
fn is_there(known: &OwnedFd, key: &CStr, directory: &OwnedFd, name: &CStr) -> bool {
    let identity = |found: Metadata| (found.device, found.inode);
    let copy = sys::stat_at(known, key, false).map(identity);
    copy.is_ok() && copy == sys::stat_at(directory, name, false).map(identity)
}

/// The name of a copy in the links' directory.
fn key(metadata: &Metadata) -> CString {
    CString::new(format!("{:x}-{:x}", metadata.device, metadata.inode)).unwrap_or_default()
}

/// The key of a copy, from the name of the copy or of its claim.
fn key_of(name: &CStr) -> CString {
    let bytes = name.to_bytes();
    CString::new(bytes.strip_suffix(CLAIM).unwrap_or(bytes)).unwrap_or_default()
}

/// The name of the claim for a key.
fn claim_of(key: &CStr) -> CString {
    CString::new([key.to_bytes(), CLAIM].concat()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use atta_testkit::scratch::Scratch;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::Options;
    use crate::copy::{Copy, Seat};

    #[test]
    fn incomplete_claim_is_not_used() {
        let digest = Some(blake3::hash(b"copy"));
        let metadata = Metadata { mode: 0o100_644, nlink: 3, size: 5, ..Metadata::default() };
        for known in [Known::new(&metadata, 7, digest), Known::new(&metadata, 8, None)] {
            let bytes = known.to_bytes();
            assert_eq!(Known::from_bytes(&bytes[..40]), None);
            assert_eq!(Known::from_bytes(&bytes), Some(known));
        }
        assert_eq!(Known::from_bytes(b""), None);
    }

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
            let known = copy.copying.private().unwrap();
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
}
