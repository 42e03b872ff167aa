//! What the logs of earlier runs of a job leave: directories and slices that are done again, those that need not be entered, and large files that were
//! begun. It reads no log itself: `atta-ledger` does. No I/O.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use atta_ledger::{At, Fold, Id, Item, Key, Left, Logs, Seen, SliceNumber, Stage};

use super::lock;
use crate::tree::directory::SliceResults;

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

/// What the logs of earlier runs leave.
#[derive(Debug)]
pub(crate) struct Earlier {
    key: Key,
    /// Directories that need not be entered from the directory above: they are complete, or a task of their own is.
    known: HashSet<Id>,
    /// Names that are in slices of their own.
    given: HashSet<Id>,
    /// Directories with such names.
    parted: HashSet<Id>,
    left: Mutex<Vec<Redo>>,
    /// Slices of roots that were not read to their end, by root. They wait until the root is read again: what that finds of an incomplete run is removed first.
    of_roots: Mutex<HashMap<u32, Vec<NumberedNames>>>,
    /// Large files that earlier runs have begun, by directory and name.
    begun: Mutex<HashMap<Id, BegunIn>>,
}

/// A directory of which something is done again.
#[derive(Debug)]
pub(crate) struct Redo {
    pub(crate) root: u32,
    /// The directory, below its root.
    pub(crate) path: Vec<u8>,
    /// It was read to its end: only slices are left of it, or its closing.
    pub(crate) is_read: bool,
    /// It was closed once, and what that came to counts.
    pub(crate) was_closed: bool,
    pub(crate) slices: Vec<NumberedNames>,
}

/// A slice and its names.
pub(crate) type NumberedNames = (SliceNumber, Vec<Vec<u8>>);

