//! The version of a file: how another thread or rank that opens it later recognises it, and sees that it is unchanged. No I/O.

use atta_entry::{Metadata, Timestamp};

use crate::file::holes::may_have_holes;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) size: u64,
    mtime: (i64, u32),
    ctime: (i64, u32),
    mode: u32,
    /// Whether the file has fewer blocks than bytes.
    pub(crate) has_holes: bool,
    /// The inode of the file, or, for the source of a copy, that of the copy. No device: hosts number devices differently.
    pub(crate) inode: u64,
}

atta_entry::record!(Version { size, mtime, ctime, mode, has_holes, inode });

impl Version {
    /// The version of a file.
    pub(crate) fn of(found: &Metadata) -> Self {
        Self::of_copy(found, found.inode)
    }

    /// The version of a source whose copy has this inode.
    pub(crate) fn of_copy(source: &Metadata, copy_inode: u64) -> Self {
        let time = |time: Timestamp| (time.seconds, time.nanoseconds);
        Self {
            size: source.size,
            mtime: time(source.mtime),
            ctime: time(source.ctime),
            mode: source.mode,
            has_holes: may_have_holes(source),
            inode: copy_inode,
        }
    }

    /// Whether this is the file, unchanged.
    pub(crate) fn is_of(&self, found: &Metadata) -> bool {
        found.inode == self.inode && self.is_of_source(found)
    }

    /// Whether the source of a copy is unchanged.
    pub(crate) fn is_of_source(&self, source: &Metadata) -> bool {
        // The number of blocks may change although the content does not.
        Self { has_holes: self.has_holes, ..Self::of_copy(source, self.inode) } == *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_a_source_ignores_its_blocks() {
        let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        let metadata = Metadata {
            mode: 0o100_640,
            size: 1 << 40 | 5,
            blocks: 8,
            inode: 3,
            mtime: time(-7, 999_999_999),
            ctime: time(1 << 33, 1),
            ..Metadata::default()
        };
        let version = Version::of_copy(&metadata, 1);
        let is_of = |other: Metadata| version.is_of_source(&other);
        assert!(is_of(metadata) && is_of(Metadata { blocks: u64::MAX, ..metadata }));
        let later = Timestamp { nanoseconds: 2, ..metadata.ctime };
        assert!(!is_of(Metadata { ctime: later, ..metadata }));
        assert!(!is_of(Metadata { size: 1, ..metadata }));
        assert!(!is_of(Metadata { mode: 0o100_600, ..metadata }));
        assert!(!version.is_of(&metadata), "that is the copy's inode");
        assert!(Version::of(&metadata).is_of(&metadata));
    }
}
