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
//!
//! What a copy has done is on storage only after a sync that began later. So the journal *holds* its notes of what is done ([`Journal::hold`]) until the
//! copy confirms such a sync.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atta_ledger::{At, Fact, Fold, Id, Item, Key, Left, Logs, Record, Records, Seen, SliceNumber};
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
    threads: Mutex<Vec<OfThread<R>>>,
    /// Bytes of the notes of all threads.
    bytes: Arc<AtomicUsize>,
    slices: AtomicU64,
    /// Directories are complete only when they are closed.
    closes: bool,
    /// What is done waits for a sync.
    holds: AtomicBool,
    /// Something waits.
    has_held: AtomicBool,
    /// What was done before a sync that has succeeded.
    confirmed: Mutex<Vec<Held<R>>>,
    /// Notes about large files, of any thread.
    large: OfThread<R>,
    earlier: Earlier,
    left: Mutex<Vec<Redo>>,
    /// Large files that earlier runs have begun, by directory and name.
    begun: Mutex<HashMap<Id, BegunIn>>,
}

/// Large files that earlier runs have begun in a directory.
#[derive(Debug, Default)]
struct BegunIn {
    root: u32,
    path: Vec<u8>,
    files: HashMap<Vec<u8>, BegunFile>,
}

/// A large file that an earlier run has begun.
#[derive(Debug, Default)]
pub(crate) struct BegunFile {
    /// The last plan; empty: none is known.
    pub(crate) plan: Vec<u8>,
    /// Chunks and their values, of any plan.
    pub(crate) chunks: Vec<(u64, Vec<u8>)>,
}

/// A large file that an earlier run has begun, and where it is.
#[derive(Debug)]
pub(crate) struct BegunAt {
    pub(crate) root: u32,
    pub(crate) path: Vec<u8>,
    pub(crate) file: BegunFile,
}

/// What was done before a sync that has begun. Dropping it forgets that: a later run does it again.
#[derive(Debug)]
#[must_use]
pub(crate) struct Held<R> {
    sections: Vec<Vec<u8>>,
    results: R,
}

/// What the logs of earlier runs say.
#[derive(Debug, Default)]
struct Earlier {
    /// Directories that need not be entered from the directory above: they are complete, or a task of their own is.
    known: HashSet<Id>,
    /// Names that are in slices of their own.
    given: HashSet<Id>,
}

/// A directory of which something is done again.
#[derive(Debug)]
pub(crate) struct Redo {
    pub(crate) root: u32,
    /// The directory, below its root.
    pub(crate) path: Vec<u8>,
    /// It was read to its end: only slices are left of it, or its closing.
    pub(crate) is_read: bool,
    /// The operation knows by now that something of it is done again.
    pub(crate) is_known: bool,
    pub(crate) slices: Vec<NumberedNames>,
}

/// A slice and its names.
pub(crate) type NumberedNames = (SliceNumber, Vec<Vec<u8>>);

impl Redo {
    fn of(at: At<'_>) -> Self {
        let At { root, path } = at;
        Self { root, path: path.to_vec(), is_read: true, is_known: false, slices: Vec::new() }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn weigh(&self) -> usize {
        let names = self.slices.iter().flat_map(|(_, names)| names);
        size_of::<Self>()
            + self.path.len()
            + names.map(|name| size_of::<Vec<u8>>() + name.len()).sum::<usize>()
    }

    /// Counts what it looks at.
    pub(crate) fn steps(&self) -> u64 {
        let names: usize = self.slices.iter().map(|(_, names)| names.len()).sum();
        names as u64 + u64::from(!self.is_read)
    }
}

/// What earlier runs have said, as it is read.
#[derive(Debug)]
pub enum Told<'a, R> {
    /// What some slices come to that are done.
    Results(R),
    /// What was seen of a directory that was read to its end. It may come several times, and the last counts.
    Seen(At<'a>, Seen),
}

/// What one thread has noted since it was taken last.
#[derive(Debug, Default)]
struct Noted<R> {
    now: Notes<R>,
    /// What is done and waits for a sync.
    held: Notes<R>,
}

/// Facts and results that belong together.
#[derive(Debug, Default)]
struct Notes<R> {
    records: Records,
    results: R,
}

type OfThread<R> = Arc<Mutex<Noted<R>>>;

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

/// What is done again, by directory.
struct Redone {
    key: Key,
    closes: bool,
    left: Vec<Redo>,
    places: HashMap<Id, usize>,
}

impl Redone {
    fn new(key: Key, closes: bool) -> Self {
        Self { key, closes, left: Vec::new(), places: HashMap::new() }
    }

