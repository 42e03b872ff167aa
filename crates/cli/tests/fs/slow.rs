//! A server that answers with errors: each failed entry is reported once, with the failed operation, and the rest is walked.

use std::time::Duration;

use atta_testkit::lock::Lock;
use atta_testkit::skip;
use atta_testkit::slow::{Builder, SlowFs};

use crate::support::{at, number, parse_lines, run, scratch, walk};

fn mount(test: &str, builder: Builder) -> Option<(SlowFs, Lock)> {
    let lock = Lock::for_own_mount().expect("take the lock of mounts");
    let mounted = builder.latency(Duration::ZERO).mount();
    skip::unless_available(test, mounted).map(|mounted| (mounted, lock))
}

#[test]
fn server_errors_have_operation_and_number() {
    let test = "server_errors_have_operation_and_number";
    let builder = SlowFs::builder().directories(4, 1).files(10);
    let builder = builder.fail("opendir:d0001:ESTALE").fail("lookup:f0000003:EIO").fail("readdir:d0002:EIO");
    let Some((slow, _lock)) = mount(test, builder) else { return };
    let scratch = scratch("errors");
    let errors = scratch.join("errors");
    let ran = run(walk(["--json", "--errors"]).arg(&errors).arg(slow.path())).expect_code(3);
    let rows = parse_lines(&std::fs::read(&errors).unwrap());
    let of = |operation: &str, error: &str| {
        rows.iter().filter(|row| at(row, "operation") == operation && at(row, "error") == error).count()
    };
    assert_eq!(of("open directory", "ESTALE"), 1, "{rows:?}");
    assert_eq!(of("read directory", "EIO"), 1, "{rows:?}");
    assert!(of("stat", "EIO") >= 2, "{rows:?}");
    let json = ran.json();
    assert_eq!(number(&json, "errors.count"), rows.len() as u64);
    assert_eq!(number(&json, "errors.by_errno.ESTALE"), 1);
}

#[test]
fn directories_without_types_are_walked() {
    let test = "directories_without_types_are_walked";
    let builder = SlowFs::builder().directories(5, 2).files(20).symlinks(3).unknown_types();
    let Some((slow, _lock)) = mount(test, builder) else { return };
    for options in [&[][..], &["--lite"]] {
        let json = run(walk(["--json"]).args(options).arg(slow.path())).expect_code(0).json();
        assert_eq!(number(&json, "totals.entries"), slow.tree().entries(), "{options:?}");
        assert_eq!(number(&json, "totals.by_kind.unknown"), 0, "{options:?}");
    }
}

#[test]
fn file_system_that_does_not_answer_is_named() {
    let test = "file_system_that_does_not_answer_is_named";
    let builder = SlowFs::builder().directories(2, 1).files(20).fail("lookup:f0000003:delay=6000:times=1");
    let Some((slow, _lock)) = mount(test, builder) else { return };
    let ran = run(walk(["--stall-warn", "1"]).arg(slow.path())).expect_code(0);
    let said = ran.err();
    let waits = |line: &&str| line.starts_with("atta: the file system has not answered for ");
    let line = said.lines().find(waits).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("stat") && line.ends_with("/f0000003"), "{line}");
    assert!(said.contains("atta: the file system has answered after "), "{said}");
}

#[test]
#[ignore = "a directory of 10^6 names takes a minute"]
fn directory_of_a_million_names_needs_little_memory() {
    let test = "directory_of_a_million_names_needs_little_memory";
    let Some((slow, _lock)) = mount(test, SlowFs::builder().flat(1_000_000)) else { return };
    let json = run(walk(["--json", "--lite", "--memory", "1M"]).arg(slow.path())).expect_code(0).json();
    assert_eq!(number(&json, "totals.entries"), 1_000_001);
}
