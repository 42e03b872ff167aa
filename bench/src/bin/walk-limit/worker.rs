//! One thread of `walk-limit`: takes work, makes the system calls, queues what it found.
//!
//! A small directory is read and stat'ed by one worker, straight out of the buffer of getdents64. Of a large one the
//! first names are treated the same way, and the rest goes to the queue in batches, so that one directory with all
//! the files keeps every thread busy.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io;

use crate::queue::{Queue, Work};

/// The buffer of getdents64, one for each thread: a call returns some 8,000 names of the usual length.
const BUFFER_BYTES: usize = 256 * 1024;

/// Entries of a directory that its reader stats itself before it makes batches: about 32 KiB of directory entries.
const DIRECT_ENTRIES: u64 = 1_024;

/// Names in one batch: some hundred stats, long beside the lock and short beside a whole directory.
const BATCH_BYTES: usize = 16 * 1024;

/// What one worker, or all of them, met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) entries: u64,
    pub(crate) directories: u64,
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
}

impl Counts {
    /// The sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            directories: self.directories + other.directories,
            errors: self.errors + other.errors,
            bytes: self.bytes + other.bytes,
        }
    }

    fn stat(&mut self, directory: BorrowedFd<'_>, name: &CStr) {
        match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => self.bytes += u64::try_from(stat.st_size).unwrap_or(0),
            Err(_) => self.errors += 1,
        }
    }
}

/// A thread's own state.
pub(crate) struct Worker<'queue> {
    queue: &'queue Queue,
    counts: Counts,
    /// Never filled through the `Vec`: its spare capacity is the uninitialized buffer of getdents64.
    buffer: Vec<u8>,
    /// Directories that the current directory holds, queued together.
    children: Vec<Work>,
}

impl<'queue> Worker<'queue> {
    /// A worker that takes from `queue`.
    pub(crate) fn new(queue: &'queue Queue) -> Self {
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Self { queue, counts: Counts::default(), buffer, children: Vec::new() }
    }

    /// Works until everything is done.
    pub(crate) fn run(mut self) -> Counts {
        let mut work = self.queue.first();
        while let Some(taken) = work {
            match taken {
                Work::Directory { parent, name } => match open(parent.as_deref(), &name) {
                    Ok(directory) => {
                        drop(parent);
                        self.read(&Arc::new(directory));
                    }
                    Err(_) => self.counts.errors += 1,
                },
                Work::Names { directory, names } => self.stat_names(&directory, &names),
            }
            work = self.queue.next();
        }
        self.counts
    }

    fn read(&mut self, directory: &Arc<OwnedFd>) {
        self.counts.directories += 1;
        let mut batch = Batch::default();
        let mut seen = 0;
        let mut entries = RawDir::new(directory, self.buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else {
                self.counts.errors += 1;
                break;
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            seen += 1;
            if entry.file_type() == FileType::Directory {
                let child =
                    Work::Directory { parent: Some(Arc::clone(directory)), name: CString::from(name) };
                self.children.push(child);
            }
            if seen <= DIRECT_ENTRIES {
                self.counts.stat(directory.as_fd(), name);
                continue;
            }
            if batch.add(name) {
                self.children.push(batch.take(directory));
                self.queue.push(&mut self.children);
            }
        }
        self.counts.entries += seen;
        if !batch.names.is_empty() {
            self.children.push(batch.take(directory));
        }
        if !self.children.is_empty() {
            self.queue.push(&mut self.children);
        }
    }

    fn stat_names(&mut self, directory: &OwnedFd, mut names: &[u8]) {
        while let Ok(name) = CStr::from_bytes_until_nul(names) {
            self.counts.stat(directory.as_fd(), name);
            names = &names[name.count_bytes() + 1..];
        }
    }
}

fn open(parent: Option<&OwnedFd>, name: &CStr) -> io::Result<OwnedFd> {
    let parent = parent.map_or(CWD, AsFd::as_fd);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Names of one directory, on their way to the queue.
#[derive(Default)]
struct Batch {
    names: Vec<u8>,
}

impl Batch {
    /// Adds a name; whether the batch is full.
    fn add(&mut self, name: &CStr) -> bool {
        if self.names.capacity() == 0 {
            // One allocation: the batch ends when it is full, and a name is at most 255 bytes and its NUL.
            self.names.reserve_exact(BATCH_BYTES + 256);
        }
        self.names.extend_from_slice(name.to_bytes_with_nul());
        self.names.len() >= BATCH_BYTES
    }

    /// What was gathered, as work; the batch is empty then.
    fn take(&mut self, directory: &Arc<OwnedFd>) -> Work {
        Work::Names { directory: Arc::clone(directory), names: std::mem::take(&mut self.names) }
    }
}
