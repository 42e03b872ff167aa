//! Sorts any number of records by key in bounded memory. Records that do not fit are sorted in runs and written to an unnamed file. All
//! runs are merged at the end. The meaning of records is unknown here.
//!
//! ```text
//!   push ─▶ in memory ──full: sort──▶ [ run | run | run ... ]  one file
//!                │ last: sort              │ one buffer each
//!                └────────────▶ merge ◀────┘
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use atta_entry::Errno;

use crate::file::source::Identity;

/// Bytes of a file in a key.
pub(crate) const FILE_BYTES: usize = 16;
/// Bytes of a run that are read at a time.
const BUFFER: usize = 64 << 10;
/// Memory of a record beside its bytes: its place, and the lengths before it.
const EXTRA: usize = size_of::<Place>() + 8;

/// Collects records.
#[derive(Debug)]
pub struct Sorter {
    memory: usize,
    directory: PathBuf,
    bytes: Vec<u8>,
    places: Vec<Place>,
    file: Option<File>,
    /// Offsets at which the runs start, and the end of the last one.
    runs: Vec<u64>,
}

/// One record in memory: its key and its value.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    key: u32,
    value: u32,
}

/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

impl Sorter {
    /// Creates a sorter that keeps this many bytes in memory and makes its file in `directory`.
    #[must_use]
    pub fn new(memory: u64, directory: &Path) -> Self {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let (bytes, places) = (Vec::new(), Vec::new());
        Self { memory, directory: directory.to_owned(), bytes, places, file: None, runs: vec![0] }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The record does not fit in memory, and the file cannot be written.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| io::Error::other("a record of more than 4 GiB"))
        };
        let place = Place { start: self.bytes.len(), key: length(key)?, value: length(value)? };
        let taken = self.bytes.len() + key.len() + value.len() + (self.places.len() + 1) * EXTRA;
        if taken > self.memory && !self.places.is_empty() {
            self.write_run()?;
            return self.push(key, value);
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.places.push(place);
        Ok(())
    }

    /// Returns all records by key; records of one key in no defined order. It can be called again.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn sorted(&mut self) -> io::Result<Sorted<'_>> {
        self.sort();
        let runs = self.runs.windows(2).map(|ends| Run::new(ends[0], ends[1]));
        let mut sorted = Sorted { sorter: self, runs: runs.collect(), next: 0, heads: BinaryHeap::new() };
        for run in 0..sorted.runs.len() {
            sorted.refill(run)?;
        }
        sorted.refill(sorted.runs.len())?;
        Ok(sorted)
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|one, other| one.key_in(bytes).cmp(other.key_in(bytes)));
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.sort();
        if self.file.is_none() {
            self.file = Some(atta_runtime::unnamed_file(&self.directory)?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let mut at = self.runs.last().copied().unwrap_or(0);
        let mut out = Vec::with_capacity(2 * BUFFER);
        for place in &self.places {
            out.extend_from_slice(&place.key.to_le_bytes());
            out.extend_from_slice(&place.value.to_le_bytes());
            out.extend_from_slice(&self.bytes[place.start..place.end()]);
            if out.len() >= BUFFER {
                file.write_all_at(&out, at)?;
                at += out.len() as u64;
                out.clear();
            }
        }
        file.write_all_at(&out, at)?;
        self.runs.push(at + out.len() as u64);
        self.bytes.clear();
        self.places.clear();
        Ok(())
    }
}

impl Place {
    fn key_in(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.start + self.key as usize]
    }

    fn end(self) -> usize {
        self.start + self.key as usize + self.value as usize
    }
}

/// Sorted records.
pub struct Sorted<'a> {
    sorter: &'a Sorter,
    runs: Vec<Run>,
    /// Index of the next record in memory.
    next: usize,
    /// The first record of each run, and of memory.
    heads: BinaryHeap<Reverse<Head>>,
}

/// A key, the index of its run, and its value.
type Head = (Vec<u8>, usize, Vec<u8>);

/// The rest of a run.
struct Run {
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl Run {
    fn new(at: u64, end: u64) -> Self {
        Self { at, end, buffer: Vec::new(), used: 0 }
    }

    fn read(&mut self, file: &File) -> io::Result<Option<Record>> {
        let Some(lengths) = self.take(file, 8)? else { return Ok(None) };
        let length = |at: usize| lengths[at..at + 4].try_into().map_or(0, u32::from_le_bytes) as usize;
        let (key, value) = (length(0), length(4));
        let key = self.take(file, key)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let value = self.take(file, value)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Some((key, value)))
    }

