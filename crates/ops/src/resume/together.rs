//! The logs of a job, read by several ranks, each some of them. It sends no messages.

use atta_ledger::{Broken, Extent, LogName, SomeLogs, deal, extents};

use super::error::BadLog;
use super::job::{EarlierLog, LoggedJob};

impl LoggedJob {
    /// How far each log of earlier runs counts. None: they must be read at once ([`earlier`](Self::earlier)).
    ///
    /// # Errors
    /// A log is refused, or cannot be read.
    pub fn extents(&self) -> Result<Option<Vec<Extent>>, BadLog> {
        let logs = self.logs.iter().map(|name| (*name, self.log(*name))).collect();
        Ok(extents(&self.key(), logs)?)
    }

    /// Deals logs out to so many ranks, about as many bytes to each. `held`: bytes that the first rank reads beside them.
    ///
    /// # Errors
    /// A log cannot be read.
    pub fn deal(&self, extents: Vec<Extent>, ranks: usize, held: u64) -> Result<Vec<Vec<Extent>>, BadLog> {
        let mut sized = Vec::new();
        for extent in extents {
            let bytes = extent.until.map_or_else(|| self.bytes_of(extent.log), Ok)?;
            sized.push((bytes, extent));
        }
        Ok(deal(sized, ranks, held))
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
