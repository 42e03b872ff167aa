//! Large files, whose parts are compared by threads of all ranks: how one is opened on both sides, how a chunk is compared, and what follows
//! from the chunks. `crate::large` hands out the chunks. On the rank that planned a file, chunks beyond a known difference are not read.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_entry::{Detail, Errno, Field, Kind, Metadata, Operation, Side};

use super::counterpart::{Counterpart, Location};
use super::findings::Findings;
use super::handler::{Comparing, VerifyWorker};
use super::pair::{At, Both, Finding, Named, Opened, Verdict};
use crate::file::chunks::Cut;
use crate::file::error::{PairError, failed};
use crate::file::version::Version;
use crate::large::log::{Begun, LargeLog};
use crate::large::{
    self, By, ChunkRange, ChunkResult, Chunked, Completion, Cuttable, LargeFiles, LargeOf, Plan,
};
use crate::tree::operation::Cx;

/// Stands for no difference: no file has this many bytes.
const NONE: u64 = u64::MAX;

/// A file that is being compared in chunks.
#[derive(Debug)]
pub(crate) struct Large {
    opened: Opened,
    /// Differences other than the bytes.
    found: Vec<Detail>,
    /// The offset of the first difference found so far.
    first: AtomicU64,
    /// Bytes that were compared.
    bytes: AtomicU64,
}

/// The result of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    /// The offset of the first difference, if there is one.
    pub(crate) first: Option<u64>,
    /// Bytes that were compared.
    pub(crate) bytes: u64,
}

atta_entry::record!(Compared { first, bytes });

/// What another rank needs to recognise both files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) source: Version,
    pub(crate) target: Version,
}

atta_entry::record!(Key { source, target });

impl Key {
    fn of(both: &Both) -> Self {
        Self { source: Version::of(&both.source), target: Version::of(&both.target) }
    }

    fn is_of(&self, both: &Both) -> bool {
        self.source.is_of(&both.source) && self.target.is_of(&both.target)
    }
}

/// Where the chunks of a file stop being read.
struct Limit<'a> {
    /// The first difference found so far.
    first: &'a AtomicU64,
    range: Range<u64>,
}

impl<const LOGGED: bool> Chunked for Comparing<'_, LOGGED> {
    type Key = Key;
    type Value = Compared;
    type Error = PairError;
    type File = Large;

    fn large(&self) -> &LargeFiles<Self> {
        &self.large
    }

    fn rank(&self) -> u32 {
        self.seat.rank
    }

    fn log(&self) -> Option<&LargeLog<'_, Findings>> {
        self.log.as_ref()
    }

    fn key(file: &Large) -> Key {
        Key::of(&file.opened.read)
    }

    fn plan(&self, cx: &mut Cx<'_, Self>, plan: &Plan) {
        if let Err(errno) = cx.opened() {
            // Its directory is unreachable, so the message has its name only.
            let at = At { directories: None, name: &plan.name };
            return self.fail(cx.worker, at, failed(Side::Source, Operation::Custom("open"))(errno));
        }
        // None: the target's directory cannot be opened, which was reported.
        self.with_named(cx, &plan.name, |cx, named| {
            let verdict = match self.try_plan(cx, named, plan.is_again) {
                Ok(None) => return,
                Err(PairError::Changed) if !plan.is_again => {
                    let again = Plan { is_again: true, ..plan.clone() };
                    return large::plan_later::<Self>(again, cx.here(), cx.tasks);
                }
                Ok(Some(verdict)) => Ok(verdict),
                Err(error) => Err(error),
            };
            self.conclude(cx.worker, Finding { at: named.at, kind: Kind::File, verdict });
        });
    }

    fn process(
        &self,
        worker: &mut VerifyWorker,
        file: &LargeOf<Self>,
        range: Range<u64>,
    ) -> ChunkResult<Self> {
        self.compare_chunk(worker, &file.own.opened, &Limit { first: &file.own.first, range })
    }

    fn process_for_another(&self, cx: &mut Cx<'_, Self>, chunks: &ChunkRange<Key>) -> ChunkResult<Self> {
        let unreachable = failed(Side::Source, Operation::OpenDirectory);
        cx.opened().map_err(unreachable)?;
        let compared = self.with_named(cx, &chunks.name, |cx, named| {
            let opened = named.pair.open()?;
            if !chunks.key.is_of(&opened.read) {
                return Err(PairError::Changed);
            }
            let limit = Limit { first: &AtomicU64::new(NONE), range: chunks.range() };
            let compared = self.compare_chunk(cx.worker, &opened, &limit)?;
            // The planning rank may get the metadata from a cache that does not know of a change yet.
            opened.check().map(|()| compared)
        });
        compared.unwrap_or(Err(failed(Side::Target, Operation::OpenDirectory)(Errno::STALE)))
    }

    fn keep(&self, file: &LargeOf<Self>, _chunk: u64, Compared { first, bytes }: Compared, _by: By) {
        file.own.first.fetch_min(first.unwrap_or(NONE), Ordering::AcqRel);
        file.own.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    fn complete(&self, worker: &mut VerifyWorker, file: &LargeOf<Self>, is_first: bool) -> Completion {
        // They belong to the slice of the file, so that a later run that does it again does not count them twice.
        let totals = &mut worker.findings.totals;
        totals.bytes = totals.bytes.saturating_add(file.own.bytes.load(Ordering::Acquire));
        // After a stop the rest of the file is unknown, so there is nothing to report.
        if self.options.walk.stop.is_set() {
            return Completion::Complete;
        }
        let verdict = self.verdict(worker, file);
        if is_first && verdict == Err(PairError::Changed) {
            return Completion::Again;
        }
        match &file.at {
            Location::In(directory, name) => {
                let Some(counterpart) = Counterpart::of(directory) else { return Completion::Complete };
                let at = At { directories: Some((directory, &counterpart.target)), name };
                self.conclude(worker, Finding { at, kind: Kind::File, verdict });
            }
            Location::Root(_) | Location::Itself(_) | Location::Target(_) => {
                let at = At { directories: None, name: &self.trees.source };
                self.conclude(worker, Finding { at, kind: Kind::File, verdict });
            }
        }
        Completion::Complete
    }
}

