//! What a copy comes to, in a slice or in all: counts, statistics and the signature. No I/O.

use atta_runtime::Counter;

use crate::copy::report::Report;
use crate::copy::totals::Totals;
use crate::digest::Signature;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Results {
    pub(crate) totals: Totals,
    /// Sizes and slowest of the copied files.
    pub(crate) report: Report,
    /// Signature of the copied data, if digests are wanted.
    pub(crate) signature: Signature,
}

atta_entry::record!(Results { totals, report, signature });

impl atta_runtime::Results for Results {
    fn add(&mut self, other: &Self) {
        self.totals += &other.totals;
        self.report += &other.report;
        self.signature.merge(&other.signature);
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}
