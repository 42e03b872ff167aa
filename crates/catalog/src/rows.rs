//! Rows for stdout: converts an entry to the bytes of its row. No I/O: the caller owns the buffer, fills it with any number of rows and
//! writes it.

mod csv;
mod difference;
mod digested;
mod failure;
mod ndjson;
mod text;

use atta_entry::{Entry, escape_into};

use crate::Columns;

pub(crate) use difference::values;
pub use difference::{difference_row, difference_text};
pub use digested::digested_row;
pub use failure::failure_row;

/// Format of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The path and a line end. Cannot hold every name unless it is escaped.
    Path,
    /// The path unchanged and a NUL: the input of `xargs -0`.
    Path0,
    /// For people: permissions, links, owner, group, size, allocated bytes, modification time and path, separated by tabs.
    Text,
    /// One JSON object per line.
    Ndjson,
    /// RFC 4180 with LF instead of CRLF, as most programs write it. Empty fields are absent values.
    Csv,
}

/// The text before the first row: the names of the columns for CSV, otherwise nothing.
#[must_use]
pub fn header(format: Format, columns: Columns) -> Vec<u8> {
    if format != Format::Csv {
        return Vec::new();
    }
    let names: Vec<_> = columns.names().collect();
    let mut line = names.join(",").into_bytes();
    line.push(b'\n');
    line
}

/// Turns entries into rows of one format.
///
/// It keeps a buffer for the path of the current row, so that a row costs no allocation.
pub struct RowWriter {
    format: Format,
    columns: Columns,
    escape: bool,
    path: Vec<u8>,
}

impl RowWriter {
    /// Rows of this format with these columns. With `escape`, for a terminal, [`Format::Path`] escapes its paths;
    /// [`Format::Text`] always does, [`Format::Path0`] never, and NDJSON and CSV have their own rules.
    ///
    /// NDJSON and CSV are for programs: JSON escapes only the control characters below U+0020, CSV none.
    #[must_use]
    pub fn new(format: Format, columns: Columns, escape: bool) -> Self {
        Self { format, columns, escape, path: Vec::new() }
    }

    /// Appends the row of an entry to `out`.
    ///
    /// With [`Columns::Lite`] it leaves out metadata, even if the entry has some. With [`Columns::Full`], an entry without metadata has no
    /// such fields (NDJSON), empty ones (CSV) or question marks (text).
    pub fn append(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        self.append_digested(entry, None, out);
    }

    /// The same with the digest of its content, which rows of [`Columns::Digests`] have in NDJSON and CSV.
    pub fn append_digested(&mut self, entry: &Entry<'_>, digest: Option<&[u8; 32]>, out: &mut Vec<u8>) {
        match self.format {
            Format::Path if !self.escape => {
                entry.path_into(out);
                out.push(b'\n');
            }
            Format::Path0 => {
                entry.path_into(out);
                out.push(0);
            }
            _ => {
                self.path.clear();
                entry.path_into(&mut self.path);
                self.append_with_path(entry, digest, out);
            }
        }
    }

    fn append_with_path(&self, entry: &Entry<'_>, digest: Option<&[u8; 32]>, out: &mut Vec<u8>) {
        let path = &self.path;
        match self.format {
            Format::Path | Format::Path0 => {
                escape_into(path, out);
                out.push(b'\n');
            }
            Format::Text => text::row(entry, path, self.columns, out),
            Format::Ndjson => ndjson::row(entry, path, self.columns, digest, out),
            Format::Csv => csv::row(entry, path, self.columns, digest, out),
        }
    }
}

