//! One Parquet file of the differences of two trees: a row for each field that differs, and one for each name that only one side has. One
//! caller at a time fills it; it does not name, sync or rename files.
//!
//! | column | |
//! | --- | --- |
//! | `path`, `path_raw` | below the roots; its bytes where the text loses something, as in all `_raw` columns |
//! | `change`, `kind` | `missing`, `extra` or `different`; the source's kind, or the target's of what it alone has |
//! | `field` | which field differs |
//! | `name`, `name_raw` | of an extended attribute; the other name of a link |
//! | `source`, `source_raw`, `target`, `target_raw` | the values, as text |
//! | `offset` | of the first byte that differs |

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use atta_entry::{Detail, Difference, Side};
use parquet::data_type::Int64Type;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::rows::values;
use crate::shard::row_group::{ByteColumn, push_lossy, write_numbers};
use crate::shard::schema::properties_of;
use crate::{Error, ROW_GROUP_BYTES, Result, ShardSummary};

const SCHEMA: &str = "message differences {
  REQUIRED BINARY path (STRING);
  OPTIONAL BINARY path_raw;
  REQUIRED BINARY change (STRING);
  REQUIRED BINARY kind (STRING);
  OPTIONAL BINARY field (STRING);
  OPTIONAL BINARY name (STRING);
  OPTIONAL BINARY name_raw;
  OPTIONAL BINARY source (STRING);
  OPTIONAL BINARY source_raw;
  OPTIONAL BINARY target (STRING);
  OPTIONAL BINARY target_raw;
  OPTIONAL INT64 offset (INTEGER(64,false));
}";
/// The columns of byte strings, in the order of the schema.
const BYTE_STRINGS: [&str; 11] = [
    "path",
    "path_raw",
    "change",
    "kind",
    "field",
    "name",
    "name_raw",
    "source",
    "source_raw",
    "target",
    "target_raw",
];
/// Bytes of a row besides its byte strings, approximately.
const ROW_BYTES: usize = 120;

/// See the module documentation.
pub struct DifferenceTable<W: Write + Send = File> {
    writer: SerializedFileWriter<W>,
    columns: Columns,
    rows: u64,
    is_broken: bool,
}

/// Rows that have not been written yet.
#[derive(Default)]
struct Columns {
    byte_strings: [ByteColumn; BYTE_STRINGS.len()],
    offset: Vec<i64>,
    offset_levels: Vec<i16>,
}

/// The values of a field in a row.
#[derive(Default)]
struct Cells<'a> {
    name: Option<&'a [u8]>,
    source: Option<&'a [u8]>,
    target: Option<&'a [u8]>,
    offset: Option<u64>,
}

impl<W: Write + Send> DifferenceTable<W> {
    /// Begins a table in `output`, which is empty and needs no buffer of its own.
    ///
    /// # Errors
    ///
    /// [`Error::ShardWrite`] if `output` cannot be written.
    pub fn create(output: W) -> Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = properties_of(BYTE_STRINGS.into_iter(), &["change", "kind", "field"])?;
        let writer = SerializedFileWriter::new(output, schema, Arc::new(properties))?;
        Ok(Self { writer, columns: Columns::default(), rows: 0, is_broken: false })
    }

    /// Adds a difference.
    ///
    /// # Errors
    ///
    /// [`Error::ShardWrite`] if the output cannot be written; after that every call returns [`Error::ShardBroken`].
    pub fn push(&mut self, difference: &Difference<'_>) -> Result<()> {
        let details = difference.change.details();
        if details.is_empty() {
            self.columns.push(difference, None, &Cells::default());
        }
        for detail in details {
            match detail {
                Detail::Xattrs(names) => names.iter().for_each(|name| {
                    let cells = Cells { name: Some(name), ..Cells::default() };
                    self.columns.push(difference, Some(detail), &cells);
                }),
                _ => self.columns.push_detail(difference, detail),
            }
        }
        if self.columns.bytes() >= ROW_GROUP_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the remaining rows and the footer. The file is then complete, but not yet synced.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn finish(mut self) -> Result<ShardSummary> {
        if self.is_broken || self.columns.rows() > 0 {
            self.flush()?;
        }
        self.writer.finish()?;
        Ok(ShardSummary { rows: self.rows, bytes: self.writer.bytes_written() as u64 })
    }

    fn flush(&mut self) -> Result<()> {
        if self.is_broken {
            // Rows must not accumulate in memory when the disk is full.
            self.columns.clear();
            return Err(Error::ShardBroken);
        }
        let rows = self.columns.rows() as u64;
        let written = self.columns.write(&mut self.writer);
        self.columns.clear();
        self.is_broken = written.is_err();
        self.rows += rows;
        written
    }
}

impl Columns {
    fn push_detail(&mut self, difference: &Difference<'_>, detail: &Detail) {
        let values = values(detail);
        let mut cells = Cells::default();
        if let Some((source, target)) = &values {
            (cells.source, cells.target) = (Some(source.as_ref()), Some(target.as_ref()));
        }
        match detail {
            Detail::Links(side, other) => {
                let (together, apart) = (Some(&b"together"[..]), Some(&b"apart"[..]));
                cells.name = Some(other);
                (cells.source, cells.target) =
                    if *side == Side::Source { (together, apart) } else { (apart, together) };
            }
            Detail::Content(offset) => cells.offset = Some(*offset),
            _ => {}
        }
        self.push(difference, Some(detail), &cells);
    }

