//! Slices of a directory: all names of a small directory, or a run of names of a large one that were read together. No I/O.
//!
//! A slice has *batches* of names that wait or are being looked at, and *parts* that end elsewhere: a file that waits for its final name,
//! or one that is read back. After the last batch the operation gets `looked`. The slice ends when its last part has ended too (`life.rs`).
//!
//! What its names come to, such as counts and sums, are its *results*. The threads that work on a slice add theirs to it. When it ends,
//! all of them are handed over at once (`life.rs`).
//!
//! A slice costs nothing until a part of it is handed out: [`CurrentSlice`] is on the stack and moves into an `Arc` only then. Until
//! then its results are those that its thread has gathered.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_ledger::SliceNumber;
use atta_runtime::Results as _;

use crate::tree::directory::{Directory, SliceResults, State};
use crate::tree::open::Open;
use crate::tree::units::Count;

/// Which names of its directory a slice has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of them.
    Whole,
    /// The first of several.
    First,
    /// Others.
    Later,
}

/// A slice whose parts are held in several places.
#[derive(Debug)]
pub(crate) struct Slice<S: State = ()> {
    directory: Arc<Directory<S>>,
    extent: Extent,
    /// Batches of names that have not been looked at.
    pub(crate) names: Count,
    /// One for `names`, and one for each part.
    pub(crate) parts: Count,
    /// Its number on the rank that sent it; 0 if it is of this rank.
    owed: u64,
    /// Its number in the log of the job, if that has one and the directory has several slices.
    number: Option<SliceNumber>,
    /// A [`Stage`].
    stage: AtomicU8,
    results: Mutex<Gathered<S::Results>>,
}

/// Where the names of a slice are that has a number in the log of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Some are being looked at here, or were, or all of them stay here.
    Begun = 0,
    /// One task that waits has all of them.
    Waiting = 1,
    /// That task has left for another rank, which notes their end.
    Left = 2,
}

/// The results of a slice so far.
#[derive(Debug)]
struct Gathered<R> {
    /// Boxed: many slices wait without results.
    results: Option<Box<R>>,
    /// It is among the open slices.
    is_open: bool,
    /// Something of its names failed.
    has_failed: bool,
}

impl<R> Default for Gathered<R> {
    fn default() -> Self {
        Self { results: None, is_open: false, has_failed: false }
    }
}

/// Slices that have not ended and are held in several places.
pub(crate) type OpenSlices<S> = Open<Slice<S>>;

/// Moves results from one place to another.
pub(crate) fn hand_over<R: SliceResults>(from: &mut R, to: &mut R) {
    debug_assert_eq!(from.is_empty(), *from == R::default(), "empty results are the default: {from:?}");
    // Most tasks after the last slice have none.
    if !from.is_empty() {
        to.add(from);
        *from = R::default();
    }
}

impl<S: State> Slice<S> {
    fn new(directory: Arc<Directory<S>>, extent: Extent, owed: u64) -> Self {
        let (names, parts, results) = (Count::new(1), Count::new(1), Mutex::default());
        let stage = AtomicU8::new(Stage::Begun as u8);
        Self { directory, extent, names, parts, owed, number: None, stage, results }
    }

    /// A batch of names, by itself. `owed`: its number on the rank that sent it, or 0.
    pub(crate) fn of_batch(directory: Arc<Directory<S>>, owed: u64) -> Arc<Self> {
        directory.life().add_slice();
        Arc::new(Self::new(directory, Extent::Later, owed))
    }

    /// A batch of names that is in the log of the job by itself. `owed`: as for [`of_batch`](Self::of_batch).
    pub(crate) fn of_numbered(directory: Arc<Directory<S>>, number: SliceNumber, owed: u64) -> Arc<Self> {
        directory.life().add_slice();
        let stage = AtomicU8::new(Stage::Waiting as u8);
        let slice = Self::new(directory, Extent::Later, owed);
        Arc::new(Self { number: Some(number), stage, ..slice })
    }

