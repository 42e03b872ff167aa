//! The callback API between a walk and its caller. No I/O.

use atta_entry::{Entry, Failure};

use crate::tree::directory::{SliceResults, State, Stateless};
use crate::tree::journal::Waiting;
use crate::tree::operation::{self, Cx, Handler};

/// Tasks and flags that a caller's operation returns to the walk.
#[derive(Debug, Default)]
pub struct Tasks {
    pushed: Vec<Vec<u8>>,
    is_pruned: bool,
}

impl Tasks {
    /// Adds a task: opaque bytes that [`Visit::task`] gets later, on any thread.
    pub fn push(&mut self, task: impl Into<Vec<u8>>) {
        self.pushed.push(task.into());
    }

    /// Keeps the walk from entering the directory that was just passed.
    pub fn prune(&mut self) {
        self.is_pruned = true;
    }

    #[inline]
    fn hand_over<S: State>(self, to: &mut operation::Tasks<S>) {
        if !self.pushed.is_empty() {
            self.pushed.into_iter().for_each(|task| to.push(task));
        }
        if self.is_pruned {
            to.prune();
        }
    }
}

/// A caller's operation on a tree: it gets each entry once and may push tasks.
///
/// Methods run on many threads at once. Each thread gathers results in its `Worker`, which is returned at the end. For operations without
/// state, [`each`] makes one from a function.
pub trait Visit: Sync {
    /// State of one thread.
    type Worker: Send;

    /// What the names of a slice come to. They are added up, and returned at the end. `()`: nothing.
    type Results: SliceResults;

    /// Makes the state of the thread with this index, 0 and up. Called on that thread.
    fn worker(&self, index: usize) -> Self::Worker;

    /// Where a thread gathers results. They are moved from there to the slice after each batch of names. None: there are none.
    fn results<'w>(&self, _worker: &'w mut Self::Worker) -> Option<&'w mut Self::Results> {
        None
    }

    /// Called before what this thread has gathered is moved to a slice that other threads work on, too. What belongs to its names and is not in
    /// [`results`](Self::results) yet is to be put there.
    fn sharing(&self, _worker: &mut Self::Worker) {}

    /// Called when a slice has ended on this thread, before that is noted for the log of the job. `results`: what several threads have gathered; none: what
    /// this thread has gathered. `is_whole`: it is noted as done, if there is a log; else a later run does it again. Also called for what belongs to no
    /// slice, such as a root, with `false`.
    fn slice_ended(&self, _worker: &mut Self::Worker, _results: Option<&mut Self::Results>, _is_whole: bool) {
    }

    /// Called on each thread after each task and each run of names of a large directory, and at its end (`is_last`). The operation may take what the thread has noted as done and that waits for
    /// it ([`Journal::holding`](crate::walk::Journal::holding)).
    fn keep_noted(&self, _worker: &mut Self::Worker, _waiting: Waiting<'_, Self::Results>, _is_last: bool) {}

    /// Gets the sum of the results of slices that have ended on this thread, after each task. It may take from it what must not wait for the
    /// end of the walk.
    fn handed_over(&self, _worker: &mut Self::Worker, _results: &mut Self::Results) {}

    /// Counts names that the rules exclude.
    fn excluded(&self, _worker: &mut Self::Worker, _count: u64) {}

    /// Gets each entry of the tree once.
    fn entry(&self, worker: &mut Self::Worker, entry: &Entry<'_>, tasks: &mut Tasks);

    /// Runs a task that was pushed. It may run on another thread.
    fn task(&self, _worker: &mut Self::Worker, _task: &[u8], _tasks: &mut Tasks) {}

    /// Gets an entry that failed. The walk goes on.
    fn failure(&self, _worker: &mut Self::Worker, _failure: &Failure<'_>) {}

    /// Called on each thread when its part of the walk is over.
    fn finish(&self, _worker: &mut Self::Worker) {}
}

impl<V: Visit> Handler for V {
    type Worker = V::Worker;
    type State = Stateless<V::Results>;

    fn worker(&self, index: usize) -> Self::Worker {
        Visit::worker(self, index)
    }

    fn results<'w>(&self, worker: &'w mut V::Worker) -> Option<&'w mut V::Results> {
        Visit::results(self, worker)
    }

    fn sharing(&self, worker: &mut V::Worker) {
        Visit::sharing(self, worker);
    }

    fn slice_ended(&self, worker: &mut V::Worker, results: Option<&mut V::Results>, is_whole: bool) {
        Visit::slice_ended(self, worker, results, is_whole);
    }

    fn keep_noted(&self, worker: &mut V::Worker, waiting: Waiting<'_, V::Results>, is_last: bool) {
        Visit::keep_noted(self, worker, waiting, is_last);
    }

    fn handed_over(&self, worker: &mut V::Worker, results: &mut V::Results) {
        Visit::handed_over(self, worker, results);
    }

    fn excluded(&self, worker: &mut V::Worker, count: u64) {
        Visit::excluded(self, worker, count);
    }

    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let mut tasks = Tasks::default();
        Visit::entry(self, cx.worker, entry, &mut tasks);
        tasks.hand_over(cx.tasks);
    }

    fn task(&self, cx: &mut Cx<'_, Self>, task: &[u8]) {
        let mut tasks = Tasks::default();
        Visit::task(self, cx.worker, task, &mut tasks);
        tasks.hand_over(cx.tasks);
    }

    fn failure(&self, worker: &mut Self::Worker, failure: &Failure<'_>) {
        Visit::failure(self, worker, failure);
    }

    fn finish(&self, worker: &mut Self::Worker) {
        Visit::finish(self, worker);
    }
}

/// A [`Visit`] made from a function.
#[derive(Debug)]
pub struct Each<E, T> {
    entry: E,
    task: T,
}

/// Makes an operation from a function that gets each entry.
pub fn each<E: Fn(&Entry<'_>, &mut Tasks) + Sync>(entry: E) -> Each<E, fn(&[u8], &mut Tasks)> {
    Each { entry, task: |_, _| {} }
}

impl<E, T> Each<E, T> {
    /// Adds the function that gets each task that was pushed.
    pub fn with_tasks<F: Fn(&[u8], &mut Tasks) + Sync>(self, task: F) -> Each<E, F> {
        Each { entry: self.entry, task }
    }
}

impl<E, T> Visit for Each<E, T>
where
    E: Fn(&Entry<'_>, &mut Tasks) + Sync,
    T: Fn(&[u8], &mut Tasks) + Sync,
{
    type Worker = Vec<Failure<'static>>;
    type Results = ();

    fn worker(&self, _index: usize) -> Self::Worker {
        Vec::new()
    }

    fn entry(&self, _failures: &mut Self::Worker, entry: &Entry<'_>, tasks: &mut Tasks) {
        (self.entry)(entry, tasks);
    }

    fn task(&self, _failures: &mut Self::Worker, task: &[u8], tasks: &mut Tasks) {
        (self.task)(task, tasks);
    }

    /// Keeps failures, which are returned as the workers' state.
    fn failure(&self, failures: &mut Self::Worker, failure: &Failure<'_>) {
        failures.push(Failure {
            operation: failure.operation,
            root: failure.root.clone().into_owned().into(),
            path: failure.path.clone().into_owned().into(),
            errno: failure.errno,
            spelled: failure.spelled.clone().map(|name| name.into_owned().into()),
            at: failure.at.clone().map(|path| path.into_owned().into()),
        });
    }
}
