//! A set of shared objects with work left to do. No I/O.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of tables. Each has its own lock, so threads rarely contend.
const TABLES: usize = 16;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Open<T>([Mutex<HashMap<usize, Arc<T>>>; TABLES]);

/// The memory address: unique as long as the object lives.
fn number<T>(what: &Arc<T>) -> usize {
    Arc::as_ptr(what).addr()
}

impl<T> Default for Open<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl<T> Open<T> {
    /// Adds an object, unless it is in the set.
    pub(crate) fn add(&self, what: &Arc<T>) {
        self.table(what).insert(number(what), Arc::clone(what));
    }

    /// Removes an object so that the caller can do the remaining work. Returns whether it was in the set.
    pub(crate) fn take(&self, what: &Arc<T>) -> bool {
        self.table(what).remove(&number(what)).is_some()
    }

    /// Returns all objects.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.0.iter().flat_map(|table| lock(table).values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Removes and returns the objects that match.
    pub(crate) fn take_if(&self, wanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let is_wanted = |_: &usize, what: &mut Arc<T>| wanted(what);
        let of_table = |table| lock(table).extract_if(is_wanted).map(|(_, what)| what).collect::<Vec<_>>();
        self.0.iter().flat_map(of_table).collect()
    }

    fn table(&self, what: &Arc<T>) -> MutexGuard<'_, HashMap<usize, Arc<T>>> {
        // The lowest bits of all addresses are equal.
        lock(&self.0[(number(what) >> 7) % TABLES])
    }
}

fn lock<T>(table: &Mutex<HashMap<usize, Arc<T>>>) -> MutexGuard<'_, HashMap<usize, Arc<T>>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
