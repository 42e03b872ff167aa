//! What a copy counts. No I/O.

use std::collections::BTreeMap;

use atta_entry::Errno;

use crate::metadata::not_kept::NotKept;

/// What was copied, and what was not: of one thread, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Regular files whose bytes were copied.
    pub files: u64,
    /// Bytes of these files, holes included.
    pub bytes: u64,
    /// Directories, those that were there before included.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// FIFOs, sockets and devices.
    pub specials: u64,
    /// Names that became hard links of files that were copied under another name.
    pub hard_links: u64,
    /// Names of copied files that were not copied, since they are outside of the sources, were left out or came meanwhile; of those
    /// that failed, too, and of those whose links the target does not take.
    pub elsewhere: u64,
    /// What was left as it is, since it is there already.
    pub skipped: u64,
    /// Files that were copied without a digest although digests are wanted: they have too many holes.
    pub not_hashed: u64,
    /// Names in the sources of what another run has not completed, which are no data and were left out.
    pub unfinished: u64,
    /// Directories, and files that had the bytes of their sources, that got what else differed: of a list of differences.
    pub repaired: u64,
    /// Files that share the bytes of their sources.
    pub cloned: u64,
    /// Large files that went through the page cache although they should not.
    pub not_direct: u64,
    /// Files that did not get the layout on Lustre that they were to have.
    pub not_striped: u64,
    /// What the target does not have although it was copied.
    pub not_kept: NotKept,
    /// Entries that changed each time they were read, and so were not copied.
    pub changed: u64,
    /// Bytes that were read back from the target and found to be those of the source; of what has several names, once on each rank
    /// that met one.
    pub verified_bytes: u64,
    /// Copies, and chunks of large ones, that were to be read back and were not, since the run was to end, or since they have no
    /// digest ([`not_hashed`](Self::not_hashed)).
    pub not_verified: u64,
    /// Files, and chunks of large ones, that were written once more: they were not what they must be when they were read back, or a
    /// sync of them failed.
    pub mended: u64,
    /// Entries that were not copied, by error; those that changed included.
    pub failures: BTreeMap<Errno, u64>,
}

impl Totals {
    /// Entries that were not copied.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

impl std::ops::AddAssign<&Self> for Totals {
    fn add_assign(&mut self, other: &Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.specials += other.specials;
        self.hard_links += other.hard_links;
        self.elsewhere += other.elsewhere;
        self.skipped += other.skipped;
        self.not_hashed += other.not_hashed;
        self.unfinished += other.unfinished;
        self.repaired += other.repaired;
        self.cloned += other.cloned;
        self.not_direct += other.not_direct;
        self.not_striped += other.not_striped;
        self.not_kept += other.not_kept;
        self.changed += other.changed;
        self.verified_bytes = self.verified_bytes.saturating_add(other.verified_bytes);
        self.not_verified += other.not_verified;
        self.mended += other.mended;
        for (errno, count) in &other.failures {
            *self.failures.entry(*errno).or_default() += count;
        }
    }
}
