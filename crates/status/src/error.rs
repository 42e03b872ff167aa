//! Why a query has no answer. All ranks of a query get the same error, unless the ranks cannot communicate.

use std::fmt;

use atta_entry::Errno;

/// Why a query has no answer. `E`: the error of the collective.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusError<E> {
    /// The ranks cannot communicate.
    Collective(E),
    /// The path is below no mount.
    NoMount {
        /// The lowest rank on which this is so.
        rank: u32,
    },
    /// A file cannot be read, so that its contents cannot be compared. ELOOP: its path has a symbolic link, which names do not follow; resolve
    /// it first ([`resolved`](atta_mounts::resolved)).
    Unreadable {
        /// The lowest rank on which this is so.
        rank: u32,
        /// Why.
        errno: Errno,
    },
    /// Ranks do not take the same steps with the same options.
    Protocol,
}

impl<E> From<E> for StatusError<E> {
    fn from(error: E) -> Self {
        Self::Collective(error)
    }
}

impl<E: fmt::Display> fmt::Display for StatusError<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Collective(error) => error.fmt(out),
            Self::NoMount { rank } => write!(out, "the path is below no mount on rank {rank}"),
            Self::Unreadable { rank, errno } if *errno == Errno::LOOP => {
                write!(out, "the path has a symbolic link on rank {rank}: resolve the path first")
            }
            Self::Unreadable { rank, errno } => write!(out, "cannot read the file on rank {rank}: {errno}"),
            Self::Protocol => out.write_str("ranks do not ask the same questions in the same order"),
        }
    }
}

impl<E: std::error::Error> std::error::Error for StatusError<E> {}
