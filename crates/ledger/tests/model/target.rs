//! What a job of the model makes: directories, files, and whether directories have been closed since they were changed.

use std::collections::{HashMap, HashSet};

use super::tree::{Entry, Tree};

/// What the job makes.
#[derive(Default)]
pub(crate) struct Target {
    /// Directories that are there, with their inodes.
    pub(crate) inodes: HashMap<usize, u64>,
    next: u64,
    pub(crate) files: HashSet<u64>,
    /// Directories that were changed after they were closed, or are not closed: they have another time than their sources.
    pub(crate) changed: HashSet<usize>,
}

impl Target {
    /// Makes a directory and those above it if they are not there. Returns its inode.
    pub(crate) fn enter(&mut self, tree: &Tree, directory: usize) -> u64 {
        if let Some(inode) = self.inodes.get(&directory) {
            return *inode;
        }
        if let Some(above) = tree.above(directory) {
            self.enter(tree, above);
            self.changed.insert(above);
        }
        self.next += 1;
        self.changed.insert(directory);
        self.inodes.insert(directory, self.next);
        self.next
    }

    /// Somebody removes a directory.
    pub(crate) fn remove(&mut self, tree: &Tree, directory: usize) {
        self.inodes.remove(&directory);
        for (_, entry) in &tree.directories[directory].entries {
            match entry {
                Entry::Directory(below) => self.remove(tree, *below),
                Entry::File(file) => drop(self.files.remove(file)),
            }
        }
    }
}