    fn add(&mut self, at: At<'_>, item: Item) {
        if !item.is_read || self.closes {
            self.of(at).is_read = item.is_read;
        }
    }

    /// What is done again of a directory.
    fn of(&mut self, at: At<'_>) -> &mut Redo {
        let Self { key, left, places, .. } = self;
        let place = *places.entry(key.of_path(at.root, at.path)).or_insert_with(|| {
            left.push(Redo::of(at));
            left.len() - 1
        });
        &mut left[place]
    }
}

impl<R: SliceResults> Notes<R> {
    /// Moves them to the sections and results of a frame.
    fn take_into(&mut self, sections: &mut Vec<Vec<u8>>, results: &mut R) {
        if !self.records.is_empty() {
            sections.push(self.records.take());
        }
        if self.results != R::default() {
            results.add(&std::mem::take(&mut self.results));
        }
    }
}

impl<R: SliceResults> Journal<R> {
    /// The journal of a run, from 1, on a rank. No slice has been numbered by this run and rank.
    #[must_use]
    pub fn new(key: Key, run: u32, rank: u32) -> Self {
        let (earlier, left) = (Earlier::default(), Mutex::default());
        let (cuts, threads) = (Mutex::default(), Mutex::<Vec<_>>::default());
        let (bytes, slices) = (Arc::default(), AtomicU64::new(0));
        let (holds, has_held, confirmed) = (AtomicBool::new(false), AtomicBool::new(false), Mutex::default());
        let large = OfThread::<R>::default();
        lock(&threads).push(Arc::clone(&large));
        Self {
            key,
            run,
            rank,
            cuts,
            threads,
            bytes,
            slices,
            closes: false,
            holds,
            has_held,
            confirmed,
            large,
            earlier,
            left,
            begun: Mutex::default(),
        }
    }

    /// Notes closed directories as well: a directory is complete only when it is closed.
    #[must_use]
    pub fn with_closing(self) -> Self {
        Self { closes: true, ..self }
    }

    /// The number of the run, from 1.
    pub(crate) fn run(&self) -> u32 {
        self.run
    }

    /// Lets what is done wait for a sync from now on: see [`begin_sync`](Self::begin_sync).
    pub(crate) fn hold(&self) {
        self.holds.store(true, Ordering::Relaxed);
    }

