//! Large files that an earlier run of the job has begun: the copy goes on in the same file, with the chunks that are on storage. It copies no chunk.
//!
//! The log has the plan of a file, and each chunk with its value and the temporary name of the copy: chunks of another copy of the file do not
//! count.

use std::ffi::CStr;

use atta_entry::{Code as _, Errno, Kind};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::large::{Done, Key, Large};
use crate::copy::resume::noting::Noting;
use crate::copy::target::Target;
use crate::copy::target::existing::is_alike;
use crate::copy::target::mirror::Location;
use crate::copy::target::place::Item;
use crate::digest::PieceValue;
use crate::file::source::{Identity, identity_of};
use crate::large::By;
use crate::tree::journal::When;
use crate::tree::journal::earlier::BegunFile;
use crate::tree::listing::descriptor_cache::DescriptorCache;
use atta_sys::{self as sys, retry};

/// A copy that an earlier run has begun, opened.
pub(crate) struct Begun {
    pub(crate) file: OwnedFd,
    pub(crate) key: Key,
    pub(crate) identity: Identity,
    /// Bytes of a chunk.
    pub(crate) chunk: u64,
    pub(crate) done: Done,
    /// It has its final name and all its chunks: nothing is written to it.
    pub(crate) is_whole: bool,
}

/// What the log has of a chunk: a hash of the temporary name of the copy, and the value.
type ChunkNote = (u64, Option<PieceValue>);

/// What the log has of a plan: the key of the file, and the bytes of a chunk.
type PlanNote = (Key, u64);

/// Tells copies of a file apart: no temporary name is given twice in a job.
fn hash_of(temporary: &CStr) -> u64 {
    let hash = blake3::hash(temporary.to_bytes());
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The temporary name in a plan.
pub(crate) fn temporary_of(plan: &[u8]) -> Option<std::ffi::CString> {
    PlanNote::decode_all(plan).map(|(key, _)| key.temporary)
}

impl Noting<'_> {
    /// Notes that a large file is begun.
    pub(crate) fn planned(&self, at: &Location, key: &Key, chunk: u64) {
        let plan = (key.clone(), chunk).encoded();
        at.with_place(|directory, name| self.journal.note_planned(directory, name, &plan));
    }

    /// Notes a chunk of a large file that was copied by this run. One that another rank has copied is on storage.
    pub(crate) fn chunk(
        &self,
        (at, large): (&Location, &Large),
        (index, value, bytes): (u64, Option<PieceValue>, u64),
        by: By,
    ) {
        let note: ChunkNote = (hash_of(&large.key.temporary), value);
        let noted = at.with_place(|directory, name| {
            let when = if by == By::Another { When::Now } else { self.journal.when_done() };
            self.journal.note_chunk(directory, name, (index, &note.encoded()), when)
        });
        if noted == Some(When::WhenSynced) {
            self.count(bytes);
        }
    }
}

/// Opens the copy of a large file that an earlier run has begun. None: there is none that can be used; then it is removed.
pub(crate) fn begun_earlier(
    (target, noting): (&Target<'_>, Option<&Noting<'_>>),
    item: Item<'_>,
    is_hashed: bool,
) -> Option<Begun> {
    let noting = noting.filter(|_| target.is_resumed())?;
    let begun =
        item.at.with_place(|directory, name| noting.journal.earlier().take_begun(directory, name))??;
    let (key, chunk) = PlanNote::decode_all(&begun.plan)?;
    if !target.shared.namer.gave(key.temporary.as_bytes()) {
        return None;
    }
    let is_it = chunk > 0 && key.is_hashed == is_hashed && key.version.is_of_source(item.metadata);
    let done = if is_it { done_of(&begun, &key) } else { Done::new() };
    let has_all = is_it && done.len() as u64 == item.metadata.size.div_ceil(chunk);
    let opened = if is_it { open_begun(target, item, (&key, has_all)) } else { None };
    let Some((file, is_whole)) = opened else {
        let _ = rustix::fs::unlinkat(&item.to.directory, &key.temporary, AtFlags::empty());
        return None;
    };
    let identity = identity_of(&sys::stat_descriptor(&file).ok()?);
    Some(Begun { file, key, identity, chunk, done, is_whole })
}

