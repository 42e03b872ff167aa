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

mod task;

use std::ffi::CString;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::{Code, Errno};

use crate::file::chunks::{Chunks, UnderWay};
use crate::tree::directory::Directory;
use crate::tree::location::Location;
use crate::tree::operation::{Handler, Here, Tasks};
use crate::tree::slice::Part;
pub(crate) use task::{ChunkRange, LargeTask, Plan};

/// A file that is processed in chunks. `F`: the operation's state of it.
#[derive(Debug)]
pub(crate) struct Large<F, E> {
    pub(crate) at: Location,
    pub(crate) chunks: Chunks<E>,
    pub(crate) own: F,
    /// See [`Plan`].
    is_again: bool,
    /// The part of the slice that the file belongs to.
    part: Mutex<Option<Part>>,
}

impl<F, E> Large<F, E> {
    fn lock_part(&self) -> MutexGuard<'_, Option<Part>> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the part, when the file is completed or given up.
    pub(crate) fn take_part(&self) -> Option<Part> {
        self.lock_part().take()
    }

    /// Another part of the same slice.
    pub(crate) fn another_part(&self) -> Option<Part> {
        self.lock_part().as_ref().map(Part::again)
    }
}

/// The result of a chunk.
pub(crate) type ChunkResult<C> = Result<<C as Chunked>::Value, <C as Chunked>::Error>;
/// A task of an operation's large files.
pub(crate) type TaskOf<C> = LargeTask<<C as Chunked>::Key, ChunkResult<C>>;
/// A large file of an operation.
pub(crate) type LargeOf<C> = Large<<C as Chunked>::File, <C as Chunked>::Error>;
/// The files that an operation is processing in chunks.
pub(crate) type LargeFiles<C> = UnderWay<LargeOf<C>>;

/// A file that was opened and is to be cut.
pub(crate) struct Cuttable<C: Chunked + ?Sized> {
    pub(crate) at: Location,
    pub(crate) size: u64,
    /// Bytes per chunk.
    pub(crate) chunk: u64,
    pub(crate) own: C::File,
    pub(crate) part: Option<Part>,
    pub(crate) is_again: bool,
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
    type Key: Code + Clone;
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
    fn plan(
        &self,
        worker: &mut Self::Worker,
        here: Result<Option<Here<'_>>, Errno>,
        plan: &Plan,
        tasks: &mut Tasks,
    );

    /// Processes one chunk of a file of this rank.
    fn process(
        &self,
        worker: &mut Self::Worker,
        file: &LargeOf<Self>,
        range: Range<u64>,
    ) -> ChunkResult<Self>;

    /// Processes the first of these chunks, of a file that another rank planned.
    fn process_for_another(
        &self,
        worker: &mut Self::Worker,
        here: Result<Option<Here<'_>>, Errno>,
        chunks: &ChunkRange<Self::Key>,
    ) -> ChunkResult<Self>;

    /// Keeps the value of a chunk.
    fn keep(&self, file: &LargeOf<Self>, chunk: u64, value: Self::Value);

    /// Counts bytes of chunks that have ended, successfully or not.
    fn count_ended(&self, _bytes: u64) {}

    /// Completes a file whose chunks have all ended. Returns [`Completion::Again`] only if this was its first attempt.
    fn complete(&self, worker: &mut Self::Worker, file: &LargeOf<Self>, is_first: bool) -> Completion;

    /// Adds a file; returns its chunks.
    fn insert(&self, file: Cuttable<Self>) -> ChunkRange<Self::Key> {
        let Cuttable { at, size, chunk, own, part, is_again } = file;
        let (name, key, chunks) = (name_of(&at), Self::key(&own), Chunks::new(size, chunk));
        let count = chunks.count();
        let file = self.large().insert(Large { at, chunks, own, is_again, part: Mutex::new(part) });
        ChunkRange { rank: self.rank(), file, first: 0, count, bytes: chunk, size, name, key }
    }

