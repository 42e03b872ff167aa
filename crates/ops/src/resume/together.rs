//! The logs of a job, read by several ranks, each some of them. It sends no messages.

use atta_ledger::{Broken, Extent, LogName, SomeLogs, deal, extents};

use super::error::BadLog;
use super::job::{EarlierLog, LoggedJob};

impl LoggedJob {
    /// Deals the logs of earlier runs out to so many ranks, about as many bytes to each. None: they must be read at once
    /// ([`earlier`](Self::earlier)).
    ///
    /// # Errors
    /// A log is refused, or cannot be read.
    pub fn deal(&self, ranks: usize) -> Result<Option<Vec<Vec<Extent>>>, BadLog> {
        let logs = self.logs.iter().map(|name| (*name, self.log(*name))).collect();
        let Some(extents) = extents(&self.key(), logs)? else { return Ok(None) };
        let mut sized = Vec::new();
        for extent in extents {
            let bytes = extent.until.map_or_else(|| self.bytes_of(extent.log), Ok)?;
            sized.push((bytes, extent));
        }
        Ok(Some(deal(sized, ranks)))
    }

    /// The names of the logs of earlier runs, in order.
    #[must_use]
    pub fn log_names(&self) -> &[LogName] {
        &self.logs
    }

    /// Some logs of earlier runs.
    #[must_use]
    pub fn some<'j>(&'j self, extents: &[Extent]) -> SomeLogs<'j, EarlierLog<'j>> {
        let logs = extents.iter().map(|extent| (*extent, self.log(extent.log)));
        SomeLogs::new(self.key_of_logs(), logs.collect())
    }

    /// Writes what counts of a log to storage, as a later run relies on it. Whoever wrote it may be dead, and has not done so.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn sync(&self, log: LogName) -> Result<(), BadLog> {
        self.with_log(log, |file| rustix::fs::fdatasync(file))
            .map_err(|errno| BadLog { name: log, broken: Broken::Unreadable(errno) })
    }

    fn bytes_of(&self, log: LogName) -> Result<u64, BadLog> {
        let found = self.with_log(log, |file| rustix::fs::fstat(file));
        let found = found.map_err(|errno| BadLog { name: log, broken: Broken::Unreadable(errno) })?;
        Ok(u64::try_from(found.st_size).unwrap_or_default())
    }
}
