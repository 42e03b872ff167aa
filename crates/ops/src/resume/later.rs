//! The job of a run: one that is there, or one that begins when its log is first written. So a run that ends within a second makes no job.

use std::sync::OnceLock;

use atta_ledger::Key;

use super::error::NotBegun;
use super::header::{Header, Request};
use super::job::{LoggedJob, new_header};
use super::place::JobPlace;
use crate::jobs::record::utc;

/// See the head of this file.
#[derive(Debug)]
pub struct RunningJob {
    place: JobPlace,
    header: Header,
    run: u32,
    begun: OnceLock<Result<LoggedJob, NotBegun>>,
}

impl From<LoggedJob> for RunningJob {
    fn from(job: LoggedJob) -> Self {
        let (place, header, run) = (job.place.clone(), job.header.clone(), job.run());
        Self { place, header, run, begun: OnceLock::from(Ok(job)) }
    }
}

impl RunningJob {
    /// The first run of a job that does not exist yet.
    ///
    /// # Errors
    /// There is no random number for it.
    pub fn later(place: JobPlace, request: &Request) -> Result<Self, NotBegun> {
        let header = new_header(request)?;
        Ok(Self { place, header, run: 1, begun: OnceLock::new() })
    }

    /// The job, which begins now if it has not begun.
    ///
    /// # Errors
    /// It cannot be begun, now or when that was tried first.
    pub fn begin(&self) -> Result<&LoggedJob, &NotBegun> {
        self.begun.get_or_init(|| LoggedJob::begin_with(&self.place, &self.header)).as_ref()
    }

    /// The job, if it has begun; or why it could not.
    #[must_use]
    pub fn begun(&self) -> Option<Result<&LoggedJob, &NotBegun>> {
        self.begun.get().map(Result::as_ref)
    }

    /// The job, if it has begun; or why it could not.
    #[must_use]
    pub fn into_begun(self) -> Option<Result<LoggedJob, NotBegun>> {
        self.begun.into_inner()
    }

    /// Where it is, or will be.
    #[must_use]
    pub fn place(&self) -> &JobPlace {
        &self.place
    }

    /// The random number that names it.
    #[must_use]
    pub fn number(&self) -> [u8; 16] {
        self.header.number
    }

    /// The key of its logs.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::of_job(&self.header.number)
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

    /// The same in seconds since 1970.
    #[must_use]
    pub fn began_seconds(&self) -> u64 {
        self.header.began
    }

    /// The number of this run, from 1.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.run
    }
}
