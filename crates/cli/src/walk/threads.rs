//! Reports of the ranks of a walk and of their threads. Counting and printing are elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use atta_ops::walk::{Profile, ThreadReport};
use atta_runtime::WorkerReport;
use serde_json::{Value, json};

/// Report of one rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankReport {
    pub(super) rank: u32,
    pub(super) entries: u64,
    /// Time that its communication thread spent on messages.
    pub(super) communication_seconds: f64,
    /// Processor time of all its threads since the ranks met.
    pub(super) cpu_seconds: f64,
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) parcels_given: u64,
    pub(super) tasks_given: u64,
    pub(super) parcels_accepted: u64,
    pub(super) tasks_accepted: u64,
    pub(super) rests: u64,
    /// Messages and bytes that it sent to each rank, if requested, as [`grouped`] returns them.
    pub(super) traffic: Vec<(u32, u64, u64)>,
    pub(super) thread_count: u32,
    /// Its threads, as [`rows_of`] returns them.
    pub(super) threads: Vec<ThreadReport>,
}

atta_entry::record!(RankReport {
    rank,
    entries,
    communication_seconds,
    cpu_seconds,
    requests,
    refused,
    parcels_given,
    tasks_given,
    parcels_accepted,
    tasks_accepted,
    rests,
    traffic,
    thread_count,
    threads
});

impl RankReport {
    /// The report as JSON. The row of a thread has entries, directories, failures, excluded, bytes, known, looked, nanoseconds of readdir,
    /// stat and callback; then tasks, steals and nanoseconds of waiting.
    pub(super) fn json(&self) -> Value {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let thread = |ThreadReport { profile, worker }: &ThreadReport| {
            let Profile { entries, directories, failures, excluded, bytes, known, looked, .. } = *profile;
            let [readdir, stat, callback] =
                [profile.readdir, profile.stat, profile.callback].map(nanoseconds);
            let waiting = nanoseconds(worker.waiting);
            json!([
                [entries, directories, failures, excluded, bytes, known, looked, readdir, stat, callback],
                [worker.tasks, worker.steals, waiting]
            ])
        };
        json!({
            "rank": self.rank,
            "entries": self.entries,
            "communication_seconds": self.communication_seconds,
            "cpu_seconds": self.cpu_seconds,
            "requests": self.requests,
            "refused": self.refused,
            "parcels_given": self.parcels_given,
            "tasks_given": self.tasks_given,
            "parcels_accepted": self.parcels_accepted,
            "tasks_accepted": self.tasks_accepted,
            "rests": self.rests,
            "traffic": self.traffic,
            "threads": self.threads.iter().map(thread).collect::<Vec<_>>(),
        })
    }

    /// Sum of the profiles of its threads.
    pub(super) fn profile(&self) -> Profile {
        self.threads.iter().map(|thread| thread.profile).sum()
    }

    /// Seconds that its threads waited, in total.
    pub(super) fn waiting(&self) -> f64 {
        self.threads.iter().map(|thread| thread.worker.waiting.as_secs_f64()).sum()
    }
}

/// Most rows of traffic that a rank reports. Without a limit, the rows of all ranks would grow with the square of their number. With more
/// ranks than this, each rank reports its threads as one row.
const GROUPS_MAX: u32 = 64;

/// Reports of the threads of one rank: a row for each thread, or one row for all if there are more than 64 ranks.
pub(super) fn rows_of(threads: &[ThreadReport], ranks: u32) -> Vec<ThreadReport> {
    if ranks <= GROUPS_MAX {
        return threads.to_vec();
    }
    let workers = threads.iter().map(|thread| thread.worker);
    let worker = workers.fold(WorkerReport::default(), |sum, more| WorkerReport {
        tasks: sum.tasks.saturating_add(more.tasks),
        steals: sum.steals.saturating_add(more.steals),
        waiting: sum.waiting.saturating_add(more.waiting),
    });
    vec![ThreadReport { profile: threads.iter().map(|thread| thread.profile).sum(), worker }]
}

/// Traffic from one rank to each other rank, as (rank, messages, bytes). With more than 64 ranks, to each group of consecutive ranks,
/// named by its first rank. All groups have the same size, except the last.
pub(super) fn grouped(traffic: Vec<(u32, u64, u64)>, ranks: u32) -> Vec<(u32, u64, u64)> {
    let size = ranks_per_row(ranks);
    let mut groups = BTreeMap::<u32, (u64, u64)>::new();
    for (to, messages, bytes) in traffic {
        let sum = groups.entry(to / size * size).or_default();
        *sum = (sum.0.saturating_add(messages), sum.1.saturating_add(bytes));
    }
    groups.into_iter().map(|(to, (messages, bytes))| (to, messages, bytes)).collect()
}

/// Number of consecutive ranks in one row of traffic.
pub(super) fn ranks_per_row(ranks: u32) -> u32 {
    ranks.div_ceil(GROUPS_MAX).max(1)
}

#[cfg(test)]
mod tests {
    use atta_entry::Code as _;

    use super::*;

    #[test]
    fn stats_have_a_row_per_rank_beyond_64_ranks() {
        let worker = WorkerReport { tasks: 3, steals: 1, waiting: Duration::from_secs(2) };
        let thread = ThreadReport { profile: Profile { entries: 7, ..Profile::default() }, worker };
        assert_eq!(rows_of(&[thread; 5], 64).len(), 5);
        let [row] = *rows_of(&[thread; 5], 65) else { panic!("one row") };
        assert_eq!((row.profile.entries, row.worker.tasks, row.worker.waiting.as_secs()), (35, 15, 10));
    }

    #[test]
    fn traffic_has_64_rows_at_most() {
        let sent = |ranks: u32| (0..ranks).map(|to| (to, 1, u64::from(to))).collect::<Vec<_>>();
        assert_eq!(grouped(sent(64), 64), sent(64));
        for ranks in [65, 1000, 10_000] {
            let groups = grouped(sent(ranks), ranks);
            assert!(groups.len() <= 64 && groups.len() > 32, "{ranks}: {}", groups.len());
            let size = groups[1].0;
            assert_eq!(groups[0], (0, size.into(), (0..u64::from(size)).sum()));
            assert_eq!(groups.iter().map(|(_, messages, _)| messages).sum::<u64>(), u64::from(ranks));
        }
    }

    #[test]
    fn json_has_each_thread_as_numbers() {
        let profile = Profile { entries: 3, callback: Duration::from_nanos(7), ..Profile::default() };
        let worker = atta_runtime::WorkerReport { tasks: 5, steals: 1, waiting: Duration::from_micros(1) };
        let report =
            RankReport { rank: 2, threads: vec![ThreadReport { profile, worker }], ..RankReport::default() };
        let json = report.json();
        assert_eq!(json["threads"], json!([[[3, 0, 0, 0, 0, 0, 0, 0, 0, 7], [5, 1, 1000]]]));
        assert_eq!(RankReport::decode_all(&report.encoded()).unwrap().json(), json);
    }
}
