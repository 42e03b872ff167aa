//! Opens files of this rank and reads them whole, and counts by source: how many files were opened, and how many names did not exist. What an
//! example asserts and prints are these counts.

use std::collections::BTreeMap;

use atta_code::record;
use atta_entry::Errno;
use atta_mounts::MountTable;
use atta_status::{Answer, Files, MountMap};

use crate::cache::File;

/// The most bytes of a file: it travels as one message. `atta_status::Sources` reads files of any size, in parts.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Calls of open at one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opens {
    /// Files that were opened.
    pub opened: u64,
    /// Calls that failed: the name does not exist, or another error.
    pub failed: u64,
}

record!(Opens { opened, failed });

/// Calls of open by source: the URI of a file system, or `each host` for local file systems.
pub type Counts = BTreeMap<String, Opens>;

/// What this rank opens by itself.
pub struct Reader<'r> {
    table: &'r MountTable,
    map: &'r MountMap,
    files: &'r dyn Files,
    counts: Counts,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Reader").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl<'r> Reader<'r> {
    /// A reader that has opened nothing.
    #[must_use]
    pub fn new(table: &'r MountTable, map: &'r MountMap, files: &'r dyn Files) -> Self {
        Self { table, map, files, counts: Counts::new() }
    }

    /// Opens a file and reads it. Each call is counted.
    ///
    /// # Errors
    /// As [`Files::open`]; EFBIG: it has more than 64 MiB; EAGAIN: it has changed meanwhile.
    pub fn read(&mut self, path: &[u8]) -> File {
        let opened = self.files.open(path);
        let count = self.counts.entry(self.source(path)).or_default();
        let mut file = opened.inspect(|_| count.opened += 1).inspect_err(|_| count.failed += 1)?;
        let size = file.facts().size;
        if size > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let mut bytes = vec![0; usize::try_from(size).map_err(|_| Errno::FBIG)?];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], filled as u64)? {
                0 => return Err(Errno::AGAIN),
                count => filled += count,
            }
        }
        if file.is_unchanged()? { Ok(bytes) } else { Err(Errno::AGAIN) }
    }

    /// The counts so far; they begin again at nothing.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    fn source(&self, path: &[u8]) -> String {
        if self.map.is_fully_distributed(path) == Answer::Yes {
            return "each host".to_owned();
        }
        self.table.uri_of(path).map_or_else(|| "no mount".to_owned(), |uri| uri.file_system().to_string())
    }
}
