//! What a job is: the trait that turns tasks into work. No threads here.

use std::time::Duration;

use crate::queue::Queue;

/// A piece of work that is done as tasks, each of which may give more.
///
/// The smallest one needs three items:
///
/// ```
/// use atta_runtime::{Job, Options, Queue, run};
///
/// /// Counts the nodes of a binary tree of the given height.
/// struct Count;
///
/// impl Job for Count {
///     type Task = u32;
///     type Worker = u64;
///     fn worker(&self, _index: usize) -> u64 {
///         0
///     }
///     fn run(&self, nodes: &mut u64, height: u32, queue: &mut Queue<'_, Self>) {
///         *nodes += 1;
///         if height > 0 {
///             queue.push(height - 1);
///             queue.push(height - 1);
///         }
///     }
/// }
///
/// let outcome = run(&Count, vec![10], &Options::default(), |_| {});
/// assert_eq!(outcome.workers.iter().sum::<u64>(), 2047);
/// ```
pub trait Job: Sync + Sized {
    /// One unit of work.
    type Task: Send;
    /// What one thread keeps between tasks: buffers, totals. Given back in [`Outcome`](crate::Outcome).
    type Worker: Send;

    /// Makes the state of the thread with this index, 0 and up. Called on that thread.
    fn worker(&self, index: usize) -> Self::Worker;

    /// Does one task. What it pushes may run at once on another thread.
    fn run(&self, worker: &mut Self::Worker, task: Self::Task, queue: &mut Queue<'_, Self>);

    /// Called on each thread when the job is over for it, before its state is given back: the place to flush.
    fn finish(&self, _worker: &mut Self::Worker) {}

    /// How much has been done so far, in any unit that grows evenly: what the number of threads is tuned by.
    fn progress(&self) -> u64 {
        0
    }

    /// Bytes of memory that a waiting task holds, itself included. An estimate that errs high is the safe one.
    fn weigh(&self, _task: &Self::Task) -> usize {
        size_of::<Self::Task>()
    }

    /// Appends a task to `out` as bytes that [`unpack`](Self::unpack) turns into the same task; false if it cannot be
    /// bytes (it stays in memory). `last` is the one that was packed before it into the same segment: what they share
    /// need not be written again. Called when more is held than [`Options::memory_bytes`] allows.
    ///
    /// [`Options::memory_bytes`]: crate::Options::memory_bytes
    fn pack(&self, _task: &Self::Task, _last: Option<&Self::Task>, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// How long threads have waited for a cap of the job's own so far, all together: more threads would not help.
    fn throttled(&self) -> Duration {
        Duration::ZERO
    }

    /// As [`pack`](Self::pack), for a task that comes back to this process.
    fn spill(&self, task: &Self::Task, last: Option<&Self::Task>, out: &mut Vec<u8>) -> bool {
        self.pack(task, last, out)
    }

    /// A task that was packed for the spill file stays in memory: the file cannot be written.
    fn not_spilled(&self, _task: &Self::Task) {}

    /// A task that was packed has left for another rank.
    fn sent(&self, _task: &Self::Task) {}

    /// The tasks that `bytes` hold, in the order in which they were packed; an error says that the bytes are damaged.
    ///
    /// # Errors
    /// The bytes are not what [`pack`](Self::pack) wrote.
    fn unpack(&self, _bytes: &[u8]) -> Result<Vec<Self::Task>, &'static str> {
        Err("this job packs no tasks")
    }

    /// The tasks that `bytes` hold, which another rank packed: what only that rank can know must not be trusted.
    ///
    /// # Errors
    /// The bytes are not what [`pack`](Self::pack) wrote.
    fn arrive(&self, bytes: &[u8]) -> Result<Vec<Self::Task>, &'static str> {
        self.unpack(bytes)
    }

    /// Told when spilled tasks could not be read back: `count` tasks are lost, and the result is not complete.
    fn lost(&self, _worker: &mut Self::Worker, _count: u64, _why: &str) {}
}
