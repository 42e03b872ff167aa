//! The callback API: what a user gives to a walk, and what the walk lends to it. Nothing here does I/O.

use atta_entry::{Entry, Errno, Failure};

use crate::tree::operation::{Handler, Here, Tasks};

/// What a user's operation does with a tree: it gets each entry once and may give back more tasks.
///
/// Methods run on many threads at once; what one thread gathers goes into its `Worker`, which comes back at the end.
/// For operations that need no state of their own, [`each`] makes one of a function.
pub trait Visit: Sync {
    /// What one thread gathers.
    type Worker: Send;

    /// Makes the state of the thread with this index, 0 and up. Called on that thread.
    fn worker(&self, index: usize) -> Self::Worker;

    /// Gets an entry: each one of the tree once.
    fn entry(&self, worker: &mut Self::Worker, entry: &Entry<'_>, tasks: &mut Tasks);

    /// Does a task that was given back: the bytes that were pushed. It may run on another thread.
    fn task(&self, _worker: &mut Self::Worker, _task: &[u8], _tasks: &mut Tasks) {}

    /// Gets an entry that could not be done. It is not an end of the walk.
    fn failure(&self, _worker: &mut Self::Worker, _failure: &Failure<'_>) {}

    /// Called on each thread when the walk is over for it.
    fn finish(&self, _worker: &mut Self::Worker) {}
}

impl<V: Visit> Handler for V {
    type Worker = V::Worker;

    fn worker(&self, index: usize) -> Self::Worker {
        Visit::worker(self, index)
    }

    fn entry(
        &self,
        worker: &mut Self::Worker,
        _here: Option<Here<'_>>,
        entry: &Entry<'_>,
        tasks: &mut Tasks,
    ) {
        Visit::entry(self, worker, entry, tasks);
    }

    fn task(
        &self,
        worker: &mut Self::Worker,
        _here: Result<Option<Here<'_>>, Errno>,
        task: &[u8],
        tasks: &mut Tasks,
    ) {
        Visit::task(self, worker, task, tasks);
    }

    fn failure(&self, worker: &mut Self::Worker, failure: &Failure<'_>) {
        Visit::failure(self, worker, failure);
    }

    fn finish(&self, worker: &mut Self::Worker) {
        Visit::finish(self, worker);
    }
}

/// A [`Visit`] made of a function.
#[derive(Debug)]
pub struct Each<E, T> {
    entry: E,
    task: T,
}

/// Makes an operation of a function that gets each entry.
pub fn each<E: Fn(&Entry<'_>, &mut Tasks) + Sync>(entry: E) -> Each<E, fn(&[u8], &mut Tasks)> {
    Each { entry, task: |_, _| {} }
}

impl<E, T> Each<E, T> {
    /// Adds the function that gets each task that was given back.
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

    fn worker(&self, _index: usize) -> Self::Worker {
        Vec::new()
    }

    fn entry(&self, _failures: &mut Self::Worker, entry: &Entry<'_>, tasks: &mut Tasks) {
        (self.entry)(entry, tasks);
    }

    fn task(&self, _failures: &mut Self::Worker, task: &[u8], tasks: &mut Tasks) {
        (self.task)(task, tasks);
    }

    /// Failures are kept and come back as the workers' state.
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