/// Removes copies of large files that earlier runs have begun and that nobody goes on with: their sources are gone.
pub(crate) fn forget_begun(target: &Target<'_>, noting: &Noting<'_>, held: &mut DescriptorCache) {
    for begun in noting.journal.earlier().take_all_begun() {
        let Some(temporary) = temporary_of(&begun.file.plan) else { continue };
        if !target.shared.namer.gave(temporary.as_bytes()) {
            continue;
        }
        let Some(mirror) = target.mirror_of(begun.root, &begun.path) else { continue };
        if let Ok(directory) = mirror.target.descriptor(held, target.features) {
            let _ = rustix::fs::unlinkat(&directory, &temporary, AtFlags::empty());
        }
    }
}

/// The chunks of this copy.
fn done_of(begun: &BegunFile, key: &Key) -> Done {
    let own = hash_of(&key.temporary);
    let read = |(index, bytes): &(u64, Vec<u8>)| {
        let (copy, value) = ChunkNote::decode_all(bytes)?;
        (copy == own && value.is_some() == key.is_hashed).then_some((*index, value))
    };
    begun.chunks.iter().filter_map(read).collect()
}

/// Opens a copy that was begun. If it has its final name by now, and all its chunks, it gets its temporary name as well. Returns whether that is so.
fn open_begun(target: &Target<'_>, item: Item<'_>, (key, has_all): (&Key, bool)) -> Option<(OwnedFd, bool)> {
    let Item { to, metadata, .. } = item;
    let find = |name: &CStr| {
        let found = sys::stat_at(&to.directory, name, false).ok()?;
        let is_own = target.stores.own_uid(found.device).is_none_or(|own| own == found.uid);
        (found.inode == key.version.inode && found.kind() == Kind::File && is_own).then_some(found)
    };
    let is_named = find(&key.temporary).is_none();
    if is_named {
        let found = find(to.name).filter(|_| has_all && target.options.keep.times)?;
        // Another file may have the same inode by now, or somebody may have written to this one.
        if !is_alike(metadata, &found, target.stores.granularity(found.device)) {
            return None;
        }
        let (directory, none) = (&to.directory, AtFlags::empty());
        retry(|| rustix::fs::linkat(directory, to.name, directory, &key.temporary, none)).ok()?;
    }
    let open = |access| {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        retry(|| rustix::fs::openat(&to.directory, &key.temporary, flags, Mode::empty()))
    };
    let file = match open(OFlags::WRONLY) {
        // It has its mode already, and nothing is written to it.
        Err(Errno::ACCES) if has_all => open(OFlags::RDONLY),
        opened => opened,
    };
    let file = file.ok()?;
    let is_it = sys::stat_descriptor(&file).is_ok_and(|found| found.inode == key.version.inode);
    is_it.then_some((file, is_named || has_all))
}

#[cfg(test)]
mod tests {
    use atta_entry::Metadata;

    use super::*;
    use crate::digest::Piece;
    use crate::file::version::Version;

    #[test]
    fn chunks_of_another_copy_do_not_count() {
        let key = |temporary: &CStr| {
            let version = Version::of_copy(&Metadata::default(), 7);
            Key { is_hashed: true, version, temporary: temporary.to_owned() }
        };
        let value = |is_hashed: bool| {
            let mut piece = Piece::at(0);
            piece.update(&[1; 2048]);
            is_hashed.then(|| piece.value()).flatten()
        };
        let note = |temporary: &CStr, value: Option<PieceValue>| -> Vec<u8> {
            let note: ChunkNote = (hash_of(temporary), value);
            note.encoded()
        };
        let (own, other) = (c".atta.own", c".atta.other");
        assert!(value(true).is_some());
        let chunks = vec![
            (0, note(other, value(true))),
            (1, note(own, value(true))),
            (2, note(own, value(false))),
            (3, b"no note".to_vec()),
        ];
        let begun = BegunFile { plan: Vec::new(), chunks };
        let done: Vec<_> = done_of(&begun, &key(own)).into_keys().collect();
        assert_eq!(done, [1], "only a chunk of this copy that has its digest");
    }
}
