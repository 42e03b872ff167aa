//! `atta verify` as a program: what it prints, where, and how it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use atta_testkit::scratch::Scratch;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use serde_json::{Value, json};

use crate::support::{
    Ran, Running, atta, make_directory, make_file, make_link, path_of, python, run, scratch, set_mode,
};

/// `atta verify` with these arguments, in this directory.
fn verify(directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = atta();
    run(command.arg("verify").args(arguments).current_dir(directory))
}

fn set_mtime(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Two trees `one` and `two` with differences of each sort, and `same`, which is as `one`.
fn trees(test: &str) -> Scratch {
    let scratch = scratch(test);
    for name in ["one", "two", "same"] {
        let tree = make_directory(scratch.join(name));
        make_directory(tree.join("below"));
        set_mode(&make_file(tree.join("below/mode"), b"mode"), if name == "two" { 0o600 } else { 0o644 });
        make_file(tree.join("bytes"), if name == "two" { b"12x4" } else { b"1234" });
        make_link(if name == "two" { "there" } else { "here" }, tree.join("link"));
        if name == "two" {
            make_file(tree.join(path_of(*b"\xff\n")), b"");
            make_directory(tree.join("more"));
        } else {
            make_file(tree.join("gone"), b"");
        }
        for path in ["below/mode", "bytes", "link", "gone", "more", "below", ""] {
            let path = tree.join(path);
            if fs::symlink_metadata(&path).is_ok() {
                set_mtime(&path, 1_000_000_000);
            }
        }
    }
    scratch
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn differences_are_lines_and_set_the_exit_code() {
    let scratch = trees("verify-lines");
    let ran = verify(scratch.path(), &["one", "same"]).expect_code(0);
    assert_eq!(ran.out(), "");
    assert!(ran.err().starts_with("6 entries compared in "), "{}", ran.err());
    assert!(ran.err().ends_with(" s\nno difference\n"), "{}", ran.err());
    let ran = verify(scratch.path(), &["--content", "one", "two"]).expect_code(1);
    let expected = [
        "different: below/mode: mode 0644 -> 0600",
        "different: bytes: content from byte 2",
        "different: link: target here -> there",
        "extra: \\xff\\n",
        "extra: more/",
        "missing: gone",
    ];
    assert_eq!(sorted(&ran.out()), expected);
    let summary = ran.err();
    assert!(summary.starts_with("5 entries compared, 6 B of 2 files at "), "{summary}");
    let found = "1 missing, 2 extra, 3 different (mode 1, target 1, content 1)\n";
    assert!(summary.ends_with(found), "{summary}");
    // The contents have the same size and are not compared.
    let ran = verify(scratch.path(), &["--fields", "size,mtime", "one", "two"]).expect_code(1);
    assert_eq!(sorted(&ran.out()), ["extra: \\xff\\n", "extra: more/", "missing: gone"]);
}

#[test]
fn rows_are_objects_and_the_summary_is_one() {
    let scratch = trees("verify-rows");
    let ran = verify(scratch.path(), &["--format", "ndjson", "--json", "-c", "one", "two"]).expect_code(1);
    let rows: Vec<Value> = sorted(&ran.out()).iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows.len(), 6);
    let of = |path: &str| rows.iter().find(|row| row["path"] == path).unwrap();
    assert_eq!(of("gone"), &json!({"path": "gone", "change": "missing", "kind": "file"}));
    assert_eq!(
        of("\u{fffd}\n"),
        &json!({"path": "\u{fffd}\n", "path_raw": "ff0a", "change": "extra", "kind": "file"})
    );
    assert_eq!(of("bytes")["fields"], json!({"content": {"offset": 2}}));
    let summary: Value = serde_json::from_str(&ran.err()).unwrap();
    assert_eq!(summary["fields"], json!({"content": 1, "mode": 1, "target": 1}));
    let counts = ["missing", "extra", "different", "failed", "compared"].map(|key| summary[key].as_u64());
    assert_eq!(counts, [1, 2, 3, 0, 5].map(Some));
    assert_eq!((&summary["same"], &summary["interrupted"]), (&json!(false), &json!(false)));
    // Where no rows are printed, the summary is on standard output.
    let ran = verify(scratch.path(), &["--quiet", "--json", "one", "same"]).expect_code(0);
    assert_eq!((ran.json()["same"].as_bool(), ran.err().as_str()), (Some(true), ""));
}

#[test]
fn quiet_reports_by_exit_code_only() {
    let scratch = trees("verify-quiet");
    for (target, code) in [("same", 0), ("two", 1)] {
        let ran = verify(scratch.path(), &["-q", "-c", "one", target]).expect_code(code);
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("", ""));
    }
}

