//! `atta copy` when it is killed or interrupted, and when another one runs: what is left, what is reported, and what `atta clean` removes.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{atta, scratch};

/// Larger than what is copied as a whole.
const LARGE: usize = 48 << 20;

/// A few small files, and a large one that takes long with `--bandwidth`.
fn tree(tree: &Path) {
    for directory in ["a", "b/c"] {
        fs::create_dir_all(tree.join(directory)).unwrap();
        fs::write(tree.join(directory).join("file"), directory).unwrap();
    }
    fs::write(tree.join("large"), vec![b'x'; LARGE]).unwrap();
}

/// Runs it in a directory.
fn atta_in(directory: &Path, words: &[&str]) -> Output {
    atta().args(words).current_dir(directory).output().unwrap()
}

fn out(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn err(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// All names of that form, at a directory or below it.
fn temporary(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(".atta.") {
            found.push(path.clone());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(temporary(&path));
        }
    }
    found
}

/// What is under a temporary name, but the private directories of runs.
fn unfinished(directory: &Path) -> Vec<PathBuf> {
    let is_of_work = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().matches('.').count() == 4;
    temporary(directory).into_iter().filter(is_of_work).collect()
}

/// The small files at a directory and below it; each of them is whole.
fn small_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(small_files(&path));
        } else if entry.file_name() == "file" && fs::read(&path).is_ok_and(|bytes| !bytes.is_empty()) {
            found.push(path);
        }
    }
    found
}

