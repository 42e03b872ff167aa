//! Counts files with several names once, in bounded memory: a table of inodes seen, and a file for those that do not fit.
//!
//! An inode is remembered from its first name until all its names were seen. When the memory is full, names of other inodes go to an
//! unlinked file, in parts by a hash of the inode. At the end each part is read back and its inodes are counted once. So the sums are exact
//! for any number of links.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_runtime::Stop;

/// Parts of the table with a lock of their own, and of the file.
const PARTS: usize = 64;
/// Approximate size of one inode in the table: 24 bytes, the hash table's spare room, and its control bytes.
const INODE_BYTES: u64 = 56;
/// Bytes of one record in the file.
const RECORD_BYTES: usize = 32;
/// Bytes gathered before they are written.
const CHUNK_BYTES: usize = RECORD_BYTES * 512;

/// Which files with several names were seen.
#[derive(Debug)]
pub struct HardLinks {
    parts: Vec<Mutex<Part>>,
    inodes_per_part: usize,
    hash: RandomState,
    overflow: Mutex<Overflow>,
}

#[derive(Debug, Default)]
struct Part {
    /// Names that are still to come, by device and inode.
    names_left: HashMap<(u64, u64), u32>,
    /// Records for the file.
    chunk: Vec<u8>,
}

#[derive(Debug, Default)]
struct Overflow {
    directory: PathBuf,
    file: Option<File>,
    end: u64,
    /// Where the chunks of each part are.
    chunks: Vec<(usize, u64, usize)>,
    error: Option<io::Error>,
}

/// One name of a file that may have several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkedName {
    /// Device and inode.
    pub inode: (u64, u64),
    /// How many names the inode has.
    pub names: u32,
    /// Its apparent bytes.
    pub apparent_bytes: u64,
    /// Its allocated bytes.
    pub allocated_bytes: u64,
}

/// Whether a name counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The first name of its inode: count it.
    First,
    /// Another name of an inode that was counted.
    Again,
    /// Not known yet: it is counted at the end, by [`HardLinks::settle`].
    Later,
}

/// What was counted at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Inodes.
    pub inodes: u64,
    /// Their apparent bytes.
    pub apparent_bytes: u64,
    /// Their allocated bytes.
    pub allocated_bytes: u64,
}

impl HardLinks {
    /// Remembers inodes in up to `memory_bytes`; the rest goes to a file without a name in `directory`.
    #[must_use]
    pub fn new(memory_bytes: u64, directory: PathBuf) -> Self {
        let inodes = usize::try_from(memory_bytes / INODE_BYTES).unwrap_or(usize::MAX);
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            inodes_per_part: inodes / PARTS,
            hash: RandomState::new(),
            overflow: Mutex::new(Overflow { directory, ..Overflow::default() }),
        }
    }

    /// Notes one name of an inode.
    pub fn note(&self, name: &LinkedName) -> Seen {
        let LinkedName { inode, names, apparent_bytes, allocated_bytes } = *name;
        let index = usize::try_from(self.hash.hash_one(inode) >> 32).unwrap_or(0) % PARTS;
        let mut part = lock(&self.parts[index]);
        if let Some(left) = part.names_left.get_mut(&inode) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                part.names_left.remove(&inode);
            }
            return Seen::Again;
        }
        // Once a name went to the file, later names of that inode must go there too, so the part stays closed.
        if part.names_left.len() < self.inodes_per_part && part.chunk.capacity() == 0 {
            part.names_left.insert(inode, names.saturating_sub(1).max(1));
            return Seen::First;
        }
        for number in [inode.0, inode.1, apparent_bytes, allocated_bytes] {
            part.chunk.extend_from_slice(&number.to_ne_bytes());
        }
        if part.chunk.len() >= CHUNK_BYTES {
            lock(&self.overflow).write(index, &part.chunk);
            part.chunk.clear();
        }
        Seen::Later
    }

    /// Counts the names that were put off; only some of them if `stop` is set.
    ///
    /// # Errors
    /// The file could not be made, written or read: the sums would be wrong.
    pub fn settle(self, stop: &Stop) -> io::Result<Settled> {
        let mut overflow = self.overflow.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = overflow.error.take() {
            return Err(error);
        }
        let mut settled = Settled::default();
        for (index, part) in self.parts.into_iter().enumerate().take_while(|_| !stop.is_set()) {
            let part = part.into_inner().unwrap_or_else(PoisonError::into_inner);
            let mut records = part.chunk;
            for &(_, offset, length) in overflow.chunks.iter().filter(|chunk| chunk.0 == index) {
                let from = records.len();
                records.resize(from + length, 0);
                if let Some(file) = &overflow.file {
                    file.read_exact_at(&mut records[from..], offset)?;
                }
            }
            settled.add(&records);
        }
        Ok(settled)
    }
}

