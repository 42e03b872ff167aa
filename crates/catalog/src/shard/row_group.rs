//! The columns of one row group in memory, and writing them to the file. It chooses no encoding and owns no file.
//!
//! Numbers are stored as Parquet takes them, in one vector per column. Bytes are stored one after another in one buffer per column: the
//! Parquet crate takes each value as a slice of a shared buffer, so a value costs no allocation.

use std::io::Write;

use atta_entry::{Entry, Kind, Metadata, Timestamp};
use bytes::Bytes;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use crate::lossy::{hex_into, lossy_into};
use crate::{Columns, Error, Result};

/// Values passed to the Parquet crate at once: its own batch size, so that it splits nothing.
const BATCH_ROWS: usize = 1024;

/// Rows not yet written, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct RowGroup {
    columns: Columns,
    row_bytes: usize,
    path: ByteColumn,
    path_raw: ByteColumn,
    kind: Vec<Kind>,
    depth: Vec<i32>,
    inode: Vec<i64>,
    metadata: MetadataColumns,
    target: ByteColumn,
    target_raw: ByteColumn,
    /// In hexadecimal digits, as `b3sum` prints it.
    digest: ByteColumn,
}

/// The columns that full catalogs have and lite ones do not.
#[derive(Clone, Debug, Default, PartialEq)]
struct MetadataColumns {
    device: Vec<i64>,
    mode: Vec<i32>,
    nlink: Vec<i32>,
    uid: Vec<i32>,
    gid: Vec<i32>,
    size: Vec<i64>,
    blocks: Vec<i64>,
    atime: TimeColumn,
    mtime: TimeColumn,
    ctime: TimeColumn,
    btime: TimeColumn,
}

/// Nanoseconds since the epoch, if there is a time and 64 bits hold it. A level is 1 for a value, 0 for a null.
#[derive(Clone, Debug, Default, PartialEq)]
struct TimeColumn {
    values: Vec<i64>,
    levels: Vec<i16>,
}

/// Byte strings in one buffer. `levels` has one element per row, and stays empty in a column without nulls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ByteColumn {
    data: Vec<u8>,
    ends: Vec<usize>,
    levels: Vec<i16>,
}

impl RowGroup {
    /// No rows. It allocates nothing.
    #[must_use]
    pub fn new(columns: Columns) -> Self {
        Self {
            columns,
            row_bytes: row_bytes(columns),
            path: ByteColumn::default(),
            path_raw: ByteColumn::default(),
            kind: Vec::new(),
            depth: Vec::new(),
            inode: Vec::new(),
            metadata: MetadataColumns::default(),
            target: ByteColumn::default(),
            target_raw: ByteColumn::default(),
            digest: ByteColumn::default(),
        }
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.kind.len()
    }

