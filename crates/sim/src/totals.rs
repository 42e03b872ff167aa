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

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.directories.to_le_bytes());
        out.extend(self.files.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (directories, files) = bytes.split_first_chunk()?;
        let files = files.try_into().ok()?;
        Some(Self { directories: u64::from_le_bytes(*directories), files: u64::from_le_bytes(files) })
    }
}
