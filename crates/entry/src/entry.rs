//! One entry of a tree as a walk hands it to its visitor. Borrowed: it lives as long as the call. No I/O.

use crate::{Kind, Metadata};

/// One entry of a tree: where it is, what it is, and what `statx` said of it.
///
/// The path is in two pieces, so that a walk builds the directory's part once and not once a file:
/// `directory` + `/` + `name`. For a root itself `directory` is empty and `name` is the path as it was given.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Path of the directory that holds it, beginning with the root as it was given; empty for a root.
    pub directory: &'a [u8],
    /// Its name in that directory: no `/`, no NUL; for a root the whole path as it was given.
    pub name: &'a [u8],
    /// Bytes of `directory` that are the root as it was given: what follows is the path below the root.
    pub root_bytes: usize,
    /// Levels below the root; a root has 0.
    pub depth: u32,
    /// What it is: from the metadata where there is one, else from `d_type`.
    pub kind: Kind,
    /// Inode number, from the metadata where there is one, else from the directory.
    pub inode: u64,
    /// What `statx` said; none where the walk was told not to ask and `d_type` was enough.
    pub metadata: Option<&'a Metadata>,
    /// Target of a symbolic link, where it was asked for.
    pub target: Option<&'a [u8]>,
}

impl Entry<'_> {
    /// Appends the whole path to `out`: as `find` prints it, beginning with the root as it was given.
    pub fn path_into(&self, out: &mut Vec<u8>) {
        if !self.directory.is_empty() {
            out.extend_from_slice(self.directory);
            if !self.directory.ends_with(b"/") {
                out.push(b'/');
            }
        }
        out.extend_from_slice(self.name);
    }

    /// The whole path, newly allocated. In a hot place use [`path_into`](Self::path_into) with a buffer of yours.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.directory.len() + 1 + self.name.len());
        self.path_into(&mut path);
        path
    }

    /// Apparent size in bytes; 0 where the metadata was not asked for.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.metadata.map_or(0, |metadata| metadata.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(directory: &'a [u8], name: &'a [u8]) -> Entry<'a> {
        Entry {
            directory,
            name,
            root_bytes: directory.len(),
            depth: 1,
            kind: Kind::File,
            inode: 1,
            metadata: None,
            target: None,
        }
    }

    #[test]
    fn paths_are_joined_as_find_does() {
        assert_eq!(entry(b"a", b"x").path(), b"a/x");
        assert_eq!(entry(b"a/", b"x").path(), b"a/x");
        assert_eq!(entry(b"/", b"x").path(), b"/x");
        assert_eq!(entry(b"", b"a/").path(), b"a/");
    }
}