impl<const LOGGED: bool> Comparing<'_, LOGGED> {
    /// Whether a file is compared in chunks.
    pub(crate) fn is_large(&self, metadata: &Metadata) -> bool {
        let is_read = self.options.fields.has(Field::Content) && metadata.kind() == Kind::File;
        is_read && self.how_to_cut().is_large(metadata.size)
    }

    fn how_to_cut(&self) -> Cut {
        Cut::new(self.options.chunk, &self.options.walk, self.seat.ranks)
    }

    /// Checks a large file on both sides. Cuts it into chunks unless the result is already known.
    fn try_plan(
        &self,
        cx: &mut Cx<'_, Self>,
        named: Named<'_>,
        is_again: bool,
    ) -> Result<Option<Verdict>, PairError> {
        let (Named { at, pair, .. }, worker) = (named, &mut *cx.worker);
        let Some(both) = pair.look()? else { return Ok(Some(Verdict::Missing)) };
        if both.kinds() != (Kind::File, Kind::File) {
            return self.compare(worker, pair, both).map(Some);
        }
        let opened = self.open_files(worker, pair)?;
        let (size, cut) = (opened.read.common_bytes(), self.how_to_cut());
        let chunk = match opened.are_sparse(&self.options.walk.stop)? {
            true => {
                let Both { source, target } = &opened.read;
                cut.chunk_of_sparse(size, source.allocated_bytes().max(target.allocated_bytes()))
            }
            false => cut.chunk_of(size),
        };
        // Other ranks could not recognise files whose sizes are unreliable.
        if size <= chunk || opened.read != opened.before || !self.large.has_room() {
            return self.compare_files(worker, &opened).map(Verdict::Compared).map(Some);
        }
        let found = self.attributes_of_open(worker, &opened)?;
        if !self.needs_bytes(&opened, &found) {
            return opened.check().map(|()| Some(Verdict::Compared(found)));
        }
        let at = match at.directories {
            Some((source, _)) => Location::In(Arc::clone(source), at.name.to_owned()),
            None => Location::Root(at.name.to_bytes().to_vec()),
        };
        let own = Large { opened, found, first: AtomicU64::new(NONE), bytes: AtomicU64::new(0) };
        let part = cx.here().and_then(|here| here.part());
        let begun = self.log.as_ref().and_then(|log| log.take_begun(&at, &Self::key(&own)));
        let Begun { chunk, done: known } = begun.unwrap_or(Begun { chunk, done: Vec::new() });
        self.cut(Cuttable { at, size, chunk, own, part, is_again, known }, cx);
        Ok(None)
    }

    fn compare_chunk(
        &self,
        worker: &mut VerifyWorker,
        opened: &Opened,
        limit: &Limit<'_>,
    ) -> ChunkResult<Self> {
        let Limit { first: known, range } = limit;
        let mut reached = range.start;
        let mut wanted = |at| {
            reached = at;
            at < known.load(Ordering::Relaxed) && !self.options.walk.stop.is_set()
        };
        let first = worker.blocks.compare(opened.two(), range.clone(), &mut wanted)?;
        let is_cut = known.load(Ordering::Relaxed) < range.end;
        let is_stopped = first.is_none() && self.options.walk.stop.is_set();
        let end = first.unwrap_or(if is_cut || is_stopped { reached } else { range.end });
        let bytes = end - range.start;
        self.live.bytes.fetch_add(bytes, Ordering::Relaxed);
        if is_stopped { Err(PairError::Stopped) } else { Ok(Compared { first, bytes }) }
    }

    /// The result of a file whose chunks have all ended.
    fn verdict(&self, worker: &mut VerifyWorker, file: &LargeOf<Self>) -> Result<Verdict, PairError> {
        if let Some(error) = file.chunks.error() {
            return Err(error);
        }
        let large = &file.own;
        large.opened.check()?;
        worker.findings.totals.files += 1;
        let first = Some(large.first.load(Ordering::Acquire)).filter(|first| *first != NONE);
        let content = large.opened.read.content(first);
        let found: Vec<_> = large.found.iter().cloned().chain(content).collect();
        if found.is_empty() {
            self.equal.add(&large.opened.before);
        }
        Ok(Verdict::Compared(found))
    }
}
