//! Sizes and digests of files of this rank. Only consistency asks for them, and only of ranks that must read.

use std::io;
use std::os::unix::fs::FileExt as _;

use atta_entry::Errno;
use rustix::fs::{FileType, Mode, OFlags};

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// What is asked of a file. A trait, so that tests answer by themselves.
pub trait Contents {
    /// Its size. None: it does not exist.
    ///
    /// # Errors
    /// It cannot be opened, or is no regular file.
    fn size(&self, path: &[u8]) -> Result<Option<u64>, Errno>;

    /// The digest of a part. `end`: none for the end of the file, wherever that is. A file that is shorter has a digest of what there is.
    ///
    /// # Errors
    /// It cannot be read.
    fn digest(&self, path: &[u8], begin: u64, end: Option<u64>) -> Result<Digest, Errno>;
}

/// Files of this host. Symbolic links are followed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemContents;

impl Contents for SystemContents {
    fn size(&self, path: &[u8]) -> Result<Option<u64>, Errno> {
        match opened(path) {
            Ok(file) => size_of(&file).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn digest(&self, path: &[u8], begin: u64, end: Option<u64>) -> Result<Digest, Errno> {
        let file = opened(path)?;
        let (mut at, mut buffer) = (begin, vec![0; BUFFER_BYTES]);
        let mut hasher = blake3::Hasher::new();
        loop {
            let left = end.map_or(u64::MAX, |end| end.saturating_sub(at));
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(BUFFER_BYTES);
            match file.read_at(&mut buffer[..wanted], at) {
                Ok(0) => return Ok(*hasher.finalize().as_bytes()),
                Ok(count) => {
                    hasher.update(&buffer[..count]);
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Errno(error.raw_os_error().unwrap_or(Errno::IO.0))),
            }
        }
    }
}

/// Does not wait for the other end of a pipe.
fn opened(path: &[u8]) -> Result<std::fs::File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    opened.map(std::fs::File::from).map_err(|errno| Errno(errno.raw_os_error()))
}

fn size_of(file: &std::fs::File) -> Result<u64, Errno> {
    let found = rustix::fs::fstat(file).map_err(|errno| Errno(errno.raw_os_error()))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(u64::try_from(found.st_size).unwrap_or(0)),
        FileType::Directory => Err(Errno(rustix::io::Errno::ISDIR.raw_os_error())),
        _ => Err(Errno(rustix::io::Errno::INVAL.raw_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn parts_of_files_are_read() {
        let scratch = atta_testkit::scratch::Scratch::new("contents").unwrap();
        let path = |name: &str| scratch.join(name).into_os_string().into_vec();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(scratch.join("file"), &bytes).unwrap();
        let file = path("file");
        assert_eq!(SystemContents.size(&file), Ok(Some(3_000_000)));
        let of = |part: &[u8]| *blake3::hash(part).as_bytes();
        assert_eq!(SystemContents.digest(&file, 0, None), Ok(of(&bytes)));
        assert_eq!(SystemContents.digest(&file, 5, Some(2_500_000)), Ok(of(&bytes[5..2_500_000])));
        assert_eq!(SystemContents.digest(&file, 2_999_999, Some(9_000_000)), Ok(of(&bytes[2_999_999..])));
        assert_eq!(SystemContents.size(&path("none")), Ok(None));
        assert_eq!(SystemContents.size(&path("")), Err(Errno(rustix::io::Errno::ISDIR.raw_os_error())));
    }

    #[test]
    fn pipes_are_refused_without_waiting() {
        let scratch = atta_testkit::scratch::Scratch::new("contents").unwrap();
        let pipe = scratch.join("pipe").into_os_string().into_vec();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe[..], FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        assert_eq!(SystemContents.size(&pipe), Err(Errno(rustix::io::Errno::INVAL.raw_os_error())));
    }
}
