//! Digests of all files in trees, and one signature of each whole set, computed on many threads.
//!
//! ```no_run
//! use atta_entry::{Entry, Failure};
//! use atta_ops::digest::Hash;
//! use atta_ops::sum::{self, Options, Watch};
//! use atta_ops::walk::Start;
//!
//! struct Print;
//!
//! impl Watch for Print {
//!     type Worker = ();
//!     type Gathered = ();
//!
//!     fn worker(&self, _index: usize) {}
//!
//!     fn entry(&self, _worker: &mut (), entry: &Entry<'_>, digest: Option<&Hash>) {
//!         if let Some(digest) = digest {
//!             println!("{digest}  {}", entry.path().escape_ascii());
//!         }
//!     }
//!
//!     fn failure(&self, _worker: &mut (), failure: &Failure<'_>) {
//!         eprintln!("{failure}");
//!     }
//! }
//!
//! let outcome = sum::run_alone(&Print, vec![Start::new("src")], &Options::default(), |_| {});
//! println!("{:?}", outcome.signature.map(|signature| signature.digest()));
//! ```
//!
//! Guarantees: a digest covers bytes that were all present at one time. A file that changes while it is read is read again. It fails if it
//! changes again. Only regular files are opened. No link is followed.
//!
//! Limits: it writes nothing and keeps no digests between runs.

pub mod check;
#[cfg(test)]
pub(crate) mod fuzz;
mod handler;
mod item;
mod large;
mod names;
mod totals;

use atta_sys as sys;
use std::io::Read;
use std::os::fd::AsFd;
use std::time::Duration;

use atta_entry::{Entry, Failure, Kind};
use atta_runtime::{Exchanged, RankError, Results as _, Session};

pub use totals::{Sums, Totals};

use crate::digest::{Element, Hash, Signature};
use crate::large::log::LargeLog;
use crate::tree::directory::SliceResults;
use crate::tree::{self, Journal, Start, Waiting};
use handler::{Summing, WorkerOf};

/// How to digest trees.
#[derive(Debug)]
pub struct Options<'a> {
    /// How to walk the trees. The settings for links to follow and for targets are ignored. Metadata is required.
    pub walk: tree::Options<'a>,
    /// Bytes of a large file that one thread hashes at a time: a power of two, at least 1,024. None: chosen from the file size and the
    /// number of threads.
    pub chunk: Option<u64>,
    /// The most bytes of holes that a file may have; a file with more fails. None: [`HOLE_BYTES_MAX`](crate::digest::HOLE_BYTES_MAX).
    pub hole_bytes_max: Option<u64>,
    /// Whether to enter directories. If not, only the starts themselves are digested.
    pub enters: bool,
    /// The device and inode of a file to leave out: the output file.
    pub output: Option<(u64, u64)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { walk: tree::Options::default(), chunk: None, hole_bytes_max: None, enters: true, output: None }
    }
}

/// Receives the results, on any thread.
pub trait Watch: Sync {
    /// The state of one thread.
    type Worker: Send;

    /// What a slice comes to for the watcher, beside the counts. It is added up, and in the log of the job if there is one. `()`: nothing.
    type Gathered: SliceResults;

    /// Creates the state of the thread with this index, from 0. Called on that thread.
    fn worker(&self, index: usize) -> Self::Worker;

    /// Whether an entry is left out, with all below it.
    fn leaves_out(&self, _entry: &Entry<'_>) -> bool {
        false
    }

