//! What operations of this crate do with a tree: they get its directories as well as its entries, and give tasks back. No I/O.

use std::sync::Arc;
use std::time::Duration;

use atta_entry::{Entry, Errno, Failure};
use rustix::fd::OwnedFd;

use crate::descriptors::Needs;
use crate::tree::directory::Directory;
use crate::tree::progress::Counted;
use crate::tree::slice::{AtHand, Part};
use crate::tree::start::Differs;

/// How far an operation follows directories: it pays for no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Until names have been looked at.
    Slices,
    /// Until all slices of a directory have ended.
    Done,
    /// Until all below it is closed, too.
    Closed,
}

/// A directory that is open, and the slice of it that is at hand, if the operation follows these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'a> {
    pub(crate) directory: &'a Arc<Directory>,
    pub(crate) descriptor: &'a Arc<OwnedFd>,
    pub(crate) slice: Option<&'a AtHand<'a>>,
}

impl Here<'_> {
    /// A part of the slice at hand that ends elsewhere.
    pub(crate) fn part(&self) -> Option<Part> {
        self.slice.map(AtHand::part)
    }
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

    /// Gets a directory that is not read: it cannot be, or is on another file system that is not wanted. What follows is as for one
    /// without names. `parent`: none, if that cannot be opened any more.
    fn not_entered(
        &self,
        _worker: &mut Self::Worker,
        _parent: Option<Here<'_>>,
        _directory: &Arc<Directory>,
    ) {
    }

    /// All names of a slice have been looked at here, or could not be. Also after a stop, which leaves names out.
    fn looked(&self, _worker: &mut Self::Worker, _slice: &AtHand<'_>) {}

    /// All slices of a directory have ended, none of them on another rank. From [`Stage::Done`] on.
    fn done(&self, _worker: &mut Self::Worker, _directory: &Arc<Directory>, _tasks: &mut Tasks) {}

    /// A directory is done and all below it is closed; or what this rank had to do in it is, where it is another rank's. From
    /// [`Stage::Closed`] on.
    fn closed(&self, _worker: &mut Self::Worker, _directory: &Arc<Directory>) {}

    /// Takes the parts of slices that have ended on this thread.
    fn ended(&self, _worker: &mut Self::Worker) -> Vec<Part> {
        Vec::new()
    }

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

    /// How far it follows directories.
    const STAGE: Stage = Stage::Slices;

    /// What it opens.
    const NEEDS: Needs = Needs::WALK;
}

/// What an operation gives back to the walk.
#[derive(Debug, Default)]
pub struct Tasks {
    pub(crate) pushed: Vec<Own>,
    pub(crate) pruned: bool,
}

/// A task of the caller's own, and what it belongs to.
#[derive(Debug)]
pub(crate) struct Own {
    /// The rank that is to do it; none: any.
    pub(crate) to: Option<u32>,
    pub(crate) of: Of,
    pub(crate) bytes: Vec<u8>,
}

/// What a task belongs to.
#[derive(Debug)]
pub(crate) enum Of {
    Nothing,
    Directory(Arc<Directory>),
    /// It is a part of a slice.
    Part(Part),
}

impl Own {
    pub(crate) fn directory(&self) -> Option<&Arc<Directory>> {
        match &self.of {
            Of::Nothing => None,
            Of::Directory(directory) => Some(directory),
            Of::Part(part) => Some(part.slice().directory()),
        }
    }
}

impl Tasks {
    /// Adds a task: opaque bytes that [`Visit::task`](crate::walk::Visit::task) will get, on any thread.
    pub fn push(&mut self, task: impl Into<Vec<u8>>) {
        self.pushed.push(Own { to: None, of: Of::Nothing, bytes: task.into() });
    }

    /// The same, for a task that needs this directory, which may be closed before.
    pub(crate) fn push_in(&mut self, directory: &Arc<Directory>, bytes: Vec<u8>) {
        self.pushed.push(Own { to: None, of: Of::Directory(Arc::clone(directory)), bytes });
    }

    /// The same, for a task that is a part of a slice, if slices are followed.
    pub(crate) fn push_part(&mut self, directory: &Arc<Directory>, part: Option<Part>, bytes: Vec<u8>) {
        match part {
            Some(part) => self.pushed.push(Own { to: None, of: Of::Part(part), bytes }),
            None => self.push_in(directory, bytes),
        }
    }

    /// The same, for a task that this rank alone is to do, on any of its threads.
    pub(crate) fn push_to(&mut self, rank: u32, bytes: Vec<u8>) {
        self.pushed.push(Own { to: Some(rank), of: Of::Nothing, bytes });
    }

    /// Says that the directory that was just given shall not be entered.
    pub fn prune(&mut self) {
        self.pruned = true;
    }
}
