//! Result of a `generate` run: counts, or the reason for its failure. Data only.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use atta_entry::{Failure, escape};
use std::os::unix::ffi::OsStrExt;

use super::spec::SpecError;

/// Counts of the entries made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files, hard links not counted.
    pub files: u64,
    /// Directories below the target.
    pub directories: u64,
    /// Additional names of files.
    pub hard_links: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Extended attributes.
    pub xattrs: u64,
    /// Extended attributes that the file system does not support.
    pub xattrs_unsupported: u64,
    /// Apparent size of all files in bytes, each counted once.
    pub size_bytes: u64,
    /// Time from the first check to the last entry.
    pub elapsed: Duration,
    /// The largest number of threads that worked.
    pub threads_max: usize,
    /// Whether the run ended early on request.
    pub stopped: bool,
}

impl Report {
    /// Adds the counts of another part of the same run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.directories += other.directories;
        self.hard_links += other.hard_links;
        self.symlinks += other.symlinks;
        self.xattrs += other.xattrs;
        self.xattrs_unsupported += other.xattrs_unsupported;
        self.size_bytes = self.size_bytes.saturating_add(other.size_bytes);
    }
}

/// Why a tree was not made. Everything made until then stays.
#[derive(Clone, Debug, PartialEq)]
pub enum GenerateError {
    /// No such tree can exist; nothing was done.
    Spec(SpecError),
    /// The target is a directory that is not empty; nothing was done.
    NotEmpty(PathBuf),
    /// A system call failed.
    Failed {
        /// Operation, path and error.
        failure: Box<Failure<'static>>,
        /// Entries made before the failure.
        made: Box<Report>,
    },
}

/// `TARGET is not empty`, or the text of [`Failure`], with paths escaped.
impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(error) => error.fmt(f),
            Self::NotEmpty(target) => {
                write!(f, "cannot generate: {}: ", escape(target.as_os_str().as_bytes()))?;
                write!(f, "directory not empty (ENOTEMPTY)")
            }
            Self::Failed { failure, .. } => failure.fmt(f),
        }
    }
}

impl std::error::Error for GenerateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spec(error) => Some(error),
            Self::NotEmpty(_) | Self::Failed { .. } => None,
        }
    }
}

impl From<SpecError> for GenerateError {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}
