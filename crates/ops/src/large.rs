//! Large files that threads of all ranks process in chunks. The thread that plans a file opens it and cuts it into chunks. Any thread of
//! any rank may process some of them. On the rank that planned the file, the thread that ends the last chunk completes the file. What a
//! chunk is processed to, and how a file is opened and completed, is up to the operation ([`Chunked`]).
//!
//! ```text
//!   entry ─▶ plan: open, cut ─▶ chunks, halved until one is left ─▶ the last one: unchanged? complete
//!                ▲                     │ on another rank: ▲            │
//!                │                     └─▶ processed ─────┘ ended      │
//!                └──────────────── changed, for the first time ────────┘
//! ```

pub(crate) mod log;
mod task;

use std::ffi::CString;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::Code;

use crate::file::chunks::{Chunks, UnderWay};
use crate::inject::{Point, Poison, meet, pass};
use crate::large::log::LargeLog;
use crate::tree::directory::{Directory, State};
use crate::tree::location::Location;
use crate::tree::operation::{Cx, DirectoryOf, Handler, HereOf, Tasks};
use crate::tree::slice::Part;
pub(crate) use task::{ChunkRange, LargeTask, Plan};

/// A file that is processed in chunks. `F`: the operation's state of it.
#[derive(Debug)]
pub(crate) struct Large<F, E, S: State = ()> {
    pub(crate) at: Location<S>,
    pub(crate) chunks: Chunks<E>,
    pub(crate) own: F,
    /// See [`Plan`].
    is_again: bool,
    /// The part of the slice that the file belongs to.
    part: Mutex<Option<Part<S>>>,
}

impl<F, E, S: State> Large<F, E, S> {
    fn lock_part(&self) -> MutexGuard<'_, Option<Part<S>>> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the part, when the file is completed or given up.
    pub(crate) fn take_part(&self) -> Option<Part<S>> {
        self.lock_part().take()
    }

    /// Another part of the same slice.
    pub(crate) fn another_part(&self) -> Option<Part<S>> {
        self.lock_part().as_ref().map(Part::again)
    }
}

/// The result of a chunk.
pub(crate) type ChunkResult<C> = Result<<C as Chunked>::Value, <C as Chunked>::Error>;
/// A task of an operation's large files.
pub(crate) type TaskOf<C> = LargeTask<<C as Chunked>::Key, ChunkResult<C>>;
/// What the slices of an operation come to.
type ResultsOf<C> = <<C as Handler>::State as State>::Results;
/// A large file of an operation.
pub(crate) type LargeOf<C> = Large<<C as Chunked>::File, <C as Chunked>::Error, <C as Handler>::State>;
/// The files that an operation is processing in chunks.
pub(crate) type LargeFiles<C> = UnderWay<LargeOf<C>>;

/// A file that was opened and is to be cut.
pub(crate) struct Cuttable<C: Chunked + ?Sized> {
    pub(crate) at: Location<C::State>,
    pub(crate) size: u64,
    /// Bytes per chunk.
    pub(crate) chunk: u64,
    pub(crate) own: C::File,
    pub(crate) part: Option<Part<C::State>>,
    pub(crate) is_again: bool,
    /// Chunks that earlier runs of the job have processed, with their values.
    pub(crate) known: Vec<(u64, C::Value)>,
}

/// A chunk of a file of this rank, by the numbers of both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkId {
    pub(crate) file: u64,
    pub(crate) chunk: u64,
}

/// Who has processed a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The rank that has planned the file.
    ThisRank,
    /// Another one.
    Another,
    /// An earlier run of the job.
    EarlierRun,
}

/// What to do about a file whose chunks have all ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    Complete,
    /// It changed: process it once more.
    Again,
}

/// An operation that processes large files in chunks.
pub(crate) trait Chunked: Handler {
    /// What identifies a file for other ranks, beside its name.
    type Key: Code + Clone + PartialEq;
    /// The result of a chunk.
    type Value: Code;
    /// Why a chunk failed.
    type Error: Code + Copy;
    /// State of a file.
    type File;

    /// The files in progress on this rank.
    fn large(&self) -> &LargeFiles<Self>;

    /// This rank.
    fn rank(&self) -> u32;

    /// What identifies a file for other ranks.
    fn key(file: &Self::File) -> Self::Key;

