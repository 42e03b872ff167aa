//! Directories and slices of tasks that are in the spill file: a task that comes back finds the very same one, with the units that it
//! has held. No I/O.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tree::directory::Directory;
use crate::tree::slice::Slice;

/// What a task belongs to.
#[derive(Clone, Debug)]
pub(crate) enum Anchor {
    Directory(Arc<Directory>),
    Slice(Arc<Slice>),
}

impl Anchor {
    /// Where it is in memory: its number as long as it lives.
    fn number(&self) -> u64 {
        match self {
            Self::Directory(directory) => Arc::as_ptr(directory).addr() as u64,
            Self::Slice(slice) => Arc::as_ptr(slice).addr() as u64,
        }
    }
}

/// See the head of this file. It is used for spilled tasks alone, so one lock does.
#[derive(Debug, Default)]
pub(crate) struct Anchors(Mutex<HashMap<u64, (Anchor, u64)>>);

impl Anchors {
    /// Keeps one for a task more; its number.
    pub(crate) fn keep(&self, anchor: &Anchor) -> u64 {
        let number = anchor.number();
        self.lock().entry(number).or_insert_with(|| (anchor.clone(), 0)).1 += 1;
        number
    }

    /// That with this number, for a task that comes back, or that was not written.
    pub(crate) fn take(&self, number: u64) -> Option<Anchor> {
        let mut all = self.lock();
        let (anchor, tasks) = all.get_mut(&number)?;
        *tasks -= 1;
        let anchor = anchor.clone();
        if *tasks == 0 {
            all.remove(&number);
        }
        Some(anchor)
    }

    /// Lets go of one that was kept for a task that stays in memory.
    pub(crate) fn release(&self, anchor: &Anchor) {
        self.take(anchor.number());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Anchor, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
