//! Summaries, events and progress: what goes where, and what a program can read of it.

use std::path::Path;

use atta_testkit::scratch::Scratch;
use atta_testkit::slow::SlowFs;
use atta_testkit::{lock::Lock, skip, trees};

use crate::support::{at, make_file, number, parse, parse_lines, run, scratch, walk};

fn small() -> Scratch {
    let scratch = scratch("output");
    trees::flat(&scratch.join("flat"), 10).unwrap();
    make_file(scratch.join("file"), b"123");
    scratch
}

#[test]
fn the_json_summary_has_what_is_promised() {
    let scratch = small();
    let ran = run(walk(["--json", "--threads", "2"]).arg(scratch.path())).expect_code(0);
    assert_eq!(ran.err(), "");
    let json = ran.json();
    assert_eq!((number(&json, "schema_version"), at(&json, "command").as_str()), (1, Some("walk")));
    assert_eq!(at(&json, "interrupted").as_bool(), Some(false));
    assert_eq!((number(&json, "totals.entries"), number(&json, "totals.by_kind.file")), (13, 11));
    assert_eq!((number(&json, "totals.depth_max"), number(&json, "totals.apparent_bytes")), (2, 3));
    assert_eq!((number(&json, "errors.count"), number(&json, "spill.tasks")), (0, 0));
    assert!(at(&json, "errors.by_errno").as_object().unwrap().is_empty());
    let shares = at(&json, "time_shares").as_object().unwrap();
    let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{shares:?}");
    let threads = at(&json, "threads").as_array().unwrap();
    let by_thread: u64 = threads.iter().map(|thread| number(thread, "entries")).sum();
    assert_eq!((threads.len(), by_thread), (2, 13));
}

#[test]
fn rows_have_standard_output_to_themselves() {
    let scratch = small();
    for option in ["--print", "--print0", "--format=ndjson", "--format=csv", "--format=text"] {
        let ran = run(walk(["--json", option]).arg(scratch.path())).expect_code(0);
        assert_eq!(number(&parse(&ran.stderr), "totals.entries"), 13, "{option}");
        assert!(!ran.out().contains("schema_version"), "{option}");
        let ran = run(walk([option]).arg(scratch.path())).expect_code(0);
        assert!(ran.err().starts_with("13 entries in "), "{option}: {}", ran.err());
        let ran = run(walk(["--quiet", option]).arg(scratch.path())).expect_code(0);
        assert_eq!(ran.err(), "", "{option}");
    }
}

#[test]
fn closed_standard_output_is_an_error_if_needed() {
    let scratch = small();
    let closed = |arguments: &str, code: i32| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("exec \"$ATTA\" {arguments} >&-")]);
        let ran = run(command.env("ATTA", env!("CARGO_BIN_EXE_atta")).current_dir(scratch.path()));
        let ran = ran.expect_code(code);
        let said = "atta: cannot write to standard output: bad file descriptor (EBADF)\n";
        assert_eq!(ran.err().contains(said), code != 0, "{arguments}: {}", ran.err());
    };
    for arguments in [
        "walk flat",
        "walk --print flat",
        "walk --format csv flat",
        "walk --json flat",
        "sum flat",
        "sum --signature flat",
        "sum --sort flat",
        "sum </dev/null",
        "verify flat .",
        "verify --format ndjson flat .",
        "copy flat copied",
        "copy -n -v flat rehearsed",
        "generate --files 3 generated",
        "simulate --ranks 2 --files 100",
        "--help",
        "walk --help",
        "--version",
    ] {
        closed(arguments, 4);
    }
    for arguments in [
        "walk -q flat",
        "walk -q --print --print-to rows flat",
        "copy -q flat quiet",
        "sum -q --output catalog flat",
        "verify -q flat flat",
    ] {
        closed(arguments, 0);
    }
}

#[test]
fn print_to_writes_what_is_printed_to_a_file() {
    let (tree, elsewhere) = (small(), scratch("printed"));
    let file = elsewhere.join("printed");
    let commands: [&[&str]; 6] = [
        &["walk", "--print", "flat"],
        &["walk", "-q", "--json", "flat"],
        &["sum", "--sort", "flat"],
        &["sum", "--signature", "flat"],
        &["verify", "--format", "ndjson", "flat", "."],
        &["copy", "-n", "-v", "flat", "rehearsed"],
    ];
    for arguments in commands {
        let printed = |more: &[&str]| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_atta"));
            run(command.args(arguments).args(more).current_dir(tree.path()))
        };
        let plain = printed(&["-j1"]);
        let moved = printed(&["-j1", "--print-to", file.to_str().unwrap()]);
        assert_eq!(moved.out(), "", "{arguments:?}");
        assert_eq!(plain.code(), moved.code(), "{arguments:?}: {}", moved.err());
        let rows = String::from_utf8(std::fs::read(&file).unwrap()).unwrap();
        let lines = |text: &str| text.lines().count();
        assert!(lines(&rows) > 0 && lines(&rows) == lines(&plain.out()), "{arguments:?}: {rows}");
    }
}

