//! What a caller of a walk gives and gets: options, how it stands, what it left. The walk itself is `walk.rs`.

use std::path::PathBuf;
use std::time::Duration;

use atta_engine::Reason;
use atta_runtime::{Exchanged, Rate, SpillReport, Stop, Threads, WorkerReport};
use atta_sys::Features;

use crate::tree::listing::rules::Rules;
use crate::tree::profile::Profile;

/// How a walk is done.
#[derive(Debug)]
pub struct Options<'a> {
    /// Do not enter directories on other file systems, nor other mounts of the same one.
    pub one_file_system: bool,
    /// Levels below the root that are listed; none: all. With 0 the root alone.
    pub max_depth: Option<u32>,
    /// Follow symbolic links that stay below the root; others are failures, as is a link back to a directory above it.
    pub follow: bool,
    /// Do not ask for metadata where the directory says of which kind an entry is.
    pub lite: bool,
    /// Read the targets of symbolic links.
    pub targets: bool,
    /// Ask for the time of birth. Whoever does without it spares a walk of cached metadata some 2 % of its time.
    pub birth_time: bool,
    /// Entries to leave out.
    pub rules: Option<Rules>,
    /// A cap on metadata operations a second.
    pub rate: Option<&'a Rate>,
    /// How many threads.
    pub threads: Threads,
    /// Bytes of memory for tasks that wait; more go to a file.
    pub memory_bytes: u64,
    /// Where that file is made.
    pub spill_directory: PathBuf,
    /// A request to end early.
    pub stop: Stop,
    /// What the kernel is taken to have.
    pub features: Features,
    /// Cores that are this process's.
    pub cores: usize,
}

impl Default for Options<'_> {
    fn default() -> Self {
        let runtime = atta_runtime::Options::default();
        Self {
            one_file_system: false,
            max_depth: None,
            follow: false,
            lite: false,
            targets: false,
            birth_time: true,
            rules: None,
            rate: None,
            threads: runtime.threads,
            memory_bytes: runtime.memory_bytes,
            spill_directory: runtime.spill_directory,
            stop: runtime.stop,
            features: Features::default(),
            cores: runtime.cores,
        }
    }
}

/// How a walk stands, as its observer sees it.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// Threads that are wanted at present.
    pub threads: usize,
    /// How long ago it was asked to end, if it was.
    pub stopping: Option<Duration>,
    /// What was done so far, over all threads.
    pub profile: Profile,
}

/// What one thread of a walk did.
#[derive(Clone, Copy, Debug)]
pub struct ThreadReport {
    /// What it did and where its time went.
    pub profile: Profile,
    /// Its tasks, steals and waiting.
    pub worker: WorkerReport,
}

atta_entry::record!(ThreadReport { profile, worker });

/// What a walk left.
#[derive(Debug)]
pub struct Outcome<W> {
    /// The visitor's state of each thread.
    pub workers: Vec<W>,
    /// What each thread did, in the same order.
    pub threads: Vec<ThreadReport>,
    /// Their sum.
    pub profile: Profile,
    /// What was spilled.
    pub spill: SpillReport,
    /// From start to end.
    pub elapsed: Duration,
    /// Whether it ended early because it was asked to.
    pub stopped: bool,
    /// Why it ended, on all ranks.
    pub reason: Reason,
    /// What was exchanged with other ranks.
    pub exchanged: Exchanged,
}
