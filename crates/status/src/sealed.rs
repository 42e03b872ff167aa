//! Small files of this program that another run reads: a mark for the kind of file, the version, the bytes, and a checksum. They are replaced
//! in one step. It does not know what the bytes mean.
//!
//! ```text
//!   8 bytes   mark of the kind
//!   4 bytes   version of the encoding (atta_code::VERSION), lowest byte first
//!   n bytes   contents
//!   32 bytes  BLAKE3 of all before
//! ```

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use atta_code::VERSION;
use atta_entry::Errno;
use rustix::fs::{Mode, OFlags};

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) magic: [u8; 8],
    /// The most bytes of the whole file.
    pub(crate) bytes_max: usize,
}

const HEAD_BYTES: usize = 12;
const SUM_BYTES: usize = 32;

/// Why a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealedError {
    /// It does not exist.
    Missing,
    /// It cannot be read or written.
    Failed(Errno),
    /// It is another kind of file.
    Foreign,
    /// Another version of the program wrote it.
    OtherVersion(u32),
    /// It has other bytes than were written, or fewer.
    Damaged,
    /// It is larger than such a file can be: so many bytes.
    TooLarge(usize),
}

impl fmt::Display for SealedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => out.write_str("no such file"),
            Self::Failed(errno) => errno.fmt(out),
            Self::Foreign => out.write_str("not a file of this kind"),
            Self::OtherVersion(version) => {
                write!(out, "written by another version of atta (encoding {version}, this one has {VERSION})")
            }
            Self::Damaged => out.write_str("damaged: its checksum or its contents are wrong"),
            Self::TooLarge(bytes) => write!(out, "larger than {bytes} bytes"),
        }
    }
}

impl std::error::Error for SealedError {}

impl From<io::Error> for SealedError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Failed(Errno(error.raw_os_error().unwrap_or(Errno::IO.0))),
        }
    }
}

/// A file's bytes.
pub(crate) fn sealed(contents: &[u8], kind: &Kind) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + contents.len() + SUM_BYTES);
    bytes.extend(kind.magic);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(contents);
    bytes.extend(blake3::hash(&bytes).as_bytes());
    bytes
}

/// The contents of a file.
pub(crate) fn unsealed<'b>(bytes: &'b [u8], kind: &Kind) -> Result<&'b [u8], SealedError> {
    if bytes.len() > kind.bytes_max {
        return Err(SealedError::TooLarge(kind.bytes_max));
    }
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(SealedError::Foreign)?;
    if *magic != kind.magic {
        return Err(SealedError::Foreign);
    }
    let (version, rest) = rest.split_first_chunk::<4>().ok_or(SealedError::Damaged)?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(SealedError::OtherVersion(version));
    }
    let (contents, sum) = rest.split_last_chunk::<SUM_BYTES>().ok_or(SealedError::Damaged)?;
    let is_whole = blake3::hash(&bytes[..bytes.len() - SUM_BYTES]).as_bytes() == sum;
    if is_whole { Ok(contents) } else { Err(SealedError::Damaged) }
}

/// The bytes of a file; no more than its kind can have.
pub(crate) fn read(path: &Path, kind: &Kind) -> Result<Vec<u8>, SealedError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let mut bytes = Vec::new();
    // One byte more shows that it is too large.
    file.take(kind.bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file in one step: readers find the old bytes or the new ones, also after a crash.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), SealedError> {
    let (file, temporary) = temporary(path)?;
    let written = write_and_rename(file, &temporary, path, bytes);
    if written.is_err() {
        // The error that counts is the first one.
        let _ = std::fs::remove_file(&temporary);
    }
    Ok(written?)
}

/// A new file beside another one.
fn temporary(path: &Path) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        match rustix::fs::open(&name, flags, mode) {
            Ok(file) => return Ok((file.into(), name.into())),
            // Left over from a killed process that had this number.
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn write_and_rename(mut file: File, temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_data()?;
    drop(file);
    std::fs::rename(temporary, path)
}

#[cfg(test)]
mod tests {
    use atta_testkit::scratch::Scratch;

    use super::*;

    const KIND: Kind = Kind { magic: *b"a kind  ", bytes_max: 1000 };

    #[test]
    fn contents_come_back() {
        for contents in [&b""[..], b"x", &[7; 956]] {
            assert_eq!(unsealed(&sealed(contents, &KIND), &KIND), Ok(contents));
        }
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let whole = sealed(b"contents", &KIND);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            let expected = match at {
                0..8 => SealedError::Foreign,
                8..12 => SealedError::OtherVersion(u32::from_le_bytes(damaged[8..12].try_into().unwrap())),
                _ => SealedError::Damaged,
            };
            assert_eq!(unsealed(&damaged, &KIND), Err(expected), "{at}");
            let expected = if at < 8 { SealedError::Foreign } else { SealedError::Damaged };
            assert_eq!(unsealed(&whole[..at], &KIND), Err(expected), "cut at {at}");
        }
        assert_eq!(unsealed(&[&whole[..], b"x"].concat(), &KIND), Err(SealedError::Damaged));
        assert_eq!(unsealed(&sealed(&[7; 957], &KIND), &KIND), Err(SealedError::TooLarge(1000)));
    }

    #[test]
    fn files_are_replaced_and_nothing_is_left() {
        let scratch = Scratch::new("sealed").unwrap();
        let path = scratch.join("file");
        assert_eq!(read(&path, &KIND), Err(SealedError::Missing));
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(read(&path, &KIND), Ok(b"two".to_vec()));
        #[expect(clippy::disallowed_methods, reason = "a directory of this test")]
        let names = || std::fs::read_dir(scratch.join("")).unwrap().count();
        assert_eq!(names(), 1);
        // A directory is in the way.
        std::fs::create_dir_all(scratch.join("other/in")).unwrap();
        assert!(matches!(write(&scratch.join("other"), b"x"), Err(SealedError::Failed(_))));
        assert_eq!(names(), 2);
        assert_eq!(write(&scratch.join("none/file"), b"x"), Err(SealedError::Missing));
    }

    #[test]
    fn no_more_than_the_limit_is_read() {
        let scratch = Scratch::new("sealed").unwrap();
        let path = scratch.join("large");
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read(&path, &KIND).unwrap().len(), 1001);
        assert!(matches!(read(&scratch.join(""), &KIND), Err(SealedError::Failed(_))));
    }
}
