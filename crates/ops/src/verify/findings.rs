//! What the names of a slice come to in a comparison: counts, and, if the run has a log, what a later run of the job has to know of them. No I/O.

use atta_entry::{Code as _, Difference};
use atta_runtime::{Counter, Results};

use super::totals::Totals;

/// Bytes of differences and names of one slice, or of one closing, that go into the log. If there are more, a later run compares again. A frame of the
/// log has room for those of many threads.
const LOGGED_MOST: usize = 2 << 20;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The counts.
    pub totals: Totals,
    /// The differences, encoded one after another. Only if the run has a log: a later run reports them again.
    pub(super) differences: Vec<u8>,
    /// Names of files that have several, encoded one after another. Only if the run has a log: the last run compares them all.
    pub(super) names: Vec<u8>,
    /// Names that were not compared, without a failure of their own: TARGET's directory cannot be opened, which was reported once.
    pub(super) lost: u64,
}

atta_entry::record!(Findings { totals, differences, names, lost });

impl Results for Findings {
    fn add(&mut self, other: &Self) {
        self.totals += &other.totals;
        self.differences.extend_from_slice(&other.differences);
        self.names.extend_from_slice(&other.names);
        self.lost += other.lost;
    }

    fn is_empty(&self) -> bool {
        self.totals.is_empty() && self.lost == 0 && self.bytes() == 0
    }

    fn show(&self, show: &mut dyn FnMut(Counter)) {
        self.totals.show(show);
    }

    fn bytes(&self) -> usize {
        self.differences.len() + self.names.len()
    }
}

impl Findings {
    /// The differences.
    pub fn differences(&self) -> &[u8] {
        &self.differences
    }

    /// The names of files that have several, for [`Trees::receive`](super::Trees::receive).
    pub fn names(&self) -> &[u8] {
        &self.names
    }

    /// Forgets what only the log needs.
    pub(super) fn keep_totals(&mut self) {
        (self.differences, self.names) = (Vec::new(), Vec::new());
    }

    /// Whether a later run must do it again: something was not compared, or it is more than the log gets at once.
    pub(super) fn is_left(&self) -> bool {
        self.totals.failed() > 0 || self.lost > 0 || self.bytes() > LOGGED_MOST
    }

    /// Adds a difference for the log, unless there are too many.
    pub(super) fn log(&mut self, difference: &Difference<'_>) {
        if self.bytes() <= LOGGED_MOST {
            difference.encode(&mut self.differences);
        }
    }
}
