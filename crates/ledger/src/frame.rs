//! Frames: the records that a process writes at once. No I/O.
//!
//! ```text
//!   magic 4 · length 4 · sequence 8 · synced 8 · check of the head 8
//!   sections (each with its length) · zeros to a multiple of 8 · check of the frame 8
//! ```
//!
//! Numbers are little-endian. All threads' records of one moment are in one frame, so a fact is never without those that it rests on, and
//! results are never without the fact that their slice is done. A check is a keyed hash of the bytes before it, their log and their offset:
//! bytes of another log, or an old block of the disk, are no frame. The check of the head distinguishes a frame from bytes that look like one
//! without its length being trusted.

use atta_code::{Code, decode_bytes, encode_bytes};

use crate::VERSION;
use crate::id::Key;
use crate::log::LogName;

/// The most bytes of a frame.
pub const FRAME_MAX: u64 = 1 << 28;
/// Frames begin at multiples of this.
pub(crate) const ALIGN: u64 = 8;
/// Bytes before the sections.
pub(crate) const HEAD: usize = 32;
/// Bytes of a check.
const CHECK: usize = 8;
/// What each frame begins with, before the version of the format.
const MAGIC: [u8; 3] = *b"atl";

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it begins in its log.
    pub offset: u64,
    /// Its number in its log, from 0.
    pub sequence: u64,
    /// Of the log, the process knew so many bytes to be on storage.
    pub synced: u64,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) frame: Frame,
    /// Bytes of the sections.
    length: usize,
}

/// What the first bytes of a frame can be.
pub(crate) enum Begins {
    Head(Head),
    /// A frame of another version of the format.
    Version(u8),
    /// Something else.
    Other,
}

/// A frame's bytes. `sections`: what the threads have noted; empty ones are left out. None: no reader would take it, since it has more than
/// [`FRAME_MAX`] bytes, begins at no multiple of 8, or says that bytes behind it are on storage.
#[must_use]
pub fn frame(key: &Key, log: LogName, frame: Frame, sections: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    frame_into(&mut bytes, (key, log), frame, sections).then_some(bytes)
}

/// As [`frame`], in place of what `bytes` has. Returns false, with bytes that are no frame, where `frame` returns none.
#[must_use]
pub fn frame_into(
    bytes: &mut Vec<u8>,
    (key, log): (&Key, LogName),
    frame: Frame,
    sections: &[Vec<u8>],
) -> bool {
    bytes.clear();
    bytes.reserve(HEAD + CHECK + sections.iter().map(|section| section.len() + 8).sum::<usize>());
    bytes.extend(MAGIC);
    bytes.push(VERSION as u8);
    bytes.extend([0; 4]);
    bytes.extend(frame.sequence.to_le_bytes());
    bytes.extend(frame.synced.to_le_bytes());
    bytes.extend([0; CHECK]);
    sections.iter().filter(|section| !section.is_empty()).for_each(|section| encode_bytes(section, bytes));
    let is_placed = frame.offset.is_multiple_of(ALIGN) && frame.synced <= frame.offset;
    if !is_placed || bytes.len() as u64 > FRAME_MAX - ALIGN - CHECK as u64 {
        return false;
    }
    let length = (bytes.len() - HEAD) as u32;
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    let checks = Checks::of(key, log);
    let of_head = checks.check(frame.offset, &bytes[..HEAD - CHECK]);
    bytes[HEAD - CHECK..HEAD].copy_from_slice(&of_head);
    bytes.resize(bytes.len().next_multiple_of(ALIGN as usize), 0);
    let of_frame = checks.check(frame.offset, bytes);
    bytes.extend(of_frame);
    true
}

/// Makes the checks of a log.
pub(crate) struct Checks([u8; 32]);

impl Checks {
    pub(crate) fn of(key: &Key, log: LogName) -> Self {
        Self(key.of_log(&log.encoded()))
    }

    /// Of a head, or of a frame: one is always longer than the other.
    fn check(&self, offset: u64, bytes: &[u8]) -> [u8; CHECK] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&offset.to_le_bytes()).update(bytes);
        let mut check = [0; CHECK];
        check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK]);
        check
    }
}

impl Head {
    /// What the first bytes at that offset are. A head has a right check.
    pub(crate) fn read(checks: &Checks, offset: u64, bytes: &[u8; HEAD]) -> Begins {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        if bytes[..3] != MAGIC {
            return Begins::Other;
        }
        match bytes[3] {
            version if u32::from(version) == VERSION => {}
            // Storage may have kept only the first bytes.
            0 => return Begins::Other,
            version => return Begins::Version(version),
        }
        let frame = Frame { offset, sequence: number(8), synced: number(16) };
        let head = Self { frame, length: (number(0) >> 32) as usize };
        let is_possible = head.bytes() <= FRAME_MAX && frame.synced <= offset;
        let (checked, check) = bytes.split_at(HEAD - CHECK);
        let is_head = is_possible && checks.check(offset, checked) == check;
        if is_head { Begins::Head(head) } else { Begins::Other }
    }

    /// The bytes of the whole frame.
    pub(crate) fn bytes(&self) -> u64 {
        ((HEAD + self.length) as u64).next_multiple_of(ALIGN) + CHECK as u64
    }

    /// The sections of a frame, if its check is right.
    pub(crate) fn sections<'a>(&self, checks: &Checks, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (checked, found) = bytes.split_last_chunk::<CHECK>()?;
        (checks.check(self.frame.offset, checked) == *found).then(|| checked.get(HEAD..HEAD + self.length))?
    }
}

/// Calls `each` with the sections of a frame, which stand in no order. Returns whether all of them are valid.
pub fn sections(mut frame: &[u8], each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    while !frame.is_empty() {
        let Some(section) = decode_bytes(&mut frame).filter(|section| !section.is_empty()) else {
            return false;
        };
        if !each(section) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_that_no_reader_takes_is_not_made() {
        let (key, log) = (Key::of_job(&[1; 16]), LogName { run: 1, rank: 0, part: 0 });
        let head = Frame { offset: 0, sequence: 0, synced: 0 };
        // A length of four bytes comes before the section.
        let most = FRAME_MAX as usize - HEAD - 4 - CHECK - ALIGN as usize;
        for (length, is_made) in [(most, true), (most + 1, false)] {
            let made = frame(&key, log, head, &[vec![1; length]]);
            assert_eq!(made.is_some(), is_made, "{length}");
            let Some(bytes) = made else { continue };
            let found = crate::read((&key, log), &mut bytes.as_slice(), None, &mut |_, _| true).unwrap();
            assert_eq!(found.bytes, bytes.len() as u64);
        }
    }
}
