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
mod findings;
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

use std::time::Instant;

use atta_runtime::{RankError, Session};

pub use fields::Fields;
pub use findings::Findings;
pub use options::{Options, Outcome, Progress, Watch};
pub use totals::Totals;
pub use trees::Trees;

use crate::large::log::LargeLog;
pub use crate::refused::Refused;
use crate::tree::{self, Journal, Start};
use handler::{Comparing, Ranks, VerifyWorker};
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
    let began = Instant::now();
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
    let comparing = comparing::<false>(session, trees, options, watch)?;
    let starts = session.is_first().then(|| Start::new(trees.source.to_bytes()));
    let began = Instant::now();
    let walked = tree::run(session, &comparing, starts, &options.walk, |walk, [differences, bytes, ..]| {
        observe(&Progress { walk: walk.clone(), differences, bytes });
    })?;
    Ok(outcome_of(walked.all(), began))
}

/// As [`run`], with a log of the job: what earlier runs of it have compared is not compared again. The caller adds what these have found: their
/// totals, differences, and names of files with several names.
///
/// # Errors
/// As [`run`].
pub fn run_logged<'a>(
    session: &mut Session<'_>,
    trees: &'a Trees,
    options: &'a Options<'a>,
    (watch, journal): (&'a dyn Watch, &'a Journal<Findings>),
    mut observe: impl FnMut(&Progress),
) -> Result<Outcome, RankError> {
    let roots = vec![trees.source.to_bytes().to_vec()];
    let log = LargeLog { journal, roots: roots.clone() };
    let comparing = comparing::<true>(session, trees, options, watch)?.with_log(log);
    let began = Instant::now();
    let observe = |walk: &tree::Progress, [differences, bytes, ..]: [u64; 4]| {
        observe(&Progress { walk: walk.clone(), differences, bytes });
    };
    let walked = tree::run_logged(session, (&comparing, journal), roots, &options.walk, observe)?;
    Ok(outcome_of(walked.all(), began))
}

fn comparing<'a, const LOGGED: bool>(
    session: &mut Session<'_>,
    trees: &'a Trees,
    options: &'a Options<'a>,
    watch: &'a dyn Watch,
) -> Result<Comparing<'a, LOGGED>, RankError> {
    let key = session.broadcast(session.is_first().then(Key::random))?;
    Ok(Comparing::new(options, watch, trees, Ranks { seat: session.seat(), key }))
}

fn outcome_of(walked: tree::Outcome<VerifyWorker, Findings>, began: Instant) -> Outcome {
    Outcome {
        totals: walked.results.totals,
        threads: walked.threads,
        elapsed: began.elapsed(),
        stopped: walked.stopped,
        exchanged: walked.exchanged,
    }
}
