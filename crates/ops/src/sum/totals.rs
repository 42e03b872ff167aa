//! What summing up counts. No I/O.

use std::collections::BTreeMap;

use atta_entry::Errno;

/// What was summed up, and what was not: of one thread, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Regular files that have their digests; each name counts.
    pub files: u64,
    /// Bytes of these files, holes included.
    pub bytes: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// FIFOs, sockets and devices.
    pub specials: u64,
    /// Names among them of files that were read under another name.
    pub known: u64,
    /// Names of the file that is being written, which is left out.
    pub left_out: u64,
    /// Files that changed each time they were read.
    pub changed: u64,
    /// Entries that failed, by error; those that changed included.
    pub failures: BTreeMap<Errno, u64>,
}

impl Totals {
    /// Entries that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Entries that did not.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.specials
    }
}

impl std::ops::AddAssign<&Self> for Totals {
    fn add_assign(&mut self, other: &Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.specials += other.specials;
        self.known += other.known;
        self.left_out += other.left_out;
        self.changed += other.changed;
        for (errno, count) in &other.failures {
            *self.failures.entry(*errno).or_default() += count;
        }
    }
}
