//! `atta bcast` in one process: what it copies, refuses and leaves.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{atta, scratch};

fn bcast(directory: &Path, words: &[&str]) -> Output {
    atta().arg("bcast").args(words).current_dir(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn process_alone_copies_a_file() {
    let scratch = scratch("bcast");
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 253) as u8).collect();
    fs::write(scratch.join("f"), &bytes).unwrap();
    fs::set_permissions(scratch.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
    let time = UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_789);
    fs::File::open(scratch.join("f")).unwrap().set_modified(time).unwrap();
    fs::create_dir(scratch.join("d")).unwrap();
    let ran = bcast(scratch.path(), &["--json", "f", "d"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let summary: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&summary["bytes"], &summary["written"]), (&Value::from(3_000_001), &Value::from(1)));
    assert_eq!(
        (&summary["readers"], &summary["failed"]),
        (&Value::from(vec![0]), &Value::from(Vec::<Value>::new()))
    );
    let sum = atta().args(["sum", "d/f"]).current_dir(scratch.path()).output().unwrap();
    assert_eq!(text(&sum.stdout), format!("{}  d/f\n", summary["digest"].as_str().unwrap()));
    assert!(fs::read(scratch.join("d/f")).unwrap() == bytes);
    let copy = fs::metadata(scratch.join("d/f")).unwrap();
    assert_eq!((copy.mode() & 0o7777, copy.mtime(), copy.mtime_nsec()), (0o640, 1_500_000_000, 123_456_789));
    assert_eq!(names(&scratch.join("d")), ["f"]);
    // The summary for people.
    let ran = bcast(scratch.path(), &["--fsync", "none", "f", "g"]);
    assert!(text(&ran.stdout).starts_with("2.9 MiB to 1 node, read on rank 0: "), "{}", text(&ran.stdout));
    assert!(bcast(scratch.path(), &["-q", "f", "h"]).stdout.is_empty());
}

#[test]
fn errors_say_what_is_wrong_and_with_what() {
    let scratch = scratch("bcast-errors");
    fs::write(scratch.join("f"), "new").unwrap();
    fs::write(scratch.join("old"), "old").unwrap();
    fs::create_dir(scratch.join("d")).unwrap();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["f", "old"], 4, "atta: TARGET exists: old on "),
        (&["none", "x"], 4, "atta: cannot read FILE: none: no such file or directory (ENOENT)\n"),
        (&["d", "x"], 4, "atta: FILE is a directory: d\nhint: atta copy copies directories\n"),
        (&["/dev/null", "x"], 4, "atta: FILE is no regular file: /dev/null\n"),
        (&["f", "none/x"], 3, "the directory of TARGET does not exist: none/\n"),
        (&["f", "x/"], 3, "TARGET is no directory: x/\n"),
        (&["f", ""], 3, "TARGET is empty\n"),
        (&["f"], 2, "<TARGET>"),
    ];
    for (words, code, what) in cases {
        let ran = bcast(scratch.path(), words);
        assert_eq!(ran.status.code(), Some(code), "{words:?}: {}", text(&ran.stderr));
        assert!(text(&ran.stderr).contains(what), "{words:?}: {}", text(&ran.stderr));
    }
    assert_eq!(names(scratch.path()), ["d", "f", "old"]);
    assert_eq!(fs::read(scratch.join("old")).unwrap(), b"old");
    assert_eq!(bcast(scratch.path(), &["--force", "f", "old"]).status.code(), Some(0));
    assert_eq!(fs::read(scratch.join("old")).unwrap(), b"new");
    // Nothing is done to a file that is its own target.
    let ran = bcast(scratch.path(), &["f", "f"]);
    assert_eq!(text(&ran.stdout), "nothing written\n1 node: TARGET is FILE itself\n");
}

/// A copy that takes minutes: a terabyte of holes behind one block.
fn slow(directory: &Path) -> Child {
    let file = fs::File::create(directory.join("f")).unwrap();
    fs::write(directory.join("f"), vec![1; 4096]).unwrap();
    file.set_len(1 << 40).unwrap();
    fs::create_dir(directory.join("d")).unwrap();
    let mut command = atta();
    command.args(["bcast", "f", "d"]).current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while names(&directory.join("d")).len() < 2 {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "it has no partial file");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn what_a_killed_process_leaves_is_cleaned() {
    let scratch = scratch("bcast-killed");
    let child = slow(scratch.path());
    signal(&child, Signal::KILL);
    child.wait_with_output().unwrap();
    let left = names(&scratch.join("d"));
    assert!(left.len() == 2 && left.iter().all(|name| name.starts_with(".atta.")), "{left:?}");
    let clean =
        |words: &[&str]| atta().arg("clean").args(words).current_dir(scratch.path()).output().unwrap();
    let listed = clean(&["d"]);
    assert!(text(&listed.stdout).contains(&format!("d/{}", left[1])), "{}", text(&listed.stdout));
    assert_eq!(clean(&["--yes", "d"]).status.code(), Some(0));
    assert!(names(&scratch.join("d")).is_empty());
}

#[test]
fn interrupted_process_leaves_nothing() {
    let scratch = scratch("bcast-interrupted");
    let child = slow(scratch.path());
    signal(&child, Signal::INT);
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(130), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stderr), "atta: interrupted: no node has a copy\n");
    assert!(names(&scratch.join("d")).is_empty());
}
