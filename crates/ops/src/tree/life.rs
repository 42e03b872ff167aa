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

use std::sync::Arc;

use crate::tree::directory::{Directory, State};
use crate::tree::operation::{DirectoryOf, Handler, Stage, Tasks};
use crate::tree::slice::{CurrentSlice, Part};

/// Ends a part of a slice, then the slice and directories that end with it.
pub(crate) fn end_part<H: Handler>(
    handler: &H,
    worker: &mut H::Worker,
    part: &Part<H::State>,
    tasks: &mut Tasks<H::State>,
) {
    let slice = part.slice();
    if part.holds_names() {
        if !slice.names.release() {
            return;
        }
        handler.looked(worker, &CurrentSlice::of_part(part));
    }
    if slice.parts.release() {
        end_slice(handler, worker, slice.directory(), tasks);
    }
}

/// Ends the names that this thread has looked at, then the slice and directories that end with them.
pub(crate) fn end_names<H: Handler>(
    handler: &H,
    worker: &mut H::Worker,
    at: &CurrentSlice<'_, H::State>,
    tasks: &mut Tasks<H::State>,
) {
    if at.release_names() {
        handler.looked(worker, at);
        if at.release_part_of_names() {
            end_slice(handler, worker, at.directory(), tasks);
        }
    }
}

/// Releases the unit of a slice, or of the thread that has read the last name.
pub(crate) fn end_slice<H: Handler>(
    handler: &H,
    worker: &mut H::Worker,
    directory: &Arc<DirectoryOf<H>>,
    tasks: &mut Tasks<H::State>,
) {
    if H::STAGE < Stage::Done || !directory.life().release_own() {
        return;
    }
    let life = directory.life();
    if life.is_found() {
        handler.done(worker, directory, tasks);
    }
    let payments = life.owed().map(|owed| owed.pay_slices(|| handler.report(directory)));
    tasks.payments.extend(payments.unwrap_or_default());
    if H::STAGE >= Stage::Closed {
        end_child(handler, worker, directory, tasks);
    }
}

/// Releases a unit of `below`, and goes on with the directory above if it was the last. A loop, as a chain may have 10^5 levels.
pub(crate) fn end_child<H: Handler>(
    handler: &H,
    worker: &mut H::Worker,
    directory: &Arc<DirectoryOf<H>>,
    tasks: &mut Tasks<H::State>,
) {
    let mut next = Some(directory);
    while let Some(directory) = next.filter(|directory| directory.life().release_below()) {
        handler.closed(worker, directory);
        let payment =
            directory.life().owed().and_then(|owed| owed.pay_children(|| handler.report(directory)));
        tasks.payments.extend(payment);
        next = directory.parent().filter(|_| !directory.life().is_sent());
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

    use atta_entry::{Entry, Failure};
    use atta_sys::Place;

    use super::*;
    use crate::tree::operation::Cx;
    use crate::tree::slice::{Extent, Slice};

    /// Events of a directory, in this order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        /// A batch of names was looked at.
        Shown,
        Looked,
        Done,
        Closed,
    }

    /// A random tree that grows while threads process it.
    struct Growing {
        work: Mutex<Vec<Work>>,
        seen: Mutex<HashMap<Vec<u8>, Vec<Event>>>,
    }

    enum Work {
        Enter(Arc<Directory>, CString),
        ReadOn(Arc<Directory>),
        Look(Arc<Slice>),
        End(Part),
    }

    struct Dice(u64);

    impl Dice {
        /// One of so many.
        fn throw(&mut self, sides: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % sides
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
            for _ in 0..dice.throw(3) {
                self.push(Work::Look(slice.batch()));
            }
            self.look(dice, &slice);
        }

        fn look(&self, dice: &mut Dice, slice: &CurrentSlice<'_>) {
            let directory = slice.directory();
            for _ in 0..dice.throw(4) {
                let name = CString::new(format!("{}", dice.throw(1 << 40))).unwrap();
                match dice.throw(5) {
                    0 | 1 if directory.depth() < 6 => {
                        directory.life().add_child();
                        self.seen.lock().unwrap().insert(child_path(directory, &name), Vec::new());
                        self.push(Work::Enter(Arc::clone(directory), name));
                    }
                    2 => self.push(Work::End(slice.part())),
                    3 => self.push(Work::End(slice.part_of_names())),
                    _ => self.push(Work::Look(slice.batch())),
                }
            }
            self.note(directory, Event::Shown);
            end_names(self, dice, slice, &mut Tasks::default());
        }

        fn run(&self, dice: &mut Dice) {
            while let Some(work) = self.take(dice) {
                match work {
                    Work::Enter(parent, name) => {
                        self.read(dice, &Arc::new(Directory::below(&parent, &name, None)), true);
                    }
                    Work::ReadOn(directory) => self.read(dice, &directory, false),
                    Work::Look(slice) => self.look(dice, &CurrentSlice::of_batch(&slice)),
                    Work::End(part) => end_part(self, dice, &part, &mut Tasks::default()),
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
        type State = ();
        const STAGE: Stage = Stage::Closed;

        fn worker(&self, index: usize) -> Dice {
            Dice(index as u64)
        }

        fn looked(&self, dice: &mut Dice, slice: &CurrentSlice<'_>) {
            self.note(slice.directory(), Event::Looked);
            if dice.throw(2) == 0 {
                // As a directory that waits for its name.
                self.push(Work::End(slice.part()));
            }
        }

        fn done(&self, _dice: &mut Dice, directory: &Arc<Directory>, _tasks: &mut Tasks) {
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
    fn each_directory_is_done_once_and_closed_once() {
        let opened: Arc<rustix::fd::OwnedFd> = Arc::new(std::fs::File::open("/").unwrap().into());
        let place = Place { device: 1, inode: 1, mount: 1 };
        let (mut directories, mut slices) = (0, 0);
        for seed in 0..400 {
            let growing = Growing { work: Mutex::default(), seen: Mutex::default() };
            let root = Directory::root(c"r".into(), 0, Arc::clone(&opened), place);
            growing.read(&mut Dice(seed), &root, true);
            std::thread::scope(|scope| {
                for thread in 1..4 {
                    let growing = &growing;
                    scope.spawn(move || growing.run(&mut Dice(seed + 1000 * thread)));
                }
            });
            // A thread may have found nothing while another one was about to push.
            growing.run(&mut Dice(seed));
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
