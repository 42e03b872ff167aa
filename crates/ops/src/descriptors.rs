//! The file descriptors of this process: how many there may be, what each part of a run may hold of them, and what is done when none
//! is left. It opens nothing but `/proc/self/fd`, to count what is open.
//!
//! ```text
//!   limit (ulimit -n)
//!     = open before the run + PROCESS
//!     + threads x what one task uses
//!     + 1/2 of the rest: directories that threads keep open, for each thread and each side
//!     + 1/8 each: large files under way, directories between two reads and roots, copies read back together, file systems
//!       of TARGET and what is synced by itself
//! ```
//!
//! The number of threads is the largest for which each of them can keep some directories open. Where a call finds no descriptor
//! all the same (the host program, an MPI, other processes), directories that are open and not in use are closed, and the call is
//! made again until there is one, or for about a second.

use atta_sys::descriptors::open_now;
pub use atta_sys::descriptors::{limit, raise_limit};

/// The least limit with which the program starts: what a run takes, and ten that a shell or a batch system may have left open.
pub const LIMIT_LEAST: u64 = 64;
/// What a run takes at least: a copy with one thread ([`Needs::COPY`]).
pub const AVAILABLE_LEAST: u64 = 54;
/// For the process as a whole: standard streams (3), list, errors, events, table or catalog (4), spill file and files of what is
/// counted or sorted (5), TARGET, its lock, the directory of links (4), a launcher's pipes (4), `/proc` (1), spare (3).
const PROCESS: u64 = 24;
/// Directories that one thread keeps open on one side, at least: fewer would be opened again for each entry.
const HELD_LEAST: u64 = 4;
/// At most on the source's side: more save no time.
const HELD_MOST: u64 = 1024;
/// At most on the target's side.
const HELD_IN_TARGET_MOST: u64 = 64;
/// Roots that are kept open although no task needs them, at most: names of a list mostly share few roots.
const ROOTS_MOST: u64 = 16;
/// Copies that are read back together, at most.
const GROUP_MOST: u64 = 16;
/// File systems that are kept open to be synced, at most.
const STORES_MOST: u64 = 64;
/// Files and directories that are synced one by one at the same time, at most.
const SYNCING_MOST: u64 = 512;
/// More descriptors than this are of no use.
const LIMIT_USED: u64 = 1 << 16;

/// What an operation opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// At most at one time for one task, the thread's watch on itself included.
    task: u64,
    /// Trees of which directories are kept open.
    sides: u64,
    /// For each large file that several threads are at.
    file: u64,
}

impl Needs {
    /// A walk: watch, directory, its parent, two on the way to a link's target, two of a catalog's shard, spare.
    pub const WALK: Self = Self { task: 8, sides: 1, file: 1 };
    /// Digests: a walk, and the file.
    pub const SUM: Self = Self { task: 9, sides: 1, file: 1 };
    /// A copy: watch, three directories of each side (itself, its parent, one on the way), both files, the target's once more for
    /// its close, a claim on a file with several names, a name without its contents, spare.
    pub const COPY: Self = Self { task: 14, sides: 2, file: 2 };
    /// A comparison: as a copy, but for what is made.
    pub const VERIFY: Self = Self { task: 12, sides: 2, file: 2 };

    /// What a thread takes at least, with as much again for everything that is not a thread's.
    fn of_thread(self) -> u64 {
        self.task + 2 * HELD_LEAST * self.sides
    }
}

/// What each part of a run may hold open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Threads, at most.
    pub threads: usize,
    /// Directories of the source that one thread keeps open.
    pub(crate) held: usize,
    /// Directories of the target that one thread keeps open.
    pub(crate) held_in_target: usize,
    /// Large files that several threads are at.
    pub(crate) large: usize,
    /// Directories whose reading goes on later.
    pub(crate) reading: usize,
    /// Roots that are kept open although no task needs them.
    pub(crate) roots: usize,
    /// Copies that one thread reads back together.
    pub(crate) group: usize,
    /// File systems of the target that are kept open to be synced.
    pub(crate) stores: usize,
    /// Files and directories that are synced one by one, at the same time.
    pub(crate) syncing: usize,
}

impl Budget {
    /// For so many threads, at most, in this process as it is now.
    #[must_use]
    pub fn of_process(needs: Needs, threads: usize) -> Self {
        Self::new(needs, available(), threads)
    }

    /// The same, where so many descriptors are left for the run.
    fn new(needs: Needs, available: u64, threads: usize) -> Self {
        let room = available.min(LIMIT_USED).saturating_sub(PROCESS);
        let threads = (room / needs.of_thread()).clamp(1, threads.max(1) as u64);
        let rest = room.saturating_sub(threads * needs.task);
        let held = rest / 2 / threads / needs.sides;
        let part = rest / 8;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            threads: count(threads),
            held: count(held.clamp(HELD_LEAST, HELD_MOST)),
            held_in_target: count(held.clamp(HELD_LEAST, HELD_IN_TARGET_MOST)),
            large: count((part / needs.file).max(1)),
            reading: count(part / 2),
            roots: count((part / 2).clamp(1, ROOTS_MOST)),
            group: count((part / threads).clamp(1, GROUP_MOST)),
            stores: count((part / 2).clamp(1, STORES_MOST)),
            syncing: count((part / 2).clamp(1, SYNCING_MOST)),
        }
    }
}

/// How many of them are left beside those that are open now; the three standard streams do not count.
#[must_use]
pub fn available() -> u64 {
    limit().saturating_sub(open_now().saturating_sub(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a run holds at most, by its budget.
    fn most(needs: Needs, budget: &Budget) -> u64 {
        let held = budget.held + if needs.sides > 1 { budget.held_in_target } else { 0 };
        let each = needs.task + (held + budget.group) as u64;
        let shared =
            budget.large as u64 * needs.file + (budget.reading + budget.roots + budget.stores) as u64;
        PROCESS + budget.threads as u64 * each + shared
    }

    #[test]
    fn whatever_the_limit_a_run_keeps_to_it() {
        for needs in [Needs::WALK, Needs::SUM, Needs::COPY, Needs::VERIFY] {
            for available in AVAILABLE_LEAST..5000 {
                for threads in [1, 2, 7, 64, 128, 4096] {
                    let budget = Budget::new(needs, available, threads);
                    assert!(most(needs, &budget) <= available, "{needs:?} {available} {threads}: {budget:?}");
                    assert!((1..=threads).contains(&budget.threads));
                }
            }
        }
    }

    #[test]
    fn threads_are_as_many_as_were_asked_for_where_there_is_room() {
        let threads = |available, threads| Budget::new(Needs::COPY, available, threads).threads;
        assert_eq!([64, 1024, 4096, 1 << 20].map(|limit| threads(limit, 128)), [1, 33, 128, 128]);
        assert_eq!(threads(10, 128), 1, "a host of the library that has none left gets one");
    }
}
