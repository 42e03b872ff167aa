//! The directory of a job that can be resumed. It holds what the job was asked for, which process runs it, and the logs of all its runs. What
//! the logs say is read by `atta-ledger`, and done by the operation.
//!
//! ```text
//!   DIR/holder     the process that runs the job, or ran it last; locked (flock) while it runs
//!   DIR/job        the header: what was asked for (header.rs)
//!   DIR/1.0        the log of run 1, rank 0 (atta-ledger)
//!   DIR/end        the job is complete: its summary
//! ```
//!
//! The directory is private (0700) and owned by the caller. No link in it is followed.

mod header;

use std::ffi::{CStr, CString};
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use atta_entry::{Errno, Kind, escape};
use atta_ledger::{Broken, JobLogs, Key, LogBytes, LogName, Record as Noted, Refused};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use crate::jobs::record::{Record, utc};
use atta_sys::{self as sys, retry};

pub use crate::jobs::record::Holder;
use header::{BYTES_MAX, Header};
pub use header::{Difference, Request};

const HOLDER: &CStr = c"holder";
const JOB: &CStr = c"job";
/// The header while it is written.
const JOB_PARTIAL: &CStr = c"job.partial";
const END: &CStr = c"end";
const END_PARTIAL: &CStr = c"end.partial";
/// How long to wait for processes of earlier runs that are about to end.
const LOCK_WAIT: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 5000 });
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Most logs of a job.
const LOGS_MAX: usize = 1 << 20;

/// A job whose directory this process holds.
#[derive(Debug)]
pub struct LoggedJob {
    directory: OwnedFd,
    /// Its lock is released when it is closed.
    _holder: OwnedFd,
    header: Header,
    key: Key,
    /// Logs of earlier runs, in order.
    logs: Vec<LogName>,
    /// The log that is open: there may be more than a process may open.
    opened: Mutex<Option<(LogName, Opened)>>,
}

/// Why a job cannot be begun or resumed.
#[derive(Debug)]
pub enum NotBegun {
    /// A step on a file of the directory failed.
    Failed(&'static str, Errno),
    /// The directory is not private, or not the caller's.
    NotPrivate,
    /// It holds something else than a job.
    NotAJob,
    /// Its header is not valid, or of another version.
    Invalid,
    /// Another rank begins a job there that this rank does not find.
    Elsewhere,
    /// It is the directory of another job.
    Differs(Difference),
    /// Another process runs the job; who, if that is known.
    Runs(Option<Holder>),
    /// A process of an earlier run has not ended: it still writes this log.
    Writes(LogName),
    /// The job is complete: its summary.
    Complete(Vec<u8>),
}

impl LoggedJob {
    /// Begins a job in a directory, which is made if it is missing, or goes on with the job there if it was asked for the same.
    ///
    /// # Errors
    /// There is another job, or none and something else; the job is complete, or runs; a file cannot be used.
    pub fn begin(path: &Path, request: &Request) -> Result<Self, NotBegun> {
        make(path)?;
        Self::open(path, Some(request), false)
    }

    /// As `begin`; a job that is there, whatever it was asked for, is forgotten, unless it runs.
    ///
    /// # Errors
    /// The job runs; the directory holds something else; a file cannot be used.
    pub fn begin_anew(path: &Path, request: &Request) -> Result<Self, NotBegun> {
        make(path)?;
        Self::open(path, Some(request), true)
    }

    /// Goes on with the job in a directory.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn resume(path: &Path) -> Result<Self, NotBegun> {
        Self::open(path, None, false)
    }

    /// What the job in a directory was asked for.
    ///
    /// # Errors
    /// There is no job, or it cannot be read.
    pub fn request_of(path: &Path) -> Result<Request, NotBegun> {
        let directory = open_private(path)?;
        read_header(&directory)?.map(|header| header.request).ok_or(NotBegun::NotAJob)
    }

    /// The number of the job in a directory, if there is one.
    #[must_use]
    pub fn number_of(path: &Path) -> Option<[u8; 16]> {
        let directory = open_private(path).ok()?;
        read_header(&directory).ok()?.map(|header| header.number)
    }

    /// Finds the directory of a job with that number, which another rank holds, and the key of its logs.
    ///
    /// # Errors
    /// It has no such job, or cannot be read.
    pub fn join(path: &Path, number: &[u8; 16]) -> Result<(OwnedFd, Key), NotBegun> {
        let directory = match open_private(path) {
            Err(NotBegun::Failed(_, Errno::NOENT)) => return Err(NotBegun::Elsewhere),
            opened => opened?,
        };
        match read_header(&directory)? {
            Some(header) if header.number == *number => Ok((directory, Key::of_job(number))),
            _ => Err(NotBegun::Elsewhere),
        }
    }

