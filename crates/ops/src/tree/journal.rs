//! What the threads of a walk or copy note for the log of its job (`atta-ledger`): which directories they found, which slices are done, and what
//! these come to. `journal/earlier.rs` has what the logs of earlier runs leave to do, `journal/noter.rs` the side of one thread. No I/O.
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
//! copy confirms such a sync. The rows of a catalog are on storage only when the part that has them is: each thread takes what it has noted with its
//! part ([`Waiting`]), and confirms that later.

pub(crate) mod earlier;
pub(crate) mod noter;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atta_ledger::{
    At, Fact, Fold, JobLogs, Key, LogBytes, Logs, Record, Records, Refused, SliceNumber, Void,
};
use atta_runtime::Facts;

use crate::tree::directory::{Directory, SliceResults, State};
use crate::tree::listing::names::{Name, Names};
use crate::underway::Underway;
use earlier::Earlier;
pub use earlier::{FromLog, Gone, ResumeError};

/// Bytes of notes of all threads beyond which no directory is read on. A frame has room for four times as much.
const NOTED_MOST: usize = 64 << 20;
/// See [`Journal::with_bytes_of_own_slices`]. A slice has 40 bytes in the log beside its names.
const OWN_SLICE_BYTES: u64 = 64 << 20;
/// Bytes of what is confirmed that one frame gets, unless one of it has more.
const CONFIRMED_MOST: usize = 64 << 20;
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
    /// Names that were looked up together and have so many bytes are slices of their own.
    own_slices: u64,
    /// What is done waits for a sync.
    holds: AtomicBool,
    /// Something waits.
    has_held: AtomicBool,
    /// What was done before a sync that has succeeded.
    confirmed: Mutex<VecDeque<Held<R>>>,
    /// Notes of any thread: about large files, and names that leave for another rank.
    shared: OfThread<R>,
    earlier: Earlier,
    /// What threads are at, in a launch in which a rank has died.
    underway: Option<Underway>,
}

/// What was done before a sync that has begun. Dropping it forgets that: a later run does it again.
#[derive(Debug)]
#[must_use]
pub struct Held<R> {
    sections: Vec<Vec<u8>>,
    of: PhantomData<fn() -> R>,
}

impl<R: SliceResults> Held<R> {
    fn none() -> Self {
        Self { sections: Vec::new(), of: PhantomData }
    }

    fn add_results(&mut self, results: &R) {
        if !results.is_empty() {
            let mut records = Records::default();
            records.add(&Record::Results(&results.encoded()));
            self.sections.push(records.take());
        }
    }

    fn bytes(&self) -> usize {
        self.sections.iter().map(Vec::len).sum()
    }

    /// With what a later run needs to keep a part of a catalog, which has the rows of these slices.
    pub fn with_part(mut self, part: &[u8]) -> Self {
        let mut records = Records::default();
        records.add(&Record::Part(part));
        self.sections.push(records.take());
        self
    }
}

/// What one thread has noted as done and that waits ([`Journal::holding`]).
#[derive(Debug)]
pub struct Waiting<'n, R>(Option<&'n OfThread<R>>);

impl<R: SliceResults> Waiting<'_, R> {
    /// Takes it.
    pub fn take(self) -> Held<R> {
        let (mut held, mut results) = (Held::none(), R::default());
        if let Some(notes) = self.0 {
            lock(notes).held.take_into(&mut held.sections, &mut results);
        }
        held.add_results(&results);
        held
    }
}

/// What one thread has noted since it was taken last.
#[derive(Debug, Default)]
struct Noted<R> {
    now: Notes<R>,
    /// What is done and waits for a sync.
    held: Notes<R>,
}

/// Whether a note waits for a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    WhenSynced,
}

/// Facts and results that belong together.
#[derive(Debug, Default)]
struct Notes<R> {
    records: Records,
    results: R,
}

type OfThread<R> = Arc<Mutex<Noted<R>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: SliceResults> Notes<R> {
    /// Bytes that they take in the log, without the counts of results.
    fn bytes(&self) -> usize {
        self.records.bytes() + self.results.bytes()
    }

    /// Moves them to the sections and results of a frame.
    fn take_into(&mut self, sections: &mut Vec<Vec<u8>>, results: &mut R) {
        if !self.records.is_empty() {
            sections.push(self.records.take());
        }
        if !self.results.is_empty() {
            results.add(&std::mem::take(&mut self.results));
        }
    }
}

