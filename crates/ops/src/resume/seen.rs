//! A job as somebody sees it who does not run it: what was asked for, whether it runs, and its logs as they are. Nothing is changed.

use atta_entry::Errno;

use super::error::NotBegun;
use super::files::{self, END, Holding, LOGS_MAX, read, read_header, try_hold};
use super::header::{BYTES_MAX, Request};
use super::job::LoggedJob;
use super::place::JobPlace;
use crate::jobs::record::Holder;
use atta_sys as sys;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// The random number that names it.
    pub number: [u8; 16],
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// What it was asked for.
    pub request: Request,
    /// The process that runs it, or ran it last.
    pub holder: Option<Holder>,
    /// A process holds it. On a file system without locks, one of another host counts as running.
    pub is_running: bool,
    /// The summary, if it is complete.
    pub end: Option<Vec<u8>>,
}

impl JobSeen {
    /// Looks at the job in a directory.
    ///
    /// # Errors
    /// There is no job, or it cannot be read.
    pub fn at(place: &JobPlace) -> Result<Self, NotBegun> {
        let directory = place.open()?;
        let header = read_header(&directory)?.ok_or(NotBegun::NotAJob)?;
        let holding = try_hold(&directory).map_err(|errno| NotBegun::Failed("lock", errno))?;
        Ok(Self {
            number: header.number,
            began: header.began,
            request: header.request,
            holder: files::last_holder(&directory).map(|record| record.holder),
            is_running: matches!(holding, Holding::Held),
            end: read(&directory, END, BYTES_MAX)?,
        })
    }
}

impl LoggedJob {
    /// The job in a directory, with the logs that it has now, to be read. It may be running.
    ///
    /// # Errors
    /// There is no job, or it cannot be read.
    pub fn peek(place: &JobPlace) -> Result<Self, NotBegun> {
        let directory = place.open()?;
        let header = read_header(&directory)?.ok_or(NotBegun::NotAJob)?;
        let failed = |errno: Errno| NotBegun::Failed("read", errno);
        let names = sys::names_of(&directory, LOGS_MAX).map_err(failed)?;
        Ok(Self::of(place.clone(), directory, header, &names))
    }
}
