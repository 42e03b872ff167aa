//! Where the time of a copy went: on one rank by phase, and over its threads. The clock is read at the end of a phase and around each
//! sync, never per file. This module does not know what a phase does.
//!
//! ```text
//!   began ─ copying ─▶ links ─▶ batch ─▶ verify ─▶ directories ─▶ sync ─▶ end
//!             └─ others: between any two of them, until the other ranks have come so far
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The phases of a rank, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Finding and copying, until no rank has a task left: with syncs, names that waited, and read-back, which are tasks.
    Copying,
    /// Names whose file another rank was copying until its last task, and the names of a list of differences.
    Links,
    /// What is not durable after that: the sync and the renames. After a stop, all that waited.
    Batch,
    /// Read-back of these copies.
    Verify,
    /// Attributes of the directories that were left for the end.
    Directories,
    /// The last sync.
    Sync,
    /// Waiting for the other ranks between these phases.
    Others,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 7] =
        [Self::Copying, Self::Links, Self::Batch, Self::Verify, Self::Directories, Self::Sync, Self::Others];

    /// The name of the phase, one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Links => "links",
            Self::Batch => "batch",
            Self::Verify => "verify",
            Self::Directories => "directories",
            Self::Sync => "sync",
            Self::Others => "others",
        }
    }
}

/// What one rank did, and how it spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankReport {
    /// Number of the rank.
    pub rank: u32,
    /// Files that the rank completed.
    pub files: u64,
    /// Bytes that the rank copied, including those of files that another rank completed and of failed copies.
    pub bytes: u64,
    /// Duration of each phase, in the order of [`Phase::ALL`].
    pub phases: [Duration; Phase::ALL.len()],
    /// Total time that its threads spent on tasks, while there were tasks.
    pub busy: Duration,
    /// Of that, the time spent reading directories and metadata.
    pub finding: Duration,
    /// Total time that its threads spent without a task.
    pub waiting: Duration,
    /// Number of sync calls: of a file, of a chunk, or of a whole file system.
    pub syncs: u64,
    /// Duration of the syncs, summed over threads.
    pub syncing: Duration,
}

atta_entry::record!(RankReport { rank, files, bytes, phases, busy, finding, waiting, syncs, syncing });

impl RankReport {
    /// Time from start to end.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.phases.iter().sum()
    }
}

/// Assigns the elapsed time to phases. Every moment belongs to one phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    at: Instant,
    phases: [Duration; Phase::ALL.len()],
}

impl Clock {
    /// Starts the first phase.
    pub(crate) fn start() -> Self {
        Self { at: Instant::now(), phases: Default::default() }
    }

    /// Ends a phase: assigns the time since the end of the previous phase to it.
    pub(crate) fn end(&mut self, phase: Phase) {
        let now = Instant::now();
        self.phases[phase as usize] += now.duration_since(std::mem::replace(&mut self.at, now));
    }

    /// Ends a phase that took `took`. The time since then belongs to the next phase.
    pub(crate) fn end_after(&mut self, phase: Phase, took: Duration) {
        let took = took.min(self.at.elapsed());
        self.phases[phase as usize] += took;
        self.at += took;
    }

    pub(crate) fn phases(&self) -> [Duration; Phase::ALL.len()] {
        self.phases
    }
}

/// Number and duration of syncs, over all threads.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Syncs {
    /// Runs a sync call and measures it.
    pub(crate) fn timed<T>(&self, sync: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = sync();
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(took, Ordering::Relaxed);
        result
    }

    /// Returns the number of syncs and their total duration.
    pub(crate) fn read(&self) -> (u64, Duration) {
        let nanoseconds = self.nanoseconds.load(Ordering::Relaxed);
        (self.count.load(Ordering::Relaxed), Duration::from_nanos(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_belongs_to_one_phase() {
        let began = Instant::now();
        let mut clock = Clock::start();
        for phase in [Phase::Copying, Phase::Others, Phase::Sync, Phase::Others] {
            std::thread::sleep(Duration::from_millis(1));
            clock.end(phase);
        }
        let report = RankReport { phases: clock.phases(), ..RankReport::default() };
        assert!(report.elapsed() <= began.elapsed());
        let is_there = Phase::ALL.map(|phase| !clock.phases()[phase as usize].is_zero());
        let expected = [Phase::Copying, Phase::Sync, Phase::Others];
        assert_eq!(is_there, Phase::ALL.map(|phase| expected.contains(&phase)));
        assert!(clock.phases()[Phase::Others as usize] >= Duration::from_millis(2));
        let before = clock.phases()[Phase::Copying as usize];
        std::thread::sleep(Duration::from_millis(2));
        clock.end_after(Phase::Copying, Duration::from_millis(1));
        clock.end(Phase::Others);
        assert_eq!(clock.phases()[Phase::Copying as usize] - before, Duration::from_millis(1));
        assert!(clock.phases()[Phase::Others as usize] >= Duration::from_millis(3));
    }

    #[test]
    fn syncs_are_counted_and_give_what_they_came_to() {
        let syncs = Syncs::default();
        assert_eq!((syncs.timed(|| 7), syncs.timed(|| 8)), (7, 8));
        syncs.timed(|| std::thread::sleep(Duration::from_millis(1)));
        let (count, took) = syncs.read();
        assert!(count == 3 && took >= Duration::from_millis(1), "{count} {took:?}");
    }
}
