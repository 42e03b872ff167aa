//! The tree that the file system shows, as arithmetic: numbers of entries to names, parents and attributes, and back.
//! Holds no entry. Knows nothing of FUSE beyond its record of attributes.
//!
//! Directories are numbered like a heap, level by level from the root as 0: the children of `k` are `k*d+1` to `k*d+d`.
//! An inode number is a directory's number plus one (so the root is 1, as FUSE wants it); the leaves follow after the
//! last directory, those of one directory side by side.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};

use super::options::Options;
use crate::random::mix;

/// The shape of a tree; see [`Options`] for what its numbers mean.
#[derive(Clone, Debug)]
pub struct Tree {
    seed: u64,
    /// Directories below each directory that has any.
    fan_out: u64,
    files: u64,
    symlinks: u64,
    /// All directories, and those among them that have directories below them.
    directories: u64,
    inner: u64,
    /// The number of the first directory that holds leaves.
    first_holder: u64,
}

/// What an inode number stands for, with the entry's place among its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Directory { number: u64 },
    Leaf { holder: u64, index: u64 },
}

impl Tree {
    /// The tree for these options.
    ///
    /// # Errors
    /// `InvalidInput` when it has more entries than there are inode numbers.
    pub fn new(options: &Options) -> io::Result<Self> {
        let too_large = || io::Error::new(io::ErrorKind::InvalidInput, "more entries than inode numbers");
        let (fan_out, depth) = match options.flat {
            Some(_) => (0, 0),
            None => (options.directories, options.depth),
        };
        let (mut level, mut directories, mut inner) = (1_u64, 1_u64, 0);
        for _ in 0..if fan_out == 0 { 0 } else { depth } {
            inner = directories;
            level = level.checked_mul(fan_out).ok_or_else(too_large)?;
            directories = directories.checked_add(level).ok_or_else(too_large)?;
        }
        let tree = Self {
            seed: options.seed,
            fan_out,
            files: options.flat.unwrap_or(options.files),
            symlinks: options.symlinks,
            directories,
            inner,
            first_holder: u64::from(options.flat.is_none()),
        };
        let leaves = tree.files.checked_add(tree.symlinks);
        let all = leaves.and_then(|leaves| leaves.checked_mul(directories - tree.first_holder));
        let top = all.and_then(|all| all.checked_add(directories));
        top.filter(|&top| top < u64::MAX / 2).ok_or_else(too_large)?;
        Ok(tree)
    }

    /// All entries, the root among them.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.directories + (self.directories - self.first_holder) * self.leaves()
    }

    /// All directories, the root among them.
    #[must_use]
    pub const fn directories(&self) -> u64 {
        self.directories
    }

    const fn leaves(&self) -> u64 {
        self.files + self.symlinks
    }

    pub(super) fn node(&self, inode: u64) -> Option<Node> {
        let number = inode.checked_sub(1)?;
        if number < self.directories {
            return Some(Node::Directory { number });
        }
        let leaf = number - self.directories;
        let holder = self.first_holder + leaf.checked_div(self.leaves())?;
        (holder < self.directories).then(|| Node::Leaf { holder, index: leaf % self.leaves() })
    }

    const fn leaf_inode(&self, holder: u64, index: u64) -> u64 {
        self.directories + (holder - self.first_holder) * self.leaves() + index + 1
    }

    /// How many directories lie in a directory.
    const fn directories_in(&self, number: u64) -> u64 {
        if number < self.inner { self.fan_out } else { 0 }
    }

    const fn leaves_in(&self, number: u64) -> u64 {
        if number >= self.first_holder { self.leaves() } else { 0 }
    }

    /// How many entries a directory has, without `.` and `..`.
    pub(super) const fn length(&self, number: u64) -> u64 {
        self.directories_in(number) + self.leaves_in(number)
    }

    /// The inode of an entry of a directory, by its place: directories first, then files, then symlinks.
    pub(super) const fn child(&self, number: u64, place: u64) -> u64 {
        let directories = self.directories_in(number);
        if place < directories {
            number * self.fan_out + place + 2
        } else {
            self.leaf_inode(number, place - directories)
        }
    }

    /// The inode of an entry of a directory, by its name.
    pub(super) fn lookup(&self, number: u64, name: &str) -> Option<u64> {
        let mut letters = name.chars();
        let kind = letters.next()?;
        let index: u64 = letters.as_str().parse().ok()?;
        let place = match kind {
            'd' if index < self.directories_in(number) => index,
            'f' if index < self.files => self.directories_in(number) + index,
            'l' if index < self.symlinks => self.directories_in(number) + self.files + index,
            _ => return None,
        };
        if place >= self.length(number) {
            return None;
        }
        let inode = self.child(number, place);
        // "f1" and "f+0000001" are numbers too, and not names of anything.
        (self.name(inode) == name).then_some(inode)
    }

    /// The name of an entry; `.` for the root.
    pub(super) fn name(&self, inode: u64) -> String {
        match self.node(inode) {
            Some(Node::Directory { number }) if number > 0 => format!("d{:04}", (number - 1) % self.fan_out),
            Some(Node::Leaf { index, .. }) if index < self.files => format!("f{index:07}"),
            Some(Node::Leaf { index, .. }) => format!("l{:07}", index - self.files),
            _ => ".".to_owned(),
        }
    }

    /// The inode of the directory that holds an entry; the root holds itself.
    pub(super) const fn parent(&self, node: Node) -> u64 {
        match node {
            Node::Directory { number: 0 } => 1,
            Node::Directory { number } => (number - 1) / self.fan_out + 1,
            Node::Leaf { holder, .. } => holder + 1,
        }
    }

    /// Where a symlink leads: to the file with its number, which may not exist.
    pub(super) fn target(&self, node: Node) -> Option<String> {
        match node {
            Node::Leaf { index, .. } if index >= self.files => Some(format!("f{:07}", index - self.files)),
            _ => None,
        }
    }

    pub(super) fn kind(&self, node: Node) -> FileType {
        match node {
            Node::Directory { .. } => FileType::Directory,
            Node::Leaf { index, .. } if index < self.files => FileType::RegularFile,
            Node::Leaf { .. } => FileType::Symlink,
        }
    }

    /// Attributes, all from the seed and the inode number.
    pub(super) fn attributes(&self, inode: u64, node: Node) -> FileAttr {
        let draw = |salt: u64| mix(self.seed ^ mix(inode.wrapping_mul(8).wrapping_add(salt)));
        let kind = self.kind(node);
        let (size, perm, nlink) = match (kind, node) {
            (FileType::Directory, Node::Directory { number }) => {
                (4096, 0o755, 2 + self.directories_in(number))
            }
            (FileType::RegularFile, _) => (draw(0) >> (44 + draw(1) % 20), 0o644, 1),
            _ => (8, 0o777, 1),
        };
        let time = UNIX_EPOCH + Duration::new(1_000_000_000 + draw(2) % 600_000_000, nanoseconds(draw(3)));
        FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: size.div_ceil(4096) * 8,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: u32::try_from(nlink).unwrap_or(u32::MAX),
            uid: [0, 1000, 1001, 1002][usize::from(draw(4) as u8 & 3)],
            gid: [0, 100, 1000, 1001][usize::from(draw(5) as u8 & 3)],
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// The bytes of a file from an offset, at most `length`; none past its end.
    pub(super) fn content(&self, inode: u64, size: u64, offset: u64, length: u64) -> Vec<u8> {
        let end = size.min(offset.saturating_add(length));
        let byte = |at: u64| mix(self.seed ^ inode.rotate_left(32) ^ (at / 8)).to_le_bytes()[at as usize % 8];
        (offset..end).map(byte).collect()
    }
}

