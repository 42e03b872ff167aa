//! Records of a tree: as rows on stdout, as Parquet shards of a catalog, and as lists that are read back.
//!
//! ```text
//!                    ┌─> RowWriter ──> stdout           path, text, NDJSON, CSV
//!   Entry (a walk) ──┤
//!                    └─> Shard ──> part-00000.parquet ┐
//!   Failure ──> failure_row ─────> _errors.ndjson      ├─ Catalog: one directory, there as a whole or not at all
//!               Manifest ────────> _manifest.json      ┘
//!
//!   Difference ─┬─> difference_row, difference_text ──> stdout
//!               └─> DifferenceTable ──> one Parquet file
//!
//!   _errors.ndjson, find -print0 ──> ListReader ──> Listed
//! ```
//!
//! It walks nothing and prints nothing: the caller supplies the entries and the destination of the bytes. Its only use of a file system is
//! to create, fill and rename the directory of a catalog, which the user named.
//!
//! Every form keeps every name: if text cannot represent one, a second field has its bytes (`path_raw`, `target_raw`).

mod calendar;
mod columns;
mod differences;
mod digests;
mod directory;
mod error;
#[cfg(test)]
mod fuzz;
mod list;
mod lossy;
mod manifest;
mod rows;
mod shard;

pub use calendar::timestamp_into;
pub use columns::{Columns, SCHEMA_VERSION};
pub use differences::DifferenceTable;
pub use digests::{CatalogDigests, DigestLines, Digested, digest_line};
pub use directory::{Catalog, CatalogPlace, ERRORS_FILE, MANIFEST_FILE, UnsyncedShard, shard_name};
pub use error::{Error, Result};
pub use list::{ListReader, Listed, ListedChange, PATH_BYTES_MAX, ROW_BYTES_MAX};
pub use manifest::{ErrorTotals, Manifest, RootName, ShardRecord};
pub use rows::{Format, RowWriter, difference_row, difference_text, digested_row, failure_row, header};
pub use shard::{ROW_GROUP_BYTES, RowGroup, Shard, ShardSummary};
