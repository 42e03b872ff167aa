//! One Parquet file of a catalog: entries go in one by one, row groups come out.
//!
//! ```text
//!   push(&Entry) ──> RowGroup (columns in memory, at most row_group_bytes) ──full──> file
//!   finish()     ──────────────────────────────────────────────────────────────────> footer
//! ```
//!
//! It connects a worker of a walk to its own `part-NNNNN.parquet`: one shard per worker, no lock. It does not name, sync or rename files;
//! [`Catalog`](crate::Catalog) does.
//!
//! # Encodings and their cost
//!
//! Numbers as DELTA_BINARY_PACKED, paths and targets as DELTA_BYTE_ARRAY, `kind` as a dictionary, everything through
//! zstd at level 1; minima and maxima of the number columns once a row group. Measured on two cores of a shared
//! machine, one thread, 550,000 entries of 11 a directory, full columns without targets, row groups of 4 MiB, best of
//! 7 interleaved rounds; some 10 % between runs. `shard/speed.rs` repeats it.
//!
//! | variant | ns a row | bytes a row |
//! | --- | --- | --- |
//! | as it is | 283 | 12.1 |
//! | `kind` as DELTA_BYTE_ARRAY | 288 | 12.1 |
//! | mode, nlink, uid, gid, device and depth as dictionaries, too | 348 | 12.1 |
//! | everything as dictionaries | 811 | 31.8 |
//! | everything plain | 504 | 19.5 |
//! | paths as DELTA_LENGTH_BYTE_ARRAY | 321 | 13.6 |
//! | no statistics | 272 | 12.1 |
//! | no compression | 242 | 22.2 |
//! | zstd 3 | 296 | 12.1 |
//! | lite columns | 158 | 0.8 |
//!
//! Row groups of 1, 2, 4, 8 and 16 MiB took 312, 280, 264, 271 and 266 ns a row: below 4 MiB the fixed cost of a column chunk shows, and
//! larger groups gain nothing.

pub(crate) mod row_group;
pub(crate) mod schema;

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use atta_entry::Entry;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::{Columns, Error, Result};
pub use row_group::RowGroup;

/// Default size of a row group in memory: 4 MiB.
pub const ROW_GROUP_BYTES: usize = 4 << 20;

/// A Parquet file that is being written.
///
/// It holds in memory one row group of at most `row_group_bytes` and a row, the encoded form of one column of it, and about 9 KB for each
/// row group written: the footer, which Parquet puts at the end. A walk of more than some 10^8 entries per worker should start a new shard
/// from time to time.
///
/// A shard that is dropped without [`finish`](Self::finish) leaves a file without a footer, which no reader accepts as complete.
pub struct Shard<W: Write + Send = File> {
    columns: Columns,
    writer: SerializedFileWriter<W>,
    group: RowGroup,
    row_group_bytes: usize,
    rows: u64,
    broken: bool,
}

/// Contents of a finished shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSummary {
    /// Entries in it.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
}

impl<W: Write + Send> Shard<W> {
    /// Begins a shard in `output`, which is empty, with row groups of [`ROW_GROUP_BYTES`].
    ///
    /// `output` needs no buffer of its own.
    ///
    /// # Errors
    ///
    /// [`Error::ShardWrite`] if `output` cannot be written.
    pub fn create(output: W, columns: Columns) -> Result<Self> {
        Self::with_row_group_bytes(output, columns, ROW_GROUP_BYTES)
    }

    /// As [`create`](Self::create), with row groups of about `row_group_bytes` before they are encoded. A row group has at least one row,
    /// so 0 means one row group per row.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn with_row_group_bytes(output: W, columns: Columns, row_group_bytes: usize) -> Result<Self> {
        Self::with_properties(output, columns, row_group_bytes, schema::properties(columns)?)
    }

    fn with_properties(
        output: W,
        columns: Columns,
        row_group_bytes: usize,
        properties: WriterProperties,
    ) -> Result<Self> {
        let writer = SerializedFileWriter::new(output, schema::schema(columns)?, Arc::new(properties))?;
        Ok(Self { columns, writer, group: RowGroup::new(columns), row_group_bytes, rows: 0, broken: false })
    }

    /// Adds an entry. Most calls copy it into the columns; the one that fills a row group encodes and writes it.
    ///
    /// # Errors
    ///
    /// [`Error::ShardNoMetadata`] if the columns include metadata and the entry has none; the shard stays usable. [`Error::ShardWrite`] if
    /// the output cannot be written; after that every call returns [`Error::ShardBroken`].
    #[inline]
    pub fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.push_digested(entry, None)
    }

    /// The same with the digest of its content, which [`Columns::Digests`] record.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    #[inline]
    pub fn push_digested(&mut self, entry: &Entry<'_>, digest: Option<&[u8; 32]>) -> Result<()> {
        self.group.push(entry, digest)?;
        if self.group.bytes() >= self.row_group_bytes {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes rows that were gathered elsewhere as a row group, and clears them, also on failure. Without rows it writes nothing.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn write_rows(&mut self, rows: &mut RowGroup) -> Result<()> {
        if self.broken {
            // Rows must not accumulate in memory when the disk is full.
            rows.clear();
            return Err(Error::ShardBroken);
        }
        let count = rows.rows() as u64;
        if count > 0 {
            rows.write(&mut self.writer).inspect_err(|_| self.broken = true)?;
        }
        self.rows += count;
        Ok(())
    }

    /// Entries that were pushed so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows + self.group.rows() as u64
    }

    /// Bytes of the file so far, without the rows in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Writes the remaining rows and the footer. The file is then complete, but not yet synced.
    ///
    /// # Errors
    ///
    /// [`Error::ShardWrite`] if the output cannot be written, [`Error::ShardBroken`] if an earlier call failed.
    pub fn finish(mut self) -> Result<ShardSummary> {
        self.flush()?;
        self.writer.finish()?;
        Ok(ShardSummary { rows: self.rows, bytes: self.writer.bytes_written() as u64 })
    }

    #[cold]
    fn flush(&mut self) -> Result<()> {
        let mut rows = std::mem::replace(&mut self.group, RowGroup::new(self.columns));
        let written = self.write_rows(&mut rows);
        // With its buffers.
        self.group = rows;
        written
    }
}

#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
