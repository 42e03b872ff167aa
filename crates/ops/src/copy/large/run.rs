//! Large files that threads of all ranks copy in chunks: how one is opened on both sides, how a chunk is copied, and how the copy is
//! completed. `crate::large` hands out the chunks.

use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use atta_entry::{Errno, Metadata};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};

use crate::copy::commit::batch::Ready;
use crate::copy::commit::checks::{Check, Expected};
use crate::copy::commit::pending::{PendingFile, SyncRule};
use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::large::{Key, Large};
use crate::copy::target::mirror::{Here, Location, Mirror, Tasks};
use crate::copy::target::place::{Made, Place, remove};
use crate::digest::{Element, HOLE_BYTES_MAX, Piece, PieceValue};
use crate::file::chunks::Cut;
use crate::file::direct::bypass_cache;
use crate::file::error::{FileError, Step};
use crate::file::holes::{self, may_have_holes};
use crate::file::mover::Pass;
use crate::file::retries::{ask_close, close};
use crate::file::source::{Identity, Source, identity_of, is_same, look, open, settled};
use crate::file::version::Version;
use crate::large::{
    self, ChunkId, ChunkRange, ChunkResult, Chunked, Completion, Cuttable, LargeFiles, LargeOf, Plan,
};
use crate::metadata::give::{self, SourceAttributes};
use crate::tree::location::below;
use crate::tree::operation::Cx;
use atta_sys::{self as sys, retry};

/// A copy that exists under a temporary name.
struct Begun {
    identity: Identity,
    /// Whether it shares the bytes of its source.
    is_cloned: bool,
}