    fn open(path: &Path, request: Option<&Request>, forgets: bool) -> Result<Self, NotBegun> {
        let directory = open_private(path)?;
        let names = sys::names_of(&directory, LOGS_MAX).map_err(|errno| NotBegun::Failed("read", errno))?;
        if names.iter().any(|name| !is_own(name)) {
            return Err(NotBegun::NotAJob);
        }
        let holder = hold(&directory)?;
        // Another process may have ended meanwhile.
        let mut names =
            sys::names_of(&directory, LOGS_MAX).map_err(|errno| NotBegun::Failed("read", errno))?;
        let logs: Vec<_> = names.iter().filter_map(|name| log_name(name)).collect();
        refuse_writers(&directory, &logs)?;
        if forgets {
            forget(&directory, &names).map_err(|errno| NotBegun::Failed("clear", errno))?;
            names.clear();
        }
        let header = match (read_header(&directory)?, request) {
            (Some(header), Some(request)) => match header.difference(request) {
                Some(difference) => return Err(NotBegun::Differs(difference)),
                None => header,
            },
            (Some(header), None) => header,
            (None, Some(request)) => new_header(&directory, request)?,
            (None, None) => return Err(NotBegun::NotAJob),
        };
        if let Some(summary) = read(&directory, END, BYTES_MAX)? {
            return Err(NotBegun::Complete(summary));
        }
        let mut logs: Vec<_> = names.iter().filter_map(|name| log_name(name)).collect();
        logs.sort_unstable();
        let key = Key::of_job(&header.number);
        Ok(Self { directory, _holder: holder, header, key, logs, opened: Mutex::default() })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// The random number that names it.
    #[must_use]
    pub fn number(&self) -> [u8; 16] {
        self.header.number
    }

    /// The key of its logs.
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }

    /// The arguments of the command that has begun it, without the program's name.
    #[must_use]
    pub fn arguments(&self) -> &[Vec<u8>] {
        &self.header.request.arguments
    }

    /// When it began, as RFC 3339 has it.
    #[must_use]
    pub fn began(&self) -> String {
        utc(self.header.began)
    }

    /// The number of this run, from 1.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.logs.last().map_or(0, |last| last.run).saturating_add(1)
    }

    /// The logs of earlier runs, and what counts of them. That is on storage afterwards, as a later run relies on it.
    ///
    /// # Errors
    /// A log is refused, or cannot be read or synced.
    pub fn earlier(&self) -> Result<JobLogs<'_, EarlierLog<'_>>, BadLog> {
        let logs = self.logs.iter().map(|name| (*name, EarlierLog { job: self, name: *name }));
        let found = JobLogs::find(&self.key, logs.collect())?;
        for cut in found.cuts() {
            match cut {
                // Whoever wrote it may be dead, and has not synced its last frames.
                Noted::Cut { log, bytes } if bytes > 0 => {
                    let synced = self.with_opened(log, |opened| retry(|| rustix::fs::fdatasync(&opened.0)));
                    synced.map_err(|errno| BadLog { name: log, broken: Broken::Unreadable(errno) })?;
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Does something with a log. It stays open until the next log is needed.
    fn with_opened<T>(
        &self,
        name: LogName,
        act: impl FnOnce(&mut Opened) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, opened)) = opened.as_mut().filter(|(other, _)| *other == name) {
            return act(opened);
        }
        let file = CString::new(name.to_string()).unwrap_or_default();
        let (_, opened) = opened.insert((name, Opened(open_plain(&self.directory, &file, OFlags::RDONLY)?)));
        act(opened)
    }

    /// Notes that the job is complete, and removes its logs. `summary`: what [`begin`](Self::begin) says of it later.
    ///
    /// # Errors
    /// The summary cannot be written; the job is then not complete.
    pub fn complete(self, summary: &[u8]) -> Result<(), Errno> {
        let summary = &summary[..summary.len().min(BYTES_MAX)];
        write(&self.directory, (END_PARTIAL, END), summary)?;
        let names = sys::names_of(&self.directory, LOGS_MAX).unwrap_or_default();
        for name in names.iter().filter(|name| log_name(name).is_some()) {
            // A log that stays does no harm.
            let _ = retry(|| rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()));
        }
        Ok(())
    }
}

/// Device and inode of an open directory, as a walk sees them.
///
/// # Errors
/// The kernel's error.
pub fn place_of(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    sys::stat_descriptor(directory).map(|found| (found.device, found.inode))
}

/// A log of an earlier run.
#[derive(Debug)]
pub struct EarlierLog<'a> {
    job: &'a LoggedJob,
    name: LogName,
}

/// A log that cannot be read.
#[derive(Debug)]
pub struct BadLog {
    /// Its name in the directory.
    pub name: LogName,
    /// Why.
    pub broken: Broken<Errno>,
}

