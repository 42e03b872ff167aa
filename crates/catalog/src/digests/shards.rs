//! Digests of a catalog, read row by row from the shards that its manifest names.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use atta_entry::Kind;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

use super::{Digested, digest_of};
use crate::columns::SCHEMA_VERSION;
use crate::{Error, MANIFEST_FILE, Manifest, Result, ShardRecord};

/// The columns that are used.
const WANTED: [&str; 7] = ["path", "path_raw", "kind", "size", "target", "target_raw", "digest"];

/// Reads the digests of a catalog. It holds one row group of one shard in memory, and ends at the first error.
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
    /// [`Error::CatalogRead`] if there is none, if its version is unknown, or if it has no digests.
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

    /// The roots of the recorded walk.
    #[must_use]
    pub fn roots(&self) -> &[Vec<u8>] {
        &self.roots
    }

    fn read(&mut self) -> Result<Option<Digested>> {
        loop {
            if let Some((rows, shard, seen)) = &mut self.rows {
                let path = self.place.join(&shard.file);
                let wrong = |reason: String| Error::CatalogRead { path: path.clone(), reason };
                if let Some(row) = guarded(&path, || rows.next())? {
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
            let path = self.place.join(&shard.file);
            self.rows = Some((guarded(&path, || open(&path))??, shard, 0));
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

thread_local! {
    /// Whether a panic of this thread is an error of a file, reported as such.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}
/// Installs, before the existing hook, one that prints nothing for such a panic.
static HOOK: Once = Once::new();

/// Turns panics of the Parquet crate's readers into errors. The readers panic on some damaged files, besides the errors that they return.
/// No message or backtrace is printed, and the reader is not used afterwards.
fn guarded<T>(path: &Path, read: impl FnOnce() -> T) -> Result<T> {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                before(panic);
            }
        }));
    });
    IS_GUARDED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(read));
    IS_GUARDED.set(false);
    outcome.map_err(|_| Error::CatalogRead { path: path.to_owned(), reason: "it is damaged".to_owned() })
}

/// Whether it is a name that [`shard_name`](crate::shard_name) returns, and leads nowhere else.
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

/// Converts a row; `None` if it is not a row of a catalog with digests.
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use atta_entry::{Entry, Metadata};

    use super::*;
    use crate::{Catalog, Columns, RootName, Shard};

    /// A place for a catalog, removed at the end.
    struct Place(PathBuf);

    impl Drop for Place {
        fn drop(&mut self) {
            for name in [MANIFEST_FILE, "part-00000.parquet"] {
                let _ = std::fs::remove_file(self.0.join(name));
            }
            let _ = std::fs::remove_dir(&self.0);
        }
    }

    fn entry<'a>(name: &'a [u8], kind: Kind, metadata: &'a Metadata) -> Entry<'a> {
        Entry {
            directory: b"r",
            name,
            root_bytes: 1,
            depth: 1,
            kind,
            inode: 1,
            metadata: Some(metadata),
            target: (kind == Kind::Symlink).then_some(b"to\xff".as_slice()),
        }
    }

    fn catalog(name: &str) -> (Place, Vec<u8>) {
        let place = std::env::temp_dir().join(format!("atta-digests-{name}-{}", std::process::id()));
        let mut catalog = Catalog::begin(&place).unwrap();
        let mut shard = Shard::create(catalog.shard_file(0).unwrap(), Columns::Digests).unwrap();
        let metadata = Metadata { size: 7, ..Metadata::default() };
        shard.push_digested(&entry(b"a\xff", Kind::File, &metadata), Some(&[1; 32])).unwrap();
        shard.push(&entry(b"l", Kind::Symlink, &metadata)).unwrap();
        let mut manifest = Manifest::new("atta", "0", Columns::Digests);
        manifest.roots = vec![RootName::from(&b"r"[..])];
        manifest.shards = vec![ShardRecord::new(0, shard.finish().unwrap())];
        catalog.commit(&manifest).unwrap();
        let bytes = std::fs::read(place.join("part-00000.parquet")).unwrap();
        (Place(place), bytes)
    }

    #[test]
    fn what_was_written_is_read() {
        let (place, _) = catalog("read");
        let read = CatalogDigests::open(&place.0).unwrap();
        assert_eq!(read.roots(), [b"r"]);
        let items: Vec<_> = read.map(Result::unwrap).collect();
        let file = Digested {
            path: b"r/a\xff".to_vec(),
            kind: Kind::File,
            size: Some(7),
            digest: Some([1; 32]),
            target: None,
        };
        assert_eq!(items[0], file);
        assert_eq!((items.len(), items[1].target.as_deref()), (2, Some(&b"to\xff"[..])));
    }

    #[test]
    fn damaged_shard_is_an_error_or_other_rows() {
        let (place, bytes) = catalog("damaged");
        let path = place.0.join("part-00000.parquet");
        let write = |bytes: &[u8]| File::create(&path).unwrap().write_all(bytes).unwrap();
        for cut in [0, 1, 4, bytes.len() / 2, bytes.len() - 1] {
            write(&bytes[..cut]);
            assert!(CatalogDigests::open(&place.0).unwrap().any(|item| item.is_err()), "{cut}");
        }
        let mut refused = 0;
        for at in 0..bytes.len() {
            for flip in [0xff, 0x01, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                write(&damaged);
                refused += usize::from(CatalogDigests::open(&place.0).unwrap().any(|item| item.is_err()));
            }
        }
        assert!(refused > bytes.len(), "{refused} of {}", 3 * bytes.len());
    }

    #[test]
    fn damaged_manifest_is_an_error_or_another_record() {
        let (place, _) = catalog("manifest");
        let path = place.0.join(MANIFEST_FILE);
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            for flip in [0xff, 0x01, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                std::fs::write(&path, &damaged).unwrap();
                let _any_answer = CatalogDigests::open(&place.0).map(Iterator::count);
            }
        }
    }

    #[test]
    fn a_manifest_that_leads_elsewhere_is_refused() {
        let (place, _) = catalog("elsewhere");
        let path = place.0.join(MANIFEST_FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("part-00000.parquet", "../part-00000.parquet"),
            ("part-00000.parquet", "part-.parquet"),
            ("\"schema_version\": 1", "\"schema_version\": 2"),
            ("\"digest\"", "\"other\""),
        ] {
            assert!(text.contains(from), "{from}");
            std::fs::write(&path, text.replace(from, to)).unwrap();
            assert!(CatalogDigests::open(&place.0).is_err(), "{to}");
        }
        std::fs::write(&path, text.replace("\"rows\": 2", "\"rows\": 3")).unwrap();
        assert!(CatalogDigests::open(&place.0).unwrap().any(|item| item.is_err()));
    }
}
