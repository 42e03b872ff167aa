//! The second comparer: what is at and below a path, as plain system calls report it, and how two such records differ. Slow and
//! obvious. It shares no code with `atta verify` nor with the copy: nothing of it comes from the crates of the program.
//!
//! It compares what a copy promises to keep: kinds, bytes, modes, owners, modification times to the nanosecond, link targets,
//! devices, extended attributes with ACLs, and which names are names of one file. It does not compare access and change times,
//! holes, inode flags, and the sizes of directories.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{lgetxattr, llistxattr};

/// What one entry has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The bits of the type, `S_IFMT`.
    pub(crate) kind: u32,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    /// Seconds and nanoseconds.
    pub(crate) modified: (i64, i64),
    /// Bytes of a file, target of a link.
    pub(crate) content: Vec<u8>,
    pub(crate) device: u64,
    /// Names and values; of ACLs too.
    pub(crate) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first path of the tree, in order, that is a name of the same file; none: there is no other name in the tree.
    pub(crate) first_name: Option<Vec<u8>>,
    /// Which file it is: never compared between trees.
    pub(crate) identity: (u64, u64),
}

/// `S_IFDIR`.
pub(crate) const DIRECTORY: u32 = 0o040_000;

/// Entries by their path below the root; the root's own is empty.
pub(crate) type Tree = BTreeMap<Vec<u8>, Facts>;

/// Reads a whole tree. No link is followed.
pub(crate) fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    add(root, b"", &mut tree);
    let mut names: BTreeMap<(u64, u64), Vec<Vec<u8>>> = BTreeMap::new();
    for (path, facts) in &tree {
        if facts.kind != DIRECTORY {
            names.entry(facts.identity).or_default().push(path.clone());
        }
    }
    for paths in names.values().filter(|paths| paths.len() > 1) {
        for path in paths {
            tree.get_mut(path).unwrap().first_name = Some(paths[0].clone());
        }
    }
    tree
}

fn add(path: &Path, below: &[u8], tree: &mut Tree) {
    let found = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let kind = found.mode() & 0o170_000;
    let content = match kind {
        0o100_000 => fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        0o120_000 => fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec(),
        _ => Vec::new(),
    };
    let is_device = matches!(kind, 0o020_000 | 0o060_000);
    let facts = Facts {
        kind,
        // A link has no mode of its own.
        mode: if kind == 0o120_000 { 0 } else { found.mode() & 0o7777 },
        owner: (found.uid(), found.gid()),
        modified: (found.mtime(), found.mtime_nsec()),
        content,
        device: if is_device { found.rdev() } else { 0 },
        attributes: attributes(path),
        first_name: None,
        identity: (found.dev(), found.ino()),
    };
    tree.insert(below.to_owned(), facts);
    if kind == DIRECTORY {
        for entry in fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
            let name = entry.unwrap().file_name();
            let mut path_below = below.to_owned();
            if !path_below.is_empty() {
                path_below.push(b'/');
            }
            path_below.extend(name.as_bytes());
            add(&path.join(&name), &path_below, tree);
        }
    }
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0_u8; 64 << 10];
    let mut value = vec![0_u8; 64 << 10];
    let length = llistxattr(path, &mut names).unwrap_or_default();
    let mut found = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let read = lgetxattr(path, CString::new(name).unwrap(), &mut value).unwrap();
        found.insert(name.to_vec(), value[..read].to_vec());
    }
    found
}

/// What differs between the entries of `expected` and those of `found` at the same paths, one line each. Entries that
/// `found` has besides are none of its business.
pub(crate) fn differences(expected: &Tree, found: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, facts) in expected {
        let shown = path.escape_ascii();
        match found.get(path) {
            None => lines.push(format!("{shown}: missing")),
            Some(other) => {
                lines.extend(fields(facts, other).into_iter().map(|field| format!("{shown}: {field}")));
            }
        }
    }
    lines
}

/// Paths that `found` has and `expected` has not.
pub(crate) fn extra<'a>(expected: &Tree, found: &'a Tree) -> Vec<&'a Vec<u8>> {
    found.keys().filter(|path| !expected.contains_key(*path)).collect()
}

fn fields(expected: &Facts, found: &Facts) -> Vec<String> {
    let mut lines = Vec::new();
    let mut compare = |what: &str, one: String, other: String| {
        if one != other {
            lines.push(format!("{what}: {one} became {other}"));
        }
    };
    compare("kind", format!("{:o}", expected.kind), format!("{:o}", found.kind));
    compare("mode", format!("{:o}", expected.mode), format!("{:o}", found.mode));
    compare("owner", format!("{:?}", expected.owner), format!("{:?}", found.owner));
    compare("modified", format!("{:?}", expected.modified), format!("{:?}", found.modified));
    compare("device", expected.device.to_string(), found.device.to_string());
    compare("names", format!("{:?}", expected.first_name), format!("{:?}", found.first_name));
    let shown = |facts: &Facts| {
        let pairs = facts.attributes.iter();
        pairs
            .map(|(name, value)| format!("{}={}", name.escape_ascii(), value.escape_ascii()))
            .collect::<Vec<_>>()
    };
    compare("attributes", shown(expected).join(" "), shown(found).join(" "));
    if expected.content != found.content {
        lines.push(format!("content: {} bytes became {}", expected.content.len(), found.content.len()));
    }
    lines
}
