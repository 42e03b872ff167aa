//! File descriptors of this process: how many are available, how many each part of a run may hold, and what happens when none is left. It
//! opens only `/proc/self/fd`, to count open descriptors.
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
//! The number of threads is the largest that lets each thread keep some directories open. A call may still find no descriptor, because of
//! the host program, an MPI or other processes. Then open directories that are not in use are closed, and the call is repeated until it
//! succeeds, or for about a second.

use atta_sys::descriptors::open_now;
pub use atta_sys::descriptors::{limit, raise_limit};

/// The lowest limit with which the program starts: the needs of a run, and ten that a shell or a batch system may leave open.
pub const LIMIT_LEAST: u64 = 64;
/// The minimum for a run: a copy with one thread ([`Needs::COPY`]).
pub const AVAILABLE_LEAST: u64 = 54;
/// Descriptors of the process as a whole: standard streams (3), list, errors, events, table or catalog (4), spill file and files of counts
/// or sorting (5), TARGET, its lock, the directory of links (4), a launcher's pipes (4), `/proc` (1), spare (3).
const PROCESS: u64 = 24;
/// The fewest directories that one thread keeps open on one side; with fewer, each entry would open them again.
const HELD_LEAST: u64 = 4;
/// The most on the source's side; more save no time.
const HELD_MOST: u64 = 1024;
/// The most on the target's side.
const HELD_IN_TARGET_MOST: u64 = 64;
/// The most roots kept open without a task that needs them: names of a list mostly share few roots.
const ROOTS_MOST: u64 = 16;
/// The most copies read back together.
const GROUP_MOST: u64 = 16;
/// The most file systems kept open to be synced.
const STORES_MOST: u64 = 64;
/// The most files and directories synced one by one at the same time.
const SYNCING_MOST: u64 = 512;
/// The largest limit that is used; more descriptors have no benefit.
const LIMIT_USED: u64 = 1 << 16;

/// The descriptors that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The most at one time for one task, the thread's watch on itself included.
    task: u64,
    /// Number of trees whose directories are kept open.
    sides: u64,
    /// Descriptors for each large file that several threads process.
    file: u64,
}

impl Needs {
    /// A walk: watch, directory, its parent, two on the way to a link's target, two of each of two shards of a catalog, one of a shard that waits for its sync, spare.
    pub const WALK: Self = Self { task: 11, sides: 1, file: 1 };
    /// Digests: a walk, and the file.
    pub const SUM: Self = Self { task: 12, sides: 1, file: 1 };
    /// A copy: watch, three directories on each side (itself, its parent, one on the way), both files, the target file again for its close,
    /// a claim on a file with several names, a name without its contents, spare.
    pub const COPY: Self = Self { task: 14, sides: 2, file: 2 };
    /// A comparison: as a copy, but without the descriptors for new files.
    pub const VERIFY: Self = Self { task: 12, sides: 2, file: 2 };

    /// The minimum for a thread, with its held directories counted twice: the second half is for the shared descriptors.
    fn of_thread(self) -> u64 {
        self.task + 2 * HELD_LEAST * self.sides
    }
}

/// The most descriptors that each part of a run may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of threads.
    pub threads: usize,
    /// Directories of the source that one thread keeps open.
    pub(crate) held: usize,
    /// Directories of the target that one thread keeps open.
    pub(crate) held_in_target: usize,
    /// Large files that several threads process.
    pub(crate) large: usize,
    /// Directories that will be read further later.
    pub(crate) reading: usize,
    /// Roots kept open without a task that needs them.
    pub(crate) roots: usize,
    /// Copies that one thread reads back together.
    pub(crate) group: usize,
    /// File systems of the target kept open to be synced.
    pub(crate) stores: usize,
    /// Files and directories synced one by one at the same time.
    pub(crate) syncing: usize,
}

impl Budget {
    /// Computes the budget for at most this many threads, from the current state of the process.
    #[must_use]
    pub fn of_process(needs: Needs, threads: usize) -> Self {
        Self::new(needs, available(), threads)
    }

    /// Computes the budget from the descriptors available to the run.
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

/// Returns the number of descriptors left beside those open now. The three standard streams do not count.
#[must_use]
pub fn available() -> u64 {
    limit().saturating_sub(open_now().saturating_sub(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most descriptors that a run with this budget holds.
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
    fn threads_are_as_many_as_requested_if_possible() {
        let threads = |available, threads| Budget::new(Needs::COPY, available, threads).threads;
        assert_eq!([64, 1024, 4096, 1 << 20].map(|limit| threads(limit, 128)), [1, 33, 128, 128]);
        assert_eq!(threads(10, 128), 1, "a host of the library that has none left gets one");
    }
}
