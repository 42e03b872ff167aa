//! The directory of a job that can be resumed. It holds what the job was asked for, which process runs it, and the logs of all its runs. What
//! the logs say is read by `atta-ledger`, and done by the operation.
//!
//! ```text
//!   DIR/holder     the process that runs the job, or ran it last; locked (flock) while it runs
//!   DIR/job        the header: what was asked for (header.rs)
//!   DIR/1.0        the log of run 1, rank 0 (atta-ledger)
//!   DIR/end        the job is complete: its summary
//!   DIR/at.2.1, DIR/suspects   what ranks were at that have died: see underway.rs
//! ```
//!
//! The directory is private (0700) and owned by the caller. No link in it is followed.

mod directories;
mod error;
mod files;
mod header;
mod job;
mod later;
pub(crate) mod looks;
mod own;
mod place;
mod private;
mod recheck;
mod seen;
mod together;
pub(crate) mod way;

pub use crate::jobs::record::{Holder, hex, host, unhex};
pub(crate) use directories::{Ended, all_below};
pub use error::{BadLog, NotBegun};
pub use files::short;
pub use header::{Difference, Request};
pub use job::{EarlierLog, LoggedJob, place_of};
pub use later::RunningJob;
pub use own::OwnDirectory;
pub use place::JobPlace;
pub(crate) use private::is_private_directory;
pub use recheck::{Recheck, Rechecked};
pub use seen::JobSeen;

#[cfg(test)]
pub(crate) mod fuzz;
#[cfg(test)]
mod tests;
