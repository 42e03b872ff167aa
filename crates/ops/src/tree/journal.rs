//! What the threads of a walk note for the log of its job (`atta-ledger`): which directories they found, which slices are done, and what
//! these come to. It also holds what the logs of earlier runs leave to do. It reads and writes no file.
//!
//! ```text
//!   thread ──▶ its notes (facts, results) ──┐ each second, all at once
//!   thread ──▶ its notes ───────────────────┴──▶ take() ──▶ sections of one frame
//! ```
//!
//! Notes of one moment belong together: a slice is never noted as done without the directories that were found in it, and never without its
//! results. So `take` holds the notes of all threads.
//!
//! A slice in which something failed is not noted as done, unless an entry has just vanished or become another kind of entry. A later run does it again, and only then do its
//! results count. The same holds for a slice whose names were left out after a stop. A root is no name of a slice: each run looks at it again.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atta_ledger::{At, Fact, Fold, Id, Key, Left, Logs, Record, Records, SliceNumber};
use atta_runtime::{Facts, Results as _, Stop};

use crate::tree::directory::{Directory, SliceResults, State};
use crate::tree::listing::names::{Name, Names};
use crate::tree::listing::path::CurrentPath;

/// Bytes of notes of all threads beyond which no directory is read on. A frame has room for four times as much.
const NOTED_MOST: usize = 64 << 20;
/// Bytes of notes that a thread adds to those of all threads at once.
const PUBLISHED_LEAST: usize = 32 << 10;

/// What a walk notes for the log of its job, and what earlier runs of the job left.
#[derive(Debug)]
pub struct Journal<R> {
    key: Key,
    run: u32,
    rank: u32,
    /// Records for the first frame: what counts of the logs of earlier runs.
    cuts: Mutex<Records>,
    threads: Mutex<Vec<Notes<R>>>,
    /// Bytes of the notes of all threads.
    bytes: Arc<AtomicUsize>,
    slices: AtomicU64,
    earlier: Earlier,
    left: Mutex<Vec<Redo>>,
}

/// What the logs of earlier runs say.
#[derive(Debug, Default)]
struct Earlier {
    /// Directories that need not be entered from the directory above: they are complete, or a task of their own is.
    known: HashSet<Id>,
    /// Names that are in slices of their own.
    given: HashSet<Id>,
}

/// What is done again: a directory that was not read to its end, or a slice of one.
#[derive(Debug)]
pub(crate) struct Redo {
    pub(crate) root: u32,
    /// The directory, below its root.
    pub(crate) path: Vec<u8>,
    /// None: what of its names is in no slice of its own.
    pub(crate) slice: Option<NumberedNames>,
}

/// A slice and its names.
pub(crate) type NumberedNames = (SliceNumber, Vec<Vec<u8>>);

impl Redo {
    /// Bytes of memory that it holds.
    pub(crate) fn weigh(&self) -> usize {
        let names = self.slice.iter().flat_map(|(_, names)| names);
        size_of::<Self>()
            + self.path.len()
            + names.map(|name| size_of::<Vec<u8>>() + name.len()).sum::<usize>()
    }
}

/// What one thread has noted since it was taken last.
#[derive(Debug)]
struct Noted<R> {
    records: Records,
    results: R,
}

type Notes<R> = Arc<Mutex<Noted<R>>>;

