//! The life of a directory: what happens when the last of its open slices and children ends. `units.rs` counts them. It does no I/O and
//! calls operations only through their hooks.
//!
//! ```text
//!   own    one unit for the thread that reads its names, one for each slice that has not ended (slice.rs)
//!   below  one unit for `own`, one for each child that is not closed
//!
//!   Enter ─▶ found ─▶ names are read, slices end ─▶ own at 0: done ─▶ children are closed ─▶ below at 0: closed ─▶ a unit of its parent
//! ```
//!
//! Only the holder of a unit adds one, so a count that has reached zero stays zero, and only one thread sees it reach zero. Encoded tasks
//! keep their units: those in the spill file get them back, those on other ranks are paid for (`debts.rs`). A directory that another rank sent
//! counts only this rank's work in it: it pays and is neither done nor closed here. A directory on the way to a listed name ends with that name.
//!
//! The results of a slice are gathered by the threads that work on it, and are handed over when it ends ([`Closer::results`]).

use std::sync::Arc;

use crate::tree::directory::{Directory, State};
use crate::tree::journal::noter::Noter;
use crate::tree::operation::{DirectoryOf, Handler, ResultsOf, Stage, Tasks};
use crate::tree::slice::{CurrentSlice, OpenSlices, Part, Slice, hand_over};

/// Ends slices and directories, on one thread.
pub(crate) struct Closer<'t, 'j, H: Handler> {
    pub(crate) handler: &'t H,
    pub(crate) worker: &'t mut H::Worker,
    pub(crate) tasks: &'t mut Tasks<H::State>,
    /// The sum of the results of slices that have ended on this thread.
    pub(crate) results: &'t mut ResultsOf<H>,
    pub(crate) open: &'t OpenSlices<H::State>,
    pub(crate) noter: &'t mut Noter<'j, H::State>,
}

impl<H: Handler> Closer<'_, '_, H> {
    /// Ends a part of a slice, then the slice and directories that end with it.
    pub(crate) fn end_part(&mut self, part: &Part<H::State>) {
        let slice = part.slice();
        if part.holds_names() {
            if !slice.names.release() {
                return;
            }
            self.handler.looked(self.worker, &CurrentSlice::of_part(part));
            self.gather(slice);
        }
        if slice.parts.release() {
            self.end_slice(slice);
        }
    }

    /// Ends the names that this thread has looked at, then the slice and directories that end with them.
    pub(crate) fn end_names(&mut self, at: &CurrentSlice<'_, H::State>) {
        // Before the release: then another thread may end the slice at any time.
        at.shared().into_iter().for_each(|slice| self.gather(slice));
        if !at.release_names() {
            return;
        }
        self.handler.looked(self.worker, at);
        at.shared().into_iter().for_each(|slice| self.gather(slice));
        if !at.release_part_of_names() {
            return;
        }
        match at.shared() {
            Some(slice) => self.end_slice(slice),
            None => {
                let has_failed = self.noter.take_failure();
                self.handler.noting(at.directory());
                let is_whole = self.noter.is_whole(self.handler.results(self.worker).as_deref(), has_failed);
                self.handler.slice_ended(self.worker, None, is_whole);
                let results = self.handler.results(self.worker);
                self.noter.done(at.directory(), at.number(), results.as_deref(), is_whole);
                self.end_rest();
                self.release_slice(at.directory());
            }
        }
    }

    /// Hands over what the thread has gathered and what belongs to no slice, such as the failure of a directory that was closed.
    pub(crate) fn end_rest(&mut self) {
        self.handler.slice_ended(self.worker, None, false);
        if let Some(results) = self.handler.results(self.worker) {
            H::State::forget_logged(results);
            hand_over(results, self.results);
        }
    }

    /// Moves what the thread has gathered to a slice. The thread holds a unit of it.
    pub(crate) fn gather(&mut self, slice: &Arc<Slice<H::State>>) {
        if self.noter.take_failure() {
            slice.note_failure();
        }
        self.handler.sharing(self.worker);
        if let Some(results) = self.handler.results(self.worker) {
            slice.note_open(self.open);
            slice.gather(results);
        }
    }

