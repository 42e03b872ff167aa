//! What operations of this crate do with a tree: they get its directories as well as its entries, and give tasks back. No I/O.

use std::sync::Arc;
use std::time::Duration;

use atta_entry::{Entry, Errno, Failure};
use rustix::fd::OwnedFd;

use crate::descriptors::Needs;
use crate::tree::directory::Directory;
use crate::tree::progress::Counted;
use crate::tree::start::Differs;

/// A directory that is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'a> {
    pub(crate) directory: &'a Arc<Directory>,
    pub(crate) descriptor: &'a Arc<OwnedFd>,
}

/// What an operation of this crate does with a tree: as [`Visit`], which it is made of for everybody else, and it sees the
/// directories that entries are in.
pub(crate) trait Handler: Sync {
    /// What one thread gathers.
    type Worker: Send;

    /// As [`Visit::worker`].
    fn worker(&self, index: usize) -> Self::Worker;

    /// Gets the directory of a root when it is opened, perhaps several times.
    fn root(&self, _directory: &Arc<Directory>) {}

    /// Gets a directory that was opened and is about to be read.
    fn entered(&self, _worker: &mut Self::Worker, _here: Here<'_>) {}

    /// Told that a directory of `parent` is not read: it cannot be, or is on another file system that is not wanted.
    fn not_entered(&self, _worker: &mut Self::Worker, _parent: Here<'_>, _name: &std::ffi::CStr) {}

    /// Told that all names of a directory are at hand and will be looked at in so many parts, or that they are too many for that.
    fn listed(&self, _worker: &mut Self::Worker, _here: Here<'_>, _parts: Option<usize>) {}

    /// Told that a part is looked at in one more.
    fn split(&self, _directory: &Arc<Directory>) {}

    /// Told that a part of a directory's names has been looked at, or could not be.
    fn looked(&self, _worker: &mut Self::Worker, _directory: &Arc<Directory>) {}

    /// Told that something that is to be done in a directory is bytes from now on: for another rank, or to come back later, and
    /// then with other directories. `is_part`: of its names.
    fn packed(&self, _directory: &Arc<Directory>, _is_part: bool) {}

    /// Gets an entry, and where it is: nowhere, for a root.
    fn entry(&self, worker: &mut Self::Worker, here: Option<Here<'_>>, entry: &Entry<'_>, tasks: &mut Tasks);

    /// Gets an entry that a list of differences names, and what it says of it. What is below a directory is walked unless that is
    /// pruned.
    fn differing(
        &self,
        worker: &mut Self::Worker,
        here: Option<Here<'_>>,
        entry: &Entry<'_>,
        differs: Differs,
        tasks: &mut Tasks,
    ) {
        self.entry(worker, here, entry, tasks);
        if !differs.is_missing {
            tasks.prune();
        }
    }

    /// Does a task that was given back, in its directory, if it has one; that may have become out of reach.
    fn task(
        &self,
        worker: &mut Self::Worker,
        here: Result<Option<Here<'_>>, Errno>,
        task: &[u8],
        tasks: &mut Tasks,
    );

    /// As [`Visit::failure`].
    fn failure(&self, worker: &mut Self::Worker, failure: &Failure<'_>);

    /// Called on a thread between two tasks.
    fn between(&self, _worker: &mut Self::Worker) {}

    /// Called on a thread after a task: may give back more of them, also for directories that were told of elsewhere.
    fn further(&self, _worker: &mut Self::Worker, _tasks: &mut Tasks) {}

    /// As [`Visit::finish`].
    fn finish(&self, worker: &mut Self::Worker);

    /// What it has done beside visiting entries, in any unit that grows evenly with the work.
    fn progress(&self) -> u64 {
        0
    }

    /// What it has counted so far beside entries, for who watches it.
    fn counted(&self) -> Counted {
        Counted::default()
    }

    /// How long its threads have waited for a cap of its own, all together.
    fn throttled(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether an entry takes it much longer than to ask for its metadata, so that names are worth handing out one block at a
    /// time when somebody else has nothing to do.
    const IS_SLOW: bool = false;

    /// What it opens.
    const NEEDS: Needs = Needs::WALK;
}

/// What an operation gives back to the walk.
#[derive(Debug, Default)]
pub struct Tasks {
    pub(crate) pushed: Vec<Own>,
    pub(crate) pruned: bool,
}

/// A task of the caller's own, and the directory that it belongs to, if it does.
#[derive(Debug)]
pub(crate) struct Own {
    /// The rank that is to do it; none: any.
    pub(crate) to: Option<u32>,
    pub(crate) directory: Option<Arc<Directory>>,
    pub(crate) bytes: Vec<u8>,
}

impl Tasks {
    /// Adds a task: opaque bytes that [`Visit::task`](crate::walk::Visit::task) will get, on any thread.
    pub fn push(&mut self, task: impl Into<Vec<u8>>) {
        self.pushed.push(Own { to: None, directory: None, bytes: task.into() });
    }

    /// The same, for a task that needs this directory.
    pub(crate) fn push_in(&mut self, directory: &Arc<Directory>, bytes: Vec<u8>) {
        self.pushed.push(Own { to: None, directory: Some(Arc::clone(directory)), bytes });
    }

    /// The same, for a task that this rank alone is to do, on any of its threads.
    pub(crate) fn push_to(&mut self, rank: u32, bytes: Vec<u8>) {
        self.pushed.push(Own { to: Some(rank), directory: None, bytes });
    }

    /// Says that the directory that was just given shall not be entered.
    pub fn prune(&mut self) {
        self.pruned = true;
    }
}