/// A copy that has begun to write its large file and is far from its end.
fn begun(here: &Path, words: &[&str]) -> Child {
    let mut command = atta();
    command.args(["copy", "--no-job", "--bandwidth", "2M", "-j", "2"]).args(words).current_dir(here);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
    let since = Instant::now();
    let has_begun =
        || unfinished(here).iter().any(|path| fs::metadata(path).is_ok_and(|found| found.len() > 1 << 20));
    while !has_begun() {
        assert!(since.elapsed() < Duration::from_secs(120), "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}

fn killed(here: &Path, words: &[&str]) {
    let mut child = begun(here, words);
    send(&child, Signal::KILL);
    child.wait().unwrap();
}

fn verify(here: &Path, source: &str, target: &str) {
    let ran = atta_in(here, &["verify", "--content", source, target]);
    assert!(ran.status.success(), "{}{}", out(&ran), err(&ran));
}

// Hazard 36.
#[test]
fn leftovers_are_removed_by_the_next_copy() {
    let scratch = scratch("left-killed");
    let here = scratch.path();
    tree(&here.join("tree"));
    // Into a new TARGET, into a directory, and into a directory that is merged into.
    fs::create_dir(here.join("dir")).unwrap();
    tree(&here.join("there/tree"));
    fs::write(here.join("there/tree/large"), "old").unwrap();
    for (target, place) in [("new", "."), ("dir", "dir"), ("there", "there")] {
        fs::write(here.join(place).join(".atta.mine"), "data").unwrap();
        killed(here, &["tree", target]);
        assert!(!unfinished(here).is_empty());
        let listed = atta_in(here, &["clean", "--json", place]);
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(
            (&listed["runs"][0]["state"], &listed["removed"]),
            (&"ended".into(), &false.into()),
            "{listed}"
        );
        assert!(listed["bytes"].as_u64().unwrap() > 1 << 20, "{listed}");
        assert!(!unfinished(here).is_empty(), "it only lists");
        let ran = atta_in(here, &["copy", "--update", "tree", target]);
        assert!(ran.status.success(), "{}", err(&ran));
        assert!(err(&ran).starts_with("atta: note: removed "), "{}", err(&ran));
        let left: Vec<_> = temporary(here).into_iter().filter(|path| !path.ends_with(".atta.mine")).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
        assert_eq!(fs::read(here.join(place).join(".atta.mine")).unwrap(), b"data");
        verify(
            here,
            "tree",
            if target == "new" {
                "new"
            } else if target == "dir" {
                "dir/tree"
            } else {
                "there/tree"
            },
        );
        fs::remove_file(here.join(place).join(".atta.mine")).unwrap();
    }
}

// Hazard 36.
#[test]
fn leftovers_need_their_record_to_be_removed() {
    let scratch = scratch("left-source");
    let here = scratch.path();
    tree(&here.join("tree"));
    fs::create_dir(here.join("dir")).unwrap();
    killed(here, &["tree/.", "dir"]);
    let left = unfinished(&here.join("dir"));
    // One may be in another one.
    let outer = left.iter().filter(|path| path.parent() == Some(&here.join("dir"))).count();
    fs::write(here.join("dir/.atta.0123456789ab"), "data").unwrap();
    fs::write(here.join("dir/.atta.0.01234567.0123456789abcdefgh"), "data").unwrap();
    for words in [&["copy", "--json", "dir", "copy"][..], &["copy", "--json", "--dry-run", "dir", "copied"]] {
        let ran = atta_in(here, words);
        assert!(ran.status.success(), "{}", err(&ran));
        let summary: Value = serde_json::from_slice(&ran.stdout).unwrap();
        // With the private directory of the run.
        assert_eq!(summary["unfinished_left_out"], outer + 1, "{summary}");
    }
    assert_eq!(fs::read(here.join("copy/.atta.0123456789ab")).unwrap(), b"data");
    assert_eq!(fs::read(here.join("copy/.atta.0.01234567.0123456789abcdefgh")).unwrap(), b"data");
    assert_eq!(temporary(&here.join("copy")).len(), 2);
    let is_home =
        |path: &PathBuf| path.is_dir() && path.to_string_lossy().ends_with(&format!(".atta.{}", uid()));
    let home = temporary(&here.join("dir")).into_iter().find(is_home);
    fs::remove_dir_all(home.unwrap()).unwrap();
    let ran = atta_in(here, &["copy", "--json", "dir", "all"]);
    let summary: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(summary["unfinished_left_out"], 0);
    assert_eq!(temporary(&here.join("all")).len(), left.len() + 2, "names that nothing proves are data");
}

// Hazard 36.
#[test]
fn leftovers_before_a_reboot_need_a_request() {
    let scratch = scratch("left-boot");
    let here = scratch.path();
    tree(&here.join("tree"));
    killed(here, &["tree", "new"]);
    let left = unfinished(here);
    let home = temporary(here).into_iter().find(|path| !left.contains(path)).unwrap();
    let record = fs::read_dir(home).unwrap().next().unwrap().unwrap().path().join("record");
    let text = fs::read_to_string(&record).unwrap();
    let boot = text.lines().find(|line| line.starts_with("boot ")).unwrap();
    fs::write(&record, text.replace(boot, "boot another")).unwrap();
    let ran = atta_in(here, &["copy", "tree", "other"]);
    assert!(ran.status.success());
    assert!(err(&ran).contains("may have left unfinished files in ."), "{}", err(&ran));
    assert!(err(&ran).contains("hint: remove them with: atta clean --yes -- ."), "{}", err(&ran));
    assert_eq!(unfinished(here), left);
    let ran = atta_in(here, &["clean", "."]);
    assert_eq!(ran.status.code(), Some(0));
    assert!(err(&ran).contains("hint: remove them with: atta clean --yes -- ."), "{}", err(&ran));
    assert_eq!(unfinished(here), left);
    let ran = atta_in(here, &["clean", "--yes", "--", "."]);
    assert_eq!((ran.status.code(), err(&ran)), (Some(0), String::new()));
    assert!(out(&ran).ends_with(" removed\n"), "{}", out(&ran));
    assert_eq!(temporary(here), Vec::<PathBuf>::new());
    verify(here, "tree", "other");
    assert_eq!(out(&atta_in(here, &["clean", "."])), "nothing to remove\n");
}

// Hazard 36.
#[test]
fn interrupted_copy_leaves_only_complete_files() {
    let scratch = scratch("left-interrupted");
    let here = scratch.path();
    tree(&here.join("tree"));
    fs::create_dir(here.join("dir")).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        for (target, root) in [("new", "new"), ("dir", "dir/tree")] {
            let child = begun(here, &["tree", target]);
            let before = small_files(here.join(target).parent().unwrap());
            send(&child, signal);
            let ran = child.wait_with_output().unwrap();
            assert_eq!(
                ran.status.code(),
                Some(if signal == Signal::INT { 130 } else { 143 }),
                "{}",
                err(&ran)
            );
            assert_eq!(temporary(here), Vec::<PathBuf>::new(), "{}{}", out(&ran), err(&ran));
            let root = here.join(root);
            assert!(root.is_dir(), "what is complete has its name");
            let after = small_files(&root);
            assert!(after.len() + 2 >= before.len(), "{before:?} {after:?}");
            assert!(!root.join("large").exists());
            fs::remove_dir_all(root).unwrap();
        }
    }
}

// Hazard 36.
#[test]
fn second_copy_to_the_same_new_name_is_refused() {
    let scratch = scratch("left-two");
    let here = scratch.path();
    tree(&here.join("tree"));
    tree(&here.join("other"));
    fs::create_dir(here.join("dir")).unwrap();
    for (target, place) in [("new", "."), ("dir", "dir")] {
        let mut first = begun(here, &["tree", target]);
        let ran = atta_in(here, &["copy", "tree", target]);
        assert_eq!(ran.status.code(), Some(4), "{}", err(&ran));
        let said = format!(": pid {} on ", first.id());
        assert!(
            err(&ran).contains("atta: another copy is making ") && err(&ran).contains(&said),
            "{}",
            err(&ran)
        );
        let listed = atta_in(here, &["clean", "--yes", place]);
        assert!(out(&listed).starts_with("running"), "{}", out(&listed));
        assert!(!unfinished(here).is_empty(), "what a running copy makes is left alone");
        let ran = match target {
            "dir" => {
                let refused = atta_in(here, &["copy", "--exclusive", "other", "dir"]);
                assert_eq!(refused.status.code(), Some(4), "{}", err(&refused));
                let ran = atta_in(here, &["copy", "other", "dir"]);
                let said = format!("note: another copy is writing to TARGET (pid {} on ", first.id());
                assert!(err(&ran).contains(&said), "{}", err(&ran));
                verify(here, "other", "dir/other");
                ran
            }
            _ => {
                let ran = atta_in(here, &["copy", "--exclusive", "other", "beside"]);
                assert_eq!(err(&ran), "");
                ran
            }
        };
        assert!(ran.status.success());
        send(&first, Signal::KILL);
        first.wait().unwrap();
        assert!(atta_in(here, &["clean", "--yes", place]).status.success());
        assert_eq!(temporary(here), Vec::<PathBuf>::new());
    }
}
