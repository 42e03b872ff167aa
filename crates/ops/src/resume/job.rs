//! A job whose directory this process holds, or reads: how it is begun, its logs, and how it ends.

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use atta_entry::Errno;
use atta_ledger::{JobLogs, Key, LogBytes, LogName, Record as Noted};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, OFlags};

use super::error::{BadLog, NotBegun};
use super::files::{
    self, END, END_PARTIAL, JOB, JOB_PARTIAL, LOGS_MAX, hold, is_own, log_name, read, read_header,
};
use super::header::{BYTES_MAX, Header, Request};
use super::place::JobPlace;
use crate::plain::{open_plain, write};
use crate::underway::Suspects;
use atta_sys::{self as sys, retry};

/// How often a directory is made again if other processes remove it.
const TRIES: u32 = 16;

/// A job whose directory this process holds.
#[derive(Debug)]
pub struct LoggedJob {
    pub(super) place: JobPlace,
    directory: OwnedFd,
    /// Its lock is released when it is closed. None: the job is only looked at.
    holder: Option<OwnedFd>,
    pub(super) header: Header,
    /// Its header was there before. An earlier run may have done something without a log.
    was_there: bool,
    key: Key,
    /// Logs of earlier runs, in order.
    pub(super) logs: Vec<LogName>,
    /// The log that is open: there may be more than a process may open.
    opened: Mutex<Option<(LogName, Opened)>>,
}

impl LoggedJob {
    /// Begins a job in a directory, which is made if it is missing, or goes on with the job there if it was asked for the same. If a new one cannot be
    /// begun, nothing is left in the directory of all runs.
    ///
    /// # Errors
    /// There is another job, or none and something else; the job is complete, or runs; a file cannot be used.
    pub fn begin(place: &JobPlace, request: &Request) -> Result<Self, NotBegun> {
        Self::make(place, Asks::For(request), false).inspect_err(|_| place.remove_rest())
    }

    /// Begins a job with this header, where there is none.
    pub(super) fn begin_with(place: &JobPlace, header: &Header) -> Result<Self, NotBegun> {
        Self::make(place, Asks::With(header), false).inspect_err(|_| place.remove_rest())
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
        place.number().ok().flatten()
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

    pub(super) fn of(place: JobPlace, directory: OwnedFd, header: Header, names: &[CString]) -> Self {
        let mut logs: Vec<_> = names.iter().filter_map(|name| log_name(name)).collect();
        logs.sort_unstable();
        let (key, opened) = (Key::of_job(&header.number), Mutex::default());
        Self { place, directory, holder: None, header, was_there: true, key, logs, opened }
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

    /// Whether an earlier run has made a log.
    #[must_use]
    pub fn has_logs(&self) -> bool {
        !self.logs.is_empty()
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
        let logs = self.logs.iter().map(|name| (*name, self.log(*name)));
        let found = JobLogs::find(&self.key, logs.collect())?;
        for cut in found.cuts() {
            match cut {
                Noted::Cut { log, bytes } if bytes > 0 && self.holder.is_some() => self.sync(log)?,
                _ => {}
            }
        }
        Ok(found)
    }

    pub(super) fn log(&self, name: LogName) -> EarlierLog<'_> {
        EarlierLog { job: self, name }
    }

    pub(super) fn key_of_logs(&self) -> &Key {
        &self.key
    }

    /// Does something with the file of a log.
    pub(super) fn with_log<T>(
        &self,
        name: LogName,
        act: impl Fn(&OwnedFd) -> rustix::io::Result<T>,
    ) -> Result<T, Errno> {
        self.with_opened(name, |opened| retry(|| act(&opened.0)))
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
        let Self { place, directory, holder, opened, .. } = self;
        // NFS keeps names of files that are open.
        drop((directory, holder, opened));
        place.remove(keeps_times)
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
        Suspects::forget(&self.directory);
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
pub(super) fn new_header(request: &Request) -> Result<Header, NotBegun> {
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
