//! Counters of digests. No I/O.

use std::collections::BTreeMap;

use atta_entry::{Code, Errno};
use atta_runtime::{Counter, Results, counters};

use crate::digest::Signature;

counters! {
    /// What was summed up, and what was not: of a slice, or of all.
    pub struct Totals {
        /// Regular files that have their digests; each name counts.
        pub files: u64 = "files", Kind("file", "files");
        /// Directories.
        pub directories: u64 = "directories", Kind("directory", "directories");
        /// Symbolic links.
        pub symlinks: u64 = "symlinks", Kind("symlink", "symlinks");
        /// FIFOs, sockets and devices.
        pub specials: u64 = "special_files", Kind("special file", "special files");
        /// Bytes of the files that [`files`](Self::files) counts, holes included.
        pub bytes: u64 = "bytes";
        /// Of all these names, those of files that were read under another name.
        pub known: u64 = "read_under_another_name";
        /// Names of the file that is being written, which is left out.
        pub left_out: u64;
        /// Files that changed each time they were read.
        pub changed: u64;
    }
    parts {
        /// Entries that failed, by error; those that changed included.
        pub failures: BTreeMap<Errno, u64>;
    }
}

impl Totals {
    /// Entries that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Entries that did not fail.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.specials
    }
}

/// What the names of a slice come to. `G`: for the caller, beside the counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums<G> {
    /// The counts.
    pub totals: Totals,
    /// The signature of those that did not fail.
    pub signature: Signature,
    /// What the caller has gathered.
    pub gathered: G,
}

impl<G: Code> Code for Sums<G> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.totals.encode(out);
        self.signature.encode(out);
        self.gathered.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (totals, signature) = (Code::decode(bytes)?, Code::decode(bytes)?);
        Some(Self { totals, signature, gathered: Code::decode(bytes)? })
    }
}

impl<G: Results> Results for Sums<G> {
    fn add(&mut self, other: &Self) {
        self.totals += &other.totals;
        self.signature.merge(&other.signature);
        self.gathered.add(&other.gathered);
    }

    fn is_empty(&self) -> bool {
        self.totals.is_empty() && self.gathered.is_empty() && self.signature.is_empty()
    }

    fn show(&self, show: &mut dyn FnMut(Counter)) {
        self.totals.show(show);
    }
}
