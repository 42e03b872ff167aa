//! The tasks of a rank, and their encoding in a parcel. A task is a directory, or a range of the files of one. Tasks wait in
//! *units*: a directory is one unit, a range has one per batch. So a range of a million files is one entry of a queue and can
//! be given in parts.
//!
//! `work.rs` holds the costs of tasks and their results.

use std::collections::VecDeque;

use atta_engine::Share;

use crate::tree::{Node, path_bytes};

/// Mean length of a file name in bytes.
const NAME_BYTES: u64 = 14;

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory. `files` counts all files below it, `from` the entries already read.
    Directory,
    /// Files of a directory: `files` of them, starting at `from`.
    Files,
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// The seed of the directory.
    pub(crate) seed: u64,
    pub(crate) depth: u32,
    pub(crate) files: u64,
    pub(crate) from: u64,
}

/// Encoded length of a task in the simulator's parcels.
const TASK_BYTES: usize = 28;

impl Task {
    pub(crate) fn directory(node: &Node) -> Self {
        Self { kind: Kind::Directory, seed: node.seed, depth: node.depth, files: node.files, from: 0 }
    }

    pub(crate) fn node(&self) -> Node {
        Node { seed: self.seed, files: self.files, depth: self.depth }
    }

    pub(crate) fn units(&self, batch: u64) -> u64 {
        match self.kind {
            Kind::Directory => 1,
            Kind::Files => self.files.div_ceil(batch),
        }
    }

    /// Splits `files` files off the front of a range.
    fn split(&mut self, files: u64) -> Self {
        let files = files.min(self.files);
        let front = Self { files, ..*self };
        self.from += files;
        self.files -= files;
        front
    }

    /// The encoded length in a real program: the path of each file, or one path and names.
    fn wire_bytes(&self, full_paths: bool) -> u64 {
        match self.kind {
            Kind::Directory => path_bytes(self.depth),
            Kind::Files if full_paths => self.files * path_bytes(self.depth + 1),
            Kind::Files => path_bytes(self.depth) + self.files * NAME_BYTES,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let kind = u32::from(self.kind == Kind::Files) << 31;
        out.extend(self.seed.to_le_bytes());
        out.extend(self.files.to_le_bytes());
        out.extend(self.from.to_le_bytes());
        out.extend((self.depth | kind).to_le_bytes());
    }

    fn decode(bytes: &[u8; TASK_BYTES]) -> Self {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let depth = u32::from_le_bytes(std::array::from_fn(|byte| bytes[24 + byte]));
        let kind = if depth >> 31 == 0 { Kind::Directory } else { Kind::Files };
        Self { kind, seed: number(0), files: number(8), from: number(16), depth: depth & (u32::MAX >> 1) }
    }
}

/// Encodes tasks: the length that a program would need, then the tasks in the simulator's format.
pub(crate) fn encode(tasks: &[Task], full_paths: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + tasks.len() * TASK_BYTES);
    let wire: u64 = tasks.iter().map(|task| task.wire_bytes(full_paths)).sum();
    out.extend(wire.to_le_bytes());
    tasks.iter().for_each(|task| task.encode(&mut out));
    out
}

/// The bytes that a program would need for tasks encoded by [`encode`].
pub(crate) fn wire_bytes(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Decodes tasks encoded by [`encode`].
pub(crate) fn decode(bytes: &[u8]) -> impl DoubleEndedIterator<Item = Task> {
    bytes.get(8..).unwrap_or_default().as_chunks().0.iter().map(Task::decode)
}

/// The waiting tasks of a rank, the oldest in front. Threads take the newest, other ranks receive the oldest.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    tasks: VecDeque<Task>,
    units: u64,
    batch: u64,
    gives_evenly: bool,
}

impl Pool {
    /// `gives_evenly`: shares come from the whole queue, not from its old end.
    pub(crate) fn new(batch: u64, gives_evenly: bool) -> Self {
        Self { tasks: VecDeque::new(), units: 0, batch: batch.max(1), gives_evenly }
    }

    /// The number of waiting units.
    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    pub(crate) fn push_newest(&mut self, task: Task) {
        self.units += task.units(self.batch);
        self.tasks.push_back(task);
    }

    pub(crate) fn push_oldest(&mut self, task: Task) {
        self.units += task.units(self.batch);
        self.tasks.push_front(task);
    }

    /// Takes a task for a local thread: the newest one, or the oldest while fewer than `breadth` units wait.
    pub(crate) fn take(&mut self, breadth: u64, slice: u64) -> Option<Task> {
        let oldest_kind = self.tasks.front().map(|oldest| oldest.kind);
        if self.units >= breadth || oldest_kind != Some(Kind::Directory) {
            return self.take_newest(slice);
        }
        self.units -= 1;
        self.tasks.pop_front()
    }