/// Why earlier runs cannot be resumed.
#[derive(Debug)]
pub enum ResumeError<E> {
    /// A log cannot be read, or is not valid.
    Logs(E),
    /// Results in a log are not those of this operation.
    Results,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: SliceResults> Journal<R> {
    /// The journal of a run, from 1, on a rank. No slice has been numbered by this run and rank.
    #[must_use]
    pub fn new(key: Key, run: u32, rank: u32) -> Self {
        let (earlier, left) = (Earlier::default(), Mutex::default());
        let (cuts, threads) = (Mutex::default(), Mutex::default());
        let (bytes, slices) = (Arc::default(), AtomicU64::new(0));
        Self { key, run, rank, cuts, threads, bytes, slices, earlier, left }
    }

    /// Says what counts of the logs of earlier runs ([`JobLogs::cuts`](atta_ledger::JobLogs::cuts)). The first [`take`](Facts::take) returns
    /// it. So one comes before the walk: without it, the logs of this run are refused.
    #[must_use]
    pub fn with_cuts(self, cuts: impl Iterator<Item = Record<'static>>) -> Self {
        cuts.for_each(|cut| lock(&self.cuts).add(&cut));
        self
    }

    /// Takes over what the logs of earlier runs say. `each` gets what the slices come to that are done, in shares. `memory`: an aim, in bytes.
    ///
    /// # Errors
    /// The logs cannot be read, or are not those of this operation.
    pub fn resume<L: Logs>(
        &mut self,
        logs: &mut L,
        memory: usize,
        each: &mut dyn FnMut(R),
    ) -> Result<(), ResumeError<L::Error>> {
        let fold = Fold { key: self.key, closes: false, memory };
        let (key, earlier) = (self.key, &mut self.earlier);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut are_valid = true;
        let folded = fold.run(logs, &mut |found| match found {
            Left::Results(bytes) => match R::decode_all(bytes) {
                Some(results) => each(results),
                None => are_valid = false,
            },
            Left::Directory(At { root, path }, item) => {
                // A root that was not read to its end is read after it was looked at.
                if !path.is_empty() || item.is_read {
                    earlier.known.insert(item.id);
                }
                if !path.is_empty() && !item.is_read {
                    left.push(Redo { root, path: path.to_vec(), slice: None });
                }
            }
            Left::Slice(At { root, path }, number, names) => {
                let names = names.iter().map(|name| name.to_vec()).collect();
                left.push(Redo { root, path: path.to_vec(), slice: Some((number, names)) });
            }
            Left::Given(at, names) => {
                let directory = key.of_path(at.root, at.path);
                earlier.given.extend(names.iter().map(|name| key.below(directory, name)));
            }
            Left::Complete(id) => {
                earlier.known.insert(id);
            }
            Left::Part(_) | Left::Seen(..) | Left::Failed(..) | Left::Planned(..) | Left::Chunk(..) => {}
        });
        folded.map_err(ResumeError::Logs)?;
        if are_valid { Ok(()) } else { Err(ResumeError::Results) }
    }

    /// Takes up to `most` of what is done again.
    pub(crate) fn take_left(&self, most: usize) -> Vec<Redo> {
        let mut left = lock(&self.left);
        let from = left.len().saturating_sub(most);
        left.split_off(from)
    }

    /// The identity of a directory that is read again.
    pub(crate) fn id(&self, root: u32, path: &[u8]) -> Id {
        self.key.of_path(root, path)
    }

    /// Whether a directory need not be entered from the directory above, or, if it is a root, need not be read.
    pub(crate) fn is_known(&self, id: Id) -> bool {
        self.earlier.known.contains(&id)
    }

    /// Whether a directory that is read again need not be entered from the directory above.
    pub(crate) fn is_known_in(&self, directory: Id, name: &[u8]) -> bool {
        !self.earlier.known.is_empty() && self.is_known(self.key.below(directory, name))
    }

    /// Whether a name of a directory that is read again is in a slice of its own.
    pub(crate) fn is_given(&self, directory: Id, name: &[u8]) -> bool {
        !self.earlier.given.is_empty() && self.earlier.given.contains(&self.key.below(directory, name))
    }

    /// A number for a slice.
    fn number(&self) -> SliceNumber {
        SliceNumber { run: self.run, rank: self.rank, number: self.slices.fetch_add(1, Ordering::Relaxed) }
    }

    /// Waits while the notes of all threads take too much memory: the log is written slowly, or not at all.
    pub(crate) fn wait_for_room(&self, is_stopping: impl Fn() -> bool) {
        while self.bytes.load(Ordering::Relaxed) > NOTED_MOST && !is_stopping() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The notes of a new thread, and the bytes of the notes of all threads.
    fn join(&self) -> (Notes<R>, Arc<AtomicUsize>) {
        let noted = Noted { records: Records::default(), results: R::default() };
        let notes = Arc::new(Mutex::new(noted));
        lock(&self.threads).push(Arc::clone(&notes));
        (notes, Arc::clone(&self.bytes))
    }
}

impl<R: SliceResults> Facts for Journal<R> {
    /// The first frame has the cuts as well.
    fn take(&self) -> Vec<Vec<u8>> {
        // A thread that joins meanwhile waits: what others note may rest on its notes.
        let threads = lock(&self.threads);
        let mut notes: Vec<_> = threads.iter().map(|notes| lock(notes)).collect();
        let mut sections = Vec::from_iter(Some(lock(&self.cuts).take()).filter(|cuts| !cuts.is_empty()));
        self.bytes.store(0, Ordering::Relaxed);
        let mut results = R::default();
        for noted in &mut notes {
            if !noted.records.is_empty() {
                sections.push(noted.records.take());
            }
            if noted.results != R::default() {
                results.add(&std::mem::take(&mut noted.results));
            }
        }
        drop(notes);
        drop(threads);
        if results != R::default() {
            let mut records = Records::default();
            records.add(&Record::Results(&results.encoded()));
            sections.push(records.take());
        }
        sections
    }
}

/// One thread's side of a journal, if the walk has one.
#[derive(Debug)]
pub(crate) struct Noter<S: State> {
    /// Its notes, and the bytes of the notes of all threads.
    notes: Option<(Notes<S::Results>, Arc<AtomicUsize>)>,
    /// Bytes that were not added to those yet.
    unpublished: usize,
    path: CurrentPath<S>,
    stop: Stop,
    /// Something of the current names failed.
    has_failed: bool,
}

impl<S: State> Default for Noter<S> {
    fn default() -> Self {
        let (path, stop) = (CurrentPath::default(), Stop::default());
        Self { notes: None, unpublished: 0, path, stop, has_failed: false }
    }
}

impl<S: State> Noter<S> {
    pub(crate) fn new(journal: Option<&Journal<S::Results>>, stop: &Stop) -> Self {
        Self { notes: journal.map(Journal::join), stop: stop.clone(), ..Self::default() }
    }

    /// Notes that something of the current names failed.
    pub(crate) fn note_failure(&mut self) {
        self.has_failed = true;
    }

    /// Whether something failed since it was taken last.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether something failed since this was asked last.
    pub(crate) fn take_failure(&mut self) -> bool {
        std::mem::take(&mut self.has_failed)
    }

    /// Notes a subdirectory, before its task can run.
    pub(crate) fn found(&mut self, directory: &Arc<Directory<S>>, name: &[u8]) {
        self.note(directory, |noted, at| noted.records.add_fact(at, &Fact::Found { name }));
    }

    /// Notes the names of a slice of a directory that has several. Returns the number of the slice.
    pub(crate) fn listed(
        &mut self,
        journal: &Journal<S::Results>,
        directory: &Arc<Directory<S>>,
        names: &Names,
    ) -> SliceNumber {
        let slice = journal.number();
        let names = names.iter().map(Name::bytes).collect();
        self.note(directory, |noted, at| noted.records.add_fact(at, &Fact::Listed { slice, names }));
        slice
    }

    /// Notes that a slice has ended, and what it comes to, unless names were left out after a stop. None: the directory was read to its end, and
    /// this is what comes of all its names that are in no slice of their own.
    pub(crate) fn done(
        &mut self,
        directory: &Arc<Directory<S>>,
        slice: Option<SliceNumber>,
        results: Option<&S::Results>,
    ) {
        // Asked when the slice has ended: whoever left out a name has seen the stop before.
        if self.stop.is_set() {
            return;
        }
        self.note(directory, |noted, at| {
            noted.records.add_fact(at, &Fact::Done { slice, seen: None });
            if let Some(results) = results {
                noted.results.add(results);
            }
        });
    }

    fn note(&mut self, directory: &Arc<Directory<S>>, add: impl FnOnce(&mut Noted<S::Results>, At<'_>)) {
        let Some((notes, bytes)) = &self.notes else { return };
        self.path.set(directory);
        let at = At { root: directory.root_index(), path: self.path.below_root() };
        let mut noted = lock(notes);
        let before = noted.records.bytes();
        add(&mut noted, at);
        self.unpublished += noted.records.bytes() - before;
        // Threads would wait for each other at a number that all of them change.
        if self.unpublished >= PUBLISHED_LEAST {
            bytes.fetch_add(std::mem::take(&mut self.unpublished), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn notes_of_all_threads_are_taken_at_one_moment() {
        let journal = Journal::<u64>::new(Key::of_job(&[1; 16]), 1, 0);
        let ((first, _), (second, _)) = (journal.join(), journal.join());
        for (notes, results) in [(&first, 3), (&second, 4)] {
            let mut noted = lock(notes);
            noted.records.add_fact(At { root: 0, path: b"" }, &Fact::Closed);
            noted.results = results;
        }
        let sections = std::thread::scope(|scope| {
            let held = lock(&second);
            let taking = scope.spawn(|| journal.take());
            // Only a test that fails waits so long.
            let began = Instant::now();
            while first.try_lock().is_ok() {
                assert!(began.elapsed() < Duration::from_secs(20), "the first thread is not held");
                std::thread::yield_now();
            }
            for _ in 0..1000 {
                assert!(
                    first.try_lock().is_err(),
                    "the first thread may note while the second is waited for"
                );
                std::thread::yield_now();
            }
            drop(held);
            taking.join().unwrap()
        });
        assert_eq!(sections.len(), 3, "a section of each thread, and one for the sum of their results");
        assert!(journal.take().is_empty());
    }
}
