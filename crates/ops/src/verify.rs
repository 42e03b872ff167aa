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
#[cfg(test)]
pub(crate) mod fuzz;
mod handler;
mod large;
mod links;
mod options;
mod pair;
mod report;
mod tally;
mod task;
mod totals;
mod trees;

use atta_runtime::{RankError, Session};

pub use fields::Fields;
pub use options::{Options, Outcome, Progress, Watch};
pub use totals::Totals;
pub use trees::Trees;

pub use crate::refused::Refused;
use crate::tree::{self, Start};
use handler::{Comparing, Ranks};
use tally::Key;

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
    let key = session.broadcast(session.is_first().then(Key::random))?;
    let comparing = Comparing::new(options, watch, trees, Ranks { seat: session.seat(), key });
    let starts = session.is_first().then(|| Start::new(trees.source.to_bytes()));
    let began = std::time::Instant::now();
    let walked = tree::run(session, &comparing, starts, &options.walk, |walk, [differences, bytes, ..]| {
        observe(&Progress { walk: walk.clone(), differences, bytes });
    })?;
    let walked = walked.all();
    Ok(Outcome {
        totals: walked.results,
        threads: walked.threads,
        elapsed: began.elapsed(),
        stopped: walked.stopped,
        exchanged: walked.exchanged,
    })
}
