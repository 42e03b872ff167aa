//! The directories of a simulated tree with the paths and names that logs have. It notes nothing.

use std::collections::HashMap;

use crate::tree::{Node, Tree};

/// All directories of a small tree.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Number and path below the root, by seed.
    of: HashMap<u64, (u64, Vec<u8>)>,
    pub(super) nodes: HashMap<Vec<u8>, Node>,
    /// How many files there are.
    pub(super) files: u64,
}

impl Paths {
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut paths = Self { of: HashMap::new(), nodes: HashMap::new(), files: tree.files() };
        let mut todo = vec![(tree.root(), Vec::new())];
        while let Some((node, path)) = todo.pop() {
            let mut index = 0_u32;
            tree.for_each_directory(&node, |child| {
                todo.push((child, below(&path, &name(index))));
                index += 1;
            });
            paths.of.insert(node.seed, (paths.of.len() as u64, path.clone()));
            paths.nodes.insert(path, node);
        }
        paths
    }

    pub(super) fn path(&self, seed: u64) -> &[u8] {
        self.of.get(&seed).map_or(&[], |(_, path)| path)
    }

    /// A number of this file alone.
    pub(super) fn file(&self, seed: u64, file: u64) -> u64 {
        self.of.get(&seed).map_or(u64::MAX, |(number, _)| number << 32 | file)
    }
}

/// The name of a subdirectory.
pub(super) fn name(index: u32) -> Vec<u8> {
    format!("d{index}").into_bytes()
}

fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

/// Names of a range of files.
pub(super) fn names(from: u64, files: u64) -> Vec<Vec<u8>> {
    (from..from + files).map(|file| file.to_string().into_bytes()).collect()
}
