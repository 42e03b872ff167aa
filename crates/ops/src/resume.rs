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

mod files;
mod header;
mod later;
mod place;
mod seen;

use std::ffi::CString;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use atta_entry::{Errno, escape};
use atta_ledger::{Broken, JobLogs, Key, LogBytes, LogName, Record as Noted, Refused};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, OFlags};

use crate::jobs::record::utc;
use atta_sys::{self as sys, retry};

pub use crate::jobs::record::{Holder, host};
use files::{END, END_PARTIAL, JOB, JOB_PARTIAL, hold, is_own, log_name, open_plain, read, write};
pub(crate) use files::{Holding, forget_files, try_hold};
use header::{BYTES_MAX, Header};
pub use header::{Difference, Request};
pub use later::RunningJob;
pub use place::JobPlace;
pub use seen::JobSeen;

/// Most logs of a job.
const LOGS_MAX: usize = 1 << 20;
/// How often a directory is made again if other processes remove it.
const TRIES: u32 = 16;

/// A job whose directory this process holds.
#[derive(Debug)]
pub struct LoggedJob {
    place: JobPlace,
    directory: OwnedFd,
    /// Its lock is released when it is closed. None: the job is only looked at.
    holder: Option<OwnedFd>,
    header: Header,
    /// Its header was there before. An earlier run may have done something without a log.
    was_there: bool,
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
    /// There is a job already.
    Taken,
    /// Another process has removed it meanwhile.
    Removed,
}

impl LoggedJob {
    /// Begins a job in a directory, which is made if it is missing, or goes on with the job there if it was asked for the same.
    ///
    /// # Errors
    /// There is another job, or none and something else; the job is complete, or runs; a file cannot be used.
    pub fn begin(place: &JobPlace, request: &Request) -> Result<Self, NotBegun> {
        Self::make(place, Asks::For(request), false)
    }

    /// Begins a job with this header, where there is none.
    fn begin_with(place: &JobPlace, header: &Header) -> Result<Self, NotBegun> {
        Self::make(place, Asks::With(header), false)
    }

    /// As `begin`; a job that is there, whatever it was asked for, is forgotten, unless it runs.
    ///
    /// # Errors
    /// The job runs; the directory holds something else; a file cannot be used.
    pub fn begin_anew(place: &JobPlace, request: &Request) -> Result<Self, NotBegun> {
        Self::make(place, Asks::For(request), true)
    }

    /// Opens a job in a directory, which is made if it is missing, also if another process removes it meanwhile.
    fn make(place: &JobPlace, asks: Asks<'_>, forgets: bool) -> Result<Self, NotBegun> {
        for _ in 0..TRIES {
            place.make()?;
            match Self::open(place, asks, forgets) {
                Err(NotBegun::Removed) => {}
                opened => return opened,
            }
        }
        Err(NotBegun::Removed)
    }

