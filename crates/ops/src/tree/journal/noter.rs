//! One thread's side of a journal: what it notes, and whether that may be noted. No I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use atta_ledger::{At, Fact, SliceNumber};
use atta_runtime::{Results as _, Stop};

use super::{Journal, Notes, OfThread, PUBLISHED_LEAST, Waiting, When, lock};
use crate::tree::directory::{Directory, State};
use crate::tree::listing::path::CurrentPath;

/// One thread's side of a journal, if the operation has one.
#[derive(Debug)]
pub(crate) struct Noter<'j, S: State> {
    side: Option<Side<'j, S::Results>>,
    /// Of the directory that the thread works on. Each note sets it to that of its own directory, which is mostly the same.
    pub(crate) path: CurrentPath<S>,
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
    /// Whether the last note waits for a sync.
    noted_held: bool,
}

/// A directory that is noted, and how many bytes of its path are those of the note before, which are not compared again.
#[derive(Clone, Copy)]
struct Near<'a> {
    at: At<'a>,
    same: usize,
}

impl<R> Notes<R> {
    fn add(&mut self, Near { at, same }: Near<'_>, fact: &Fact<'_>) {
        self.records.add_fact_near(at, same, fact);
    }
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
            Side { journal, notes, bytes, unpublished: 0, noted_held: false }
        });
        Self { side, stop: stop.clone(), ..Self::default() }
    }

    /// What this thread has noted as done and that waits.
    pub(crate) fn waiting(&self) -> Waiting<'_, S::Results> {
        Waiting(self.side.as_ref().map(|side| &side.notes))
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

    /// Notes a subdirectory, before its task can run, and its [mark](crate::tree::mark).
    pub(crate) fn found(&mut self, directory: &Arc<Directory<S>>, name: &[u8], mark: u32) {
        self.note(directory, When::Now, |notes, near| notes.add(near, &Fact::Found { name, mark }));
    }

    /// Notes the mark of a directory that is about to be read, other than by the listing that found it.
    pub(crate) fn marked(&mut self, directory: &Arc<Directory<S>>, mark: u32) {
        self.note(directory, When::Now, |notes, near| notes.add(near, &Fact::Marked { mark }));
    }

    /// Notes the names of a slice of a directory that has several. Returns the number of the slice.
    pub(crate) fn listed<'n>(
        &mut self,
        journal: &Journal<S::Results>,
        directory: &Arc<Directory<S>>,
        names: impl Iterator<Item = &'n [u8]>,
    ) -> SliceNumber {
        let slice = journal.number();
        self.listed_as(directory, slice, names);
        slice
    }

    /// Notes the names of a slice that has this number.
    pub(crate) fn listed_as<'n>(
        &mut self,
        directory: &Arc<Directory<S>>,
        slice: SliceNumber,
        names: impl Iterator<Item = &'n [u8]>,
    ) {
        let fact = Fact::Listed { slice, names: names.collect() };
        self.note(directory, When::Now, |notes, near| notes.add(near, &fact));
    }

    /// Whether the end of a slice is noted: not if something of it failed, or names may have been left out after a stop. Asked when it has ended:
    /// whoever left out a name has seen the stop before.
    pub(crate) fn is_whole(&self, results: Option<&S::Results>, has_failed: bool) -> bool {
        !(has_failed || self.stop.is_set() || results.is_some_and(S::has_failed))
    }

    /// Notes that a slice has ended, and what it comes to. None: the directory was read to its end, and this is what comes of all its names that
    /// are in no slice of their own. If the slice is not [whole](Self::is_whole), the directory has failed.
    pub(crate) fn done(
        &mut self,
        directory: &Arc<Directory<S>>,
        slice: Option<SliceNumber>,
        results: Option<&S::Results>,
        is_whole: bool,
    ) {
        if !is_whole {
            return directory.life().note_failure();
        }
        let seen = directory.state().and_then(S::seen);
        self.note(directory, When::WhenSynced, |notes, near| {
            notes.add(near, &Fact::Done { slice, seen });
            if let Some(results) = results {
                notes.results.add(results);
            }
        });
    }

    /// Notes that a directory which an earlier run has found is gone, with slices of it, and what that comes to. No later run looks for it.
    pub(crate) fn gone(
        &mut self,
        directory: &Arc<Directory<S>>,
        slices: &[SliceNumber],
        results: Option<&S::Results>,
    ) {
        self.note(directory, When::Now, |notes, near| {
            if let Some(results) = results {
                notes.results.add(results);
            }
            let slices = slices.iter().copied().map(Some).chain([None]);
            slices.for_each(|slice| notes.add(near, &Fact::Done { slice, seen: None }));
            notes.add(near, &Fact::Closed);
        });
    }

    /// Notes that a directory is complete, and what its closing comes to. Not after a stop.
    pub(crate) fn closed(&mut self, directory: &Arc<Directory<S>>, results: Option<&S::Results>) {
        let closes = self.side.as_ref().is_some_and(|side| side.journal.closes);
        if !closes || self.stop.is_set() || results.is_some_and(S::has_failed) {
            return;
        }
        self.note(directory, When::WhenSynced, |notes, near| {
            notes.add(near, &Fact::Closed);
            if let Some(results) = results {
                notes.results.add(results);
            }
        });
    }

    fn note(
        &mut self,
        directory: &Arc<Directory<S>>,
        when: When,
        add: impl FnOnce(&mut Notes<S::Results>, Near<'_>),
    ) {
        let Some(side) = &mut self.side else { return };
        self.path.set(directory);
        let holds = when == When::WhenSynced && side.journal.holds.load(Ordering::Relaxed);
        let same = self.path.mark();
        let same = if std::mem::replace(&mut side.noted_held, holds) == holds { same } else { 0 };
        let at = At { root: directory.root_index(), path: self.path.below_root() };
        let mut noted = lock(&side.notes);
        let notes = if holds { &mut noted.held } else { &mut noted.now };
        let before = notes.bytes();
        add(notes, Near { at, same });
        side.unpublished += notes.bytes().saturating_sub(before);
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
    use atta_ledger::Key;
    use atta_runtime::Facts as _;

    use super::*;
    use crate::tree::journal::FromLog;

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
            noter.found(&root, b"d", 0);
            noter.done(&directory, None, Some(&2), true);
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
            let resumed = next.resume(&mut logs, 1 << 20, &mut |found| {
                if let FromLog::Results(more) = found {
                    sum += more;
                }
            });
            assert!(resumed.is_ok());
            let left = next.earlier().take_left(9).iter().any(|redo| redo.path == b"d");
            assert_eq!((sum, left), (if counts { 6 } else { 2 }, !counts), "{results} {stops}");
        }
    }
}
