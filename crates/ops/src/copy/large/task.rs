//! The tasks of large files, and the same as bytes: all that a rank needs that has not planned the file. No I/O.
//!
//! ```text
//! P  plan a file: whether it changed once: u8, its size: u64, name
//! C  copy chunks: rank, file, first, count, bytes of each, whether they are hashed: u64 each; what the file is: 6 x u64; length of the
//!    name: u32, name, temporary name
//! E  a chunk has ended, for the rank that planned its file: file, chunk: u64 each; value: 32 bytes, or nothing, or error
//! ```
//!
//! A name is that of a file in the task's directory, or a root's whole path.

use std::ffi::CString;

use atta_entry::{Errno, Metadata, Timestamp};

use crate::digest::PieceValue;
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::jobs::names::PREFIX;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// `bytes`: what it was counted with as something that is left to do.
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

/// What came of a chunk: its value, where digests are wanted.
pub(crate) type Came = Result<Option<PieceValue>, FileError>;

/// Some chunks of one file, one behind the other, that nobody has copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The rank that planned the file, and the number that it has there.
    pub(crate) rank: u32,
    pub(crate) file: u64,
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Bytes of each, but for the last of the file.
    pub(crate) bytes: u64,
    /// Whether the file gets a digest.
    pub(crate) is_hashed: bool,
    pub(crate) version: Version,
    pub(crate) name: CString,
    pub(crate) temporary: CString,
}

/// Which file it is on both sides, and what the source was before anything was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) size: u64,
    mtime: (i64, u32),
    ctime: (i64, u32),
    mode: u32,
    /// It has fewer blocks than bytes.
    pub(crate) has_holes: bool,
    /// Of the copy.
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

    /// Whether the source is what it was.
    pub(crate) fn is_of(&self, source: &Metadata) -> bool {
        // Blocks may come and go while it is what it was.
        Self { has_holes: self.has_holes, ..Self::new(source, self.inode) } == *self
    }

    fn numbers(&self) -> [u64; 6] {
        let second = |(seconds, _): (i64, u32)| seconds.cast_unsigned();
        let below = u64::from(self.mtime.1) << 32 | u64::from(self.ctime.1);
        let mode = u64::from(self.mode) << 1 | u64::from(self.has_holes);
        [self.size, second(self.mtime), second(self.ctime), below, mode, self.inode]
    }

    fn of(&[size, mtime, ctime, below, mode, inode]: &[u64; 6]) -> Option<Self> {
        Some(Self {
            size,
            mtime: (mtime.cast_signed(), (below >> 32) as u32),
            ctime: (ctime.cast_signed(), below as u32),
            mode: u32::try_from(mode >> 1).ok()?,
            has_holes: mode & 1 == 1,
            inode,
        })
    }
}

impl Stretch {
    /// Splits all but the first half off, which is one at least; none if there is but one.
    pub(crate) fn split(&mut self) -> Option<Self> {
        let kept = self.count.div_ceil(2);
        let others = self.count - kept;
        let rest = Self { first: self.first + kept, count: others, ..self.clone() };
        self.count = kept;
        (others > 0).then_some(rest)
    }

    /// The bytes of the first.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        let start = self.first.saturating_mul(self.bytes);
        start..start.saturating_add(self.bytes).min(self.version.size)
    }
}

