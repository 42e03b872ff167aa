//! Hard links: names that are one file on one side must be one file on the other.
//!
//! Each thread encodes the names of files that have several names on either side, with both files. The first rank gets the names of all
//! ranks and sorts them, by the file on one side and by the file on the other. Both sorters use bounded memory and then unnamed files. A set
//! of names that is one file on one side must be one file on the other. Otherwise, the names that belong to another file than most of the
//! set are reported.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use atta_entry::{Code, Detail, Side};
use atta_runtime::{Outbox, Stop, Stream};

use super::pair::Both;
use crate::file::source::Identity;
use crate::sorted::{FILE_BYTES, Record, Sorted, Sorter, key_of_file};

/// A thread hands over its names when they take this many bytes.
const BATCH_BYTES: usize = 16 << 10;

/// A name that exists on both sides, by its path below the roots, and its file on each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) source: Identity,
    pub(super) target: Identity,
    pub(super) path: Vec<u8>,
}

atta_entry::record!(Name { source, target, path });

impl Name {
    /// A name of these files, by its path below the roots.
    pub(super) fn of([source, target]: [Identity; 2], path: Vec<u8>) -> Self {
        Self { source, target, path }
    }
}

/// Names that one thread found and has not handed over yet.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<u8>);

impl Names {
    /// Adds a name.
    pub(super) fn note(&mut self, name: &Name, links: &Links) {
        name.encode(&mut self.0);
        if self.0.len() >= BATCH_BYTES {
            self.hand_over(links);
        }
    }

    /// Gives all names to the first rank.
    pub(crate) fn hand_over(&mut self, links: &Links) {
        if self.0.is_empty() {
            return;
        }
        match links {
            Links::Here(sets) => sets.lock().unwrap_or_else(PoisonError::into_inner).add_all(&self.0),
            Links::There(outbox, stream) => outbox.push(*stream, &self.0),
        }
        self.0.clear();
    }
}

/// Where names are compared.
#[derive(Debug)]
pub(crate) enum Links {
    /// On this rank.
    Here(Box<Mutex<Sets>>),
    /// On the first rank, which gets them through this stream.
    There(Outbox, Stream),
}

/// The names of all ranks, sorted into sets of one file.
#[derive(Debug)]
pub(crate) struct Sets {
    by_source: Sorter,
    by_target: Sorter,
    memory: u64,
    directory: PathBuf,
    /// Why names are missing from the sets.
    error: Option<io::Error>,
    stop: Stop,
}

impl Sets {
    /// Creates sets that keep this many bytes in memory, and the rest in unnamed files in `directory`. After a stop, no more names are
    /// compared.
    pub(crate) fn new(memory: u64, directory: &Path, stop: Stop) -> Self {
        // Two of names, one of sets, one of differences.
        let memory = memory / 4;
        let sorter = || Sorter::new(memory, directory);
        let (by_source, by_target) = (sorter(), sorter());
        Self { by_source, by_target, memory, directory: directory.to_owned(), error: None, stop }
    }

    /// Adds encoded names.
    pub(crate) fn add_all(&mut self, mut bytes: &[u8]) {
        while self.error.is_none() && !bytes.is_empty() {
            let added = Name::decode(&mut bytes).ok_or_else(|| io::ErrorKind::InvalidData.into());
            self.error = added.and_then(|name| self.add(&name)).err();
        }
    }

    fn add(&mut self, name: &Name) -> io::Result<()> {
        let (source, target) = (key_of_file(name.source), key_of_file(name.target));
        self.by_source.push(&[&source[..], &target, &name.path].concat(), b"")?;
        self.by_target.push(&[&target[..], &source, &name.path].concat(), b"")
    }

    /// Calls `each` for every name whose hard links differ, with the differences, in path order.
    ///
    /// # Errors
    /// The names could not be kept or read back.
    pub(crate) fn each_differing(&mut self, mut each: impl FnMut(&[u8], Vec<Detail>)) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut found = Sorter::new(self.memory, &self.directory);
        for (side, names) in [(Side::Source, &mut self.by_source), (Side::Target, &mut self.by_target)] {
            let goes_on = |_: &_| !self.stop.is_set();
            let parted = Sorter::new(self.memory, &self.directory);
            let mut parted = parted_sets(names.sorted()?.take_while(goes_on), parted)?;
            find_differing(names.sorted()?.take_while(goes_on), parted.sorted()?, side, &mut found)?;
        }
        let mut last: Option<(Vec<u8>, Vec<Detail>)> = None;
        for record in found.sorted()? {
            let (mut path, winner) = record?;
            if self.stop.is_set() {
                return Ok(());
            }
            let side = if path.pop() == Some(Side::Source as u8) { Side::Source } else { Side::Target };
            path.pop();
            let detail = Detail::Links(side, winner);
            match &mut last {
                Some((same, details)) if *same == path => details.push(detail),
                _ => {
                    if let Some((path, details)) = last.replace((path, vec![detail])) {
                        each(&path, details);
                    }
                }
            }
        }
        if let Some((path, details)) = last {
            each(&path, details);
        }
        Ok(())
    }
}

/// Sorted records.
trait Records: Iterator<Item = io::Result<Record>> {}

impl<R: Iterator<Item = io::Result<Record>>> Records for R {}

/// The key of a sorted name: its file on this side, its file on the other side, and its path.
fn parts(key: &[u8]) -> io::Result<(&[u8], &[u8], &[u8])> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let (here, rest) = key.split_at_checked(FILE_BYTES).ok_or_else(damaged)?;
    let (elsewhere, path) = rest.split_at_checked(FILE_BYTES).ok_or_else(damaged)?;
    Ok((here, elsewhere, path))
}

