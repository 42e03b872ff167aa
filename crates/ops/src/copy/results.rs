//! What a copy comes to, in a slice or in all: counts, statistics, the signature, and rows of the manifest. No I/O.

pub(crate) mod manifest;
pub(crate) mod report;
pub(crate) mod times;
pub(crate) mod totals;

use atta_runtime::Counter;

use crate::copy::results::manifest::ManifestRow;
use crate::copy::results::report::Report;
use crate::copy::results::totals::Totals;
use crate::digest::Signature;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Results {
    pub(crate) totals: Totals,
    /// Sizes and slowest of the copied files.
    pub(crate) report: Report,
    /// Signature of the copied data, if digests are wanted.
    pub(crate) signature: Signature,
    /// Rows of the manifest, if it is wanted, that were not reported yet.
    pub(crate) rows: Vec<ManifestRow>,
}

atta_entry::record!(Results { totals, report, signature, rows });

impl atta_runtime::Results for Results {
    fn add(&mut self, other: &Self) {
        self.totals += &other.totals;
        self.report += &other.report;
        self.signature.merge(&other.signature);
        self.rows.extend_from_slice(&other.rows);
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}
