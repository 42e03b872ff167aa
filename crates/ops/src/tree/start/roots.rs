//! The roots of a walk: each path once, however many names below it are listed. No I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::tree::directory::{Directory, State};
use crate::tree::start::root::Root;

/// All roots seen so far, by index.
#[derive(Debug)]
pub(crate) struct Roots<S = ()> {
    table: Mutex<Table<S>>,
}

#[derive(Debug)]
struct Table<S> {
    roots: Vec<Known<S>>,
    by_path: HashMap<Vec<u8>, u32>,
    recent: VecDeque<Arc<Directory<S>>>,
}

#[derive(Debug)]
struct Known<S> {
    root: Arc<Root>,
    /// Its directory for listed names, while tasks below it hold it.
    directory: Weak<Directory<S>>,
}

impl<S> Default for Roots<S> {
    fn default() -> Self {
        let (roots, by_path, recent) = (Vec::new(), HashMap::new(), VecDeque::new());
        Self { table: Mutex::new(Table { roots, by_path, recent }) }
    }
}

impl<S: State> Roots<S> {
    /// The index of the root with this path.
    pub(crate) fn intern(&self, path: Vec<u8>) -> u32 {
        let mut table = lock(&self.table);
        if let Some(&index) = table.by_path.get(&path) {
            return index;
        }
        let index = u32::try_from(table.roots.len()).expect("fewer than 2^32 roots");
        table.by_path.insert(path.clone(), index);
        table.roots.push(Known { root: Arc::new(Root::new(path)), directory: Weak::new() });
        index
    }

    /// The root with an index that [`intern`](Self::intern) gave.
    pub(crate) fn get(&self, index: u32) -> Arc<Root> {
        self.find(index).expect("roots are never removed")
    }

    /// The root with this index, if there is one.
    pub(crate) fn find(&self, index: u32) -> Option<Arc<Root>> {
        lock(&self.table).roots.get(index as usize).map(|known| Arc::clone(&known.root))
    }

    /// The directory of a root for listed names, if it is open.
    pub(crate) fn directory(&self, index: u32) -> Option<Arc<Directory<S>>> {
        lock(&self.table).roots.get(index as usize).and_then(|known| known.directory.upgrade())
    }

    /// Records the directory of a root and keeps it open until `most` others were recorded.
    pub(crate) fn keep(&self, directory: &Arc<Directory<S>>, most: usize) {
        let mut table = lock(&self.table);
        if let Some(known) = table.roots.get_mut(directory.root_index() as usize) {
            known.directory = Arc::downgrade(directory);
        }
        table.recent.push_back(Arc::clone(directory));
        let oldest = if table.recent.len() > most { table.recent.pop_front() } else { None };
        drop(table);
        // Not under the lock: closing a directory may take long on a slow file system.
        drop(oldest);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
