//! The walk's handler for digests. It hashes small files immediately. `large.rs` hashes large ones. Other entries are reported as the walk
//! found them.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atta_entry::{Code as _, Entry, Errno, Failure, Kind, Metadata};
use atta_runtime::Seat;
use rustix::fs::CWD;

use super::names::Names;
use super::totals::Sums;
use super::{Options, Watch};
use crate::descriptors::{Budget, Needs};
use crate::digest::{Element, HOLE_BYTES_MAX, Hash, Piece};
use crate::file::chunks::{Cut, UnderWay};
use crate::file::error::{FileError, Step};
use crate::file::holes::{self, may_have_holes};
use crate::file::mover::{Mover, Pass};
use crate::file::source::{Source, TRIES, is_same, look, open, settled};
use crate::large::log::LargeLog;
use crate::large::{self, Chunked as _, LargeFiles, Plan, TaskOf};
use crate::tree::directory::{SliceResults, State};
use crate::tree::journal::Waiting;
use crate::tree::location::{self, below};
use crate::tree::operation::{self, Cx, Handler};
use crate::tree::progress::{Counted, Live};
use atta_sys as sys;

/// The walk's handler for digests.
pub(crate) struct Summing<'a, W: Watch> {
    pub(super) options: &'a Options<'a>,
    pub(super) watch: &'a W,
    pub(super) cut: Cut,
    pub(super) large: LargeFiles<Self>,
    pub(super) seat: Seat,
    names: Names,
    pub(super) live: Live,
    pub(super) log: Option<LargeLog<'a, Sums<W::Gathered>>>,
}

/// Nothing is kept beside a directory. A slice of which a file failed is done again by the next run of a job.
#[derive(Debug)]
pub(crate) struct OfSum<G>(PhantomData<fn() -> G>);

impl<G: SliceResults> State for OfSum<G> {
    type Results = Sums<G>;

    fn has_failed(results: &Sums<G>) -> bool {
        // What has vanished is not tried again.
        !results.totals.failures.keys().copied().all(Errno::is_of_vanished)
    }
}

pub(super) type Location<G> = location::Location<OfSum<G>>;
type Here<'a, G> = operation::Here<'a, OfSum<G>>;
/// The state of one thread of a watcher's run.
pub(super) type WorkerOf<W> = SumWorker<<W as Watch>::Worker, <W as Watch>::Gathered>;

/// State of one thread.
pub(crate) struct SumWorker<W, G> {
    pub(super) mover: Mover,
    pub(super) results: Sums<G>,
    pub(super) watch: W,
}

/// A regular file and its digest.
pub(super) struct FileDigest {
    pub(super) metadata: Metadata,
    pub(super) digest: Hash,
}

impl<'a, W: Watch> Summing<'a, W> {
    pub(super) fn new(options: &'a Options<'a>, watch: &'a W, seat: Seat) -> Self {
        let cut = Cut::new(options.chunk, &options.walk, seat.ranks);
        let budget = Budget::of_process(Needs::SUM, options.walk.threads.max(options.walk.cores));
        // Tasks use the rest.
        let names = Names::new(options.walk.memory_bytes / 4);
        Self {
            options,
            watch,
            cut,
            large: UnderWay::new(budget.large),
            names,
            seat,
            live: Live::new(budget.threads),
            log: None,
        }
    }

    /// Notes chunks of large files in the log of the job.
    pub(super) fn with_log(self, log: LargeLog<'a, Sums<W::Gathered>>) -> Self {
        Self { log: Some(log), ..self }
    }

    /// Hashes a whole file. Its bytes are those of one point in time.
    pub(super) fn read(&self, worker: &mut WorkerOf<W>, from: Source<'_>) -> Result<FileDigest, FileError> {
        for _ in 0..TRIES {
            match self.read_once(worker, from) {
                Err(FileError::Changed) => {}
                read => return read,
            }
        }
        Err(FileError::Changed)
    }

