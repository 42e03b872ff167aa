//! The copying of `copy-limit`: directories, then files on threads that take the next one by a counter, then what the
//! directories have.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chmodat, chownat, fchmod, fchown, futimens,
    mkdir, mkdirat, openat, utimensat,
};
use rustix::io::{pread, pwrite};

use crate::list::{Entry, List};

/// A transfer of this size is the fastest on processors of today: the buffer stays in the cache.
const BUFFER_BYTES: usize = 1 << 20;
/// Copying to memory that is not aligned to a page costs the kernel some per cent.
const PAGE_BYTES: usize = 4096;

/// What one thread copies at a time.
struct Piece<'list> {
    file: &'list Entry,
    start: u64,
    end: u64,
}

/// How files are copied.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// Bytes of a piece, which one thread copies; 0 for whole files.
    pub(crate) chunk_bytes: u64,
    /// What is read is hashed, too.
    pub(crate) is_hashed: bool,
}

/// What the threads share.
struct Copy<'list> {
    source: OwnedFd,
    target: OwnedFd,
    pieces: Vec<Piece<'list>>,
    next: AtomicUsize,
    /// A piece is a whole file: its worker also sets its attributes.
    is_whole: bool,
    is_hashed: bool,
}

/// Copies what is in the list. With `chunk_bytes` above 0 files are cut into pieces of that size, and get their attributes in
/// the end.
///
/// # Errors
///
/// The first that comes up; TARGET is there already.
pub(crate) fn copy(list: &List, source: &Path, target: &Path, threads: usize, way: Way) -> io::Result<()> {
    let Way { chunk_bytes, is_hashed } = way;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    mkdir(target, Mode::RWXU)?;
    let (source, target) =
        (openat(CWD, source, flags, Mode::empty())?, openat(CWD, target, flags, Mode::empty())?);
    for directory in list.directories.iter().skip(1) {
        mkdirat(&target, &directory.path, Mode::RWXU)?;
    }
    let pieces = list.files.iter().flat_map(|file| pieces(file, chunk_bytes)).collect();
    let copy =
        Copy { source, target, pieces, next: AtomicUsize::new(0), is_whole: chunk_bytes == 0, is_hashed };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| copy.work())).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let late = if copy.is_whole { &[][..] } else { &list.files };
    // A directory's time changes when something is made in it, so what is deepest comes first.
    late.iter().chain(list.directories.iter().rev()).try_for_each(|entry| give_by_name(&copy.target, entry))
}

fn pieces(file: &Entry, chunk_bytes: u64) -> impl Iterator<Item = Piece<'_>> {
    let step = if chunk_bytes == 0 { file.size.max(1) } else { chunk_bytes };
    // An empty file is a piece, too.
    (0..file.size.div_ceil(step).max(1)).map(move |number| {
        let start = number * step;
        Piece { file, start, end: file.size.min(start.saturating_add(step)) }
    })
}

impl Copy<'_> {
    /// One thread's life.
    fn work(&self) -> io::Result<()> {
        let mut memory = vec![0; BUFFER_BYTES + PAGE_BYTES];
        let skipped = memory.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        let buffer = &mut memory[skipped..skipped + BUFFER_BYTES];
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            self.copy(piece, buffer).map_err(|error| {
                io::Error::new(error.kind(), format!("copying {:?}: {error}", piece.file.path))
            })?;
        }
        Ok(())
    }

    fn copy(&self, piece: &Piece<'_>, buffer: &mut [u8]) -> io::Result<()> {
        let path = &piece.file.path;
        let source = openat(&self.source, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let first = if self.is_whole { OFlags::CREATE | OFlags::EXCL } else { OFlags::CREATE };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | first;
        let target = openat(&self.target, path, flags, Mode::RUSR | Mode::WUSR)?;
        let mut at = piece.start;
        while at < piece.end {
            let wanted = usize::try_from(piece.end - at).unwrap_or(usize::MAX).min(BUFFER_BYTES);
            let read = pread(&source, &mut buffer[..wanted], at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.is_hashed {
                std::hint::black_box(blake3::hash(&buffer[..read]));
            }
            let mut written = 0;
            while written < read {
                written += pwrite(&target, &buffer[written..read], at + written as u64)?;
            }
            at += read as u64;
        }
        if self.is_whole {
            let entry = piece.file;
            fchown(&target, Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)))?;
            fchmod(&target, Mode::from_raw_mode(entry.mode))?;
            futimens(&target, &times(entry))?;
        }
        Ok(())
    }
}

fn give_by_name(target: &OwnedFd, entry: &Entry) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
    chownat(target, &entry.path, Some(uid), Some(gid), AtFlags::empty())?;
    chmodat(target, &entry.path, Mode::from_raw_mode(entry.mode), AtFlags::empty())?;
    Ok(utimensat(target, &entry.path, &times(entry), AtFlags::empty())?)
}

fn times(entry: &Entry) -> Timestamps {
    let time = |(tv_sec, tv_nsec): (i64, i64)| Timespec { tv_sec, tv_nsec };
    Timestamps { last_access: time(entry.accessed), last_modification: time(entry.modified) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test made these trees itself")]
    fn copied_entries_are_the_listed_ones() {
        let place = std::env::temp_dir().join(format!("copy-limit-{}", std::process::id()));
        let source = place.join("source");
        std::fs::create_dir_all(source.join("a/empty")).unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1] ^ 0x5a).collect();
        std::fs::write(source.join("a/large"), &bytes).unwrap();
        std::fs::write(source.join("nothing"), "").unwrap();
        std::fs::set_permissions(source.join("a/large"), PermissionsExt::from_mode(0o640)).unwrap();
        std::fs::set_permissions(source.join("a"), PermissionsExt::from_mode(0o710)).unwrap();
        let list = List::of(&source).unwrap();
        assert_eq!((list.directories.len(), list.files.len(), list.bytes()), (3, 2, 3_000_000));
        for (number, chunk_bytes) in [0, 1 << 20, 12_345].into_iter().enumerate() {
            let way = Way { chunk_bytes, is_hashed: number == 1 };
            let target = place.join(format!("target-{number}"));
            copy(&list, &source, &target, 3, way).unwrap();
            assert_eq!(std::fs::read(target.join("a/large")).unwrap(), bytes);
            // Reading changes access times, so only what a copy sets for good is compared.
            for path in ["", "a", "a/empty", "a/large", "nothing"] {
                let [one, other] = [&source, &target].map(|root| std::fs::metadata(root.join(path)).unwrap());
                let attributes = |of: &std::fs::Metadata| (of.mode(), of.uid(), of.mtime(), of.mtime_nsec());
                assert_eq!(attributes(&one), attributes(&other), "{path}");
            }
            assert!(copy(&list, &source, &target, 1, way).is_err(), "a target that is there");
        }
        std::fs::remove_dir_all(place).unwrap();
    }
}