impl Copying<'_> {
    /// Whether a file is copied in chunks.
    pub(crate) fn is_large(&self, metadata: &Metadata) -> bool {
        let is_alone = metadata.nlink == 1 || !self.options.keep.links;
        // Only one thread writes into an existing file.
        is_alone && !self.options.in_place && self.how_to_cut().is_large(metadata.size)
    }

    fn how_to_cut(&self) -> Cut {
        Cut::new(self.options.chunk, &self.options.walk, self.seat.ranks).at_rate(self.live.rate())
    }

    /// Leaves a large file to the next idle thread.
    pub(crate) fn plan_later(&self, here: Option<Here<'_>>, name: &[u8], bytes: u64, tasks: &mut Tasks) {
        self.live.large_found.fetch_add(bytes, Ordering::Relaxed);
        large::plan_later::<Self>(Plan::first(name, bytes), here, tasks);
    }

    /// Opens a file on both sides and cuts it into chunks.
    fn try_plan(&self, cx: &mut Cx<'_, Self>, at: &Location, plan: &Plan) -> Result<(), FileError> {
        let here = cx.here();
        let worker = &mut *cx.worker;
        let (from, mirror, own) = self.both_sides(here, &plan.name)?;
        let source = open(from)?;
        let before = settled(&source)?;
        if before.kind() != atta_entry::Kind::File {
            return Err(FileError::Changed);
        }
        let directory = here.map(|here| here.directory);
        let to = self.place_of(worker, directory, &mirror, &own)?;
        let to = to.within(here.and_then(|here| here.slice));
        if self.is_left(worker, from, &to, &before)? {
            return Ok(());
        }
        // If the stated size is not reliable, the end of a chunk is unknown.
        let is_stated = worker.mover.sizes.is_stated(&source, &before);
        let is_hashed = is_stated && self.is_hashed(&source, &before)?;
        let chunk = if is_stated { self.chunk_of(&source, &before, is_hashed)? } else { before.size };
        if before.size <= chunk || !self.large.has_room() {
            return self.copy_whole(worker, at, from, &to);
        }
        let layout = self.striping.layout_of(&source, &before);
        let since = self.batch.failures();
        let (file, temporary) = self.create_temporary(worker, &to, layout.as_deref())?;
        let begun = self.begin(worker, &source, &file, &before);
        let Begun { identity, is_cloned } =
            begun.inspect_err(|_| remove(&to, &Made::temporary(temporary.clone())))?;
        self.live.large_found.fetch_add(before.size, Ordering::Relaxed);
        let key = Key { is_hashed, version: Version::of_copy(&before, identity.1), temporary };
        let (mirror, began, busy) = (Arc::clone(&mirror), std::time::Instant::now(), AtomicUsize::new(0));
        let (at, part, is_again) = (at.clone(), to.part(), plan.is_again);
        let size = before.size;
        let own = Large { mirror, name: own, source, file, before, key, identity, began, busy, since };
        // A cloned file is one chunk that needs no further work.
        let chunk = if is_cloned { size } else { chunk };
        let cuttable = Cuttable { at, size, chunk, own, part, is_again };
        if is_cloned {
            self.live.bytes.fetch_add(size, Ordering::Relaxed);
            let all = self.insert(cuttable);
            self.end_chunk(cx, ChunkId { file: all.file, chunk: 0 }, Ok(None));
        } else {
            self.cut(cuttable, cx.tasks);
        }
        Ok(())
    }

    /// Chunk size of an open file, in bytes. Holes that are not hashed do not count as work.
    fn chunk_of(&self, source: &OwnedFd, before: &Metadata, is_hashed: bool) -> Result<u64, FileError> {
        let (cut, stop) = (self.how_to_cut(), &self.options.walk.stop);
        Ok(match is_hashed || !holes::exceed(source, before, HOLE_BYTES_MAX, stop)? {
            true => cut.chunk_of(before.size),
            false => cut.chunk_of_sparse(before.size, before.allocated_bytes()),
        })
    }

    /// Copies a file as a whole: one that is no longer large, is too small for its transfer rate, or exceeds the number of large files.
    fn copy_whole(
        &self,
        worker: &mut CopyWorker,
        at: &Location,
        from: Source<'_>,
        to: &Place<'_>,
    ) -> Result<(), FileError> {
        let made = self.file(worker, from, to)?;
        if self.options.digest {
            let (root, path) = at.root_and_path();
            let path = below(&path, root.len());
            self.sign(worker, path, atta_entry::Kind::File, &made);
        }
        self.complete(worker, at, to, atta_entry::Kind::File, made);
        Ok(())
    }

    /// Prepares a new file for its chunks, or clones it as a whole where it can share the bytes of its source.
    fn begin(
        &self,
        worker: &mut CopyWorker,
        source: &OwnedFd,
        file: &OwnedFd,
        before: &Metadata,
    ) -> Result<Begun, FileError> {
        let is_cloned = self.clone_bytes(worker, source, file, before)?;
        let has_holes = may_have_holes(before);
        if !is_cloned && self.options.direct && !bypass_cache(source, file, before.size, has_holes) {
            worker.totals.not_direct += 1;
        }
        // A default ACL of the directory may deny write access to the owner, and other ranks open the file by its name.
        let _ = retry(|| rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR));
        if has_holes {
            let cut = retry(|| rustix::fs::ftruncate(file, before.size));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        let found = sys::stat_descriptor(file).map_err(|errno| FileError::new(Step::Create, errno))?;
        Ok(Begun { identity: identity_of(&found), is_cloned })
    }

    /// A file's source, the mirror that its copy goes to, and its name there.
    fn both_sides<'h>(
        &self,
        here: Option<Here<'h>>,
        name: &'h CString,
    ) -> Result<(Source<'h>, Arc<Mirror>, CString), FileError> {
        let unknown = FileError::new(Step::Create, Errno::STALE);
        match here {
            Some(here) => {
                let mirror = Mirror::of(here.directory).ok_or(unknown)?;
                Ok((Source { directory: here.descriptor.as_fd(), name }, mirror, name.clone()))
            }
            None => {
                let root = self.roots.find(name.as_bytes()).ok_or(unknown)?;
                Ok((Source { directory: CWD, name }, Arc::clone(&root.parent), root.name.clone()))
            }
        }
    }

    fn move_chunk(
        &self,
        worker: &mut CopyWorker,
        [source, file]: [BorrowedFd<'_>; 2],
        range: Range<u64>,
        key: &Key,
    ) -> ChunkResult<Self> {
        let Range { start, end } = range;
        let mut piece = key.is_hashed.then(|| Piece::at(start));
        let Version { has_holes, size, .. } = key.version;
        let pass = Pass { source, target: Some(file), has_holes, size, hasher: piece.as_mut() };
        let reached = worker.mover.pass(pass, range)?;
        self.live.bytes.fetch_add(reached - start, Ordering::Relaxed);
        if reached < end {
            return Err(FileError::Changed);
        }
        Ok(piece.and_then(|piece| piece.value()))
    }

    /// Checks that the source is unchanged once all chunks are done, and publishes the copy.
    fn complete_large(&self, worker: &mut CopyWorker, file: &LargeOf<Self>) -> Result<(), FileError> {
        let large = &file.own;
        let to = self.place(worker, &large.mirror, &large.name)?;
        let complete = self.check_and_give(worker, file);
        if let Err(error) = complete {
            remove(&to, &large.made());
            return Err(error);
        }
        if self.options.digest && !large.key.is_hashed {
            self.count_not_hashed(worker);
        }
        if large.key.is_hashed {
            let (root, path) = file.at.root_and_path();
            let digest = file.chunks.digest().ok_or(FileError::Changed)?;
            let element = Element {
                path: below(&path, root.len()),
                kind: atta_entry::Kind::File,
                size: large.before.size,
                digest: Some(&digest),
                target: None,
            };
            worker.signature.add(&element);
        }
        let (bytes, elapsed) = (large.before.size, large.began.elapsed());
        if self.syncs_each_in(&large.mirror) {
            let copy =
                retry(|| rustix::io::dup(&large.file)).map_err(|errno| FileError::new(Step::Sync, errno));
            let copy = copy.inspect_err(|_| remove(&to, &large.made()))?;
            let (at, mirror, name) = (file.at.clone(), Arc::clone(&large.mirror), large.name.clone());
            let temporary = Some(large.key.temporary.clone());
            let (identity, version) = (Some(large.identity), large.key.version);
            let (checks, part) = (self.checks_of(file), file.take_part());
            let pending =
                PendingFile { at, mirror, name, temporary, bytes, elapsed, checks, identity, version, part };
            self.sync_file(worker, copy, pending);
            return Ok(());
        }
        self.room.find();
        self.count_file(worker, &file.at, bytes, elapsed);
        let names = Some((large.key.temporary.clone(), large.name.clone()));
        let (origin, mirror) = (file.at.clone(), Arc::clone(&large.mirror));
        let checks = self.checks_of(file);
        let (since, identity, part) = (large.since, Some(large.identity), file.take_part());
        let ready = Ready { origin, mirror, names, bytes, since, identity, part };
        self.publish(worker, ready, checks);
        Ok(())
    }

    /// The read-back checks, one per chunk, so that several threads can do them.
    fn checks_of(&self, file: &LargeOf<Self>) -> Vec<Check> {
        let large = &file.own;
        if !self.options.verify {
            return Vec::new();
        }
        let values = file.chunks.values().into_iter().enumerate();
        let atime = sys::stat_descriptor(&large.file).ok().map(|copy| copy.atime);
        let check = |(index, value): (usize, Option<PieceValue>)| {
            Some(Check {
                at: file.at.clone(),
                mirror: Arc::clone(&large.mirror),
                name: large.name.clone(),
                version: large.key.version,
                range: file.chunks.range(index as u64),
                expected: Expected::Piece(value?),
                has_names: false,
                atime,
                part: file.another_part(),
            })
        };
        values.filter_map(check).collect()
    }

    fn check_and_give(&self, worker: &mut CopyWorker, file: &LargeOf<Self>) -> Result<(), FileError> {
        let large = &file.own;
        if let Some(error) = file.chunks.error() {
            return Err(error);
        }
        let extended = self.extended(worker, &large.source)?;
        if !is_same(&large.before, &look(&large.source)?) {
            return Err(FileError::Changed);
        }
        let not_kept = &mut worker.totals.not_kept;
        let attributes = SourceAttributes { metadata: &large.before, extended: &extended };
        give::give(&large.file, attributes, self.manner(), not_kept)?;
        // A file that is synced individually is closed after the sync.
        if self.syncs_each_in(&large.mirror) { Ok(()) } else { ask_close(&large.file) }
    }
}

