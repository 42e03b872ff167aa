//! What a caller of the pool gives and gets: options, how a job stands, what it left. Running it is `pool.rs`.

use std::path::PathBuf;
use std::time::Duration;

use crate::cpu::available_cores;
use crate::rate::Rate;
use crate::spill::SpillReport;
use crate::stop::Stop;
use crate::threads::Threads;

/// How a job is run.
#[derive(Debug)]
pub struct Options<'a> {
    /// How many threads.
    pub threads: Threads,
    /// Most threads, whatever that says: what the process may hold open does not suffice for more.
    pub threads_most: usize,
    /// Bytes that waiting tasks may hold in memory; past it the oldest go to a file. An aim, not a hard limit: what a
    /// task that runs pushes at once, and what [`Job::pack`](crate::Job::pack) gives back, comes on top.
    pub memory_bytes: u64,
    /// Where the file for waiting tasks is made (without a name) if one is needed.
    pub spill_directory: PathBuf,
    /// A request to end early.
    pub stop: Stop,
    /// The cap that the job's tasks keep to, so that being held back is not taken for a slow file system.
    pub rate: Option<&'a Rate>,
    /// Cores that are this process's: what [`Threads::Auto`] begins with.
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

/// How a job stands, as its observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Since the start.
    pub elapsed: Duration,
    /// Threads that are wanted at present.
    pub threads: usize,
    /// How long ago the job was asked to end, if it was: a thread may be stuck in a system call.
    pub stopping: Option<Duration>,
}

/// What one worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Tasks done.
    pub tasks: u64,
    /// Of them, taken from other workers.
    pub steals: u64,
    /// Time without a task.
    pub waiting: Duration,
}

atta_entry::record!(WorkerReport { tasks, steals, waiting });

/// What a job left.
#[derive(Debug)]
pub struct Outcome<W> {
    /// The state of each worker that was started.
    pub workers: Vec<W>,
    /// What each of them did, in the same order.
    pub reports: Vec<WorkerReport>,
    /// What was spilled.
    pub spill: SpillReport,
    /// The most threads that worked.
    pub threads_max: usize,
    /// From the first task to the last.
    pub elapsed: Duration,
    /// Whether it ended early because it was asked to.
    pub stopped: bool,
}
