//! One file of a log, and the calls on it. It knows no frames, and repeats only calls that a signal interrupted. A [`LaterLog`] is created when it is
//! first written.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::rank::mirror::Mirror;
use atta_ledger::{Key, LogName};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

/// Space that is always reserved behind the end of a log, so that a full disk can still be recorded.
pub(super) const AHEAD: u64 = 1 << 20;

/// The same for a log that its job does not depend on: a target may have room for little more than the copy.
const AHEAD_SMALL: u64 = 64 << 10;

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

    /// Whether it was created, or that was tried.
    fn is_begun(&self) -> bool {
        true
    }

    /// Creates it, if that was not done. Returns whether it is there.
    fn begin(&self) -> bool {
        true
    }

    /// It is not created any more, if it was not.
    fn cancel(&self) {}

    /// Space that is always reserved behind its end.
    fn ahead(&self) -> u64 {
        AHEAD
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
    ahead: u64,
    /// Gets what is written.
    mirror: Option<Mirror>,
}

impl LogFile {
    /// Creates the file of a log in a directory, which is open for reading, with 1 MiB reserved. Takes its lock (`flock`), if the file system has
    /// locks. The name of the file is on storage afterwards. `name` has part 0: the log makes the next part itself.
    ///
    /// # Errors
    /// The file exists, another process has its lock, or there is no space. The file is removed again.
    pub fn create(directory: &OwnedFd, key: Key, name: LogName) -> io::Result<Self> {
        Ok(Self::create_in(directory, (key, name), AHEAD)?)
    }

    /// The same with 64 KiB reserved, for a [`LaterLog`].
    ///
    /// # Errors
    /// As `create`.
    pub fn create_small(directory: &OwnedFd, key: Key, name: LogName) -> io::Result<Self> {
        Ok(Self::create_in(directory, (key, name), AHEAD_SMALL)?)
    }

    fn create_in(directory: &OwnedFd, (key, name): (Key, LogName), ahead: u64) -> Result<Self, Errno> {
        let directory = rustix::io::fcntl_dupfd_cloexec(directory, 0)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = retry_on_intr(|| rustix::fs::openat(&directory, name.to_string(), flags, mode))?;
        let made = Self { directory, file, key, name, ahead, mirror: None };
        made.prepare().inspect_err(|_| {
            // The first error is the one to report. An empty log says nothing.
            let _ = rustix::fs::unlinkat(&made.directory, name.to_string(), AtFlags::empty());
        })?;
        Ok(made)
    }

    /// Other ranks keep what is written, too.
    #[must_use]
    pub fn mirrored(self, mirror: Option<Mirror>) -> Self {
        Self { mirror, ..self }
    }

    fn prepare(&self) -> Result<(), Errno> {
        let lock = || rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive);
        // Another error: the file system has no locks.
        if retry_on_intr(lock) == Err(Errno::AGAIN) {
            return Err(Errno::AGAIN);
        }
        reserve(self, 0, self.ahead)?;
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
        let count = retry_on_intr(|| rustix::io::pwrite(&self.file, bytes, offset))?;
        if let Some(mirror) = &self.mirror {
            mirror.note(self.name, offset, &bytes[..count]);
        }
        Ok(count)
    }

    fn sync(&self) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::fdatasync(&self.file))
    }

    fn next(&self) -> Result<Arc<dyn Calls>, Errno> {
        let name = LogName { part: self.name.part + 1, ..self.name };
        let next = Self::create_in(&self.directory, (self.key, name), self.ahead)?;
        Ok(Arc::new(next.mirrored(self.mirror.clone())))
    }

    fn ahead(&self) -> u64 {
        self.ahead
    }
}

/// What creates the file of a log; none: there is to be no log.
type Create = Box<dyn FnOnce() -> Option<LogFile> + Send>;

/// A log whose file is created by the first frame. A job that ends before that, and was not stopped, leaves nothing. The job does not depend on it:
/// after a call that failed, what is written is dropped. A later run goes on with what the file has.
pub struct LaterLog {
    pub(super) key: Key,
    name: LogName,
    create: Mutex<Option<Create>>,
    created: OnceLock<Option<LogFile>>,
    report: Report,
    has_failed: AtomicBool,
}

/// Gets the first failure.
type Report = Box<dyn Fn(&io::Error) + Send + Sync>;

impl Debug for LaterLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaterLog").field("name", &self.name).finish_non_exhaustive()
    }
}

impl LaterLog {
    /// `create` is called at most once, on any thread. If it returns none, what is written is dropped. `report` gets the first failure of a call
    /// after that.
    pub fn new(
        key: Key,
        name: LogName,
        create: impl FnOnce() -> Option<LogFile> + Send + 'static,
        report: impl Fn(&io::Error) + Send + Sync + 'static,
    ) -> Self {
        let (create, created) = (Mutex::new(Some(Box::new(create) as Create)), OnceLock::new());
        Self { key, name, create, created, report: Box::new(report), has_failed: AtomicBool::new(false) }
    }

    fn file(&self) -> Option<&LogFile> {
        let create = || self.create.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.created.get_or_init(|| create().and_then(|create| create())).as_ref()
    }

    /// Calls the file, unless a call has failed.
    fn call<T>(&self, dropped: T, call: impl FnOnce(&LogFile) -> Result<T, Errno>) -> Result<T, Errno> {
        let Some(file) = self.file().filter(|_| !self.has_failed.load(Ordering::Relaxed)) else {
            return Ok(dropped);
        };
        Ok(call(file).unwrap_or_else(|errno| {
            if !self.has_failed.swap(true, Ordering::Relaxed) {
                (self.report)(&errno.into());
            }
            dropped
        }))
    }
}

impl Calls for LaterLog {
    fn name(&self) -> LogName {
        self.name
    }

    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        self.call((), |file| reserve(file, offset, bytes))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        self.call(bytes.len(), |file| file.write(offset, bytes))
    }

    fn sync(&self) -> Result<(), Errno> {
        self.call((), Calls::sync)
    }

    /// No call fails, so no part follows.
    fn next(&self) -> Result<Arc<dyn Calls>, Errno> {
        Err(Errno::NOENT)
    }

    fn is_begun(&self) -> bool {
        self.created.get().is_some()
    }

    fn begin(&self) -> bool {
        self.file().is_some()
    }

    fn cancel(&self) {
        self.created.get_or_init(|| None);
    }

    fn ahead(&self) -> u64 {
        AHEAD_SMALL
    }
}