    /// Hands the results of a slice over, since nothing is left of it.
    fn end_slice(&mut self, slice: &Arc<Slice<H::State>>) {
        slice.note_end(self.open);
        let mut results = slice.take_results();
        self.handler.noting(slice.directory());
        let is_whole = self.noter.is_whole(results.as_deref(), slice.has_failed());
        if let Some(results) = &mut results {
            self.handler.slice_ended(self.worker, Some(results), is_whole);
        }
        if !slice.has_left() {
            self.noter.done(slice.directory(), slice.number(), results.as_deref(), is_whole);
        }
        if let Some(mut results) = results {
            H::State::forget_logged(&mut results);
            hand_over(&mut *results, self.results);
        }
        self.release_slice(slice.directory());
    }

    /// Ends the work of the thread that has made a directory for slices of it.
    pub(crate) fn end_reading(&mut self, directory: &Arc<DirectoryOf<H>>) {
        self.release_slice(directory);
    }

    /// Releases the unit of a slice, or of the thread that has read the last name.
    fn release_slice(&mut self, directory: &Arc<DirectoryOf<H>>) {
        if H::STAGE < Stage::Done || !directory.life().release_own() {
            return;
        }
        let life = directory.life();
        if life.is_found() {
            self.handler.done(self.worker, directory, self.tasks);
        }
        let payments =
            life.owed().map(|owed| owed.pay_slices(life.has_failed(), || self.handler.report(directory)));
        self.tasks.payments.extend(payments.unwrap_or_default());
        if H::STAGE >= Stage::Closed {
            self.end_child(directory);
        }
    }

    /// Releases a unit of `below`, and goes on with the directory above if it was the last. A loop, as a chain may have 10^5 levels.
    pub(crate) fn end_child(&mut self, directory: &Arc<DirectoryOf<H>>) {
        let mut next = Some(directory);
        while let Some(directory) = next.filter(|directory| directory.life().release_below()) {
            self.handler.closed(self.worker, directory);
            self.note_closed(directory);
            // Also if that was not noted.
            self.end_rest();
            let (owed, has_failed) = (directory.life().owed(), directory.life().has_failed());
            let payment =
                owed.and_then(|owed| owed.pay_children(has_failed, || self.handler.report(directory)));
            self.tasks.payments.extend(payment);
            next = directory.parent().filter(|_| !directory.life().is_sent());
            if let (Some(parent), true) = (next, has_failed) {
                parent.life().note_failure();
            }
        }
    }
}

impl<H: Handler> Closer<'_, '_, H> {
    /// Notes for the log of the job that a directory is complete, unless something of it failed, or is left to do.
    fn note_closed(&mut self, directory: &Arc<DirectoryOf<H>>) {
        let life = directory.life();
        if life.is_found() && !life.has_failed() && directory.state().is_none_or(State::is_final) {
            self.handler.noting(directory);
            // What its slices come to was taken before.
            let results = self.handler.results(self.worker);
            self.noter.closed(directory, results.as_deref());
        }
    }
}

