//! The interface of this crate's operations: they get the directories and entries of a tree and return tasks. No I/O.

use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

use atta_entry::{Entry, Errno, Failure};
use rustix::fd::OwnedFd;

use crate::descriptors::Needs;
use crate::tree::debts::Payment;
use crate::tree::directory::{Directory, State};
use crate::tree::journal::Waiting;
use crate::tree::mark;
use crate::tree::progress::Counted;
use crate::tree::slice::{CurrentSlice, Part};
use crate::tree::start::{Differs, Seed};

/// How far an operation follows directories; it pays only for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Until names have been looked at.
    Slices,
    /// Until all slices of a directory have ended.
    Done,
    /// Until all below it is closed, too.
    Closed,
}

/// An open directory and its current slice, if the operation follows slices.
#[derive(Debug)]
pub(crate) struct Here<'a, S: State = ()> {
    pub(crate) directory: &'a Arc<Directory<S>>,
    pub(crate) descriptor: &'a Arc<OwnedFd>,
    pub(crate) slice: Option<&'a CurrentSlice<'a, S>>,
}

impl<S: State> Clone for Here<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: State> Copy for Here<'_, S> {}

impl<S: State> Here<'_, S> {
    /// A new part of the current slice, which ends elsewhere.
    pub(crate) fn part(&self) -> Option<Part<S>> {
        self.slice.map(CurrentSlice::part)
    }
}

/// A directory of an operation, with what it keeps beside it.
pub(crate) type DirectoryOf<H> = Directory<<H as Handler>::State>;
/// What the slices of an operation come to.
pub(crate) type ResultsOf<H> = <<H as Handler>::State as State>::Results;
/// An open directory of an operation.
pub(crate) type HereOf<'a, H> = Here<'a, <H as Handler>::State>;

/// What is done again of a directory.
pub(crate) struct Again<'a> {
    /// It was read to its end, and names that are not in slices of their own are done.
    pub(crate) is_read: bool,
    /// It was closed once, and what that came to counts.
    pub(crate) was_closed: bool,
    /// The plans of large files that earlier runs have begun in it.
    pub(crate) plans: Vec<Vec<u8>>,
    /// Whether a name is in a slice of its own. Only asked if the directory was not read to its end.
    pub(crate) is_given: &'a dyn Fn(&[u8]) -> bool,
}

/// What a hook works with: the state of its thread, the directory of the entry or task, and the tasks that it adds.
pub(crate) struct Cx<'a, H: Handler + ?Sized> {
    pub(crate) worker: &'a mut H::Worker,
    pub(crate) tasks: &'a mut Tasks<H::State>,
    opened: Opened<'a, H>,
}

/// The directory of an entry or a task, if it has one. An error: it can no longer be opened.
pub(crate) type Opened<'a, H> = Result<Option<HereOf<'a, H>>, Errno>;

impl<'a, H: Handler + ?Sized> Cx<'a, H> {
    pub(crate) fn new(
        worker: &'a mut H::Worker,
        tasks: &'a mut Tasks<H::State>,
        opened: Opened<'a, H>,
    ) -> Self {
        Self { worker, tasks, opened }
    }

    /// The directory. None: there is none, as for a root, or it can no longer be opened.
    pub(crate) fn here(&self) -> Option<HereOf<'a, H>> {
        self.opened.ok().flatten()
    }

    /// The directory, or why it can no longer be opened.
    pub(crate) fn opened(&self) -> Opened<'a, H> {
        self.opened
    }
}

/// An operation of this crate on a tree: like [`Visit`], from which callers outside get one, but it also sees the directories of entries.
pub(crate) trait Handler: Sync {
    /// State of one thread.
    type Worker: Send;

    /// What it keeps beside a directory of the tree.
    type State: State;

    /// As [`Visit::worker`].
    fn worker(&self, index: usize) -> Self::Worker;

    /// Gets each directory object of a root, opened or not. The thread that communicates may call it, so it must not use the file system.
    fn root(&self, _directory: &Arc<DirectoryOf<Self>>) {}