    fn read_once(&self, worker: &mut WorkerOf<W>, from: Source<'_>) -> Result<FileDigest, FileError> {
        let source = open(from)?;
        let before = settled(&source)?;
        if before.kind() != Kind::File {
            // The listing reported a file.
            return Err(FileError::Changed);
        }
        let mut piece = Piece::at(0);
        let bytes = if worker.mover.sizes.is_stated(&source, &before) {
            self.refuse_holes(&source, &before)?;
            let (has_holes, size) = (may_have_holes(&before), before.size);
            let (source, hasher) = (source.as_fd(), Some(&mut piece));
            let pass = Pass { source, target: None, has_holes, size, hasher };
            let bytes = worker.mover.pass(pass, 0..size)?;
            if bytes < size {
                return Err(FileError::Changed);
            }
            bytes
        } else {
            worker.mover.pass_to_end(source.as_fd(), None, Some(&mut piece))?
        };
        if !is_same(&before, &look(&source)?) {
            return Err(FileError::Changed);
        }
        Ok(FileDigest { metadata: Metadata { size: bytes, ..before }, digest: piece.digest() })
    }

    /// Fails if the file has more bytes of holes than the limit.
    pub(super) fn refuse_holes(&self, source: impl AsFd, before: &Metadata) -> Result<(), FileError> {
        let most = self.options.hole_bytes_max.unwrap_or(HOLE_BYTES_MAX);
        match holes::exceed(source, before, most, &self.options.walk.stop)? {
            true => Err(FileError::new(Step::HashHoles, Errno::FBIG)),
            false => Ok(()),
        }
    }

    /// Counts and reports a file that was read.
    pub(super) fn add_file(&self, worker: &mut WorkerOf<W>, entry: &Entry<'_>, read: &FileDigest) {
        self.names.note(&read.metadata, &read.digest);
        self.count(worker, entry, &read.digest);
    }

    /// Counts a file that was read under another name. Returns whether it was.
    fn add_known(&self, worker: &mut WorkerOf<W>, entry: &Entry<'_>) -> bool {
        let known = entry.metadata.and_then(|metadata| self.names.find(metadata));
        let Some(digest) = known else { return false };
        worker.results.totals.known += 1;
        self.live.bytes.fetch_add(entry.size(), Ordering::Relaxed);
        self.count(worker, entry, &digest);
        true
    }

    fn count(&self, worker: &mut WorkerOf<W>, entry: &Entry<'_>, digest: &Hash) {
        worker.results.totals.files += 1;
        worker.results.totals.bytes = worker.results.totals.bytes.saturating_add(entry.size());
        self.live.files.fetch_add(1, Ordering::Relaxed);
        self.add(worker, entry, Some(digest));
    }

    /// Reports an entry, and adds it to the signature.
    fn add(&self, worker: &mut WorkerOf<W>, entry: &Entry<'_>, digest: Option<&Hash>) {
        let path = entry.path();
        let root = if entry.depth > 0 { entry.root_bytes } else { path.len() };
        worker.results.signature.add(&Element {
            path: below(&path, root),
            kind: entry.kind,
            size: if entry.kind == Kind::File { entry.size() } else { 0 },
            digest,
            target: entry.target,
        });
        self.watch.entry(&mut worker.watch, entry, digest);
    }

    fn handle(&self, worker: &mut WorkerOf<W>, from: Source<'_>, entry: &Entry<'_>) -> Result<(), FileError> {
        match entry.kind {
            Kind::File => {
                let mut read = self.read(worker, from)?;
                self.live.bytes.fetch_add(read.metadata.size, Ordering::Relaxed);
                // A read from a descriptor leaves the birth time out; the listing has it.
                let listed = entry.metadata.filter(|listed| identity(listed) == identity(&read.metadata));
                read.metadata.btime = listed.and_then(|listed| listed.btime);
                let entry = Entry { metadata: Some(&read.metadata), inode: read.metadata.inode, ..*entry };
                self.add_file(worker, &entry, &read);
            }
            Kind::Symlink => {
                let target = sys::read_link_at(from.directory, from.name);
                let target = target.map_err(|errno| FileError::new(Step::ReadLink, errno))?;
                worker.results.totals.symlinks += 1;
                self.add(worker, &Entry { target: Some(&target), ..*entry }, None);
            }
            Kind::Directory => {
                worker.results.totals.directories += 1;
                self.add(worker, &Entry { target: None, ..*entry }, None);
            }
            _ => {
                worker.results.totals.specials += 1;
                self.add(worker, entry, None);
            }
        }
        Ok(())
    }

    pub(super) fn fail(&self, worker: &mut WorkerOf<W>, at: &Location<W::Gathered>, error: FileError) {
        if error == FileError::Stopped {
            return;
        }
        let (operation, errno) = error.described();
        let (root, path) = at.root_and_path();
        if error == FileError::Changed {
            worker.results.totals.changed += 1;
        }
        let (root, path) = (root.into(), path.into());
        self.report_failure(worker, &Failure { operation, root, path, errno, spelled: None, at: None });
    }

