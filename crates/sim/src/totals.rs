//! The totals that simulated ranks add up along the tree of ranks.

use atta_engine::Reduce;

/// The work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Directories read.
    pub directories: u64,
    /// Files statted.
    pub files: u64,
}

impl Totals {
    /// Files and directories together: the true number of tasks of a walk.
    #[must_use]
    pub fn tasks(self) -> u64 {
        self.directories + self.files
    }
}

impl Reduce for Totals {
    fn merge(&mut self, other: &Self) {
        self.directories += other.directories;
        self.files += other.files;
    }
}

atta_code::record!(Totals { directories, files });
