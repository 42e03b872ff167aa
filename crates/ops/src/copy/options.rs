//! What a copy is asked for and what it reports. No I/O.

use std::sync::Arc;
use std::time::Duration;

use atta_entry::{Errno, Failure};
use atta_runtime::{Exchanged, Rate, Seat};

use crate::copy::results::manifest::{Kept, ManifestRow};
use crate::copy::results::report::Report;
use crate::copy::results::times::RankReport;
use crate::copy::results::totals::Totals;
use crate::copy::target::stripe::Stripes;
use crate::digest::Signature;
use crate::file::clone::Reflink;
use crate::jobs::record::{Holder, LogPlace};
use crate::jobs::sweep::Leftover;
use crate::metadata::keep::Keep;
use crate::tree::progress::Counted;
use crate::tree::{self, Start};

/// When copied data is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before the rename to the final name: many files at a time, by `syncfs`.
    #[default]
    Batch,
    /// Before the rename to the final name: each file by itself.
    File,
    /// When the kernel writes it back.
    None,
}

/// Options of a copy.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// How the sources are walked. The copy ignores its options for links and metadata.
    pub walk: tree::Options<'a>,
    /// When copied data is made durable.
    pub fsync: Fsync,
    /// Whether a digest of each file is computed while it is copied.
    pub digest: bool,
    /// Whether copies are read back and compared once they are durable. Needs digests.
    pub verify: bool,
    /// Bytes that one thread copies of a large file at a time, a power of two. None: chosen by file size and number of threads.
    pub chunk: Option<u64>,
    /// A file with more bytes of holes is copied without a digest. None: [`HOLE_BYTES_MAX`](crate::digest::HOLE_BYTES_MAX).
    pub hole_bytes_max: Option<u64>,
    /// The metadata to preserve.
    pub keep: Keep,
    /// TARGET is the name of the copy of one SOURCE. If TARGET is an existing directory, the copy is merged into it.
    pub no_target_directory: bool,
    /// Whether the copy refuses to start if another copy writes to TARGET, or if this cannot be determined.
    pub exclusive: bool,
    /// What to do if the target entry already exists.
    pub existing: Existing,
    /// Whether an existing file is written in place where possible, instead of being replaced by a new file.
    pub in_place: bool,
    /// A limit on the bytes read and written per second, over all threads.
    pub bandwidth: Option<Arc<Rate>>,
    /// Whether large files bypass the page cache where possible.
    pub direct: bool,
    /// Whether copies share the bytes of their sources. Works only without digests, which must read the bytes.
    pub reflink: Reflink,
    /// How copies are striped on Lustre. None: as their directories specify.
    pub stripes: Option<Stripes>,
    /// The number of the run, from 1, if the copy has a log of its job. The job's number is that of the seat, in all runs.
    pub run_of_job: Option<u32>,
    /// The log of the job is in TARGET ([`JobPlace`](crate::resume::JobPlace)): then the job ends with the run, also if entries failed.
    pub job_in_target: bool,
    /// The name of the directory of that job ([`JobPlace::name`](crate::resume::JobPlace::name)). Only the first rank needs it.
    pub request: Option<String>,
    /// With a log: the time from the begin of a sync to the next one, and from batch to batch. None: 5 s.
    pub sync_every: Option<Duration>,
    /// The number of another job, which is given up: what it has not completed in TARGET is removed. Only the first rank needs it.
    pub given_up: Option<u64>,
    /// Whether [`Watch::rows`] gets what the target has, and what it gets of files that are left as they are. Needs digests.
    pub manifest: Option<Kept>,
}

impl Options<'_> {
    /// Where the log of the job is, if there is one.
    pub(crate) fn log_place(&self) -> Option<LogPlace> {
        let place = if self.job_in_target { LogPlace::Here } else { LogPlace::Elsewhere };
        self.run_of_job.map(|_| place)
    }

    /// Whether a later run of the job tries again what has failed in this one.
    pub(crate) fn tries_again(&self) -> bool {
        self.log_place() == Some(LogPlace::Elsewhere)
    }
}

/// Receives events, on any thread.
pub trait Watch: Sync {
    /// An entry was not copied. The path is the source's.
    fn failure(&self, failure: &Failure<'_>);

    /// Reports what a copy would do with an entry. Only a [`DryRun`](crate::copy::DryRun) calls it, and not for existing directories. The path is the
    /// source's.
    fn planned(&self, _planned: Planned, _path: &[u8]) {}

    /// Gets rows of the manifest, in no order. An entry may get several rows; if one of them is of a failure, none counts.
    fn rows(&self, _rows: Vec<ManifestRow>) {}

    /// Reports other runs in the directory that the copy writes to, before the copy starts. Only rank 0 calls it.
    fn notice(&self, _notice: &Notice) {}
}

/// What a copy would do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The copy would create it; nothing exists there.
    New,
    /// It would replace an existing entry, or be merged into it.
    Replaced,
    /// The existing entry would be left alone.
    Skipped,
    /// The existing entry would keep its bytes, unless these differ, and get the attributes that differ: for a list of differences.
    Attributes,
}