#[test]
fn print_to_overwrites_no_input() {
    let scratch = small();
    let list = make_file(scratch.join("list"), b"flat\n");
    for arguments in [
        "walk --print --lines --from-list list --print-to list",
        "walk --print --lines --from-list list --print-to ./list",
        "walk --print --errors list --print-to list flat",
        "sum --check list --print-to list",
        "copy --lines --from-list list --print-to list . copied",
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_atta"));
        let ran = run(command.args(arguments.split(' ')).current_dir(scratch.path())).expect_code(2);
        assert!(ran.err().contains("--print-to"), "{arguments}: {}", ran.err());
        assert_eq!(std::fs::read(&list).unwrap(), b"flat\n", "{arguments}");
    }
    for (file, reason) in
        [("/dev/full", "cannot write to /dev/full"), ("none/rows", "cannot print to none/rows")]
    {
        let mut command = walk(["--print", "--print-to", file, "flat"]);
        let ran = run(command.current_dir(scratch.path())).expect_code(4);
        assert!(ran.err().contains(reason), "{}", ran.err());
    }
}

#[test]
fn quiet_prints_nothing_verbose_a_row_per_thread() {
    let scratch = small();
    let ran = run(walk(["-q"]).arg(scratch.path())).expect_code(0);
    assert_eq!((ran.out(), ran.err()), (String::new(), String::new()));
    let ran = run(walk(["-v", "-j", "2"]).arg(scratch.path())).expect_code(0);
    let rows = ran.out();
    let rows = rows.lines().skip_while(|line| !line.starts_with("  thread ")).skip(1);
    assert_eq!(rows.count(), 2, "{}", ran.out());
    // Asked for as JSON it is printed, quiet or not.
    let ran = run(walk(["-q", "--json"]).arg(scratch.path())).expect_code(0);
    assert_eq!(number(&ran.json(), "totals.entries"), 13);
}

fn check_events(events: &Path, at_least: usize) {
    let events = parse_lines(&std::fs::read(events).unwrap());
    let kinds: Vec<_> = events.iter().map(|event| at(event, "event").as_str().unwrap().to_owned()).collect();
    assert!(kinds.len() >= at_least + 2, "{kinds:?}");
    assert_eq!((kinds[0].as_str(), kinds[kinds.len() - 1].as_str()), ("start", "end"));
    assert!(kinds[1..kinds.len() - 1].iter().all(|kind| kind == "progress"), "{kinds:?}");
    let start = &events[0];
    assert_eq!(number(start, "schema_version"), 1);
    assert!(at(start, "time").as_str().unwrap().ends_with('Z'));
    assert_eq!(at(start, "command").as_array().unwrap()[1], "walk");
    let counts: Vec<_> = events[1..events.len() - 1].iter().map(|event| number(event, "entries")).collect();
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(number(&events[events.len() - 1], "summary.totals.entries") >= *counts.last().unwrap_or(&0));
}

#[test]
fn events_begin_and_end_also_a_short_run() {
    let scratch = small();
    let events = scratch.join("events");
    run(walk(["-q", "--events"]).arg(&events).arg(scratch.join("flat"))).expect_code(0);
    check_events(&events, 0);
}

#[test]
fn long_run_reports_its_progress() {
    let test = "long_run_reports_its_progress";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    // 2 s and more by its rate, on any machine; the events come each second of the run.
    let slow = SlowFs::builder().directories(4, 1).files(300).latency(std::time::Duration::ZERO).mount();
    let Some(slow) = skip::unless_available(test, slow) else { return };
    let scratch = small();
    let events = scratch.join("events");
    let mut command = walk(["-q", "--iops", "400", "--progress", "always", "--events"]);
    let ran = run(command.arg(&events).arg(slow.path())).expect_code(0);
    check_events(&events, 1);
    assert!(ran.err().lines().count() >= 1, "no line of progress");
    for line in ran.err().lines() {
        assert!(line.contains(" entries so far, "), "{line}");
    }
    assert_eq!(ran.out(), "");
    let mut command = walk(["-q", "--iops", "800", "--progress", "never"]);
    let ran = run(command.arg(slow.path())).expect_code(0);
    assert_eq!(ran.err(), "");
    let ran = run(walk(["-q", "--iops", "800"]).arg(slow.path())).expect_code(0);
    assert_eq!(ran.err(), "", "no terminal, no progress");
}

#[test]
fn files_of_rows_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = small();
    let (errors, events) = (scratch.join("errors"), scratch.join("events"));
    let mut command = walk(["--errors"]);
    run(command.arg(&errors).arg("--events").arg(&events).arg(scratch.join("flat"))).expect_code(0);
    for file in [errors, events] {
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