    /// Adds a file and leaves its chunks to all threads.
    fn cut(&self, file: Cuttable<Self>, tasks: &mut Tasks) {
        let directory = directory_of(&file.at).cloned();
        let all = self.insert(file);
        push::<Self>(directory.as_ref(), &TaskOf::<Self>::Chunks(all), tasks);
    }

    /// Runs a task of a large file.
    fn large_task(
        &self,
        worker: &mut Self::Worker,
        here: Result<Option<Here<'_>>, Errno>,
        task: TaskOf<Self>,
        tasks: &mut Tasks,
    ) {
        match task {
            LargeTask::Plan(plan) => self.plan(worker, here, &plan, tasks),
            LargeTask::Chunks(chunks) => self.run_chunks(worker, here, chunks, tasks),
            LargeTask::Ended { file, chunk, result } => self.end_chunk(worker, file, chunk, result, tasks),
        }
    }

    /// Processes one chunk, and leaves the others to other threads.
    fn run_chunks(
        &self,
        worker: &mut Self::Worker,
        here: Result<Option<Here<'_>>, Errno>,
        mut chunks: ChunkRange<Self::Key>,
        tasks: &mut Tasks,
    ) {
        let directory = here.ok().flatten().map(|here| here.directory);
        while let Some(rest) = chunks.split() {
            // The newest task runs first: the chunk after the current one.
            push::<Self>(directory, &TaskOf::<Self>::Chunks(rest), tasks);
        }
        let (file, chunk) = (chunks.file, chunks.first);
        if chunks.rank != self.rank() {
            let result = self.process_for_another(worker, here, &chunks);
            let task = TaskOf::<Self>::Ended { file, chunk, result };
            return tasks.push_to(chunks.rank, task.encoded());
        }
        let Some(large) = self.large().find(file) else { return };
        let result = match large.chunks.error() {
            Some(error) => Err(error),
            None => self.process(worker, &large, chunks.range()),
        };
        self.end_chunk(worker, file, chunk, result, tasks);
    }

    /// Records the end of a chunk of a file of this rank. The last chunk completes the file.
    fn end_chunk(
        &self,
        worker: &mut Self::Worker,
        file: u64,
        chunk: u64,
        result: ChunkResult<Self>,
        tasks: &mut Tasks,
    ) {
        let Some(large) = self.large().find(file) else { return };
        self.count_ended(large.chunks.bytes_of(chunk));
        let result = result.map(|value| self.keep(&large, chunk, value));
        if !large.chunks.end(result) {
            return;
        }
        self.large().remove(file);
        if self.complete(worker, &large, !large.is_again) == Completion::Again {
            let plan = Plan { name: name_of(&large.at), is_again: true, bytes: large.chunks.bytes() };
            let task = TaskOf::<Self>::Plan(plan).encoded();
            match directory_of(&large.at) {
                Some(directory) => tasks.push_part(directory, large.take_part(), task),
                None => tasks.push(task),
            }
        }
    }
}

/// The name of a file in its directory, or the whole path of a root.
fn name_of(at: &Location) -> CString {
    match at {
        Location::Root(path) => CString::new(path.as_slice()).unwrap_or_default(),
        Location::In(_, name) => name.clone(),
        Location::Itself(directory) => directory.name().to_owned(),
    }
}

fn directory_of(at: &Location) -> Option<&Arc<Directory>> {
    match at {
        Location::In(directory, _) => Some(directory),
        Location::Root(_) | Location::Itself(_) => None,
    }
}

/// Queues a task for an idle thread.
fn push<C: Chunked + ?Sized>(directory: Option<&Arc<Directory>>, task: &TaskOf<C>, tasks: &mut Tasks) {
    match directory {
        Some(directory) => tasks.push_in(directory, task.encoded()),
        None => tasks.push(task.encoded()),
    }
}

/// Leaves a large file to the next idle thread.
pub(crate) fn plan_later<C: Chunked + ?Sized>(plan: Plan, here: Option<Here<'_>>, tasks: &mut Tasks) {
    let task = TaskOf::<C>::Plan(plan).encoded();
    match here {
        Some(here) => tasks.push_part(here.directory, here.part(), task),
        None => tasks.push(task),
    }
}