#[test]
fn a_table_has_a_row_for_each_difference() {
    let scratch = trees("verify-table");
    let table = scratch.join("table.parquet");
    make_file(&table, b"what was there before");
    let ran = verify(scratch.path(), &["-c", "--output", "table.parquet", "one", "two"]).expect_code(1);
    assert!(ran.out().contains("1 missing, 2 extra, 3 different"), "{}", ran.out());
    assert_eq!(ran.err(), "");
    let test = "a_table_has_a_row_for_each_difference";
    let Some(mut command) = python(test, "differences.py", &["duckdb", "polars", "pandas"]) else { return };
    let read = run(command.arg(&table)).expect_code(0);
    let expected = [
        "bytes|None|different|file|content|None|None|None|2",
        "below/mode|None|different|file|mode|None|0644|0600|None",
        "gone|None|missing|file|None|None|None|None|None",
        "link|None|different|symlink|target|None|here|there|None",
        "more|None|extra|directory|None|None|None|None|None",
        "\u{fffd}\\n|ff0a|extra|file|None|None|None|None|None",
    ];
    let mut expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
    expected.sort_unstable();
    assert_eq!(sorted(&read.out()), expected);
}

#[test]
fn what_makes_no_sense_or_cannot_be_read_is_said() {
    let scratch = trees("verify-wrong");
    for (arguments, code, message) in [
        (&["one"][..], 2, "required arguments were not provided"),
        (&["one", ""], 2, "SOURCE or TARGET is empty"),
        (&["--output", "out", "--errors", "out", "one", "two"], 2, "--output and --errors are one file: out"),
        (&["--output", "out", "--print-to", "out", "one", "two"], 2, "--print-to is a file that the command"),
        (&["--fields", "size,nothing", "one", "two"], 2, "invalid value 'nothing'"),
        (&["--modify-window=-1", "one", "two"], 2, "no time in seconds"),
        (&["--modify-window", "x", "one", "two"], 2, "no time in seconds"),
        (&["-q", "--format", "text", "one", "two"], 2, "cannot be used with"),
        (&["one", "nothing"], 4, "cannot stat TARGET: nothing: no such file or directory (ENOENT)"),
        (&["nothing", "one"], 4, "cannot stat SOURCE: nothing: no such file or directory (ENOENT)"),
        (&["one", "two/bytes"], 4, "SOURCE is a directory and TARGET a file: one, two/bytes"),
        (&["--output", "no/table", "one", "two"], 4, "cannot write differences: no/table: "),
    ] {
        let ran = verify(scratch.path(), arguments).expect_code(code);
        assert!(ran.err().contains(message), "{arguments:?}: {}", ran.err());
        assert_eq!(ran.out(), "");
    }
}

#[test]
fn uncompared_entries_set_the_exit_code() {
    let test = "uncompared_entries_set_the_exit_code";
    let Some((scratch, command)) = crate::support::unprivileged(test) else { return };
    let (one, two) = (make_directory(scratch.join("one")), make_directory(scratch.join("two")));
    for tree in [&one, &two] {
        set_mode(&make_directory(tree.join("closed")), 0o000);
        set_mtime(&tree.join("closed"), 5);
        set_mtime(tree, 5);
    }
    let mut program: Command = command();
    let errors: PathBuf = make_directory(scratch.join("errors"));
    set_mode(&errors, 0o777);
    let ran = program.args(["verify", "--errors", "errors/list", "one", "two"]).current_dir(scratch.path());
    let ran = run(ran).expect_code(1);
    assert_eq!(ran.out(), "");
    assert_eq!(
        ran.errors("cannot open directory: one/closed: permission denied (EACCES)"),
        1,
        "{}",
        ran.err()
    );
    assert!(ran.err().ends_with("no difference\nnot compared: 1 entry\n"), "{}", ran.err());
    let row: Value = serde_json::from_str(&fs::read_to_string(errors.join("list")).unwrap()).unwrap();
    assert_eq!((&row["path"], &row["class"]), (&json!("one/closed"), &json!("permission")));
}

#[test]
fn interrupted_comparison_leaves_no_table() {
    let scratch = trees("verify-interrupted");
    for tree in ["one", "two"] {
        atta_testkit::trees::flat(&scratch.join(tree).join("flat"), 2_000).unwrap();
    }
    let mut command = atta();
    command.args(["verify", "--iops", "20", "--output", "table", "one", "two"]);
    command.current_dir(scratch.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::start(&mut command);
    // It is made when signals are caught already.
    while fs::symlink_metadata(scratch.join("table")).is_err() {
        std::thread::sleep(Duration::from_millis(2));
    }
    running.signal(rustix::process::Signal::INT);
    let ran = running.finish().expect_code(130);
    assert!(ran.out().starts_with("interrupted: results are incomplete\n"), "{}", ran.out());
    assert!(ran.err().contains("interrupted: no table was written"), "{}", ran.err());
    assert_eq!(fs::read(scratch.join("table")).unwrap(), b"");
}
