//! The record of a copy that other names become links of, and its claim: see `links.rs` for the files. It makes no entry of the target.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use atta_entry::{Errno, Metadata};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::target::mirror::Location;
use crate::digest::Hash;
use crate::file::error::{FileError, Step};
use crate::file::retries::ask_close;
use crate::file::source::identity_of;
use crate::jobs::record::boot;
use atta_sys::{self as sys, retry};

/// Suffix of a claim's name.
const CLAIM: &[u8] = b".c";

/// What the maker of a copy records for the threads that link it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// How many syncs had failed when the copy was begun, as seen by the rank that made it.
    pub(crate) since: u64,
    /// How many names the source has.
    pub(crate) names: u64,
    /// Facts about the source. Its inode number is not enough: other hosts may give it to another file, and it may be reused later.
    pub(crate) source: [u64; SOURCE_FACTS],
    pub(crate) maker: MakerOf,
    pub(crate) trust: Trust,
    pub(crate) digest: Option<Hash>,
}

/// Whether a later run can trust a copy to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trust {
    /// A number of this start of the host, on which the copy is whole; 0: it is on storage.
    start: u64,
    /// The copy is on storage if a sync with a higher number is recorded; 0: none is.
    sync: u64,
}

impl Trust {
    pub(crate) const ON_STORAGE: Self = Self { start: 0, sync: 0 };

    /// For a copy that a sync with a higher number than this writes to storage.
    pub(crate) fn after_sync(sync: u64) -> Self {
        Self { start: this_start(), sync }
    }

    #[cfg(test)]
    pub(crate) fn of_another_start(sync: u64) -> Self {
        Self { start: this_start() ^ 2, sync }
    }

    /// `synced`: the last recorded sync. None: one has failed.
    fn holds(self, synced: Option<u64>) -> bool {
        self.is_on_storage(synced) || synced.is_some() && self.start == this_start()
    }

    /// Whether the copy is known to be on storage.
    fn is_on_storage(self, synced: Option<u64>) -> bool {
        self.start == 0 || synced.is_some_and(|synced| (1..synced).contains(&self.sync))
    }
}

/// Who made a copy, if the job has a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MakerOf {
    /// The run of the job; 0: it has no log.
    pub(crate) run: u64,
    /// A hash of the name that was copied. A later run that does that name again counts it as a copy, not as a link.
    pub(crate) name: u64,
}

impl MakerOf {
    /// For a name that a run copies or makes a link of. `run`: none, if the job has no log.
    pub(crate) fn of(run: Option<u32>, at: &Location) -> Self {
        let Some(run) = run else { return Self::default() };
        let hash = blake3::hash(&at.root_and_path().1);
        let name = hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Self { run: run.into(), name }
    }

    /// Whether an earlier run has copied this name.
    pub(crate) fn is_redone_by(&self, now: Self) -> bool {
        self.run > 0 && self.run < now.run && self.name == now.name
    }
}

/// Kind, size and modification time, as seconds and nanoseconds.
const SOURCE_FACTS: usize = 4;

pub(crate) fn facts_of(metadata: &Metadata) -> [u64; SOURCE_FACTS] {
    let Metadata { mode, size, mtime, .. } = *metadata;
    [u64::from(mode & 0o170_000), size, mtime.seconds.cast_unsigned(), u64::from(mtime.nanoseconds)]
}

impl Known {
    const NUMBERS: usize = 6 + SOURCE_FACTS;
    const MOST: usize = 8 * Self::NUMBERS + 32;

    /// For a source with this metadata that is copied now.
    pub(crate) fn new(metadata: &Metadata, since: u64, digest: Option<Hash>) -> Self {
        let (names, source) = (metadata.nlink.into(), facts_of(metadata));
        let (maker, trust) = (MakerOf::default(), Trust::after_sync(0));
        Self { since, names, source, maker, trust, digest }
    }

    /// Whether the copy is whole, as far as the last recorded sync says; none: one has failed.
    pub(crate) fn can_be_trusted(&self, synced: Option<u64>) -> bool {
        self.trust.holds(synced)
    }

    /// Whether the copy is whole, also after a power cut.
    pub(crate) fn is_on_storage(&self, synced: Option<u64>) -> bool {
        self.trust.is_on_storage(synced)
    }

    /// Made by this run under this name.
    pub(crate) fn made_by(self, maker: MakerOf) -> Self {
        Self { maker, ..self }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let MakerOf { run, name } = self.maker;
        let Trust { start, sync } = self.trust;
        let numbers = [self.since, self.names, run, name, start, sync].into_iter().chain(self.source);
        let mut bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        bytes.extend(self.digest.iter().flat_map(Hash::as_bytes));
        bytes
    }

    /// Returns `None` while the copy is not complete. A power cut may leave a record that has its length but zeros for bytes, which would say that the
    /// copy is on storage: no source is of kind 0.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, digest) = bytes.split_at_checked(8 * Self::NUMBERS)?;
        let mut numbers = numbers.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
        let (since, names) = (numbers.next()?, numbers.next()?);
        let maker = MakerOf { run: numbers.next()?, name: numbers.next()? };
        let trust = Trust { start: numbers.next()?, sync: numbers.next()? };
        let mut source = [0; SOURCE_FACTS];
        source.iter_mut().zip(numbers).for_each(|(fact, number)| *fact = number);
        let digest = digest.try_into().ok().map(Hash::from_bytes);
        (source[0] != 0).then_some(Self { since, names, source, maker, trust, digest })
    }
}

/// A number of this start of the kernel, never 0.
fn this_start() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    *START.get_or_init(|| {
        let hash = blake3::hash(boot().as_bytes());
        hash.as_bytes().first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes) | 1)
    })
}

