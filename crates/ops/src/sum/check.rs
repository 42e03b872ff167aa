//! Compares a record with the entries found. Both are sorted by path, in bounded memory, and merged. This module reads neither records nor
//! trees.
//!
//! ```text
//!   record ─▶ Items, sorted ─┐
//!                            ├─▶ compare ─▶ missing, extra, different
//!   tree ───▶ Items, sorted ─┘
//! ```

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use atta_entry::{Change, Difference, Kind};
use atta_runtime::Stop;

pub use super::item::Item;

use crate::sorted::{Record, Sorted, Sorter, is_below, key_of};

/// Counts of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Recorded paths that are unchanged.
    pub same: u64,
    /// Of these, regular files that were recorded without a digest: only their sizes are compared.
    pub by_size: u64,
    /// Recorded paths that no longer exist.
    pub missing: u64,
    /// Paths that exist but are not recorded.
    pub extra: u64,
    /// Recorded paths that differ.
    pub different: u64,
    /// Recorded paths of unknown state: the path, or a directory above it, could not be read.
    pub unknown: u64,
}

impl Compared {
    /// Paths that do not match the record.
    #[must_use]
    pub fn differences(&self) -> u64 {
        self.missing + self.extra + self.different
    }

    fn count(&mut self, change: Option<&Change>) {
        let counter = match change {
            None => &mut self.same,
            Some(Change::Missing) => &mut self.missing,
            Some(Change::Extra) => &mut self.extra,
            Some(Change::Different(_)) => &mut self.different,
        };
        *counter += 1;
    }
}

/// A set of items, recorded or found, of any size.
#[derive(Debug)]
pub struct Items {
    sorter: Sorter,
    /// Entries of other kinds were not recorded.
    is_of_files: bool,
}

/// An item, or a path that failed.
enum Found {
    Item(Item),
    Failed,
}

impl Items {
    /// Creates an empty set that uses this much memory. The rest goes to an unnamed file in `directory`.
    #[must_use]
    pub fn new(memory: u64, directory: &Path) -> Self {
        Self { sorter: Sorter::new(memory, directory), is_of_files: false }
    }

    /// Notes that the set was recorded for regular files only. Entries of other kinds are then not extra.
    pub fn set_of_files(&mut self) {
        self.is_of_files = true;
    }

    /// Adds an item.
    ///
    /// # Errors
    /// The items exceed the memory, and the file cannot be written.
    pub fn push(&mut self, item: &Item) -> io::Result<()> {
        self.push_record(&key_of(&item.path), &item.to_bytes())
    }

    /// The value of the record of an item, for [`push_record`](Self::push_record).
    #[must_use]
    pub fn value(item: &Item) -> Vec<u8> {
        item.to_bytes()
    }

    /// Adds the record of an item by its key, which is that of its path, and its value: that of [`value`](Self::value), or no bytes for a
    /// path that could not be read. The state of such a path and of everything below it is unknown.
    ///
    /// # Errors
    /// Same as [`push`](Self::push).
    pub fn push_record(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.sorter.push(key, value)
    }

    /// Returns all paths, each once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn paths(&mut self) -> io::Result<impl Iterator<Item = io::Result<Vec<u8>>> + Send> {
        let mut last = None;
        let sorted = self.sorter.sorted()?;
        Ok(sorted.filter_map(move |record| match record {
            Ok((key, _)) if last.as_ref() == Some(&key) => None,
            Ok((key, value)) => {
                last = Some(key);
                Some(Item::parse(&value).map(|item| item.path))
            }
            Err(error) => Some(Err(error)),
        }))
    }
}