    /// Gets a directory that was opened and is about to be read.
    fn entered(&self, _worker: &mut Self::Worker, _here: HereOf<'_, Self>) {}

    /// Gets a directory that is not read: opening it failed, or it is on a file system that the options leave out. It then ends like one
    /// without names. `parent`: none if it can no longer be opened.
    fn not_entered(
        &self,
        _worker: &mut Self::Worker,
        _parent: Option<HereOf<'_, Self>>,
        _directory: &Arc<DirectoryOf<Self>>,
    ) {
    }

    /// Called when all names of a slice have been looked at here, or failed. Also called after a stop, which leaves names out.
    fn looked(&self, _worker: &mut Self::Worker, _slice: &CurrentSlice<'_, Self::State>) {}

    /// Called when all slices of a directory have ended, on all ranks, unless it was sent by another rank. From [`Stage::Done`] on.
    fn done(
        &self,
        _worker: &mut Self::Worker,
        _directory: &Arc<DirectoryOf<Self>>,
        _tasks: &mut Tasks<Self::State>,
    ) {
    }

    /// Called when a directory is done and all below it is closed, on all ranks; if another rank sent it, when this rank's work in it is.
    /// [`Life::has_failed`](crate::tree::units::Life::has_failed) says whether something failed in it or below it. From [`Stage::Closed`] on.
    fn closed(&self, _worker: &mut Self::Worker, _directory: &Arc<DirectoryOf<Self>>) {}

    /// The [mark](crate::tree::mark) of what it has beside a directory that is about to be read, for the log of the job.
    fn beside(&self, _worker: &mut Self::Worker, _here: HereOf<'_, Self>) -> u32 {
        mark::NONE
    }

    /// Gets a directory of which something is done again, since an earlier run of the job has not done it, before anything of it is.
    fn again(&self, _worker: &mut Self::Worker, _here: HereOf<'_, Self>, _again: &Again<'_>) {}

    /// Called for a directory of which an earlier run of the job has not done something, and that is gone. `at`: the number of its root, and its path
    /// below that.
    fn gone(&self, _worker: &mut Self::Worker, _at: (u32, &[u8])) {}

    /// Called before the end of a slice of this directory, or its closing, is noted for the log of the job.
    fn noting(&self, _directory: &Arc<DirectoryOf<Self>>) {}

    /// Takes what it has gathered of a directory whose work another rank has sent, as bytes for that rank. Called when the slices have ended
    /// here, and again when all below is closed. Empty: nothing.
    fn report(&self, _directory: &Arc<DirectoryOf<Self>>) -> Vec<u8> {
        Vec::new()
    }

    /// Adds a report that is not empty, where the work was sent: before [`done`](Self::done) what comes with slices, before
    /// [`closed`](Self::closed) what comes with children. False: the bytes are not valid.
    fn reported(&self, _directory: &Arc<DirectoryOf<Self>>, _report: &[u8]) -> bool {
        false
    }

    /// Takes the parts of slices that have ended on this thread. `results` gets those of slices that nothing else keeps open.
    fn ended(&self, _worker: &mut Self::Worker, _results: &mut ResultsOf<Self>) -> Vec<Part<Self::State>> {
        Vec::new()
    }

    /// What this thread has gathered since it was last taken: the results of the current slice. None: slices have no results.
    fn results<'w>(&self, _worker: &'w mut Self::Worker) -> Option<&'w mut ResultsOf<Self>> {
        None
    }

    /// Called before what this thread has gathered is moved to a slice that other threads work on, too. What belongs to its names and is not in
    /// [`results`](Self::results) yet is to be put there.
    fn sharing(&self, _worker: &mut Self::Worker) {}

    /// Called when a slice has ended on this thread, before that is noted for the log of the job. `results`: what several threads have gathered; none: what
    /// this thread has gathered. `is_whole`: it is noted as done, if there is a log; else a later run does it again. Also called for what belongs to no
    /// slice, with `false`.
    fn slice_ended(
        &self,
        _worker: &mut Self::Worker,
        _results: Option<&mut ResultsOf<Self>>,
        _is_whole: bool,
    ) {
    }

    /// Called on each thread after each task and each run of names of a large directory, and at its end (`is_last`). The operation may take what the thread has noted as done and that waits for
    /// it ([`Journal::holding`](crate::tree::Journal::holding)).
    fn keep_noted(&self, _worker: &mut Self::Worker, _waiting: Waiting<'_, ResultsOf<Self>>, _is_last: bool) {
    }

    /// Gets the sum of the results of slices that have ended on this thread, after each task. It may take from it what must not wait for the
    /// end of the job.
    fn handed_over(&self, _worker: &mut Self::Worker, _results: &mut ResultsOf<Self>) {}

    /// Counts names that the rules exclude.
    fn excluded(&self, _worker: &mut Self::Worker, _count: u64) {}