    /// Takes the newest directory, or up to `slice` units of the newest range.
    fn take_newest(&mut self, slice: u64) -> Option<Task> {
        let newest = self.tasks.back_mut()?;
        let taken = match newest.kind {
            Kind::Files if newest.units(self.batch) > slice => newest.split(slice * self.batch),
            _ => self.tasks.pop_back()?,
        };
        self.units -= taken.units(self.batch);
        Some(taken)
    }

    /// Takes a share for another rank. Returns the number of units and the tasks, the oldest first.
    pub(crate) fn take_share(&mut self, share: Share) -> (u32, Vec<Task>) {
        let wanted = share.of(self.units).min(u64::from(u32::MAX));
        let taken = match share {
            Share::Part(_) if self.gives_evenly => self.take_evenly(wanted),
            _ => self.take_oldest(wanted),
        };
        self.units -= wanted;
        (wanted as u32, taken)
    }

    /// Takes `wanted` units spread over the whole queue: the same fraction of each stretch.
    fn take_evenly(&mut self, wanted: u64) -> Vec<Task> {
        let (mut seen, mut given, mut taken) = (0_u128, 0, Vec::new());
        let all = u128::from(self.units.max(1));
        for mut task in std::mem::take(&mut self.tasks) {
            let units = task.units(self.batch);
            seen += u128::from(units);
            let due = (seen * u128::from(wanted)).div_ceil(all) as u64 - given;
            let count = due.min(units);
            given += count;
            if count == units {
                taken.push(task);
                continue;
            }
            if count > 0 {
                taken.push(task.split(count * self.batch));
            }
            self.tasks.push_back(task);
        }
        taken
    }

    fn take_oldest(&mut self, wanted: u64) -> Vec<Task> {
        let (mut missing, mut taken) = (wanted, Vec::new());
        while missing > 0
            && let Some(oldest) = self.tasks.front_mut()
        {
            let units = oldest.units(self.batch);
            if units > missing {
                taken.push(oldest.split(missing * self.batch));
                missing = 0;
            } else {
                taken.extend(self.tasks.pop_front());
                missing -= units;
            }
        }
        taken
    }

    /// Discards all tasks.
    pub(crate) fn clear(&mut self) {
        self.tasks = VecDeque::new();
        self.units = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(from: u64, files: u64) -> Task {
        Task { kind: Kind::Files, seed: 7, depth: 3, files, from }
    }

    fn directory(seed: u64) -> Task {
        Task::directory(&Node { seed, files: 5, depth: 1 })
    }

    #[test]
    fn threads_take_the_newest_and_others_get_the_oldest() {
        let mut pool = Pool::new(10, false);
        pool.push_newest(directory(1));
        pool.push_newest(files(0, 95));
        assert_eq!(pool.units(), 11);
        assert_eq!(pool.take_newest(1), Some(files(0, 10)));
        assert_eq!(pool.take_share(Share::Part(1 << 15)), (5, vec![directory(1), files(10, 40)]));
        assert_eq!(pool.units(), 5);
        assert_eq!(pool.take_newest(9), Some(files(50, 45)));
        assert_eq!((pool.take_newest(1), pool.units()), (None, 0));
    }

    #[test]
    fn threads_take_the_oldest_directory_first() {
        let mut pool = Pool::new(10, false);
        (1..=3).for_each(|seed| pool.push_newest(directory(seed)));
        assert_eq!(pool.take(3, 1), Some(directory(3)));
        assert_eq!(pool.take(3, 1), Some(directory(1)));
        assert_eq!(pool.units(), 1);
        pool.push_oldest(files(0, 5));
        assert_eq!(pool.take(9, 1), Some(directory(2)));
        assert_eq!((pool.take(9, 1), pool.take(9, 1), pool.units()), (Some(files(0, 5)), None, 0));
    }

    #[test]
    fn an_even_share_comes_from_all_over_the_queue() {
        let mut pool = Pool::new(10, true);
        (1..=5).for_each(|seed| pool.push_newest(directory(seed)));
        pool.push_newest(files(0, 25));
        let expected = vec![directory(1), directory(3), directory(5), files(0, 10)];
        assert_eq!(pool.take_share(Share::Part(1 << 15)), (4, expected));
        assert_eq!((pool.units(), pool.tasks.len()), (4, 3));
        assert_eq!(pool.take_share(Share::Part(u16::MAX)).0, 4);
        assert_eq!((pool.units(), pool.tasks.len()), (0, 0));
    }

    #[test]
    fn tasks_are_read_back_as_they_were_written() {
        let tasks = [directory(u64::MAX), files(3, 1 << 39)];
        let bytes = encode(&tasks, true);
        assert!(decode(&bytes).eq(tasks));
        assert_eq!(wire_bytes(&bytes), path_bytes(1) + (1 << 39) * path_bytes(4));
    }
}