/// Compares recorded items with found ones, in path order.
///
/// Calls `report` for each difference. The comparison ends when `report` breaks, or early when `stop` is set.
///
/// # Errors
/// A file cannot be read.
pub fn compare(
    recorded: &mut Items,
    found: &mut Items,
    stop: &Stop,
    mut report: impl FnMut(&Difference<'_>) -> ControlFlow<()>,
) -> io::Result<Compared> {
    let mut compared = Compared::default();
    let is_of_files = recorded.is_of_files;
    let is_extra = |kind| !is_of_files || kind == Kind::File;
    let mut recorded = Groups::new(recorded.sorter.sorted()?)?;
    let mut found = Groups::new(found.sorter.sorted()?)?;
    let mut failed: Option<Vec<u8>> = None;
    while let Some(key) = least(recorded.key(), found.key()).filter(|_| !stop.is_set()) {
        let items = recorded.take(&key)?.into_iter().filter_map(Found::item);
        let there = found.take(&key)?;
        let is_below_failed =
            |failed: &Option<Vec<u8>>| failed.as_ref().is_some_and(|above| is_below(&key, above));
        if there.iter().any(|found| matches!(found, Found::Failed)) && !is_below_failed(&failed) {
            failed = Some(key.clone());
        }
        let is_unknown = is_below_failed(&failed);
        let there = there.into_iter().find_map(Found::item);
        let mut is_recorded = false;
        for item in items {
            is_recorded = true;
            let change = match &there {
                None if is_unknown => {
                    compared.unknown += 1;
                    continue;
                }
                None => Some(Change::Missing),
                Some(there) => item.difference(there).map(|detail| Change::Different(vec![detail])),
            };
            compared.count(change.as_ref());
            let has_size_only = item.kind == Kind::File && item.digest.is_none();
            compared.by_size += u64::from(change.is_none() && has_size_only);
            if let Some(change) = change
                && report(&Difference { path: item.path.into(), kind: item.kind, change }).is_break()
            {
                return Ok(compared);
            }
        }
        if let Some(there) = there.filter(|there| !is_recorded && is_extra(there.kind)) {
            compared.count(Some(&Change::Extra));
            let difference = Difference { path: there.path.into(), kind: there.kind, change: Change::Extra };
            if report(&difference).is_break() {
                return Ok(compared);
            }
        }
    }
    Ok(compared)
}

fn least(one: Option<&[u8]>, other: Option<&[u8]>) -> Option<Vec<u8>> {
    [one, other].into_iter().flatten().min().map(<[u8]>::to_vec)
}

/// Groups records by key.
struct Groups<'a> {
    sorted: Sorted<'a>,
    next: Option<Record>,
}

impl<'a> Groups<'a> {
    fn new(mut sorted: Sorted<'a>) -> io::Result<Self> {
        let next = sorted.next().transpose()?;
        Ok(Self { sorted, next })
    }

    fn key(&self) -> Option<&[u8]> {
        self.next.as_ref().map(|(key, _)| key.as_slice())
    }

    /// Takes all records with this key.
    fn take(&mut self, key: &[u8]) -> io::Result<Vec<Found>> {
        let mut all = Vec::new();
        while let Some((_, value)) = self.next.take_if(|(next, _)| next == key) {
            all.push(if value.is_empty() { Found::Failed } else { Found::Item(Item::parse(&value)?) });
            self.next = self.sorted.next().transpose()?;
        }
        Ok(all)
    }
}

