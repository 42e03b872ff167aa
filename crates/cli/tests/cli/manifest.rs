//! `atta copy --manifest`: rows of what TARGET has, which `atta sum --check` compares with it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use serde_json::{Value, json};

use crate::support::{atta, make_directory, make_file, make_link, parse, parse_lines, run, scratch};

fn command(scratch: &Scratch, words: &[&str]) -> Command {
    let mut command = atta();
    command.args(words).current_dir(scratch.path());
    command
}

/// A tree with a name that is not UTF-8, a link, hard links, and a file of several chunks.
fn source(name: &str) -> (Scratch, PathBuf) {
    let scratch = scratch(name);
    let tree = make_directory(scratch.join("tree"));
    trees::random(&tree.join("random"), 5, 200).unwrap();
    make_file(tree.join(std::ffi::OsStr::from_bytes(b"odd\n\xff")), b"odd");
    make_file(tree.join("large"), &vec![b'x'; 3 << 20]);
    make_file(tree.join("one"), b"1");
    fs::hard_link(tree.join("one"), tree.join("random/two")).unwrap();
    make_link("one", tree.join("link"));
    (scratch, tree)
}

/// The rows of `atta sum` of this path, with the fields that a manifest has.
fn summed(scratch: &Scratch, path: &str) -> Vec<Value> {
    let ran = run(&mut command(scratch, &["sum", "--sort", "--format", "ndjson", path])).expect_code(0);
    let rows = parse_lines(ran.out().as_bytes());
    rows.into_iter()
        .map(|row| {
            let is_file = row["kind"] == "file";
            let is_wanted = |field: &str| {
                ["path", "path_raw", "kind", "digest", "target", "target_raw"].contains(&field)
                    || field == "size" && is_file
            };
            let fields = row.as_object().unwrap().clone();
            fields.into_iter().filter(|(field, _)| is_wanted(field)).collect()
        })
        .collect()
}

fn rows(path: &Path) -> Vec<Value> {
    parse_lines(&fs::read(path).unwrap())
}

#[test]
fn manifest_has_the_rows_of_sum() {
    let (scratch, _) = source("manifest");
    for (target, options) in [
        ("new", &["--chunk", "1M", "--threads", "3"][..]),
        ("new", &["-T", "--verify"]),
        ("./other", &["--fsync", "none"]),
        ("file", &["--fsync", "file"]),
    ] {
        let mut words = vec!["copy", "--json", "--manifest", "m", "tree", target];
        words.extend(options);
        let summary = parse(run(&mut command(&scratch, &words)).expect_code(0).out().as_bytes());
        let expected = summed(&scratch, target);
        assert_eq!(rows(&scratch.join("m")), expected, "{target} {options:?}");
        let written = json!({"file": "m", "entries": expected.len(), "without_digest": 0});
        assert_eq!(summary["manifest"], written, "{options:?}");
        run(&mut command(&scratch, &["sum", "--check", "m"])).expect_code(0);
        run(&mut command(&scratch, &["sum", "--check", "m", target])).expect_code(0);
    }
}

#[test]
fn manifest_as_lines_is_what_sum_prints() {
    let (scratch, _) = source("manifest-lines");
    let words = ["copy", "--manifest", "m", "--manifest-format", "b3sum", "tree", "new"];
    run(&mut command(&scratch, &words)).expect_code(0);
    let lines = run(&mut command(&scratch, &["sum", "--sort", "new"])).expect_code(0).stdout;
    assert_eq!(fs::read(scratch.join("m")).unwrap(), lines);
}

