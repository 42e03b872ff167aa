//! All that decides what a simulation will do. The same setup gives the same trace.

use atta_engine::{Config, ScheduleKind, Split, Termination};

use crate::cost::Costs;
use crate::network::{Network, Topology};
use crate::tree::Tree;

/// How long a batch of files takes, about, and how many it has at most: as in `ops`.
const BATCH_NS: u64 = 2_000_000;
const BATCH_FILES_MAX: u64 = 4096;

/// How a rank works on its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Threads that work; they share the tasks of their rank.
    pub threads: u32,
    /// Whether a thread of its own handles messages at once. Otherwise the first worker does, between two tasks.
    pub communication_thread: bool,
    /// Whether all threads of a rank wait for each other after each task, as in the papers' Algorithm 4.
    pub lock_step: bool,
    /// Files that are looked at together with the directory that holds them: all, if there are at most twice as many. The
    /// rest become tasks.
    pub inline_files: u64,
    /// Files of such a task: its unit of counting and giving.
    pub batch_files: u64,
    /// Such units that a thread takes at a time. More than 1 makes fewer events, and messages that wait for a worker wait
    /// longer.
    pub slice_units: u64,
    /// Entries of a directory that are read before the tasks for its files can be taken.
    pub chunk_entries: u64,
    /// Whether other ranks get tasks from all over the queue, old and new. Otherwise they get the oldest alone: these are the
    /// largest, so that half of the tasks is nearly all of the work, and who gave it is soon without any.
    pub gives_evenly: bool,
    /// While fewer units than this wait, threads take the oldest task and not the newest: directories are opened in breadth
    /// until there are enough tasks for others.
    pub breadth_units: u64,
    /// Whether parcels carry a whole path for each file; otherwise the directory's path and names.
    pub full_paths: bool,
    /// A directory with at most so many files in it and below is one task that ends when all of it is done, for the sum of
    /// what its parts cost; 0: none is. Fewer events for large trees. What is left out: such a subtree cannot be given
    /// away in parts.
    pub aggregate_files: u64,
}

impl Habits {
    /// As `atta` works: a task is a directory with its files up to a batch, and a batch is what takes 2 ms.
    #[must_use]
    pub fn atta(threads: u32, costs: &Costs) -> Self {
        let batch_files = (BATCH_NS / costs.stat_ns.max(1)).clamp(1, BATCH_FILES_MAX);
        Self {
            threads,
            communication_thread: true,
            lock_step: false,
            inline_files: batch_files,
            batch_files,
            slice_units: 1,
            chunk_entries: 4096,
            gives_evenly: true,
            breadth_units: 16,
            full_paths: false,
            aggregate_files: 0,
        }
    }

    /// As the papers' program works: every path is a task, and messages are handled between two of them. Threads of one rank wait
    /// for each other after each task, as the semaphores of Algorithm 4 make them.
    #[must_use]
    pub fn paper(threads: u32) -> Self {
        Self {
            threads,
            communication_thread: false,
            lock_step: threads > 1,
            inline_files: 0,
            batch_files: 1,
            slice_units: 1,
            chunk_entries: u64::MAX,
            gives_evenly: false,
            breadth_units: 0,
            full_paths: true,
            aggregate_files: 0,
        }
    }
}

/// What disturbs a run. All of it follows from the seed of the engines' [`Config`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Each message takes up to so much longer. Those of a pair of ranks keep their order.
    pub jitter_ns: u64,
    /// One rank in so many is slow; 0: none is.
    pub slow_one_in: u32,
    /// How many times slower.
    pub slow_factor: u32,
    /// Whether each task costs between half and one and a half times what it would.
    pub random_costs: bool,
    /// One parcel in so many is delivered twice; 0: none is. No network does that; a protocol that survives it
    /// survives a sender that is not sure.
    pub duplicate_one_in: u32,
    /// One new task in so many is for a certain rank, which is sent it though it did not ask; 0: none is.
    pub addressed_one_in: u32,
    /// At this time a rank wants the job to end.
    pub stop: Option<(u64, u32)>,
}

/// A simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What is walked.
    pub tree: Tree,
    /// What it costs.
    pub costs: Costs,
    /// How ranks are connected.
    pub network: Network,
    /// How many there are.
    pub ranks: u32,
    /// The protocol.
    pub engine: Config,
    /// How they work.
    pub habits: Habits,
    /// What disturbs them.
    pub disturbance: Disturbance,
    /// Whether to count messages of each pair of ranks. Takes 16 bytes a pair.
    pub count_pairs: bool,
    /// More events than this are a violation.
    pub events_most: u64,
}

impl Setup {
    /// The papers' settings: one path a task, a file server, a torus of 20 hosts with two workers each. All ranks have one
    /// worker, but for `hybrid` and `lifeline`: there two workers are threads of one rank.
    ///
    /// The end is noticed by the token, but not in centralized jobs: Algorithm 1 has no token and acknowledges nothing, which
    /// the token needs for each parcel. Its master knows of the end and sends each slave a sentinel; the counters come nearest
    /// to that, with some waves of one message a rank at the end and [`Message::Finish`](atta_engine::Message::Finish) as the sentinel.
    #[must_use]
    pub fn paper(tree: Tree, schedule: ScheduleKind, split: Split, workers: u32) -> Self {
        let is_threaded = matches!(schedule, ScheduleKind::Hybrid | ScheduleKind::Lifeline);
        let threads = if is_threaded { 2 } else { 1 };
        let is_centralized = matches!(schedule, ScheduleKind::Centralized | ScheduleKind::CentralizedKeep);
        let termination = if is_centralized { Termination::Counters } else { Termination::Token };
        let engine = Config { schedule, split, termination, low_water: 0, ..Config::default() };
        Self {
            tree,
            costs: Costs::FILE_SERVER,
            network: Network::interconnect(Topology::torus(20), 2 / threads),
            ranks: workers.div_ceil(threads).max(1),
            engine,
            habits: Habits::paper(threads),
            disturbance: Disturbance::default(),
            count_pairs: false,
            events_most: u64::MAX,
        }
    }

    /// A job of any size as `atta` would run it: one rank a host, threads that share its tasks, a dragonfly.
    #[must_use]
    pub fn atta(tree: Tree, schedule: ScheduleKind, ranks: u32, threads: u32, costs: Costs) -> Self {
        Self {
            tree,
            costs,
            network: Network::interconnect(Topology::Dragonfly { hosts: 16, routers: 32 }, 1),
            ranks,
            engine: Config { schedule, ..Config::default() },
            habits: Habits::atta(threads, &costs),
            disturbance: Disturbance::default(),
            count_pairs: false,
            events_most: u64::MAX,
        }
    }
}
