//! Catalogs that are finished, dropped and refused, each in a scratch directory.
#![expect(clippy::disallowed_methods, reason = "scratch directories of these tests alone")]

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::Columns;

/// A scratch directory of one test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("atta-catalog-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn manifest() -> Manifest {
    Manifest::new("atta", "0", Columns::Lite { targets: false })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_catalog_comes_into_being_at_once() {
    let scratch = Scratch::new();
    let place = scratch.0.join("out");
    let mut catalog = Catalog::begin(&scratch.0.join("out/")).unwrap();
    assert_eq!(scratch.names(), [format!(".out.{}.partial", std::process::id())]);
    catalog.shard_file(0).unwrap().write_all(b"rows").unwrap();
    catalog.errors_file().unwrap();
    assert!(catalog.shard_file(0).is_err(), "each number once");
    catalog.commit(&manifest()).unwrap();

    assert_eq!(scratch.names(), ["out"]);
    assert_eq!(fs::read(place.join("part-00000.parquet")).unwrap(), b"rows");
    let text = fs::read(place.join(MANIFEST_FILE)).unwrap();
    assert_eq!(serde_json::from_slice::<Manifest>(&text).unwrap(), manifest());
    assert_eq!(mode(&place), 0o700);
    for file in [MANIFEST_FILE, ERRORS_FILE, "part-00000.parquet"] {
        assert_eq!(mode(&place.join(file)), 0o600);
    }
}

#[test]
fn an_empty_directory_gives_way() {
    let scratch = Scratch::new();
    let place = scratch.0.join("out");
    fs::create_dir(&place).unwrap();
    Catalog::begin(&place).unwrap().commit(&manifest()).unwrap();
    assert!(place.join(MANIFEST_FILE).exists());
    assert_eq!(scratch.names(), ["out"]);
}

#[test]
fn what_is_not_committed_leaves_nothing() {
    let scratch = Scratch::new();
    let mut catalog = Catalog::begin(&scratch.0.join("out")).unwrap();
    let _shard = catalog.shard_file(7).unwrap();
    let _errors = catalog.errors_file().unwrap();
    drop(catalog);
    assert!(scratch.names().is_empty());
}

#[test]
fn files_of_others_are_not_removed() {
    let scratch = Scratch::new();
    let mut catalog = Catalog::begin(&scratch.0.join("out")).unwrap();
    let _shard = catalog.shard_file(0).unwrap();
    let partial = catalog.partial.clone();
    fs::write(partial.join("mine"), "").unwrap();
    drop(catalog);
    let left: Vec<_> = fs::read_dir(&partial).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
}

#[test]
fn places_that_cannot_be_used() {
    let scratch = Scratch::new();
    let place = scratch.0.join("out");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("x"), "").unwrap();
    assert!(matches!(Catalog::begin(&place), Err(Error::CatalogNotEmpty { .. })));
    assert!(matches!(Catalog::begin(&place.join("x")), Err(Error::CatalogNotDirectory { .. })));
    std::os::unix::fs::symlink(".", scratch.0.join("link")).unwrap();
    for link in ["link", "link/"] {
        assert!(matches!(Catalog::begin(&scratch.0.join(link)), Err(Error::CatalogNotDirectory { .. })));
    }
    for no_name in ["/", "..", "."] {
        assert!(matches!(Catalog::begin(Path::new(no_name)), Err(Error::CatalogNoName { .. })));
    }
    let missing = Catalog::begin(&scratch.0.join("no/out")).unwrap_err();
    assert_eq!(missing.errno(), Some(atta_entry::Errno::NOENT));
    assert_eq!(scratch.names(), ["link", "out"]);
}

#[test]
fn a_place_that_fills_meanwhile_is_kept() {
    let scratch = Scratch::new();
    let place = scratch.0.join("out");
    let catalog = Catalog::begin(&place).unwrap();
    fs::create_dir(&place).unwrap();
    fs::write(place.join("x"), "kept").unwrap();
    assert!(matches!(catalog.commit(&manifest()), Err(Error::CatalogNotEmpty { .. })));
    assert_eq!(scratch.names(), ["out"]);
    assert_eq!(fs::read(place.join("x")).unwrap(), b"kept");
}

#[test]
fn a_stale_directory_is_stepped_over() {
    let scratch = Scratch::new();
    let stale = scratch.0.join(format!(".out.{}.partial", std::process::id()));
    fs::create_dir(&stale).unwrap();
    let catalog = Catalog::begin(&scratch.0.join("out")).unwrap();
    assert!(catalog.partial.ends_with(format!(".out.{}.1.partial", std::process::id())));
    catalog.commit(&manifest()).unwrap();
    assert!(stale.exists());
}

#[test]
fn long_names_fit() {
    let scratch = Scratch::new();
    let names = ["n".repeat(NAME_BYTES_MAX), "\u{65e5}".repeat(NAME_BYTES_MAX / 3)];
    for name in &names {
        let catalog = Catalog::begin(&scratch.0.join(name)).unwrap();
        assert!(catalog.partial.to_str().is_some(), "cut between two characters");
        catalog.commit(&manifest()).unwrap();
    }
    assert_eq!(scratch.names(), names);
}
