//! Sizes and digests of files of this rank. Only consistency asks for them, and only of ranks that must read.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use atta_entry::Errno;
use atta_mounts::normal;
use atta_sys::{open_directory_path, retry};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Of a file without a size, as the kernel makes them when they are read, at most so many bytes are read.
pub(crate) const UNSIZED_BYTES_MAX: u64 = 64 << 20;

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

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

/// Files of this host. Symbolic links are not followed, as in names: a path with one is an error, ELOOP.
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
            0 if at > most => Err(Errno::FBIG),
            0 => Ok(digest),
            _ if state_of(&file)? == before => Ok(digest),
            _ => Err(Errno::AGAIN),
        }
    }
}

/// The digest of a part, and where it ends.
fn digest_of(file: &File, begin: u64, end: u64) -> Result<(Digest, u64), Errno> {
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

/// Opens what the name of a path means: the path is made normal, as for the name, and no link is followed. It does not wait for the other end of
/// a pipe. ELOOP: there is a link in the path.
pub(crate) fn opened(path: &[u8]) -> Result<File, Errno> {
    let path = normal(path).ok_or(Errno::INVAL)?;
    let open = || rustix::fs::openat2(CWD, &path[..], READ, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    match retry(open) {
        // Linux before 5.6, or a filter of system calls.
        Err(Errno::NOSYS | Errno::PERM) => opened_by_names(&path),
        opened => opened.map(File::from),
    }
}

/// The same name by name.
fn opened_by_names(path: &[u8]) -> Result<File, Errno> {
    let (above, name) = path.split_at(path.iter().rposition(|byte| *byte == b'/').ok_or(Errno::INVAL)?);
    let mut directory = open_directory_path(b"/", false)?;
    for name in above.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let opened = retry(|| rustix::fs::openat(&directory, name, DIRECTORY, Mode::empty()));
        directory = opened.map_err(|errno| if is_link(&directory, name) { Errno::LOOP } else { errno })?;
    }
    let name = if name == b"/" { b"." } else { &name[1..] };
    retry(|| rustix::fs::openat(&directory, name, READ | OFlags::NOFOLLOW, Mode::empty())).map(File::from)
}

fn is_link(directory: &OwnedFd, name: &[u8]) -> bool {
    let found = retry(|| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW));
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

pub(crate) fn state_of(file: &File) -> Result<State, Errno> {
    let found = rustix::fs::fstat(file).map_err(|errno| Errno(errno.raw_os_error()))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(State {
            size: u64::try_from(found.st_size).unwrap_or(0),
            modified: (found.st_mtime, found.st_mtime_nsec),
            changed: (found.st_ctime, found.st_ctime_nsec),
        }),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
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
        assert_eq!(SystemContents.size(&path("")), Err(Errno::ISDIR));
    }

    #[test]
    fn links_are_not_followed() {
        let scratch = atta_testkit::scratch::Scratch::new("contents").unwrap();
        let top = atta_mounts::resolved(&scratch.join("").into_os_string().into_vec()).unwrap();
        std::fs::create_dir(scratch.join("a")).unwrap();
        std::fs::write(scratch.join("a/file"), "text").unwrap();
        for (target, link) in [("a", "to_a"), ("a/file", "to_file"), ("nothing", "to_nothing")] {
            std::os::unix::fs::symlink(target, scratch.join(link)).unwrap();
        }
        for (path, expected) in [
            (&b"/a/file"[..], Ok(Some(4))),
            (b"/to_a/../a/./file/", Ok(Some(4))),
            (b"/to_a/file", Err(Errno::LOOP)),
            (b"/to_file", Err(Errno::LOOP)),
            (b"/to_nothing", Err(Errno::LOOP)),
            (b"/a/file/x", Err(Errno::NOTDIR)),
            (b"/a/none", Ok(None)),
            (b"/none/file", Ok(None)),
            (b"/a", Err(Errno::ISDIR)),
        ] {
            let path = [&top[..], path].concat();
            assert_eq!(SystemContents.size(&path), expected, "{}", String::from_utf8_lossy(&path));
            // Where the kernel has no `openat2`.
            let by_names = opened_by_names(&normal(&path).unwrap()).and_then(|file| state_of(&file));
            let by_names = by_names.map(|state| state.size);
            assert_eq!(by_names, expected.and_then(|size| size.ok_or(Errno::NOENT)));
        }
        assert_eq!(opened_by_names(b"/").and_then(|file| state_of(&file)), Err(Errno::ISDIR));
        assert_eq!(SystemContents.size(b"relative"), Err(Errno::INVAL));
    }

    #[test]
    fn pipes_are_refused_without_waiting() {
        let scratch = atta_testkit::scratch::Scratch::new("contents").unwrap();
        let pipe = scratch.join("pipe").into_os_string().into_vec();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe[..], FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        assert_eq!(SystemContents.size(&pipe), Err(Errno::INVAL));
        assert_eq!(SystemContents.digest(&pipe, 0, None), Err(Errno::INVAL));
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
            let changed = (0..1000).any(|_| digest() == Err(Errno::AGAIN));
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            changed
        });
        assert!(found, "nothing was noticed");
    }
}