impl Chunked for Copying<'_> {
    type Key = Key;
    /// The value of the chunk, if digests are wanted.
    type Value = Option<PieceValue>;
    type Error = FileError;
    type File = Large;

    fn large(&self) -> &LargeFiles<Self> {
        &self.large
    }

    fn rank(&self) -> u32 {
        self.seat.rank
    }

    fn key(file: &Large) -> Key {
        file.key.clone()
    }

    fn plan(&self, cx: &mut Cx<'_, Self>, plan: &Plan) {
        let (at, planned) = match cx.opened() {
            Ok(here) => {
                let at = match here {
                    Some(here) => Location::In(Arc::clone(here.directory), plan.name.clone()),
                    None => Location::Root(plan.name.as_bytes().to_vec()),
                };
                let planned = self.try_plan(cx, &at, plan);
                (at, planned)
            }
            // The directory cannot be reached, so the failure is reported by name only.
            Err(errno) => {
                let failed = FileError::new(Step::Open, errno);
                (Location::Root(plan.name.as_bytes().to_vec()), Err(failed))
            }
        };
        if let Err(error) = planned {
            self.fail(cx.worker, &at, error);
        }
        // From here on its chunks count the remaining bytes.
        self.count_ended(plan.bytes);
    }

    fn process(&self, worker: &mut CopyWorker, file: &LargeOf<Self>, range: Range<u64>) -> ChunkResult<Self> {
        let large = &file.own;
        worker.mover.is_shared = large.busy.fetch_add(1, Ordering::Relaxed) > 0;
        let both = [large.source.as_fd(), large.file.as_fd()];
        let result = self.move_chunk(worker, both, range, &large.key);
        large.busy.fetch_sub(1, Ordering::Relaxed);
        worker.mover.is_shared = false;
        result
    }

    /// The chunk is durable before the planning rank is notified, because that rank's sync would not cover it.
    fn process_for_another(&self, cx: &mut Cx<'_, Self>, chunks: &ChunkRange<Key>) -> ChunkResult<Self> {
        let opened = cx.opened();
        let worker = &mut *cx.worker;
        let here = opened.map_err(|errno| FileError::new(Step::Open, errno))?;
        let (from, mirror, own) = self.both_sides(here, &chunks.name)?;
        let (source, Key { version, temporary, .. }) = (open(from)?, &chunks.key);
        if !version.is_of_source(&look(&source)?) {
            return Err(FileError::Changed);
        }
        let to = self.place(worker, &mirror, &own)?;
        let failed = |errno| FileError::new(Step::Write, errno);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = retry(|| rustix::fs::openat(&to.directory, temporary, flags, Mode::empty()));
        let file = file.map_err(failed)?;
        if sys::stat_descriptor(&file).map_err(failed)?.inode != version.inode {
            return Err(failed(Errno::STALE));
        }
        // If the cache cannot be bypassed, the planning rank has counted that already.
        if self.options.direct {
            let _ = bypass_cache(&source, &file, version.size, version.has_holes);
        }
        let value = self.move_chunk(worker, [source.as_fd(), file.as_fd()], chunks.range(), &chunks.key)?;
        // The planning rank may get the metadata from a cache that does not know of a change yet.
        if !version.is_of_source(&look(&source)?) {
            return Err(FileError::Changed);
        }
        if self.sync_rule(to.mirror) != SyncRule::Never {
            let synced = self.syncs.timed(|| retry(|| rustix::fs::fdatasync(&file)));
            synced.map_err(|errno| FileError::new(Step::Sync, errno))?;
        }
        close(file)?;
        Ok(value)
    }

    fn keep(&self, file: &LargeOf<Self>, chunk: u64, value: Option<PieceValue>) {
        file.chunks.set_value(chunk, value);
    }

    fn count_ended(&self, bytes: u64) {
        self.live.large_done.fetch_add(bytes, Ordering::Relaxed);
    }

    fn complete(&self, worker: &mut CopyWorker, file: &LargeOf<Self>, is_first: bool) -> Completion {
        match self.complete_large(worker, file) {
            Ok(()) => {}
            Err(error) if error.is_worth_another_copy() && is_first => {
                self.live.large_found.fetch_add(file.chunks.bytes(), Ordering::Relaxed);
                return Completion::Again;
            }
            Err(error) => self.fail(worker, &file.at, error),
        }
        worker.ended.extend(file.take_part());
        Completion::Complete
    }
}

impl Copying<'_> {
    /// Removes the copies that will not be completed.
    pub(crate) fn forget_large(&self, worker: &mut CopyWorker) {
        for file in self.large.take_all() {
            if let Ok(to) = self.place(worker, &file.own.mirror, &file.own.name) {
                remove(&to, &file.own.made());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_entry::Code as _;

    #[test]
    fn keys_of_other_ranks_name_temporary_files_only() {
        let key = |temporary: &std::ffi::CStr| {
            let version = Version::of_copy(&Metadata::default(), u64::MAX);
            Key { is_hashed: true, version, temporary: temporary.to_owned() }
        };
        let good = key(c".atta.0123456789ab");
        assert_eq!(Key::decode_all(&good.encoded()), Some(good));
        for bad in [key(c"../passwd"), key(c".atta./../../x"), key(c"passwd")] {
            assert_eq!(Key::decode_all(&bad.encoded()), None);
        }
    }
}