    /// Bytes of the rows in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rows() * self.row_bytes
            + self.path.data.len()
            + self.path_raw.data.len()
            + self.target.data.len()
            + self.target_raw.data.len()
            + self.digest.data.len()
    }

    /// Adds an entry, with the digest of its content if the columns have one.
    ///
    /// # Errors
    /// [`Error::ShardNoMetadata`] if the columns include metadata and the entry has none; then nothing is added.
    pub fn push(&mut self, entry: &Entry<'_>, digest: Option<&[u8; 32]>) -> Result<()> {
        if self.columns.metadata() {
            // Before any push: columns must never have unequal lengths.
            let Some(metadata) = entry.metadata else {
                return Err(Error::ShardNoMetadata { path: entry.path() });
            };
            self.metadata.push(metadata);
        }
        self.push_path(entry);
        self.kind.push(entry.kind);
        self.depth.push(entry.depth.cast_signed());
        self.inode.push(entry.inode.cast_signed());
        if self.columns.targets() {
            self.push_target(entry.target);
        }
        if self.columns.digests() {
            match digest {
                Some(digest) => {
                    hex_into(digest, &mut self.digest.data);
                    self.digest.end();
                }
                None => self.digest.push_null(),
            }
        }
        Ok(())
    }

    fn push_path(&mut self, entry: &Entry<'_>) {
        let start = self.path.data.len();
        entry.path_into(&mut self.path.data);
        let whole = str::from_utf8(&self.path.data[start..]).is_ok();
        if whole {
            self.path_raw.push_null();
        } else {
            let raw = self.path.data.split_off(start);
            lossy_into(&raw, &mut self.path.data);
            self.path_raw.push(&raw);
        }
        self.path.ends.push(self.path.data.len());
    }

    fn push_target(&mut self, target: Option<&[u8]>) {
        push_lossy(target, &mut self.target, &mut self.target_raw);
    }

    /// Takes the rows from this one on, which may be the number of rows.
    #[must_use]
    pub fn split_off(&mut self, from: usize) -> Self {
        Self {
            columns: self.columns,
            row_bytes: self.row_bytes,
            path: self.path.split_off(from),
            path_raw: self.path_raw.split_off(from),
            kind: self.kind.split_off(from),
            depth: self.depth.split_off(from),
            inode: self.inode.split_off(from),
            metadata: if self.columns.metadata() {
                self.metadata.split_off(from)
            } else {
                MetadataColumns::default()
            },
            target: self.target.split_off(from),
            target_raw: self.target_raw.split_off(from),
            digest: self.digest.split_off(from),
        }
    }

    /// Moves all rows of another one, with the same columns, behind these. The buffers of the other one stay.
    pub fn append(&mut self, other: &mut Self) {
        self.path.append(&mut other.path);
        self.path_raw.append(&mut other.path_raw);
        self.kind.append(&mut other.kind);
        self.depth.append(&mut other.depth);
        self.inode.append(&mut other.inode);
        self.metadata.append(&mut other.metadata);
        self.target.append(&mut other.target);
        self.target_raw.append(&mut other.target_raw);
        self.digest.append(&mut other.digest);
    }

    /// Writes the rows as one row group and clears them, also on failure. The buffers stay for the next one.
    pub(super) fn write<W: Write + Send>(&mut self, writer: &mut SerializedFileWriter<W>) -> Result<()> {
        let written = self.write_columns(writer);
        self.clear();
        written
    }

    /// Writes the columns in the order of the schema: the Parquet crate returns them one after another.
    fn write_columns<W: Write + Send>(&mut self, writer: &mut SerializedFileWriter<W>) -> Result<()> {
        let mut group = writer.next_row_group()?;
        self.path.write(&mut group)?;
        self.path_raw.write(&mut group)?;
        write_kinds(&self.kind, &mut group)?;
        write_numbers::<Int32Type, W>(&self.depth, None, &mut group)?;
        write_numbers::<Int64Type, W>(&self.inode, None, &mut group)?;
        if self.columns.metadata() {
            self.metadata.write(&mut group)?;
        }
        if self.columns.targets() {
            self.target.write(&mut group)?;
            self.target_raw.write(&mut group)?;
        }
        if self.columns.digests() {
            self.digest.write(&mut group)?;
        }
        group.close()?;
        Ok(())
    }

    /// Removes the rows. The buffers stay.
    pub fn clear(&mut self) {
        let targets = [&mut self.target, &mut self.target_raw];
        for column in [&mut self.path, &mut self.path_raw, &mut self.digest].into_iter().chain(targets) {
            column.clear();
        }
        self.kind.clear();
        self.depth.clear();
        self.inode.clear();
        self.metadata.clear();
    }
}

impl MetadataColumns {
    fn push(&mut self, metadata: &Metadata) {
        self.device.push(metadata.device.cast_signed());
        self.mode.push(metadata.mode.cast_signed());
        self.nlink.push(metadata.nlink.cast_signed());
        self.uid.push(metadata.uid.cast_signed());
        self.gid.push(metadata.gid.cast_signed());
        self.size.push(metadata.size.cast_signed());
        self.blocks.push(metadata.blocks.cast_signed());
        self.atime.push(Some(metadata.atime));
        self.mtime.push(Some(metadata.mtime));
        self.ctime.push(Some(metadata.ctime));
        self.btime.push(metadata.btime);
    }

