//! The log of a job that may be killed: what is known about its tree, so that a later run goes on from there. Pure: it reads no files, has
//! no clock and no threads.
//!
//! Each process of a job appends *facts* to a log of its own: these directories were found, this slice of a directory is done, with these
//! results. A fact stays true whoever reads it, so the facts of all logs are united in any order of ranks, and each log may lose its tail:
//! what is not known to be done is done again.
//!
//! ```text
//!   record.rs   one fact, as bytes; directories by path, each compressed against the one before
//!   frame.rs    the records of one moment of a process, with a check; what is written at once
//!   log.rs      the frames of a log: which of them count, a torn tail, damage
//!   cuts.rs     how much of each log counts: a run says it of the logs before
//!   extents.rs  the same from first frames alone, for logs that several ranks read together
//!   copies.rs   copies of logs in other processes, and how they are united
//!   void.rs     frames of which nothing is done any more, as directories are gone
//!   fold.rs     what all logs say together: results, and what is left to do; `fold/together.rs` for several ranks
//! ```
//!
//! The format is versioned by [`VERSION`]. Bytes are not trusted: reading them gives a value or an error, and holds no more memory than a
//! small multiple of a frame.

#![forbid(unsafe_code)]

mod copies;
mod cuts;
mod extents;
mod fold;
mod frame;
mod id;
mod log;
mod record;
mod void;

#[cfg(test)]
mod fuzz;

pub use copies::{Copies, LogSoFar, is_longer, receivers, run_without_first, unite};
pub use cuts::{JobLogs, Refused};
pub use extents::{Extent, SomeLogs, cuts, deal, extents, unread};
pub use fold::{Fold, FrameAt, Item, Left, Logs, Open, PartRead, PathIds, Selected, Stage};
pub use frame::{FRAME_MAX, Frame, frame, frame_into, sections};
pub use id::{Id, Key};
pub use log::{Broken, Contents, LogBytes, LogName, read};
pub use record::{At, Fact, Record, Records, Seen, SliceNumber, records};
pub use void::Void;

/// The version of the format. A log of another version is refused.
pub const VERSION: u32 = 1;
