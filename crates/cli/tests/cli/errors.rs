//! What cannot be done: lines and their limit, `--errors`, walking again what failed, outputs that fail.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;

use atta_testkit::trees;

use crate::support::{
    Running, at, make_directory, make_file, names_in, number, parse_lines, run, scratch, set_mode,
    unprivileged, walk,
};

#[test]
fn list_of_errors_is_walked_again() {
    let test = "list_of_errors_is_walked_again";
    let Some((scratch, atta)) = unprivileged(test) else { return };
    let tree = make_directory(scratch.join("tree"));
    // Names that only path_raw can hold, and a failure in every hostile directory.
    trees::hostile_names(&tree).unwrap();
    for name in names_in(&tree.join("directories")) {
        set_mode(&tree.join("directories").join(name), 0o000);
    }
    crate::support::give_to_nobody(scratch.path());
    let mut command = atta();
    command.args(["walk", "--print0", "--errors", "failed.ndjson", "tree"]).current_dir(scratch.path());
    let first = run(&mut command).expect_code(3);
    let failed = parse_lines(&std::fs::read(scratch.join("failed.ndjson")).unwrap());
    assert_eq!(failed.len(), trees::HOSTILE_NAMES.len());
    for row in &failed {
        assert_eq!(at(row, "operation"), "open directory");
        assert_eq!((at(row, "error").as_str(), number(row, "errno")), (Some("EACCES"), 13));
        assert_eq!(at(row, "root"), "tree");
    }
    // As long as nothing changes it fails again.
    let again = || {
        let mut command = atta();
        command.args(["walk", "--print0", "--from-list", "failed.ndjson"]).current_dir(scratch.path());
        run(&mut command)
    };
    again().expect_code(3);
    for name in names_in(&tree.join("directories")) {
        set_mode(&tree.join("directories").join(name), 0o755);
    }
    let second = again().expect_code(0);
    let mut both = [first.stdout, second.stdout].concat();
    let mut all = crate::support::records(&both);
    // The directories themselves are in both lists.
    all.dedup();
    both.clear();
    let whole = run(atta().args(["walk", "--print0", "tree"]).current_dir(scratch.path())).expect_code(0);
    assert_eq!(all, crate::support::records(&whole.stdout));
}

#[test]
fn lines_of_errors_are_limited_unless_asked_for() {
    let scratch = scratch("limit");
    let missing: Vec<_> = (0..50).map(|number| format!("missing-{number}")).collect();
    let ran = run(walk(&missing).current_dir(scratch.path())).expect_code(3);
    assert_eq!(ran.errors("cannot stat: missing-"), 20, "{}", ran.err());
    assert_eq!(ran.errors("further errors are only counted"), 1);
    assert!(ran.out().contains("ENOENT"), "{}", ran.out());
    assert!(ran.out().contains(" 50"), "{}", ran.out());
    let ran = run(walk(["--verbose"]).args(&missing).current_dir(scratch.path())).expect_code(3);
    assert_eq!(ran.errors("cannot stat: missing-"), 50);
    assert_eq!(ran.errors("further errors"), 0);
    let ran = run(walk(["--errors", "errors"]).args(&missing).current_dir(scratch.path())).expect_code(3);
    assert_eq!(ran.errors("cannot stat: missing-"), 20);
    assert_eq!(parse_lines(&std::fs::read(scratch.join("errors")).unwrap()).len(), 50);
    let ran = run(walk(["--quiet"]).args(&missing[..3]).current_dir(scratch.path())).expect_code(3);
    assert_eq!((ran.errors("cannot stat: "), ran.out().as_str()), (3, ""));
}

#[test]
fn a_run_without_failures_leaves_an_empty_list() {
    let scratch = scratch("no-errors");
    run(walk(["--errors", "errors"]).current_dir(scratch.path())).expect_code(0);
    assert_eq!(std::fs::read(scratch.join("errors")).unwrap(), b"");
    let ran = run(walk(["--json", "--from-list", "errors"]).current_dir(scratch.path())).expect_code(0);
    assert_eq!(number(&ran.json(), "totals.entries"), 0);
}