impl<R: SliceResults> Journal<R> {
    /// The journal of a run, from 1, on a rank. No slice has been numbered by this run and rank.
    #[must_use]
    pub fn new(key: Key, run: u32, rank: u32) -> Self {
        let (cuts, threads) = (Mutex::default(), Mutex::<Vec<_>>::default());
        let (bytes, slices) = (Arc::default(), AtomicU64::new(0));
        let (holds, has_held, confirmed) = (AtomicBool::new(false), AtomicBool::new(false), Mutex::default());
        let shared = OfThread::<R>::default();
        lock(&threads).push(Arc::clone(&shared));
        Self {
            key,
            run,
            rank,
            cuts,
            threads,
            bytes,
            slices,
            closes: false,
            own_slices: OWN_SLICE_BYTES,
            holds,
            has_held,
            confirmed,
            shared,
            earlier: Earlier::new(key),
            underway: None,
        }
    }

    /// Notes closed directories as well: a directory is complete only when it is closed.
    #[must_use]
    pub fn with_closing(self) -> Self {
        Self { closes: true, ..self }
    }

    /// Names that were looked up together, whose files have this many bytes or more, are slices of their own, if the operation reads files. For tests.
    #[must_use]
    pub fn with_bytes_of_own_slices(self, bytes: u64) -> Self {
        Self { own_slices: bytes, ..self }
    }

    /// See [`with_bytes_of_own_slices`](Self::with_bytes_of_own_slices).
    pub(crate) fn bytes_of_own_slices(&self) -> u64 {
        self.own_slices
    }

    /// Lets what is done wait until the operation confirms it.
    #[must_use]
    pub fn holding(self) -> Self {
        self.hold();
        self
    }

    /// Lets threads note what they are at.
    #[must_use]
    pub fn with_underway(self, underway: Option<Underway>) -> Self {
        Self { underway, ..self }
    }

    pub(crate) fn underway(&self) -> Option<&Underway> {
        self.underway.as_ref()
    }

    /// The key of the job.
    pub(crate) fn key(&self) -> &Key {
        &self.key
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
        let (mut held, mut results) = (Held::none(), R::default());
        for notes in &*lock(&self.threads) {
            lock(notes).held.take_into(&mut held.sections, &mut results);
        }
        held.add_results(&results);
        held
    }

    /// Notes that it is on storage.
    pub fn confirm(&self, held: Held<R>) {
        if !held.sections.is_empty() {
            lock(&self.confirmed).push_back(held);
        }
    }

    /// Says what counts of the logs of earlier runs ([`JobLogs::cuts`](atta_ledger::JobLogs::cuts)). The first [`take`](Facts::take) returns
    /// it. So one comes before the walk: without it, the logs of this run are refused.
    #[must_use]
    pub fn with_cuts(self, cuts: impl Iterator<Item = Record<'static>>) -> Self {
        cuts.for_each(|cut| lock(&self.cuts).add(&cut));
        self
    }

    /// Takes over what the logs of earlier runs say. `each` gets what of that is not the journal's. `memory`: an aim, in bytes.
    ///
    /// # Errors
    /// The logs cannot be read, or are not those of this operation.
    pub fn resume<L: Logs>(
        &mut self,
        logs: &mut L,
        memory: usize,
        each: &mut dyn FnMut(FromLog<'_, R>),
    ) -> Result<(), ResumeError<L::Error>> {
        let fold = Fold { key: self.key, closes: self.closes, memory };
        self.earlier.read(&fold, logs, each)
    }

    /// What earlier runs have done in directories that are gone does not count: this run does it again. It comes before
    /// [`resume`](Self::resume) and before the cuts are taken. Returns whether everything is done
    /// again.
    ///
    /// # Errors
    /// The logs cannot be read.
    pub fn void<L: LogBytes>(
        &self,
        logs: &mut JobLogs<'_, L>,
        gone: &Gone,
    ) -> Result<bool, Refused<L::Error>> {
        let void = match gone {
            Gone::Some(places) => {
                let ids = places.iter().map(|(root, path)| self.key.of_path(*root, path));
                Void::of(&self.key, logs, &ids.collect())?
            }
            Gone::Many => Void::All,
        };
        let is_all = void == Void::All;
        logs.void(self.run, void);
        Ok(is_all)
    }

    /// What the logs of earlier runs say.
    pub(crate) fn earlier(&self) -> &Earlier {
        &self.earlier
    }

    /// Notes a large file that is begun: what a later run needs to go on with it.
    pub(crate) fn note_planned(&self, at: At<'_>, name: &[u8], plan: &[u8]) {
        lock(&self.shared).now.records.add_fact(at, &Fact::Planned { name, plan });
    }

    /// Notes results that belong to no slice.
    pub(crate) fn note_results(&self, results: &R) {
        lock(&self.shared).now.results.add(results);
    }

    /// Notes names that leave for another rank, as a slice of their own. Returns its number.
    pub(crate) fn note_leaving<'n>(&self, at: At<'_>, names: impl Iterator<Item = &'n [u8]>) -> SliceNumber {
        let slice = self.number();
        let fact = Fact::Listed { slice, names: names.collect() };
        let mut noted = lock(&self.shared);
        let before = noted.now.bytes();
        noted.now.records.add_fact(at, &fact);
        self.bytes.fetch_add(noted.now.bytes() - before, Ordering::Relaxed);
        slice
    }

