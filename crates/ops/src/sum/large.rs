//! Large files, whose parts are hashed by threads of all ranks: how one is opened, how a chunk is hashed, and how the values of all become
//! the digest. `crate::large` hands out the chunks.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use atta_entry::{Entry, Kind, Metadata};

use super::Watch;
use super::handler::{Read, SumWorker, Summing, place};
use crate::digest::{Piece, PieceValue};
use crate::file::error::{FileError, Step};
use crate::file::mover::Way;
use crate::file::source::{Source, is_same, look, open, settled};
use crate::file::version::Version;
use crate::large::{ChunkRange, ChunkResult, Chunked, Completion, Cuttable, LargeFiles, LargeOf, Plan};
use crate::tree::location::Location;
use crate::tree::operation::Cx;
use atta_sys as sys;

/// A file whose chunks are being hashed.
#[derive(Debug)]
pub(crate) struct Large {
    source: OwnedFd,
    before: Metadata,
}

impl<W: Watch> Chunked for Summing<'_, W> {
    type Key = Version;
    /// The value of the chunk. None: the chunk is the whole file.
    type Value = Option<PieceValue>;
    type Error = FileError;
    type File = Large;

    fn large(&self) -> &LargeFiles<Self> {
        &self.large
    }

    fn rank(&self) -> u32 {
        self.seat.rank
    }

    fn key(file: &Large) -> Version {
        Version::of(&file.before)
    }

    fn plan(&self, cx: &mut Cx<'_, Self>, plan: &Plan) {
        // If its directory is unreachable, the error names the file alone.
        let (at, directory) = place(cx.here(), &plan.name);
        let planned = cx.opened().map_err(|errno| FileError::new(Step::Open, errno));
        let from = Source { directory, name: &plan.name };
        if let Err(error) = planned.and_then(|_| self.try_plan(cx, from, &at, plan.is_again)) {
            self.fail(cx.worker, &at, error);
        }
    }

    fn process(
        &self,
        worker: &mut SumWorker<W::Worker>,
        file: &LargeOf<Self>,
        range: Range<u64>,
    ) -> ChunkResult<Self> {
        self.hash_chunk(worker, file.own.source.as_fd(), range, &Self::key(&file.own))
    }

    fn process_for_another(&self, cx: &mut Cx<'_, Self>, chunks: &ChunkRange<Version>) -> ChunkResult<Self> {
        let here = cx.opened().map_err(|errno| FileError::new(Step::Open, errno))?;
        let (_, directory) = place(here, &chunks.name);
        let source = open(Source { directory, name: &chunks.name })?;
        if !chunks.key.is_of(&look(&source)?) {
            return Err(FileError::Changed);
        }
        let value = self.hash_chunk(cx.worker, source.as_fd(), chunks.range(), &chunks.key)?;
        // The planning rank may get the metadata from a cache that does not know of a change yet.
        if !chunks.key.is_of(&look(&source)?) {
            return Err(FileError::Changed);
        }
        Ok(value)
    }

    fn keep(&self, file: &LargeOf<Self>, chunk: u64, value: Option<PieceValue>) {
        file.chunks.set_value(chunk, value);
    }

    fn complete(
        &self,
        worker: &mut SumWorker<W::Worker>,
        file: &LargeOf<Self>,
        is_first: bool,
    ) -> Completion {
        match digest_of::<W>(file) {
            Ok(read) => self.add_at(worker, &file.at, &read),
            Err(FileError::Changed) if is_first => return Completion::Again,
            Err(error) => self.fail(worker, &file.at, error),
        }
        Completion::Complete
    }
}

impl<W: Watch> Summing<'_, W> {
    /// Opens a file and cuts it into chunks, or hashes it as a whole.
    fn try_plan(
        &self,
        cx: &mut Cx<'_, Self>,
        from: Source<'_>,
        at: &Location,
        is_again: bool,
    ) -> Result<(), FileError> {
        let worker = &mut *cx.worker;
        let source = open(from)?;
        let mut before = settled(&source)?;
        if before.kind() != Kind::File {
            return Err(FileError::Changed);
        }
        let (size, chunk) = (before.size, self.cut.chunk_of(before.size));
        let is_stated = worker.mover.sizes.is_stated(&source, &before);
        if size <= chunk || !is_stated || !self.large.has_room() {
            // The file is small by now, its size is unreliable, or too many large files are open.
            let read = self.read(worker, from)?;
            self.live.bytes.fetch_add(read.metadata.size, Ordering::Relaxed);
            self.add_at(worker, at, &read);
            return Ok(());
        }
        self.refuse_holes(&source, &before)?;
        if self.options.walk.birth_time {
            before.btime = sys::stat_of(&source).ok().and_then(|found| found.btime);
        }
        let at = at.clone();
        self.cut(Cuttable { at, size, chunk, own: Large { source, before }, part: None, is_again }, cx.tasks);
        Ok(())
    }

    fn hash_chunk(
        &self,
        worker: &mut SumWorker<W::Worker>,
        source: BorrowedFd<'_>,
        range: Range<u64>,
        version: &Version,
    ) -> ChunkResult<Self> {
        let mut piece = Piece::at(range.start);
        let Version { has_holes, size, .. } = *version;
        let way = Way { has_holes, size, hasher: Some(&mut piece) };
        let reached = worker.mover.hash(source, range.clone(), way)?;
        self.live.bytes.fetch_add(reached - range.start, Ordering::Relaxed);
        if reached < range.end { Err(FileError::Changed) } else { Ok(piece.value()) }
    }

    /// Reports a file by its location, after its entry is gone.
    fn add_at(&self, worker: &mut SumWorker<W::Worker>, at: &Location, read: &Read) {
        let mut path = Vec::new();
        let (root_bytes, name, depth) = match at {
            Location::Root(path) => (0, path.as_slice(), 0),
            Location::In(directory, name) => {
                (directory.path_into(&mut path), name.as_bytes(), directory.depth() + 1)
            }
            Location::Itself(_) | Location::Target(_) => return,
        };
        let entry = Entry {
            directory: &path,
            name,
            root_bytes,
            depth,
            kind: Kind::File,
            inode: read.metadata.inode,
            metadata: Some(&read.metadata),
            target: None,
        };
        self.add_file(worker, &entry, read);
    }
}

/// The digest of a file whose chunks have all ended, if the file is unchanged.
fn digest_of<W: Watch>(file: &LargeOf<Summing<'_, W>>) -> Result<Read, FileError> {
    if let Some(error) = file.chunks.error() {
        return Err(error);
    }
    if !is_same(&file.own.before, &look(&file.own.source)?) {
        return Err(FileError::Changed);
    }
    let digest = file.chunks.digest().ok_or(FileError::Changed)?;
    Ok(Read { metadata: file.own.before, digest })
}
