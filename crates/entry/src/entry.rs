//! One entry of a tree as a walk passes it to its visitor. Borrowed for the duration of the call. No I/O.

use crate::{Kind, Metadata};

/// One entry of a tree: its place, its kind, and its `statx` data.
///
/// The path is in two parts, so that a walk builds the directory's part once, not for each file: `directory` + `/` + `name`. For a root,
/// `directory` is empty and `name` is the path as it was given.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Path of the directory that holds it, beginning with the root as it was given; empty for a root.
    pub directory: &'a [u8],
    /// Its name in that directory: no `/`, no NUL; for a root the whole path as it was given.
    pub name: &'a [u8],
    /// Length of the root as it was given, in bytes of `directory`: the path below the root follows it.
    pub root_bytes: usize,
    /// Levels below the root; a root has 0.
    pub depth: u32,
    /// Its kind: from the metadata if there is any, otherwise from `d_type`.
    pub kind: Kind,
    /// Inode number, from the metadata if there is any, otherwise from the directory.
    pub inode: u64,
    /// Its `statx` data; `None` if the walk was not to request it and `d_type` was enough.
    pub metadata: Option<&'a Metadata>,
    /// Target of a symbolic link, if requested.
    pub target: Option<&'a [u8]>,
}

impl Entry<'_> {
    /// Appends the whole path to `out`, as `find` prints it, beginning with the root as it was given.
    pub fn path_into(&self, out: &mut Vec<u8>) {
        if !self.directory.is_empty() {
            out.extend_from_slice(self.directory);
            if !self.directory.ends_with(b"/") {
                out.push(b'/');
            }
        }
        out.extend_from_slice(self.name);
    }

    /// The whole path, newly allocated. In hot code use [`path_into`](Self::path_into) with a buffer of your own.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.directory.len() + 1 + self.name.len());
        self.path_into(&mut path);
        path
    }

    /// Apparent size in bytes; 0 without metadata.
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
