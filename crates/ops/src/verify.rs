//! Compares two file trees on many threads: names, metadata and, on request, file contents.
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
//! let outcome = verify::run(b"src", b"/backup/src", &Options::default(), &Print, |_| {});
//! println!("{:?}", outcome.map(|outcome| outcome.totals.is_same()));
//! ```
//!
//! Guarantees: no link is followed and nothing is written, even if other processes swap entries during the run. A difference counts only if
//! both entries were unchanged during their comparison.
//!
//! Limits: it prints nothing, repairs nothing, and does not walk directories that exist on one side only.

mod compare;
mod counterpart;
mod extra;
mod fields;
mod handler;
mod large;
mod links;
mod pair;
mod task;
mod told;
mod totals;

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use atta_entry::{Change, Difference, Failure, Kind, escape};

pub use fields::Fields;
pub use totals::Totals;

use atta_runtime::Seat;

use crate::descriptors::{Budget, Needs};
use crate::file::chunks::UnderWay;
use crate::metadata::granularity::Shown;
pub use crate::refused::Refused;
use crate::tree::directory::Directory;
use crate::tree::{self, Start};
use atta_sys::{self as sys, Features};
use handler::{Comparing, Live, VerifyWorker};
use links::Equal;

/// The share of the walk's memory for equal files with several names, as a divisor.
const EQUAL_PART: u64 = 4;

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
}

/// Compares `source` with `target`.
///
/// Both must be directories, which are compared with everything below them, or neither. Returns when all is done or `options.walk.stop` is
/// set.
///
/// Calls `observe` on the calling thread some 40 times a second.
///
/// # Errors
/// Nothing was compared: one of the two does not exist, or only one is a directory.
pub fn run(
    source: &[u8],
    target: &[u8],
    options: &Options<'_>,
    watch: &dyn Watch,
    mut observe: impl FnMut(&Progress),
) -> Result<Outcome, Refused> {
    let features = options.walk.features;
    let budget = Budget::of_process(Needs::VERIFY, options.walk.threads.max(options.walk.cores));
    let comparing = Comparing {
        options,
        watch,
        source: CString::new(source).unwrap_or_default(),
        target: CString::new(target).unwrap_or_default(),
        top: open(source, target, features)?,
        features,
        held: budget.held_in_target,
        key: Arc::default(),
        large: UnderWay::new(budget.large),
        seat: Seat::alone(),
        equal: Equal::new(options.walk.memory_bytes / EQUAL_PART),
        granularity: Shown::default(),
        live: Live::default(),
    };
    let began = std::time::Instant::now();
    let walked = tree::run_alone(&comparing, [Start::new(source)], &options.walk, |progress, _| {
        observe(&Progress {
            walk: progress.clone(),
            differences: comparing.live.differences.load(Ordering::Relaxed),
            bytes: comparing.live.bytes.load(Ordering::Relaxed),
        });
    });
    let totals = comparing.conclude_links(&walked.workers);
    Ok(Outcome { totals, threads: walked.threads, elapsed: began.elapsed(), stopped: walked.stopped })
}

impl Comparing<'_> {
    /// Reports names that are one file on one side only, and adds up the totals.
    fn conclude_links(&self, workers: &[VerifyWorker]) -> Totals {
        let mut totals = Totals::default();
        workers.iter().for_each(|worker| totals += &worker.totals);
        for (path, details) in links::differing(workers.iter().map(|worker| &worker.names)) {
            self.tell_path(&mut totals, path, Kind::File, Change::Different(details));
        }
        totals
    }
}

/// Checks both roots. Opens the target if both are directories.
fn open(source: &[u8], target: &[u8], features: Features) -> Result<Option<Arc<Directory>>, Refused> {
    let hint = "both must be there; nothing was compared";
    let look = |name: &str, path: &[u8]| {
        let found = sys::stat_path(path, false);
        let found = found.map_err(|errno| Refused::failed(&format!("stat {name}"), path, errno, hint))?;
        Ok(found.kind())
    };
    match (look("SOURCE", source)?, look("TARGET", target)?) {
        (Kind::Directory, Kind::Directory) => {}
        (one, other) if one == Kind::Directory || other == Kind::Directory => {
            let (from, to) = (escape(source), escape(target));
            let what = format!("SOURCE is a {} and TARGET a {}: {from}, {to}", one.name(), other.name());
            let hint =
                "name two directories, or two entries that are none; a slash at the end follows a link";
            return Err(Refused { what, hint: hint.into(), is_usage: false });
        }
        _ => return Ok(None),
    }
    let cannot = |errno| Refused::failed("open TARGET", target, errno, hint);
    let opened = Arc::new(sys::open_directory_path(target, false).map_err(cannot)?);
    let place = sys::place_of(&opened, features).map_err(cannot)?;
    let path = CString::new(target).unwrap_or_default();
    Ok(Some(Directory::root(path, 0, opened, place)))
}
