//! The rows of a manifest: what the target has. They are noted by `target/noted.rs`. No I/O.

use atta_entry::Kind;

/// What a manifest has of files that the copy leaves as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A row without a digest.
    Listed,
    /// Their digests: they are read.
    Read,
}

/// An entry of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestRow {
    /// Its path in the target.
    pub path: Vec<u8>,
    /// Its type.
    pub kind: Kind,
    /// Size of a regular file in bytes; otherwise 0.
    pub size: u64,
    /// The BLAKE3 of a regular file. None: it was not read, or it has too many holes.
    pub digest: Option<[u8; 32]>,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// The entry failed: rows with this path do not count. If it is a directory, rows of what is below do not count either.
    pub is_failed: bool,
}

atta_entry::record!(ManifestRow { path, kind, size, digest, target, is_failed });
