//! Digests that are read back, to be compared with a tree: from a catalog, from NDJSON rows, and from lines as `b3sum` prints them.
//! It looks at no tree.
//!
//! What is read may come from anywhere and is not believed: each item has a bound, and what is no such item is an error.

mod lines;
mod shards;

use atta_entry::Kind;

pub use lines::{DigestLines, digest_line};
pub use shards::CatalogDigests;

use crate::lossy::from_hex;

/// What is recorded of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digested {
    /// The whole path.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Its size, where that is recorded.
    pub size: Option<u64>,
    /// The BLAKE3 of a regular file.
    pub digest: Option<[u8; 32]>,
    /// Where a symbolic link leads.
    pub target: Option<Vec<u8>>,
}

/// A digest from its digits, in lower case as all programs print it.
fn digest_of(digits: &str) -> Option<[u8; 32]> {
    let is_lower = !digits.bytes().any(|digit| digit.is_ascii_uppercase());
    from_hex(digits).filter(|_| is_lower)?.try_into().ok()
}
