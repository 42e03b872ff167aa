//! What was done to the only file of a served directory, in order: writes with their bytes, ranges that were cleared, and syncs.
//! A test adds marks of its own. It appends to a file and reads it; it decides nothing about what a power cut loses.
//!
//! ```text
//!   record = kind (1 byte) | offset (8, little endian) | length (8) | bytes of a write or a mark
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::io::{Errno, Result};

const WRITE: u8 = 0;
const CLEAR: u8 = 1;
const SYNC: u8 = 2;
const MARK: u8 = 3;
const HEAD_BYTES: usize = 17;

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Bytes were written at an offset.
    Write(u64, Vec<u8>),
    /// A range became zeros: offset and length.
    Clear(u64, u64),
    /// A sync began: what was noted before is on storage when it has ended.
    Sync,
    /// A test has come to a point that it names.
    Mark(String),
}

/// A record that is being written. Several processes may append to it.
#[derive(Debug)]
pub(crate) struct Record {
    file: Mutex<File>,
}

impl Record {
    /// Opens the file, and makes it if it is missing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Does something and notes it before anybody can do the next thing. The caller answers after that, so each sync that begins after
    /// the answer is noted later.
    pub(crate) fn note<T>(
        &self,
        act: impl FnOnce() -> Result<T>,
        event: impl FnOnce(&T) -> Event,
    ) -> Result<T> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let done = act()?;
        // In one call: then records of several processes do not mix.
        file.write_all(&encoded(&event(&done))).map_err(|_| Errno::IO)?;
        Ok(done)
    }

    /// Notes something that is about to happen, or has happened.
    pub(crate) fn add(&self, event: Event) -> Result<()> {
        self.note(|| Ok(()), |()| event)
    }
}

fn encoded(event: &Event) -> Vec<u8> {
    let (kind, offset, length, bytes): (_, _, _, &[u8]) = match event {
        Event::Write(offset, bytes) => (WRITE, *offset, bytes.len() as u64, bytes),
        Event::Clear(offset, length) => (CLEAR, *offset, *length, &[]),
        Event::Sync => (SYNC, 0, 0, &[]),
        Event::Mark(name) => (MARK, 0, name.len() as u64, name.as_bytes()),
    };
    let mut record = Vec::with_capacity(HEAD_BYTES + bytes.len());
    record.push(kind);
    record.extend(offset.to_le_bytes());
    record.extend(length.to_le_bytes());
    record.extend(bytes);
    record
}

/// Reads a whole record.
pub(crate) fn events(path: &Path) -> io::Result<Vec<Event>> {
    let bytes = std::fs::read(path)?;
    let (mut rest, mut events) = (bytes.as_slice(), Vec::new());
    while !rest.is_empty() {
        events.push(decoded(&mut rest).ok_or_else(|| io::Error::other("the record of a disk is damaged"))?);
    }
    Ok(events)
}

fn decoded(rest: &mut &[u8]) -> Option<Event> {
    let (&[kind], tail) = rest.split_first_chunk::<1>()?;
    let (&offset, tail) = tail.split_first_chunk::<8>()?;
    let (&length, tail) = tail.split_first_chunk::<8>()?;
    let (offset, length) = (u64::from_le_bytes(offset), u64::from_le_bytes(length));
    let has_bytes = matches!(kind, WRITE | MARK);
    let (bytes, tail) = tail.split_at_checked(if has_bytes { usize::try_from(length).ok()? } else { 0 })?;
    *rest = tail;
    match kind {
        WRITE => Some(Event::Write(offset, bytes.to_vec())),
        CLEAR => Some(Event::Clear(offset, length)),
        SYNC => Some(Event::Sync),
        MARK => String::from_utf8(bytes.to_vec()).ok().map(Event::Mark),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn what_was_noted_is_read_in_order() {
        let scratch = Scratch::new("record").unwrap();
        let path = scratch.join("record");
        let (server, test) = (Record::open(&path).unwrap(), Record::open(&path).unwrap());
        let written = server.note(|| Ok(3), |_| Event::Write(512, b"abc".to_vec()));
        assert_eq!(written, Ok(3));
        assert_eq!(server.note(|| Err::<(), _>(Errno::NOSPC), |()| Event::Sync), Err(Errno::NOSPC));
        server.add(Event::Clear(1 << 40, 4096)).unwrap();
        test.add(Event::Mark("killed".to_owned())).unwrap();
        server.add(Event::Sync).unwrap();
        let expected = [
            Event::Write(512, b"abc".to_vec()),
            Event::Clear(1 << 40, 4096),
            Event::Mark("killed".to_owned()),
            Event::Sync,
        ];
        assert_eq!(events(&path).unwrap(), expected);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(events(&path).is_err(), "cut");
    }
}
