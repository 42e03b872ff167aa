//! Large files, whose parts are hashed by several threads. One thread plans the file: it opens the file and cuts it into chunks. Any thread
//! may take a chunk. The thread that ends the last chunk checks that the file is unchanged and merges the values. See `file/chunks.rs`.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use atta_entry::{Entry, Errno, Kind, Metadata};

use super::Watch;
use super::handler::{Read, SumWorker, Summing, place};
use crate::digest::Piece;
use crate::file::chunks::{Chunks, LargeTask};
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::mover::Way;
use crate::file::source::{Source, is_same, look, open, settled};
use crate::tree::location::Location;
use crate::tree::operation::{Here, Tasks};
use atta_sys as sys;

/// A file whose chunks are being hashed.
#[derive(Debug)]
pub(crate) struct Large {
    at: Location,
    source: OwnedFd,
    before: Metadata,
    chunks: Chunks,
    /// Whether this is the second attempt, after a change during the first.
    is_again: bool,
}

impl<W: Watch> Summing<'_, W> {
    /// Runs a task of a large file.
    pub(super) fn large_task(
        &self,
        worker: &mut SumWorker<W::Worker>,
        here: Result<Option<Here<'_>>, Errno>,
        task: &[u8],
        tasks: &mut Tasks,
    ) {
        match LargeTask::parse(task) {
            Some(LargeTask::Plan { name, is_again }) => {
                let name = CString::new(name).unwrap_or_default();
                // If its directory is unreachable, the error names the file alone.
                let (at, _) = place(here.ok().flatten(), &name);
                let failed = |errno| FileError::new(Step::Open, errno);
                let planned = here.map_err(failed);
                let planned = planned.and_then(|here| self.plan(worker, here, &name, is_again, tasks));
                if let Err(error) = planned {
                    self.fail(worker, &at, error);
                }
            }
            Some(LargeTask::Chunk { file, index }) => self.chunk(worker, file, index, here, tasks),
            None => {}
        }
    }

    /// Opens a file and cuts it into chunks.
    fn plan(
        &self,
        worker: &mut SumWorker<W::Worker>,
        here: Option<Here<'_>>,
        name: &CStr,
        is_again: bool,
        tasks: &mut Tasks,
    ) -> Result<(), FileError> {
        let (at, directory) = place(here, name);
        let from = Source { directory, name };
        let source = open(from)?;
        let mut before = settled(&source)?;
        if before.kind() != Kind::File {
            return Err(FileError::Changed);
        }
        let chunk = self.cut.chunk_of(before.size);
        let is_stated = worker.mover.sizes.is_stated(&source, &before);
        if before.size <= chunk || !is_stated || !self.large.has_room() {
            // The file is small by now, its size is unreliable, or too many large files are open.
            let read = self.read(worker, from)?;
            self.live.bytes.fetch_add(read.metadata.size, Ordering::Relaxed);
            self.add_at(worker, &at, &read);
            return Ok(());
        }
        self.refuse_holes(&source, &before)?;
        if self.options.walk.birth_time {
            before.btime = sys::stat_of(&source).ok().and_then(|found| found.btime);
        }
        let chunks = Chunks::new(before.size, chunk);
        let count = chunks.count();
        self.large.add(Large { at, source, before, chunks, is_again }, count, here, tasks);
        Ok(())
    }

    fn chunk(
        &self,
        worker: &mut SumWorker<W::Worker>,
        number: u64,
        index: u64,
        here: Result<Option<Here<'_>>, Errno>,
        tasks: &mut Tasks,
    ) {
        let Some(large) = self.large.find(number) else { return };
        if !large.chunks.run(|| self.hash_chunk(worker, &large, index)) {
            return;
        }
        self.large.remove(number);
        match large.read() {
            Ok(read) => self.add_at(worker, &large.at, &read),
            Err(FileError::Changed) if !large.is_again => {
                let name = match &large.at {
                    Location::Root(path) => path.as_slice(),
                    Location::In(_, name) => name.as_bytes(),
                    Location::Itself(_) => return,
                };
                LargeTask::Plan { name, is_again: true }.push(here.ok().flatten(), tasks);
            }
            Err(error) => self.fail(worker, &large.at, error),
        }
    }

    fn hash_chunk(
        &self,
        worker: &mut SumWorker<W::Worker>,
        large: &Large,
        index: u64,
    ) -> Result<(), FileError> {
        let range = large.chunks.range(index);
        let mut piece = Piece::at(range.start);
        let (has_holes, size) = (may_have_holes(&large.before), large.before.size);
        let way = Way { has_holes, size, hasher: Some(&mut piece) };
        let came = worker.mover.hash(large.source.as_fd(), range.clone(), way)?;
        self.live.bytes.fetch_add(came - range.start, Ordering::Relaxed);
        if came < range.end {
            return Err(FileError::Changed);
        }
        large.chunks.set_value(index, piece.value());
        Ok(())
    }

    /// Reports a file by its location, after its entry is gone.
    fn add_at(&self, worker: &mut SumWorker<W::Worker>, at: &Location, read: &Read) {
        let mut path = Vec::new();
        let (root_bytes, name, depth) = match at {
            Location::Root(path) => (0, path.as_slice(), 0),
            Location::In(directory, name) => {
                (directory.path_into(&mut path), name.as_bytes(), directory.depth() + 1)
            }
            Location::Itself(_) => return,
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

impl Large {
    /// Called when all chunks are done. Returns the digest if the file is unchanged.
    fn read(&self) -> Result<Read, FileError> {
        if let Some(error) = self.chunks.error() {
            return Err(error);
        }
        if !is_same(&self.before, &look(&self.source)?) {
            return Err(FileError::Changed);
        }
        let digest = self.chunks.digest().ok_or(FileError::Changed)?;
        Ok(Read { metadata: self.before, digest })
    }
}
