//! Opens files of this rank and reads them whole, and counts by source: how many files were opened, and how many names did not exist. What an
//! example asserts and prints are these counts.

use std::collections::BTreeMap;

use atta_code::record;
use atta_entry::Errno;
use atta_mounts::MountTable;
use atta_status::{Answer, Files, MountMap};

use crate::cache::File;

/// The most bytes of a file: it travels as one message. `atta_status::Sources` reads files of any size, in parts.
const FILE_BYTES_MAX: usize = 64 << 20;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

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
        let (size, mut bytes, mut buffer) = (file.facts().size, Vec::new(), vec![0; BUFFER_BYTES]);
        loop {
            match file.read_at(&mut buffer, bytes.len() as u64)? {
                0 => break,
                count => bytes.extend_from_slice(&buffer[..count]),
            }
            if bytes.len() > FILE_BYTES_MAX {
                return Err(Errno::FBIG);
            }
        }
        // Files that the kernel makes while they are read have no size.
        let is_whole = size == 0 || (bytes.len() as u64 == size && file.is_unchanged()?);
        if is_whole { Ok(bytes) } else { Err(Errno::AGAIN) }
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

#[cfg(test)]
mod tests {
    use atta_status::{Alone, Options, Status, SystemFiles};

    use super::*;
    use crate::hosts::{Site, host_table};

    #[test]
    fn each_call_is_counted_at_its_source() {
        let mut session = atta_runtime::Session::alone(atta_runtime::Stop::new());
        let big = vec![7; 200_000];
        let site = Site::share(&mut session, "reader", |top| {
            std::fs::create_dir(top.join("one"))?;
            std::fs::write(top.join("one/f"), &big)?;
            std::fs::write(top.join("empty"), b"")
        });
        let site = site.expect("a scratch directory can be made");
        let table =
            host_table(&site, 0, &[("one", "nfs4 10.0.0.5:/e rw".to_owned())]).expect("lines are valid");
        let status = Status::join(&mut Alone, &table, Options::default()).unwrap();
        let map = MountMap::build(&status, &mut Alone).unwrap();
        let mut reader = Reader::new(&table, &map, &SystemFiles);
        assert_eq!(reader.read(&site.path("one/f")), Ok(big.clone()));
        assert_eq!(reader.read(&site.path("one/f")), Ok(big));
        assert_eq!(reader.read(&site.path("one/none")), Err(Errno::NOENT));
        assert_eq!(reader.read(&site.path("one")), Err(Errno::ISDIR));
        assert_eq!(reader.read(&site.path("empty")), Ok(Vec::new()));
        assert!(reader.read(b"/proc/version").is_ok_and(|bytes| !bytes.is_empty()), "it has no size");
        let expected = [("each host", (2, 0)), ("nfs://10.0.0.5/e", (2, 2))];
        let expected =
            expected.map(|(source, (opened, failed))| (source.to_owned(), Opens { opened, failed }));
        assert_eq!(reader.take_counts(), expected.into());
        assert_eq!(reader.take_counts(), Counts::new());
    }
}