    /// Notes that its names are looked at. Returns whether none was before, since one task had all of them.
    pub(crate) fn begin(&self) -> bool {
        self.stage.swap(Stage::Begun as u8, Ordering::Relaxed) == Stage::Waiting as u8
    }

    /// Notes that its names stay on this rank.
    pub(crate) fn stay(&self) {
        self.begin();
    }

    /// Whether one task that waits has all its names.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stage.load(Ordering::Relaxed) == Stage::Waiting as u8
    }

    /// Notes that the task that has all its names leaves for another rank. The holder of the task calls this.
    pub(crate) fn leave(&self) {
        self.stage.store(Stage::Left as u8, Ordering::Relaxed);
    }

    /// Whether another rank has all its names, and notes their end.
    pub(crate) fn has_left(&self) -> bool {
        self.stage.load(Ordering::Relaxed) == Stage::Left as u8
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered<S::Results>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves results to this slice. The caller holds a unit of it.
    pub(crate) fn gather(&self, results: &mut S::Results) {
        if !results.is_empty() {
            let own = std::mem::take(results);
            match &mut self.gathered().results {
                Some(sum) => sum.add(&own),
                none => *none = Some(Box::new(own)),
            }
        }
    }

    /// Notes that something of its names failed. The caller holds a unit of it.
    pub(crate) fn note_failure(&self) {
        self.gathered().has_failed = true;
    }

    /// Whether something of its names failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.gathered().has_failed
    }

    /// Its number in the log of the job.
    pub(crate) fn number(&self) -> Option<SliceNumber> {
        self.number
    }

    /// Adds it to the open slices, unless it is one of them. The caller holds a unit of it.
    pub(crate) fn note_open(self: &Arc<Self>, open: &OpenSlices<S>) {
        if !std::mem::replace(&mut self.gathered().is_open, true) {
            open.add(self);
        }
    }

    /// Takes it from the open slices when it has ended.
    pub(crate) fn note_end(self: &Arc<Self>, open: &OpenSlices<S>) {
        if std::mem::take(&mut self.gathered().is_open) {
            open.take(self);
        }
    }

    /// Takes the results that were gathered so far.
    pub(crate) fn take_results(&self) -> Option<Box<S::Results>> {
        self.gathered().results.take()
    }

    /// Its number on the rank that sent it, or 0.
    pub(crate) fn owed(&self) -> u64 {
        self.owed
    }

    pub(crate) fn directory(&self) -> &Arc<Directory<S>> {
        &self.directory
    }
}

/// A part of a slice that ends elsewhere. Its holder ends it with [`end_part`](crate::tree::life::end_part); merely dropping it leaves its
/// directory open.
#[derive(Debug)]
#[must_use]
pub(crate) struct Part<S: State = ()> {
    slice: Arc<Slice<S>>,
    holds_names: bool,
}

impl<S: State> Part<S> {
    /// A slice that has nothing but this part.
    pub(crate) fn alone(directory: Arc<Directory<S>>, owed: u64) -> Self {
        Self { slice: Slice::of_batch(directory, owed), holds_names: true }
    }

    pub(crate) fn slice(&self) -> &Arc<Slice<S>> {
        &self.slice
    }

    /// Whether only this part keeps the slice open, beside the thread that has looked at the last names. Asked by that thread, when no names
    /// are left.
    pub(crate) fn is_last(&self) -> bool {
        self.slice.parts.get() == 2
    }

    /// Whether the slice's names count as looked at only when it ends.
    pub(crate) fn holds_names(&self) -> bool {
        self.holds_names
    }

    /// Another part of the same slice.
    pub(crate) fn again(&self) -> Self {
        self.slice.parts.add();
        Self { slice: Arc::clone(&self.slice), holds_names: false }
    }

    /// The part that a packed task had.
    pub(crate) fn of(slice: Arc<Slice<S>>, holds_names: bool) -> Self {
        Self { slice, holds_names }
    }
}

