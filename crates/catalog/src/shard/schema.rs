//! The schema of a shard and the encoding of each column. No rows, no I/O.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

use crate::columns::{Columns, SCHEMA_VERSION};

/// Rows after which a page ends. More than a row group has: one page per column, as nothing here reads single pages.
const PAGE_ROWS: usize = 1 << 20;

/// The key of [`SCHEMA_VERSION`] in the file's metadata.
const VERSION_KEY: &str = "atta.schema_version";

pub(super) fn schema(columns: Columns) -> Result<TypePtr> {
    parse_message_type(&columns.parquet_schema()).map(Arc::new)
}

pub(super) fn properties(columns: Columns) -> Result<WriterProperties> {
    properties_of(columns.names().filter(|name| is_bytes(name)), &["kind"])
}

/// Encodings of columns: those of byte strings, the words among these (few distinct values), and all others.
pub(crate) fn properties_of<'n>(
    byte_strings: impl Iterator<Item = &'n str>,
    words: &[&str],
) -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BINARY_PACKED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_created_by(concat!("atta ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new(
            VERSION_KEY.to_owned(),
            SCHEMA_VERSION.to_string(),
        )]));
    for name in words {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(*name), true);
    }
    for name in byte_strings {
        properties = properties
            .set_column_encoding(ColumnPath::from(name), Encoding::DELTA_BYTE_ARRAY)
            .set_column_statistics_enabled(ColumnPath::from(name), EnabledStatistics::None);
    }
    Ok(properties.build())
}

fn is_bytes(name: &str) -> bool {
    matches!(name, "path" | "path_raw" | "kind" | "target" | "target_raw" | "digest")
}
