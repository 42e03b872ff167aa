//! Jobs: the trait that turns tasks into work. No threads here.

use std::time::Duration;

use crate::queue::Queue;

/// A piece of work that is done as tasks, each of which may create more.
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
    /// The state that a thread keeps between tasks: buffers, totals. Returned in [`Outcome`](crate::Outcome).
    type Worker: Send;

    /// Makes the state of the thread with this index, 0 and up. Called on that thread.
    fn worker(&self, index: usize) -> Self::Worker;

    /// Runs one task. Tasks that it pushes may run at once on another thread.
    fn run(&self, worker: &mut Self::Worker, task: Self::Task, queue: &mut Queue<'_, Self>);

    /// Called on each thread at the end of the job, before its state is returned. Flush here.
    fn finish(&self, _worker: &mut Self::Worker) {}

    /// The progress so far, in any unit that grows evenly. The number of threads is tuned by it.
    fn progress(&self) -> u64 {
        0
    }

    /// Bytes of memory that a waiting task holds, including itself. Overestimate rather than underestimate.
    fn weigh(&self, _task: &Self::Task) -> usize {
        size_of::<Self::Task>()
    }

    /// Appends a task to `out` as bytes that [`unpack`](Self::unpack) turns into the same task.
    ///
    /// False: it cannot be encoded and stays in memory. `last` is the previous task in the same segment: shared parts need not be
    /// written again. Called when more memory is held than [`Options::memory_bytes`] allows, and for tasks that leave for another rank:
    /// then on the thread that communicates, so it must not wait for a file.
    ///
    /// [`Options::memory_bytes`]: crate::Options::memory_bytes
    fn pack(&self, _task: &Self::Task, _last: Option<&Self::Task>, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Called when no task is left on this rank. Returns a task that ends what still waits here, such as a batch that is not full. None:
    /// nothing waits, and this rank is idle. Called again when that task and those that followed from it have run, so it must return none
    /// at some time.
    fn rest(&self) -> Option<Self::Task> {
        None
    }

    /// Total time that threads have waited for the job's own cap: more threads would not help.
    fn throttled(&self) -> Duration {
        Duration::ZERO
    }

    /// Like [`pack`](Self::pack), for a task that returns to this process.
    fn spill(&self, task: &Self::Task, last: Option<&Self::Task>, out: &mut Vec<u8>) -> bool {
        self.pack(task, last, out)
    }

    /// A task is in the spill file. Called on the worker that had it.
    fn spilled(&self, _task: &Self::Task) {}

    /// A task that was packed for the spill file stays in memory: the file cannot be written.
    fn not_spilled(&self, _task: &Self::Task) {}

    /// A task that was packed has left for another rank. Returns a task that follows from this and runs here. Called on the thread that
    /// communicates, which then drops the task: the job keeps whatever closes files when it is dropped.
    fn sent(&self, _task: &Self::Task) -> Option<Self::Task> {
        None
    }

    /// Decodes tasks, in the order in which they were packed. An error means that the bytes are damaged.
    ///
    /// # Errors
    /// The bytes are not what [`pack`](Self::pack) wrote.
    fn unpack(&self, _bytes: &[u8]) -> Result<Vec<Self::Task>, &'static str> {
        Err("this job packs no tasks")
    }

    /// Decodes tasks that another rank packed. Do not trust data that only that rank can know. Called on the thread that communicates, so
    /// it must not wait for a file.
    ///
    /// # Errors
    /// The bytes are not what [`pack`](Self::pack) wrote.
    fn arrive(&self, bytes: &[u8]) -> Result<Vec<Self::Task>, &'static str> {
        self.unpack(bytes)
    }

    /// Called when spilled tasks could not be read back: `count` tasks are lost, and the result is incomplete.
    fn lost(&self, _worker: &mut Self::Worker, _count: u64, _why: &str) {}
}
