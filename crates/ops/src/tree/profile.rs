//! Counts and times of a walk, readable while it runs. Each thread writes its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where a thread's time goes: the profile of the paper (LaFon 2012, figure 3b).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Opening and reading directories.
    Readdir = 0,
    /// Asking for metadata, and following links.
    Stat = 1,
    /// The caller's own function, and handing out tasks.
    Callback = 2,
}

/// The counters of one thread.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    entries: AtomicU64,
    directories: AtomicU64,
    failures: AtomicU64,
    excluded: AtomicU64,
    bytes: AtomicU64,
    known: AtomicU64,
    looked: AtomicU64,
    phases_ns: [AtomicU64; 3],
}

fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn entries(&self, count: u64, bytes: u64) {
        add(&self.entries, count);
        let sum = self.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        self.bytes.store(sum, Ordering::Relaxed);
    }

    pub(crate) fn directory(&self) {
        add(&self.directories, 1);
    }

    pub(crate) fn failure(&self) {
        add(&self.failures, 1);
    }

    pub(crate) fn excluded(&self) {
        add(&self.excluded, 1);
    }

    /// Counts names or directories that some task is to look at.
    pub(crate) fn known(&self, count: u64) {
        add(&self.known, count);
    }

    /// Counts names or directories whose task is done.
    pub(crate) fn looked(&self, count: u64) {
        add(&self.looked, count);
    }

    pub(crate) fn read(&self) -> Profile {
        let phase =
            |phase: Phase| Duration::from_nanos(self.phases_ns[phase as usize].load(Ordering::Relaxed));
        Profile {
            entries: self.entries.load(Ordering::Relaxed),
            directories: self.directories.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            excluded: self.excluded.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            known: self.known.load(Ordering::Relaxed),
            looked: self.looked.load(Ordering::Relaxed),
            readdir: phase(Phase::Readdir),
            stat: phase(Phase::Stat),
            callback: phase(Phase::Callback),
        }
    }
}

/// Counts and times of one thread, or summed over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Entries handed to the visitor.
    pub entries: u64,
    /// Directories read.
    pub directories: u64,
    /// Entries that failed.
    pub failures: u64,
    /// Entries left out by rules.
    pub excluded: u64,
    /// Apparent bytes of regular files, each name counted.
    pub bytes: u64,
    /// Names and directories for which tasks were created.
    pub known: u64,
    /// Those of `known` whose task is done. When both are equal, everything was found. While threads and ranks work, the two are not from
    /// the same moment.
    pub looked: u64,
    /// Time opening and reading directories.
    pub readdir: Duration,
    /// Time asking for metadata.
    pub stat: Duration,
    /// Time in the visitor, and handing out tasks.
    pub callback: Duration,
}

atta_entry::record!(Profile {
    entries,
    directories,
    failures,
    excluded,
    bytes,
    known,
    looked,
    readdir,
    stat,
    callback
});

impl std::ops::AddAssign for Profile {
    fn add_assign(&mut self, other: Self) {
        self.entries = self.entries.saturating_add(other.entries);
        self.directories = self.directories.saturating_add(other.directories);
        self.failures = self.failures.saturating_add(other.failures);
        self.excluded = self.excluded.saturating_add(other.excluded);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.known = self.known.saturating_add(other.known);
        self.looked = self.looked.saturating_add(other.looked);
        self.readdir = self.readdir.saturating_add(other.readdir);
        self.stat = self.stat.saturating_add(other.stat);
        self.callback = self.callback.saturating_add(other.callback);
    }
}

impl std::iter::Sum for Profile {
    fn sum<I: Iterator<Item = Self>>(profiles: I) -> Self {
        profiles.fold(Self::default(), |mut sum, profile| {
            sum += profile;
            sum
        })
    }
}

/// Splits a thread's time into phases: each reading of the clock ends one. A reading costs some 15 to 30 ns, so there
/// is one a batch, not one an entry.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    at: Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { at: Instant::now() }
    }

    /// Books the time since the last reading. Returns it in nanoseconds.
    pub(crate) fn book(&mut self, phase: Phase, counters: &Counters) -> u64 {
        let now = Instant::now();
        let spent = now.duration_since(std::mem::replace(&mut self.at, now));
        let nanoseconds = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        add(&counters.phases_ns[phase as usize], nanoseconds);
        nanoseconds
    }
}
