//! Large files, whose parts are hashed by threads of all ranks: how one is opened, how a chunk is hashed, and how the values of all become
//! the digest. `crate::large` hands out the chunks.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use atta_entry::{Entry, Kind, Metadata};

use super::handler::{FileDigest, Location, Named, Summing, WorkerOf};
use super::{Sums, Watch};
use crate::digest::{Piece, PieceValue};
use crate::file::error::{FileError, Step};
use crate::file::mover::Pass;
use crate::file::source::{is_same, look, open, settled};
use crate::file::version::Version;
use crate::large::log::{Begun, LargeLog};
use crate::large::{By, ChunkRange, ChunkResult, Chunked, Completion, Cuttable, LargeFiles, LargeOf, Plan};
use crate::tree::operation::Cx;
use atta_sys as sys;

/// A file whose chunks are being hashed.
#[derive(Debug)]
pub(crate) struct Large {
    source: OwnedFd,
    before: Metadata,
}

/// A chunk of an open file.
struct Chunk<'a> {
    source: BorrowedFd<'a>,
    range: Range<u64>,
    /// As in [`Pass`], for the whole file.
    has_holes: bool,
    size: u64,
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

    fn log(&self) -> Option<&LargeLog<'_, Sums<W::Gathered>>> {
        self.log.as_ref()
    }

    fn key(file: &Large) -> Version {
        Version::of(&file.before)
    }

    fn plan(&self, cx: &mut Cx<'_, Self>, plan: &Plan) {
        // If its directory is unreachable, the error names the file alone.
        let named = Named::in_directory(cx.here(), &plan.name);
        let planned = cx.opened().map_err(|errno| FileError::new(Step::Open, errno));
        if let Err(error) = planned.and_then(|_| self.try_plan(cx, &named, plan.is_again)) {
            self.fail(cx.worker, &named.at, error);
        }
    }

    fn process(
        &self,
        worker: &mut WorkerOf<W>,
        file: &LargeOf<Self>,
        range: Range<u64>,
    ) -> ChunkResult<Self> {
        let Version { has_holes, size, .. } = Self::key(&file.own);
        self.hash_chunk(worker, &Chunk { source: file.own.source.as_fd(), range, has_holes, size })
    }

    fn process_for_another(&self, cx: &mut Cx<'_, Self>, chunks: &ChunkRange<Version>) -> ChunkResult<Self> {
        let here = cx.opened().map_err(|errno| FileError::new(Step::Open, errno))?;
        let source = open(Named::<W::Gathered>::in_directory(here, &chunks.name).from)?;
        if !chunks.key.is_of(&look(&source)?) {
            return Err(FileError::Changed);
        }
        let Version { has_holes, size, .. } = chunks.key;
        let chunk = Chunk { source: source.as_fd(), range: chunks.range(), has_holes, size };
        let value = self.hash_chunk(cx.worker, &chunk)?;
        // The planning rank may get the metadata from a cache that does not know of a change yet.
        if !chunks.key.is_of(&look(&source)?) {
            return Err(FileError::Changed);
        }
        Ok(value)
    }

    fn keep(&self, file: &LargeOf<Self>, chunk: u64, value: Option<PieceValue>, _by: By) {
        file.chunks.set_value(chunk, value);
    }

    fn complete(&self, worker: &mut WorkerOf<W>, file: &LargeOf<Self>, is_first: bool) -> Completion {
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
        named: &Named<'_, W::Gathered>,
        is_again: bool,
    ) -> Result<(), FileError> {
        let worker = &mut *cx.worker;
        let source = open(named.from)?;
        let mut before = settled(&source)?;
        if before.kind() != Kind::File {
            return Err(FileError::Changed);
        }
        let (size, chunk) = (before.size, self.cut.chunk_of(before.size));
        let is_stated = worker.mover.sizes.is_stated(&source, &before);
        if size <= chunk || !is_stated || !self.large.has_room() {
            // The file is small by now, its size is unreliable, or too many large files are open.
            let read = self.read(worker, named.from)?;
            self.live.bytes.fetch_add(read.metadata.size, Ordering::Relaxed);
            self.add_at(worker, &named.at, &read);
            return Ok(());
        }
        self.refuse_holes(&source, &before)?;
        if self.options.walk.birth_time {
            before.btime = sys::stat_of(&source).ok().and_then(|found| found.btime);
        }
        let (at, part) = (named.at.clone(), cx.here().and_then(|here| here.part()));
        let own = Large { source, before };
        let begun = self.log.as_ref().and_then(|log| log.take_begun(&at, &Self::key(&own)));
        let Begun { chunk, done: known } = begun.unwrap_or(Begun { chunk, done: Vec::new() });
        self.cut(Cuttable { at, size, chunk, own, part, is_again, known }, cx);
        Ok(())
    }

    fn hash_chunk(&self, worker: &mut WorkerOf<W>, chunk: &Chunk<'_>) -> ChunkResult<Self> {
        let Chunk { source, ref range, has_holes, size } = *chunk;
        let mut piece = Piece::at(range.start);
        let pass = Pass { source, target: None, has_holes, size, hasher: Some(&mut piece) };
        let reached = worker.mover.pass(pass, range.clone())?;
        self.live.bytes.fetch_add(reached - range.start, Ordering::Relaxed);
        if reached < range.end { Err(FileError::Changed) } else { Ok(piece.value()) }
    }

    /// Reports a file by its location, because its entry is no longer available.
    fn add_at(&self, worker: &mut WorkerOf<W>, at: &Location<W::Gathered>, read: &FileDigest) {
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
fn digest_of<W: Watch>(file: &LargeOf<Summing<'_, W>>) -> Result<FileDigest, FileError> {
    if let Some(error) = file.chunks.error() {
        return Err(error);
    }
    if !is_same(&file.own.before, &look(&file.own.source)?) {
        return Err(FileError::Changed);
    }
    let digest = file.chunks.digest().ok_or(FileError::Changed)?;
    Ok(FileDigest { metadata: file.own.before, digest })
}
