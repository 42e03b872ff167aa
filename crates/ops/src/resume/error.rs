//! Why a job cannot be begun or resumed, or a log cannot be read, in words.

use std::fmt;
use std::path::Path;

use atta_entry::{Errno, escape};
use atta_ledger::{Broken, LogName, Refused};

use super::header::Difference;
use crate::jobs::record::Holder;

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