fn nanoseconds(draw: u64) -> u32 {
    u32::try_from(draw % 1_000_000_000).expect("below 2^32")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn tree(directories: u64, depth: u64, files: u64, symlinks: u64) -> Tree {
        let options = Options { directories, depth, files, symlinks, ..Options::default() };
        Tree::new(&options).unwrap()
    }

    /// Walks by place and by name, and compares both with the count.
    fn walk(tree: &Tree) -> u64 {
        let (mut seen, mut open) = (BTreeSet::from([1]), vec![0]);
        while let Some(number) = open.pop() {
            for place in 0..tree.length(number) {
                let inode = tree.child(number, place);
                let node = tree.node(inode).unwrap();
                assert_eq!(tree.lookup(number, &tree.name(inode)), Some(inode));
                assert_eq!(tree.parent(node), number + 1);
                assert!(seen.insert(inode), "inode {inode} twice");
                if let Node::Directory { number } = node {
                    open.push(number);
                }
            }
        }
        assert_eq!(tree.node(seen.last().unwrap() + 1), None);
        seen.len().try_into().unwrap()
    }

    #[test]
    fn numbers_names_and_parents_agree() {
        for (directories, depth, files, symlinks) in
            [(40, 1, 100, 0), (3, 3, 2, 1), (1, 50, 0, 0), (0, 1, 5, 5), (2, 0, 5, 5), (5, 2, 0, 1)]
        {
            let tree = tree(directories, depth, files, symlinks);
            assert_eq!(walk(&tree), tree.entries());
        }
        assert_eq!(tree(40, 1, 100, 0).entries(), 1 + 40 + 4000);
        let flat = Options { flat: Some(1000), ..Options::default() };
        let flat = Tree::new(&flat).unwrap();
        assert_eq!((walk(&flat), flat.entries(), flat.directories()), (1001, 1001, 1));
    }

    #[test]
    fn only_the_exact_name_is_found() {
        let tree = tree(2, 1, 2, 0);
        assert!(tree.lookup(1, "f0000001").is_some());
        for name in ["f1", "f+000001", "f0000002", "f", "", "d0000", "l0000000", "é"] {
            assert_eq!(tree.lookup(1, name), None, "{name}");
        }
        assert_eq!(tree.lookup(0, "f0000001"), None, "the root has no files");
    }

    #[test]
    fn attributes_depend_on_seed_and_inode_alone() {
        let tree = tree(2, 1, 200, 0);
        let of = |inode| tree.attributes(inode, tree.node(inode).unwrap());
        assert_eq!(of(20), of(20));
        assert_ne!(of(20).mtime, of(21).mtime);
        let sizes: BTreeSet<_> = (4..200).map(|inode| of(inode).size).collect();
        assert!(sizes.len() > 100 && *sizes.last().unwrap() <= 1 << 20);
    }

    #[test]
    fn content_does_not_depend_on_how_it_is_cut() {
        let tree = tree(1, 1, 1, 0);
        let whole = tree.content(3, 1000, 0, 5000);
        assert_eq!(whole.len(), 1000);
        assert_eq!(tree.content(3, 1000, 333, 100), whole[333..433]);
        assert!(tree.content(3, 1000, 1000, 1).is_empty());
    }

    #[test]
    fn too_many_entries_are_refused() {
        let options = Options { directories: 1 << 20, depth: 4, ..Options::default() };
        assert!(Tree::new(&options).is_err());
    }
}
