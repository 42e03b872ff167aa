//! Large files that threads of all ranks copy in chunks: the hooks with which `crate::large` hands out the chunks. How a file is opened:
//! see `plan.rs`; how a chunk is copied, and the copy completed: see `chunk.rs`.

use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atta_entry::{Errno, Kind};
use rustix::fd::AsFd;
use rustix::fs::CWD;

use crate::copy::handler::CopyOperation;
use crate::copy::large::chunk::ChunkCopier;
use crate::copy::large::plan::{Cuttable, Planned, Planner};
use crate::copy::large::{Key, Large};
use crate::copy::resume::large::begun_earlier;
use crate::copy::target::mirror::{Here, Location, Mirror};
use crate::copy::target::place::{Item, Made, remove};
use crate::copy::thread::Worker;
use crate::digest::PieceValue;
use crate::file::error::{FileError, Step};
use crate::file::source::{Source, open, settled};
use crate::large::{
    self, By, ChunkId, ChunkRange, ChunkResult, Chunked, Completion, LargeFiles, LargeOf, Plan,
};
use crate::tree::location::below;
use crate::tree::operation::Cx;

impl CopyOperation<'_> {
    /// Leaves a large file to the next idle thread.
    pub(crate) fn plan_later(&self, cx: &mut Cx<'_, Self>, name: &[u8], bytes: u64) {
        self.live.large_found.fetch_add(bytes, Ordering::Relaxed);
        large::plan_later::<Self>(Plan::first(name, bytes), cx.here(), cx.tasks);
    }

    /// Opens a file on both sides and cuts it into chunks.
    fn try_plan(&self, cx: &mut Cx<'_, Self>, at: &Location, plan: &Plan) -> Result<(), FileError> {
        let here = cx.here();
        let worker = &mut *cx.worker;
        let (from, mirror, own) = self.both_sides(here, &plan.name)?;
        let source = open(from)?;
        let metadata = &settled(&source)?;
        if metadata.kind() != Kind::File {
            return Err(FileError::Changed);
        }
        let directory = here.map(|here| here.directory);
        let to = self.maker(worker).place_of(directory, &mirror, &own)?;
        let to = &to.within(here.and_then(|here| here.slice));
        let item = Item { at, from, to, metadata };
        let mut planner = Planner { maker: self.maker(worker), copies: &self.large, live: &self.live };
        let noting = (&self.target, self.commit.noting.as_ref());
        match planner.plan(item, source, |is_hashed| begun_earlier(noting, item, is_hashed))? {
            Planned::Left => drop(self.maker(worker).note_left(item.to)?),
            Planned::Whole => self.copy_whole(worker, item)?,
            Planned::Chunks(cuttable) => {
                let Cuttable { large: own, chunk, is_cloned, done } = *cuttable;
                if let Some(noting) = self.commit.noting.as_ref().filter(|_| !is_cloned && done.is_empty()) {
                    noting.planned(at, &own.key, chunk);
                }
                let (at, size, part, known) =
                    (at.clone(), metadata.size, to.part(), done.into_iter().collect());
                let cuttable = large::Cuttable { at, size, chunk, own, part, is_again: plan.is_again, known };
                if is_cloned {
                    self.live.bytes.fetch_add(size, Ordering::Relaxed);
                    let all = self.insert(cuttable);
                    self.end_chunk(cx, ChunkId { file: all.file, chunk: 0 }, Ok(None), By::ThisRank);
                } else {
                    self.cut(cuttable, cx);
                }
            }
        }
        Ok(())
    }

    /// Copies a file as a whole, with one thread.
    fn copy_whole(&self, worker: &mut Worker, item: Item<'_>) -> Result<(), FileError> {
        let made = self.maker(worker).file(item)?;
        self.maker(worker).note(item.to, Kind::File, &made)?;
        if self.target.options.digest {
            let (root, path) = item.at.root_and_path();
            worker.results.signature.add(&made.element(below(&path, root.len()), Kind::File));
        }
        self.committer(worker).complete(item.at, item.to, made);
        Ok(())
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
                let root = self.target.roots.find(name.as_bytes()).ok_or(unknown)?;
                Ok((Source { directory: CWD, name }, Arc::clone(&root.parent), root.name.clone()))
            }
        }
    }

    /// Checks that the source is unchanged once all chunks are done, and publishes the copy.
    fn try_complete(&self, worker: &mut Worker, file: &LargeOf<Self>) -> Result<(), FileError> {
        let large = &file.own;
        let to = &self.maker(worker).place(&large.mirror, &large.name)?;
        self.maker(worker).check_and_give(to, file)?;
        if self.target.options.digest && !large.key.is_hashed {
            self.committer(worker).count_not_hashed();
        }
        if large.key.is_hashed {
            let (root, path) = file.at.root_and_path();
            let digest = file.chunks.digest().ok_or(FileError::Changed)?;
            let made = Made { bytes: large.before.size, digest: Some(digest), ..Made::default() };
            worker.results.signature.add(&made.element(below(&path, root.len()), Kind::File));
            self.maker(worker).note(to, Kind::File, &made)?;
        } else {
            let made = Made { bytes: large.before.size, ..Made::default() };
            self.maker(worker).note(to, Kind::File, &made)?;
        }
        self.committer(worker).complete_large(to, file)
    }

    /// Removes the copies that will not be completed, unless a later run of the job goes on with them.
    pub(crate) fn forget_large(&self, worker: &mut Worker) {
        let left = self.large.take_all();
        if left.is_empty() || self.is_of_job() {
            return;
        }
        for file in left {
            if let Ok(to) = self.maker(worker).place(&file.own.mirror, &file.own.name) {
                remove(&to, &file.own.made());
            }
        }
    }

    fn chunk_copier<'w>(&'w self, worker: &'w mut Worker) -> ChunkCopier<'w> {
        ChunkCopier { maker: self.maker(worker), live: &self.live }
    }
}

