//! Large files, whose parts are compared by several threads. One thread plans the file: it opens the file on both sides, compares the
//! metadata, and cuts the file into chunks. Any thread may take a chunk. Chunks beyond a known difference are not read. The thread that
//! ends the last chunk checks that both files are unchanged.
//!
//! ```text
//!   entry ─▶ plan: look, open, cut ─▶ chunk, chunk, chunk ... ─▶ the last one: unchanged? report
//!                  ▲                                                │ changed, for the first time
//!                  └────────────────────────────────────────────────┘
//! ```

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_entry::{Detail, Errno, Field, Kind, Metadata, Operation, Side};

use super::handler::{Comparing, VerifyWorker};
use super::pair::{At, Both, Opened, Pair, Verdict};
use crate::file::chunks::{Chunks, Cut, LargeTask, UnderWay};
use crate::file::error::{PairError, failed};
use crate::tree::directory::Directory;
use crate::tree::operation::{Here, Tasks};

/// Stands for no difference: no file has this many bytes.
const NONE: u64 = u64::MAX;

/// Files that are being compared in chunks.
pub(crate) type LargeFiles = UnderWay<Large>;

/// A file that is being compared in chunks.
#[derive(Debug)]
pub(crate) struct Large {
    directories: Option<(Arc<Directory>, Arc<Directory>)>,
    name: CString,
    opened: Opened,
    /// Differences other than the bytes.
    found: Vec<Detail>,
    chunks: Chunks<PairError>,
    /// The offset of the first difference found so far.
    first: AtomicU64,
    /// Whether this is the second attempt, after a change during the first.
    is_again: bool,
}

impl Large {
    fn at(&self) -> At<'_> {
        let directories = self.directories.as_ref().map(|(source, target)| (source, target));
        At { directories, name: &self.name }
    }
}

impl Comparing<'_> {
    /// Whether a file is compared in chunks.
    pub(crate) fn is_large(&self, metadata: &Metadata) -> bool {
        let is_read = self.options.fields.has(Field::Content) && metadata.kind() == Kind::File;
        is_read && self.cut().is_large(metadata.size)
    }

    fn cut(&self) -> Cut {
        Cut::new(self.options.chunk, &self.options.walk, 1)
    }

    /// Checks a large file on both sides. Cuts it into chunks unless the result is already known.
    pub(crate) fn plan(
        &self,
        worker: &mut VerifyWorker,
        at: At<'_>,
        pair: Pair<'_>,
        here: Option<Here<'_>>,
        is_again: bool,
        tasks: &mut Tasks,
    ) {
        match self.try_plan(worker, at, pair, here, is_again, tasks) {
            Ok(None) => {}
            Ok(Some(verdict)) => self.conclude(worker, at, Kind::File, Ok(verdict)),
            Err(PairError::Changed) if !is_again => {
                LargeTask::Plan { name: at.name.to_bytes(), is_again: true }.push(here, tasks);
            }
            Err(error) => self.conclude(worker, at, Kind::File, Err(error)),
        }
    }

    fn try_plan(
        &self,
        worker: &mut VerifyWorker,
        at: At<'_>,
        pair: Pair<'_>,
        here: Option<Here<'_>>,
        is_again: bool,
        tasks: &mut Tasks,
    ) -> Result<Option<Verdict>, PairError> {
        let Some(both) = pair.look()? else { return Ok(Some(Verdict::Missing)) };
        if both.kinds() != (Kind::File, Kind::File) {
            return self.compare(worker, pair, both).map(Some);
        }
        let opened = self.open_files(worker, pair)?;
        let common = opened.read.common_bytes();
        let Both { source, target } = &opened.read;
        let chunk = match opened.are_sparse(&self.options.walk.stop)? {
            true => {
                let data = source.allocated_bytes().max(target.allocated_bytes());
                self.cut().chunk_of_sparse(common, data)
            }
            false => self.cut().chunk_of(common),
        };
        if common <= chunk || !self.large.has_room() {
            return self.compare_files(worker, &opened).map(Verdict::Compared).map(Some);
        }
        let found = self.attributes_of_open(worker, &opened)?;
        if !self.needs_bytes(&opened, &found) {
            return opened.check().map(|()| Some(Verdict::Compared(found)));
        }
        let chunks = Chunks::new(common, chunk);
        let count = chunks.count();
        let large = Large {
            directories: at.directories.map(|(source, target)| (Arc::clone(source), Arc::clone(target))),
            name: at.name.to_owned(),
            opened,
            found,
            chunks,
            first: AtomicU64::new(NONE),
            is_again,
        };
        self.large.add(large, count, here, tasks);
        Ok(None)
    }

    pub(crate) fn chunk(
        &self,
        worker: &mut VerifyWorker,
        file: u64,
        index: u64,
        here: Option<Here<'_>>,
        tasks: &mut Tasks,
    ) {
        let Some(large) = self.large.find(file) else { return };
        let is_last = large.chunks.run(|| self.compare_chunk(worker, &large, index));
        // After a stop the rest of the file is unknown, so there is nothing to report.
        if !is_last || self.options.walk.stop.is_set() {
            return;
        }
        self.large.remove(file);
        match self.complete(worker, &large) {
            Err(PairError::Changed) if !large.is_again => {
                LargeTask::Plan { name: large.name.to_bytes(), is_again: true }.push(here, tasks);
            }
            verdict => self.conclude(worker, large.at(), Kind::File, verdict),
        }
    }

    fn compare_chunk(&self, worker: &mut VerifyWorker, large: &Large, index: u64) -> Result<(), PairError> {
        let range = large.chunks.range(index);
        let start = range.start;
        let mut came = start;
        let mut wanted = |at| {
            came = at;
            at < large.first.load(Ordering::Relaxed) && !self.options.walk.stop.is_set()
        };
        let first = worker.blocks.compare(large.opened.two(), range.clone(), &mut wanted)?;
        if let Some(first) = first {
            large.first.fetch_min(first, Ordering::Relaxed);
        }
        let is_cut = large.first.load(Ordering::Relaxed) < range.end;
        let end = first.unwrap_or(if is_cut { came } else { range.end });
        self.count_bytes(worker, end - start);
        Ok(())
    }

    /// Called when all chunks are done. Returns the result.
    fn complete(&self, worker: &mut VerifyWorker, large: &Large) -> Result<Verdict, PairError> {
        if let Some(error) = large.chunks.error() {
            return Err(error);
        }
        large.opened.check()?;
        worker.totals.files += 1;
        let first = Some(large.first.load(Ordering::Acquire)).filter(|first| *first != NONE);
        let content = large.opened.read.content(first);
        let found: Vec<_> = large.found.iter().cloned().chain(content).collect();
        if found.is_empty() {
            self.equal.add(&large.opened.before);
        }
        Ok(Verdict::Compared(found))
    }

    /// Reports a large file whose directory is unreachable, by its name only.
    pub(crate) fn lose(&self, worker: &mut VerifyWorker, name: &CStr, errno: Errno) {
        let at = At { directories: None, name };
        let error = failed(Side::Source, Operation::Custom("open"))(errno);
        self.conclude(worker, at, Kind::File, Err(error));
    }
}
