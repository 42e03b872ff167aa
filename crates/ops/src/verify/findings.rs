//! What the names of a slice come to in a comparison: counts, and, if the run has a log, what a later run of the job has to know of them. No I/O.

use atta_runtime::{Counter, Results};

use super::totals::Totals;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The counts.
    pub totals: Totals,
    /// The differences, encoded one after another. Only if the run has a log: a later run reports them again.
    pub(super) differences: Vec<u8>,
    /// Names of files that have several, encoded one after another. Only if the run has a log: the last run compares them all.
    pub(super) names: Vec<u8>,
}

atta_entry::record!(Findings { totals, differences, names });

impl Results for Findings {
    fn add(&mut self, other: &Self) {
        self.totals += &other.totals;
        self.differences.extend_from_slice(&other.differences);
        self.names.extend_from_slice(&other.names);
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

    /// Forgets what the log has.
    pub(super) fn keep_totals(&mut self) {
        (self.differences, self.names) = (Vec::new(), Vec::new());
    }
}
