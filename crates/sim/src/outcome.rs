//! The outcome of a simulation.

use atta_engine::{Counts, Reason};

use crate::totals::Totals;
use crate::traffic::{KINDS, Volume};

/// Statistics of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankStats {
    /// Directories and files.
    pub done: Totals,
    /// Time that its threads spent in directories.
    pub readdir_ns: u64,
    /// Time that its threads spent in `lstat`.
    pub stat_ns: u64,
    /// Processor time for messages.
    pub communication_ns: u64,
    /// When its first task began. None if it never had one.
    pub first_task_ns: Option<u64>,
    /// When its last task ended. 0 if it never had one.
    pub last_task_ns: u64,
    /// Messages sent.
    pub sent: Volume,
    /// The maximum number of waiting tasks.
    pub waiting_most: u64,
}

impl RankStats {
    /// Time that its threads spent in tasks.
    #[must_use]
    pub fn work_ns(&self) -> u64 {
        self.readdir_ns + self.stat_ns
    }
}

/// Statistics of one worker thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Directories and files.
    pub tasks: u64,
    /// Time spent in them.
    pub work_ns: u64,
}

/// The outcome of a simulation without violations.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When the last rank left.
    pub run_ns: u64,
    /// When the root announced the end.
    pub announced_ns: u64,
    /// The reason of the end.
    pub reason: Reason,
    /// When every rank that had any tasks had begun its first one.
    pub all_begun_ns: u64,
    /// When the first of the ranks that run tasks had finished its last one. 0 if one never had any.
    pub first_out_ns: u64,
    /// Ranks that run tasks but never had one.
    pub ranks_without_tasks: u32,
    /// The totals of the job.
    pub totals: Totals,
    /// Threads of all ranks that run tasks.
    pub threads: u64,
    /// The statistics of each rank, by rank.
    pub ranks: Vec<RankStats>,
    /// The threads of each rank in turn. A rank that runs no tasks (a master) counts as one thread that did none.
    pub workers: Vec<WorkerStats>,
    /// Messages sent, by kind as in [`KINDS`].
    pub kinds: [Volume; KINDS.len()],
    /// Messages sent, by pair, if requested. The index is sender times number of ranks plus receiver.
    pub pairs: Option<Vec<Volume>>,
    /// The sum of all engines' counts.
    pub counts: Counts,
    /// Events simulated.
    pub events: u64,
    /// A hash of the course of the run. Different courses have the same number with a chance of 2^-64.
    pub trace: u64,
}

impl Outcome {
    /// The sum of all messages.
    #[must_use]
    pub fn sent(&self) -> Volume {
        self.kinds.iter().fold(Volume::default(), |sum, kind| Volume {
            messages: sum.messages + kind.messages,
            bytes: sum.bytes + kind.bytes,
        })
    }

    /// Time that all threads spent in tasks.
    #[must_use]
    pub fn work_ns(&self) -> u64 {
        self.ranks.iter().map(RankStats::work_ns).sum()
    }

    /// Time spent on messages, over all ranks.
    #[must_use]
    pub fn communication_ns(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.communication_ns).sum()
    }

    /// The share of all threads' time spent in tasks.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        self.work_ns() as f64 / (self.threads as f64 * self.run_ns as f64)
    }

    /// Messages per file or directory.
    #[must_use]
    pub fn messages_per_task(&self) -> f64 {
        self.sent().messages as f64 / self.totals.tasks().max(1) as f64
    }

    /// The fraction of the run after the first rank ran out of work for good.
    #[must_use]
    pub fn end_phase(&self) -> f64 {
        (self.run_ns - self.first_out_ns) as f64 / self.run_ns.max(1) as f64
    }

    /// The largest share of all tasks done by one worker, minus the smallest. A master counts too.
    #[must_use]
    pub fn spread(&self) -> f64 {
        self.spread_of(|worker| worker.tasks)
    }

    /// The same for the time in tasks. It differs from the count because a directory takes longer than a file.
    #[must_use]
    pub fn time_spread(&self) -> f64 {
        self.spread_of(|worker| worker.work_ns)
    }

    fn spread_of(&self, of: fn(&WorkerStats) -> u64) -> f64 {
        let each = || self.workers.iter().map(of);
        let (most, least) = (each().max().unwrap_or(0), each().min().unwrap_or(0));
        (most - least) as f64 / each().sum::<u64>().max(1) as f64
    }

    /// The maximum number of waiting tasks on one rank.
    #[must_use]
    pub fn waiting_most(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.waiting_most).max().unwrap_or(0)
    }
}