#[test]
fn skipped_files_are_read_or_listed() {
    let (scratch, tree) = source("manifest-skipped");
    run(&mut command(&scratch, &["copy", "tree", "new"])).expect_code(0);
    make_file(tree.join("one"), b"another");
    let update = ["copy", "-T", "--update", "--manifest", "m", "tree", "new"];
    let read = [&update[..], &["--manifest-skipped", "read"]].concat();
    run(&mut command(&scratch, &read)).expect_code(0);
    let expected = summed(&scratch, "new");
    assert_eq!(rows(&scratch.join("m")), expected);
    make_file(tree.join("one"), b"and another");
    run(&mut command(&scratch, &update)).expect_code(0);
    let listed = rows(&scratch.join("m"));
    let is_read = |row: &&Value| row.get("digest").is_some();
    // Its two names.
    assert_eq!(listed.iter().filter(is_read).count(), 2);
    assert!(
        listed
            .iter()
            .all(|row| row["kind"] != "file" || row.get("digest").is_some() ^ (row["not_read"] == true))
    );
    let paths = |rows: &[Value]| rows.iter().map(|row| row["path"].clone()).collect::<Vec<_>>();
    assert_eq!(paths(&listed), paths(&expected));
    // The size of what was not read is compared.
    let ran = run(&mut command(&scratch, &["sum", "--check", "m"])).expect_code(0);
    assert!(ran.err().contains("compared by size only: "), "{}", ran.err());
    make_file(scratch.join("new/large"), b"short");
    let ran = run(&mut command(&scratch, &["sum", "--check", "m"])).expect_code(1);
    assert!(ran.out().contains("different: new/large: size"), "{}", ran.out());
}

#[test]
fn ignored_entries_are_what_target_has() {
    let (scratch, _) = source("manifest-ignored");
    make_directory(scratch.join("new"));
    make_file(scratch.join("new/one"), b"other content");
    make_link("elsewhere", scratch.join("new/link"));
    for (how, code) in [("read", 0), ("list", 0)] {
        let words =
            ["copy", "-T", "--ignore-existing", "--manifest", "m", "--manifest-skipped", how, "tree", "new"];
        run(&mut command(&scratch, &words)).expect_code(0);
        run(&mut command(&scratch, &["sum", "--check", "m", "new"])).expect_code(code);
    }
}

#[test]
fn failed_entries_are_not_in_the_manifest() {
    let (scratch, _) = source("manifest-failed");
    make_directory(scratch.join("new"));
    make_directory(scratch.join("new/large"));
    let ran = run(&mut command(&scratch, &["copy", "-T", "--manifest", "m", "tree", "new"])).expect_code(3);
    assert!(ran.err().contains("large"), "{}", ran.err());
    let is_large = |row: &Value| row["path"] == "new/large";
    assert!(!rows(&scratch.join("m")).iter().any(is_large));
    run(&mut command(&scratch, &["sum", "--check", "m"])).expect_code(0);
}

#[test]
fn listed_entries_come_with_directories_above() {
    let (scratch, _) = source("manifest-listed");
    make_file(scratch.join("list"), b"random/two\0");
    let words = ["copy", "-T", "--from-list", "list", "--manifest", "m", "tree", "new"];
    run(&mut command(&scratch, &words)).expect_code(0);
    let paths: Vec<_> = rows(&scratch.join("m")).into_iter().map(|row| row["path"].clone()).collect();
    assert_eq!(paths, ["new", "new/random", "new/random/two"]);
}

#[test]
fn manifest_that_would_be_useless_is_refused() {
    let (scratch, _) = source("manifest-refused");
    make_file(scratch.join("list"), b"one\0");
    for (options, why) in [
        (&["--digest", "none"][..], "--manifest needs digests"),
        (&["--update", "--manifest-format", "b3sum"], "needs digests of skipped files"),
        (&["--from-list", "m"], "are the same file"),
        (&["--errors", "m"], "are the same file"),
        (&["-n"], "cannot be used with"),
    ] {
        let words = [&["copy", "--manifest", "m"], options, &["tree", "new"]].concat();
        let ran = run(&mut command(&scratch, &words)).expect_code(2);
        assert!(ran.err().contains(why), "{options:?}: {}", ran.err());
        assert!(!scratch.join("new").exists() && !scratch.join("m").exists(), "{options:?}");
    }
    let ran = run(&mut command(&scratch, &["copy", "--manifest", "/dev/full", "tree", "new"])).expect_code(4);
    assert!(ran.err().contains("cannot write manifest: /dev/full: "), "{}", ran.err());
    let ran =
        run(&mut command(&scratch, &["copy", "--manifest", "no/where", "tree", "other"])).expect_code(4);
    assert!(ran.err().contains("cannot write manifest: no/where: "), "{}", ran.err());
    assert!(!scratch.join("other").exists());
}
