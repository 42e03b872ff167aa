//! The roots of a walk: each path once, however many names below it are listed. No I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::tree::directory::{Directory, State};
use atta_sys::Place;

/// A root, as the tasks see it.
#[derive(Debug)]
pub(crate) struct Root<S = ()> {
    /// The path as given; empty for the working directory, if listed paths are not to begin with `./`.
    pub(crate) path: Vec<u8>,
    /// The kernel's path of it, to recognise absolute links that lead below it. Read only when links are followed.
    pub(crate) real_path: OnceLock<Option<Vec<u8>>>,
    /// Its directory, while tasks below it hold it.
    directory: Mutex<Weak<Directory<S>>>,
    /// Which directory it was when first opened.
    place: OnceLock<Place>,
}

impl<S: State> Root<S> {
    /// Its directory, if it is open.
    pub(crate) fn directory(&self) -> Option<Arc<Directory<S>>> {
        lock(&self.directory).upgrade()
    }

    /// Whether this is the directory that the root was when first opened.
    pub(crate) fn is_same(&self, place: Place) -> bool {
        let first = self.place.get_or_init(|| place);
        (first.device, first.inode) == (place.device, place.inode)
    }
}

/// All roots seen so far, by index.
#[derive(Debug)]
pub(crate) struct Roots<S = ()> {
    table: Mutex<Table<S>>,
}

#[derive(Debug)]
struct Table<S> {
    roots: Vec<Arc<Root<S>>>,
    by_path: HashMap<Vec<u8>, u32>,
    recent: VecDeque<Arc<Directory<S>>>,
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
        table.roots.push(Arc::new(Root {
            path,
            real_path: OnceLock::new(),
            directory: Mutex::new(Weak::new()),
            place: OnceLock::new(),
        }));
        index
    }

    /// The root with an index that [`intern`](Self::intern) gave.
    pub(crate) fn get(&self, index: u32) -> Arc<Root<S>> {
        self.find(index).expect("roots are never removed")
    }

    /// The root with this index, if there is one.
    pub(crate) fn find(&self, index: u32) -> Option<Arc<Root<S>>> {
        lock(&self.table).roots.get(index as usize).cloned()
    }

    /// Records the directory of a root and keeps it open until `most` others were recorded.
    pub(crate) fn keep(&self, root: &Root<S>, directory: &Arc<Directory<S>>, most: usize) {
        *lock(&root.directory) = Arc::downgrade(directory);
        let mut table = lock(&self.table);
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
