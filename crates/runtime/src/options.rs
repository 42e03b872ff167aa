//! The input and output of a run of the pool: options, status, outcome. `pool.rs` runs it.

use std::path::PathBuf;
use std::time::Duration;

use crate::cpu::available_cores;
use crate::rate::Rate;
use crate::spill::SpillReport;
use crate::stop::Stop;
use crate::threads::Threads;

/// Options of a job.
#[derive(Debug)]
pub struct Options<'a> {
    /// The number of threads.
    pub threads: Threads,
    /// An upper limit on the threads: the process may not hold more files open.
    pub threads_most: usize,
    /// Bytes that waiting tasks may hold in memory. Beyond that the oldest go to a file. A target, not a hard limit: tasks that a
    /// running task pushes at once, and those that [`Job::pack`](crate::Job::pack) gives back, come on top.
    pub memory_bytes: u64,
    /// The directory of the unnamed file for waiting tasks.
    pub spill_directory: PathBuf,
    /// A request to end early.
    pub stop: Stop,
    /// The cap on the job's tasks, so that time spent on it is not mistaken for a slow file system.
    pub rate: Option<&'a Rate>,
    /// The cores of this process: the initial value of [`Threads::Auto`].
    pub cores: usize,
}

impl Default for Options<'_> {
    /// Threads as needed, 128 MiB, and a spill file in `$TMPDIR` or `/var/tmp` (`/tmp` is often memory).
    fn default() -> Self {
        Self {
            threads: Threads::Auto,
            threads_most: usize::MAX,
            memory_bytes: 128 << 20,
            spill_directory: std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from),
            stop: Stop::new(),
            rate: None,
            cores: available_cores(),
        }
    }
}

/// The status of a job, for its observer.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Time since the start.
    pub elapsed: Duration,
    /// The current target number of threads.
    pub threads: usize,
    /// Time since the job was asked to end, if it was. A thread may be stuck in a system call.
    pub stopping: Option<Duration>,
}

/// Statistics of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Tasks done.
    pub tasks: u64,
    /// Tasks taken from other workers.
    pub steals: u64,
    /// Time without a task.
    pub waiting: Duration,
}

atta_entry::record!(WorkerReport { tasks, steals, waiting });

/// The outcome of a job.
#[derive(Debug)]
pub struct Outcome<W> {
    /// The state of each worker that was started.
    pub workers: Vec<W>,
    /// The statistics of each worker, in the same order.
    pub reports: Vec<WorkerReport>,
    /// Statistics of the spill file.
    pub spill: SpillReport,
    /// The maximum number of threads.
    pub threads_max: usize,
    /// Time from the first task to the last.
    pub elapsed: Duration,
    /// Whether the job ended early on request.
    pub stopped: bool,
}
