//! A random tree with one or several roots.

use atta_ledger::At;
use atta_testkit::random::Random;

/// A name: a subdirectory, or a file with a number of its own.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Directory(usize),
    File(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) root: u32,
    /// Its path below the root.
    pub(crate) path: Vec<u8>,
    pub(crate) entries: Vec<(Vec<u8>, Entry)>,
}

#[derive(Debug)]
pub(crate) struct Tree {
    /// The first directories are the roots.
    pub(crate) roots: u32,
    pub(crate) directories: Vec<Directory>,
    pub(crate) files: u64,
}

impl Tree {
    pub(crate) fn random(random: &mut Random) -> Self {
        let roots = *random.pick(&[1, 1, 2, 3]);
        let root = |root| Directory { root, ..Directory::default() };
        let mut tree = Self { roots, directories: (0..roots).map(root).collect(), files: 0 };
        let wanted = 1 + random.index(12);
        let mut at = 0;
        while at < tree.directories.len() {
            let most = if random.below(4) == 0 { 12 } else { 5 };
            let count = random.index(most);
            for number in 0..count {
                let is_directory = tree.directories.len() < wanted && random.below(2) == 0;
                tree.add(at, number, is_directory);
            }
            at += 1;
        }
        tree
    }

    fn add(&mut self, above: usize, number: usize, is_directory: bool) {
        let name = format!("{}{number}", if is_directory { "d" } else { "f" }).into_bytes();
        let entry = if is_directory {
            let Directory { root, path: above, .. } = &self.directories[above];
            let slash: &[u8] = if above.is_empty() { b"" } else { b"/" };
            let path = [above, slash, &name].concat();
            self.directories.push(Directory { root: *root, path, entries: Vec::new() });
            Entry::Directory(self.directories.len() - 1)
        } else {
            self.files += 1;
            Entry::File(self.files - 1)
        };
        self.directories[above].entries.push((name, entry));
    }

    pub(crate) fn at(&self, directory: usize) -> At<'_> {
        let Directory { root, path, .. } = &self.directories[directory];
        At { root: *root, path }
    }

    /// The directory above; none: it is a root.
    pub(crate) fn above(&self, directory: usize) -> Option<usize> {
        let is_it = |(_, entry): &(_, Entry)| matches!(entry, Entry::Directory(below) if *below == directory);
        self.directories.iter().position(|above| above.entries.iter().any(is_it))
    }

    /// The directory that is there.
    pub(crate) fn find(&self, at: At<'_>) -> usize {
        let mut all = 0..self.directories.len();
        all.find(|directory| self.at(*directory) == at).expect("a directory of the tree")
    }
}
