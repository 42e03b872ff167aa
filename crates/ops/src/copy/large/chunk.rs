//! How a chunk of a large file is copied, and what happens to the copy when all of its chunks are. It does not hand out chunks, and reports
//! no failures.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags};

use crate::copy::commit::Committer;
use crate::copy::commit::batch::Ready;
use crate::copy::commit::checks::{Check, Expected};
use crate::copy::commit::pending::PendingFile;
use crate::copy::commit::stores::SyncRule;
use crate::copy::large::{Key, Large, LargeCopy};
use crate::copy::target::Maker;
use crate::copy::target::mirror::Mirror;
use crate::copy::target::place::{Place, remove};
use crate::digest::{Piece, PieceValue};
use crate::file::direct::bypass_cache;
use crate::file::error::{FileError, Step};
use crate::file::mover::{Mover, Pass};
use crate::file::retries::{ask_close, close};
use crate::file::source::{Source, is_same, look, open};
use crate::file::version::Version;
use crate::large::ChunkRange;
use crate::metadata::give::{self, SourceAttributes};
use crate::tree::progress::Live;
use atta_entry::Errno;
use atta_sys::{self as sys, retry};

/// Copies chunks, on one thread.
pub(crate) struct ChunkCopier<'w> {
    pub(crate) maker: Maker<'w>,
    pub(crate) live: &'w Live,
}

impl ChunkCopier<'_> {
    /// Copies a chunk of a file of this rank.
    pub(crate) fn copy(&mut self, large: &Large, range: Range<u64>) -> Result<Option<PieceValue>, FileError> {
        self.mover().is_shared = large.busy.fetch_add(1, Ordering::Relaxed) > 0;
        let result = self.copy_range([large.source.as_fd(), large.file.as_fd()], range, &large.key);
        large.busy.fetch_sub(1, Ordering::Relaxed);
        self.mover().is_shared = false;
        result
    }

    /// Copies the first chunk of these, of a file that another rank planned. The chunk is durable before the planning rank is notified,
    /// because that rank's sync would not cover it.
    pub(crate) fn copy_for_another(
        &mut self,
        from: Source<'_>,
        (mirror, name): (&Arc<Mirror>, &CStr),
        chunks: &ChunkRange<Key>,
    ) -> Result<Option<PieceValue>, FileError> {
        let target = self.maker.target;
        let (source, Key { version, temporary, .. }) = (open(from)?, &chunks.key);
        if !version.is_of_source(&look(&source)?) {
            return Err(FileError::Changed);
        }
        let to = self.maker.place(mirror, name)?;
        let failed = |errno| FileError::new(Step::Write, errno);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = retry(|| rustix::fs::openat(&to.directory, temporary, flags, Mode::empty()));
        let file = file.map_err(failed)?;
        if sys::stat_descriptor(&file).map_err(failed)?.inode != version.inode {
            return Err(failed(Errno::STALE));
        }
        // If the cache cannot be bypassed, the planning rank has counted that already.
        if target.options.direct {
            let _ = bypass_cache(&source, &file, version.size, version.has_holes);
        }
        let value = self.copy_range([source.as_fd(), file.as_fd()], chunks.range(), &chunks.key)?;
        // The planning rank may get the metadata from a cache that does not know of a change yet.
        if !version.is_of_source(&look(&source)?) {
            return Err(FileError::Changed);
        }
        if target.stores.sync_rule(to.mirror) != SyncRule::Never {
            target.stores.sync_data(&file).map_err(|errno| FileError::new(Step::Sync, errno))?;
        }
        close(file)?;
        Ok(value)
    }

    fn mover(&mut self) -> &mut Mover {
        &mut self.maker.scratch.mover
    }

    fn copy_range(
        &mut self,
        [source, file]: [BorrowedFd<'_>; 2],
        range: Range<u64>,
        key: &Key,
    ) -> Result<Option<PieceValue>, FileError> {
        let Range { start, end } = range;
        let mut piece = key.is_hashed.then(|| Piece::at(start));
        let Version { has_holes, size, .. } = key.version;
        let pass = Pass { source, target: Some(file), has_holes, size, hasher: piece.as_mut() };
        let reached = self.mover().pass(pass, range)?;
        self.live.bytes.fetch_add(reached - start, Ordering::Relaxed);
        if reached < end {
            return Err(FileError::Changed);
        }
        Ok(piece.and_then(|piece| piece.value()))
    }
}