/// The slice that a thread works on: names that it looks at, or a part.
#[derive(Debug)]
pub(crate) struct CurrentSlice<'a, S: State = ()> {
    directory: &'a Arc<Directory<S>>,
    extent: Extent,
    /// It is looking at names of it.
    looks: bool,
    number: Option<SliceNumber>,
    shared: OnceCell<Arc<Slice<S>>>,
}

impl<'a, S: State> CurrentSlice<'a, S> {
    /// A new slice, all of whose names this thread has.
    pub(crate) fn new(directory: &'a Arc<Directory<S>>, extent: Extent) -> Self {
        Self { directory, extent, looks: true, number: None, shared: OnceCell::new() }
    }

    /// With its number in the log of the job.
    pub(crate) fn with_number(self, number: Option<SliceNumber>) -> Self {
        Self { number, ..self }
    }

    /// Its number in the log of the job.
    pub(crate) fn number(&self) -> Option<SliceNumber> {
        self.number
    }

    /// A batch of names of a slice.
    pub(crate) fn of_batch(slice: &'a Arc<Slice<S>>) -> Self {
        let shared = OnceCell::from(Arc::clone(slice));
        Self { directory: &slice.directory, extent: slice.extent, looks: true, number: slice.number, shared }
    }

    /// A part of a slice.
    pub(crate) fn of_part(part: &'a Part<S>) -> Self {
        Self { looks: false, ..Self::of_batch(&part.slice) }
    }

    pub(crate) fn directory(&self) -> &'a Arc<Directory<S>> {
        self.directory
    }

    /// Whether another rank has all its names, and notes their end.
    pub(crate) fn has_left(&self) -> bool {
        self.shared.get().is_some_and(|slice| slice.has_left())
    }

    /// Whether only threads that look at names of this slice, such as this one, put entries into the directory.
    pub(crate) fn is_whole(&self) -> bool {
        self.looks && self.extent == Extent::Whole
    }

    /// Whether it is the first slice of its directory, or the only one.
    pub(crate) fn is_first(&self) -> bool {
        self.extent != Extent::Later
    }

    /// A batch of its names for another thread.
    pub(crate) fn batch(&self) -> Arc<Slice<S>> {
        let slice = self.share();
        slice.names.add();
        Arc::clone(slice)
    }

    /// A part of it that ends elsewhere.
    pub(crate) fn part(&self) -> Part<S> {
        let slice = self.share();
        slice.parts.add();
        Part { slice: Arc::clone(slice), holds_names: false }
    }

    /// A part that also delays the end of its names.
    pub(crate) fn part_of_names(&self) -> Part<S> {
        Part { slice: self.batch(), holds_names: true }
    }

    /// The slice, as one that is held in several places.
    pub(crate) fn share(&self) -> &Arc<Slice<S>> {
        self.shared.get_or_init(|| {
            let number = self.number;
            Arc::new(Slice { number, ..Slice::new(Arc::clone(self.directory), self.extent, 0) })
        })
    }

    /// The slice, if parts of it were handed out.
    pub(crate) fn shared(&self) -> Option<&Arc<Slice<S>>> {
        self.shared.get()
    }

    /// Releases the current names. Returns whether they were the last.
    pub(crate) fn release_names(&self) -> bool {
        self.shared.get().is_none_or(|slice| slice.names.release())
    }

    /// Called after the last names. Returns whether the slice has ended.
    pub(crate) fn release_part_of_names(&self) -> bool {
        self.shared.get().is_none_or(|slice| slice.parts.release())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_sys::Place;

    #[test]
    fn the_only_open_part_of_a_slice_is_known() {
        let opened = Arc::new(std::fs::File::open("/").unwrap().into());
        let directory = Directory::root(c"r".into(), 0, opened, Place { device: 1, inode: 1, mount: 1 });
        for others in 0..3 {
            let slice = CurrentSlice::new(&directory, Extent::Whole);
            let held: Vec<Part> = (0..others).map(|_| slice.part()).collect();
            assert!(slice.release_names());
            assert_eq!(slice.part().is_last(), held.is_empty());
        }
    }
}