    /// Returns the next `count` bytes. None: the run ends here.
    fn take(&mut self, file: &File, count: usize) -> io::Result<Option<Vec<u8>>> {
        let missing = count.saturating_sub(self.buffer.len() - self.used);
        if missing > 0 {
            self.buffer.drain(..std::mem::take(&mut self.used));
            let old = self.buffer.len();
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            if missing > left {
                return if old == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            let more = missing.max(BUFFER).min(left);
            self.buffer.resize(old + more, 0);
            file.read_exact_at(&mut self.buffer[old..], self.at)?;
            self.at += more as u64;
        }
        let taken = self.buffer[self.used..self.used + count].to_vec();
        self.used += count;
        Ok(Some(taken))
    }
}

impl Sorted<'_> {
    /// Adds the next record of a run to the heads. The index after the last run stands for memory.
    fn refill(&mut self, run: usize) -> io::Result<()> {
        let record = match (self.runs.get_mut(run), &self.sorter.file) {
            (Some(run), Some(file)) => run.read(file)?,
            _ => {
                let bytes = &self.sorter.bytes;
                let place = self.sorter.places.get(self.next).copied();
                self.next += 1;
                place.map(|place| {
                    let key = place.key_in(bytes);
                    (key.to_vec(), bytes[place.start + key.len()..place.end()].to_vec())
                })
            }
        };
        if let Some((key, value)) = record {
            self.heads.push(Reverse((key, run, value)));
        }
        Ok(())
    }

    fn pop(&mut self) -> io::Result<Option<Record>> {
        let Some(Reverse((key, run, value))) = self.heads.pop() else { return Ok(None) };
        self.refill(run)?;
        Ok(Some((key, value)))
    }
}

impl Iterator for Sorted<'_> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pop().transpose()
    }
}

/// The number of an error, for a report.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno)
}

/// A file as a key that sorts like it.
pub(crate) fn key_of_file((device, inode): Identity) -> [u8; FILE_BYTES] {
    (u128::from(device) << 64 | u128::from(inode)).to_be_bytes()
}

/// Converts a path to a sort key.
///
/// Everything below a directory follows it directly, before any name that begins with the directory's name. Paths that differ only in `.`
/// and in slashes have one key.
#[must_use]
pub fn key_of(path: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(path.len());
    if path.starts_with(b"/") {
        key.push(0);
    }
    let start = key.len();
    for name in path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
        if key.len() > start {
            // No name contains this byte, and no byte is smaller.
            key.push(0);
        }
        key.extend_from_slice(name);
    }
    key
}

/// Whether a path is equal to another or below it, by their keys.
#[must_use]
pub fn is_below(key: &[u8], above: &[u8]) -> bool {
    match key.strip_prefix(above) {
        Some(rest) => {
            let is_root = above == [0];
            // The empty path: all relative paths are below it.
            let is_here = above.is_empty() && !key.starts_with(&[0]);
            rest.is_empty() || is_root || is_here || (!above.is_empty() && rest.starts_with(&[0]))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_come_sorted_whatever_fits(
            records in proptest::collection::vec((proptest::collection::vec(0_u8..4, 0..5), proptest::collection::vec(any::<u8>(), 0..200)), 0..300),
            memory in 1_u64..4000,
        ) {
            let mut sorter = Sorter::new(memory, &std::env::temp_dir());
            records.iter().for_each(|(key, value)| sorter.push(key, value).unwrap());
            for _ in 0..2 {
                let mut sorted: Vec<Record> = sorter.sorted().unwrap().map(Result::unwrap).collect();
                prop_assert!(sorted.is_sorted_by(|one, other| one.0 <= other.0));
                sorted.sort();
                let mut expected = records.clone();
                expected.sort();
                prop_assert_eq!(sorted, expected);
            }
        }
    }

    #[test]
    fn records_longer_than_any_buffer_come_back() {
        let mut sorter = Sorter::new(1, &std::env::temp_dir());
        let long = vec![7; 3 * BUFFER + 1];
        for key in [3_u8, 1, 2] {
            sorter.push(&[key], &long).unwrap();
        }
        assert_eq!(sorter.runs.len(), 3);
        let sorted: Vec<_> = sorter.sorted().unwrap().map(Result::unwrap).collect();
        assert_eq!(sorted, [1, 2, 3].map(|key| (vec![key], long.clone())));
    }

    #[test]
    fn what_is_below_a_directory_comes_right_after_it() {
        let mut paths = [&b"a-b"[..], b"a/b", b"a", b"./a//c/", b"a.", b"/a", b"/", b"."];
        paths.sort_by_key(|path| key_of(path));
        assert_eq!(paths, [&b"."[..], b"/", b"/a", b"a", b"a/b", b"./a//c/", b"a-b", b"a."]);
        assert_eq!(key_of(b"./a//b/."), key_of(b"a/b"));
        let below = |path: &[u8], above: &[u8]| is_below(&key_of(path), &key_of(above));
        assert!(below(b"a/b", b"a") && below(b"a", b"a") && below(b"a", b".") && below(b"/a", b"/"));
        assert!(below(b"/a/b", b"/a") && !below(b"ab", b"a") && !below(b"a", b"a/b"));
        assert!(!below(b"/a", b".") && !below(b"a", b"/") && !below(b"/ab", b"/a"));
    }
}