/// A notice about other runs in the same place or about their leftovers. A notice does not stop the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Another copy is writing to TARGET: files stay whole, and for the same path the last one wins. Names the other copy, if known.
    Crowded(Option<Holder>),
    /// The file system has no locks: other runs cannot be detected. If this run is killed, no later copy removes its leftovers.
    NoLocks(Errno),
    /// No record can be kept: if this run is killed, its leftovers cannot be distinguished from data.
    NoRecord(Errno),
    /// The leftovers of a run that has ended were removed.
    Removed {
        /// The run that made them.
        holder: Holder,
        /// Number of removed entries.
        entries: u64,
        /// Their size on disk, in bytes.
        bytes: u64,
    },
    /// What a run has copied that has ended and can be resumed: it is left as it is.
    Resumable {
        /// The run that made it.
        holder: Holder,
        /// The directory that the run wrote to.
        directory: Vec<u8>,
        /// The directory of its job, if that is in `directory`.
        job: Option<Vec<u8>>,
    },
    /// A run for another request was killed when it had made its first directory: what it has made is left as it is.
    Begun {
        /// The run that made it.
        holder: Holder,
        /// The directory that the run wrote to.
        directory: Vec<u8>,
    },
    /// Leftovers of a run that has ended may exist and were not removed.
    Left {
        /// The run that made them.
        holder: Holder,
        /// The directory that the run wrote to.
        directory: Vec<u8>,
    },
}

/// Leftovers of a copy that has ended, under temporary names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftovers {
    /// The directory that the run wrote to.
    pub directory: Vec<u8>,
    /// Number of entries that are left.
    pub entries: u64,
    /// Their size on disk, in bytes.
    pub bytes: u64,
    /// Some of them.
    pub some: Vec<Leftover>,
}

/// Progress of a copy.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What the walk of the sources has found.
    pub walk: tree::Progress,
    /// Files whose bytes were copied.
    pub files: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Bytes of large files to copy. A file that must be copied again is counted again.
    pub large_found: u64,
    /// Of these, the bytes that were copied or will not be. On one of several ranks this can exceed what that rank has found.
    pub large_done: u64,
}

/// The result of a copy.
#[derive(Debug)]
pub struct Outcome {
    /// What was copied.
    pub totals: Totals,
    /// The copied files by size, and the slowest ones.
    pub report: Report,
    /// What this rank did, and how it spent its time.
    pub rank: RankReport,
    /// The signature of the copied data. Present only if all files got digests, nothing failed and nothing was skipped.
    pub signature: Option<Signature>,
    /// What the walk of the sources did.
    pub threads: Vec<tree::ThreadReport>,
    /// Time from start to end.
    pub elapsed: Duration,
    /// Whether the copy ended early because it was stopped or parked.
    pub stopped: bool,
    /// Whether the copy ended early because TARGET has no space left. In that case no new file was started.
    pub parked: bool,
    /// Temporary names that were left behind, if any. Only on rank 0.
    pub leftovers: Option<Leftovers>,
    /// Data exchanged with other ranks.
    pub exchanged: Exchanged,
}

/// What to do with an existing entry under the name of a copy. Directories are always merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Replace it.
    #[default]
    Replace,
    /// Keep a file that has the size and modification time of its source, and set its other attributes.
    ///
    /// A file is not kept if that would give rights to bytes that another user may have written. A link or a special file that equals its
    /// source is kept. Everything else is replaced.
    Update,
    /// Keep it unchanged.
    Ignore,
}

impl Progress {
    /// Combines the progress of a walk with the counts of the copy.
    pub(crate) fn new(walk: &tree::Progress, [files, bytes, large_found, large_done]: Counted) -> Self {
        Self { walk: walk.clone(), files, bytes, large_found, large_done }
    }
}

pub(crate) fn starts_of(sources: &[Vec<u8>]) -> impl Iterator<Item = Start> + Send {
    sources.iter().map(|source| Start::new(source.clone()))
}

/// Returns a number for a thread that is unique within the session.
pub(crate) fn number_of_thread(seat: Seat, index: usize) -> u64 {
    u64::from(seat.rank) << 32 | index as u64
}
