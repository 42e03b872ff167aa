//! Directories and slices of tasks that are not in memory: in the spill file, or on another rank. A task that is read back finds the same
//! one, with the units that it held; a rank that has done a task returns its units. No I/O.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tree::debts::Unit;
use crate::tree::directory::{Directory, State};
use crate::tree::slice::{Part, Slice};

/// What a task belongs to.
#[derive(Debug)]
pub(crate) enum Anchor<S: State = ()> {
    Directory(Arc<Directory<S>>),
    Slice(Arc<Slice<S>>),
}

impl<S: State> Clone for Anchor<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Directory(directory) => Self::Directory(Arc::clone(directory)),
            Self::Slice(slice) => Self::Slice(Arc::clone(slice)),
        }
    }
}

impl<S: State> Anchor<S> {
    /// Its address in memory, which is its number as long as it lives.
    fn number(&self) -> u64 {
        match self {
            Self::Directory(directory) => Arc::as_ptr(directory).addr() as u64,
            Self::Slice(slice) => Arc::as_ptr(slice).addr() as u64,
        }
    }
}

/// An anchor, and the number of its tasks for each unit that they hold.
#[derive(Debug)]
struct Kept<S: State> {
    anchor: Anchor<S>,
    tasks: [u64; 4],
}

/// Units of tasks that were lost.
#[derive(Debug)]
pub(crate) enum Lost<S: State = ()> {
    Child(Arc<Directory<S>>),
    Part(Part<S>),
}

/// See the head of this file. Few tasks leave memory, so one lock is enough.
#[derive(Debug)]
pub(crate) struct Anchors<S: State = ()>(Mutex<HashMap<u64, Kept<S>>>);

impl<S: State> Default for Anchors<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: State> Anchors<S> {
    /// Keeps an anchor for one more task. Returns its number.
    pub(crate) fn keep(&self, anchor: &Anchor<S>, unit: Unit) -> u64 {
        let number = anchor.number();
        let mut all = self.lock();
        let kept = all.entry(number).or_insert_with(|| Kept { anchor: anchor.clone(), tasks: [0; 4] });
        kept.tasks[unit as usize] += 1;
        number
    }

    /// Returns the anchor with this number, for a task that was read back or was not written.
    pub(crate) fn take(&self, number: u64, unit: Unit) -> Option<Anchor<S>> {
        self.take_many(number, unit, 1)
    }

    /// As `take`, for this many tasks.
    pub(crate) fn take_many(&self, number: u64, unit: Unit, count: u32) -> Option<Anchor<S>> {
        let mut all = self.lock();
        let kept = all.get_mut(&number)?;
        let tasks = &mut kept.tasks[unit as usize];
        *tasks = tasks.checked_sub(count.into())?;
        let anchor = kept.anchor.clone();
        if kept.tasks == [0; 4] {
            all.remove(&number);
        }
        Some(anchor)
    }

    /// Releases an anchor kept for a task that stays in memory after all.
    pub(crate) fn release(&self, anchor: &Anchor<S>, unit: Unit) {
        self.take(anchor.number(), unit);
    }

    /// Called when no task is left: returns the units of tasks that were not read back.
    pub(crate) fn take_lost(&self) -> Vec<Lost<S>> {
        let all = std::mem::take(&mut *self.lock());
        let mut lost = Vec::new();
        for Kept { anchor, tasks: [_, children, names, parts] } in all.into_values() {
            match anchor {
                Anchor::Directory(directory) => {
                    lost.extend((0..children).map(|_| Lost::Child(Arc::clone(&directory))));
                }
                Anchor::Slice(slice) => {
                    let part = |is_of_names| Lost::Part(Part::of(Arc::clone(&slice), is_of_names));
                    lost.extend((0..names).map(|_| part(true)));
                    lost.extend((0..parts).map(|_| part(false)));
                }
            }
        }
        lost
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Kept<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::slice::{CurrentSlice, Extent};
    use atta_sys::Place;

    #[test]
    fn units_of_lost_tasks_are_known_at_the_end() {
        let opened = Arc::new(std::fs::File::open("/").unwrap().into());
        let root = Directory::root(c"r".into(), 0, opened, Place { device: 1, inode: 1, mount: 1 });
        let at = CurrentSlice::new(&root, Extent::Whole);
        let of_slice = Anchor::Slice(at.batch());
        let of_directory = Anchor::Directory(Arc::clone(&root));
        let anchors = Anchors::default();
        let number = anchors.keep(&of_slice, Unit::Names);
        assert_eq!(anchors.keep(&of_slice, Unit::Names), number);
        anchors.keep(&of_slice, Unit::Part);
        let directory = anchors.keep(&of_directory, Unit::Child);
        anchors.keep(&of_directory, Unit::None);
        anchors.keep(&of_directory, Unit::Child);
        // One comes back, one could not be written.
        assert!(matches!(anchors.take(number, Unit::Names), Some(Anchor::Slice(_))));
        anchors.release(&of_directory, Unit::Child);
        assert!(anchors.take(number + 1, Unit::Names).is_none(), "no such number");
        assert!(anchors.take(directory, Unit::Names).is_none(), "no such unit");
        let lost = anchors.take_lost();
        let count = |is_it: fn(&Lost) -> bool| lost.iter().filter(|lost| is_it(lost)).count();
        assert_eq!(count(|lost| matches!(lost, Lost::Child(_))), 1);
        assert_eq!(count(|lost| matches!(lost, Lost::Part(part) if part.holds_names())), 1);
        assert_eq!(count(|lost| matches!(lost, Lost::Part(part) if !part.holds_names())), 1);
        assert!(anchors.take_lost().is_empty());
    }
}
