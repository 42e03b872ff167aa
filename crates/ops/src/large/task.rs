//! The tasks of large files as bytes, which are also sent to other ranks. They hold everything that a rank needs to process chunks of a
//! file that another rank planned. No I/O.

use std::ffi::CString;
use std::ops::Range;

use crate::tree::listing::names::is_name;

/// A task of a large file. `K`: what identifies the file for other ranks. `R`: the result of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LargeTask<K, R> {
    /// Open a file and cut it.
    Plan(Plan),
    /// Process these chunks.
    Chunks(ChunkRange<K>),
    /// A chunk has ended on another rank.
    Ended { file: u64, chunk: u64, result: R },
}

impl<K, R> LargeTask<K, R> {
    /// Whether it names a file as an entry of its directory.
    pub(crate) fn names_an_entry(&self) -> bool {
        match self {
            Self::Plan(plan) => is_name(&plan.name),
            Self::Chunks(chunks) => is_name(&chunks.name),
            Self::Ended { .. } => true,
        }
    }
}

/// A file to be opened and cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Its name in the task's directory, or the whole path of a root.
    pub(crate) name: CString,
    /// Whether this is the second attempt, after a change during the first.
    pub(crate) is_again: bool,
    /// The bytes that were counted as remaining work.
    pub(crate) bytes: u64,
}

impl Plan {
    /// For the first attempt.
    pub(crate) fn first(name: &[u8], bytes: u64) -> Self {
        Self { name: CString::new(name).unwrap_or_default(), is_again: false, bytes }
    }
}

/// Consecutive chunks of one file that are not yet processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRange<K> {
    /// The rank that planned the file, and the number of the file there.
    pub(crate) rank: u32,
    pub(crate) file: u64,
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Bytes per chunk, except for the last chunk of the file.
    pub(crate) bytes: u64,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// As [`Plan::name`].
    pub(crate) name: CString,
    pub(crate) key: K,
}

/// Most chunks of a file; see `file/chunks.rs`.
const CHUNKS_MAX: u64 = 2 << 20;

impl<K> ChunkRange<K> {
    /// Whether the file has these chunks.
    fn is_possible(&self) -> bool {
        let all = if self.bytes > 0 { self.size.div_ceil(self.bytes) } else { 0 };
        let end = self.first.checked_add(self.count);
        self.count > 0 && all <= CHUNKS_MAX && end.is_some_and(|end| end <= all)
    }
}

impl<K: Clone> ChunkRange<K> {
    /// Splits off all but the first half, which keeps at least one chunk. None: there is only one chunk.
    pub(crate) fn split(&mut self) -> Option<Self> {
        let kept = self.count.div_ceil(2);
        let others = self.count - kept;
        let rest = Self { first: self.first + kept, count: others, ..self.clone() };
        self.count = kept;
        (others > 0).then_some(rest)
    }

    /// The chunks that are not among these, which are in order, as ranges.
    pub(crate) fn without(&self, known: impl Iterator<Item = u64>) -> Vec<Self> {
        let end = self.first + self.count;
        let mut left = Vec::new();
        let mut from = self.first;
        for until in known.chain([end]) {
            if until > from {
                left.push(Self { first: from, count: until - from, ..self.clone() });
            }
            from = until + 1;
        }
        left
    }

    /// Each of these chunks by itself.
    pub(crate) fn each(&self) -> impl Iterator<Item = Self> {
        (self.first..self.first + self.count).map(|first| Self { first, count: 1, ..self.clone() })
    }

    /// Byte range of the first chunk.
    pub(crate) fn range(&self) -> Range<u64> {
        let start = self.first.saturating_mul(self.bytes);
        start..start.saturating_add(self.bytes).min(self.size)
    }
}

atta_entry::record!(Plan { name, is_again, bytes });
atta_entry::record!(<K> ChunkRange<K> { rank, file, first, count, bytes, size, name, key } if is_possible);

atta_entry::choice!(<K, R> LargeTask<K, R> {
    b'P' => Plan(plan),
    b'C' => Chunks(chunks),
    b'E' => Ended { file, chunk, result },
});

#[cfg(test)]
mod tests {
    use atta_entry::Code as _;

    use super::*;

    type Task = LargeTask<u32, Result<u64, bool>>;

    fn range() -> ChunkRange<u32> {
        let (bytes, size, name) = (1 << 30, 1 << 40 | 5, c"a\n\xffb".into());
        ChunkRange { rank: 70_000, file: 3, first: 8, count: 5, bytes, size, name, key: 9 }
    }

    #[test]
    fn encoded_tasks_survive_damage() {
        let ended = |result| Task::Ended { file: 9, chunk: 1 << 40, result };
        let plan = Plan { name: c"a/b".into(), is_again: true, bytes: 1 << 40 };
        for task in [Task::Plan(plan), Task::Chunks(range()), ended(Ok(7)), ended(Err(true))] {
            let bytes = task.encoded();
            assert_eq!(Task::decode_all(&bytes).as_ref(), Some(&task));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x5a;
                assert_ne!(Task::decode_all(&damaged).as_ref(), Some(&task));
                assert_eq!(Task::decode_all(&bytes[..at]), None);
            }
        }
    }

    #[test]
    fn chunks_that_the_file_has_not_are_refused() {
        let is_read = |range: ChunkRange<u32>| ChunkRange::<u32>::decode_all(&range.encoded()).is_some();
        assert!(is_read(ChunkRange { first: 1024, count: 1, ..range() }));
        for wrong in [
            ChunkRange { first: 1024, count: 2, ..range() },
            ChunkRange { first: u64::MAX, ..range() },
            ChunkRange { count: 0, ..range() },
            ChunkRange { bytes: 0, ..range() },
            ChunkRange { bytes: 1, count: u64::MAX - 8, size: u64::MAX, ..range() },
        ] {
            assert!(!is_read(wrong.clone()), "{wrong:?}");
        }
    }

    #[test]
    fn names_of_tasks_in_a_directory_lead_nowhere_else() {
        for (name, is_entry) in [(c"a", true), (c"..", false), (c"a/b", false), (c"/etc/passwd", false)] {
            let chunks = Task::Chunks(ChunkRange { name: name.into(), ..range() });
            let plan = Task::Plan(Plan { name: name.into(), is_again: false, bytes: 0 });
            assert_eq!((chunks.names_an_entry(), plan.names_an_entry()), (is_entry, is_entry), "{name:?}");
        }
    }

    #[test]
    fn chunks_are_split_until_each_is_alone() {
        let mut waiting = vec![ChunkRange { first: 0, count: 1025, ..range() }];
        let (mut next, mut most) = (0, 0);
        while let Some(mut some) = waiting.pop() {
            while let Some(rest) = some.split() {
                waiting.push(rest);
            }
            assert_eq!((some.first, some.count), (next, 1));
            next += 1;
            most = most.max(waiting.len());
        }
        assert_eq!((next, most), (1025, 11));
        let last = ChunkRange { first: 1024, ..range() };
        assert_eq!(last.range(), 1 << 40..1 << 40 | 5);
    }
}