#[test]
fn the_list_that_is_read_is_not_written_over() {
    let scratch = scratch("same-file");
    make_file(scratch.join("list"), b"a\0b\0");
    std::os::unix::fs::symlink("list", scratch.join("link")).unwrap();
    for errors in ["list", "./list", "link"] {
        let mut command = walk(["--from-list", "list", "--errors", errors]);
        let ran = run(command.current_dir(scratch.path())).expect_code(2);
        assert!(ran.err().starts_with("atta: --errors and --from-list are the same file: "), "{}", ran.err());
        assert!(ran.err().contains("\nhint: "), "{}", ran.err());
        assert_eq!(std::fs::read(scratch.join("list")).unwrap(), b"a\0b\0");
    }
}

#[test]
fn unwritable_files_stop_the_run_at_its_start() {
    let scratch = scratch("cannot-write");
    for option in ["--errors", "--events"] {
        let mut command = walk(["--print", option, "missing/file", "."]);
        let ran = run(command.current_dir(scratch.path())).expect_code(4);
        let what = option.trim_start_matches('-');
        let said = format!("atta: cannot write {what}: missing/file: no such file or directory (ENOENT)\n");
        assert_eq!((ran.err(), ran.out()), (said, String::new()));
    }
}

#[test]
fn full_device_on_standard_output_is_reported() {
    let scratch = scratch("full");
    trees::flat(&scratch.join("flat"), 2_000).unwrap();
    for options in [&["--print"][..], &["--format", "csv"], &["--json"], &[]] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("open /dev/full");
        let mut command = walk(options);
        let command = command.arg(scratch.path()).stdout(full).stderr(Stdio::piped());
        let ran = Running::start(command).finish().expect_code(4);
        let said = "atta: cannot write to standard output: no space left on device (ENOSPC)\n";
        assert_eq!(ran.err(), said, "{options:?}");
    }
}

#[test]
fn full_device_of_output_files_is_reported() {
    let scratch = scratch("full-files");
    let missing: Vec<_> = (0..2_000).map(|number| format!("missing-{number}")).collect();
    let ran = run(walk(["--errors", "/dev/full"]).args(&missing).current_dir(scratch.path())).expect_code(4);
    let said = "atta: cannot write errors: /dev/full: no space left on device (ENOSPC)\n";
    assert!(ran.err().ends_with(said), "{}", ran.err());
    let ran = run(walk(["--events", "/dev/full"]).current_dir(scratch.path())).expect_code(4);
    let said = "atta: cannot write events: /dev/full: no space left on device (ENOSPC)\n";
    assert_eq!(ran.err(), said);
}

#[test]
fn a_reader_that_goes_away_ends_the_listing_quietly() {
    let scratch = scratch("closed");
    // Much more than a pipe holds, so that the program must notice.
    for directory in 0..20 {
        trees::flat(&scratch.join(format!("directory-with-a-name-{directory}")), 1_000).unwrap();
    }
    for options in [&["--print"][..], &["--format", "ndjson"], &["--print", "--output", "scan.catalog"]] {
        let mut command = walk(options);
        command.arg(".").current_dir(scratch.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start");
        let mut first = [0; 1];
        let mut pipe = child.stdout.take().expect("a pipe");
        pipe.read_exact(&mut first).expect("read one byte");
        drop(pipe);
        let output = child.wait_with_output().expect("wait");
        assert_eq!(output.status.code(), Some(141), "{options:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{options:?}");
    }
    assert!(!names_in(scratch.path()).iter().any(|name| name.to_string_lossy().contains("scan.catalog")));
}

#[test]
fn a_closed_standard_output_ends_a_summary_quietly() {
    let scratch = scratch("closed-summary");
    make_file(scratch.join("file"), b"");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = walk(["--json"]);
    let command = command.arg(scratch.path()).stdout(writer).stderr(Stdio::piped());
    let ran = Running::start(command).finish().expect_code(141);
    assert_eq!(ran.err(), "");
}