impl Found {
    fn item(self) -> Option<Item> {
        match self {
            Self::Item(item) => Some(item),
            Self::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::Detail;

    use super::*;

    fn file(path: &str, content: u8) -> Item {
        let path = path.as_bytes().to_vec();
        Item { path, kind: Kind::File, size: Some(1), digest: Some([content; 32]), target: None }
    }

    fn other(path: &str, kind: Kind, target: Option<&str>) -> Item {
        let target = target.map(|target| target.as_bytes().to_vec());
        Item { kind, size: None, digest: None, target, ..file(path, 0) }
    }

    fn compare(
        expected: &[Item],
        found: &[Item],
        failed: &[&str],
        memory: u64,
    ) -> (Compared, Vec<(String, Change)>) {
        let (mut recorded, mut there) =
            (Items::new(memory, &std::env::temp_dir()), Items::new(memory, &std::env::temp_dir()));
        expected.iter().for_each(|item| recorded.push(item).unwrap());
        found.iter().for_each(|item| there.push(item).unwrap());
        failed.iter().for_each(|path| there.push_record(&key_of(path.as_bytes()), &[]).unwrap());
        let mut reported = Vec::new();
        let compared =
            super::compare(&mut recorded, &mut there, &Stop::new(), |Difference { path, change, .. }| {
                reported.push((String::from_utf8_lossy(path).into_owned(), change.clone()));
                ControlFlow::Continue(())
            });
        (compared.unwrap(), reported)
    }

    #[test]
    fn only_differences_are_reported() {
        let link = |target| other("t/link", Kind::Symlink, Some(target));
        let directory = other("t", Kind::Directory, None);
        let expected = [
            directory.clone(),
            file("t/same", 1),
            file("./t//also", 1),
            file("t/content", 1),
            Item { size: Some(2), ..file("t/size", 1) },
            Item { size: None, ..file("t/listed", 1) },
            Item { digest: None, ..file("t/unread", 1) },
            Item { digest: None, size: Some(2), ..file("t/unread-size", 1) },
            file("t/kind", 1),
            file("t/missing", 1),
            link("one"),
        ];
        let found = [
            link("two"),
            other("t/kind", Kind::Directory, None),
            file("t/extra", 1),
            file("t/listed", 1),
            file("t/unread", 1),
            file("t/unread-size", 1),
            file("t/size", 1),
            file("t/content", 2),
            file("t/also", 1),
            file("t/same", 1),
            directory,
        ];
        for memory in [1, 300, 1 << 20] {
            let (compared, reported) = compare(&expected, &found, &[], memory);
            let reported: Vec<_> =
                reported.iter().map(|(path, change)| (path.as_str(), change.clone())).collect();
            let different = |detail| Change::Different(vec![detail]);
            assert_eq!(
                reported,
                [
                    ("t/content", different(Detail::Digest(Some([1; 32]), Some([2; 32])))),
                    ("t/extra", Change::Extra),
                    ("t/kind", different(Detail::Type(Kind::File, Kind::Directory))),
                    ("t/link", different(Detail::Target(b"one".to_vec(), b"two".to_vec()))),
                    ("t/missing", Change::Missing),
                    ("t/size", different(Detail::Size(2, 1))),
                    ("t/unread-size", different(Detail::Size(2, 1))),
                ]
            );
            assert_eq!((compared.same, compared.different, compared.unknown), (5, 5, 0));
            assert_eq!(compared.by_size, 1);
            assert_eq!(compared.differences(), 7);
        }
    }

    #[test]
    fn entries_below_an_unreadable_directory_not_missing() {
        let expected = ["a/b/c", "a/b", "a/b.c", "a/d"].map(|path| file(path, 1));
        let found = [file("a/d", 1)];
        let (compared, reported) = compare(&expected, &found, &["a/b", "a/b/c"], 1 << 20);
        assert_eq!(reported, [("a/b.c".to_owned(), Change::Missing)]);
        assert_eq!((compared.unknown, compared.same), (2, 1));
        // The entry itself was found; the entries below it were not.
        let found = [file("a/b", 1), file("a/d", 1)];
        let (compared, _) = compare(&expected, &found, &["a/b"], 1 << 20);
        assert_eq!((compared.unknown, compared.same, compared.missing), (1, 2, 1));
    }

    #[test]
    fn path_that_is_pushed_twice_is_listed_once() {
        let mut items = Items::new(1, &std::env::temp_dir());
        for path in ["b", "a", "./a", "b"] {
            items.push(&file(path, 1)).unwrap();
        }
        assert_eq!(items.paths().unwrap().map(Result::unwrap).count(), 2);
    }

    #[test]
    fn a_comparison_ends_when_it_is_asked_to() {
        let items = || {
            let mut items = Items::new(1 << 20, &std::env::temp_dir());
            items.push(&file("a", 1)).unwrap();
            items
        };
        let stop = Stop::new();
        let compare = || super::compare(&mut items(), &mut items(), &stop, |_| ControlFlow::Continue(()));
        assert_eq!(compare().unwrap().same, 1);
        stop.set();
        assert_eq!(compare().unwrap(), Compared::default());
    }
}
