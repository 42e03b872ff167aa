//! The roots of a walk: each path once, however many names below it are listed. No I/O.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::directory::Directory;

/// A root, as the tasks see it.
#[derive(Debug)]
pub(crate) struct Root {
    /// The path as it was given; empty for the working directory, if what is listed shall not begin with `./`.
    pub(crate) path: Vec<u8>,
    /// Its directory, once it was opened. The descriptor stays open.
    pub(crate) directory: OnceLock<Arc<Directory>>,
    /// Where the kernel says it is: to tell absolute links that lead below it. Only asked for when following.
    pub(crate) real_path: OnceLock<Option<Vec<u8>>>,
}

/// All roots that were met so far, by index.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    roots: Vec<Arc<Root>>,
    by_path: HashMap<Vec<u8>, u32>,
}

impl Roots {
    /// The index of the root with this path.
    pub(crate) fn intern(&self, path: Vec<u8>) -> u32 {
        let mut table = self.lock();
        if let Some(&index) = table.by_path.get(&path) {
            return index;
        }
        let index = u32::try_from(table.roots.len()).expect("fewer than 2^32 roots");
        table.by_path.insert(path.clone(), index);
        table.roots.push(Arc::new(Root { path, directory: OnceLock::new(), real_path: OnceLock::new() }));
        index
    }

    /// The root with an index that [`intern`](Self::intern) gave.
    pub(crate) fn get(&self, index: u32) -> Arc<Root> {
        self.find(index).expect("roots are never removed")
    }

    /// The root with this index, if there is one.
    pub(crate) fn find(&self, index: u32) -> Option<Arc<Root>> {
        self.lock().roots.get(index as usize).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
