//! The tasks of a rank, and how they look in a parcel: a directory, or a range of the files of one. Tasks wait in *units*:
//! a directory is one, a range as many as it has batches, so that a range of a million files is one entry of a queue and
//! can be given in parts.
//!
//! What a task costs and leads to is in `work.rs`.

use std::collections::VecDeque;

use atta_engine::Share;

use crate::tree::{Node, path_bytes};

/// Bytes of a file's name, on average.
const NAME_BYTES: u64 = 14;

/// What kind of task it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory. `files` counts all files below it, `from` the entries of it that were read already.
    Directory,
    /// Files of a directory: so many, from that one on.
    Files,
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// Of the directory.
    pub(crate) seed: u64,
    pub(crate) depth: u32,
    pub(crate) files: u64,
    pub(crate) from: u64,
}

/// Length of a task in a parcel, as the simulator writes it.
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

    /// Splits so many files off the front of a range.
    fn split(&mut self, files: u64) -> Self {
        let files = files.min(self.files);
        let front = Self { files, ..*self };
        self.from += files;
        self.files -= files;
        front
    }

    /// How long a program would write it: the path of each file alone, or a path and names.
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

/// Tasks on their way: what a program would need for them, and the tasks as the simulator writes them.
pub(crate) fn encode(tasks: &[Task], full_paths: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + tasks.len() * TASK_BYTES);
    let wire: u64 = tasks.iter().map(|task| task.wire_bytes(full_paths)).sum();
    out.extend(wire.to_le_bytes());
    tasks.iter().for_each(|task| task.encode(&mut out));
    out
}

/// How many bytes a program would need for tasks that [`encode`] wrote.
pub(crate) fn wire_bytes(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Reads tasks that [`encode`] wrote.
pub(crate) fn decode(bytes: &[u8]) -> impl DoubleEndedIterator<Item = Task> {
    bytes.get(8..).unwrap_or_default().as_chunks().0.iter().map(Task::decode)
}

/// The tasks that wait on a rank, the oldest in front. Threads take the newest, other ranks get the oldest.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    tasks: VecDeque<Task>,
    units: u64,
    batch: u64,
    gives_evenly: bool,
}

impl Pool {
    /// `gives_evenly`: a share of all is taken from all over the queue, not from its old end.
    pub(crate) fn new(batch: u64, gives_evenly: bool) -> Self {
        Self { tasks: VecDeque::new(), units: 0, batch: batch.max(1), gives_evenly }
    }

    /// How many units wait.
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

    /// Takes a task for a thread of this rank: the newest one, or the oldest while fewer than `breadth` units wait.
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

    /// Takes a share for another rank; how many units that is, and the tasks, the oldest first.
    pub(crate) fn take_share(&mut self, share: Share) -> (u32, Vec<Task>) {
        let wanted = share.of(self.units).min(u64::from(u32::MAX));
        let taken = match share {
            Share::Part(_) if self.gives_evenly => self.take_evenly(wanted),
            _ => self.take_oldest(wanted),
        };
        self.units -= wanted;
        (wanted as u32, taken)
    }

    /// Takes so many units from all over the queue: of each stretch of it as large a part as of the whole.
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

    /// Throws all away.
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
    fn threads_take_the_oldest_directory_while_few_tasks_wait() {
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
