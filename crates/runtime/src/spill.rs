//! The overflow of waiting tasks when they take more memory than allowed: segments of an unlinked file. It knows bytes only.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

/// Statistics of the spill file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpillReport {
    /// Tasks written.
    pub tasks: u64,
    /// Bytes written.
    pub bytes: u64,
    /// The error that stopped writing, if any: tasks stayed in memory beyond the limit.
    pub error: Option<String>,
}

/// A stack of segments in a file without a name, made at the first use.
#[derive(Debug)]
pub(crate) struct Spill {
    directory: PathBuf,
    inner: Mutex<Inner>,
    /// Segments that wait, readable without the lock.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    file: Option<File>,
    end: u64,
    segments: Vec<Segment>,
    report: SpillReport,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    bytes: usize,
    tasks: u64,
}

impl Spill {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, inner: Mutex::default(), waiting: AtomicUsize::new(0) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// Whether an earlier write failed. Then no more tasks are spilled.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock().report.error.is_some()
    }

    /// Writes a segment of `tasks` tasks. On an error nothing is kept of it, and the reason stays in the report.
    pub(crate) fn push(&self, bytes: &[u8], tasks: u64) -> bool {
        let mut inner = self.lock();
        match self.append(&mut inner, bytes) {
            Ok(offset) => {
                inner.segments.push(Segment { offset, bytes: bytes.len(), tasks });
                inner.report.tasks += tasks;
                inner.report.bytes += bytes.len() as u64;
                self.waiting.fetch_add(1, Ordering::SeqCst);
                true
            }
            Err(error) => {
                inner.report.error = Some(format!("cannot spill to {}: {error}", self.directory.display()));
                false
            }
        }
    }

    /// Takes the newest segment: its bytes or the read error, and its number of tasks.
    pub(crate) fn pop(&self) -> Option<(io::Result<Vec<u8>>, u64)> {
        if self.is_empty() {
            return None;
        }
        let mut inner = self.lock();
        let segment = inner.segments.pop()?;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let file = inner.file.as_ref()?;
        let mut bytes = vec![0; segment.bytes];
        let read = file.read_exact_at(&mut bytes, segment.offset);
        // Give the space back; where the file system cannot, the file is only larger until the end.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(file, punch, segment.offset, segment.bytes as u64).is_err()
            && inner.segments.is_empty()
        {
            inner.end = 0;
        }
        Some((read.map(|()| bytes), segment.tasks))
    }

    pub(crate) fn report(&self) -> SpillReport {
        self.lock().report.clone()
    }

    fn append(&self, inner: &mut Inner, bytes: &[u8]) -> io::Result<u64> {
        if inner.file.is_none() {
            inner.file = Some(unnamed_file(&self.directory)?);
        }
        let offset = inner.end;
        if let Some(file) = &inner.file {
            file.write_all_at(bytes, offset)?;
        }
        inner.end += bytes.len() as u64;
        Ok(offset)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a private file without a name, for reading and writing: `O_TMPFILE`, or created and unlinked at once where the
/// file system lacks that.
///
/// # Errors
/// The kernel's error for the directory.
pub fn unnamed_file(directory: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        Ok(file) => Ok(file.into()),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => created_and_unlinked(directory, flags, mode),
        Err(error) => Err(error.into()),
    }
}

fn created_and_unlinked(directory: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    let unique = UNIQUE.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".atta-spill.{}.{unique}", std::process::id()));
    let file = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode)?;
    std::fs::remove_file(&path)?;
    Ok(file.into())
}

/// Makes the names of files unique within the process, for the moment in which they have names.
static UNIQUE: AtomicUsize = AtomicUsize::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_come_back_newest_first() {
        let spill = Spill::new(std::env::temp_dir());
        assert!(spill.pop().is_none());
        assert!(spill.push(b"one", 1) && spill.push(b"two two", 2));
        assert_eq!(spill.pop().map(|(bytes, tasks)| (bytes.unwrap(), tasks)), Some((b"two two".to_vec(), 2)));
        assert!(spill.push(b"three", 3));
        assert_eq!(spill.pop().map(|(bytes, tasks)| (bytes.unwrap(), tasks)), Some((b"three".to_vec(), 3)));
        assert_eq!(spill.pop().map(|(bytes, tasks)| (bytes.unwrap(), tasks)), Some((b"one".to_vec(), 1)));
        assert!(spill.is_empty());
        assert_eq!(spill.report(), SpillReport { tasks: 6, bytes: 15, error: None });
    }

    #[test]
    fn without_o_tmpfile_the_file_has_no_name_either() {
        let directory = std::env::temp_dir();
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = created_and_unlinked(&directory, flags, Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 0);
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let spill = Spill::new("/nonexistent/dir".into());
        assert!(!spill.push(b"one", 1));
        assert!(spill.is_broken() && spill.is_empty());
        assert!(spill.report().error.unwrap().contains("/nonexistent/dir"));
    }
}
