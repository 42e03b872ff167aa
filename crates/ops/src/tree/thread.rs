//! What a thread works with while it runs a task of a walk, and how it reports failures. The steps of the walk are methods of it: see
//! `start/begin.rs`, `listing/read.rs` and `listing/look.rs`. It runs no task itself.

use atta_entry::{Errno, Operation};
use atta_runtime::Queue;

use crate::tree::directory::Directory;
use crate::tree::job::{TreeJob, Worker, push_own};
use crate::tree::operation::{DirectoryOf, Handler};
use crate::tree::task::Task;

/// A thread that runs a task: the walk, the state of the thread, and the queue for more tasks.
pub(crate) struct Thread<'t, 'j, 'q, V: Handler> {
    pub(crate) job: &'t TreeJob<'j, V>,
    pub(crate) worker: &'t mut Worker<'j, V>,
    pub(crate) queue: &'t mut Queue<'q, TreeJob<'j, V>>,
}

/// A failed step on an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    operation: Operation,
    errno: Errno,
}

/// The failure of what is left out, as ranks have died at it.
pub(crate) const LEFT_OUT: Failed = Failed { operation: Operation::AfterDeaths, errno: Errno::CANCELED };

impl Failed {
    pub(crate) fn errno(self) -> Errno {
        self.errno
    }
}

/// Returns a function that adds the operation to an error number.
pub(crate) fn failed(operation: Operation) -> impl Fn(Errno) -> Failed {
    move |errno| Failed { operation, errno }
}

impl<V: Handler> Thread<'_, '_, '_, V> {
    /// Adds a task of the walk itself.
    pub(crate) fn push(&mut self, task: Task<V::State>) {
        self.job.push(self.worker.index, task, self.queue);
    }

    /// Adds the tasks that the operation returned. Returns whether it pruned the entry that it got.
    pub(crate) fn take_tasks(&mut self) -> bool {
        push_own(self.job, &mut self.worker.tasks, self.queue);
        std::mem::take(&mut self.worker.tasks.pruned)
    }

    /// Reports a failure of a root, or of a path below it.
    pub(crate) fn fail(&mut self, root: &[u8], path: &[u8], failed: Failed) {
        self.job.fail(self.worker, failed.operation, path, root, failed.errno);
    }

    /// Reports a failure of a directory.
    pub(crate) fn fail_directory(&mut self, directory: &DirectoryOf<V>, failed: Failed) {
        self.job.fail_at(self.worker, failed.operation, directory, None, failed.errno);
    }

    /// Reports a failure of a name in a directory.
    pub(crate) fn fail_name(&mut self, directory: &Directory<V::State>, name: &[u8], failed: Failed) {
        self.job.fail_at(self.worker, failed.operation, directory, Some(name), failed.errno);
    }
}
