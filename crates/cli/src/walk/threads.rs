//! What ranks and threads of a walk report of themselves, in a form that goes to rank 0 and into the summary. Counting and printing
//! are elsewhere.

use std::time::Duration;

use atta_ops::walk::{Profile, ThreadReport};
use atta_runtime::WorkerReport;
use serde::{Deserialize, Serialize};

/// What one rank did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RankReport {
    pub(super) rank: u32,
    pub(super) entries: u64,
    /// Time its communicating thread spent on messages.
    pub(super) communication_seconds: f64,
    /// Time on a core of all its threads, from when the ranks had met.
    pub(super) cpu_seconds: f64,
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) parcels_given: u64,
    pub(super) tasks_given: u64,
    pub(super) parcels_accepted: u64,
    pub(super) tasks_accepted: u64,
    pub(super) rests: u64,
    /// To whom it sent how many messages and bytes, where that was asked for.
    pub(super) traffic: Vec<(u32, u64, u64)>,
    /// Of each thread: its profile, its tasks, steals and nanoseconds of waiting.
    pub(super) threads: Vec<(Numbers, [u64; 3])>,
}

impl RankReport {
    /// What its threads did, all together.
    pub(super) fn profile(&self) -> Profile {
        self.threads.iter().map(|(numbers, _)| profile(numbers)).sum()
    }

    /// Seconds that its threads waited, all together.
    pub(super) fn waiting(&self) -> f64 {
        self.threads.iter().map(|(_, [.., waiting])| Duration::from_nanos(*waiting).as_secs_f64()).sum()
    }
}

/// Entries, directories, failures, excluded, bytes, known, looked; nanoseconds of readdir, stat, callback.
pub(super) type Numbers = [u64; 10];

pub(super) fn numbers(profile: Profile) -> Numbers {
    let Profile { entries, directories, failures, excluded, bytes, known, looked, .. } = profile;
    let [readdir, stat, callback] = [profile.readdir, profile.stat, profile.callback].map(nanoseconds);
    [entries, directories, failures, excluded, bytes, known, looked, readdir, stat, callback]
}

pub(super) fn profile(
    &[entries, directories, failures, excluded, bytes, known, looked, readdir, stat, callback]: &Numbers,
) -> Profile {
    let [readdir, stat, callback] = [readdir, stat, callback].map(Duration::from_nanos);
    Profile { entries, directories, failures, excluded, bytes, known, looked, readdir, stat, callback }
}

pub(super) fn thread_report((numbers, [tasks, steals, waiting]): &(Numbers, [u64; 3])) -> ThreadReport {
    let worker = WorkerReport { tasks: *tasks, steals: *steals, waiting: Duration::from_nanos(*waiting) };
    ThreadReport { profile: profile(numbers), worker }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