impl Redo {
    fn of(at: At<'_>) -> Self {
        let At { root, path } = at;
        Self { root, path: path.to_vec(), is_read: true, was_closed: false, slices: Vec::new() }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn weigh(&self) -> usize {
        let names = self.slices.iter().flat_map(|(_, names)| names);
        size_of::<Self>()
            + self.path.len()
            + names.map(|name| size_of::<Vec<u8>>() + name.len()).sum::<usize>()
    }

    /// Counts what it looks at. Its slices become tasks of their own.
    pub(crate) fn steps(&self) -> u64 {
        u64::from(!self.is_read)
    }
}

/// What the logs of earlier runs have for the caller.
#[derive(Debug)]
pub enum FromLog<'a, R> {
    /// What some slices come to that are done.
    Results(R),
    /// What was seen of a directory of which something is done, and how far it is. It may come several times, and the last counts.
    Seen(At<'a>, Seen, Stage),
    /// The mark of a directory, as [`Recheck`](crate::resume::Recheck) takes it, and how far the directory is. It may come several times, and the last counts.
    Marked(At<'a>, u32, Stage),
    /// Names that are done in a directory that is not. They may come several times.
    Names(At<'a>, &'a [&'a [u8]]),
    /// A part of a catalog that is complete, as it was confirmed ([`Held::with_part`](super::Held::with_part)).
    Part(&'a [u8]),
}

/// Directories of which earlier runs say that they are done, and that are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// These: the index of a root, and a path below it.
    Some(BTreeSet<(u32, Vec<u8>)>),
    /// So many that everything is done again.
    Many,
}

/// Why earlier runs cannot be resumed.
#[derive(Debug)]
pub enum ResumeError<E> {
    /// A log cannot be read, or is not valid.
    Logs(E),
    /// Results in a log are not those of this operation.
    Results,
}

impl<E> ResumeError<E> {
    /// With another reason why the logs cannot be read.
    pub fn of_logs<F>(self, describe: impl FnOnce(E) -> F) -> ResumeError<F> {
        match self {
            Self::Logs(error) => ResumeError::Logs(describe(error)),
            Self::Results => ResumeError::Results,
        }
    }
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
            let redo = self.of(at);
            (redo.is_read, redo.was_closed) = (item.is_read, item.was_closed);
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

impl Earlier {
    pub(crate) fn new(key: Key) -> Self {
        let (known, given, parted) = (HashSet::new(), HashSet::new(), HashSet::new());
        let (left, of_roots, begun) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { key, known, given, parted, left, of_roots, begun }
    }

    /// Takes over what the logs say. `each` gets the rest of it.
    pub(crate) fn read<R: SliceResults, L: Logs>(
        &mut self,
        fold: &Fold,
        logs: &mut L,
        each: &mut dyn FnMut(FromLog<'_, R>),
    ) -> Result<(), ResumeError<L::Error>> {
        let Self { key, known, given, parted, left, of_roots, begun } = self;
        let (key, begun) = (*key, begun.get_mut().unwrap_or_else(PoisonError::into_inner));
        let mut begun_in = |at: At<'_>, name: &[u8], add: &mut dyn FnMut(&mut BegunFile)| {
            let directory = begun.entry(key.of_path(at.root, at.path)).or_insert_with(|| {
                let (root, path) = (at.root, at.path.to_vec());
                BegunIn { root, path, files: HashMap::new() }
            });
            add(directory.files.entry(name.to_vec()).or_default());
        };
        let mut redone = Redone::new(key, fold.closes);
        let mut unread_roots = HashSet::new();
        let mut are_valid = true;
        let folded = fold.run(logs, &mut |found| match found {
            Left::Results(bytes) => match R::decode_all(bytes) {
                Some(results) => each(FromLog::Results(results)),
                None => are_valid = false,
            },
            Left::Directory(at, item) => {
                // A root that was not read to its end is read after it was looked at.
                if at.path.is_empty() && !item.is_read {
                    unread_roots.insert(at.root);
                } else {
                    known.insert(item.id);
                    redone.add(at, item);
                }
            }
            Left::Slice(at, number, names) => {
                let names = names.iter().map(|name| name.to_vec()).collect();
                redone.of(at).slices.push((number, names));
            }
            Left::Given(at, names) => {
                let directory = key.of_path(at.root, at.path);
                given.extend(names.iter().map(|name| key.below(directory, name)));
                parted.insert(directory);
            }
            Left::Complete(id) => {
                known.insert(id);
            }
            Left::Seen(at, seen, stage) => each(FromLog::Seen(at, seen, stage)),
            Left::Marked(at, mark, stage) => each(FromLog::Marked(at, mark, stage)),
            Left::Names(at, names) => each(FromLog::Names(at, names)),
            Left::Planned(at, name, plan) => begun_in(at, name, &mut |file| file.plan = plan.to_vec()),
            Left::Chunk(at, name, index, value) => {
                begun_in(at, name, &mut |file| file.chunks.push((index, value.to_vec())));
            }
            Left::Part(part) => each(FromLog::Part(part)),
            Left::Failed(..) => {}
        });
        folded.map_err(ResumeError::Logs)?;
        let is_of_unread = |redo: &mut Redo| redo.path.is_empty() && unread_roots.contains(&redo.root);
        let of_unread = redone.left.extract_if(.., is_of_unread).map(|redo| (redo.root, redo.slices));
        *of_roots.get_mut().unwrap_or_else(PoisonError::into_inner) = of_unread.collect();
        *left.get_mut().unwrap_or_else(PoisonError::into_inner) = redone.left;
        if are_valid { Ok(()) } else { Err(ResumeError::Results) }
    }

    /// Takes up to `most` of what is done again.
    pub(crate) fn take_left(&self, most: usize) -> Vec<Redo> {
        let mut left = lock(&self.left);
        let from = left.len().saturating_sub(most);
        left.split_off(from)
    }

    /// Takes the slices of a root that was not read to its end.
    pub(crate) fn take_slices_of_root(&self, root: u32) -> Vec<NumberedNames> {
        lock(&self.of_roots).remove(&root).unwrap_or_default()
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
        self.known.contains(&id)
    }

    /// Whether a directory that is read again need not be entered from the directory above.
    pub(crate) fn is_known_in(&self, directory: Id, name: &[u8]) -> bool {
        !self.known.is_empty() && self.is_known(self.key.below(directory, name))
    }

    /// Whether one of these names of a directory that is read again is a directory that need not be entered from there, or a large file that was begun.
    pub(crate) fn knows_any<'n>(&self, directory: Id, mut names: impl Iterator<Item = &'n [u8]>) -> bool {
        let begun = lock(&self.begun);
        let begun = begun.get(&directory).filter(|begun| !begun.files.is_empty());
        if self.known.is_empty() && begun.is_none() {
            return false;
        }
        let is_begun = |name: &[u8]| begun.is_some_and(|begun| begun.files.contains_key(name));
        names.any(|name| is_begun(name) || self.is_known_in(directory, name))
    }

    /// Whether some names of a directory that is read again are in slices of their own.
    pub(crate) fn is_parted(&self, directory: Id) -> bool {
        self.parted.contains(&directory)
    }

    /// Whether a name of a directory that is read again is in a slice of its own.
    pub(crate) fn is_given(&self, directory: Id, name: &[u8]) -> bool {
        !self.given.is_empty() && self.given.contains(&self.key.below(directory, name))
    }
}

#[cfg(test)]
mod tests {
    use atta_ledger::{Fact, Frame, JobLogs, LogName, Record, Records, frame};

    use super::*;

    #[test]
    fn slices_of_a_root_wait_until_it_is_read_again() {
        let (key, name) = (Key::of_job(&[1; 16]), LogName { run: 1, rank: 0, part: 0 });
        let slice = |number| SliceNumber { run: 1, rank: 0, number };
        let listed = |number| Fact::Listed { slice: slice(number), names: vec![b"a"] };
        for is_read in [false, true] {
            let (mut records, root) = (Records::default(), At { root: 0, path: b"" });
            records.add_fact(root, &listed(1));
            records.add_fact(root, &Fact::Found { name: b"d", mark: 0 });
            records.add_fact(At { root: 0, path: b"d" }, &listed(2));
            if is_read {
                records.add(&Record::In(root, Fact::Done { slice: None, seen: None }));
            }
            let head = Frame { offset: 0, sequence: 0, synced: 0 };
            let log = frame(&key, name, head, &[records.take()]).unwrap();
            let mut logs = JobLogs::find(&key, vec![(name, log.as_slice())]).unwrap();
            let mut earlier = Earlier::new(key);
            let fold = Fold { key, closes: true, memory: 1 << 20 };
            assert!(earlier.read::<u64, _>(&fold, &mut logs, &mut |_| {}).is_ok());
            let mut left: Vec<_> = earlier.take_left(9).into_iter().map(|redo| redo.path).collect();
            left.sort();
            // What reads it again would remove what is done of it by then.
            let expected: &[&[u8]] = if is_read { &[b"", b"d"] } else { &[b"d"] };
            assert_eq!(left, expected);
            let waits = earlier.take_slices_of_root(0);
            assert_eq!(waits.len(), usize::from(!is_read));
            assert!(earlier.take_slices_of_root(0).is_empty());
        }
    }
}
