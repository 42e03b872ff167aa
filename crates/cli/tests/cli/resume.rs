//! `--job` and `atta resume`: walks that are killed go on from their log, and count what an undisturbed walk counts.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use atta_testkit::scratch::Scratch;
use atta_testkit::slow::SlowFs;
use atta_testkit::{lock::Lock, skip, trees};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Ran, at, atta, make_directory, make_file, number, run, scratch, walk};

/// A tree with directories of all sizes, and files with several names.
pub(crate) fn tree() -> (Scratch, PathBuf) {
    let scratch = scratch("resume");
    let tree = make_directory(scratch.join("tree"));
    trees::random(&make_directory(tree.join("random")), 9, 2500).unwrap();
    trees::flat(&make_directory(tree.join("flat")), 9_000).unwrap();
    for number in 0..400 {
        let directory = make_directory(tree.join(format!("d{number}")));
        trees::flat(&directory, 20).unwrap();
        if number % 3 == 0 {
            std::fs::hard_link(tree.join("d0/f0000001"), directory.join("again")).unwrap();
        }
    }
    (scratch, tree)
}

fn totals(ran: &Ran) -> Value {
    at(&ran.json(), "totals").clone()
}

fn walk_job(job: &Path, tree: &Path, more: &[&str]) -> Command {
    let mut command = walk(["--json", "--job"]);
    command.arg(job).args(more).arg(tree);
    command
}

/// The bytes of the logs of a job.
pub(crate) fn logged(job: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(job) else { return 0 };
    let files = files.map(|file| file.unwrap());
    let logs = files.filter(|file| file.file_name().as_encoded_bytes()[0].is_ascii_digit());
    logs.map(|log| log.metadata().unwrap().len()).sum()
}

/// Interrupts a run when its log has grown. Returns what it has said on standard error.
pub(crate) fn interrupted(command: &mut Command, job: &Path) -> String {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = child.stderr.take().unwrap();
    assert_eq!(kill(child, job, Signal::INT), Some(130));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut said, &mut text).unwrap();
    text
}

/// Kills a run when its log has grown.
pub(crate) fn kill(mut child: Child, job: &Path, signal: Signal) -> Option<i32> {
    let before = logged(job);
    while logged(job) == before && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    // It may have ended.
    let _ = kill_process(pid, signal);
    child.wait().unwrap().code()
}

#[test]
fn killed_walk_goes_on_and_counts_each_entry_once() {
    let (scratch, tree) = tree();
    let job = scratch.join("job");
    let expected = totals(&run(walk(["--json"]).arg(&tree)).expect_code(0));
    for (threads, signal, code) in
        [("1", Signal::KILL, None), ("3", Signal::TERM, Some(143)), ("2", Signal::KILL, None)]
    {
        let mut command = walk_job(&job, &tree, &["--iops", "4000", "-j", threads]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert_eq!(kill(child, &job, signal), code);
    }
    let ran = run(&mut walk_job(&job, &tree, &["-j3"])).expect_code(0);
    assert_eq!(totals(&ran), expected);
    assert!(ran.err().contains("entries are not looked at again"), "{}", ran.err());
    // A job that is complete says again what it came to.
    let again = run(&mut walk_job(&job, &tree, &[])).expect_code(0);
    assert_eq!(totals(&again), expected);
    assert!(again.err().contains("is complete"), "{}", again.err());
    let anew = run(&mut walk_job(&job, &tree, &["--restart", "--lite"])).expect_code(0);
    let entries = |ran: &Ran| number(&ran.json(), "totals.entries");
    assert_eq!((entries(&anew), anew.err()), (entries(&again), String::new()));
    let left: Vec<_> = std::fs::read_dir(&job).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "holder, header and summary: {left:?}");
}

/// Adds a file to each of the directories that `tree` has many of.
pub(crate) fn add_files(tree: &Path) {
    let names = std::fs::read_dir(tree).unwrap().map(|entry| entry.unwrap());
    let many = names.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"d"));
    many.for_each(|entry| drop(make_file(entry.path().join("new"), b"")));
}