    fn push(&mut self, difference: &Difference<'_>, detail: Option<&Detail>, cells: &Cells<'_>) {
        let Difference { path, kind, change } = difference;
        let [
            path_text,
            path_raw,
            change_word,
            kind_word,
            field,
            name,
            name_raw,
            source,
            source_raw,
            target,
            target_raw,
        ] = &mut self.byte_strings;
        match std::str::from_utf8(path) {
            Ok(_) => {
                path_text.push_required(path);
                path_raw.push_null();
            }
            Err(_) => {
                path_text.push_required(String::from_utf8_lossy(path).as_bytes());
                path_raw.push(path);
            }
        }
        change_word.push_required(change.name().as_bytes());
        kind_word.push_required(kind.name().as_bytes());
        match detail {
            Some(detail) => field.push(detail.field().name().as_bytes()),
            None => field.push_null(),
        }
        push_lossy(cells.name, name, name_raw);
        push_lossy(cells.source, source, source_raw);
        push_lossy(cells.target, target, target_raw);
        self.offset.extend(cells.offset.map(u64::cast_signed));
        self.offset_levels.push(i16::from(cells.offset.is_some()));
    }

    fn rows(&self) -> usize {
        self.offset_levels.len()
    }

    fn bytes(&self) -> usize {
        self.rows() * ROW_BYTES + self.byte_strings.iter().map(ByteColumn::bytes).sum::<usize>()
    }

    /// Writes the columns in the order of the schema.
    fn write<W: Write + Send>(&mut self, writer: &mut SerializedFileWriter<W>) -> Result<()> {
        let mut group = writer.next_row_group()?;
        for column in &mut self.byte_strings {
            column.write(&mut group)?;
        }
        write_numbers::<Int64Type, W>(&self.offset, Some(&self.offset_levels), &mut group)?;
        group.close()?;
        Ok(())
    }

    fn clear(&mut self) {
        self.byte_strings.iter_mut().for_each(ByteColumn::clear);
        self.offset.clear();
        self.offset_levels.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_entry::{Change, Kind};
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    /// The rows of a table with these differences.
    fn rows(differences: &[Difference<'_>]) -> Vec<Vec<Field>> {
        let mut file = Vec::new();
        let mut table = DifferenceTable::create(&mut file).unwrap();
        differences.iter().for_each(|difference| table.push(difference).unwrap());
        let summary = table.finish().unwrap();
        assert_eq!(summary.bytes, file.len() as u64);
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().into_columns().into_iter().map(|(_, field)| field).collect())
            .collect();
        assert_eq!(summary.rows, rows.len() as u64);
        rows
    }

    /// The expected fields of a row; null for an empty word.
    fn row(words: [&str; 7], raw: [&[u8]; 4], offset: Option<u64>) -> Vec<Field> {
        let text = |word: &str| if word.is_empty() { Field::Null } else { Field::Str(word.to_owned()) };
        let bytes = |raw: &[u8]| if raw.is_empty() { Field::Null } else { Field::Bytes(raw.to_vec().into()) };
        let [path, change, kind, field, name, source, target] = words.map(text);
        let [path_raw, name_raw, source_raw, target_raw] = raw.map(bytes);
        let offset = offset.map_or(Field::Null, Field::ULong);
        vec![
            path, path_raw, change, kind, field, name, name_raw, source, source_raw, target, target_raw,
            offset,
        ]
    }

    #[test]
    fn what_goes_in_comes_out_row_by_row() {
        let one = |path: &'static [u8], change| Difference { path: path.into(), kind: Kind::File, change };
        let details = vec![
            Detail::Size(1, 2),
            Detail::Xattrs(vec![b"user.a".to_vec(), b"\xfe".to_vec()]),
            Detail::Target(b"\xff".to_vec(), b"y".to_vec()),
            Detail::Links(Side::Target, b"other".to_vec()),
            Detail::Content(u64::MAX),
        ];
        let written = [one(b"a", Change::Missing), one(b"b\xff", Change::Different(details))];
        let raw: [&[u8]; 4] = [b"b\xff", b"", b"", b""];
        let different =
            |field, name, source, target| ["b\u{fffd}", "different", "file", field, name, source, target];
        let expected = [
            row(["a", "missing", "file", "", "", "", ""], [b""; 4], None),
            row(different("size", "", "1", "2"), raw, None),
            row(different("xattrs", "user.a", "", ""), raw, None),
            row(different("xattrs", "\u{fffd}", "", ""), [b"b\xff", b"\xfe", b"", b""], None),
            row(different("target", "", "\u{fffd}", "y"), [b"b\xff", b"", b"\xff", b""], None),
            row(different("links", "other", "apart", "together"), raw, None),
            row(different("content", "", "", ""), raw, Some(u64::MAX)),
        ];
        assert_eq!(rows(&written), expected);
        assert!(rows(&[]).is_empty());
    }

    #[test]
    fn many_rows_are_several_groups_and_all_there() {
        let path = vec![b'x'; 1 << 10];
        let difference = Difference { path: path.as_slice().into(), kind: Kind::File, change: Change::Extra };
        assert_eq!(rows(&vec![difference; 10_000]).len(), 10_000);
    }

    #[test]
    fn full_disk_is_reported_and_nothing_piles_up() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut table = DifferenceTable::create(Full(100)).unwrap();
        let path = vec![b'x'; 1 << 16];
        let difference = Difference { path: path.as_slice().into(), kind: Kind::File, change: Change::Extra };
        let results: Vec<_> = (0..500).map(|_| table.push(&difference)).collect();
        assert!(results.iter().any(Result::is_err));
        assert!(table.columns.bytes() <= ROW_GROUP_BYTES + (1 << 17));
        assert!(table.finish().is_err());
    }
}