    fn split_off(&mut self, from: usize) -> Self {
        Self {
            device: self.device.split_off(from),
            mode: self.mode.split_off(from),
            nlink: self.nlink.split_off(from),
            uid: self.uid.split_off(from),
            gid: self.gid.split_off(from),
            size: self.size.split_off(from),
            blocks: self.blocks.split_off(from),
            atime: self.atime.split_off(from),
            mtime: self.mtime.split_off(from),
            ctime: self.ctime.split_off(from),
            btime: self.btime.split_off(from),
        }
    }

    fn append(&mut self, other: &mut Self) {
        self.device.append(&mut other.device);
        self.mode.append(&mut other.mode);
        self.nlink.append(&mut other.nlink);
        self.uid.append(&mut other.uid);
        self.gid.append(&mut other.gid);
        self.size.append(&mut other.size);
        self.blocks.append(&mut other.blocks);
        self.atime.append(&mut other.atime);
        self.mtime.append(&mut other.mtime);
        self.ctime.append(&mut other.ctime);
        self.btime.append(&mut other.btime);
    }

    fn write<W: Write + Send>(&self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        write_numbers::<Int64Type, W>(&self.device, None, group)?;
        for column in [&self.mode, &self.nlink, &self.uid, &self.gid] {
            write_numbers::<Int32Type, W>(column, None, group)?;
        }
        for column in [&self.size, &self.blocks] {
            write_numbers::<Int64Type, W>(column, None, group)?;
        }
        for column in [&self.atime, &self.mtime, &self.ctime, &self.btime] {
            write_numbers::<Int64Type, W>(&column.values, Some(&column.levels), group)?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        for column in [&mut self.device, &mut self.size, &mut self.blocks] {
            column.clear();
        }
        for column in [&mut self.mode, &mut self.nlink, &mut self.uid, &mut self.gid] {
            column.clear();
        }
        for column in [&mut self.atime, &mut self.mtime, &mut self.ctime, &mut self.btime] {
            column.values.clear();
            column.levels.clear();
        }
    }
}

impl TimeColumn {
    fn push(&mut self, time: Option<Timestamp>) {
        match time.and_then(nanoseconds) {
            Some(value) => {
                self.values.push(value);
                self.levels.push(1);
            }
            None => self.levels.push(0),
        }
    }

    fn split_off(&mut self, from: usize) -> Self {
        let levels = self.levels.split_off(from);
        let values = self.values.split_off(self.values.len() - values_of(&levels));
        Self { values, levels }
    }

    fn append(&mut self, other: &mut Self) {
        self.values.append(&mut other.values);
        self.levels.append(&mut other.levels);
    }
}

/// How many of these rows have a value.
fn values_of(levels: &[i16]) -> usize {
    levels.iter().filter(|&&level| level == 1).count()
}

/// Nanoseconds since the epoch, if 64 bits hold them.
fn nanoseconds(time: Timestamp) -> Option<i64> {
    time.as_nanoseconds_i64().or_else(|| i64::try_from(time.as_nanoseconds()).ok())
}

/// Pushes a value as text, and its bytes if the text is not exact.
pub(crate) fn push_lossy(value: Option<&[u8]>, text: &mut ByteColumn, raw: &mut ByteColumn) {
    let Some(value) = value else {
        text.push_null();
        raw.push_null();
        return;
    };
    let lossy = lossy_into(value, &mut text.data);
    text.end();
    if lossy {
        raw.push(value);
    } else {
        raw.push_null();
    }
}

impl ByteColumn {
    /// Bytes of its values.
    pub(crate) fn bytes(&self) -> usize {
        self.data.len()
    }

    /// Adds a value to a column without nulls.
    pub(crate) fn push_required(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.ends.push(self.data.len());
    }