impl From<Refused<Errno>> for BadLog {
    fn from(Refused { log, why }: Refused<Errno>) -> Self {
        Self { name: log, broken: why }
    }
}

impl fmt::Display for BadLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.broken {
            Broken::Unreadable(errno) => write!(f, "cannot read the log {name}: {errno}"),
            Broken::Version(version) => write!(f, "the log {name} has version {version} of the format"),
            Broken::Damaged { offset } => write!(f, "the log {name} is damaged at byte {offset}"),
            Broken::Invalid { offset } => write!(f, "the log {name} is not valid at byte {offset}"),
        }
    }
}

#[derive(Debug)]
struct Opened(OwnedFd);

impl LogBytes for Opened {
    type Error = Errno;

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        sys::data::read_full_at(&self.0, into, offset)
    }
}

impl LogBytes for EarlierLog<'_> {
    type Error = Errno;

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        self.job.with_opened(self.name, |opened| opened.read_at(offset, into))
    }
}

/// The name of a log, if it is one.
fn log_name(name: &CStr) -> Option<LogName> {
    let text = name.to_str().ok()?;
    let numbers: Option<Vec<u32>> = text.split('.').map(|number| number.parse().ok()).collect();
    let found = match numbers?[..] {
        [run, rank] => LogName { run, rank, part: 0 },
        [run, rank, part] => LogName { run, rank, part },
        _ => return None,
    };
    // One spelling.
    (found.to_string() == text).then_some(found)
}

