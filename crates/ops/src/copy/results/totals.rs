//! Counters of a copy, with their labels. No I/O.

use std::collections::BTreeMap;

use atta_entry::Errno;
use atta_runtime::counters;

use crate::metadata::not_kept::NotKept;

counters! {
    /// What was copied, and what was not: of a slice, or of all.
    pub struct Totals {
        /// Regular files whose bytes were copied.
        pub files: u64 = "files", Kind("file", "files");
        /// Directories, those that were there before included.
        pub directories: u64 = "directories", Kind("directory", "directories");
        /// Symbolic links.
        pub symlinks: u64 = "symlinks", Kind("symlink", "symlinks");
        /// Names that became hard links of files that were copied under another name.
        pub hard_links: u64 = "hard_links", Kind("hard link", "hard links");
        /// FIFOs, sockets and devices.
        pub specials: u64 = "special_files", Kind("special file", "special files");
        /// Bytes of the files that [`files`](Self::files) counts, holes included.
        pub bytes: u64 = "bytes";
        /// Bytes that were read back from the target and found to be those of the source; of what has several names, once on each rank
        /// that met one.
        pub verified_bytes: u64 = "verified_bytes", Bytes(" verified");
        /// Copies, and chunks of large ones, that were to be read back and were not, since the run was to end, or since they have no
        /// digest ([`not_hashed`](Self::not_hashed)).
        pub not_verified: u64 = "not_verified",
            Line("not read back: ", ["copy", "copies"], ", or parts of large ones");
        /// Files that were copied without a digest although digests are wanted: they have too many holes.
        pub not_hashed: u64 = "not_hashed",
            Line("no digest: ", ["file", "files"], " with more holes than --max-holes; so there is no signature");
        /// Files, and chunks of large ones, that were written once more: they were not what they must be when they were read back, or a
        /// sync of them failed.
        pub mended: u64 = "mended", Line("", ["file or part", "files or parts"], " written once more");
        /// Directories, and files that had the bytes of their sources, that got what else differed: of a list of differences.
        pub repaired: u64 = "repaired", Line("attributes repaired: ", ["entry", "entries"], "");
        /// What was left as it is, since it is there already.
        pub skipped: u64 = "skipped", Line("skipped: ", ["entry", "entries"], " already there");
        /// Names in the sources of what another run has not completed, which are no data and were left out.
        pub unfinished: u64 = "unfinished_left_out",
            Line("left out: ", ["name", "names"], " in SOURCE of what another copy has not completed");
        /// Files that share the bytes of their sources.
        pub cloned: u64 = "cloned", Line("", ["file", "files"], " share their bytes with their sources");
        /// Files that did not get the layout on Lustre that they were to have.
        pub not_striped: u64 = "not_striped", Line("", ["file", "files"], " not striped as asked for");
        /// Large files that went through the page cache although they should not.
        pub not_direct: u64 = "not_direct",
            Line("", ["file", "files"], " went through the page cache although --direct was asked for");
        /// Names of copied files that were not copied, since they are outside of the sources, were left out or came meanwhile; of those
        /// that failed, too, and of those whose links the target does not take.
        pub elsewhere: u64 = "names_elsewhere",
            Line("", ["name", "names"], " of copied files without a copy, or with one of their own");
        /// Entries that changed each time they were read, and so were not copied.
        pub changed: u64 = "changed";
    }
    parts {
        /// What the target does not have although it was copied.
        pub not_kept: NotKept = "not_kept";
        /// Entries that were not copied, by error; those that changed included.
        pub failures: BTreeMap<Errno, u64>;
    }
}

impl Totals {
    /// Entries that were not copied.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}
