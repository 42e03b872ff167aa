//! Recorded digests, for comparison with a tree: from a catalog, from NDJSON rows, and from lines as `b3sum` prints them. It does not
//! access the tree.
//!
//! The input may come from anywhere and is not trusted: each item has a size limit, and any other input is an error.

mod lines;
mod shards;

use atta_entry::Kind;

pub use lines::{DigestLines, digest_line};
pub use shards::CatalogDigests;

use crate::lossy::from_hex;

/// The recorded data of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digested {
    /// The whole path.
    pub path: Vec<u8>,
    /// Its kind.
    pub kind: Kind,
    /// Its size, if recorded.
    pub size: Option<u64>,
    /// The BLAKE3 of a regular file. None: the file was not read.
    pub digest: Option<[u8; 32]>,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// Parses a digest in lower case, as all programs print it.
fn digest_of(digits: &str) -> Option<[u8; 32]> {
    let is_lower = !digits.bytes().any(|digit| digit.is_ascii_uppercase());
    from_hex(digits).filter(|_| is_lower)?.try_into().ok()
}