/// What the claim of a copy says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// There is none.
    None,
    /// This rank is making the copy. None: it has not written its number yet.
    Copying(Option<u32>),
    Complete(Known),
}

/// Claims a file for this rank. `None`: another thread or rank has claimed it.
pub(crate) fn claim(known: &OwnedFd, metadata: &Metadata, rank: u32) -> Result<Option<OwnedFd>, FileError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = claim_of(&key(metadata));
    match retry(|| rustix::fs::openat(known, &name, flags, Mode::RUSR | Mode::WUSR)) {
        Ok(claim) => {
            let written = retry(|| rustix::io::pwrite(&claim, &rank.to_le_bytes(), 0));
            let written = written.map_err(|errno| FileError::new(Step::Link, errno));
            // Closing makes it visible to other clients of NFS.
            if let Err(error) = written.and_then(|_| ask_close(&claim)) {
                // Otherwise all other names would wait for it.
                let _ = rustix::fs::unlinkat(known, &name, AtFlags::empty());
                return Err(error);
            }
            Ok(Some(claim))
        }
        Err(Errno::EXIST) => Ok(None),
        Err(errno) => Err(FileError::new(Step::Create, errno)),
    }
}

/// Removes a copy and its claim from the links' directory. Returns how many names were removed.
pub(crate) fn forget_link(known: &OwnedFd, key: &CStr) -> Result<u64, Errno> {
    let mut removed = 0;
    for name in [key, &claim_of(key)] {
        match retry(|| rustix::fs::unlinkat(known, name, AtFlags::empty())) {
            Ok(()) => removed += 1,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(removed)
}

/// How many names a source has that its copy lacks.
pub(crate) fn names_elsewhere(known: &OwnedFd, key: &CStr) -> u64 {
    let (Ok(Claim::Complete(claimed)), Ok(copy)) = (read_claim(known, key), sys::stat_at(known, key, false))
    else {
        return 0;
    };
    // One of the copy's links is the one in the links' directory.
    (claimed.names + 1).saturating_sub(copy.nlink.into())
}

/// Links an open file into the links' directory under its key. An existing link under that key is accepted only if it is this file: then
/// the reply to the first request was lost.
pub(crate) fn link_key(file: &OwnedFd, known: &OwnedFd, key: &CStr) -> Result<(), Errno> {
    match sys::link_of(file, known, key) {
        Err(Errno::EXIST) => {
            let (own, there) = (sys::stat_descriptor(file)?, sys::stat_at(known, key, false)?);
            if identity_of(&own) == identity_of(&there) { Ok(()) } else { Err(Errno::EXIST) }
        }
        linked => linked,
    }
}

/// Writes the record of a copy before others can find the copy.
pub(crate) fn keep_known(claim: OwnedFd, known: &Known) -> Result<(), FileError> {
    let written = retry(|| rustix::io::pwrite(&claim, &known.to_bytes(), 0));
    // NFS makes the data visible to other clients on close.
    drop(claim);
    written.map(drop).map_err(|errno| FileError::new(Step::Link, errno))
}

/// Reads the claim of the copy with this key.
pub(crate) fn read_claim(known: &OwnedFd, key: &CStr) -> Result<Claim, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let claim = match retry(|| rustix::fs::openat(known, claim_of(key), flags, Mode::empty())) {
        Ok(claim) => claim,
        Err(Errno::NOENT) => return Ok(Claim::None),
        Err(errno) => return Err(errno),
    };
    let mut bytes = [0_u8; Known::MOST];
    let read = retry(|| rustix::io::pread(&claim, &mut bytes[..], 0))?;
    let bytes = &bytes[..read];
    let rank = || Claim::Copying(bytes.first_chunk().map(|rank| u32::from_le_bytes(*rank)));
    Ok(Known::from_bytes(bytes).map_or_else(rank, Claim::Complete))
}

/// Whether a name is a link of this copy.
pub(crate) fn is_there(known: &OwnedFd, key: &CStr, directory: &OwnedFd, name: &CStr) -> bool {
    let identity = |found: Metadata| (found.device, found.inode);
    let copy = sys::stat_at(known, key, false).map(identity);
    copy.is_ok() && copy == sys::stat_at(directory, name, false).map(identity)
}

/// The name of a copy in the links' directory.
pub(crate) fn key(metadata: &Metadata) -> CString {
    CString::new(format!("{:x}-{:x}", metadata.device, metadata.inode)).unwrap_or_default()
}

/// The key of a copy, from the name of the copy or of its claim.
pub(crate) fn key_of(name: &CStr) -> CString {
    let bytes = name.to_bytes();
    CString::new(bytes.strip_suffix(CLAIM).unwrap_or(bytes)).unwrap_or_default()
}

/// The name of the claim for a key.
pub(crate) fn claim_of(key: &CStr) -> CString {
    CString::new([key.to_bytes(), CLAIM].concat()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_claim_is_not_used() {
        let digest = Some(blake3::hash(b"copy"));
        let metadata = Metadata { mode: 0o100_644, nlink: 3, size: 5, ..Metadata::default() };
        let maker = MakerOf { run: 3, name: 9 };
        for known in [Known::new(&metadata, 7, digest), Known::new(&metadata, 8, None).made_by(maker)] {
            let bytes = known.to_bytes();
            assert_eq!(Known::from_bytes(&bytes[..40]), None);
            // Torn by a power cut: the length is there, the bytes are not.
            assert_eq!(Known::from_bytes(&vec![0; bytes.len()]), None);
            assert_eq!(Known::from_bytes(&bytes), Some(known));
        }
        assert_eq!(Known::from_bytes(b""), None);
    }
}