    /// Whether what is done waits for a sync.
    pub(crate) fn is_holding(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// Whether something waits for a sync.
    pub(crate) fn has_held(&self) -> bool {
        self.has_held.load(Ordering::Relaxed)
    }

    /// Takes what is done so far, before a sync.
    pub(crate) fn begin_sync(&self) -> Held<R> {
        self.has_held.store(false, Ordering::Relaxed);
        let mut held = Held { sections: Vec::new(), results: R::default() };
        for notes in &*lock(&self.threads) {
            lock(notes).held.take_into(&mut held.sections, &mut held.results);
        }
        held
    }

    /// Notes that the sync has succeeded.
    pub(crate) fn confirm(&self, held: Held<R>) {
        if !held.sections.is_empty() {
            lock(&self.confirmed).push(held);
        }
    }

    /// Says what counts of the logs of earlier runs ([`JobLogs::cuts`](atta_ledger::JobLogs::cuts)). The first [`take`](Facts::take) returns
    /// it. So one comes before the walk: without it, the logs of this run are refused.
    #[must_use]
    pub fn with_cuts(self, cuts: impl Iterator<Item = Record<'static>>) -> Self {
        cuts.for_each(|cut| lock(&self.cuts).add(&cut));
        self
    }

    /// Takes over what the logs of earlier runs say. `told` gets what else they say, in shares. `memory`: an aim, in bytes.
    ///
    /// # Errors
    /// The logs cannot be read, or are not those of this operation.
    pub fn resume<L: Logs>(
        &mut self,
        logs: &mut L,
        memory: usize,
        told: &mut dyn FnMut(Told<'_, R>),
    ) -> Result<(), ResumeError<L::Error>> {
        let fold = Fold { key: self.key, closes: self.closes, memory };
        let (key, earlier) = (self.key, &mut self.earlier);
        let begun = self.begun.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut begun_in = |at: At<'_>, name: &[u8], add: &mut dyn FnMut(&mut BegunFile)| {
            let directory = begun.entry(key.of_path(at.root, at.path)).or_insert_with(|| {
                let (root, path) = (at.root, at.path.to_vec());
                BegunIn { root, path, files: HashMap::new() }
            });
            add(directory.files.entry(name.to_vec()).or_default());
        };
        let mut redone = Redone::new(key, self.closes);
        let mut are_valid = true;
        let folded = fold.run(logs, &mut |found| match found {
            Left::Results(bytes) => match R::decode_all(bytes) {
                Some(results) => told(Told::Results(results)),
                None => are_valid = false,
            },
            Left::Directory(at, item) => {
                // A root that was not read to its end is read after it was looked at.
                if !at.path.is_empty() || item.is_read {
                    earlier.known.insert(item.id);
                    redone.add(at, item);
                }
            }
            Left::Slice(at, number, names) => {
                let names = names.iter().map(|name| name.to_vec()).collect();
                redone.of(at).slices.push((number, names));
            }
            Left::Given(at, names) => {
                let directory = key.of_path(at.root, at.path);
                earlier.given.extend(names.iter().map(|name| key.below(directory, name)));
            }
            Left::Complete(id) => {
                earlier.known.insert(id);
            }
            Left::Seen(at, seen) => told(Told::Seen(at, seen)),
            Left::Planned(at, name, plan) => begun_in(at, name, &mut |file| file.plan = plan.to_vec()),
            Left::Chunk(at, name, index, value) => {
                begun_in(at, name, &mut |file| file.chunks.push((index, value.to_vec())));
            }
            Left::Part(_) | Left::Failed(..) => {}
        });
        folded.map_err(ResumeError::Logs)?;
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = redone.left;
        if are_valid { Ok(()) } else { Err(ResumeError::Results) }
    }

    /// Takes up to `most` of what is done again.
    pub(crate) fn take_left(&self, most: usize) -> Vec<Redo> {
        let mut left = lock(&self.left);
        let from = left.len().saturating_sub(most);
        left.split_off(from)
    }

    /// Notes a large file that is begun: what a later run needs to go on with it.
    pub(crate) fn note_planned(&self, at: At<'_>, name: &[u8], plan: &[u8]) {
        lock(&self.large).now.records.add_fact(at, &Fact::Planned { name, plan });
    }

    /// Notes a chunk of a large file that is done, and its value.
    pub(crate) fn note_chunk(&self, at: At<'_>, name: &[u8], (index, value): (u64, &[u8])) {
        let holds = self.holds.load(Ordering::Relaxed);
        let mut noted = lock(&self.large);
        let notes = if holds { &mut noted.held } else { &mut noted.now };
        notes.records.add_fact(at, &Fact::Chunk { name, index, value });
        self.has_held.fetch_or(holds, Ordering::Relaxed);
    }

    /// Takes a large file that earlier runs have begun.
    pub(crate) fn take_begun(&self, at: At<'_>, name: &[u8]) -> Option<BegunFile> {
        let mut begun = lock(&self.begun);
        if begun.is_empty() {
            return None;
        }
        begun.get_mut(&self.key.of_path(at.root, at.path))?.files.remove(name)
    }

    /// Takes all large files that earlier runs have begun and that were not taken.
    pub(crate) fn take_all_begun(&self) -> Vec<BegunAt> {
        let begun = std::mem::take(&mut *lock(&self.begun));
        let each = |BegunIn { root, path, files }| {
            files.into_values().map(move |file| BegunAt { root, path: path.clone(), file })
        };
        begun.into_values().flat_map(each).collect()
    }

    /// The plans of large files that earlier runs have begun in a directory.
    pub(crate) fn plans_in(&self, directory: Id) -> Vec<Vec<u8>> {
        let begun = lock(&self.begun);
        let files = begun.get(&directory).map(|directory| directory.files.values());
        files.into_iter().flatten().map(|file| file.plan.clone()).collect()
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
    fn join(&self) -> (OfThread<R>, Arc<AtomicUsize>) {
        let notes = OfThread::<R>::default();
        lock(&self.threads).push(Arc::clone(&notes));
        (notes, Arc::clone(&self.bytes))
    }
}

impl<R: SliceResults> Facts for Journal<R> {
    /// The first frame has the cuts as well.
    fn take(&self) -> Vec<Vec<u8>> {
        // Before the other notes: what is confirmed rests on what was noted before.
        let confirmed = std::mem::take(&mut *lock(&self.confirmed));
        // A thread that joins meanwhile waits: what others note may rest on its notes.
        let threads = lock(&self.threads);
        let mut notes: Vec<_> = threads.iter().map(|notes| lock(notes)).collect();
        let mut sections = Vec::from_iter(Some(lock(&self.cuts).take()).filter(|cuts| !cuts.is_empty()));
        self.bytes.store(0, Ordering::Relaxed);
        let mut results = R::default();
        for noted in &mut notes {
            noted.now.take_into(&mut sections, &mut results);
        }
        drop(notes);
        drop(threads);
        for held in confirmed {
            sections.extend(held.sections);
            results.add(&held.results);
        }
        if results != R::default() {
            let mut records = Records::default();
            records.add(&Record::Results(&results.encoded()));
            sections.push(records.take());
        }
        sections
    }
}

/// One thread's side of a journal, if the operation has one.
#[derive(Debug)]
pub(crate) struct Noter<'j, S: State> {
    side: Option<Side<'j, S::Results>>,
    path: CurrentPath<S>,
    stop: Stop,
    /// Something of the current names failed.
    has_failed: bool,
}

/// The notes of a thread.
#[derive(Debug)]
struct Side<'j, R> {
    journal: &'j Journal<R>,
    notes: OfThread<R>,
    /// Bytes of the notes of all threads.
    bytes: Arc<AtomicUsize>,
    /// Bytes that were not added to those yet.
    unpublished: usize,
}

/// Whether a note may wait for a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Now,
    WhenSynced,
}