/// Appends a decimal number.
fn number_into(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_entry::{Kind, Metadata, Timestamp};

    const FULL: Columns = Columns::Full { targets: true };
    const LITE: Columns = Columns::Lite { targets: true };

    fn metadata() -> Metadata {
        Metadata {
            mode: 0o104_755,
            uid: 1000,
            gid: 100,
            nlink: 2,
            size: 12_345,
            blocks: 32,
            inode: u64::MAX,
            device: 7,
            atime: Timestamp { seconds: -1, nanoseconds: 5 },
            mtime: Timestamp { seconds: 1_795_221_980, nanoseconds: 123_456_789 },
            ctime: Timestamp { seconds: 10_000_000_000, nanoseconds: 7 },
            btime: None,
        }
    }

    fn entry<'a>(name: &'a [u8], metadata: Option<&'a Metadata>, target: Option<&'a [u8]>) -> Entry<'a> {
        Entry {
            directory: b"r",
            name,
            root_bytes: 1,
            depth: 1,
            kind: metadata.map_or(Kind::Symlink, Metadata::kind),
            inode: 9,
            metadata,
            target,
        }
    }

    fn row(format: Format, columns: Columns, escape: bool, entry: &Entry<'_>) -> String {
        let mut out = Vec::new();
        RowWriter::new(format, columns, escape).append(entry, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn paths() {
        let hostile = entry(b"a\nb", None, None);
        assert_eq!(row(Format::Path, LITE, false, &hostile), "r/a\nb\n");
        assert_eq!(row(Format::Path, LITE, true, &hostile), "r/a\\nb\n");
        assert_eq!(row(Format::Path0, LITE, true, &hostile), "r/a\nb\0");
        assert!(header(Format::Path, LITE).is_empty());
    }

    #[test]
    fn text() {
        let metadata = metadata();
        assert_eq!(
            row(Format::Text, FULL, false, &entry(b"\x1b[2J", Some(&metadata), None)),
            "-rwsr-xr-x\t2\t1000\t100\t12345\t16384\t2026-11-21T00:46:20.123456789Z\tr/\\x1b[2J\n"
        );
        let link = entry(b"l", None, Some(b"to\there"));
        assert_eq!(row(Format::Text, LITE, false, &link), "l\tr/l -> to\\there\n");
        assert_eq!(row(Format::Text, FULL, false, &link), "l?????????\t?\t?\t?\t?\t?\t?\tr/l -> to\\there\n");
        let lite = row(Format::Text, LITE, false, &entry(b"f", Some(&metadata), None));
        assert_eq!(lite, "-\tr/f\n");
    }

    #[test]
    fn ndjson() {
        let metadata = metadata();
        assert_eq!(
            row(Format::Ndjson, FULL, false, &entry(b"\xff\"\\\n\x01", Some(&metadata), None)),
            "{\"path\":\"r/\u{fffd}\\\"\\\\\\n\\u0001\",\"path_raw\":\"722fff225c0a01\",\"kind\":\"file\",\
             \"depth\":1,\"inode\":9,\"device\":7,\"mode\":35309,\"nlink\":2,\"uid\":1000,\"gid\":100,\
             \"size\":12345,\"blocks\":32,\"atime\":-999999995,\"mtime\":1795221980123456789,\
             \"ctime\":10000000000000000007,\"btime\":null}\n"
        );
        assert_eq!(
            row(Format::Ndjson, FULL, false, &entry(b"l", None, Some(b"\xfe"))),
            "{\"path\":\"r/l\",\"kind\":\"symlink\",\"depth\":1,\"inode\":9,\"target\":\"\u{fffd}\",\
             \"target_raw\":\"fe\"}\n"
        );
    }

    #[test]
    fn csv() {
        let metadata = metadata();
        assert_eq!(header(Format::Csv, LITE), b"path,path_raw,kind,depth,inode,target,target_raw\n");
        assert_eq!(
            row(Format::Csv, FULL, false, &entry(b"a,\"b\"\n", Some(&metadata), None)),
            "\"r/a,\"\"b\"\"\n\",,file,1,9,7,35309,2,1000,100,12345,32,-999999995,1795221980123456789,\
             10000000000000000007,,,\n"
        );
        assert_eq!(
            row(Format::Csv, FULL, false, &entry(b"\xff", None, Some(b"t"))),
            "r/\u{fffd},722fff,symlink,1,9,,,,,,,,,,,,t,\n"
        );
        let bare = Columns::Lite { targets: false };
        assert_eq!(row(Format::Csv, bare, false, &entry(b"l", None, Some(b"t"))), "r/l,,symlink,1,9\n");
    }
}
