//! `atta copy --job` and `atta resume`: copies that are killed go on from their log, and come to what an undisturbed copy comes to.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use atta_testkit::lock::Lock;
use atta_testkit::skip;
use atta_testkit::slow::{Operation, SlowFs};
use atta_testkit::{scratch::Scratch, trees};
use rustix::process::{Pid, Signal, kill_process};

use crate::resume::{interrupted, kill, logged, tree};
use crate::support::{atta, make_directory, make_file, names_in, number, run, scratch};
pub(crate) use crate::support::{signature, temporary, totals};

pub(crate) fn copy(arguments: &[&str]) -> Command {
    let mut command = atta();
    command.arg("copy").args(arguments);
    command
}

fn copy_job(job: &Path, source: &Path, target: &Path, more: &[&str]) -> Command {
    let mut command = copy(&["--json", "--fsync", "none", "--job"]);
    command.arg(job).args(more).arg(source).arg(target);
    command
}

/// Kills a copy when its log has grown.
fn killed(command: &mut Command, job: &Path, signal: Signal) -> Option<i32> {
    kill(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), job, signal)
}

/// Kills runs of a copy until one has found that many entries done in the log.
fn killed_half_way(command: &mut Command, job: &Path, least: u64) {
    for _ in 0..20 {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = child.stderr.take().unwrap();
        // The first frame of a later run has nothing of its own.
        for _ in 0..2 {
            let before = logged(job);
            while logged(job) == before {
                assert!(child.try_wait().unwrap().is_none(), "the copy ended before it was killed");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut said, &mut text).unwrap();
        let found =
            text.split(": ").last().and_then(|rest| rest.strip_suffix(" entries are not looked at again\n"));
        if found.is_some_and(|found| found.replace(',', "").parse().is_ok_and(|found: u64| found >= least)) {
            return;
        }
    }
    panic!("nothing was done in 20 runs");
}

pub(crate) fn assert_same(source: &Path, target: &Path) {
    run(atta().args(["verify", "--content"]).arg(source).arg(target)).expect_code(0);
    assert_eq!(temporary(target.parent().unwrap()), Vec::<PathBuf>::new());
}

#[test]
fn killed_copy_goes_on_to_the_same_copy() {
    let (scratch, source) = tree();
    let (job, target) = (scratch.join("job"), scratch.join("there/target"));
    make_directory(scratch.join("there"));
    let plain = run(copy(&["--json"]).arg(&source).arg(scratch.join("plain"))).expect_code(0);
    for (threads, signal, code) in
        [("1", Signal::KILL, None), ("3", Signal::TERM, Some(143)), ("2", Signal::KILL, None)]
    {
        let more = ["--iops", "5000", "-j", threads];
        assert_eq!(killed(&mut copy_job(&job, &source, &target, &more), &job, signal), code);
    }
    killed_half_way(&mut copy_job(&job, &source, &target, &["--iops", "5000"]), &job, 1);
    let ran = run(&mut copy_job(&job, &source, &target, &["-j3"])).expect_code(0);
    assert!(number(&ran.json(), "earlier.entries") > 0, "{}", ran.out());
    assert_eq!(totals(&ran), totals(&plain));
    assert_eq!(signature(&ran), signature(&plain));
    assert_same(&source, &target);
    // A job that is complete says again what it came to.
    let again = run(&mut copy_job(&job, &source, &target, &[])).expect_code(0);
    assert_eq!(totals(&again), totals(&plain));
    assert!(again.err().contains("is complete"), "{}", again.err());
    assert_eq!(names_in(&job).len(), 3, "holder, header and summary: {:?}", names_in(&job));
}

/// A process that is stopped holds its job. Nobody goes on with it meanwhile, and it ends as if nothing had happened.
#[test]
fn stopped_process_holds_its_job() {
    let (scratch, source) = tree();
    let (job, target) = (scratch.join("job"), scratch.join("target"));
    let mut command = copy_job(&job, &source, &target, &["--iops", "5000"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while logged(&job) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "the copy ended before it was stopped");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    for refused in [run(&mut copy_job(&job, &source, &target, &[])), run(atta().arg("resume").arg(&job))] {
        assert_eq!(refused.code(), 4, "{}", refused.err());
        assert!(refused.err().contains(&format!("pid {}", child.id())), "{}", refused.err());
    }
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    assert!(child.wait().unwrap().success());
    assert_same(&source, &target);
}

#[test]
fn killed_copies_into_a_directory_go_on_there() {
    let (scratch, source) = tree();
    let (job, target) = (scratch.join("job"), make_directory(scratch.join("target")));
    make_directory(target.join("tree"));
    make_file(target.join("tree/mine"), b"of somebody else");
    let other = make_file(scratch.join("other"), &vec![b'x'; 3 << 20]);
    let mut command = copy(&["--json", "--fsync", "none", "--iops", "5000", "--job", "job", "tree", "other"]);
    command.arg("target").current_dir(scratch.path());
    for _ in 0..3 {
        assert_eq!(killed(&mut command, &job, Signal::KILL), None);
    }
    run(atta().arg("resume").arg(&job)).expect_code(0);
    assert_eq!(std::fs::read(target.join("other")).unwrap(), std::fs::read(other).unwrap());
    assert_eq!(std::fs::read(target.join("tree/mine")).unwrap(), b"of somebody else");
    std::fs::remove_file(target.join("tree/mine")).unwrap();
    std::fs::File::open(&source).and_then(|from| from.metadata()).unwrap();
    run(atta().args(["verify", "--content"]).arg(&source).arg(target.join("tree")));
    assert_eq!(temporary(&target), Vec::<PathBuf>::new());
}

#[test]
fn interrupted_copy_says_how_to_go_on() {
    let (scratch, source) = tree();
    let job = scratch.join("a job");
    // With a slash, a directory that is there would be one that the copy is put into.
    let mut command = copy(&["-q", "--iops", "4000", "--job", "a job", "tree", "target/"]);
    let text = interrupted(command.current_dir(scratch.path()), &job);
    assert_eq!(text, "hint: to do what is left: atta resume 'a job'\n");
    run(atta().args(["resume", "a job"]).current_dir(scratch.path())).expect_code(0);
    assert_same(&source, &scratch.join("target"));
}

/// A tree, and a copy of it that was killed when some of its directories were complete.
fn half_done(label: &str) -> (Scratch, [PathBuf; 3]) {
    let scratch = scratch(label);
    let [source, target, job] = ["source", "target", "job"].map(|name| scratch.join(name));
    make_directory(&source);
    for number in 0..100 {
        trees::flat(&make_directory(source.join(format!("d{number}"))), 100).unwrap();
    }
    killed_half_way(&mut copy_job(&job, &source, &target, &["--iops", "1500", "-j1"]), &job, 1);
    (scratch, [source, target, job])
}

/// The directories of a tree, but temporary ones.
fn directories_in(tree: &Path) -> Vec<PathBuf> {
    let names = names_in(tree).into_iter().filter(|name| name.as_encoded_bytes().starts_with(b"d"));
    names.map(|name| tree.join(name)).collect()
}

#[test]
fn what_is_gone_from_the_target_is_copied_again() {
    let (_scratch, [source, target, job]) = half_done("resume-lost");
    let gone = directories_in(&target);
    gone.iter().skip(1).for_each(|directory| std::fs::remove_dir_all(directory).unwrap());
    // A file is gone, and its directory is there.
    std::fs::remove_file(names_in(&gone[0]).first().map(|name| gone[0].join(name)).unwrap()).unwrap();
    let ran = run(&mut copy_job(&job, &source, &target, &[])).expect_code(0);
    let said =
        " directories that the job has copied are gone from TARGET, are others, or lack files; one is d";
    assert!(ran.err().contains(said), "{}", ran.err());
    assert!(ran.err().contains("hint: it is copied again, with "), "{}", ran.err());
    assert_same(&source, &target);
    let plain = run(copy(&["--json"]).arg(&source).arg(target.with_extension("plain"))).expect_code(0);
    assert_eq!((totals(&ran), signature(&ran)), (totals(&plain), signature(&plain)));
}

/// What `rm -rf TARGET/*` removes. The files of the directory itself are gone, and it is still there.
#[test]
fn emptied_target_is_copied_again() {
    let scratch = scratch("resume-emptied");
    let [source, target, job] = ["source", "target", "job"].map(|name| scratch.join(name));
    trees::flat(&make_directory(&source), 3000).unwrap();
    for number in 0..50 {
        trees::flat(&make_directory(source.join(format!("d{number}"))), 100).unwrap();
    }
    let plain = run(copy(&["--json"]).arg(&source).arg(scratch.join("plain"))).expect_code(0);
    make_directory(&target);
    for _ in 0..2 {
        killed_half_way(&mut copy_job(&job, &source, &target, &["-T", "--iops", "2500", "-j1"]), &job, 3000);
        let names = names_in(&target).into_iter().map(|name| target.join(name));
        names.filter(|path| !temporary(&target).contains(path)).for_each(|path| {
            let is_directory = path.symlink_metadata().unwrap().is_dir();
            let remove = if is_directory { std::fs::remove_dir_all } else { std::fs::remove_file };
            remove(&path).unwrap();
        });
    }
    let ran = run(&mut copy_job(&job, &source, &target, &["-T"])).expect_code(0);
    assert_eq!((totals(&ran), signature(&ran)), (totals(&plain), signature(&plain)));
    assert_same(&source, &target);
}

#[test]
fn finished_directory_that_has_changed_is_reported() {
    let (scratch, [source, target, job]) = half_done("resume-changed");
    directories_in(&source).iter().for_each(|directory| drop(make_file(directory.join("new"), b"new")));
    let mut command = copy(&["--fsync", "none", "--job"]);
    let ran = run(command.arg(&job).arg(&source).arg(&target)).expect_code(3);
    assert!(ran.out().contains("changed since they were copied: "), "{}", ran.out());
    assert!(ran.out().contains("not looked at again: "), "{}", ran.out());
    // The advice does what it says.
    let said = ran.err();
    let hint = said.lines().find_map(|line| line.strip_prefix("hint: copy what has changed since with: "));
    let hint = hint.unwrap_or_else(|| panic!("{said}")).strip_prefix("atta ").unwrap();
    let command = format!("exec \"$ATTA\" {hint}");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).env("ATTA", atta().get_program()).current_dir(scratch.path());
    run(&mut shell).expect_code(0);
    assert_same(&source, &target);
}

#[test]
fn failed_files_are_tried_again_by_a_resume() {
    let test = "failed_files_are_tried_again_by_a_resume";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let builder = SlowFs::builder().directories(4, 2).files(30).latency(Duration::ZERO);
    let builder = builder.fail("open:f0000003:EIO:times=2");
    let Some(slow) = skip::unless_available(test, builder.mount()) else { return };
    let scratch = scratch("resume-failed-copy");
    let (job, target) = (scratch.join("job"), scratch.join("target"));
    let ran = run(&mut copy_job(&job, slow.path(), &target, &["-j1"])).expect_code(3);
    assert!(ran.err().contains("hint: to try again what failed: atta resume "), "{}", ran.err());
    let failed = number(&ran.json(), "failed");
    assert!(failed > 0, "{}", ran.out());
    let resumed = run(atta().arg("resume").arg(&job)).expect_code(0);
    let whole = run(copy(&["--json"]).arg(slow.path()).arg(scratch.join("whole"))).expect_code(0);
    assert_eq!(totals(&resumed), totals(&whole));
    assert_eq!(signature(&resumed), signature(&whole));
    assert_eq!(temporary(scratch.path()), Vec::<PathBuf>::new());
}

/// 200,000 files in two minutes, killed half-way. What is opened twice is what the last 12 s and two syncs did.
#[test]
#[ignore = "takes three minutes"]
fn finished_files_are_not_opened_again() {
    let test = "finished_files_are_not_opened_again";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let builder = SlowFs::builder().directories(2000, 1).files(100).latency(Duration::ZERO);
    let Some(slow) = skip::unless_available(test, builder.mount()) else { return };
    let scratch = scratch("resume-opened");
    let (job, target) = (scratch.join("job"), scratch.join("target"));
    let command = |more: &[&str]| {
        let mut command = copy(&["--json", "--job"]);
        command.arg(&job).args(more).arg(slow.path()).arg(&target);
        command
    };
    let iops = std::env::var("ATTA_IOPS").unwrap_or("2600".to_owned());
    let mut child = command(&["--iops", &iops]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(60));
    assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = run(&mut command(&[])).expect_code(0);
    let (files, earlier) = (number(&ran.json(), "files"), number(&ran.json(), "earlier.entries"));
    let opened = slow.finish().unwrap().of(Operation::Open);
    println!("{files} files, {earlier} entries were complete, {opened} files were opened");
    assert_eq!(files, 200_000);
    assert!(earlier > files / 8, "{earlier} entries were complete");
    // 12 s and two syncs are less than 20 s of 120.
    assert!(opened - files < files / 6, "{} files were opened twice", opened - files);
}

#[test]
fn names_of_one_file_stay_one_when_one_has_failed() {
    let test = "names_of_one_file_stay_one_when_one_has_failed";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = scratch("resume-failed-link");
    let [shown, target, job] = ["shown", "target", "job"].map(|name| scratch.join(name));
    make_directory(&shown);
    for directory in ["a", "b"] {
        make_directory(shown.join(directory));
    }
    let first = make_file(shown.join("a/first"), b"one file");
    std::fs::hard_link(&first, shown.join("b/second")).unwrap();
    let builder = SlowFs::builder().latency(Duration::ZERO).over(&shown).fail("lookup:second:EIO:times=1");
    let Some(slow) = skip::unless_available(test, builder.mount()) else { return };
    run(&mut copy_job(&job, slow.path(), &target, &["-j1"])).expect_code(3);
    assert!(target.join("a/first").exists() && !target.join("b/second").exists());
    let ran = run(&mut copy_job(&job, slow.path(), &target, &[])).expect_code(0);
    let inode = |name: &str| std::os::unix::fs::MetadataExt::ino(&target.join(name).metadata().unwrap());
    assert_eq!(inode("a/first"), inode("b/second"));
    assert_eq!((number(&ran.json(), "files"), number(&ran.json(), "hard_links")), (1, 1));
    assert_eq!(temporary(scratch.path()), Vec::<PathBuf>::new());
}

#[test]
fn other_copies_leave_what_a_job_has_copied() {
    let (scratch, [source, target, job]) = half_done("resume-beside");
    let beside = make_file(scratch.join("beside"), b"beside");
    let ran = run(copy(&[]).arg(&beside).arg(scratch.join("another"))).expect_code(0);
    assert!(ran.err().contains("another copy has not completed"), "{}", ran.err());
    run(&mut copy_job(&job, &source, &target, &[])).expect_code(0);
    assert_same(&source, &target);
    // Given up, it is removed by `atta clean` alone.
    let (scratch, [_, target, job]) = half_done("resume-given-up");
    run(atta().args(["clean", "--yes"]).arg(scratch.path())).expect_code(0);
    assert_eq!(temporary(scratch.path()), Vec::<PathBuf>::new());
    assert!(!directories_in(&target).is_empty(), "what has its name stays");
    drop(job);
}

#[test]
fn other_requests_are_refused_for_a_job_of_a_copy() {
    let (scratch, [source, target, job]) = half_done("resume-refused");
    let other = make_directory(scratch.join("other"));
    for (from, to, more, said) in [
        (&source, &target, "--verify", "it does not have --verify"),
        (&source, &target, "--exclude=*.o", "it does not have --exclude *.o"),
        (&source, &target, "--digest=none", "not --digest none"),
        (&other, &target, "-j2", "/source"),
        (&source, &other, "-j2", "TARGET "),
    ] {
        let ran = run(&mut copy_job(&job, from, to, &[more])).expect_code(2);
        assert!(ran.err().contains(said), "{more}: {}", ran.err());
    }
    for more in
        ["--manifest=list", "--from-list=list", "--repair=list", "-n", "--in-place", "--preserve=times"]
    {
        run(&mut copy_job(&job, &source, &target, &[more])).expect_code(2);
    }
    let none = scratch.join("none");
    run(&mut copy_job(&scratch.join("job-of-none"), &none, &target, &[])).expect_code(4);
    assert!(!scratch.join("job-of-none").exists(), "a copy of nothing has no job");
    run(&mut copy_job(&job, &source, &target, &[])).expect_code(0);
}

/// Of a directory that is not done: all of it is gone, or files of what is done are.
#[test]
fn names_of_a_half_done_directory_are_missed() {
    let scratch = scratch("resume-lost-flat");
    let [source, target] = ["source", "target"].map(|name| scratch.join(name));
    trees::flat(&make_directory(make_directory(&source).join("flat")), 30_000).unwrap();
    for all in [true, false] {
        let job = scratch.join(format!("job-{all}"));
        // Names of at least one slice.
        killed_half_way(&mut copy_job(&job, &source, &target, &["--iops", "7000", "-j1"]), &job, 4096);
        let flat = target.join(&names_in(&target)[0]);
        if all {
            std::fs::remove_dir_all(flat).unwrap();
        } else {
            names_in(&flat).iter().for_each(|name| std::fs::remove_file(flat.join(name)).unwrap());
        }
        let ran = run(&mut copy_job(&job, &source, &target, &[])).expect_code(0);
        let said = "is gone from TARGET, is another one, or lacks files: flat";
        assert!(ran.err().contains(said), "{}", ran.err());
        assert_eq!(number(&ran.json(), "files"), 30_000);
        assert_same(&source, &target);
        std::fs::remove_dir_all(&target).unwrap();
    }
}

/// SOURCE itself still has its temporary name, and files in it are done: 32 with 64 MiB and more are a part of their own. Only one run is killed: a
/// second one would find that files are gone.
#[test]
fn finished_files_of_a_half_done_source_stay() {
    let scratch = scratch("resume-source-half");
    let source = scratch.join("source");
    make_directory(&source);
    let bytes = vec![7; 21 << 17];
    (0..150).for_each(|number| drop(make_file(source.join(format!("{number:03}")), &bytes)));
    for attempt in 0..20 {
        let [target, job] = ["target", "job"].map(|name| scratch.join(format!("{name}-{attempt}")));
        let mut command = copy_job(&job, &source, &target, &["--bandwidth", "50M", "-j1"]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        // Of a part or two.
        while logged(&job) < 400 {
            assert!(child.try_wait().unwrap().is_none(), "the copy ended before it was killed");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!target.exists(), "the target has its name");
        let ran = run(&mut copy_job(&job, &source, &target, &[])).expect_code(0);
        assert_eq!(number(&ran.json(), "files"), 150);
        assert_same(&source, &target);
        if number(&ran.json()["earlier"], "entries") >= 32 {
            return;
        }
        std::fs::remove_dir_all(&target).unwrap();
    }
    panic!("nothing was done in 20 runs");
}

#[test]
fn job_of_a_tree_that_has_shrunk_comes_to_its_end() {
    let (_scratch, [source, target, job]) = half_done("resume-shrunk");
    directories_in(&source).iter().for_each(|directory| std::fs::remove_dir_all(directory).unwrap());
    let ran = run(&mut copy_job(&job, &source, &target, &[])).expect_code(3);
    assert_eq!(number(&ran.json(), "failed"), 0, "{}", ran.out());
    let again = run(&mut copy_job(&job, &source, &target, &[])).expect_code(3);
    assert!(again.err().contains("is complete"), "{}", again.err());
    assert_eq!(temporary(target.parent().unwrap()), Vec::<PathBuf>::new());
}

#[test]
fn large_file_goes_on_with_the_chunks_that_are_left() {
    let scratch = scratch("resume-large");
    let [source, target, job] = ["source", "target", "job"].map(|name| scratch.join(name));
    make_directory(&source);
    let bytes: Vec<u8> =
        (0..16 << 20_u32).flat_map(|word: u32| word.wrapping_mul(2_654_435_769).to_le_bytes()).collect();
    let large = make_file(source.join("large"), &bytes);
    let command = |more: &[&str]| {
        let mut command = copy_job(&job, &source, &target, &["--chunk", "1M"]);
        command.args(more);
        command
    };
    for threads in ["-j2", "-j1"] {
        assert_eq!(killed(&mut command(&["--bandwidth", "12M", threads]), &job, Signal::KILL), None);
    }
    let ran = run(&mut command(&["-j3"])).expect_code(0);
    let copied = number(&ran.json()["by_rank"][0], "bytes");
    assert!(copied < bytes.len() as u64 - (4 << 20), "{copied} bytes were copied again\n{}", ran.out());
    assert_eq!(number(&ran.json(), "bytes"), bytes.len() as u64);
    assert!(std::fs::read(target.join("large")).unwrap() == bytes);
    assert_same(&source, &target);
    let plain = run(copy(&["--json"]).arg(&source).arg(scratch.join("plain"))).expect_code(0);
    assert_eq!(signature(&ran), signature(&plain));
    // One that has changed is copied from its beginning, and nothing is left of the copy before.
    assert_eq!(killed(&mut command(&["--restart", "--bandwidth", "12M"]), &job, Signal::KILL), None);
    std::fs::write(&large, &bytes[..20 << 20]).unwrap();
    run(&mut command(&[])).expect_code(0);
    assert!(std::fs::read(target.join("large")).unwrap() == bytes[..20 << 20]);
    assert_same(&source, &target);
}

/// More bytes of chunks than may wait for the storage. No log has a file that is a SOURCE itself.
#[test]
fn large_sources_with_a_log_do_not_wait_for_ever() {
    let scratch = scratch("resume-source");
    let [directory, file] = ["directory", "directory/file"].map(|name| scratch.join(name));
    make_directory(&directory);
    std::fs::File::create(&file).unwrap().set_len(3 << 30).unwrap();
    for (number, source) in [&directory, &file].into_iter().enumerate() {
        let (job, target) = (scratch.join(format!("job-{number}")), scratch.join(format!("target-{number}")));
        let mut command = copy(&["-q", "--chunk", "64M", "--job"]);
        let mut child = command.arg(&job).arg(source).arg(&target).spawn().unwrap();
        // Only a test that fails waits so long.
        let began = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > Duration::from_secs(200) {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(child.wait().unwrap().code(), Some(0), "{}", source.display());
        let copied = if number == 0 { target.join("file") } else { target };
        assert_eq!(copied.metadata().unwrap().len(), 3 << 30);
    }
}

/// What is done waits for two syncs: the first run must last long enough.
#[test]
#[ignore = "takes half a minute"]
fn killed_copy_to_a_disk_goes_on() {
    let (scratch, source) = tree();
    let (job, target) = (scratch.join("job"), scratch.join("target"));
    let plain = run(copy(&["--json"]).arg(&source).arg(scratch.join("plain"))).expect_code(0);
    let command = |more: &[&str]| {
        let mut command = copy(&["--json", "--job"]);
        command.arg(&job).args(more).arg(&source).arg(&target);
        command
    };
    let mut child = command(&["--iops", "800"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(20));
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = run(&mut command(&[])).expect_code(0);
    assert!(number(&ran.json(), "earlier.entries") > 500, "{}", ran.out());
    assert_eq!((totals(&ran), signature(&ran)), (totals(&plain), signature(&plain)));
    assert_same(&source, &target);
}