    pub(crate) fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.end();
    }

    /// Ends a value whose bytes are already in the buffer.
    fn end(&mut self) {
        self.ends.push(self.data.len());
        self.levels.push(1);
    }

    pub(crate) fn push_null(&mut self) {
        self.levels.push(0);
    }

    pub(crate) fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let data = Bytes::from(std::mem::take(&mut self.data));
        let mut start = 0;
        let values = self.ends.iter().map(|&end| {
            let value = ByteArray::from(data.slice(start..end));
            start = end;
            value
        });
        let written = write_bytes(values, &self.levels, group);
        // No other slice of it exists any more, so this takes the buffer back without a copy.
        self.data = Vec::from(data);
        written
    }

    /// Takes the values of the rows from this one on.
    fn split_off(&mut self, from: usize) -> Self {
        let levels = self.levels.split_off(from.min(self.levels.len()));
        let has_nulls = !(self.levels.is_empty() && levels.is_empty());
        let from = if has_nulls { self.ends.len() - values_of(&levels) } else { from.min(self.ends.len()) };
        let mut ends = self.ends.split_off(from);
        let start = self.ends.last().copied().unwrap_or(0);
        ends.iter_mut().for_each(|end| *end -= start);
        Self { data: self.data.split_off(start), ends, levels }
    }

    fn append(&mut self, other: &mut Self) {
        let start = self.data.len();
        self.data.append(&mut other.data);
        self.ends.extend(other.ends.drain(..).map(|end| start + end));
        self.levels.append(&mut other.levels);
    }

    pub(crate) fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
        self.levels.clear();
    }
}

/// Writes a column of byte strings batch by batch, so that at most one batch of slices exists.
fn write_bytes<W: Write + Send>(
    mut values: impl Iterator<Item = ByteArray>,
    levels: &[i16],
    group: &mut SerializedRowGroupWriter<'_, W>,
) -> Result<()> {
    let mut column = group.next_column()?.ok_or_else(column_missing)?;
    let mut batch = Vec::with_capacity(BATCH_ROWS);
    if levels.is_empty() {
        loop {
            batch.clear();
            batch.extend(values.by_ref().take(BATCH_ROWS));
            if batch.is_empty() {
                break;
            }
            column.typed::<ByteArrayType>().write_batch(&batch, None, None)?;
        }
    }
    for levels in levels.chunks(BATCH_ROWS) {
        batch.clear();
        batch.extend(values.by_ref().take(values_of(levels)));
        column.typed::<ByteArrayType>().write_batch(&batch, Some(levels), None)?;
    }
    column.close()?;
    Ok(())
}

fn write_kinds<W: Write + Send>(kinds: &[Kind], group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
    let names = Kind::ALL.map(|kind| ByteArray::from(Bytes::from_static(kind.name().as_bytes())));
    let values = kinds.iter().map(|&kind| names[kind as usize].clone());
    write_bytes(values, &[], group)
}

pub(crate) fn write_numbers<T: DataType, W: Write + Send>(
    values: &[T::T],
    levels: Option<&[i16]>,
    group: &mut SerializedRowGroupWriter<'_, W>,
) -> Result<()> {
    let mut column = group.next_column()?.ok_or_else(column_missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()?;
    Ok(())
}

fn column_missing() -> ParquetError {
    ParquetError::General("the schema has fewer columns than a row".to_owned())
}

/// Bytes of a row in the vectors, without its byte strings.
const fn row_bytes(columns: Columns) -> usize {
    const LEVEL: usize = size_of::<i16>();
    // path's end, path_raw's level, kind, depth, inode
    let mut bytes = 8 + LEVEL + 1 + 4 + 8;
    if columns.metadata() {
        bytes += 3 * 8 + 4 * 4 + 4 * (8 + LEVEL);
    }
    if columns.targets() {
        bytes += 8 + 2 * LEVEL;
    }
    if columns.digests() {
        bytes += 8 + LEVEL;
    }
    bytes
}
