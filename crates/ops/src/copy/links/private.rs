//! The directories private to the job: its own, which holds its record, and the links' directory in it. Other users cannot access them.
//! On the first rank the job's directory is made before the copy starts; other ranks open it. What the links' directory
//! contains: see `links.rs`.

use std::ffi::CStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use atta_entry::Errno;
use atta_runtime::Seat;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;

use crate::copy::target::mirror::Shared;
use crate::jobs::record::Record;
use crate::jobs::{self, Job};
use crate::metadata::inherited::open_private;
use atta_sys::{self as sys, Features, retry};

/// Name of the links' directory in the job's private directory.
const LINKS: &CStr = c"links";

/// See the head of this file.
pub(crate) struct PrivateDirectory {
    /// TARGET, or the directory that TARGET is made in.
    top: Arc<OwnedFd>,
    shared: Arc<Shared>,
    seat: Seat,
    /// Owner of this process's files in TOP, if known.
    own_uid: Option<u32>,
    features: Features,
    /// An earlier run of the job may have left links.
    is_resumed: bool,
    /// The private directory of the copy. Only on the first rank, if one can be made.
    job: Mutex<Option<Job>>,
    links: OnceLock<Result<OwnedFd, Errno>>,
}

impl PrivateDirectory {
    /// Without a directory of the job.
    pub(crate) fn new(top: &Arc<OwnedFd>, shared: &Arc<Shared>, seat: Seat, features: Features) -> Self {
        let (top, shared, links) = (Arc::clone(top), Arc::clone(shared), OnceLock::new());
        Self { top, shared, seat, own_uid: None, features, is_resumed: false, job: Mutex::default(), links }
    }

    /// For a run of a job that is not its first.
    pub(crate) fn resumed(self, is_resumed: bool) -> Self {
        Self { is_resumed, ..self }
    }

    /// Sets the job's directory, and the owner of this process's files in TOP, if known.
    pub(crate) fn of_job(self, job: Option<Job>, own_uid: Option<u32>) -> Self {
        Self { job: Mutex::new(job), own_uid, ..self }
    }

    /// The links' directory, made by the first call.
    pub(crate) fn links(&self) -> Result<&OwnedFd, Errno> {
        self.links.get_or_init(|| self.open_links()).as_ref().map_err(|errno| *errno)
    }

    /// The links' directory, if this rank has opened it.
    pub(crate) fn opened_links(&self) -> Option<&OwnedFd> {
        self.links.get()?.as_ref().ok()
    }

    /// Whether files with several names may exist by now.
    pub(crate) fn is_used(&self) -> bool {
        self.links.get().is_some()
    }

    fn open_links(&self) -> Result<OwnedFd, Errno> {
        self.with_job(|own| {
            let made = retry(|| rustix::fs::mkdirat(own, LINKS, Mode::RWXU));
            let opened = match made {
                Ok(()) | Err(Errno::EXIST) => open_private(own, LINKS, self.own_uid, self.features)?,
                Err(errno) => return Err(errno),
            };
            // Another rank has made it first, or the reply to the first request was lost.
            let is_alone = self.seat.ranks == 1 && !self.is_resumed;
            if made.is_err() && is_alone && !sys::names_of(&opened, 1)?.is_empty() {
                return Err(Errno::EXIST);
            }
            Ok(opened)
        })
    }

    /// Opens the links' directory of another rank or an earlier run, if there may be one and this rank has not opened it.
    pub(crate) fn links_of_another(&self) -> Option<OwnedFd> {
        let is_wanted = (self.seat.ranks > 1 || self.is_resumed) && self.opened_links().is_none();
        let opened = || self.with_job(|own| sys::open_directory_at(own, LINKS)).ok();
        is_wanted.then(opened).flatten()
    }

    /// Removes the links' directory, which must be empty.
    pub(crate) fn remove_links(&self) -> Result<(), Errno> {
        self.with_job(|own| sys::remove_empty(own, LINKS))
    }

    /// Calls `act` with the job's directory.
    fn with_job<T>(&self, act: impl FnOnce(&OwnedFd) -> Result<T, Errno>) -> Result<T, Errno> {
        if self.seat.rank > 0 {
            return act(&jobs::open_of_another_rank(&self.top, &self.shared.namer, self.own_uid)?);
        }
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        act(job.as_ref().and_then(Job::directory).ok_or(Errno::ACCES)?)
    }

    /// Keeps the job's directory for a later run of the job, unless this run comes to its end.
    pub(crate) fn stay(&self) {
        let mut job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        job.iter_mut().for_each(Job::stay);
    }

    /// Keeps the job's directory for a later run of the job.
    pub(crate) fn keep(&self) {
        let mut job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        job.iter_mut().for_each(Job::keep);
    }

    /// Notes that the copy came to its end, whatever it leaves. Errors are ignored: then a later run may take what it has made for its own.
    pub(crate) fn note_end(&self) {
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = job.as_ref().map(Job::note_end);
    }

    /// Removes the job's directory. If entries are left that its record identifies, keeps it and returns what `list` returns for the record.
    pub(crate) fn end<T>(&self, is_left: bool, list: impl FnOnce(&Record) -> T) -> Result<Option<T>, Errno> {
        let mut job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(job) = job.as_mut() else { return Ok(None) };
        if !is_left {
            return job.end().map(|()| None);
        }
        job.keep();
        Ok(Some(list(job.record())))
    }
}
