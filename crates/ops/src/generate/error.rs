//! What a run of `generate` leaves: counts, or the reason why it could not go on. Data only.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use atta_entry::{Failure, escape};
use std::os::unix::ffi::OsStrExt;

use super::spec::SpecError;

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files, hard links not counted.
    pub files: u64,
    /// Directories below the target.
    pub directories: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Extended attributes.
    pub xattrs: u64,
    /// Extended attributes that the file system does not take.
    pub xattrs_unsupported: u64,
    /// Apparent size of all files in bytes, each counted once.
    pub size_bytes: u64,
    /// From the first check to the last entry.
    pub elapsed: Duration,
    /// The most threads that worked.
    pub threads_max: usize,
    /// Whether it ended early because it was asked to.
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

/// Why a tree was not made. What was made until then stays.
#[derive(Clone, Debug, PartialEq)]
pub enum GenerateError {
    /// There can be no such tree; nothing was done.
    Spec(SpecError),
    /// The target is a directory with something in it; nothing was done.
    NotEmpty(PathBuf),
    /// A system call failed.
    Failed {
        /// What, where and why.
        failure: Box<Failure<'static>>,
        /// What was made until then.
        made: Box<Report>,
    },
}

/// `TARGET is not empty`, or as [`Failure`] has it, with paths escaped.
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
