//! Location the time of a copy went: on one rank, phase by phase, and over its threads. It reads the clock when a phase ends and around
//! each sync, never for a file; what a phase does is not known here.
//!
//! ```text
//!   began ─ copying ─▶ links ─▶ batch ─▶ verify ─▶ directories ─▶ sync ─▶ end
//!             └─ others: between any two of them, until the other ranks have come so far
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a rank does one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Finding and copying: until no rank has a task left. What is read back meanwhile counts here.
    Copying,
    /// Names that waited for a file that another thread or rank was copying.
    Links,
    /// What waited to be durable when the last task was done: its sync, and its names.
    Batch,
    /// Reading back what had not been read back by then.
    Verify,
    /// Attributes of the directories that were left for the end.
    Directories,
    /// The last sync.
    Sync,
    /// Waiting for the other ranks between all these.
    Others,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Self; 7] =
        [Self::Copying, Self::Links, Self::Batch, Self::Verify, Self::Directories, Self::Sync, Self::Others];

    /// One word for it.
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

/// What one rank did, and where its time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankReport {
    /// Which rank it is.
    pub rank: u32,
    /// Files that it completed.
    pub files: u64,
    /// Bytes that it copied: of files that another rank completed, too, and of those that came to nothing.
    pub bytes: u64,
    /// How long each phase took, in the order of [`Phase::ALL`].
    pub phases: [Duration; Phase::ALL.len()],
    /// Time of its threads with a task, summed, while there were tasks.
    pub busy: Duration,
    /// Of that, the time in which they read directories and asked for metadata.
    pub finding: Duration,
    /// Time of its threads without a task, summed.
    pub waiting: Duration,
    /// Calls that made something durable: of a file, of a chunk, or of all there is.
    pub syncs: u64,
    /// How long they took, summed over threads.
    pub syncing: Duration,
}

atta_entry::record!(RankReport { rank, files, bytes, phases, busy, finding, waiting, syncs, syncing });

impl RankReport {
    /// From start to end.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.phases.iter().sum()
    }
}

/// Tells phases apart: whatever passes belongs to one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    at: Instant,
    phases: [Duration; Phase::ALL.len()],
}

impl Clock {
    /// The first phase begins.
    pub(crate) fn start() -> Self {
        Self { at: Instant::now(), phases: Default::default() }
    }

    /// What has passed since the last phase ended was this one.
    pub(crate) fn end(&mut self, phase: Phase) {
        let now = Instant::now();
        self.phases[phase as usize] += now.duration_since(std::mem::replace(&mut self.at, now));
    }

    /// A phase took so long; what has passed since then belongs to the next one.
    pub(crate) fn end_after(&mut self, phase: Phase, took: Duration) {
        let took = took.min(self.at.elapsed());
        self.phases[phase as usize] += took;
        self.at += took;
    }

    pub(crate) fn phases(&self) -> [Duration; Phase::ALL.len()] {
        self.phases
    }
}

/// What syncs took, on all threads.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Syncs {
    /// Makes a call that makes something durable.
    pub(crate) fn timed<T>(&self, sync: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let came = sync();
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(took, Ordering::Relaxed);
        came
    }

    /// How many there were, and how long they took.
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