impl Settled {
    /// Counts each inode of one part once.
    fn add(&mut self, records: &[u8]) {
        let number = |record: &[u8], at: usize| {
            record
                .get(at * 8..at * 8 + 8)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u64::from_ne_bytes)
        };
        let mut inodes: Vec<_> = records
            .chunks_exact(RECORD_BYTES)
            .map(|record| [0, 1, 2, 3].map(|at| number(record, at)))
            .collect();
        inodes.sort_unstable_by_key(|&[device, inode, ..]| (device, inode));
        inodes.dedup_by_key(|&mut [device, inode, ..]| (device, inode));
        self.inodes += inodes.len() as u64;
        for [_, _, apparent, allocated] in inodes {
            self.apparent_bytes = self.apparent_bytes.saturating_add(apparent);
            self.allocated_bytes = self.allocated_bytes.saturating_add(allocated);
        }
    }
}

impl Overflow {
    fn write(&mut self, part: usize, chunk: &[u8]) {
        if self.error.is_some() {
            return;
        }
        match self.try_write(chunk) {
            Ok(offset) => self.chunks.push((part, offset, chunk.len())),
            Err(error) => self.error = Some(error),
        }
    }

    fn try_write(&mut self, chunk: &[u8]) -> io::Result<u64> {
        if self.file.is_none() {
            self.file = Some(atta_runtime::unnamed_file(&self.directory)?);
        }
        let offset = self.end;
        if let Some(file) = &self.file {
            file.write_all_at(chunk, offset)?;
        }
        self.end += chunk.len() as u64;
        Ok(offset)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(inode: u64, names: u32) -> LinkedName {
        LinkedName { inode: (1, inode), names, apparent_bytes: 10, allocated_bytes: 512 }
    }

    /// Notes every name of `inodes` inodes with three names each, in an order that mixes them.
    fn count(memory_bytes: u64, inodes: u64) -> (u64, u64) {
        let links = HardLinks::new(memory_bytes, std::env::temp_dir());
        let mut first = 0;
        for number in 0..inodes * 3 {
            let inode = number.wrapping_mul(7919) % inodes;
            if links.note(&name(inode, 3)) == Seen::First {
                first += 1;
            }
        }
        let settled = links.settle(&Stop::new()).unwrap();
        assert_eq!(settled.apparent_bytes, settled.inodes * 10);
        assert_eq!(settled.allocated_bytes, settled.inodes * 512);
        (first, settled.inodes)
    }

    #[test]
    fn every_inode_counts_once_with_any_memory() {
        assert_eq!(count(1 << 30, 10_000), (10_000, 0));
        let (first, later) = count(64 << 10, 100_000);
        assert_eq!(first + later, 100_000);
        assert!(later > 90_000, "{first} + {later}");
        assert_eq!(count(0, 1000), (0, 1000));
    }

    #[test]
    fn an_inode_whose_names_are_all_seen_is_forgotten() {
        let links = HardLinks::new(1 << 20, std::env::temp_dir());
        for inode in 0..1_000_000 {
            assert_eq!(links.note(&name(inode, 2)), Seen::First);
            assert_eq!(links.note(&name(inode, 2)), Seen::Again);
        }
        assert_eq!(links.settle(&Stop::new()).unwrap(), Settled::default());
    }

    #[test]
    fn deferred_names_are_not_counted_after_a_stop() {
        let links = HardLinks::new(0, std::env::temp_dir());
        assert_eq!(links.note(&name(1, 2)), Seen::Later);
        let stop = Stop::new();
        stop.set();
        assert_eq!(links.settle(&stop).unwrap(), Settled::default());
    }

    #[test]
    fn file_that_cannot_be_made_is_an_error() {
        let links = HardLinks::new(0, "/nonexistent".into());
        for inode in 0..100_000 {
            assert_ne!(links.note(&name(inode, 2)), Seen::Again);
        }
        assert!(links.settle(&Stop::new()).is_err());
    }
}