impl<S: State> Default for Noter<'_, S> {
    fn default() -> Self {
        Self { side: None, path: CurrentPath::default(), stop: Stop::default(), has_failed: false }
    }
}

impl<'j, S: State> Noter<'j, S> {
    pub(crate) fn new(journal: Option<&'j Journal<S::Results>>, stop: &Stop) -> Self {
        let side = journal.map(|journal| {
            let (notes, bytes) = journal.join();
            Side { journal, notes, bytes, unpublished: 0 }
        });
        Self { side, stop: stop.clone(), ..Self::default() }
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
        self.note(directory, When::Now, |notes, at| notes.records.add_fact(at, &Fact::Found { name }));
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
        let fact = Fact::Listed { slice, names };
        self.note(directory, When::Now, |notes, at| notes.records.add_fact(at, &fact));
        slice
    }

    /// Notes that a slice has ended, and what it comes to. None: the directory was read to its end, and this is what comes of all its names that
    /// are in no slice of their own. Not if something of it failed, or names were left out after a stop: then the directory has failed.
    pub(crate) fn done(
        &mut self,
        directory: &Arc<Directory<S>>,
        slice: Option<SliceNumber>,
        results: Option<&S::Results>,
        has_failed: bool,
    ) {
        // Asked when the slice has ended: whoever left out a name has seen the stop before.
        if has_failed || self.stop.is_set() || results.is_some_and(S::has_failed) {
            return directory.life().note_failure();
        }
        let seen = directory.state().and_then(S::seen);
        self.note(directory, When::WhenSynced, |notes, at| {
            notes.records.add_fact(at, &Fact::Done { slice, seen });
            if let Some(results) = results {
                notes.results.add(results);
            }
        });
    }

    /// Notes that a directory which an earlier run has found is gone, with slices of it. No later run looks for it.
    pub(crate) fn gone(&mut self, directory: &Arc<Directory<S>>, slices: &[SliceNumber]) {
        self.note(directory, When::Now, |notes, at| {
            let slices = slices.iter().copied().map(Some).chain([None]);
            slices.for_each(|slice| notes.records.add_fact(at, &Fact::Done { slice, seen: None }));
            notes.records.add_fact(at, &Fact::Closed);
        });
    }