/// Names of one set that are one file on the other side, too.
#[derive(Clone, Debug, Default)]
struct Part {
    elsewhere: Vec<u8>,
    first: Vec<u8>,
    names: u64,
}

/// A set while its names pass.
#[derive(Debug, Default)]
struct Set {
    here: Vec<u8>,
    parts: u64,
    current: Part,
    largest: Part,
}

impl Set {
    /// Ends the current part. The largest part wins; of equal ones, the one with the first path.
    fn end_part(&mut self) {
        let current = std::mem::take(&mut self.current);
        let is_first = current.names == self.largest.names && current.first < self.largest.first;
        if current.names > self.largest.names || is_first {
            self.largest = current;
        }
    }

    /// Ends the set. If it has several parts, adds its largest one to `parted`.
    fn end(&mut self, parted: &mut Sorter) -> io::Result<()> {
        self.end_part();
        if self.parts > 1 {
            parted.push(&self.here, &[&self.largest.elsewhere[..], &self.largest.first].concat())?;
        }
        Ok(())
    }
}

/// Returns the sets that are several files on the other side, each with the file that most of its names belong to and the first of these.
fn parted_sets(names: impl Records, mut parted: Sorter) -> io::Result<Sorter> {
    let mut set = Set::default();
    for record in names {
        let (key, _) = record?;
        let (here, elsewhere, path) = parts(&key)?;
        if set.here != here {
            set.end(&mut parted)?;
            set = Set { here: here.to_vec(), ..Set::default() };
        }
        if set.current.elsewhere != elsewhere {
            set.end_part();
            set.parts += 1;
            set.current = Part { elsewhere: elsewhere.to_vec(), first: path.to_vec(), names: 0 };
        }
        set.current.names += 1;
    }
    set.end(&mut parted)?;
    Ok(parted)
}

/// Adds to `found` each name that belongs to another file than most of its set: by path and side, with the first path of those.
fn find_differing(names: impl Records, parted: Sorted<'_>, side: Side, found: &mut Sorter) -> io::Result<()> {
    let mut parted = parted.fuse();
    let mut set = parted.next().transpose()?;
    for record in names {
        let (key, _) = record?;
        let (here, elsewhere, path) = parts(&key)?;
        while set.as_ref().is_some_and(|(of, _)| of.as_slice() < here) {
            set = parted.next().transpose()?;
        }
        if let Some((of, winner)) = &set
            && of == here
            && let Some((most, first)) = winner.split_at_checked(FILE_BYTES)
            && most != elsewhere
        {
            // No path contains a zero byte, so paths stay in their order.
            found.push(&[path, &[0, side as u8]].concat(), first)?;
        }
    }
    Ok(())
}

/// Whether the file has several names on either side.
pub(crate) fn has_names(both: &Both) -> bool {
    both.source.nlink > 1 || both.target.nlink > 1
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use atta_entry::Metadata;

    pub(crate) fn both(source: u64, target: u64) -> Both {
        let file = |inode| Metadata { inode, nlink: 2, ..Metadata::default() };
        Both { source: file(source), target: file(target) }
    }

    /// Names with the numbers of their files on both sides, noted by two threads.
    fn found(names: &[(&str, u64, u64)]) -> Vec<(String, Side, String)> {
        let found = found_within(1 << 20, names);
        assert_eq!(found, found_within(1, names), "from files");
        found
    }

    fn found_within(memory: u64, names: &[(&str, u64, u64)]) -> Vec<(String, Side, String)> {
        let links =
            Links::Here(Box::new(Mutex::new(Sets::new(memory, &std::env::temp_dir(), Stop::default()))));
        let mut threads = [Names::default(), Names::default()];
        for (number, (name, source, target)) in names.iter().rev().enumerate() {
            let name = Name::of([(0, *source), (0, *target)], name.as_bytes().to_vec());
            threads[number % 2].note(&name, &links);
        }
        threads.iter_mut().for_each(|names| names.hand_over(&links));
        let Links::Here(sets) = links else { unreachable!() };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut found = Vec::new();
        let each = |path: &[u8], details: Vec<Detail>| {
            for detail in details {
                let Detail::Links(side, other) = detail else { panic!("{detail:?}") };
                found.push((text(path), side, text(&other)));
            }
        };
        sets.into_inner().unwrap().each_differing(each).unwrap();
        found
    }

    #[test]
    fn damaged_names_are_an_error() {
        let mut sets = Sets::new(1 << 20, &std::env::temp_dir(), Stop::default());
        sets.add_all(b"damaged");
        assert!(sets.each_differing(|_, _| ()).is_err());
    }

    #[test]
    fn equal_sets_of_links_are_equal() {
        assert_eq!(found(&[("a", 1, 10), ("b", 1, 10), ("c", 2, 20), ("d", 3, 30), ("e", 3, 30)]), []);
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn smaller_part_of_a_split_link_set_is_reported() {
        let row = |name: &str, side, other: &str| (name.to_owned(), side, other.to_owned());
        assert_eq!(
            found(&[("a", 1, 11), ("b", 1, 10), ("c", 1, 10)]),
            [row("a", Side::Source, "b")],
            "a left"
        );
        assert_eq!(found(&[("a", 1, 10), ("b", 1, 11)]), [row("b", Side::Source, "a")]);
        assert_eq!(found(&[("a", 1, 10), ("b", 2, 10)]), [row("b", Side::Target, "a")]);
        // One name moved from one set to another.
        assert_eq!(
            found(&[("a", 1, 10), ("b", 1, 10), ("c", 1, 20), ("d", 2, 20), ("e", 2, 20)]),
            [row("c", Side::Source, "a"), row("c", Side::Target, "d")]
        );
    }
}
