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

/// What a copy comes to, in some slices or in all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    pub(crate) totals: Totals,
    /// Sizes and slowest of the copied files.
    pub(crate) report: Report,
    /// Signature of the copied data, if digests are wanted.
    pub(crate) signature: Signature,
    /// Rows of the manifest, if it is wanted, that were not reported yet.
    pub(crate) rows: Vec<ManifestRow>,
}

atta_entry::record!(Results { totals, report, signature, rows });

impl Results {
    /// Bytes of the files that were copied, holes included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.totals.bytes
    }

    /// The entries that were copied, or left as they are.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let Totals { files, directories, symlinks, hard_links, specials, skipped, .. } = self.totals;
        files + directories + symlinks + hard_links + specials + skipped
    }
}

impl atta_runtime::Results for Results {
    fn add(&mut self, other: &Self) {
        self.totals += &other.totals;
        self.report += &other.report;
        self.signature.merge(&other.signature);
        self.rows.extend_from_slice(&other.rows);
    }

    fn is_empty(&self) -> bool {
        self.totals.is_empty() && self.report.is_empty() && self.rows.is_empty() && self.signature.is_empty()
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}