    /// Goes on with the job in a directory.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn resume(place: &JobPlace) -> Result<Self, NotBegun> {
        Self::open(place, Asks::Nothing, false)
    }

    /// What the job in a directory was asked for.
    ///
    /// # Errors
    /// There is no job, or it cannot be read.
    pub fn request_of(place: &JobPlace) -> Result<Request, NotBegun> {
        let directory = place.open()?;
        read_header(&directory)?.map(|header| header.request).ok_or(NotBegun::NotAJob)
    }

    /// The number of the job in a directory, if there is one that can be read.
    #[must_use]
    pub fn number_of(place: &JobPlace) -> Option<[u8; 16]> {
        Self::find(place).ok().flatten()
    }

    /// The number of the job in a directory. None: there is no such directory of this user's, or no job in it.
    ///
    /// # Errors
    /// There may be one: it cannot be read, or is of another version.
    pub fn find(place: &JobPlace) -> Result<Option<[u8; 16]>, NotBegun> {
        match place.open() {
            Err(NotBegun::Failed(_, Errno::NOENT | Errno::NOTDIR | Errno::LOOP) | NotBegun::NotPrivate) => {
                Ok(None)
            }
            opened => Ok(read_header(&opened?)?.map(|header| header.number)),
        }
    }

    /// Finds the directory of a job with that number, which another rank holds, and the key of its logs.
    ///
    /// # Errors
    /// It has no such job, or cannot be read.
    pub fn join(place: &JobPlace, number: &[u8; 16]) -> Result<(OwnedFd, Key), NotBegun> {
        let directory = match place.open() {
            Err(NotBegun::Failed(_, Errno::NOENT)) => return Err(NotBegun::Elsewhere),
            opened => opened?,
        };
        match read_header(&directory)? {
            Some(header) if header.number == *number => Ok((directory, Key::of_job(number))),
            _ => Err(NotBegun::Elsewhere),
        }
    }

    fn open(place: &JobPlace, asks: Asks<'_>, forgets: bool) -> Result<Self, NotBegun> {
        let directory = place.open()?;
        let names_of =
            || sys::names_of(&directory, LOGS_MAX).map_err(|errno| NotBegun::Failed("read", errno));
        if names_of()?.iter().any(|name| !is_own(name)) {
            return Err(NotBegun::NotAJob);
        }
        let holder = hold(&directory)?;
        if !files::is_held_by(&directory, &holder) {
            return Err(NotBegun::Removed);
        }
        // Another process may have ended meanwhile.
        let mut names = names_of()?;
        let logs: Vec<_> = names.iter().filter_map(|name| log_name(name)).collect();
        files::refuse_writers(&directory, &logs)?;
        // Without a header, somebody has begun to forget it.
        let was_there = !forgets && read_header(&directory)?.is_some();
        if !was_there && !matches!(asks, Asks::Nothing) {
            files::forget(&directory, &names).map_err(|errno| NotBegun::Failed("clear", errno))?;
            names.clear();
        }
        let header = asks.header(&directory)?;
        if let Some(summary) = read(&directory, END, BYTES_MAX)? {
            return Err(NotBegun::Complete(summary));
        }
        let place = place.clone();
        Ok(Self { holder: Some(holder), was_there, ..Self::of(place, directory, header, &names) })
    }

    fn of(place: JobPlace, directory: OwnedFd, header: Header, names: &[CString]) -> Self {
        let mut logs: Vec<_> = names.iter().filter_map(|name| log_name(name)).collect();
        logs.sort_unstable();
        let (key, opened) = (Key::of_job(&header.number), Mutex::default());
        Self { place, directory, holder: None, header, was_there: true, key, logs, opened }
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> &JobPlace {
        &self.place
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
        // One that was killed before it had a log may have written to the target.
        let before = self.logs.last().map_or(u32::from(self.was_there), |last| last.run);
        before.saturating_add(1)
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
                Noted::Cut { log, bytes } if bytes > 0 && self.holder.is_some() => {
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

    /// Removes it from the target of a copy that has come to its end. `keeps_times`: the directory that it is in is itself a copy, which has its
    /// times.
    ///
    /// # Errors
    /// Something of it cannot be removed.
    pub fn remove(self, keeps_times: bool) -> Result<(), Errno> {
        let names = sys::names_of(&self.directory, LOGS_MAX)?;
        files::forget(&self.directory, &names)?;
        files::forget_holder(&self.directory)?;
        self.place.remove(keeps_times)
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

/// The number of the job in an open directory, as names of temporary files have it. None: there is no valid header.
pub(crate) fn number_in(directory: &OwnedFd) -> Option<u64> {
    read_header(directory).ok().flatten().map(|header| short(header.number))
}

/// The number that names of temporary files follow from.
#[must_use]
pub fn short(number: [u8; 16]) -> u64 {
    u64::from_le_bytes(*number.first_chunk().unwrap_or(&[0; 8]))
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

fn read_header(directory: &OwnedFd) -> Result<Option<Header>, NotBegun> {
    let Some(text) = read(directory, JOB, BYTES_MAX)? else { return Ok(None) };
    Header::from_text(&text).map(Some).ok_or(NotBegun::Invalid)
}

/// What somebody who opens a job asks for.
#[derive(Clone, Copy)]
enum Asks<'a> {
    /// The job that is there.
    Nothing,
    /// A job for this request. It is begun if there is none.
    For(&'a Request),
    /// A new job.
    With(&'a Header),
}

impl Asks<'_> {
    /// The header of the job, which is written if there is none.
    fn header(self, directory: &OwnedFd) -> Result<Header, NotBegun> {
        match (read_header(directory)?, self) {
            (Some(header), Asks::Nothing) => Ok(header),
            (Some(header), Asks::For(request)) => match header.difference(request) {
                Some(difference) => Err(NotBegun::Differs(difference)),
                None => Ok(header),
            },
            (Some(_), Asks::With(_)) => Err(NotBegun::Taken),
            (None, Asks::Nothing) => Err(NotBegun::NotAJob),
            (None, Asks::For(request)) => write_header(directory, new_header(request)?),
            (None, Asks::With(header)) => write_header(directory, header.clone()),
        }
    }
}

/// The header of a job that begins now.
fn new_header(request: &Request) -> Result<Header, NotBegun> {
    let mut number = [0; 16];
    let random = std::fs::File::open("/dev/urandom");
    let filled = random.and_then(|mut random| std::io::Read::read_exact(&mut random, &mut number));
    let failed =
        |error: std::io::Error| NotBegun::Failed("begin", Errno(error.raw_os_error().unwrap_or(Errno::IO.0)));
    filled.map_err(failed)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(Header { number, began: now, request: request.clone() })
}

fn write_header(directory: &OwnedFd, header: Header) -> Result<Header, NotBegun> {
    let failed = |errno| NotBegun::Failed("begin", errno);
    let text = header.to_text();
    if text.len() > BYTES_MAX {
        return Err(failed(Errno(rustix::io::Errno::TOOBIG.raw_os_error())));
    }
    write(directory, (JOB_PARTIAL, JOB), text.as_bytes()).map_err(failed)?;
    Ok(header)
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
            Self::Taken => format!("{path} has another job"),
            Self::Removed => format!("another process has removed the job in {path}"),
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
