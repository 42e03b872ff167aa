//! Hard links: names that are one file on one side must be one file on the other. No I/O.
//!
//! Each thread notes the names of files that have several names on either side, with both files. At the end the notes are merged and
//! sorted. A set of names that is one file on one side must be one file on the other. Otherwise, the names that belong to another file than
//! most of the set are reported. This takes 48 bytes and the path for each such name.
//!
//! In addition, pairs of files with equal bytes are stored, within a memory limit, so that they are not read again under their other names.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use atta_entry::{Detail, Side, Timestamp};

use super::pair::Both;

/// Device and inode.
type File = (u64, u64);

/// Names that one thread found.
#[derive(Debug, Default)]
pub(crate) struct Names {
    notes: Vec<Note>,
    paths: Vec<u8>,
}

#[derive(Debug)]
struct Note {
    source: File,
    target: File,
    /// Range of its path in `paths`.
    start: usize,
    end: usize,
}

/// A name from the merged notes.
#[derive(Clone, Copy, Debug)]
struct Name<'a> {
    source: File,
    target: File,
    path: &'a [u8],
}

impl Names {
    /// Adds a name, by its path below the roots.
    pub(crate) fn note(&mut self, both: &Both, path: &[u8]) {
        let [source, target] = both.identities();
        let start = self.paths.len();
        self.paths.extend_from_slice(path);
        self.notes.push(Note { source, target, start, end: self.paths.len() });
    }

    fn all(&self) -> impl Iterator<Item = Name<'_>> {
        let path = |note: &Note| self.paths.get(note.start..note.end).unwrap_or_default();
        self.notes.iter().map(move |note| Name { source: note.source, target: note.target, path: path(note) })
    }
}

/// Returns the names whose hard links differ, with the differences, in path order.
pub(crate) fn differing<'a>(threads: impl Iterator<Item = &'a Names>) -> BTreeMap<&'a [u8], Vec<Detail>> {
    let mut names: Vec<Name<'a>> = threads.flat_map(Names::all).collect();
    let mut found = BTreeMap::new();
    names.sort_unstable_by_key(|name| (name.source, name.path));
    for set in names.chunk_by(|one, other| one.source == other.source) {
        tell(set, Side::Source, |name| name.target, &mut found);
    }
    names.sort_unstable_by_key(|name| (name.target, name.path));
    for set in names.chunk_by(|one, other| one.target == other.target) {
        tell(set, Side::Target, |name| name.source, &mut found);
    }
    found
}

/// Reports the names of a set (one file on one side) that belong to another file than most of the set on the other side.
fn tell<'a>(
    set: &[Name<'a>],
    side: Side,
    elsewhere: impl Fn(&Name<'a>) -> File,
    found: &mut BTreeMap<&'a [u8], Vec<Detail>>,
) {
    let mut counts: BTreeMap<File, usize> = BTreeMap::new();
    for name in set {
        *counts.entry(elsewhere(name)).or_default() += 1;
    }
    if counts.len() < 2 {
        return;
    }
    let most = counts.values().max().copied();
    // In a tie, the file of the first path wins.
    let Some(first) = set.iter().find(|name| counts.get(&elsewhere(name)).copied() == most) else { return };
    for name in set.iter().filter(|name| elsewhere(name) != elsewhere(first)) {
        found.entry(name.path).or_default().push(Detail::Links(side, first.path.to_vec()));
    }
}

/// The identity and change time of a file.
type State = (File, Timestamp);

/// Pairs of files with several names whose bytes are equal.
#[derive(Debug)]
pub(crate) struct Equal {
    pairs: Mutex<HashSet<[State; 2]>>,
    most: usize,
}

/// Approximate memory of a pair in the table: 64 bytes, spare capacity, and control bytes.
const PAIR_BYTES: u64 = 128;

impl Equal {
    /// Creates a store limited to this much memory.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let most = usize::try_from(memory_bytes / PAIR_BYTES).unwrap_or(usize::MAX);
        Self { pairs: Mutex::default(), most }
    }

    /// Stores that two files have the same bytes.
    pub(crate) fn add(&self, both: &Both) {
        if has_names(both) {
            let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
            if pairs.len() < self.most {
                pairs.insert(states(both));
            }
        }
    }

    /// Whether the two files are known to be equal.
    pub(crate) fn has(&self, both: &Both) -> bool {
        has_names(both) && self.pairs.lock().unwrap_or_else(PoisonError::into_inner).contains(&states(both))
    }
}

fn states(both: &Both) -> [State; 2] {
    let [source, target] = both.identities();
    [(source, both.source.ctime), (target, both.target.ctime)]
}

/// Whether the file has several names on either side.
pub(crate) fn has_names(both: &Both) -> bool {
    both.source.nlink > 1 || both.target.nlink > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_entry::Metadata;

    fn both(source: u64, target: u64) -> Both {
        let file = |inode| Metadata { inode, nlink: 2, ..Metadata::default() };
        Both { source: file(source), target: file(target) }
    }

    /// Names with the numbers of their files on both sides, noted by two threads.
    fn found(names: &[(&str, u64, u64)]) -> Vec<(String, Side, String)> {
        let mut threads = [Names::default(), Names::default()];
        for (number, (name, source, target)) in names.iter().rev().enumerate() {
            threads[number % 2].note(&both(*source, *target), name.as_bytes());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found = differing(threads.iter());
        let details =
            found.iter().flat_map(|(path, details)| details.iter().map(move |detail| (path, detail)));
        details
            .map(|(path, detail)| match detail {
                Detail::Links(side, other) => (text(path), *side, text(other)),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn equal_sets_are_equal_whatever_their_files_are_called() {
        assert_eq!(found(&[("a", 1, 10), ("b", 1, 10), ("c", 2, 20), ("d", 3, 30), ("e", 3, 30)]), []);
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn of_a_set_that_fell_apart_the_fewer_are_told() {
        let told = |name: &str, side, other: &str| (name.to_owned(), side, other.to_owned());
        assert_eq!(
            found(&[("a", 1, 11), ("b", 1, 10), ("c", 1, 10)]),
            [told("a", Side::Source, "b")],
            "a left"
        );
        assert_eq!(found(&[("a", 1, 10), ("b", 1, 11)]), [told("b", Side::Source, "a")]);
        assert_eq!(found(&[("a", 1, 10), ("b", 2, 10)]), [told("b", Side::Target, "a")]);
        // One name moved from one set to another.
        assert_eq!(
            found(&[("a", 1, 10), ("b", 1, 10), ("c", 1, 20), ("d", 2, 20), ("e", 2, 20)]),
            [told("c", Side::Source, "a"), told("c", Side::Target, "d")]
        );
    }

    #[test]
    fn what_is_equal_is_remembered_as_far_as_there_is_room() {
        let equal = Equal::new(2 * PAIR_BYTES);
        for number in 0..3 {
            equal.add(&both(number, number));
        }
        assert!(equal.has(&both(0, 0)) && equal.has(&both(1, 1)) && !equal.has(&both(2, 2)));
        assert!(!equal.has(&both(0, 1)));
        let mut later = both(0, 0);
        later.target.ctime.seconds += 1;
        assert!(!equal.has(&later), "it may be another content by now");
    }
}
