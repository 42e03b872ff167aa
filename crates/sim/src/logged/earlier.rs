//! What the logs of earlier runs have left for the next one. It reads no logs.

use std::collections::{HashMap, HashSet};

use atta_ledger::{Id, Left, SliceNumber};

/// What the logs of earlier runs have left.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    pub(super) results: Vec<u64>,
    pub(super) known: HashSet<Id>,
    pub(super) is_begun: bool,
    pub(super) reads: Vec<Vec<u8>>,
    pub(super) given: HashMap<Vec<u8>, HashSet<u64>>,
    pub(super) slices: Vec<(Vec<u8>, SliceNumber, Vec<u64>)>,
}

impl Earlier {
    fn add_results(&mut self, bytes: &[u8]) {
        self.results.extend(bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number)));
    }

    pub(super) fn add(&mut self, root: Id, left: &Left<'_>) {
        match left {
            Left::Results(bytes) => self.add_results(bytes),
            Left::Directory(at, item) => {
                self.is_begun |= item.id == root;
                self.known.insert(item.id);
                if !item.is_read {
                    self.reads.push(at.path.to_vec());
                }
            }
            Left::Complete(id) => {
                self.is_begun |= *id == root;
                self.known.insert(*id);
            }
            Left::Given(at, names) => {
                self.given.entry(at.path.to_vec()).or_default().extend(numbers_of(names));
            }
            Left::Slice(at, number, names) => {
                self.slices.push((at.path.to_vec(), *number, numbers_of(names).collect()));
            }
            // Nothing notes anything else.
            _ => {}
        }
    }
}

fn numbers_of<'n>(names: &'n [&'n [u8]]) -> impl Iterator<Item = u64> + 'n {
    names.iter().filter_map(|name| std::str::from_utf8(name).ok()?.parse().ok())
}