impl Task {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Plan { name, is_again, bytes } => {
                out.extend([b'P', u8::from(*is_again)]);
                out.extend(bytes.to_le_bytes());
                out.extend_from_slice(name.as_bytes());
            }
            Self::Stretch(stretch) => {
                out.push(b'C');
                let Stretch { rank, file, first, count, bytes, is_hashed, version, name, temporary } =
                    stretch;
                let numbers = [u64::from(*rank), *file, *first, *count, *bytes, u64::from(*is_hashed)];
                numbers.iter().chain(&version.numbers()).for_each(|number| out.extend(number.to_le_bytes()));
                out.extend(u32::try_from(name.as_bytes().len()).unwrap_or(u32::MAX).to_le_bytes());
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(temporary.as_bytes());
            }
            Self::Ended { file, chunk, came } => {
                out.push(b'E');
                out.extend(file.to_le_bytes());
                out.extend(chunk.to_le_bytes());
                match came {
                    Ok(None) => {}
                    Ok(Some(value)) => out.extend_from_slice(value.as_bytes()),
                    Err(error) => encode_error(*error, &mut out),
                }
            }
        }
        out
    }

    /// None: they are no such task.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        match tag {
            b'P' => {
                let (is_again, rest) = rest.split_first()?;
                let (bytes, name) = rest.split_first_chunk()?;
                let is_again = (*is_again < 2).then_some(*is_again == 1)?;
                let bytes = u64::from_le_bytes(*bytes);
                Some(Self::Plan { name: CString::new(name).ok()?, is_again, bytes })
            }
            b'C' => {
                let (head, rest) = rest.split_at_checked(12 * 8)?;
                let mut numbers = [0; 12];
                for (number, bytes) in numbers.iter_mut().zip(head.as_chunks().0) {
                    *number = u64::from_le_bytes(*bytes);
                }
                let (length, rest) = rest.split_first_chunk()?;
                let (name, temporary) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                let ([rank, file, first, count, bytes, is_hashed], version) = numbers.split_first_chunk()?;
                Some(Self::Stretch(Stretch {
                    rank: u32::try_from(*rank).ok()?,
                    file: *file,
                    first: *first,
                    count: *count,
                    bytes: *bytes,
                    is_hashed: (*is_hashed < 2).then_some(*is_hashed == 1)?,
                    version: Version::of(version.first_chunk()?)?,
                    name: CString::new(name).ok()?,
                    temporary: own_name(temporary)?,
                }))
            }
            b'E' => {
                let (file, rest) = rest.split_first_chunk()?;
                let (chunk, came) = rest.split_first_chunk()?;
                let (file, chunk) = (u64::from_le_bytes(*file), u64::from_le_bytes(*chunk));
                Some(Self::Ended { file, chunk, came: decode_came(came)? })
            }
            _ => None,
        }
    }
}

/// A name that this program makes for a file without one: nothing else is taken from another rank.
fn own_name(bytes: &[u8]) -> Option<CString> {
    let is_own = bytes.starts_with(PREFIX) && !bytes.contains(&b'/');
    is_own.then(|| CString::new(bytes).ok()).flatten()
}

fn encode_error(error: FileError, out: &mut Vec<u8>) {
    let (step, errno) = match error {
        FileError::Changed => (u8::MAX, 0),
        FileError::Stopped => (u8::MAX, 1),
        FileError::Failed(step, errno) => (step.number(), errno.0),
    };
    out.push(step);
    out.extend(errno.to_le_bytes());
}

fn decode_came(bytes: &[u8]) -> Option<Came> {
    if let Ok(value) = <[u8; 32]>::try_from(bytes) {
        return Some(Ok(Some(PieceValue::from(value))));
    }
    match bytes {
        [] => Some(Ok(None)),
        [u8::MAX, 0, 0, 0, 0] => Some(Err(FileError::Changed)),
        [u8::MAX, 1, 0, 0, 0] => Some(Err(FileError::Stopped)),
        [step, errno @ ..] => {
            let errno = i32::from_le_bytes(errno.try_into().ok()?);
            Some(Err(FileError::new(Step::of_number(*step)?, Errno(errno))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ended(Ok(Some(PieceValue::from([7; 32])))),
            ended(Err(FileError::Changed)),
            ended(Err(FileError::Stopped)),
            ended(Err(FileError::new(Step::Write, Errno::NOSPC))),
            ended(Err(FileError::new(Step::Open, Errno::NOENT))),
        ]
    }

    #[test]
    fn tasks_survive_being_bytes_and_damaged_ones_are_none_or_others() {
        for task in tasks() {
            let bytes = task.encode();
            assert_eq!(Task::decode(&bytes).as_ref(), Some(&task));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x5a;
                assert_ne!(Task::decode(&damaged).as_ref(), Some(&task));
                let _any_answer = Task::decode(&bytes[..at]);
            }
        }
        let elsewhere = Stretch { temporary: c"../passwd".into(), ..stretch() };
        assert_eq!(Task::decode(&Task::Stretch(elsewhere).encode()), None);
        let climbing = Stretch { temporary: c".atta./../../x".into(), ..stretch() };
        assert_eq!(Task::decode(&Task::Stretch(climbing).encode()), None);
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