/// Refuses logs whose processes have not ended. Some that were killed may need a moment.
fn refuse_writers(directory: &OwnedFd, logs: &[LogName]) -> Result<(), NotBegun> {
    let until = Instant::now() + LOCK_WAIT;
    for log in logs {
        let name = CString::new(log.to_string()).unwrap_or_default();
        // Whoever reads it reports why it cannot be opened.
        let Ok(opened) = open_plain(directory, &name, OFlags::RDONLY) else { continue };
        // Another error: the file system has no locks.
        let is_held = || {
            retry(|| rustix::fs::flock(&opened, FlockOperation::NonBlockingLockShared)) == Err(Errno::AGAIN)
        };
        while is_held() {
            if Instant::now() >= until {
                return Err(NotBegun::Writes(*log));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }
    Ok(())
}

/// Removes the files of a job but its holder: the header last.
fn forget(directory: &OwnedFd, names: &[CString]) -> Result<(), Errno> {
    let others = names.iter().map(CString::as_c_str).filter(|name| ![HOLDER, JOB].contains(name));
    for name in others.chain([JOB]) {
        match retry(|| rustix::fs::unlinkat(directory, name, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn is_own(name: &CStr) -> bool {
    [HOLDER, JOB, JOB_PARTIAL, END, END_PARTIAL].contains(&name) || log_name(name).is_some()
}

/// Makes a private directory, unless something is there.
fn make(path: &Path) -> Result<(), NotBegun> {
    match retry(|| rustix::fs::mkdir(path, Mode::RWXU)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(NotBegun::Failed("make", errno)),
    }
}

fn open_private(path: &Path) -> Result<OwnedFd, NotBegun> {
    let failed = |errno| NotBegun::Failed("open", errno);
    let directory = sys::open_directory_path(path.as_os_str().as_encoded_bytes(), false).map_err(failed)?;
    let found = sys::stat_descriptor(&directory).map_err(failed)?;
    let is_own = found.uid == rustix::process::geteuid().as_raw() && found.mode & 0o077 == 0;
    if is_own { Ok(directory) } else { Err(NotBegun::NotPrivate) }
}

/// Takes the lock of a job, and names this process as its holder.
fn hold(directory: &OwnedFd) -> Result<OwnedFd, NotBegun> {
    let failed = |errno| NotBegun::Failed("lock", errno);
    let file = open_plain(directory, HOLDER, OFlags::RDWR | OFlags::CREATE).map_err(failed)?;
    let known =
        || read_open(&file, crate::jobs::record::BYTES_MAX).ok().and_then(|text| Record::from_text(&text));
    match retry(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Err(NotBegun::Runs(known().map(|record| record.holder))),
        // Without locks only a process of this host can be known to have ended.
        Err(_) => {
            let runs = |record: &Record| {
                !record.is_of_this_host() || record.is_of_this_boot() && record.holder.is_alive()
            };
            if let Some(record) = known().filter(runs) {
                return Err(NotBegun::Runs(Some(record.holder)));
            }
        }
    }
    let text = Record::of_this_process(0, (0, 0), false, Vec::new()).to_text();
    retry(|| rustix::fs::ftruncate(&file, 0)).map_err(failed)?;
    sys::data::write_all_at(&file, text.as_bytes(), 0).map_err(failed)?;
    retry(|| rustix::fs::fsync(&file)).map_err(failed)?;
    Ok(file)
}

fn read_header(directory: &OwnedFd) -> Result<Option<Header>, NotBegun> {
    let Some(text) = read(directory, JOB, BYTES_MAX)? else { return Ok(None) };
    Header::from_text(&text).map(Some).ok_or(NotBegun::Invalid)
}

fn new_header(directory: &OwnedFd, request: &Request) -> Result<Header, NotBegun> {
    let failed = |errno| NotBegun::Failed("begin", errno);
    let mut number = [0; 16];
    let random = std::fs::File::open("/dev/urandom");
    let filled = random.and_then(|mut random| std::io::Read::read_exact(&mut random, &mut number));
    filled.map_err(|error| failed(Errno(error.raw_os_error().unwrap_or(Errno::IO.0))))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let header = Header { number, began: now, request: request.clone() };
    let text = header.to_text();
    if text.len() > BYTES_MAX {
        return Err(failed(Errno(rustix::io::Errno::TOOBIG.raw_os_error())));
    }
    write(directory, (JOB_PARTIAL, JOB), text.as_bytes()).map_err(failed)?;
    Ok(header)
}

/// Opens a regular file without following a link. It must have one name, and be the caller's.
fn open_plain(directory: &OwnedFd, name: &CStr, access: OFlags) -> Result<OwnedFd, Errno> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = retry(|| rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR))?;
    let found = sys::stat_descriptor(&file)?;
    let is_plain = found.kind() == Kind::File && found.nlink == 1;
    let is_own = found.uid == rustix::process::geteuid().as_raw();
    if is_plain && is_own { Ok(file) } else { Err(Errno::PERM) }
}

/// The bytes of a file, if it is there.
fn read(directory: &OwnedFd, name: &CStr, most: usize) -> Result<Option<Vec<u8>>, NotBegun> {
    let read = match open_plain(directory, name, OFlags::RDONLY) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened.and_then(|file| read_open(&file, most)),
    };
    read.map(Some).map_err(|errno| NotBegun::Failed("read", errno))
}

fn read_open(file: &OwnedFd, most: usize) -> Result<Vec<u8>, Errno> {
    let size = usize::try_from(sys::stat_descriptor(file)?.size).unwrap_or(usize::MAX);
    if size > most {
        return Err(Errno(rustix::io::Errno::FBIG.raw_os_error()));
    }
    let mut bytes = vec![0; size];
    let filled = sys::data::read_full_at(file, &mut bytes, 0)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Writes a file and gives it its name when it is on storage.
fn write(directory: &OwnedFd, (partial, name): (&CStr, &CStr), bytes: &[u8]) -> Result<(), Errno> {
    // Of a run that was killed.
    let _ = retry(|| rustix::fs::unlinkat(directory, partial, AtFlags::empty()));
    let file = open_plain(directory, partial, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    sys::data::write_all_at(&file, bytes, 0)?;
    retry(|| rustix::fs::fsync(&file))?;
    retry(|| rustix::fs::renameat(directory, partial, directory, name))?;
    match retry(|| rustix::fs::fsync(directory)) {
        // This file system syncs no directories.
        Err(Errno::INVAL) => Ok(()),
        synced => synced,
    }
}

impl NotBegun {
    /// The reason, with the directory's path.
    #[must_use]
    pub fn describe(&self, path: &Path) -> String {
        let path = escape(path.as_os_str().as_encoded_bytes());
        match self {
            Self::Failed(step, errno) => format!("cannot {step} the job directory {path}: {errno}"),
            Self::NotPrivate => {
                format!("the job directory {path} is not private, or belongs to somebody else")
            }
            Self::NotAJob => format!("{path} holds no job"),
            Self::Invalid => format!("{path}/job is not valid, or of another version"),
            Self::Elsewhere => format!("the job directory {path} is not the same on all ranks"),
            Self::Differs(difference) => format!("{path} is the directory of another job: {difference}"),
            Self::Runs(Some(holder)) => format!("the job in {path} is running: {holder}"),
            Self::Runs(None) => format!("the job in {path} is running"),
            Self::Writes(log) => {
                format!("the job in {path} is running: a rank of an earlier run still writes the log {log}")
            }
            Self::Complete(_) => format!("the job in {path} is complete"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.missing, &self.more) {
            (Some(missing), Some(more)) => write!(f, "it has {}, not {}", escape(missing), escape(more)),
            (Some(missing), None) => write!(f, "it has {}", escape(missing)),
            (None, Some(more)) => write!(f, "it does not have {}", escape(more)),
            (None, None) => write!(f, "it has the same things in another order"),
        }
    }
}

#[cfg(test)]
pub(crate) mod fuzz;
#[cfg(test)]
mod tests;