impl Maker<'_> {
    /// Checks that the source is unchanged once all chunks are done, and gives the copy its attributes. Otherwise removes the copy.
    pub(crate) fn check_and_give(&mut self, to: &Place<'_>, file: &LargeCopy) -> Result<(), FileError> {
        self.try_give(file).inspect_err(|_| remove(to, &file.own.made()))
    }

    fn try_give(&mut self, file: &LargeCopy) -> Result<(), FileError> {
        let (target, large) = (self.target, &file.own);
        if let Some(error) = file.chunks.error() {
            return Err(error);
        }
        let extended = self.extended(&large.source)?;
        if !is_same(&large.before, &look(&large.source)?) {
            return Err(FileError::Changed);
        }
        let copy = sys::stat_descriptor(&large.file);
        if copy.map_err(|errno| FileError::new(Step::LookAtCopy, errno))?.size != large.before.size {
            return Err(FileError::new(Step::LookAtCopy, Errno::IO));
        }
        let not_kept = &mut self.results.totals.not_kept;
        let attributes = SourceAttributes { metadata: &large.before, extended: &extended };
        give::give(&large.file, attributes, target.manner(), not_kept)?;
        // A file that is synced individually is closed after the sync.
        if target.stores.syncs_each_in(&large.mirror) { Ok(()) } else { ask_close(&large.file) }
    }
}

impl Committer<'_> {
    /// Counts a large file that has all its chunks and attributes, and gives it its final name when that is allowed.
    pub(crate) fn complete_large(&mut self, to: &Place<'_>, file: &LargeCopy) -> Result<(), FileError> {
        let (target, large) = (self.maker.target, &file.own);
        let (bytes, elapsed) = (large.before.size, large.began.elapsed());
        let has_noted_chunks = self.commit.noting.is_some();
        if target.stores.syncs_each_in(&large.mirror) {
            let copy =
                retry(|| rustix::io::dup(&large.file)).map_err(|errno| FileError::new(Step::Sync, errno));
            let copy = copy.inspect_err(|_| remove(to, &large.made()))?;
            let (at, mirror, name) = (file.at.clone(), Arc::clone(&large.mirror), large.name.clone());
            let temporary = Some(large.key.temporary.clone());
            let (identity, version) = (Some(large.identity), large.key.version);
            let (checks, part) = (self.checks_of(file), file.take_part());
            let pending = PendingFile {
                at,
                mirror,
                name,
                temporary,
                bytes,
                has_noted_chunks,
                elapsed,
                checks,
                identity,
                version,
                part,
            };
            self.sync_file(copy, pending);
            return Ok(());
        }
        target.failures.space.find();
        self.count_file(&file.at, bytes, elapsed);
        let names = Some((large.key.temporary.clone(), large.name.clone()));
        let (origin, mirror) = (file.at.clone(), Arc::clone(&large.mirror));
        let checks = self.checks_of(file);
        let (since, identity, part) = (large.since, Some(large.identity), file.take_part());
        let results = None;
        let ready = Ready { origin, mirror, names, bytes, has_noted_chunks, since, identity, part, results };
        self.publish(ready, checks);
        Ok(())
    }

    /// The read-back checks, one per chunk, so that several threads can do them.
    fn checks_of(&self, file: &LargeCopy) -> Vec<Check> {
        let large = &file.own;
        if !self.maker.target.options.verify {
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
}
