//! The content of `_manifest.json`: the origin and contents of a catalog, and proof that it is complete. No I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::columns::SCHEMA_VERSION;
use crate::directory::ERRORS_FILE;
use crate::lossy::{from_hex, hex_into, lossy_into};
use crate::{Columns, ShardSummary};

/// `_manifest.json`. It is written last: a catalog that has one is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the columns and of this file.
    pub schema_version: u32,
    /// The program that wrote it.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The roots of the walk, in the order in which they were given.
    pub roots: Vec<RootName>,
    /// The command line without the program, word by word.
    pub options: Vec<String>,
    /// Start of the walk, RFC 3339 in UTC, as [`timestamp_into`](crate::timestamp_into) writes it.
    pub started: String,
    /// End of the walk, in the same form.
    pub finished: String,
    /// Names of the columns in order.
    pub columns: Vec<String>,
    /// The shards, by number.
    pub shards: Vec<ShardRecord>,
    /// Counts of the walk, as the program reports them.
    pub totals: serde_json::Value,
    /// Entries that failed.
    pub errors: ErrorTotals,
}

impl Manifest {
    /// A manifest of this schema with these columns, and nothing else filled in.
    #[must_use]
    pub fn new(program: &str, version: &str, columns: Columns) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            program: program.to_owned(),
            version: version.to_owned(),
            roots: Vec::new(),
            options: Vec::new(),
            started: String::new(),
            finished: String::new(),
            columns: columns.names().map(str::to_owned).collect(),
            shards: Vec::new(),
            totals: serde_json::Value::Null,
            errors: ErrorTotals::default(),
        }
    }
}

/// A root as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootName {
    /// As text, with U+FFFD for invalid UTF-8.
    pub path: String,
    /// Its bytes in hexadecimal digits, if the text is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_raw: Option<String>,
}

impl RootName {
    /// Its bytes; `None` if the digits are not hexadecimal.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        self.path_raw.as_ref().map_or_else(|| Some(self.path.clone().into_bytes()), |digits| from_hex(digits))
    }
}

impl From<&[u8]> for RootName {
    fn from(bytes: &[u8]) -> Self {
        let mut path = Vec::new();
        let path_raw = lossy_into(bytes, &mut path).then(|| {
            let mut digits = Vec::new();
            hex_into(bytes, &mut digits);
            String::from_utf8_lossy(&digits).into_owned()
        });
        Self { path: String::from_utf8_lossy(&path).into_owned(), path_raw }
    }
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Name of the file in the directory of the catalog.
    pub file: String,
    /// Entries in it.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
}

atta_entry::record!(ShardRecord { file, rows, bytes });

impl ShardRecord {
    /// The record of the shard with this number.
    #[must_use]
    pub fn new(index: usize, summary: ShardSummary) -> Self {
        Self { file: crate::shard_name(index), rows: summary.rows, bytes: summary.bytes }
    }
}

/// Number of entries that failed, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorTotals {
    /// Number of all errors.
    pub count: u64,
    /// Number of each error, by its name as in `EACCES`.
    pub by_errno: BTreeMap<String, u64>,
    /// Name of the file with a row for each error, in the directory of the catalog.
    pub file: String,
}

impl Default for ErrorTotals {
    fn default() -> Self {
        Self { count: 0, by_errno: BTreeMap::new(), file: ERRORS_FILE.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_through_json_and_back() {
        let mut manifest = Manifest::new("atta", "0.1.0", Columns::Lite { targets: false });
        manifest.roots = vec![RootName::from(&b"a"[..]), RootName::from(&b"\xff"[..])];
        manifest.shards = vec![ShardRecord::new(0, ShardSummary { rows: 3, bytes: 9 })];
        let text = serde_json::to_string(&manifest).unwrap();
        assert!(text.starts_with("{\"schema_version\":1,\"program\":\"atta\",\"version\":\"0.1.0\""));
        assert!(text.contains("\"roots\":[{\"path\":\"a\"},{\"path\":\"\u{fffd}\",\"path_raw\":\"ff\"}]"));
        assert!(text.contains("\"shards\":[{\"file\":\"part-00000.parquet\",\"rows\":3,\"bytes\":9}]"));
        assert!(text.contains("\"errors\":{\"count\":0,\"by_errno\":{},\"file\":\"_errors.ndjson\"}"));
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
        let roots: Vec<_> = manifest.roots.iter().map(RootName::to_bytes).collect();
        assert_eq!(roots, [Some(b"a".to_vec()), Some(b"\xff".to_vec())]);
    }
}