    /// Opens a file and calls [`Chunked::cut`], or processes it as a whole. `here`: an error if its directory cannot be opened.
    fn plan(&self, cx: &mut Cx<'_, Self>, plan: &Plan);

    /// Processes one chunk of a file of this rank.
    fn process(
        &self,
        worker: &mut Self::Worker,
        file: &LargeOf<Self>,
        range: Range<u64>,
    ) -> ChunkResult<Self>;

    /// Processes the first of these chunks, of a file that another rank planned.
    fn process_for_another(&self, cx: &mut Cx<'_, Self>, chunks: &ChunkRange<Self::Key>)
    -> ChunkResult<Self>;

    /// Keeps the value of a chunk.
    fn keep(&self, file: &LargeOf<Self>, chunk: u64, value: Self::Value, by: By);

    /// The log of the job, if chunks are noted there as soon as they are processed.
    fn log(&self) -> Option<&LargeLog<'_, ResultsOf<Self>>> {
        None
    }

    /// Counts bytes of chunks that have ended, successfully or not.
    fn count_ended(&self, _bytes: u64) {}

    /// Completes a file whose chunks have all ended. Returns [`Completion::Again`] only if this was its first attempt.
    fn complete(&self, worker: &mut Self::Worker, file: &LargeOf<Self>, is_first: bool) -> Completion;

    /// Adds a file; returns its chunks.
    fn insert(&self, file: Cuttable<Self>) -> ChunkRange<Self::Key> {
        let Cuttable { at, size, chunk, own, part, is_again, known: _ } = file;
        let (name, key, chunks) = (name_of(&at), Self::key(&own), Chunks::new(size, chunk));
        let count = chunks.count();
        let file = self.large().insert(Large { at, chunks, own, is_again, part: Mutex::new(part) });
        ChunkRange { rank: self.rank(), file, first: 0, count, bytes: chunk, size, name, key }
    }

    /// Adds a file and leaves its chunks to all threads.
    fn cut(&self, mut file: Cuttable<Self>, cx: &mut Cx<'_, Self>) {
        let directory = directory_of(&file.at).cloned();
        let mut known = std::mem::take(&mut file.known);
        if let Some(log) = self.log().filter(|_| known.is_empty()) {
            log.note_plan(&file.at, &(Self::key(&file.own), file.chunk));
        }
        let all = self.insert(file);
        known.retain(|(chunk, _)| *chunk < all.count);
        known.sort_unstable_by_key(|(chunk, _)| *chunk);
        let left = all.without(known.iter().map(|(chunk, _)| *chunk));
        for chunks in left {
            push::<Self>(directory.as_ref(), &TaskOf::<Self>::Chunks(chunks), cx.tasks);
        }
        for (chunk, value) in known {
            self.end_chunk(cx, ChunkId { file: all.file, chunk }, Ok(value), By::EarlierRun);
        }
    }

    /// As [`Handler::is_task`], for tasks of large files.
    fn is_large_task(&self, task: &[u8], in_directory: bool) -> bool {
        TaskOf::<Self>::decode_all(task).is_some_and(|task| !in_directory || task.names_an_entry())
    }

    /// As [`Handler::file_of`], for tasks of large files.
    fn large_file_of(&self, task: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
        match TaskOf::<Self>::decode_all(task)? {
            LargeTask::Plan(plan) => Some((plan.name.into_bytes(), None)),
            LargeTask::Chunks(chunks) => {
                let from = chunks.range().start;
                Some((chunks.name.into_bytes(), Some(from)))
            }
            LargeTask::Ended { .. } => None,
        }
    }

    /// Runs a task of a large file.
    fn large_task(&self, cx: &mut Cx<'_, Self>, task: TaskOf<Self>) {
        match task {
            LargeTask::Plan(plan) => {
                meet(Poison::Plan, plan.name.to_bytes());
                self.plan(cx, &plan);
            }
            LargeTask::Chunks(chunks) => self.run_chunks(cx, chunks),
            LargeTask::Ended { file, chunk, result } => {
                self.end_chunk(cx, ChunkId { file, chunk }, result, By::Another);
            }
        }
    }

    /// Processes one chunk, and leaves the others to other threads.
    fn run_chunks(&self, cx: &mut Cx<'_, Self>, mut chunks: ChunkRange<Self::Key>) {
        let is_own = chunks.rank == self.rank();
        let large = if is_own { self.large().find(chunks.file) } else { None };
        let directory = match (&large, cx.opened()) {
            // Its file is open, even if its directory can no longer be opened.
            (Some(large), _) => directory_of(&large.at),
            (None, _) if is_own => return,
            (None, Ok(here)) => here.map(|here| here.directory),
            // Without their directory, no thread can open the file.
            (None, Err(_)) => return self.end_each(cx, &chunks),
        };
        pass(Point::Consumption);
        if chunks.first == 1 {
            meet(Poison::Chunk, chunks.name.to_bytes());
        }
        while let Some(rest) = chunks.split() {
            // The newest task runs first: the chunk after the current one.
            push::<Self>(directory, &TaskOf::<Self>::Chunks(rest), cx.tasks);
        }
        let Some(large) = &large else { return self.end_each(cx, &chunks) };
        let result = match large.chunks.error() {
            Some(error) => Err(error),
            None => self.process(cx.worker, large, chunks.range()),
        };
        self.end_chunk(cx, ChunkId { file: chunks.file, chunk: chunks.first }, result, By::ThisRank);
    }

    /// Processes each of these chunks for the rank that planned the file.
    fn end_each(&self, cx: &mut Cx<'_, Self>, chunks: &ChunkRange<Self::Key>) {
        for chunk in chunks.each() {
            let result = self.process_for_another(cx, &chunk);
            let task = TaskOf::<Self>::Ended { file: chunk.file, chunk: chunk.first, result };
            cx.tasks.push_to(chunk.rank, task.encoded());
        }
    }

    /// Completes a file. What that comes to belongs to the slice of the file, not to what this thread works on.
    fn complete_in_slice(&self, cx: &mut Cx<'_, Self>, large: &LargeOf<Self>) -> Completion {
        let Some(part) = large.another_part() else {
            return self.complete(cx.worker, large, !large.is_again);
        };
        self.sharing(cx.worker);
        let current = self.results(cx.worker).map(std::mem::take);
        let completion = self.complete(cx.worker, large, !large.is_again);
        self.sharing(cx.worker);
        if let (Some(results), Some(current)) = (self.results(cx.worker), current) {
            part.slice().gather(results);
            *results = current;
        }
        cx.tasks.ended.push(part);
        completion
    }

    /// Records the end of a chunk of a file of this rank. The last chunk completes the file.
    fn end_chunk(&self, cx: &mut Cx<'_, Self>, ended: ChunkId, result: ChunkResult<Self>, by: By) {
        let ChunkId { file, chunk } = ended;
        let Some(large) = self.large().find(file) else { return };
        self.count_ended(large.chunks.bytes_of(chunk));
        let result = result.map(|value| {
            if let Some(log) = self.log().filter(|_| by != By::EarlierRun) {
                // Before others know the value: what they leave out because of it is noted later.
                let plan = (Self::key(&large.own), large.chunks.chunk());
                log.note_chunk(&large.at, &plan, (chunk, &value));
            }
            self.keep(&large, chunk, value, by);
        });
        if !large.chunks.end(result) {
            return;
        }
        self.large().remove(file);
        let completion = self.complete_in_slice(cx, &large);
        if completion == Completion::Complete {
            // The operation may have taken it for something that still waits.
            cx.tasks.ended.extend(large.take_part());
        } else {
            let plan = Plan { name: name_of(&large.at), is_again: true, bytes: large.chunks.bytes() };
            let task = TaskOf::<Self>::Plan(plan).encoded();
            match directory_of(&large.at) {
                Some(directory) => cx.tasks.push_part(directory, large.take_part(), task),
                None => cx.tasks.push(task),
            }
        }
    }
}

/// The name of a file in its directory, or the whole path of a root.
fn name_of<S: State>(at: &Location<S>) -> CString {
    match at {
        Location::Root(path) => CString::new(path.as_slice()).unwrap_or_default(),
        Location::In(_, name) => name.clone(),
        Location::Itself(directory) => directory.name().to_owned(),
        Location::Target(directory) => directory.name().to_owned(),
    }
}

fn directory_of<S: State>(at: &Location<S>) -> Option<&Arc<Directory<S>>> {
    match at {
        Location::In(directory, _) => Some(directory),
        Location::Root(_) | Location::Itself(_) | Location::Target(_) => None,
    }
}

/// Queues a task for an idle thread.
fn push<C: Chunked + ?Sized>(
    directory: Option<&Arc<DirectoryOf<C>>>,
    task: &TaskOf<C>,
    tasks: &mut Tasks<C::State>,
) {
    match directory {
        Some(directory) => tasks.push_in(directory, task.encoded()),
        None => tasks.push(task.encoded()),
    }
}

/// Leaves a large file to the next idle thread.
pub(crate) fn plan_later<C: Chunked + ?Sized>(
    plan: Plan,
    here: Option<HereOf<'_, C>>,
    tasks: &mut Tasks<C::State>,
) {
    let task = TaskOf::<C>::Plan(plan).encoded();
    match here {
        Some(here) => tasks.push_part(here.directory, here.part(), task),
        None => tasks.push(task),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_entry::Errno;
    use atta_entry::{Entry, Failure};
    use atta_ledger::Key;
    use atta_runtime::Facts as _;
    use atta_sys::Place;

    use crate::tree::journal::Journal;

    /// Rank 1, which processes chunks of nothing.
    struct Fake {
        files: LargeFiles<Self>,
        log: Option<LargeLog<'static, ()>>,
        /// What was in the log when a chunk was kept.
        noted: Mutex<Vec<Vec<Vec<u8>>>>,
    }

    impl Fake {
        fn new(log: Option<LargeLog<'static, ()>>) -> Self {
            Self { files: UnderWay::new(1), log, noted: Mutex::default() }
        }
    }

    impl Handler for Fake {
        type Worker = ();
        type State = ();

        fn worker(&self, _index: usize) {}

        fn entry(&self, _cx: &mut Cx<'_, Self>, _entry: &Entry<'_>) {}

        fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

        fn failure(&self, (): &mut (), _: &Failure<'_>) {}

        fn finish(&self, (): &mut ()) {}
    }

    impl Chunked for Fake {
        type Key = ();
        type Value = ();
        type Error = Errno;
        type File = ();

        fn large(&self) -> &LargeFiles<Self> {
            &self.files
        }

        fn log(&self) -> Option<&LargeLog<'_, ()>> {
            self.log.as_ref()
        }

        fn rank(&self) -> u32 {
            1
        }

        fn key((): &()) {}

        fn plan(&self, _cx: &mut Cx<'_, Self>, _plan: &Plan) {}

        fn process(&self, (): &mut (), _: &LargeOf<Self>, _: Range<u64>) -> Result<(), Errno> {
            Ok(())
        }

        fn process_for_another(&self, cx: &mut Cx<'_, Self>, _: &ChunkRange<()>) -> Result<(), Errno> {
            cx.opened().map(|_| ())
        }

        fn keep(&self, _: &LargeOf<Self>, _chunk: u64, (): (), _: By) {
            self.noted.lock().unwrap().extend(self.log.as_ref().map(|log| log.journal.take()));
        }

        fn complete(&self, (): &mut (), _: &LargeOf<Self>, _is_first: bool) -> Completion {
            Completion::Complete
        }
    }

    fn chunks_of(rank: u32, file: u64) -> ChunkRange<()> {
        ChunkRange { rank, file, first: 0, count: 3, bytes: 4, size: 12, name: c"f".into(), key: () }
    }

    #[test]
    fn chunks_of_a_lost_directory_end_with_its_error() {
        let (fake, mut tasks) = (Fake::new(None), Tasks::default());
        fake.run_chunks(&mut Cx::new(&mut (), &mut tasks, Err(Errno::STALE)), chunks_of(0, 7));
        let ended: Vec<_> = tasks
            .pushed
            .iter()
            .map(|own| (own.to, TaskOf::<Fake>::decode_all(&own.bytes).unwrap()))
            .collect();
        let expected = |chunk| (Some(0), LargeTask::Ended { file: 7, chunk, result: Err(Errno::STALE) });
        assert_eq!(ended, [0, 1, 2].map(expected));
    }

    #[test]
    fn chunk_is_in_the_log_before_it_is_kept() {
        let journal = Box::leak(Box::new(Journal::new(Key::of_job(&[1; 16]), 1, 1)));
        let fake = Fake::new(Some(LargeLog { journal, roots: vec![b"f".to_vec()] }));
        let (mut tasks, at) = (Tasks::default(), Location::Root(b"f".to_vec()));
        let known = vec![(0, ())];
        let file = Cuttable { at, size: 12, chunk: 4, own: (), part: None, is_again: false, known };
        let mut worker = ();
        let mut cx = Cx::new(&mut worker, &mut tasks, Ok(None));
        fake.cut(file, &mut cx);
        fake.end_chunk(&mut cx, ChunkId { file: 0, chunk: 1 }, Ok(()), By::Another);
        let noted: Vec<_> = fake.noted.into_inner().unwrap().iter().map(Vec::len).collect();
        assert_eq!(noted, [0, 1], "a chunk of an earlier run is not noted again");
    }

    #[test]
    fn chunks_of_an_open_file_keep_its_directory() {
        let (fake, mut tasks) = (Fake::new(None), Tasks::default());
        let opened = Arc::new(std::fs::File::open("/").unwrap().into());
        let root = Directory::root(c"r".into(), 0, opened, Place { device: 1, inode: 1, mount: 1 });
        let at = Location::In(Arc::clone(&root), c"f".into());
        let all = fake.insert(Cuttable {
            at,
            size: 12,
            chunk: 4,
            own: (),
            part: None,
            is_again: false,
            known: vec![],
        });
        fake.run_chunks(&mut Cx::new(&mut (), &mut tasks, Err(Errno::STALE)), all);
        assert!(!tasks.pushed.is_empty());
        assert!(
            tasks.pushed.iter().all(|own| own.directory().is_some_and(|found| Arc::ptr_eq(found, &root)))
        );
    }
}