    /// Whether another rank of so many may give a slice this number.
    pub(crate) fn may_be_given(&self, slice: SliceNumber, ranks: u32) -> bool {
        slice.run < self.run || slice.run == self.run && slice.rank < ranks
    }

    /// Whether another rank of this run has listed a slice.
    pub(crate) fn is_of_another(&self, slice: SliceNumber) -> bool {
        slice.run == self.run && slice.rank != self.rank
    }

    /// Whether names of a directory may leave for another rank: not if earlier runs have done something of one of them, which only this rank knows.
    pub(crate) fn may_leave<S: State>(&self, directory: &Directory<S>, names: &Names) -> bool {
        let again = directory.again().filter(|_| self.run > 1);
        again.is_none_or(|again| !self.earlier.knows_any(again, names.iter().map(Name::bytes)))
    }

    /// When what this rank has done is to be noted.
    pub(crate) fn when_done(&self) -> When {
        if self.holds.load(Ordering::Relaxed) { When::WhenSynced } else { When::Now }
    }

    /// Notes a chunk of a large file that is done, and its value. Returns `when`.
    pub(crate) fn note_chunk(
        &self,
        at: At<'_>,
        name: &[u8],
        (index, value): (u64, &[u8]),
        when: When,
    ) -> When {
        let holds = when == When::WhenSynced;
        let mut noted = lock(&self.shared);
        let notes = if holds { &mut noted.held } else { &mut noted.now };
        notes.records.add_fact(at, &Fact::Chunk { name, index, value });
        self.has_held.fetch_or(holds, Ordering::Relaxed);
        when
    }

    /// Takes what is confirmed, as far as a frame has room for it beside other notes.
    fn take_confirmed(&self) -> Vec<Vec<u8>> {
        let mut confirmed = lock(&self.confirmed);
        let (mut sections, mut bytes) = (Vec::new(), 0);
        while let Some(held) =
            confirmed.pop_front_if(|held| bytes == 0 || bytes + held.bytes() <= CONFIRMED_MOST)
        {
            bytes += held.bytes();
            sections.extend(held.sections);
        }
        sections
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
    /// The first frame has the cuts as well. Of what is confirmed it has what fits; the rest is taken the next time.
    fn take(&self) -> Vec<Vec<u8>> {
        // Before the other notes: what is confirmed rests on what was noted before.
        let confirmed = self.take_confirmed();
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
        sections.extend(confirmed);
        if !results.is_empty() {
            let mut records = Records::default();
            records.add(&Record::Results(&results.encoded()));
            sections.push(records.take());
        }
        sections
    }

    fn has_more(&self) -> bool {
        !lock(&self.confirmed).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use atta_ledger::{Frame, LogName, frame};

    use super::*;

    #[test]
    fn confirmed_notes_are_taken_frame_by_frame() {
        let key = Key::of_job(&[1; 16]);
        let journal = Journal::<u64>::new(key, 1, 0).holding();
        let (notes, _) = journal.join();
        for number in 1..=3 {
            lock(&notes).held.results = number;
            let held = Waiting(Some(&notes)).take().with_part(&vec![7; CONFIRMED_MOST / 2 - 100]);
            journal.confirm(held);
        }
        let (mut log, mut frames, mut sum) = (Vec::new(), 0, 0);
        loop {
            let head = Frame { offset: log.len() as u64, sequence: frames, synced: 0 };
            let name = LogName { run: 1, rank: 0, part: 0 };
            log.extend(frame(&key, name, head, &journal.take()).unwrap());
            frames += 1;
            if !journal.has_more() {
                break;
            }
        }
        let mut logs =
            JobLogs::find(&key, vec![(LogName { run: 1, rank: 0, part: 0 }, log.as_slice())]).unwrap();
        let mut next = Journal::<u64>::new(key, 2, 0);
        let mut parts = 0;
        let read = next.resume(&mut logs, 1 << 20, &mut |found| match found {
            FromLog::Results(more) => sum += more,
            FromLog::Part(_) => parts += 1,
            FromLog::Seen(..) | FromLog::Marked(..) | FromLog::Names(..) => {}
        });
        assert!(read.is_ok());
        assert_eq!((frames, sum, parts), (2, 6, 3));
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
