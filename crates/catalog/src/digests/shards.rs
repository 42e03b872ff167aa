//! Digests of a catalog: its manifest, and the shards that it names, row by row.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atta_entry::Kind;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

use super::{Digested, digest_of};
use crate::columns::SCHEMA_VERSION;
use crate::{Error, MANIFEST_FILE, Manifest, Result, ShardRecord};

/// The columns that count.
const WANTED: [&str; 7] = ["path", "path_raw", "kind", "size", "target", "target_raw", "digest"];

/// Reads the digests of a catalog. In memory it holds one row group of one shard. The first error ends it.
pub struct CatalogDigests {
    place: PathBuf,
    roots: Vec<Vec<u8>>,
    shards: std::vec::IntoIter<ShardRecord>,
    rows: Option<(RowIter<'static>, ShardRecord, u64)>,
    ended: bool,
}

impl CatalogDigests {
    /// Opens a catalog.
    ///
    /// # Errors
    ///
    /// [`Error::CatalogRead`] where there is none, it is of a version that is not known, or has no digests.
    pub fn open(place: &Path) -> Result<Self> {
        let path = place.join(MANIFEST_FILE);
        let text =
            std::fs::read(&path).map_err(|source| Error::CatalogOpen { path: path.clone(), source })?;
        let wrong = |reason: &str| Error::CatalogRead { path: path.clone(), reason: reason.to_owned() };
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| wrong(&error.to_string()))?;
        if manifest.schema_version != SCHEMA_VERSION {
            return Err(wrong(&format!("version {} is not known", manifest.schema_version)));
        }
        if !WANTED.iter().all(|name| manifest.columns.iter().any(|column| column == name)) {
            return Err(wrong("it has no digests; those that atta sum --output writes have"));
        }
        let roots: Option<Vec<_>> = manifest.roots.iter().map(crate::RootName::to_bytes).collect();
        let roots = roots.ok_or_else(|| wrong("a root that is no path"))?;
        if !manifest.shards.iter().all(|shard| is_shard_name(&shard.file)) {
            return Err(wrong("a shard that has not the name of one"));
        }
        let shards = manifest.shards.into_iter();
        Ok(Self { place: place.to_owned(), roots, shards, rows: None, ended: false })
    }

    /// Where the walk that it records began.
    #[must_use]
    pub fn roots(&self) -> &[Vec<u8>] {
        &self.roots
    }

    fn read(&mut self) -> Result<Option<Digested>> {
        loop {
            if let Some((rows, shard, seen)) = &mut self.rows {
                let path = self.place.join(&shard.file);
                let wrong = |reason: String| Error::CatalogRead { path: path.clone(), reason };
                if let Some(row) = rows.next() {
                    *seen += 1;
                    let row = row.map_err(|error| wrong(error.to_string()))?;
                    return item(row).map(Some).ok_or_else(|| wrong(format!("row {seen} is none")));
                }
                if *seen != shard.rows {
                    return Err(wrong(format!("{seen} rows, and the manifest says {}", shard.rows)));
                }
                self.rows = None;
            }
            let Some(shard) = self.shards.next() else { return Ok(None) };
            self.rows = Some((open(&self.place.join(&shard.file))?, shard, 0));
        }
    }
}

impl Iterator for CatalogDigests {
    type Item = Result<Digested>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.read().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Whether it is a name that [`shard_name`](crate::shard_name) gives, and leads nowhere else.
fn is_shard_name(name: &str) -> bool {
    let number = name.strip_prefix("part-").and_then(|name| name.strip_suffix(".parquet"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn open(path: &Path) -> Result<RowIter<'static>> {
    let file = File::open(path).map_err(|source| Error::CatalogOpen { path: path.to_owned(), source })?;
    let wrong = |error: parquet::errors::ParquetError| Error::CatalogRead {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let schema = reader.metadata().file_metadata().schema();
    let wanted = schema.get_fields().iter().filter(|field| WANTED.contains(&field.name()));
    let wanted = Type::group_type_builder(schema.name()).with_fields(wanted.map(Arc::clone).collect());
    let wanted = wanted.build().map_err(wrong)?;
    RowIter::from_file_into(Box::new(reader)).project(Some(wanted)).map_err(wrong)
}

/// None: it is no row of a catalog with digests.
fn item(row: Row) -> Option<Digested> {
    let mut texts: [Option<String>; 4] = Default::default();
    let mut bytes: [Option<Vec<u8>>; 2] = Default::default();
    let mut size = None;
    for (name, field) in row.into_columns() {
        match (name.as_str(), field) {
            ("path", Field::Str(text)) => texts[0] = Some(text),
            ("kind", Field::Str(text)) => texts[1] = Some(text),
            ("target", Field::Str(text)) => texts[2] = Some(text),
            ("digest", Field::Str(text)) => texts[3] = Some(text),
            ("path_raw", Field::Bytes(raw)) => bytes[0] = Some(raw.data().to_vec()),
            ("target_raw", Field::Bytes(raw)) => bytes[1] = Some(raw.data().to_vec()),
            ("size", Field::ULong(number)) => size = Some(number),
            (_, Field::Null) => {}
            _ => return None,
        }
    }
    let ([path, kind, target, digest], [path_raw, target_raw]) = (texts, bytes);
    let path =
        path_raw.or(path.map(String::into_bytes)).filter(|path| !path.is_empty() && !path.contains(&0))?;
    let kind = Kind::from_name(&kind?)?;
    let digest = match digest {
        Some(digits) => Some(digest_of(&digits)?),
        None if kind == Kind::File => return None,
        None => None,
    };
    Some(Digested { path, kind, size, digest, target: target_raw.or(target.map(String::into_bytes)) })
}
