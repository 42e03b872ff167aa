//! A random tree.

use atta_testkit::random::Random;

/// A name: a subdirectory, or a file with a number of its own.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Directory(usize),
    File(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Its path below the root.
    pub(crate) path: Vec<u8>,
    pub(crate) entries: Vec<(Vec<u8>, Entry)>,
}

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) directories: Vec<Directory>,
    pub(crate) files: u64,
}

impl Tree {
    pub(crate) fn random(random: &mut Random) -> Self {
        let mut tree = Self { directories: vec![Directory::default()], files: 0 };
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
            let above = &self.directories[above].path;
            let slash: &[u8] = if above.is_empty() { b"" } else { b"/" };
            let path = [above, slash, &name].concat();
            self.directories.push(Directory { path, entries: Vec::new() });
            Entry::Directory(self.directories.len() - 1)
        } else {
            self.files += 1;
            Entry::File(self.files - 1)
        };
        self.directories[above].entries.push((name, entry));
    }

    /// The directory with that path.
    pub(crate) fn find(&self, path: &[u8]) -> usize {
        self.directories.iter().position(|directory| directory.path == path).expect("the path of a directory")
    }
}
