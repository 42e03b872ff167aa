//! Directories of TARGET to which something is left to do in the end. No I/O.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::copy::target::mirror::Mirror;

/// Tables with a lock of their own: threads rarely want the same.
const TABLES: usize = 16;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Open([Mutex<HashMap<usize, Arc<Mirror>>>; TABLES]);

/// Where it is in memory: its number as long as it lives.
fn number(mirror: &Arc<Mirror>) -> usize {
    Arc::as_ptr(mirror).addr()
}

impl Open {
    /// Adds a directory, unless it is there.
    pub(crate) fn add(&self, mirror: &Arc<Mirror>) {
        self.table(mirror).insert(number(mirror), Arc::clone(mirror));
    }

    /// Takes a directory, for whoever does what is left. Whether it was there.
    pub(crate) fn take(&self, mirror: &Arc<Mirror>) -> bool {
        self.table(mirror).remove(&number(mirror)).is_some()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Mirror>> {
        self.0.iter().flat_map(|table| lock(table).values().cloned().collect::<Vec<_>>()).collect()
    }

    /// How deep the deepest is.
    pub(crate) fn deepest(&self) -> Option<u32> {
        let depths = |table: &Mutex<HashMap<usize, Arc<Mirror>>>| {
            lock(table).values().map(|mirror| mirror.target.depth()).max()
        };
        self.0.iter().filter_map(depths).max()
    }

    /// Takes those that are so deep or deeper. One without rights bars what is below it: so the deepest are to come first.
    pub(crate) fn take_from(&self, depth: u32) -> Vec<Arc<Mirror>> {
        let is_deep = |_: &usize, mirror: &mut Arc<Mirror>| mirror.target.depth() >= depth;
        let deep = |table| lock(table).extract_if(is_deep).map(|(_, mirror)| mirror).collect::<Vec<_>>();
        self.0.iter().flat_map(deep).collect()
    }

    fn table(&self, mirror: &Arc<Mirror>) -> MutexGuard<'_, HashMap<usize, Arc<Mirror>>> {
        // The lowest bits of all addresses are the same.
        lock(&self.0[(number(mirror) >> 7) % TABLES])
    }
}

fn lock(table: &Mutex<HashMap<usize, Arc<Mirror>>>) -> MutexGuard<'_, HashMap<usize, Arc<Mirror>>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