impl Chunked for CopyOperation<'_> {
    type Key = Key;
    /// The value of the chunk, if digests are wanted.
    type Value = Option<PieceValue>;
    type Error = FileError;
    type File = Large;

    fn large(&self) -> &LargeFiles<Self> {
        &self.large
    }

    fn rank(&self) -> u32 {
        self.target.seat.rank
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
            self.maker(cx.worker).fail(&at, error);
        }
        // From here on its chunks count the remaining bytes.
        self.count_ended(plan.bytes);
    }

    fn process(&self, worker: &mut Worker, file: &LargeOf<Self>, range: Range<u64>) -> ChunkResult<Self> {
        if let Some(noting) = &self.commit.noting {
            noting.wait_for_storage(&self.target.options.walk.stop);
        }
        let value = self.chunk_copier(worker).copy(&file.own, range)?;
        if self.commit.noting.is_some() && self.target.stores.syncs_each_in(&file.own.mirror) {
            // No sync of many files reaches it.
            let synced = self.target.stores.sync_data(&file.own.file);
            synced.map_err(|errno| FileError::new(Step::Sync, errno))?;
        }
        Ok(value)
    }

    fn process_for_another(&self, cx: &mut Cx<'_, Self>, chunks: &ChunkRange<Key>) -> ChunkResult<Self> {
        let here = cx.opened().map_err(|errno| FileError::new(Step::Open, errno))?;
        let (from, mirror, own) = self.both_sides(here, &chunks.name)?;
        self.chunk_copier(cx.worker).copy_for_another(from, (&mirror, &own), chunks)
    }

    fn keep(&self, file: &LargeOf<Self>, chunk: u64, value: Option<PieceValue>, by: By) {
        file.chunks.set_value(chunk, value);
        // After a sync that failed, its data is in doubt.
        let is_sure = file.own.since == self.target.stores.failed_syncs();
        let is_new = by != By::EarlierRun;
        if let Some(noting) = self.commit.noting.as_ref().filter(|_| is_sure && is_new) {
            noting.chunk((&file.at, &file.own), (chunk, value, file.chunks.bytes_of(chunk)), by);
        }
    }

    fn count_ended(&self, bytes: u64) {
        self.live.large_done.fetch_add(bytes, Ordering::Relaxed);
    }

    fn complete(&self, worker: &mut Worker, file: &LargeOf<Self>, is_first: bool) -> Completion {
        match self.try_complete(worker, file) {
            Ok(()) => {}
            Err(error) if error.is_worth_another_copy() && is_first => {
                self.live.large_found.fetch_add(file.chunks.bytes(), Ordering::Relaxed);
                return Completion::Again;
            }
            Err(error) => self.maker(worker).fail(&file.at, error),
        }
        Completion::Complete
    }
}
