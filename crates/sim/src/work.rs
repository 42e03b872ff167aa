//! The cost of a task, and its new tasks.

use crate::setup::Setup;
use crate::task::{Kind, Task};
use crate::totals::Totals;
use crate::tree::{below, mix};

/// A task that a thread runs, or a part of a large directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) task: Task,
    /// Entries of the directory to read this time.
    pub(crate) entries: u64,
    is_whole: bool,
    pub(crate) done: Totals,
    pub(crate) readdir_ns: u64,
    pub(crate) stat_ns: u64,
}

/// What is left of a task.
pub(crate) enum After {
    /// Nothing: the task is done.
    Done,
    /// The directory has more entries to read.
    More(Task),
}

impl Running {
    /// Begins a task on a rank that is `slowness` times slower than others.
    pub(crate) fn begin(setup: &Setup, task: Task, slowness: u64) -> Self {
        let mut running = match task.kind {
            Kind::Files => Self {
                task,
                entries: 0,
                is_whole: true,
                done: Totals { files: task.files, directories: 0 },
                readdir_ns: 0,
                stat_ns: task.files * setup.costs.stat_ns,
            },
            Kind::Directory if task.files <= setup.habits.aggregate_files && task.from == 0 => {
                Self::subtree(setup, task)
            }
            Kind::Directory => Self::directory(setup, task),
        };
        let mut percent = 100 * slowness;
        if setup.disturbance.random_costs {
            percent = slowness * (50 + below(mix(setup.engine.seed ^ task.seed ^ task.from), 101));
        }
        running.readdir_ns = running.readdir_ns * percent / 100;
        running.stat_ns = running.stat_ns * percent / 100;
        running
    }

    /// A directory with its whole subtree.
    fn subtree(setup: &Setup, task: Task) -> Self {
        let size = setup.tree.size(&task.node());
        let costs = &setup.costs;
        let entries = size.files + size.directories - 1;
        Self {
            task,
            entries,
            is_whole: true,
            done: Totals { files: size.files, directories: size.directories },
            readdir_ns: size.directories * costs.directory_ns + entries * costs.entry_ns,
            stat_ns: (size.files + size.directories) * costs.stat_ns,
        }
    }

    /// A directory, or the next part of a large one.
    pub(crate) fn directory(setup: &Setup, task: Task) -> Self {
        let (costs, habits) = (&setup.costs, &setup.habits);
        let listing = setup.tree.listing(&task.node());
        let entries = habits.chunk_entries.max(1).min(listing.entries() - task.from);
        let is_first = task.from == 0;
        let is_last = task.from + entries == listing.entries();
        let is_small = listing.files <= habits.inline_files.saturating_mul(2);
        let inline = if is_small { listing.files } else { habits.inline_files };
        let files = if is_first { inline.min(entries) } else { 0 };
        Self {
            task,
            entries,
            is_whole: false,
            done: Totals { files, directories: u64::from(is_last) },
            readdir_ns: u64::from(is_first) * costs.directory_ns + entries * costs.entry_ns,
            stat_ns: (files + u64::from(is_first)) * costs.stat_ns,
        }
    }

    /// Whether it opens a directory, whose first entries it reads.
    pub(crate) fn opens(&self) -> bool {
        self.task.kind == Kind::Directory && self.task.from == 0
    }

    /// The position behind the entries that it reads.
    pub(crate) fn upto(&self) -> u64 {
        self.task.from + self.entries
    }

    pub(crate) fn ns(&self) -> u64 {
        self.readdir_ns + self.stat_ns
    }

    /// Ends a task: calls `f` with each new task, the oldest first.
    pub(crate) fn end(&self, setup: &Setup, mut f: impl FnMut(Task)) -> After {
        if self.is_whole {
            return After::Done;
        }
        let (task, node) = (self.task, self.task.node());
        let listing = setup.tree.listing(&node);
        let upto = self.upto();
        let is_last = upto == listing.entries();
        // Directories are the oldest: they lead to more work than files, so other ranks should receive them.
        if is_last {
            setup.tree.for_each_directory(&node, |child| f(Task::directory(&child)));
        }
        let from = if task.from == 0 { self.done.files } else { task.from };
        let files = upto.min(listing.files).saturating_sub(from);
        if files > 0 {
            f(Task { kind: Kind::Files, files, from, ..task });
        }
        if is_last { After::Done } else { After::More(Task { from: upto, ..task }) }
    }
}
