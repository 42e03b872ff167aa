//! The roots of a walk: each path once, however many names below it are listed. No I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::tree::directory::Directory;
use atta_sys::Place;

/// A root, as the tasks see it.
#[derive(Debug)]
pub(crate) struct Root {
    /// The path as given; empty for the working directory, if listed paths are not to begin with `./`.
    pub(crate) path: Vec<u8>,
    /// The kernel's path of it, to recognise absolute links that lead below it. Read only when links are followed.
    pub(crate) real_path: OnceLock<Option<Vec<u8>>>,
    /// Its directory, while tasks below it hold it.
    directory: Mutex<Weak<Directory>>,
    /// Which directory it was when first opened.
    place: OnceLock<Place>,
}

impl Root {
    /// Its directory, if it is open.
    pub(crate) fn directory(&self) -> Option<Arc<Directory>> {
        lock(&self.directory).upgrade()
    }

    /// Whether this is the directory that the root was when first opened.
    pub(crate) fn is_same(&self, place: Place) -> bool {
        let first = self.place.get_or_init(|| place);
        (first.device, first.inode) == (place.device, place.inode)
    }
}

/// All roots seen so far, by index.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    roots: Vec<Arc<Root>>,
    by_path: HashMap<Vec<u8>, u32>,
    recent: VecDeque<Arc<Directory>>,
}

impl Roots {
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
    pub(crate) fn get(&self, index: u32) -> Arc<Root> {
        self.find(index).expect("roots are never removed")
    }

    /// The root with this index, if there is one.
    pub(crate) fn find(&self, index: u32) -> Option<Arc<Root>> {
        lock(&self.table).roots.get(index as usize).cloned()
    }

    /// Records the directory of a root and keeps it open until `most` others were recorded.
    pub(crate) fn keep(&self, root: &Root, directory: &Arc<Directory>, most: usize) {
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
