//! What came out of a simulation.

use atta_engine::{Counts, Reason};

use crate::totals::Totals;
use crate::traffic::{KINDS, Volume};

/// What one rank did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankStats {
    /// Directories and files.
    pub done: Totals,
    /// Time of its threads in directories.
    pub readdir_ns: u64,
    /// Time of its threads in `lstat`.
    pub stat_ns: u64,
    /// Processor time for messages.
    pub communication_ns: u64,
    /// When its first task began; none if it never had one.
    pub first_task_ns: Option<u64>,
    /// When its last task ended; 0 if it never had one.
    pub last_task_ns: u64,
    /// What it sent.
    pub sent: Volume,
    /// The most tasks that waited.
    pub waiting_most: u64,
}

impl RankStats {
    /// Time of its threads in tasks.
    #[must_use]
    pub fn work_ns(&self) -> u64 {
        self.readdir_ns + self.stat_ns
    }
}

/// What one thread that works did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Directories and files.
    pub tasks: u64,
    /// Time in them.
    pub work_ns: u64,
}

/// A simulation that broke no rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When the last rank left.
    pub run_ns: u64,
    /// When the root announced the end.
    pub announced_ns: u64,
    /// Why.
    pub reason: Reason,
    /// When the last of the ranks that had any tasks began with its first one.
    pub all_begun_ns: u64,
    /// When the first of the ranks that run tasks had done its last one; 0 if one never had any.
    pub first_out_ns: u64,
    /// Ranks that run tasks and never had one.
    pub ranks_without_tasks: u32,
    /// What was done.
    pub totals: Totals,
    /// Threads of all ranks that run tasks.
    pub threads: u64,
    /// Each rank by its number.
    pub ranks: Vec<RankStats>,
    /// The threads of each rank in turn; a rank that runs no tasks (a master) is one that did none.
    pub workers: Vec<WorkerStats>,
    /// What was sent, by kind as in [`KINDS`].
    pub kinds: [Volume; KINDS.len()],
    /// What was sent, by pair, if it was asked for: sender times number of ranks plus receiver.
    pub pairs: Option<Vec<Volume>>,
    /// What all engines counted.
    pub counts: Counts,
    /// Events that were simulated.
    pub events: u64,
    /// A number that is the same for two runs only if they took the same course, but for a chance of 2^-64.
    pub trace: u64,
}

impl Outcome {
    /// All messages.
    #[must_use]
    pub fn sent(&self) -> Volume {
        self.kinds.iter().fold(Volume::default(), |sum, kind| Volume {
            messages: sum.messages + kind.messages,
            bytes: sum.bytes + kind.bytes,
        })
    }

    /// Time of all threads in tasks.
    #[must_use]
    pub fn work_ns(&self) -> u64 {
        self.ranks.iter().map(RankStats::work_ns).sum()
    }

    /// Time for messages on all ranks.
    #[must_use]
    pub fn communication_ns(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.communication_ns).sum()
    }

    /// The share of all threads' time in which they worked.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        self.work_ns() as f64 / (self.threads as f64 * self.run_ns as f64)
    }

    /// Messages for each file or directory.
    #[must_use]
    pub fn messages_per_task(&self) -> f64 {
        self.sent().messages as f64 / self.totals.tasks().max(1) as f64
    }

    /// The part of the run from the first rank out of work for good to its end.
    #[must_use]
    pub fn end_phase(&self) -> f64 {
        (self.run_ns - self.first_out_ns) as f64 / self.run_ns.max(1) as f64
    }

    /// The largest share of all tasks that a worker did, less the smallest. A master counts too.
    #[must_use]
    pub fn spread(&self) -> f64 {
        self.spread_of(|worker| worker.tasks)
    }

    /// The same for the time in tasks. Workers that are busy for as long do not do as many: a directory takes longer than a
    /// file.
    #[must_use]
    pub fn time_spread(&self) -> f64 {
        self.spread_of(|worker| worker.work_ns)
    }

    fn spread_of(&self, of: fn(&WorkerStats) -> u64) -> f64 {
        let each = || self.workers.iter().map(of);
        let (most, least) = (each().max().unwrap_or(0), each().min().unwrap_or(0));
        (most - least) as f64 / each().sum::<u64>().max(1) as f64
    }

    /// The most tasks that waited on one rank.
    #[must_use]
    pub fn waiting_most(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.waiting_most).max().unwrap_or(0)
    }
}
