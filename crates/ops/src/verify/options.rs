//! Options and results of a comparison. No I/O.

use std::time::Duration;

use atta_entry::{Difference, Failure};
use atta_runtime::Exchanged;

use super::fields::Fields;
use super::totals::Totals;
use crate::tree;

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

    /// Whether an entry of either tree is left out, with all below it, by its last name, and by its device and inode.
    fn leaves_out(&self, _entry: (&[u8], (u64, u64))) -> bool {
        false
    }

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
