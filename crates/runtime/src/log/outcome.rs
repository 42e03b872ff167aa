//! The result of writing a log: statistics, and why it failed. No I/O.

use std::fmt;
use std::time::Duration;

use atta_entry::Errno;
use atta_ledger::LogName;

/// Statistics of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogWritten {
    /// Frames, those that were written again included.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Calls of `fdatasync` that ended.
    pub syncs: u64,
    /// Time spent in writes and reservations.
    pub writing: Duration,
    /// Time spent in `fdatasync`.
    pub syncing: Duration,
    /// The last reservation that lacked space. The job was asked to stop.
    pub out_of_space: Option<Errno>,
    /// Why the log went on in a second file.
    pub replaced: Option<LogError>,
}

/// A call on the file of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogCall {
    /// Creation, with lock and first reservation.
    Create,
    /// Reservation of space.
    Reserve,
    /// `pwrite`. With `EFBIG`: a frame cannot hold what was noted.
    Write,
    /// `fdatasync`.
    Sync,
}

/// Why a log cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// The log; it names the file.
    pub log: LogName,
    /// The call that failed.
    pub call: LogCall,
    /// Its error.
    pub errno: Errno,
    /// Why the part before was given up.
    pub before: Option<Box<LogError>>,
}

impl LogError {
    pub(super) fn new(log: LogName, call: LogCall, errno: rustix::io::Errno) -> Self {
        Self { log, call, errno: Errno(errno.raw_os_error()), before: None }
    }
}

/// `cannot write log 1.0.1: input/output error (EIO); before: cannot sync log 1.0: input/output error (EIO)`.
impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = match self.call {
            LogCall::Create => "create",
            LogCall::Reserve => "reserve space for",
            LogCall::Write => "write",
            LogCall::Sync => "sync",
        };
        write!(f, "cannot {call} log {}: {}", self.log, self.errno)?;
        self.before.as_ref().map_or(Ok(()), |before| write!(f, "; before: {before}"))
    }
}

impl std::error::Error for LogError {}