#[test]
fn changed_directories_are_reported_by_a_walk() {
    let (scratch, tree) = tree();
    let job = scratch.join("job");
    let child = || {
        let mut command = walk_job(&job, &tree, &["--iops", "4000"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    for _ in 0..2 {
        assert_eq!(kill(child(), &job, Signal::KILL), None);
    }
    add_files(&tree);
    let ran = run(&mut walk_job(&job, &tree, &[])).expect_code(3);
    let changed = number(&ran.json(), "earlier.changed_directories");
    assert!((1..400).contains(&changed), "{changed}");
    let hint = "hint: the same command with --restart has all directories as they are now\n";
    assert!(ran.err().contains(hint), "{}", ran.err());
    // The summary of a job that is complete, and its exit code, are kept.
    let again = run(&mut walk_job(&job, &tree, &[])).expect_code(3);
    assert_eq!(number(&again.json(), "earlier.changed_directories"), changed);
    let anew = run(&mut walk_job(&job, &tree, &["--restart"])).expect_code(0);
    assert_eq!(totals(&anew), totals(&run(walk(["--json"]).arg(&tree)).expect_code(0)));
    assert_eq!(at(&anew.json(), "earlier"), &Value::Null);
}

// What is read by a later run is looked at by that run: of directories that were found before, and not read, no change is reported.
#[test]
fn directories_read_by_a_later_run_have_not_changed() {
    let scratch = scratch("resume-read-later");
    let (job, tree) = (scratch.join("job"), make_directory(scratch.join("tree")));
    for number in 0..300 {
        trees::flat(&make_directory(tree.join(format!("d{number}"))), 20).unwrap();
    }
    let killed = |iops, growths| killed_slowly((&job, &tree), iops, growths);
    let has_begun = (2..8).any(|growths| {
        killed("600", growths);
        killed("600", 1) > 20
    });
    assert!(has_begun, "no directory was done");
    add_files(&tree);
    killed("1500", 3);
    let ran = run(&mut walk_job(&job, &tree, &[]));
    let changed = number(&ran.json(), "earlier.changed_directories");
    // Each of those that the first run has read lacks one name.
    let whole = run(walk(["--json"]).arg(&tree)).expect_code(0);
    let entries = |ran: &Ran| number(&ran.json(), "totals.entries");
    assert_eq!(entries(&ran) + changed, entries(&whole));
    ran.expect_code(if changed > 0 { 3 } else { 0 });
}

/// Walks with so many operations a second, and kills that when its log has grown so often. Returns how many entries earlier runs have done.
fn killed_slowly((job, tree): (&Path, &Path), iops: &str, growths: usize) -> u64 {
    let mut command = walk_job(job, tree, &["--iops", iops, "-j1"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 1..growths {
        let before = logged(job);
        while logged(job) == before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let mut said = child.stderr.take().unwrap();
    assert_eq!(kill(child, job, Signal::KILL), None);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut said, &mut text).unwrap();
    let done = text.split_once("Z: ").and_then(|(_, rest)| rest.split_once(" entries"));
    done.map_or(0, |(done, _)| done.replace(',', "").parse().unwrap())
}

// Some of its names are done, and the directory is not.
#[test]
fn change_of_a_half_read_directory_is_reported() {
    let scratch = scratch("resume-half");
    let (job, tree) = (scratch.join("job"), make_directory(scratch.join("tree")));
    let flat = make_directory(tree.join("flat"));
    trees::flat(&flat, 40_000).unwrap();
    let killed = |growths| killed_slowly((&job, &tree), "7000", growths);
    let is_half_read = (3..8).any(|growths| {
        killed(growths);
        killed(1) > 4096
    });
    assert!(is_half_read, "no slice was done");
    std::fs::rename(flat.join("f0000001"), flat.join("other")).unwrap();
    // A run that reads it again does not make it a directory that has not changed.
    assert!(killed(3) > 4096);
    let ran = run(&mut walk_job(&job, &tree, &[])).expect_code(3);
    assert_eq!(number(&ran.json(), "earlier.changed_directories"), 1);
}

#[test]
fn resume_runs_the_command_of_the_job_again() {
    let (scratch, tree) = tree();
    let job = scratch.join("job");
    let mut command = walk(["--json", "--iops", "4000", "--exclude", "d7*", "--job", "job", "tree"]);
    command.current_dir(scratch.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    assert_eq!(kill(child, &job, Signal::KILL), None);
    let expected = run(walk(["--json", "--exclude", "d7*"]).arg(&tree)).expect_code(0);
    let ran = run(atta().arg("resume").arg(&job)).expect_code(0);
    assert_eq!(totals(&ran), totals(&expected));
}

#[test]
fn directories_that_are_gone_stay_failures() {
    let scratch = scratch("resume-gone");
    let (tree, job) = (make_directory(scratch.join("tree")), scratch.join("job"));
    for number in 0..300 {
        trees::flat(&make_directory(tree.join(format!("d{number}"))), 30).unwrap();
    }
    let errors = scratch.join("errors");
    let walk = |options: &[&str]| {
        let mut command = walk_job(&job, &tree, options);
        command.arg("--errors").arg(&errors);
        command
    };
    let mut missing = std::collections::BTreeSet::new();
    for run in 0..3 {
        let mut command = walk(&["--iops", "700", "-j1"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = child.stderr.take().unwrap();
        // The first frame of a later run has nothing of its own. A directory that is found takes some 11 bytes.
        let before = if run == 0 { 300 * 12 } else { logged(&job) };
        while logged(&job) <= before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(kill(child, &job, Signal::KILL), None);
        if run == 0 {
            (0..300)
                .step_by(7)
                .for_each(|gone| std::fs::remove_dir_all(tree.join(format!("d{gone}"))).unwrap());
        }
        let mut text = String::new();
        std::io::Read::read_to_string(&mut said, &mut text).unwrap();
        missing.extend(named(&text));
    }
    let ran = run(&mut walk(&["-j2"])).expect_code(3);
    let errors = std::fs::read_to_string(errors).unwrap();
    let failed: std::collections::BTreeSet<String> = named(&errors).collect();
    assert!(
        !failed.is_empty() && missing.is_subset(&failed),
        "{missing:?} were missing; the last run has {failed:?}"
    );
    assert_eq!(number(&ran.json(), "errors.count"), failed.len() as u64);
    // A directory that was done before has no failure; nor has one that was not found before.
    let files = number(&ran.json(), "totals.by_kind.file");
    assert!(
        files.is_multiple_of(30) && files >= 30 * (300 - 43) && files + 30 * failed.len() as u64 <= 9000,
        "{files}"
    );
}

/// The names below `tree` in these lines of errors, for people or as JSON.
fn named(lines: &str) -> impl Iterator<Item = String> {
    lines.lines().filter_map(|line| {
        let name = line.split("/tree/").nth(1)?;
        Some(name.chars().take_while(char::is_ascii_alphanumeric).collect())
    })
}

#[test]
fn missing_tree_is_not_taken_for_an_empty_one() {
    let (scratch, tree) = tree();
    let job = scratch.join("job");
    let expected = totals(&run(walk(["--json"]).arg(&tree)).expect_code(0));
    let mut command = walk_job(&job, &tree, &["--iops", "4000"]);
    kill(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), &job, Signal::KILL);
    let away = scratch.join("away");
    std::fs::rename(&tree, &away).unwrap();
    for what in ["missing", "empty", "another", "link"] {
        match what {
            "missing" => {}
            "empty" => std::fs::create_dir(&tree).unwrap(),
            "another" => drop(trees::flat(&tree, 10)),
            _ => {
                std::fs::remove_dir_all(&tree).unwrap();
                std::os::unix::fs::symlink("/etc", &tree).unwrap();
            }
        }
        let ran = run(&mut walk_job(&job, &tree, &[])).expect_code(2);
        assert!(ran.err().contains("is the directory of another job: it has "), "{what}: {}", ran.err());
    }
    std::fs::remove_file(&tree).unwrap();
    std::fs::rename(&away, &tree).unwrap();
    // A directory that is a file by now, and one that is gone, are looked for once.
    std::fs::remove_dir_all(tree.join("flat")).unwrap();
    std::fs::write(tree.join("flat"), "a file").unwrap();
    run(&mut walk_job(&job, &tree, &[]));
    let ran = run(&mut walk_job(&job, &tree, &[]));
    assert!(ran.err().contains("is complete"), "{}", ran.err());
    assert!(
        number(&ran.json(), "totals.entries")
            <= number(&serde_json::json!({"totals": expected}), "totals.entries")
    );
    // The first run of a job does not complete it without its tree.
    let none = scratch.join("none");
    let other = scratch.join("other-job");
    for _ in 0..2 {
        let ran = run(&mut walk_job(&other, &none, &[])).expect_code(3);
        assert!(!ran.err().contains("is complete"), "{}", ran.err());
    }
}

#[test]
fn job_directory_is_left_out_of_the_tree() {
    let (_scratch, tree) = tree();
    let job = tree.join("job");
    for option in ["--targets", "--lite"] {
        let expected = totals(&run(walk(["--json", option]).arg(&tree)).expect_code(0));
        for more in [vec![option], vec!["--restart", option]] {
            let ran = run(&mut walk_job(&job, &tree, &more)).expect_code(0);
            assert_eq!(totals(&ran)["entries"], expected["entries"], "{more:?}");
        }
        std::fs::remove_dir_all(&job).unwrap();
    }
}

#[test]
fn interrupted_walk_says_how_to_go_on() {
    let (scratch, tree) = tree();
    let job = scratch.join("a job");
    let mut command = walk(["--iops", "4000", "--job", "a job"]);
    command.arg(&tree).current_dir(scratch.path());
    let text = interrupted(&mut command, &job);
    assert_eq!(text, "hint: to do what is left: atta resume 'a job'\n");
    run(atta().args(["resume", "a job"]).current_dir(scratch.path())).expect_code(0);
}

#[test]
fn failed_directory_is_tried_again_by_a_resume() {
    let test = "failed_directory_is_tried_again_by_a_resume";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let builder = SlowFs::builder().directories(4, 2).files(30).latency(Duration::ZERO);
    // Once for each run, but the last.
    let builder = builder.fail("opendir:d0001:EIO:times=1").fail("lookup:f0000003:EIO:times=1");
    let Some(slow) = skip::unless_available(test, builder.mount()) else { return };
    let scratch = scratch("resume-failed");
    let job = scratch.join("job");
    let ran = run(&mut walk_job(&job, slow.path(), &["-j1"])).expect_code(3);
    assert!(ran.err().contains("hint: to try again what failed: atta resume "), "{}", ran.err());
    let failed = number(&ran.json(), "errors.count");
    assert!(failed > 0, "{}", ran.out());
    let resumed = run(atta().arg("resume").arg(&job)).expect_code(0);
    let whole = run(walk(["--json"]).arg(slow.path())).expect_code(0);
    assert_eq!(totals(&resumed), totals(&whole));
    assert_eq!(number(&resumed.json(), "errors.count"), 0);
}

/// The log fails twice, so the run stops. What it had written counts.
#[test]
fn job_directory_that_fails_stops_the_run() {
    let test = "job_directory_that_fails_stops_the_run";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let (scratch, tree) = tree();
    let whole = run(walk(["--json"]).arg(&tree)).expect_code(0);
    for (number, (rule, said)) in [
        ("write:job/?.?*:EIO:skip=2", "input/output error (EIO)"),
        ("fsync:job/?.?*:EIO", "input/output error (EIO)"),
        ("write,fallocate:job/?.?*:ENOSPC:skip=3", "no space left on device (ENOSPC)"),
        ("write,fallocate:job/?.?*:EROFS:skip=3", "read-only file system (EROFS)"),
        ("create:job/?.?*:EROFS", "read-only file system (EROFS)"),
    ]
    .into_iter()
    .enumerate()
    {
        let below = make_directory(scratch.join(format!("below{number}")));
        let builder = SlowFs::builder().latency(Duration::ZERO).over(&below).fail(rule);
        let Some(slow) = skip::unless_available(test, builder.mount()) else { return };
        let ran = run(&mut walk_job(&slow.path().join("job"), &tree, &["--iops", "8000"])).expect_code(4);
        assert!(ran.err().contains(said), "{rule}: {}", ran.err());
        assert!(ran.err().contains("log 1.0"), "{rule}: {}", ran.err());
        drop(slow);
        let resumed = run(&mut walk_job(&below.join("job"), &tree, &[])).expect_code(0);
        assert_eq!(totals(&resumed), totals(&whole), "{rule}");
    }
}

#[test]
fn other_requests_are_refused_for_a_job() {
    let (scratch, tree) = tree();
    let job = scratch.join("job");
    let mut held = walk_job(&job, &tree, &["--iops", "500"]);
    let mut child = held.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !job.join("job").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let ran = run(&mut walk_job(&job, &tree, &[])).expect_code(4);
    let holder = format!("is running: pid {} on ", child.id());
    assert!(ran.err().contains(&holder), "{}", ran.err());
    child.kill().unwrap();
    child.wait().unwrap();
    let other = make_directory(scratch.join("other"));
    let tree_name = tree.to_str().unwrap();
    for (arguments, said) in [
        (vec!["--lite", tree_name], "it does not have --lite"),
        (vec!["--exclude", "*.o", tree_name], "it does not have --exclude *.o"),
        (vec![other.to_str().unwrap()], "/other"),
        (vec![tree_name, tree_name], "takes each PATH once"),
    ] {
        let ran = run(walk(["--job"]).arg(&job).args(&arguments)).expect_code(2);
        assert!(ran.err().contains(said), "{arguments:?}: {}", ran.err());
    }
    for more in ["--print", "--format=csv", "--output=catalog", "--from-list=list", "--follow"] {
        run(&mut walk_job(&job, &tree, &[more])).expect_code(2);
    }
    let file = make_file(scratch.join("file"), b"data");
    for job in [other.as_path(), &file, &scratch.join("none")] {
        let ran = run(atta().arg("resume").arg(job)).expect_code(2);
        assert!(ran.err().contains("there is no unfinished job in "), "{}", ran.err());
    }
}
