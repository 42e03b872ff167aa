//! The tasks of large files, which are sent to other ranks. They hold everything that a rank needs to copy chunks of a file that another
//! rank planned. No I/O.
//!
//! A name is that of a file in the task's directory, or the whole path of a root.

use std::ffi::CString;

use atta_entry::{Code, Metadata, Timestamp};

use crate::digest::PieceValue;
use crate::file::error::FileError;
use crate::file::holes::may_have_holes;
use crate::jobs::names::PREFIX;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// `bytes`: the bytes that were counted as remaining work.
    Plan {
        name: CString,
        is_again: bool,
        bytes: u64,
    },
    Stretch(Stretch),
    Ended {
        file: u64,
        chunk: u64,
        came: Came,
    },
}

/// The result of a chunk: its value, if digests are wanted.
pub(crate) type Came = Result<Option<PieceValue>, FileError>;

/// Consecutive chunks of one file that are not yet copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The rank that planned the file, and the number of the file there.
    pub(crate) rank: u32,
    pub(crate) file: u64,
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Bytes per chunk, except for the last chunk of the file.
    pub(crate) bytes: u64,
    /// Whether the file gets a digest.
    pub(crate) is_hashed: bool,
    pub(crate) version: Version,
    pub(crate) name: CString,
    pub(crate) temporary: CString,
}

/// Identifies the file on both sides, and the state of the source before the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) size: u64,
    mtime: (i64, u32),
    ctime: (i64, u32),
    mode: u32,
    /// Whether the file has fewer blocks than bytes.
    pub(crate) has_holes: bool,
    /// Inode of the copy.
    pub(crate) inode: u64,
}

impl Version {
    pub(crate) fn new(source: &Metadata, copy_inode: u64) -> Self {
        let time = |time: Timestamp| (time.seconds, time.nanoseconds);
        Self {
            size: source.size,
            mtime: time(source.mtime),
            ctime: time(source.ctime),
            mode: source.mode,
            has_holes: may_have_holes(source),
            inode: copy_inode,
        }
    }

    /// Whether the source is unchanged.
    pub(crate) fn is_of(&self, source: &Metadata) -> bool {
        // The number of blocks may change although the content does not.
        Self { has_holes: self.has_holes, ..Self::new(source, self.inode) } == *self
    }
}

atta_entry::record!(Version { size, mtime, ctime, mode, has_holes, inode });
atta_entry::record!(Stretch { rank, file, first, count, bytes, is_hashed, version, name, temporary });

impl Stretch {
    /// Splits off all but the first half, which keeps at least one chunk. None: there is only one chunk.
    pub(crate) fn split(&mut self) -> Option<Self> {
        let kept = self.count.div_ceil(2);
        let others = self.count - kept;
        let rest = Self { first: self.first + kept, count: others, ..self.clone() };
        self.count = kept;
        (others > 0).then_some(rest)
    }

    /// Whether the temporary name is one that this program makes. Any other name from another rank is rejected.
    fn is_of_program(&self) -> bool {
        let temporary = self.temporary.as_bytes();
        temporary.starts_with(PREFIX) && !temporary.contains(&b'/')
    }

    /// Byte range of the first chunk.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        let start = self.first.saturating_mul(self.bytes);
        start..start.saturating_add(self.bytes).min(self.version.size)
    }
}

impl Code for Task {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Plan { name, is_again, bytes } => {
                out.push(b'P');
                name.encode(out);
                (*is_again, *bytes).encode(out);
            }
            Self::Stretch(stretch) => {
                out.push(b'C');
                stretch.encode(out);
            }
            Self::Ended { file, chunk, came } => {
                out.push(b'E');
                (*file, *chunk, *came).encode(out);
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        match u8::decode(bytes)? {
            b'P' => {
                let (name, is_again, bytes) = Code::decode(bytes)?;
                Some(Self::Plan { name, is_again, bytes })
            }
            b'C' => Stretch::decode(bytes).filter(Stretch::is_of_program).map(Self::Stretch),
            b'E' => {
                let (file, chunk, came) = Code::decode(bytes)?;
                Some(Self::Ended { file, chunk, came })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::Errno;

    use super::*;
    use crate::file::error::Step;

    fn metadata() -> Metadata {
        let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        Metadata {
            mode: 0o100_640,
            size: 1 << 40 | 5,
            blocks: 8,
            mtime: time(-7, 999_999_999),
            ctime: time(1 << 33, 1),
            ..Metadata::default()
        }
    }

    fn stretch() -> Stretch {
        let version = Version::new(&metadata(), u64::MAX);
        let (name, temporary) = (c"a\n\xffb".into(), c".atta.0123456789ab".into());
        let (first, count, is_hashed) = (8, 5, true);
        Stretch { rank: 70_000, file: 3, first, count, bytes: 1 << 30, is_hashed, version, name, temporary }
    }

    fn tasks() -> Vec<Task> {
        let ended = |came| Task::Ended { file: 9, chunk: 1 << 40, came };
        vec![
            Task::Plan { name: c"a/b".into(), is_again: true, bytes: 1 << 40 },
            Task::Stretch(stretch()),
            ended(Ok(None)),
            ended(Ok(Some(PieceValue::decode_all(&[7; 32]).unwrap()))),
            ended(Err(FileError::Changed)),
            ended(Err(FileError::Stopped)),
            ended(Err(FileError::new(Step::Write, Errno::NOSPC))),
            ended(Err(FileError::new(Step::Open, Errno::NOENT))),
        ]
    }

    #[test]
    fn tasks_survive_being_bytes_and_damaged_ones_are_none_or_others() {
        for task in tasks() {
            let bytes = task.encoded();
            assert_eq!(Task::decode_all(&bytes).as_ref(), Some(&task));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x5a;
                assert_ne!(Task::decode_all(&damaged).as_ref(), Some(&task));
                assert_eq!(Task::decode_all(&bytes[..at]), None);
            }
        }
        let elsewhere = Stretch { temporary: c"../passwd".into(), ..stretch() };
        assert_eq!(Task::decode_all(&Task::Stretch(elsewhere).encoded()), None);
        let climbing = Stretch { temporary: c".atta./../../x".into(), ..stretch() };
        assert_eq!(Task::decode_all(&Task::Stretch(climbing).encoded()), None);
    }

    #[test]
    fn a_source_is_the_same_version_whatever_blocks_it_has() {
        let version = Version::new(&metadata(), 1);
        assert!(version.is_of(&metadata()) && version.is_of(&Metadata { blocks: u64::MAX, ..metadata() }));
        let later = Timestamp { nanoseconds: 2, ..metadata().ctime };
        assert!(!version.is_of(&Metadata { ctime: later, ..metadata() }));
        assert!(!version.is_of(&Metadata { size: 1, ..metadata() }));
        assert!(!version.is_of(&Metadata { mode: 0o100_600, ..metadata() }));
    }

    #[test]
    fn chunks_are_split_until_each_is_alone_and_none_is_lost() {
        let mut waiting = vec![Stretch { first: 0, count: 1025, ..stretch() }];
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
        let last = Stretch { first: 1024, ..stretch() };
        assert_eq!(last.range(), 1 << 40..1 << 40 | 5);
    }
}
