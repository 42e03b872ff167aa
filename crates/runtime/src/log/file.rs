//! One file of a log, and the calls on it. It knows no frames, and repeats only calls that a signal interrupted. A [`LaterLog`] is created when it is
//! first written.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use atta_ledger::{Key, LogName};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

/// Space that is always reserved behind the end of a log, so that a full disk can still be recorded.
pub(super) const AHEAD: u64 = 1 << 20;

/// The calls on a file of a log. Tests have files that fail.
pub(super) trait Calls: Debug + Send + Sync {
    /// Its log.
    fn name(&self) -> LogName;

    /// Reserves space. The file does not get longer.
    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), Errno>;

    /// Writes bytes, perhaps not all of them. Returns how many.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno>;

    /// Waits until all that was written before is on storage.
    fn sync(&self) -> Result<(), Errno>;

    /// Creates the file of the next part.
    fn next(&self) -> Result<Arc<dyn Calls>, Errno>;

    /// Whether anything was written, or is to be written whatever happens.
    fn is_begun(&self) -> bool {
        true
    }
}

/// Reserves space, if the file system can do that.
pub(super) fn reserve(file: &dyn Calls, offset: u64, bytes: u64) -> Result<(), Errno> {
    match file.reserve(offset, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        outcome => outcome,
    }
}

/// The file of a log, locked while this value lives.
#[derive(Debug)]
pub struct LogFile {
    directory: OwnedFd,
    file: OwnedFd,
    pub(super) key: Key,
    name: LogName,
}

impl LogFile {
    /// Creates the file of a log in a directory, which is open for reading, with 1 MiB reserved. Takes its lock (`flock`), if the file system has
    /// locks. The name of the file is on storage afterwards. `name` has part 0: the log makes the next part itself.
    ///
    /// # Errors
    /// The file exists, another process has its lock, or there is no space. The file is removed again.
    pub fn create(directory: &OwnedFd, key: Key, name: LogName) -> io::Result<Self> {
        Ok(Self::create_in(directory, key, name)?)
    }

    fn create_in(directory: &OwnedFd, key: Key, name: LogName) -> Result<Self, Errno> {
        let directory = rustix::io::fcntl_dupfd_cloexec(directory, 0)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = retry_on_intr(|| rustix::fs::openat(&directory, name.to_string(), flags, mode))?;
        let made = Self { directory, file, key, name };
        made.prepare().inspect_err(|_| {
            // The first error is the one to report. An empty log says nothing.
            let _ = rustix::fs::unlinkat(&made.directory, name.to_string(), AtFlags::empty());
        })?;
        Ok(made)
    }

    fn prepare(&self) -> Result<(), Errno> {
        let lock = || rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive);
        // Another error: the file system has no locks.
        if retry_on_intr(lock) == Err(Errno::AGAIN) {
            return Err(Errno::AGAIN);
        }
        reserve(self, 0, AHEAD)?;
        match retry_on_intr(|| rustix::fs::fsync(&self.directory)) {
            // The file system does not sync directories.
            Err(Errno::INVAL) => Ok(()),
            outcome => outcome,
        }
    }
}

impl Calls for LogFile {
    fn name(&self) -> LogName {
        self.name
    }

    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, bytes))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        retry_on_intr(|| rustix::io::pwrite(&self.file, bytes, offset))
    }

    fn sync(&self) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::fdatasync(&self.file))
    }

    fn next(&self) -> Result<Arc<dyn Calls>, Errno> {
        let name = LogName { part: self.name.part + 1, ..self.name };
        Ok(Arc::new(Self::create_in(&self.directory, self.key, name)?))
    }
}

/// What creates the file of a log; none: there is to be no log.
type Create = Box<dyn FnOnce() -> Option<LogFile> + Send>;

/// A log whose file is created by the first frame. A job that ends before that, and was not stopped, leaves nothing.
pub struct LaterLog {
    pub(super) key: Key,
    name: LogName,
    create: Mutex<Option<Create>>,
    created: OnceLock<Option<LogFile>>,
}

impl Debug for LaterLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaterLog").field("name", &self.name).finish_non_exhaustive()
    }
}

impl LaterLog {
    /// `create` is called at most once, on any thread. If it returns none, what is written is dropped.
    pub fn new(key: Key, name: LogName, create: impl FnOnce() -> Option<LogFile> + Send + 'static) -> Self {
        Self { key, name, create: Mutex::new(Some(Box::new(create))), created: OnceLock::new() }
    }

    fn file(&self) -> Option<&LogFile> {
        let create = || self.create.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.created.get_or_init(|| create().and_then(|create| create())).as_ref()
    }
}

impl Calls for LaterLog {
    fn name(&self) -> LogName {
        self.name
    }

    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        self.file().map_or(Ok(()), |file| file.reserve(offset, bytes))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        self.file().map_or(Ok(bytes.len()), |file| file.write(offset, bytes))
    }

    fn sync(&self) -> Result<(), Errno> {
        self.file().map_or(Ok(()), Calls::sync)
    }

    fn next(&self) -> Result<Arc<dyn Calls>, Errno> {
        self.file().map_or(Err(Errno::NOENT), Calls::next)
    }

    fn is_begun(&self) -> bool {
        self.created.get().is_some()
    }
}
