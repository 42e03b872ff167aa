//! Compares two file trees on many threads, alone or on the ranks of a session: names, metadata and, on request, file contents.
//!
//! ```no_run
//! use atta_entry::{Difference, Failure};
//! use atta_ops::verify::{self, Options, Watch};
//!
//! struct Print;
//!
//! impl Watch for Print {
//!     fn difference(&self, difference: &Difference<'_>) {
//!         println!("{difference:?}");
//!     }
//!
//!     fn failure(&self, failure: &Failure<'_>) {
//!         eprintln!("{failure}");
//!     }
//! }
//!
//! let outcome = verify::run_alone(b"src", b"/backup/src", &Options::default(), &Print, |_| {});
//! println!("{:?}", outcome.map(|outcome| outcome.totals.is_same()));
//! ```
//!
//! Guarantees: no link is followed and nothing is written, even if other processes swap entries during the run. A difference counts only if
//! both entries were unchanged during their comparison.
//!
//! Limits: it prints nothing, repairs nothing, and does not walk directories that exist on one side only.

mod compare;
mod counterpart;
mod equal;
mod extra;
mod fields;
mod handler;
mod large;
mod links;
mod pair;
mod task;
mod told;
mod totals;
mod trees;

use std::time::Duration;

use atta_entry::{Difference, Failure};
use atta_runtime::{Exchanged, RankError, Session};

pub use fields::Fields;
pub use totals::Totals;
pub use trees::Trees;

pub use crate::refused::Refused;
use crate::tree::{self, Start};
use handler::Comparing;

/// How to compare trees.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// How to walk the source. The settings for links and metadata are ignored.
    pub walk: tree::Options<'a>,
    /// The fields to compare.
    pub fields: Fields,
    /// The largest difference between two times that count as equal.
    pub window: Duration,
    /// Bytes of a large file that one thread compares at a time, a power of two. None: chosen from the file size and the number of threads.
    pub chunk: Option<u64>,
}

/// Receives the results, on any thread.
pub trait Watch: Sync {
    /// The two trees differ.
    fn difference(&self, difference: &Difference<'_>);

    /// An entry could not be compared. Its path is on the side that failed.
    fn failure(&self, failure: &Failure<'_>);
}

/// Progress of a comparison.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What the walk of the source has found.
    pub walk: tree::Progress,
    /// Names that differ between the two sides.
    pub differences: u64,
    /// Bytes compared.
    pub bytes: u64,
}

/// Result of a comparison.
#[derive(Debug)]
pub struct Outcome {
    /// Counts of entries compared and of differences.
    pub totals: Totals,
    /// What the walk of the source did.
    pub threads: Vec<tree::ThreadReport>,
    /// Time from start to end.
    pub elapsed: Duration,
    /// Whether the run ended early on request.
    pub stopped: bool,
    /// What this rank exchanged with others.
    pub exchanged: Exchanged,
}

/// Compares `source` with `target` in a session of one rank: see [`run`].
///
/// Both must be directories, which are compared with everything below them, or neither.
///
/// # Errors
/// Nothing was compared: one of the two does not exist, or only one is a directory.
pub fn run_alone(
    source: &[u8],
    target: &[u8],
    options: &Options<'_>,
    watch: &dyn Watch,
    observe: impl FnMut(&Progress),
) -> Result<Outcome, Refused> {
    let trees = Trees::open(source, target, options)?;
    let began = std::time::Instant::now();
    let mut session = Session::alone(options.walk.stop.clone());
    match run(&mut session, &trees, options, watch, observe) {
        Ok(mut outcome) => {
            trees.conclude(watch, &mut outcome.totals);
            Ok(Outcome { elapsed: began.elapsed(), ..outcome })
        }
        Err(error) => unreachable!("a session of one waits for nobody: {error}"),
    }
}

/// Compares two trees as one rank of a session. Returns when all ranks are done or `options.walk.stop`, which is that of the session, is set
/// on one of them.
///
/// Every difference is passed to the watcher of one rank. The outcome is what this rank did; totals of ranks add up. Hard links are compared
/// later, on the first rank, when it has the names of all ranks: see [`Trees::conclude`].
///
/// Calls `observe` on the calling thread some 40 times a second: on the first rank with the known progress of all ranks, on each other
/// rank with its own.
///
/// # Errors
/// As [`Session::run`].
pub fn run(
    session: &mut Session<'_>,
    trees: &Trees,
    options: &Options<'_>,
    watch: &dyn Watch,
    mut observe: impl FnMut(&Progress),
) -> Result<Outcome, RankError> {
    let comparing = Comparing::new(options, watch, trees, session.seat());
    let starts = session.is_first().then(|| Start::new(trees.source.to_bytes()));
    let began = std::time::Instant::now();
    let walked = tree::run(session, &comparing, starts, &options.walk, |walk, [differences, bytes, ..]| {
        observe(&Progress { walk: walk.clone(), differences, bytes });
    })?;
    let mut totals = Totals::default();
    walked.workers.iter().for_each(|worker| totals += &worker.totals);
    Ok(Outcome {
        totals,
        threads: walked.threads,
        elapsed: began.elapsed(),
        stopped: walked.stopped,
        exchanged: walked.exchanged,
    })
}
