//! SIGINT and SIGTERM on a file system that answers late, so that the walk is long on any machine. The signal is sent when
//! the run has said that it began; what is checked is the outcome, never how long it took.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use atta_testkit::lock::Lock;
use atta_testkit::skip;
use atta_testkit::slow::{Builder, SlowFs};
use rustix::process::Signal;

use crate::support::{
    Running, at, atta, make_directory, make_file, names_in, number, parse_lines, scratch, walk,
};

/// Hours of work: 10^6 directories of files at 5 ms a request.
fn endless() -> Builder {
    SlowFs::builder().latency(Duration::from_millis(5)).directories(1_000, 2).files(100)
}

fn mount(test: &str, builder: Builder) -> Option<(SlowFs, Lock)> {
    let lock = Lock::for_own_mount().expect("take the lock of mounts");
    skip::unless_available(test, builder.mount()).map(|mounted| (mounted, lock))
}

/// Starts a walk of `root` and waits for its first progress report, which is its second event.
fn start(root: &Path, events: &Path, options: &[&str]) -> Running {
    let mut command = walk(["--events"]);
    command.arg(events).args(options).arg(root).current_dir(events.parent().unwrap_or(Path::new("/")));
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    running.wait_for_lines(events, 2);
    running
}

#[test]
fn signal_ends_the_walk_with_a_summary() {
    let test = "signal_ends_the_walk_with_a_summary";
    let Some((slow, _lock)) = mount(test, endless()) else { return };
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scratch = scratch("signal");
        let events = scratch.join("events");
        let running = start(slow.path(), &events, &["--json", "--threads", "4", "--output", "scan.catalog"]);
        running.signal(signal);
        let ran = running.finish().expect_code(code);
        let json = ran.json();
        assert_eq!(at(&json, "interrupted").as_bool(), Some(true));
        assert!(number(&json, "totals.entries") > 0);
        assert_eq!(number(&json, "errors.count"), 0, "an interruption is no failure of an entry");
        // No catalog: what there is of it is left to the next run.
        let home = format!(".atta.{}", rustix::process::geteuid().as_raw());
        assert_eq!(names_in(scratch.path()), [home.as_str(), "events"]);
        assert!(ran.err().contains("to do what is left, give the same command again"), "{}", ran.err());
        let last = parse_lines(&std::fs::read(&events).unwrap()).pop().unwrap();
        assert_eq!(
            (at(&last, "event").as_str(), at(&last, "summary.interrupted").as_bool()),
            (Some("end"), Some(true))
        );
    }
}

#[test]
fn a_summary_for_people_says_that_it_was_interrupted() {
    let test = "a_summary_for_people_says_that_it_was_interrupted";
    let Some((slow, _lock)) = mount(test, endless()) else { return };
    let scratch = scratch("interrupted");
    let running = start(slow.path(), &scratch.join("events"), &["--threads", "4"]);
    running.signal(Signal::INT);
    let ran = running.finish().expect_code(130);
    assert!(ran.out().starts_with("interrupted: "), "{}", ran.out());
}

/// A file system that hangs, for a test: no request is answered for a long time. It does answer in the end, because no
/// process can go away before that: FUSE lets none of its callers go whose request the server has taken.
fn hanging() -> Builder {
    SlowFs::builder().latency(Duration::from_secs(15))
}

#[test]
fn threads_that_hang_are_not_waited_for() {
    let test = "threads_that_hang_are_not_waited_for";
    let Some((slow, _lock)) = mount(test, hanging()) else { return };
    let scratch = scratch("hang");
    let running = start(slow.path(), &scratch.join("events"), &["--no-job", "--output", "scan.catalog"]);
    running.signal(Signal::INT);
    let ran = running.finish().expect_code(130);
    assert!(
        ran.err().starts_with("atta: interrupted; some threads hang in the file system"),
        "{}",
        ran.err()
    );
    assert_eq!(names_in(scratch.path()), ["events"]);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let test = "a_second_signal_ends_it_at_once";
    let Some((slow, _lock)) = mount(test, hanging()) else { return };
    let scratch = scratch("second");
    let running = start(slow.path(), &scratch.join("events"), &[]);
    // A signal that comes while one of its kind waits is lost, so it is sent until the program has gone.
    let ran = running.finish_with(Signal::TERM).expect_code(143);
    assert_eq!((ran.out(), ran.err()), (String::new(), String::new()));
}

#[test]
fn a_closed_reader_ends_a_slow_listing_quietly() {
    let test = "a_closed_reader_ends_a_slow_listing_quietly";
    let builder = SlowFs::builder().latency(Duration::from_millis(1)).directories(100, 2).files(100);
    let Some((slow, _lock)) = mount(test, builder) else { return };
    let mut command = walk(["--print", "--threads", "4"]);
    command.arg(slow.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("wait");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(141), ""));
}

/// The copy's end: everything is copied and has its name, and what is left is to read it back, at 200 ms a request.
#[test]
fn first_signal_ends_a_copy_during_verify() {
    let test = "first_signal_ends_a_copy_during_verify";
    let scratch = scratch("read-back");
    let (source, below) = (make_directory(scratch.join("source")), make_directory(scratch.join("below")));
    for number in 0..1000 {
        make_file(source.join(number.to_string()), b"some bytes");
    }
    let builder = SlowFs::builder().latency(Duration::ZERO).over(&below).fail("read:*:delay=200");
    let Some((slow, _lock)) = mount(test, builder) else { return };
    let target = slow.path().join("target");
    let mut command = atta();
    command.args(["copy", "--verify", "--json", "--threads", "1"]).args([&source, &target]);
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    // It gets its name when its files are durable, or on a slow machine when the first of them are.
    running.wait_until(|| below.join("target").exists());
    running.signal(Signal::TERM);
    let json = running.finish().expect_code(143).json();
    assert_eq!(at(&json, "interrupted").as_bool(), Some(true));
    // Most are left: a directory gets its name before its files are read back, which would take more than three minutes.
    assert!(number(&json, "not_verified") > 500, "{json}");
    let names = names_in(&below.join("target")).len() as u64;
    assert_eq!(names, number(&json, "files"), "what is complete has its name: {json}");
}
