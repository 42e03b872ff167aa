//! Counters of a comparison. No I/O.

use std::collections::BTreeMap;

use atta_entry::{Change, Errno, Field};
use atta_runtime::counters;

counters! {
    /// What was compared and what was found: of a slice, or of all.
    pub struct Totals {
        /// Entries that both sides have and that were compared.
        pub compared: u64 = "compared";
        /// Files whose bytes were compared.
        pub files: u64 = "files";
        /// Bytes of these files that were compared, holes included: up to the first difference.
        pub bytes: u64 = "bytes";
        /// Entries that the target does not have. What is below a directory is not counted.
        pub missing: u64 = "missing", Kind("missing", "missing");
        /// Entries that the target alone has. What is below a directory is not counted.
        pub extra: u64 = "extra", Kind("extra", "extra");
        /// Entries that differ. One that also differs in its hard links counts twice.
        pub different: u64 = "different", Kind("different", "different");
        /// Entries that changed each time they were compared.
        pub changed: u64 = "changed";
        /// Names of TARGET that were looked up in SOURCE, because the sums of a directory's names differ. Not shown.
        pub looked_up: u64;
    }
    parts {
        /// How often each field differs, by its number.
        pub fields: [u64; Field::ALL.len()];
        /// Entries that could not be compared, by error; those that changed included.
        pub failures: BTreeMap<Errno, u64>;
    }
}

impl Totals {
    /// Entries that could not be compared.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Names that differ between the two sides.
    #[must_use]
    pub fn differences(&self) -> u64 {
        self.missing + self.extra + self.different
    }

    /// Whether all entries were compared and none differs.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.differences() == 0 && self.failed() == 0
    }

    /// Counts a difference.
    pub(crate) fn count(&mut self, change: &Change) {
        match change {
            Change::Missing => self.missing += 1,
            Change::Extra => self.extra += 1,
            Change::Different(details) => {
                self.different += 1;
                details.iter().for_each(|detail| self.fields[detail.field() as usize] += 1);
            }
        }
    }
}