    /// Receives each entry once. A regular file comes with its digest and with its metadata at the time of the read.
    fn entry(&self, worker: &mut Self::Worker, entry: &Entry<'_>, digest: Option<&Hash>);

    /// Receives an entry that failed.
    fn failure(&self, worker: &mut Self::Worker, failure: &Failure<'_>);

    /// Called before what this thread has gathered of its current names is moved to a slice that other threads work on, too: what the thread has
    /// kept of it elsewhere is to be put there.
    fn sharing(&self, _worker: &mut Self::Worker, _gathered: &mut Self::Gathered) {}

    /// Called when a slice has ended on this thread, before that is noted for the log of the job. `is_whole`: it is noted as done, if there is a log; else a
    /// later run does it again. Also called for what belongs to no slice, such as a root, with `false`.
    fn slice_ended(&self, _worker: &mut Self::Worker, _gathered: &mut Self::Gathered, _is_whole: bool) {}

    /// Called on each thread after each task and each run of names of a large directory, and at its end (`is_last`). The watcher may take what the thread has noted as done and that waits for
    /// it ([`Journal::holding`]).
    fn keep_noted(
        &self,
        _worker: &mut Self::Worker,
        _waiting: Waiting<'_, Sums<Self::Gathered>>,
        _is_last: bool,
    ) {
    }

    /// Gets what slices have gathered that have ended, when that is in the log. It may take from it what need not be added up.
    fn handed_over(&self, _gathered: &mut Self::Gathered) {}

    /// Called on each thread when it ends.
    fn finish(&self, _worker: &mut Self::Worker) {}
}

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What the walk has found.
    pub walk: tree::Progress,
    /// Files whose digests are complete.
    pub files: u64,
    /// Bytes that were hashed, holes included.
    pub bytes: u64,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome<W> {
    /// Counts of the run.
    pub totals: Totals,
    /// The signature of all entries of this rank, if none failed. A copy of them has the same one.
    pub signature: Option<Signature>,
    /// The state of each thread.
    pub workers: Vec<W>,
    /// What each thread did, in the same order.
    pub threads: Vec<tree::ThreadReport>,
    /// Time from start to end.
    pub elapsed: Duration,
    /// Whether the run ended early on request.
    pub stopped: bool,
    /// What this rank exchanged with others.
    pub exchanged: Exchanged,
}

/// Digests everything below `starts` in a session of one rank: see [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_alone<'a, W: Watch>(
    watch: &'a W,
    starts: impl IntoIterator<Item = Start, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    observe: impl FnMut(&Progress),
) -> Outcome<W::Worker> {
    let mut session = Session::alone(options.walk.stop.clone());
    match run(&mut session, watch, starts, options, observe) {
        Ok(outcome) => outcome,
        Err(error) => unreachable!("a session of one waits for nobody: {error}"),
    }
}

/// Digests everything below the first rank's `starts`, as one rank of a session. Returns when all ranks are done or `options.walk.stop`,
/// which is that of the session, is set on one of them.
///
/// Every entry is passed to the watcher of one rank. The outcome is what this rank did; totals and signatures of ranks add up.
///
/// Calls `observe` on the calling thread some 40 times a second: on the first rank with the known progress of all ranks, on each other
/// rank with its own.
///
/// # Errors
/// As [`Session::run`].
///
/// # Panics
/// A panic of the watcher ends the run and is passed on.
pub fn run<'a, W: Watch>(
    session: &mut Session<'_>,
    watch: &'a W,
    starts: impl IntoIterator<Item = Start, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    mut observe: impl FnMut(&Progress),
) -> Result<Outcome<W::Worker>, RankError> {
    let summing = Summing::new(options, watch, session.seat());
    let walked = tree::run(session, &summing, starts, &options.walk, |walk, [files, bytes, ..]| {
        observe(&Progress { walk: walk.clone(), files, bytes });
    })?;
    Ok(outcome_of::<W>(walked.all(), &Sums::default()))
}

/// As [`run`], with a log of its job: `journal` gets what is to be written, and on the first rank it says what earlier runs of the job have
/// done, and `earlier` what that comes to. The roots must be those of all runs of the job, in the same order on all ranks, and no two of them the
/// same. The outcome has what all runs have done.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_logged<'a, W: Watch>(
    session: &mut Session<'_>,
    (watch, options): (&'a W, &'a Options<'a>),
    (journal, earlier): (&'a Journal<Sums<W::Gathered>>, &Sums<W::Gathered>),
    roots: Vec<Vec<u8>>,
    mut observe: impl FnMut(&Progress),
) -> Result<Outcome<W::Worker>, RankError> {
    let log = LargeLog { journal, roots: roots.clone() };
    let summing = Summing::new(options, watch, session.seat()).with_log(log);
    let observe = |walk: &tree::Progress, [files, bytes, ..]: [u64; 4]| {
        observe(&Progress { walk: walk.clone(), files, bytes });
    };
    let walked = tree::run_logged(session, (&summing, journal), roots, &options.walk, observe)?;
    Ok(outcome_of::<W>(walked.all(), earlier))
}

fn outcome_of<W: Watch>(
    mut walked: tree::Outcome<WorkerOf<W>, Sums<W::Gathered>>,
    earlier: &Sums<W::Gathered>,
) -> Outcome<W::Worker> {
    walked.results.add(earlier);
    let Sums { totals, signature, .. } = walked.results;
    let is_whole = totals.failed() == 0 && !walked.stopped;
    Outcome {
        totals,
        signature: is_whole.then_some(signature),
        workers: walked.workers.into_iter().map(|worker| worker.watch).collect(),
        threads: walked.threads,
        elapsed: walked.elapsed,
        stopped: walked.stopped,
        exchanged: walked.exchanged,
    }
}

/// Returns the device and inode of a descriptor if it refers to a regular file: for [`Options::output`].
pub fn regular_file_of(descriptor: impl AsFd) -> Option<(u64, u64)> {
    let found = sys::stat_descriptor(descriptor).ok()?;
    (found.kind() == Kind::File).then_some((found.device, found.inode))
}

/// Reads `reader` to its end. Returns the digest, the number of bytes, and the signature of a file with these bytes.
///
/// # Errors
/// The reader fails.
pub fn of_reader(mut reader: impl Read) -> std::io::Result<(Hash, u64, Signature)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => drop(hasher.update(&buffer[..count])),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (digest, size) = (hasher.finalize(), hasher.count());
    let mut signature = Signature::default();
    signature.add(&Element { path: b"", kind: Kind::File, size, digest: Some(&digest), target: None });
    Ok((digest, size, signature))
}
