//! `--output DIR`: the catalog is read by DuckDB, polars and pandas and says what `lstat` says; it is there as a whole or not
//! at all.

use std::path::Path;

use atta_testkit::trees;

use crate::support::{
    at, make_directory, make_file, make_link, names_in, number, parse, parse_lines, python, run, scratch,
    unprivileged, walk,
};

const READERS: &[&str] = &["duckdb", "polars", "pandas", "pyarrow", "pytz"];

fn compare(test: &str, options: &[&str], make: impl FnOnce(&Path)) {
    let scratch = scratch("catalog");
    let root = make_directory(scratch.join("tree"));
    make(&root);
    let place = scratch.join("scan.catalog");
    let mut command = walk(["--json", "--output"]);
    let ran = run(command.arg(&place).args(options).arg(&root)).expect_code(0);
    let manifest = parse(&std::fs::read(place.join("_manifest.json")).unwrap());
    assert_eq!(at(&manifest, "totals"), at(&ran.json(), "totals"));
    let shards = at(&manifest, "shards").as_array().unwrap();
    let rows: u64 = shards.iter().map(|shard| number(shard, "rows")).sum();
    assert_eq!(rows, number(&manifest, "totals.entries"));
    for shard in shards {
        let file = place.join(at(shard, "file").as_str().unwrap());
        assert_eq!(std::fs::metadata(file).unwrap().len(), number(shard, "bytes"));
    }
    let Some(mut reader) = python(test, "catalog.py", READERS) else { return };
    let compared = run(reader.arg(&place).arg(&root).args(options)).expect_code(0);
    assert!(compared.out().contains("equal: "), "{}", compared.out());
}

fn hostile(root: &Path) {
    trees::hostile_names(&root.join("names")).unwrap();
    trees::kinds(&root.join("kinds"), &root.join("outside")).unwrap();
    trees::times(&root.join("times")).unwrap();
    trees::random(&root.join("random"), 7, 300).unwrap();
}

#[test]
fn three_readers_find_what_lstat_says() {
    compare("three_readers_find_what_lstat_says", &["--targets", "--threads", "3"], hostile);
}

#[test]
fn a_lite_catalog_has_names_and_kinds() {
    compare("a_lite_catalog_has_names_and_kinds", &["--lite"], hostile);
}

#[test]
fn a_tree_without_files_is_a_table_all_the_same() {
    compare("a_tree_without_files_is_a_table_all_the_same", &[], |_| {});
}

#[test]
fn little_memory_gives_more_row_groups_same_rows() {
    compare("little_memory_makes_more_row_groups", &["--memory", "1M"], |root| {
        trees::flat(&root.join("flat"), 20_000).unwrap();
    });
}

#[test]
fn nothing_walked_is_a_table_without_rows() {
    let scratch = scratch("no-rows");
    let place = scratch.join("scan.catalog");
    let ran = run(walk(["--output"]).arg(&place).arg(scratch.join("missing"))).expect_code(3);
    assert_eq!(ran.errors("cannot stat: "), 1);
    let manifest = parse(&std::fs::read(place.join("_manifest.json")).unwrap());
    assert_eq!((number(&manifest, "totals.entries"), number(&manifest, "errors.count")), (0, 1));
    assert_eq!(number(&manifest, "errors.by_errno.ENOENT"), 1);
    let rows = parse_lines(&std::fs::read(place.join("_errors.ndjson")).unwrap());
    assert_eq!((rows.len(), at(&rows[0], "error").as_str()), (1, Some("ENOENT")));
    let Some(mut reader) = python("nothing_walked_is_a_table_without_rows", "catalog.py", READERS) else {
        return;
    };
    let compared = run(reader.arg(&place)).expect_code(0);
    assert!(compared.out().contains("equal: 0"), "{}", compared.out());
}

#[test]
fn empty_directory_is_accepted_full_one_refused() {
    let scratch = scratch("place");
    let place = make_directory(scratch.join("scan.catalog"));
    let tree = make_directory(scratch.join("tree"));
    run(walk(["--output"]).arg(&place).arg(&tree)).expect_code(0);
    assert_eq!(names_in(&place), ["_errors.ndjson", "_manifest.json", "part-00000.parquet"]);
    let before = std::fs::read(place.join("_manifest.json")).unwrap();
    let ran = run(walk(["--output"]).arg(&place).arg(&tree)).expect_code(4);
    assert!(ran.err().starts_with("atta: catalog directory is not empty: "), "{}", ran.err());
    assert!(ran.err().contains("\nhint: "), "{}", ran.err());
    assert_eq!(ran.out(), "");
    assert_eq!(std::fs::read(place.join("_manifest.json")).unwrap(), before);
    assert_eq!(names_in(scratch.path()), ["scan.catalog", "tree"]);
}

#[test]
fn a_place_that_is_no_directory_is_refused() {
    let scratch = scratch("no-place");
    let tree = make_directory(scratch.join("tree"));
    make_file(scratch.join("file"), b"kept");
    make_link("tree", scratch.join("link"));
    for (place, said) in [
        ("file", "not a directory: "),
        ("link", "not a directory: "),
        ("..", "path for a catalog does not end in a name: "),
        ("missing/scan", "cannot create directory: "),
        ("file/scan", "cannot look at: "),
    ] {
        let mut command = walk(["--output"]);
        let ran = run(command.arg(scratch.join(place)).arg(&tree)).expect_code(4);
        assert!(ran.err().starts_with(&format!("atta: {said}")), "{place}: {}", ran.err());
    }
    assert_eq!(std::fs::read(scratch.join("file")).unwrap(), b"kept");
    assert_eq!(names_in(scratch.path()), ["file", "link", "tree"]);
    assert_eq!(names_in(&tree), Vec::<&str>::new());
}

#[test]
fn catalog_inside_the_walked_tree_is_no_loop() {
    let scratch = scratch("inside");
    make_file(scratch.join("file"), b"");
    let place = scratch.join("scan.catalog");
    run(walk(["--output"]).arg(&place).arg(scratch.path())).expect_code(0);
    assert!(place.join("_manifest.json").exists());
}

#[test]
fn a_catalog_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = scratch("private");
    let place = scratch.join("scan.catalog");
    run(walk(["--output"]).arg(&place).arg(scratch.path())).expect_code(0);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    for name in names_in(&place) {
        assert_eq!(mode(&place.join(name)), 0o600);
    }
}

#[test]
fn failures_are_in_the_catalog_and_in_the_file() {
    let test = "failures_are_in_the_catalog_and_in_the_file";
    let Some((scratch, atta)) = unprivileged(test) else { return };
    let tree = make_directory(scratch.join("tree"));
    trees::unreadable(&tree).unwrap();
    crate::support::give_to_nobody(scratch.path());
    let mut command = atta();
    command.args(["walk", "--output", "scan.catalog", "--errors", "errors.ndjson", "tree"]);
    let ran = run(command.current_dir(scratch.path())).expect_code(3);
    let place = scratch.join("scan.catalog");
    let kept = std::fs::read(scratch.join("errors.ndjson")).unwrap();
    assert_eq!(std::fs::read(place.join("_errors.ndjson")).unwrap(), kept);
    let manifest = parse(&std::fs::read(place.join("_manifest.json")).unwrap());
    assert_eq!(number(&manifest, "errors.count"), parse_lines(&kept).len() as u64);
    assert_eq!(ran.errors("cannot "), parse_lines(&kept).len());
}