    /// Notes that a directory is complete, and what its closing comes to. Not after a stop.
    pub(crate) fn closed(&mut self, directory: &Arc<Directory<S>>, results: Option<&S::Results>) {
        let closes = self.side.as_ref().is_some_and(|side| side.journal.closes);
        if !closes || self.stop.is_set() || results.is_some_and(S::has_failed) {
            return;
        }
        self.note(directory, When::WhenSynced, |notes, at| {
            notes.records.add_fact(at, &Fact::Closed);
            if let Some(results) = results {
                notes.results.add(results);
            }
        });
    }

    fn note(
        &mut self,
        directory: &Arc<Directory<S>>,
        when: When,
        add: impl FnOnce(&mut Notes<S::Results>, At<'_>),
    ) {
        let Some(side) = &mut self.side else { return };
        self.path.set(directory);
        let at = At { root: directory.root_index(), path: self.path.below_root() };
        let holds = when == When::WhenSynced && side.journal.holds.load(Ordering::Relaxed);
        let mut noted = lock(&side.notes);
        let notes = if holds { &mut noted.held } else { &mut noted.now };
        let before = notes.records.bytes();
        add(notes, at);
        side.unpublished += notes.records.bytes() - before;
        if holds {
            side.journal.has_held.store(true, Ordering::Relaxed);
        }
        drop(noted);
        // Threads would wait for each other at a number that all of them change.
        if side.unpublished >= PUBLISHED_LEAST {
            side.bytes.fetch_add(std::mem::take(&mut side.unpublished), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Results that failed if they are odd.
    #[derive(Debug)]
    struct Odd;

    impl State for Odd {
        type Results = u64;

        fn has_failed(results: &u64) -> bool {
            !results.is_multiple_of(2)
        }
    }

    #[test]
    fn closing_counts_unless_it_failed_or_was_stopped() {
        let opened: Arc<rustix::fd::OwnedFd> = Arc::new(std::fs::File::open("/").unwrap().into());
        for (results, stops, counts) in [(4, false, true), (5, false, false), (4, true, false)] {
            let (key, stop) = (Key::of_job(&[1; 16]), Stop::default());
            let journal = Journal::<u64>::new(key, 1, 0).with_closing();
            let mut noter = Noter::<Odd>::new(Some(&journal), &stop);
            let place = atta_sys::Place { device: 1, inode: 1, mount: 1 };
            let root = Directory::<Odd>::root(c"r".into(), 0, Arc::clone(&opened), place);
            let directory = Arc::new(Directory::below(&root, c"d", None));
            noter.found(&root, b"d");
            noter.done(&directory, None, Some(&2), false);
            if stops {
                stop.set();
            }
            noter.closed(&directory, Some(&results));
            let name = atta_ledger::LogName { run: 1, rank: 0, part: 0 };
            let head = atta_ledger::Frame { offset: 0, sequence: 0, synced: 0 };
            let log = atta_ledger::frame(&key, name, head, &journal.take()).unwrap();
            let mut logs = atta_ledger::JobLogs::find(&key, vec![(name, log.as_slice())]).unwrap();
            let mut next = Journal::<u64>::new(key, 2, 0).with_closing();
            let mut sum = 0;
            let resumed = next.resume(&mut logs, 1 << 20, &mut |told| {
                if let Told::Results(more) = told {
                    sum += more;
                }
            });
            assert!(resumed.is_ok());
            let left = next.take_left(9).iter().any(|redo| redo.path == b"d");
            assert_eq!((sum, left), (if counts { 6 } else { 2 }, !counts), "{results} {stops}");
        }
    }

    #[test]
    fn notes_of_all_threads_are_taken_at_one_moment() {
        let journal = Journal::<u64>::new(Key::of_job(&[1; 16]), 1, 0);
        let ((first, _), (second, _)) = (journal.join(), journal.join());
        for (notes, results) in [(&first, 3), (&second, 4)] {
            let mut noted = lock(notes);
            noted.now.records.add_fact(At { root: 0, path: b"" }, &Fact::Closed);
            noted.now.results = results;
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