    /// Counts and reports an entry that failed.
    fn report_failure(&self, worker: &mut WorkerOf<W>, failure: &Failure<'_>) {
        *worker.results.totals.failures.entry(failure.errno).or_default() += 1;
        self.watch.failure(&mut worker.watch, failure);
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.device, metadata.inode)
}

/// The name of an entry or a task.
pub(super) struct Named<'a, G> {
    pub(super) at: Location<G>,
    /// From where it is opened.
    pub(super) from: Source<'a>,
}

impl<'a, G: SliceResults> Named<'a, G> {
    /// A name in this directory; none: the path of a root.
    pub(super) fn in_directory(here: Option<Here<'a, G>>, name: &'a CStr) -> Self {
        let (at, directory) = match here {
            Some(here) => {
                (Location::In(Arc::clone(here.directory), name.to_owned()), here.descriptor.as_fd())
            }
            None => (Location::Root(name.to_bytes().to_vec()), CWD),
        };
        Self { at, from: Source { directory, name } }
    }
}

impl<W: Watch> Handler for Summing<'_, W> {
    type Worker = WorkerOf<W>;
    type State = OfSum<W::Gathered>;

    const IS_SLOW: bool = true;
    const NEEDS: Needs = Needs::SUM;

    fn reads_files(&self) -> bool {
        true
    }

    fn worker(&self, index: usize) -> Self::Worker {
        SumWorker {
            mover: Mover::reading(&self.options.walk.stop),
            results: Sums::default(),
            watch: self.watch.worker(index),
        }
    }

    fn results<'w>(&self, worker: &'w mut Self::Worker) -> Option<&'w mut Sums<W::Gathered>> {
        Some(&mut worker.results)
    }

    fn sharing(&self, worker: &mut Self::Worker) {
        self.watch.sharing(&mut worker.watch, &mut worker.results.gathered);
    }

    fn slice_ended(
        &self,
        worker: &mut Self::Worker,
        results: Option<&mut Sums<W::Gathered>>,
        is_whole: bool,
    ) {
        let results = results.unwrap_or(&mut worker.results);
        self.watch.slice_ended(&mut worker.watch, &mut results.gathered, is_whole);
    }

    fn keep_noted(&self, worker: &mut Self::Worker, waiting: Waiting<'_, Sums<W::Gathered>>, is_last: bool) {
        self.watch.keep_noted(&mut worker.watch, waiting, is_last);
    }

    fn handed_over(&self, _worker: &mut Self::Worker, results: &mut Sums<W::Gathered>) {
        self.watch.handed_over(&mut results.gathered);
    }

    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let here = cx.here();
        let Cx { worker, tasks, .. } = cx;
        if !self.options.enters {
            tasks.prune();
        }
        if self.watch.leaves_out(entry) {
            return tasks.prune();
        }
        if self.options.output.is_some() && entry.metadata.map(identity) == self.options.output {
            worker.results.totals.left_out += 1;
            return;
        }
        if entry.kind == Kind::File && self.add_known(worker, entry) {
            return;
        }
        if entry.kind == Kind::File && self.cut.is_large(entry.size()) {
            return large::plan_later::<Self>(Plan::first(entry.name, entry.size()), here, tasks);
        }
        let name = CString::new(entry.name).unwrap_or_default();
        let named = Named::in_directory(here, &name);
        if let Err(error) = self.handle(worker, named.from, entry) {
            self.fail(worker, &named.at, error);
        }
    }

    fn is_task(&self, task: &[u8], in_directory: bool) -> bool {
        self.is_large_task(task, in_directory)
    }

    fn file_of(&self, task: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
        self.large_file_of(task)
    }

    fn task(&self, cx: &mut Cx<'_, Self>, task: &[u8]) {
        if let Some(task) = TaskOf::<Self>::decode_all(task) {
            self.large_task(cx, task);
        }
    }

    fn failure(&self, worker: &mut Self::Worker, failure: &Failure<'_>) {
        self.report_failure(worker, failure);
    }

    fn finish(&self, worker: &mut Self::Worker) {
        self.watch.finish(&mut worker.watch);
    }

    fn counted(&self) -> Counted {
        let Live { files, bytes, .. } = &self.live;
        [files.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed), 0, 0]
    }

    fn progress(&self) -> u64 {
        // Weight: 1 MiB counts as one file.
        self.live.bytes.load(Ordering::Relaxed) >> 20
    }
}
