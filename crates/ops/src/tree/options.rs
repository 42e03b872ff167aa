//! Options, progress and outcome of a walk. The walk itself is `walk.rs`.

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
    /// Levels below the root to list; none: all. With 0, only the root.
    pub max_depth: Option<u32>,
    /// Follow symbolic links that stay below the root; others are failures, as is a link back to a directory above it.
    pub follow: bool,
    /// Do not get metadata if the directory reports the kind of an entry.
    pub lite: bool,
    /// Read the targets of symbolic links.
    pub targets: bool,
    /// Get the time of birth. Without it a walk of cached metadata takes some 2 % less time.
    pub birth_time: bool,
    /// Entries to leave out.
    pub rules: Option<Rules>,
    /// A cap on metadata operations a second.
    pub rate: Option<&'a Rate>,
    /// How many threads.
    pub threads: Threads,
    /// Bytes of memory for waiting tasks; further ones go to a file.
    pub memory_bytes: u64,
    /// Where that file is made.
    pub spill_directory: PathBuf,
    /// A request to end early.
    pub stop: Stop,
    /// The kernel features to use.
    pub features: Features,
    /// Cores of this process.
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

/// Progress of a walk, as its observer sees it.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// Threads wanted at present.
    pub threads: usize,
    /// Time since it was asked to end, if it was.
    pub stopping: Option<Duration>,
    /// The profile so far, over all threads.
    pub profile: Profile,
}

/// What one thread of a walk did.
#[derive(Clone, Copy, Debug)]
pub struct ThreadReport {
    /// Its counts and times.
    pub profile: Profile,
    /// Its tasks, steals and waiting.
    pub worker: WorkerReport,
}

atta_entry::record!(ThreadReport { profile, worker });

/// The result of a walk.
#[derive(Debug)]
pub struct Outcome<W, R = ()> {
    /// The visitor's state of each thread.
    pub workers: Vec<W>,
    /// The sum of the results of all slices.
    pub results: R,
    /// The report of each thread, in the same order.
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
    /// The exchange with other ranks.
    pub exchanged: Exchanged,
}