/// Releases the creator's units of a directory made for tasks that hold their own. A directory without tasks never ends.
pub(crate) fn release_maker<S: State>(directory: &Directory<S>) {
    if directory.life().release_own() {
        directory.life().release_below();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::ffi::CString;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use atta_entry::{Entry, Failure};
    use atta_runtime::{Counter, Results};
    use atta_sys::Place;

    use super::*;
    use crate::tree::directory::{self, Stateless};
    use crate::tree::operation::Cx;
    use crate::tree::slice::{self, Extent, OpenSlices};

    /// Events of a directory, in this order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        /// A batch of names was looked at.
        Shown,
        Looked,
        Done,
        Closed,
    }

    type State = Stateless<Marks>;
    type Directory = directory::Directory<State>;
    type Slice = slice::Slice<State>;
    type Part = slice::Part<State>;
    type CurrentSlice<'a> = slice::CurrentSlice<'a, State>;

    /// Results: the number of its slice for each batch of names that was looked at, and for each part that ended.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Marks {
        slices: Vec<u64>,
    }

    atta_entry::record!(Marks { slices });

    impl Results for Marks {
        fn add(&mut self, other: &Self) {
            self.slices.extend(&other.slices);
        }

        fn show(&self, _show: &mut dyn FnMut(Counter)) {}
    }

    /// A random tree that grows while threads process it.
    #[derive(Default)]
    struct Growing {
        work: Mutex<Vec<Work>>,
        seen: Mutex<HashMap<Vec<u8>, Vec<Event>>>,
        open: OpenSlices<State>,
        /// How many marks each slice gets.
        marks: Mutex<HashMap<u64, usize>>,
        /// What was handed over together.
        handed_over: Mutex<Vec<Vec<u64>>>,
        /// So many names were made: two of one directory are never the same.
        names: AtomicU64,
    }

    /// Work, and the number of its slice.
    enum Work {
        Enter(Arc<Directory>, CString),
        ReadOn(Arc<Directory>),
        Look(Arc<Slice>, u64),
        End(Part, u64),
    }

    /// A thread.
    struct Dice {
        state: u64,
        marks: Marks,
    }

    fn dice(seed: u64) -> Dice {
        Dice { state: seed, marks: Marks::default() }
    }

    impl Dice {
        /// One of so many.
        fn throw(&mut self, sides: u64) -> u64 {
            self.state =
                self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.state >> 33) % sides
        }
    }

    impl Growing {
        fn note(&self, directory: &Directory, event: Event) {
            let mut path = Vec::new();
            directory.path_into(&mut path);
            let mut seen = self.seen.lock().unwrap();
            if event == Event::Closed {
                let below = [path.as_slice(), b"/"].concat();
                let open = |(path, events): (&Vec<u8>, &Vec<Event>)| {
                    path.starts_with(&below) && !events.contains(&Event::Closed)
                };
                assert!(!seen.iter().any(open), "a directory was closed before one below it");
            }
            seen.entry(path).or_default().push(event);
        }

        fn push(&self, work: Work) {
            self.work.lock().unwrap().push(work);
        }

        /// A random item of waiting work.
        fn take(&self, dice: &mut Dice) -> Option<Work> {
            let mut work = self.work.lock().unwrap();
            let count = work.len() as u64;
            (count > 0).then(|| work.swap_remove(dice.throw(count) as usize))
        }

        fn read(&self, dice: &mut Dice, directory: &Arc<Directory>, is_start: bool) {
            let more = dice.throw(3) == 0;
            let extent = match (is_start, more) {
                (true, false) => Extent::Whole,
                (true, true) => Extent::First,
                (false, _) => Extent::Later,
            };
            let slice = CurrentSlice::new(directory, extent);
            if more {
                directory.life().add_slice();
                self.push(Work::ReadOn(Arc::clone(directory)));
            }
            let number = dice.throw(1 << 31) << 32 | dice.throw(1 << 31);
            for _ in 0..dice.throw(3) {
                self.push(Work::Look(slice.batch(), number));
            }
            self.look(dice, &slice, number);
        }

        /// Marks a slice.
        fn mark(&self, dice: &mut Dice, number: u64) {
            dice.marks.slices.push(number);
            *self.marks.lock().unwrap().entry(number).or_default() += 1;
        }

        /// Calls `act` to end something. Notes what was handed over.
        fn end(&self, worker: &mut Dice, act: impl FnOnce(&mut Closer<'_, '_, Self>)) {
            let (tasks, results) = (&mut Tasks::default(), &mut Marks::default());
            let noter = &mut Noter::default();
            act(&mut Closer { handler: self, worker, tasks, results, open: &self.open, noter });
            self.handed_over.lock().unwrap().push(std::mem::take(&mut results.slices));
        }

        fn look(&self, dice: &mut Dice, slice: &CurrentSlice<'_>, number: u64) {
            let directory = slice.directory();
            for _ in 0..dice.throw(4) {
                let number = self.names.fetch_add(1, Ordering::Relaxed);
                let name = CString::new(number.to_string()).unwrap();
                match dice.throw(5) {
                    0 | 1 if directory.depth() < 6 => {
                        directory.life().add_child();
                        self.seen.lock().unwrap().insert(child_path(directory, &name), Vec::new());
                        self.push(Work::Enter(Arc::clone(directory), name));
                    }
                    2 => self.push(Work::End(slice.part(), number)),
                    3 => self.push(Work::End(slice.part_of_names(), number)),
                    _ => self.push(Work::Look(slice.batch(), number)),
                }
            }
            self.note(directory, Event::Shown);
            self.mark(dice, number);
            self.end(dice, |closer| closer.end_names(slice));
        }

        /// All marks of a slice were handed over at once.
        fn assert_handed_over_once(&self) {
            assert!(self.open.all().is_empty(), "a slice did not end");
            let mut found = HashMap::new();
            for (at, marks) in self.handed_over.lock().unwrap().iter().enumerate() {
                for number in marks {
                    let (first, count) = found.entry(*number).or_insert((at, 0));
                    *count += 1;
                    assert_eq!(*first, at, "a slice was handed over twice");
                }
            }
            let counts: HashMap<_, _> =
                found.into_iter().map(|(number, (_, count))| (number, count)).collect();
            assert_eq!(counts, *self.marks.lock().unwrap());
        }

        fn run(&self, dice: &mut Dice) {
            while let Some(work) = self.take(dice) {
                match work {
                    Work::Enter(parent, name) => {
                        self.read(dice, &Arc::new(Directory::below(&parent, &name, None)), true);
                    }
                    Work::ReadOn(directory) => self.read(dice, &directory, false),
                    Work::Look(slice, number) => self.look(dice, &CurrentSlice::of_batch(&slice), number),
                    Work::End(part, number) => {
                        self.mark(dice, number);
                        self.end(dice, |closer| {
                            closer.gather(part.slice());
                            closer.end_part(&part);
                        });
                    }
                }
            }
        }
    }

    fn child_path(directory: &Directory, name: &CString) -> Vec<u8> {
        let mut path = Vec::new();
        directory.path_into(&mut path);
        [path.as_slice(), b"/", name.as_bytes()].concat()
    }

    impl Handler for Growing {
        type Worker = Dice;
        type State = State;
        const STAGE: Stage = Stage::Closed;

        fn worker(&self, index: usize) -> Dice {
            dice(index as u64)
        }

        fn results<'w>(&self, dice: &'w mut Dice) -> Option<&'w mut Marks> {
            Some(&mut dice.marks)
        }

        fn looked(&self, dice: &mut Dice, slice: &CurrentSlice<'_>) {
            self.note(slice.directory(), Event::Looked);
            if dice.throw(2) == 0 {
                // As a directory that waits for its name.
                let number = dice.throw(1 << 31) << 32 | dice.throw(1 << 31);
                self.push(Work::End(slice.part(), number));
            }
        }

        fn done(&self, _dice: &mut Dice, directory: &Arc<Directory>, _tasks: &mut Tasks<State>) {
            self.note(directory, Event::Done);
        }

        fn closed(&self, _dice: &mut Dice, directory: &Arc<Directory>) {
            self.note(directory, Event::Closed);
        }

        fn entry(&self, _cx: &mut Cx<'_, Self>, _entry: &Entry<'_>) {}

        fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

        fn failure(&self, _: &mut Dice, _: &Failure<'_>) {}

        fn finish(&self, _: &mut Dice) {}
    }

    #[test]
    fn directory_above_a_failed_one_is_not_noted_closed() {
        let opened: Arc<rustix::fd::OwnedFd> = Arc::new(std::fs::File::open("/").unwrap().into());
        for fails in [false, true] {
            let growing = Growing::default();
            let key = atta_ledger::Key::of_job(&[1; 16]);
            let journal = crate::tree::Journal::<Marks>::new(key, 1, 0).with_closing();
            let root =
                Directory::root(c"r".into(), 0, Arc::clone(&opened), Place { device: 1, inode: 1, mount: 1 });
            root.life().add_child();
            let above = Arc::new(Directory::below(&root, c"a", None));
            above.life().add_child();
            let below = Arc::new(Directory::below(&above, c"b", None));
            let mut noter = Noter::new(Some(&journal), &atta_runtime::Stop::default());
            noter.found(&root, b"a", 0);
            noter.found(&above, b"b", 0);
            // The directory above has no names left when the one below ends, and fails.
            for (directory, has_failed) in [(&above, false), (&below, fails)] {
                if has_failed {
                    noter.note_failure();
                }
                let (worker, tasks, results) = (&mut dice(1), &mut Tasks::default(), &mut Marks::default());
                let noter = &mut noter;
                let mut closer =
                    Closer { handler: &growing, worker, tasks, results, open: &growing.open, noter };
                closer.end_names(&CurrentSlice::new(directory, Extent::Whole));
                for own in std::mem::take(&mut closer.tasks.ended) {
                    closer.end_part(&own);
                }
            }
            while let Some(work) = growing.take(&mut dice(1)) {
                if let Work::End(part, _) = work {
                    let (worker, tasks, results) =
                        (&mut dice(1), &mut Tasks::default(), &mut Marks::default());
                    let noter = &mut noter;
                    Closer { handler: &growing, worker, tasks, results, open: &growing.open, noter }
                        .end_part(&part);
                }
            }
            let name = atta_ledger::LogName { run: 1, rank: 0, part: 0 };
            let head = atta_ledger::Frame { offset: 0, sequence: 0, synced: 0 };
            let log = atta_ledger::frame(&key, name, head, &atta_runtime::Facts::take(&journal)).unwrap();
            let mut logs = atta_ledger::JobLogs::find(&key, vec![(name, log.as_slice())]).unwrap();
            let mut next = crate::tree::Journal::<Marks>::new(key, 2, 0).with_closing();
            assert!(next.resume(&mut logs, 1 << 20, &mut |_| {}).is_ok());
            let mut left: Vec<_> = next
                .earlier()
                .take_left(9)
                .into_iter()
                .map(|redo| redo.path)
                .filter(|path| !path.is_empty())
                .collect();
            left.sort();
            assert_eq!(left, if fails { vec![b"a".to_vec(), b"a/b".to_vec()] } else { vec![] });
        }
    }

    #[test]
    fn each_directory_is_done_once_and_closed_once() {
        let opened: Arc<rustix::fd::OwnedFd> = Arc::new(std::fs::File::open("/").unwrap().into());
        let place = Place { device: 1, inode: 1, mount: 1 };
        let (mut directories, mut slices) = (0, 0);
        for seed in 0..400 {
            let growing = Growing::default();
            let root = Directory::root(c"r".into(), 0, Arc::clone(&opened), place);
            growing.read(&mut dice(seed), &root, true);
            std::thread::scope(|scope| {
                for thread in 1..4 {
                    let growing = &growing;
                    scope.spawn(move || growing.run(&mut dice(seed + 1000 * thread)));
                }
            });
            // A thread may have found nothing while another one was about to push.
            growing.run(&mut dice(seed));
            growing.assert_handed_over_once();
            let seen = growing.seen.into_inner().unwrap();
            directories += seen.len();
            for (path, events) in seen {
                let count = |which| events.iter().filter(|event| **event == which).count();
                slices += count(Event::Looked);
                // Of several slices one may be looked at when another one is.
                assert!(count(Event::Looked) > 1 || events.is_sorted(), "{path:?}: {events:?}");
                assert_eq!((count(Event::Done), count(Event::Closed)), (1, 1), "{path:?}: {events:?}");
                assert!(
                    events.ends_with(&[Event::Looked, Event::Done, Event::Closed]),
                    "{path:?}: {events:?}"
                );
            }
        }
        assert!(directories > 1000 && slices > directories, "{directories} directories, {slices} slices");
    }
}
