//! What stays until something that is left to do with it is done: directories of TARGET. No I/O.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tables with a lock of their own: threads rarely want the same.
const TABLES: usize = 16;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Open<T>([Mutex<HashMap<usize, Arc<T>>>; TABLES]);

/// Where it is in memory: its number as long as it lives.
fn number<T>(what: &Arc<T>) -> usize {
    Arc::as_ptr(what).addr()
}

impl<T> Default for Open<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl<T> Open<T> {
    /// Adds something, unless it is there.
    pub(crate) fn add(&self, what: &Arc<T>) {
        self.table(what).insert(number(what), Arc::clone(what));
    }

    /// Takes something, for whoever does what is left. Whether it was there.
    pub(crate) fn take(&self, what: &Arc<T>) -> bool {
        self.table(what).remove(&number(what)).is_some()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.0.iter().flat_map(|table| lock(table).values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Takes those for which this holds.
    pub(crate) fn take_if(&self, wanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let is_wanted = |_: &usize, what: &mut Arc<T>| wanted(what);
        let of_table = |table| lock(table).extract_if(is_wanted).map(|(_, what)| what).collect::<Vec<_>>();
        self.0.iter().flat_map(of_table).collect()
    }

    fn table(&self, what: &Arc<T>) -> MutexGuard<'_, HashMap<usize, Arc<T>>> {
        // The lowest bits of all addresses are the same.
        lock(&self.0[(number(what) >> 7) % TABLES])
    }
}

fn lock<T>(table: &Mutex<HashMap<usize, Arc<T>>>) -> MutexGuard<'_, HashMap<usize, Arc<T>>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
