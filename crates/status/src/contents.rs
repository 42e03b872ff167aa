//! Sizes and digests of files of this rank. Only consistency asks for them, and only of ranks that must read.

use std::io;
use std::os::unix::fs::FileExt as _;

use atta_entry::Errno;
use rustix::fs::{FileType, Mode, OFlags};

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Of a file without a size, as the kernel makes them when they are read, at most so many bytes are read.
pub(crate) const UNSIZED_BYTES_MAX: u64 = 64 << 20;

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
    /// It cannot be read, or is no regular file; EAGAIN: it has changed meanwhile; EFBIG: it has no size, and more than 64 MiB.
    fn digest(&self, path: &[u8], begin: u64, end: Option<u64>) -> Result<Digest, Errno>;
}

/// Files of this host. Symbolic links are followed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemContents;

impl Contents for SystemContents {
    fn size(&self, path: &[u8]) -> Result<Option<u64>, Errno> {
        match opened(path) {
            Ok(file) => state_of(&file).map(|state| Some(state.size)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn digest(&self, path: &[u8], begin: u64, end: Option<u64>) -> Result<Digest, Errno> {
        let file = opened(path)?;
        let before = state_of(&file)?;
        let most = if before.size > 0 { before.size } else { UNSIZED_BYTES_MAX };
        // It may grow as fast as it is read.
        let (digest, at) = digest_of(&file, begin, end.unwrap_or(u64::MAX).min(most.saturating_add(1)))?;
        match before.size {
            0 if at > most => Err(Errno(rustix::io::Errno::FBIG.raw_os_error())),
            0 => Ok(digest),
            _ if state_of(&file)? == before => Ok(digest),
            _ => Err(Errno(rustix::io::Errno::AGAIN.raw_os_error())),
        }
    }
}

/// The digest of a part, and where it ends.
fn digest_of(file: &std::fs::File, begin: u64, end: u64) -> Result<(Digest, u64), Errno> {
    let (mut at, mut buffer, mut hasher) = (begin, vec![0; BUFFER_BYTES], blake3::Hasher::new());
    loop {
        let wanted = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(BUFFER_BYTES);
        match file.read_at(&mut buffer[..wanted], at) {
            Ok(0) => return Ok((*hasher.finalize().as_bytes(), at)),
            Ok(count) => {
                hasher.update(&buffer[..count]);
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Errno(error.raw_os_error().unwrap_or(Errno::IO.0))),
        }
    }
}

/// What changes when a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) size: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// Does not wait for the other end of a pipe.
pub(crate) fn opened(path: &[u8]) -> Result<std::fs::File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    opened.map(std::fs::File::from).map_err(|errno| Errno(errno.raw_os_error()))
}

pub(crate) fn state_of(file: &std::fs::File) -> Result<State, Errno> {
    let found = rustix::fs::fstat(file).map_err(|errno| Errno(errno.raw_os_error()))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(State {
            size: u64::try_from(found.st_size).unwrap_or(0),
            modified: (found.st_mtime, found.st_mtime_nsec),
            changed: (found.st_ctime, found.st_ctime_nsec),
        }),
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
        assert_eq!(
            SystemContents.digest(&pipe, 0, None),
            Err(Errno(rustix::io::Errno::INVAL.raw_os_error()))
        );
        assert_eq!(SystemContents.digest(b"/dev/zero", 0, None).map_err(|errno| errno.0), Err(22));
    }

    /// A thread writes while it is read.
    #[test]
    fn files_that_change_have_no_digest() {
        let scratch = atta_testkit::scratch::Scratch::new("contents").unwrap();
        let path = scratch.join("file");
        std::fs::write(&path, vec![1; 32 << 20]).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    file.write_all_at(b"x", 5).unwrap();
                }
            });
            // Times have the steps of the kernel's clock.
            let digest = || SystemContents.digest(path.as_os_str().as_encoded_bytes(), 0, None);
            let changed = (0..1000).any(|_| digest() == Err(Errno(rustix::io::Errno::AGAIN.raw_os_error())));
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            changed
        });
        assert!(found, "nothing was noticed");
    }
}