    /// Gets an entry and its directory; a root has none.
    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>);

    /// Gets an entry that a list of differences names, with its flags. The walk enters a directory unless it is pruned.
    fn differing(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>, differs: Differs) {
        self.entry(cx, entry);
        if !differs.is_missing {
            cx.tasks.prune();
        }
    }

    /// Whether these bytes are a task of this operation. Asked when another rank sends one. `in_directory`: it belongs to a directory, so
    /// what it names must be names there.
    fn is_task(&self, _task: &[u8], _in_directory: bool) -> bool {
        true
    }

    /// The file, and where its first chunk begins, if these bytes are a task of a large file: for the file as a whole, or for chunks of it.
    fn file_of(&self, _task: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
        None
    }

    /// A name of this directory is left out, as ranks have died at it: the operation must not look at it in another way.
    fn name_left_out(&self, _directory: &Arc<Directory<Self::State>>, _name: &CStr) {}

    /// Runs a task that was pushed.
    fn task(&self, cx: &mut Cx<'_, Self>, task: &[u8]);

    /// As [`Visit::failure`].
    fn failure(&self, worker: &mut Self::Worker, failure: &Failure<'_>);

    /// Whether something waits on this rank that [`settle`](Self::settle) ends.
    fn waits(&self) -> bool {
        false
    }

    /// Called when no task is left on this rank and something [waits](Self::waits). Returns whether there is work for [`help`](Self::help).
    fn settle(&self, _worker: &mut Self::Worker) -> bool {
        false
    }

    /// Called after [`settle`](Self::settle): more names to look at, now that no task is left.
    fn more(&self, _worker: &mut Self::Worker) -> Vec<Seed> {
        Vec::new()
    }

    /// Called in tasks of their own after [`settle`](Self::settle) asked for help, so that slices and directories end between them. Does a part of the
    /// work. Returns whether there is more.
    fn help(&self, _worker: &mut Self::Worker) -> bool {
        false
    }

    /// Called on a thread between two tasks.
    fn between(&self, _worker: &mut Self::Worker) {}

    /// As [`Visit::finish`].
    fn finish(&self, worker: &mut Self::Worker);

    /// Work beside visiting entries, in any unit that grows evenly with the work.
    fn progress(&self) -> u64 {
        0
    }

    /// Its own counts so far, beside entries, for the observer.
    fn counted(&self) -> Counted {
        Counted::default()
    }

    /// Total time that its threads have waited for a rate limit of its own.
    fn throttled(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether an entry takes it much longer than a `statx`, so that handing names to idle threads block by block pays off.
    const IS_SLOW: bool = false;

    /// Whether an entry takes it time that grows with the size of the file. Then a slice ends by bytes, too.
    fn reads_files(&self) -> bool {
        false
    }

    /// How far it follows directories.
    const STAGE: Stage = Stage::Slices;

    /// The descriptors that it needs.
    const NEEDS: Needs = Needs::WALK;

    /// Whether the log of its job has [marks](crate::tree::mark) of directories. Otherwise it notes itself what a later run is to look at again.
    const MARKS: bool = true;
}

/// Tasks and flags that an operation returns to the walk.
#[derive(Debug)]
pub(crate) struct Tasks<S: State = ()> {
    pub(crate) pushed: Vec<Own<S>>,
    pub(crate) pruned: bool,
    /// The [mark](crate::tree::mark) of what the operation has beside the directory that it got.
    pub(crate) beside: u32,
    /// What directories that have ended owe to other ranks.
    pub(crate) payments: Vec<Payment>,
    /// Parts of slices that have ended.
    pub(crate) ended: Vec<Part<S>>,
}

/// A task that the operation added, and what it belongs to.
#[derive(Debug)]
pub(crate) struct Own<S: State = ()> {
    /// The rank that is to do it; none: any.
    pub(crate) to: Option<u32>,
    pub(crate) of: Of<S>,
    pub(crate) bytes: Vec<u8>,
}

/// What a task belongs to.
#[derive(Debug)]
pub(crate) enum Of<S: State = ()> {
    Nothing,
    Directory(Arc<Directory<S>>),
    /// It is a part of a slice.
    Part(Part<S>),
}

impl<S: State> Own<S> {
    pub(crate) fn directory(&self) -> Option<&Arc<Directory<S>>> {
        match &self.of {
            Of::Nothing => None,
            Of::Directory(directory) => Some(directory),
            Of::Part(part) => Some(part.slice().directory()),
        }
    }
}

impl<S: State> Default for Tasks<S> {
    fn default() -> Self {
        Self {
            pushed: Vec::new(),
            pruned: false,
            beside: mark::NONE,
            payments: Vec::new(),
            ended: Vec::new(),
        }
    }
}

impl<S: State> Tasks<S> {
    /// Adds a task: opaque bytes that [`Handler::task`] gets later, on any thread.
    pub(crate) fn push(&mut self, task: impl Into<Vec<u8>>) {
        self.pushed.push(Own { to: None, of: Of::Nothing, bytes: task.into() });
    }

    /// As `push`, for a task that needs this directory, which may be closed meanwhile.
    pub(crate) fn push_in(&mut self, directory: &Arc<Directory<S>>, bytes: Vec<u8>) {
        self.pushed.push(Own { to: None, of: Of::Directory(Arc::clone(directory)), bytes });
    }

    /// As `push_in`, for a task that is a part of a slice, if slices are followed.
    pub(crate) fn push_part(&mut self, directory: &Arc<Directory<S>>, part: Option<Part<S>>, bytes: Vec<u8>) {
        match part {
            Some(part) => self.pushed.push(Own { to: None, of: Of::Part(part), bytes }),
            None => self.push_in(directory, bytes),
        }
    }

    /// As `push`, for a task that only this rank runs, on any of its threads.
    pub(crate) fn push_to(&mut self, rank: u32, bytes: Vec<u8>) {
        self.pushed.push(Own { to: Some(rank), of: Of::Nothing, bytes });
    }

    /// Keeps the walk from entering the directory that was just passed.
    pub(crate) fn prune(&mut self) {
        self.pruned = true;
    }
}
