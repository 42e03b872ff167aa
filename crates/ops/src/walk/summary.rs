//! Sums a tree up while it is walked: counts by kind, bytes apparent and allocated. Files with several names count
//! once.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use atta_entry::{Entry, Errno, Failure, Kind};

use super::hard_links::{HardLinks, Seen};

/// The sums of a tree, or of one thread's part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Entries of each kind, in the order of [`Kind::ALL`]: names, so a file with two names is two.
    pub by_kind: [u64; Kind::ALL.len()],
    /// Apparent bytes of regular files; a file with several names counts once.
    pub apparent_bytes: u64,
    /// Allocated bytes of all entries, directories included, as `du` counts; a file with several names counts once.
    pub allocated_bytes: u64,
    /// Names beyond the first of files with several.
    pub extra_links: u64,
    /// Names of which the memory did not tell at once whether they are first ones.
    put_off: u64,
    /// The largest depth.
    pub depth_max: u32,
    /// Entries that failed, by error number.
    pub failures: BTreeMap<Errno, u64>,
}

impl Totals {
    /// Entries of one kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> u64 {
        self.by_kind[kind as usize]
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// All failures.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Adds what another thread counted.
    pub fn merge(&mut self, other: &Self) {
        self.by_kind.iter_mut().zip(other.by_kind).for_each(|(sum, more)| *sum += more);
        self.apparent_bytes = self.apparent_bytes.saturating_add(other.apparent_bytes);
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.extra_links += other.extra_links;
        self.put_off += other.put_off;
        self.depth_max = self.depth_max.max(other.depth_max);
        other.failures.iter().for_each(|(&errno, count)| *self.failures.entry(errno).or_default() += count);
    }

    /// Counts one failure.
    pub fn fail(&mut self, failure: &Failure<'_>) {
        *self.failures.entry(failure.errno).or_default() += 1;
    }
}

/// Sums a tree up. One for all threads; each has its own [`Totals`].
#[derive(Debug)]
pub struct Summary {
    links: HardLinks,
    /// Whether one name of a file may be met more than once: through links that are followed.
    repeats: bool,
}

impl Summary {
    /// Remembers files with several names in up to `memory_bytes`; the rest goes to a file in `spill_directory`. If
    /// `follow` is set, every file is remembered: a link that is followed shows it once more.
    #[must_use]
    pub fn new(memory_bytes: u64, spill_directory: PathBuf, follow: bool) -> Self {
        Self { links: HardLinks::new(memory_bytes, spill_directory), repeats: follow }
    }

    /// Adds an entry.
    pub fn add(&self, totals: &mut Totals, entry: &Entry<'_>) {
        totals.by_kind[entry.kind as usize] += 1;
        totals.depth_max = totals.depth_max.max(entry.depth);
        let Some(metadata) = entry.metadata else { return };
        let apparent = if entry.kind == Kind::File { metadata.size } else { 0 };
        let allocated = metadata.allocated_bytes();
        if self.repeats || (metadata.nlink > 1 && entry.kind != Kind::Directory) {
            let inode = (metadata.device, metadata.inode);
            // How often it will be met nobody knows if links are followed: then it is never forgotten.
            let names = if self.repeats { u32::MAX } else { metadata.nlink };
            match self.links.note(inode, names, apparent, allocated) {
                Seen::First => {}
                Seen::Again => {
                    totals.extra_links += 1;
                    return;
                }
                Seen::Later => {
                    totals.put_off += 1;
                    return;
                }
            }
        }
        totals.apparent_bytes = totals.apparent_bytes.saturating_add(apparent);
        totals.allocated_bytes = totals.allocated_bytes.saturating_add(allocated);
    }

    /// The sums over all threads.
    ///
    /// # Errors
    /// The file for names that did not fit in memory could not be used; the totals then lack them.
    pub fn finish<'t>(self, threads: impl IntoIterator<Item = &'t Totals>) -> (Totals, io::Result<()>) {
        let mut sum = Totals::default();
        threads.into_iter().for_each(|totals| sum.merge(totals));
        let settled = self.links.settle().map(|settled| {
            sum.apparent_bytes = sum.apparent_bytes.saturating_add(settled.apparent_bytes);
            sum.allocated_bytes = sum.allocated_bytes.saturating_add(settled.allocated_bytes);
            sum.extra_links += sum.put_off - settled.inodes;
            sum.put_off = 0;
        });
        (sum, settled)
    }
}
