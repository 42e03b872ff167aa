//! The setup of a simulation. The same setup gives the same trace.

use atta_engine::{Config, ScheduleKind, Split, Termination};

use crate::cost::Costs;
use crate::network::{Network, Topology};
use crate::tree::Tree;

/// Approximate time of a batch of files, and the maximum number of files in it: as in `ops`.
const BATCH_NS: u64 = 2_000_000;
const BATCH_FILES_MAX: u64 = 4096;

/// How a rank works on its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Worker threads. They share the tasks of their rank.
    pub threads: u32,
    /// Whether a dedicated thread handles messages at once. Otherwise the first worker handles them between two tasks.
    pub communication_thread: bool,
    /// Whether all threads of a rank wait for each other after each task, as in the papers' Algorithm 4.
    pub lock_step: bool,
    /// Files handled in the same task as their directory. If there are at most twice as many, the task handles all; otherwise
    /// the rest become tasks.
    pub inline_files: u64,
    /// Files in a unit of such a task. Tasks are counted and given in units.
    pub batch_files: u64,
    /// Units that a thread takes at a time. A value above 1 means fewer events, but messages wait longer for a worker.
    pub slice_units: u64,
    /// Entries of a directory to read before the tasks for its files can be taken.
    pub chunk_entries: u64,
    /// Whether other ranks receive tasks from the whole queue, old and new. Otherwise they receive the oldest only. These are the
    /// largest: half of the tasks is then nearly all of the work, and the giver soon runs out.
    pub gives_evenly: bool,
    /// While fewer units than this wait, threads take the oldest task instead of the newest. They open directories breadth-first
    /// until there are enough tasks for other ranks.
    pub breadth_units: u64,
    /// Whether parcels carry a whole path for each file. Otherwise they carry the directory's path and file names.
    pub full_paths: bool,
    /// A directory with at most this many files in its subtree is one task that costs the sum of its parts. 0: never. This means
    /// fewer events for large trees. Limitation: such a subtree cannot be given away in parts.
    pub aggregate_files: u64,
}

impl Habits {
    /// The habits of `atta`: a task is a directory with up to one batch of its files. A batch takes 2 ms.
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

    /// The habits of the papers' program: every path is a task, and a rank handles messages between two tasks. Threads of a rank
    /// wait for each other after each task, because of the semaphores of Algorithm 4.
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

/// Disturbances of a run. All follow from the seed of the engines' [`Config`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// The maximum extra delay of a message. Messages of a pair of ranks keep their order.
    pub jitter_ns: u64,
    /// One rank in this many is slow. 0: none.
    pub slow_one_in: u32,
    /// The factor by which it is slower.
    pub slow_factor: u32,
    /// Whether each task costs a random 50% to 150% of its normal time.
    pub random_costs: bool,
    /// One parcel in this many is delivered twice. 0: none. No network does that, but a protocol that survives it also survives
    /// a sender that repeats itself.
    pub duplicate_one_in: u32,
    /// One new task in this many is addressed to one rank and sent there without a request. 0: none.
    pub addressed_one_in: u32,
    /// The time at which a rank asks for an early end, and the rank.
    pub stop: Option<(u64, u32)>,
}

/// A simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The tree to walk.
    pub tree: Tree,
    /// The costs of operations.
    pub costs: Costs,
    /// The network between ranks.
    pub network: Network,
    /// The number of ranks.
    pub ranks: u32,
    /// The protocol.
    pub engine: Config,
    /// How ranks work.
    pub habits: Habits,
    /// The disturbances.
    pub disturbance: Disturbance,
    /// Whether to count messages of each pair of ranks. Takes 16 bytes per pair.
    pub count_pairs: bool,
    /// More events than this are a violation.
    pub events_most: u64,
}

impl Setup {
    /// The papers' settings: one path per task, a file server, a torus of 20 hosts with two workers each. All ranks have one
    /// worker, except under `hybrid` and `lifeline`: there the two workers are threads of one rank.
    ///
    /// The token detects the end, except in centralized jobs: Algorithm 1 has no token and no acknowledgements, which the token
    /// needs for each parcel. Its master detects the end and sends each slave a sentinel. The counters are the closest match: some
    /// waves of one message per rank at the end, and [`Message::Finish`](atta_engine::Message::Finish) as the sentinel.
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

    /// A job of any size as `atta` runs it: one rank per host, threads that share its tasks, a dragonfly.
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
