//! Copies without `--job` that are killed: the same command goes on, and a copy that has come to its end leaves nothing.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use atta_testkit::lock::Lock;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use atta_testkit::slow::SlowFs;
use atta_testkit::trees;
use rustix::process::{Pid, Signal, kill_process};

use crate::resume::logged;
use crate::resume_copy::{assert_same, copy, signature, temporary, totals};
use crate::support::{
    Ran, atta, give_to_nobody, make_directory, make_file, names_in, number, run, scratch, set_mode,
    unprivileged,
};

/// A tree with directories of all sizes, and files with several names.
fn tree() -> (Scratch, PathBuf) {
    let scratch = scratch("job");
    let tree = make_directory(scratch.join("tree"));
    trees::random(&make_directory(tree.join("random")), 9, 500).unwrap();
    trees::flat(&make_directory(tree.join("flat")), 4_500).unwrap();
    for number in 0..100 {
        let directory = make_directory(tree.join(format!("d{number}")));
        trees::flat(&directory, 8).unwrap();
        if number % 3 == 0 {
            std::fs::hard_link(tree.join("d0/f0000001"), directory.join("again")).unwrap();
        }
    }
    (scratch, tree)
}

fn home(top: &Path) -> PathBuf {
    top.join(format!(".atta.{}", rustix::process::geteuid().as_raw()))
}

/// The directories of jobs in a directory that copies are put into.
pub(crate) fn jobs_in(top: &Path) -> Vec<PathBuf> {
    let is_home = |name: &std::ffi::OsString| {
        let uid = name.as_encoded_bytes().strip_prefix(b".atta.");
        uid.is_some_and(|uid| !uid.is_empty() && uid.iter().all(u8::is_ascii_digit))
    };
    let homes = names_in(top).into_iter().filter(is_home).map(|name| top.join(name));
    let jobs = homes.filter(|home| home.is_dir()).flat_map(|home| {
        let names = names_in(&home).into_iter();
        let jobs = names.filter(|name| name.as_encoded_bytes().starts_with(b"job."));
        jobs.map(move |name| home.join(name)).collect::<Vec<_>>()
    });
    jobs.collect()
}

fn copy_in(here: &Path, words: &[&str]) -> Command {
    let mut command = copy(&["--json", "--fsync", "none"]);
    command.args(words).current_dir(here);
    command
}

/// Ends a copy when its log has grown. Returns what it has said on standard error.
fn ended(command: &mut Command, top: &Path, signal: Signal) -> String {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = child.stderr.take().unwrap();
    let sum = || jobs_in(top).iter().map(|job| logged(job)).sum::<u64>();
    let since = Instant::now();
    // The first frame of a later run has nothing of its own.
    for _ in 0..2 {
        let before = sum();
        while sum() <= before {
            assert!(since.elapsed() < Duration::from_secs(100), "it writes no log");
            if child.try_wait().unwrap().is_some() {
                let mut text = String::new();
                std::io::Read::read_to_string(&mut said, &mut text).unwrap();
                panic!("it ended before: {text}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
    child.wait().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut said, &mut text).unwrap();
    text
}

/// Runs the command of the only hint that begins with these words.
fn run_hint(said: &str, words: &str, here: &Path) -> Ran {
    let hint = said.lines().find_map(|line| line.split_once(words).map(|(_, rest)| rest));
    let hint = hint.unwrap_or_else(|| panic!("no {words} in {said}")).strip_prefix("atta ").unwrap();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec \"$ATTA\" {hint}")).env("ATTA", atta().get_program()).current_dir(here);
    run(&mut shell)
}

/// The copy of [`tree`] takes 8 s: two runs that are killed after two frames leave something to do, also on a busy machine.
const SLOWLY: [&str; 2] = ["--iops", "700"];

/// `tree`, and a copy of it named `target` that was killed.
fn killed() -> (Scratch, PathBuf) {
    let (scratch, source) = tree();
    ended(copy_in(scratch.path(), &["tree", "target"]).args(SLOWLY), scratch.path(), Signal::KILL);
    (scratch, source)
}

#[test]
fn same_command_goes_on_after_a_kill() {
    let (scratch, source) = tree();
    let here = scratch.path();
    let plain = run(copy(&["--json"]).arg(&source).arg(scratch.join("plain"))).expect_code(0);
    make_directory(here.join("into"));
    make_directory(here.join("merged"));
    let inside = make_directory(here.join("inside"));
    for (words, top, made) in [
        (&["tree", "target/"][..], here, here.join("target")),
        (&["tree", "into"], &*here.join("into"), here.join("into/tree")),
        (&["-T", "tree", "merged"], here, here.join("merged")),
        (&["-T", "tree/", "inside/"], &*inside, inside.clone()),
    ] {
        for signal in [Signal::TERM, Signal::KILL] {
            ended(copy_in(here, words).args(SLOWLY), top, signal);
            assert_eq!(jobs_in(top).len(), 1, "{words:?}");
        }
        let ran = run(&mut copy_in(here, words)).expect_code(0);
        assert!(ran.err().contains(": resuming the job in "), "{}", ran.err());
        assert!(number(&ran.json(), "earlier.entries") > 0, "{words:?} {}", ran.out());
        assert_eq!((totals(&ran), signature(&ran)), (totals(&plain), signature(&plain)), "{words:?}");
        assert_same(&source, &made);
        let mtime = |path: &Path| path.metadata().map(|found| (found.mtime(), found.mtime_nsec())).unwrap();
        assert_eq!(mtime(&made), mtime(&source), "{words:?}");
    }
    // Then it is another copy, which looks at everything.
    let again = run(&mut copy_in(here, &["tree", "into"])).expect_code(0);
    assert!(again.json()["earlier"].is_null(), "{}", again.out());
}

#[test]
fn hint_after_a_signal_goes_on() {
    let (scratch, source) = tree();
    let words = ", give the same command again, or: ";
    // Before there is a log, and after.
    let mut early = copy_in(scratch.path(), &["--iops", "1400", "tree", "early"]);
    let mut child = early.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while temporary(scratch.path()).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    run_hint(&said, words, scratch.path()).expect_code(0);
    assert_same(&source, &scratch.join("early"));
    let mut command = copy_in(scratch.path(), &["tree", "target"]);
    let said = ended(command.args(SLOWLY), scratch.path(), Signal::INT);
    run_hint(&said, words, scratch.path()).expect_code(0);
    assert_same(&source, &scratch.join("target"));
    // An update that is given again looks at everything: only the job itself goes on.
    let mut command = copy_in(scratch.path(), &["--update", "tree", "updated"]);
    let said = ended(command.args(SLOWLY), scratch.path(), Signal::INT);
    run_hint(&said, "hint: to do what is left: ", scratch.path()).expect_code(0);
    assert_same(&source, &scratch.join("updated"));
}

#[test]
fn target_names_its_job_to_resume() {
    let (scratch, source) = killed();
    let (here, target) = (scratch.path(), scratch.join("target"));
    run(atta().args(["resume", "none"]).current_dir(here)).expect_code(2);
    run(atta().args(["resume", "target"]).current_dir(here)).expect_code(0);
    assert_same(&source, &target);
    make_directory(here.join("into"));
    for (from, pace) in [("tree", "1400"), ("tree/random", "100")] {
        ended(&mut copy_in(here, &["--iops", pace, from, "into"]), &here.join("into"), Signal::KILL);
    }
    let ran = run(atta().arg("resume").arg(here.join("into"))).expect_code(2);
    assert!(ran.err().contains("there are 2 unfinished jobs in "), "{}", ran.err());
    for from in ["tree", "tree/random"] {
        run(&mut copy_in(here, &[from, "into"])).expect_code(0);
    }
    assert_eq!(temporary(here), Vec::<PathBuf>::new());
}

#[test]
fn jobs_are_listed_and_shown() {
    let (scratch, _) = tree();
    let here = scratch.path();
    let state = here.join("state");
    let with_state = |words: &[&str]| {
        let mut command = atta();
        command.args(words).env("XDG_STATE_HOME", &state).current_dir(here);
        command
    };
    let listed = |words: &[&str]| {
        let json = run(&mut with_state(words)).expect_code(0).json();
        let jobs = json["jobs"].as_array().unwrap().clone();
        jobs.iter().map(|job| job["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(run(&mut with_state(&["jobs"])).expect_code(0).out(), "no jobs\n");
    let words = ["copy", "-q", "--fsync", "none", "--iops", "1400", "tree", "target"];
    ended(&mut with_state(&words), here, Signal::KILL);
    assert_eq!((listed(&["jobs", "--json"]), listed(&["jobs", "--json", "target"])), {
        let state = vec!["interrupted".to_owned()];
        (state.clone(), state)
    });
    let out = run(&mut with_state(&["jobs"])).expect_code(0).out();
    assert!(out.contains(" atta copy -q --fsync none --iops 1400 tree target\n"), "{out}");
    let number = out.lines().nth(1).unwrap().split(' ').next().unwrap();
    let shown = run(&mut with_state(&["jobs", "show", number])).expect_code(0).out();
    assert!(shown.contains("  in its log ") && shown.contains("go on with atta resume "), "{shown}");
    run(&mut with_state(&["jobs", "show", "none"])).expect_code(2);
    run(&mut with_state(&["resume", "target"])).expect_code(0);
    assert_eq!(listed(&["jobs", "--json"]), ["complete"]);
    assert_eq!(listed(&["jobs", "--json", "target"]), Vec::<String>::new(), "nothing is left there");
    let shown = run(&mut with_state(&["jobs", "show", "--json", number])).expect_code(0).json();
    assert!(shown["summary"]["signature"].is_string() && shown["exit_code"] == 0, "{shown}");
    // One that cannot be looked at is kept; one whose directory was removed is said once.
    let words = words.map(|word| if word == "target" { "there/other" } else { word });
    let there = make_directory(here.join("there"));
    ended(&mut with_state(&words), &there, Signal::KILL);
    std::fs::rename(&there, here.join("away")).unwrap();
    assert_eq!(listed(&["jobs", "--json"]), ["complete", "unreachable"]);
    std::fs::rename(here.join("away"), &there).unwrap();
    assert_eq!(listed(&["jobs", "--json"]), ["complete", "interrupted"]);
    run(&mut with_state(&["clean", "--yes", "there"])).expect_code(0);
    assert_eq!(listed(&["jobs", "--json"]), ["complete", "gone"]);
    assert_eq!(listed(&["jobs", "--json"]), ["complete"]);
}

#[test]
fn short_copy_leaves_no_job() {
    let scratch = scratch("job-short");
    let source = make_directory(scratch.join("source"));
    make_file(source.join("file"), b"file");
    let trace = scratch.join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=mkdirat,mkdir,syncfs", "-o"]).arg(&trace).arg(atta().get_program());
    run(strace.args(["copy", "-q"]).arg(&source).arg(scratch.join("target"))).expect_code(0);
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains(".atta.") && !trace.contains("job."), "{trace}");
    // One before names, one at the end. A third one is for the log, and comes after 5 s.
    assert!(trace.matches(" syncfs(").count() <= 2, "{trace}");
    assert_eq!(temporary(scratch.path()), Vec::<PathBuf>::new());
}

#[test]
fn copy_that_ends_with_failures_leaves_no_job() {
    let test = "copy_that_ends_with_failures_leaves_no_job";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let builder = SlowFs::builder().directories(20, 1).files(30).latency(Duration::from_millis(2));
    let Some(slow) = skip::unless_available(test, builder.fail("open:f0000003:EIO").mount()) else { return };
    let scratch = scratch("job-failed");
    let target = scratch.join("target");
    let mut command = copy(&["--json", "--fsync", "none", "-j1"]);
    let child = command.arg(slow.path()).arg(&target).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    let mut had_job = false;
    while child.try_wait().unwrap().is_none() {
        had_job |= !jobs_in(scratch.path()).is_empty();
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(had_job, "it was too short for a job");
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(temporary(scratch.path()), Vec::<PathBuf>::new());
}

#[test]
fn other_options_do_not_go_on() {
    let (scratch, source) = killed();
    let here = scratch.path();
    let ran = run(&mut copy_in(here, &["--exclude", "d1*", "tree", "target"])).expect_code(2);
    assert!(
        ran.err().contains("is the directory of another job: it does not have --exclude"),
        "{}",
        ran.err()
    );
    assert!(ran.err().contains("with --restart"), "{}", ran.err());
    // An update looks at everything, and removes what the killed run has not completed.
    make_file(source.join("d7/new"), b"new");
    let ran = run(&mut copy_in(here, &["--update", "tree", "target"])).expect_code(0);
    assert!(ran.json()["earlier"].is_null(), "{}", ran.out());
    assert_same(&source, &scratch.join("target"));
    let (scratch, source) = killed();
    let ran = run(&mut copy_in(scratch.path(), &["--restart", "-T", "tree", "target"])).expect_code(0);
    assert!(ran.json()["earlier"].is_null(), "{}", ran.out());
    assert_same(&source, &scratch.join("target"));
}

#[test]
fn running_job_is_refused() {
    let (scratch, _) = tree();
    make_directory(scratch.join("into"));
    let mut command = copy_in(scratch.path(), &["--iops", "300", "tree", "into"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while jobs_in(&scratch.join("into")).iter().map(|job| logged(job)).sum::<u64>() == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    for more in [&[][..], &["--update"], &["--restart"]] {
        let ran = run(copy_in(scratch.path(), more).args(["tree", "into"])).expect_code(4);
        assert!(ran.err().contains(&format!("is running: pid {} on ", child.id())), "{}", ran.err());
    }
    let ran = run(atta().args(["clean", "--yes"]).arg(scratch.join("into"))).expect_code(0);
    assert!(ran.out().contains("left alone"), "{}", ran.out());
    assert_eq!(jobs_in(&scratch.join("into")).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn other_copies_leave_a_killed_one_alone() {
    let (scratch, source) = killed();
    let here = scratch.path();
    make_file(scratch.join("beside"), b"beside");
    let ran = run(&mut copy_in(here, &["beside", "another"])).expect_code(0);
    assert!(ran.err().contains(" has what another copy has not completed "), "{}", ran.err());
    // It is no data.
    let ran = run(copy_in(here, &["--no-job", ".", "/dev/shm"]).args(["-n", "-v"]));
    assert!(!ran.out().contains("job."), "{}", ran.out());
    let said = run(&mut copy_in(here, &["beside", "another"])).expect_code(0).err();
    let hint = said.split_once("go on with it: ").unwrap().1.split_once("; or give it up").unwrap().0;
    run_hint(&format!("run: {hint}"), "run: ", here).expect_code(0);
    assert_same(&source, &scratch.join("target"));
    let (scratch, _) = killed();
    let listed = run(atta().arg("clean").arg(scratch.path())).expect_code(0);
    assert!(!jobs_in(scratch.path()).is_empty(), "it only lists: {}", listed.out());
    run(atta().args(["clean", "--yes"]).arg(scratch.path())).expect_code(0);
    assert_eq!(temporary(scratch.path()), Vec::<PathBuf>::new());
    run(&mut copy_in(scratch.path(), &["tree", "new"])).expect_code(0);
}

/// It was killed between the two.
#[test]
fn job_without_a_log_begins_again() {
    for (words, made) in [(&["tree", "target"], "target"), (&["tree", "into"], "into/tree")] {
        let (scratch, source) = tree();
        let here = scratch.path();
        make_directory(here.join("into"));
        run(copy(&["-q"]).arg(&source).arg(here.join("into"))).expect_code(0);
        let top = if made == "target" { here.to_owned() } else { here.join("into") };
        ended(copy_in(here, words).args(SLOWLY), &top, Signal::KILL);
        std::fs::remove_file(jobs_in(&top)[0].join("1.0")).unwrap();
        run(&mut copy_in(here, words)).expect_code(0);
        run(atta().args(["verify", "-q", "--content"]).arg(&source).arg(here.join(made))).expect_code(0);
        assert_eq!(temporary(here), Vec::<PathBuf>::new(), "{words:?}");
    }
}

#[test]
fn job_ends_although_nobody_reads_the_summary() {
    let (scratch, source) = tree();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = copy_in(scratch.path(), &["tree", "target"]);
    let status = command.args(["--iops", "3000"]).stdout(full).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(4));
    assert_same(&source, &scratch.join("target"));
}

/// As home directories are on many hosts. Whether there is a job in it is not known, and not needed.
#[test]
fn directory_above_target_need_not_be_readable() {
    let Some((scratch, program)) = unprivileged("directory_above_target_need_not_be_readable") else {
        return;
    };
    let (source, above) = (make_directory(scratch.join("source")), make_directory(scratch.join("above")));
    make_file(source.join("file"), b"file");
    let target = make_directory(above.join("target"));
    give_to_nobody(&target);
    set_mode(&above, 0o711);
    let mut command = program();
    run(command.args(["copy", "-q"]).arg(&source).arg(&target).current_dir("/")).expect_code(0);
    assert_eq!(names_in(&target), ["source"]);
}

/// It gets the mode of its source before its job ends.
#[test]
fn job_ends_in_a_directory_that_nobody_may_write() {
    let Some((scratch, program)) = unprivileged("job_ends_in_a_directory_that_nobody_may_write") else {
        return;
    };
    let (source, target) = (make_directory(scratch.join("big")), make_directory(scratch.join("into")));
    trees::flat(&source, 600).unwrap();
    set_mode(&source, 0o555);
    give_to_nobody(&target);
    let mut command = program();
    command.args(["copy", "-q", "--iops", "500"]).arg(source.join(".")).arg(&target).current_dir("/");
    run(&mut command).expect_code(0);
    let times = |path: &Path| path.metadata().map(|found| (found.mtime(), found.mtime_nsec())).unwrap();
    assert_eq!(times(&target), times(&source));
    assert_eq!(names_in(&target).len(), names_in(&source).len());
    assert_eq!(target.metadata().unwrap().mode() & 0o7777, 0o555);
}

/// Nothing of it is in a log.
#[test]
fn stopped_copy_of_a_file_begins_again() {
    let scratch = scratch("job-file");
    make_file(scratch.join("file"), &vec![b'x'; 40 << 20]);
    let mut command = copy_in(scratch.path(), &["--chunk", "1M", "file", "target"]);
    command.args(["--bandwidth", "4M"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while temporary(scratch.path()).len() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert!(said.contains("give the same command again"), "{said}");
    run(&mut copy_in(scratch.path(), &["--chunk", "1M", "file", "target"])).expect_code(0);
    assert_eq!(std::fs::read(scratch.join("target")).unwrap().len(), 40 << 20);
    assert_eq!(temporary(scratch.path()), Vec::<PathBuf>::new());
}

#[test]
fn directory_that_looks_like_a_job_is_data() {
    let scratch = scratch("job-data");
    let job = home(scratch.path()).join("job.0123456789abcdef");
    std::fs::create_dir_all(&job).unwrap();
    for directory in [home(scratch.path()), job.clone()] {
        set_mode(&directory, 0o700);
    }
    make_file(job.join("data"), b"precious");
    run(atta().args(["clean", "--yes"]).arg(scratch.path())).expect_code(0);
    assert_eq!(std::fs::read(job.join("data")).unwrap(), b"precious");
    std::fs::remove_file(job.join("data")).unwrap();
    // A header of a later version.
    make_file(job.join("job"), b"atta log 2\nend\n");
    run(atta().args(["clean", "--yes"]).arg(scratch.path())).expect_code(0);
    assert!(job.join("job").exists());
}

#[test]
fn working_directory_names_its_job() {
    let (scratch, _) = tree();
    let here = make_directory(scratch.join("here"));
    ended(copy_in(&here, &["-T", "../tree", "."]).args(SLOWLY), &here, Signal::KILL);
    run(atta().args(["resume", "."]).current_dir(&here)).expect_code(0);
    assert_eq!(temporary(scratch.path()), Vec::<PathBuf>::new());
}

/// Without `--no-job`, the next copy would go on.
#[test]
fn copy_without_a_job_begins_anew() {
    let (scratch, source) = tree();
    let mut command = copy_in(scratch.path(), &["--no-job", "--iops", "1400", "tree", "target"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(jobs_in(scratch.path()), Vec::<PathBuf>::new());
    let ran = run(&mut copy_in(scratch.path(), &["-T", "tree", "target"])).expect_code(0);
    assert!(ran.err().contains("note: removed "), "{}", ran.err());
    assert_same(&source, &scratch.join("target"));
}

/// With `--fsync none` TARGET has its name before the job begins.
#[test]
fn copy_killed_in_its_first_second_is_the_same_copy() {
    let (scratch, source) = tree();
    let here = scratch.path();
    let mut command = copy_in(here, &["--iops", "600", "tree", "target"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !here.join("target").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    make_directory(here.join("other"));
    run(&mut copy_in(here, &["--update", "other", "target"])).expect_code(0);
    assert!(here.join("target/other").is_dir(), "another copy is put into TARGET");
    std::fs::remove_dir(here.join("target/other")).unwrap();
    run(&mut copy_in(here, &["tree", "target"])).expect_code(0);
    assert_same(&source, &here.join("target"));
    assert_eq!(names_in(here), ["other", "target", "tree"]);
    // Then TARGET is a directory like others.
    run(&mut copy_in(here, &["tree", "target"])).expect_code(0);
    assert!(here.join("target/tree/flat").is_dir());
}

/// The second run removes what the first has left, also its record, and is killed before its own job begins; so is the third.
#[test]
fn copy_killed_twice_in_its_first_second_goes_on() {
    // A kill that comes after the begin of a job comes too late for this test.
    let killed = (0..20).find_map(|_| killed_before_its_job());
    let (scratch, source) = killed.expect("no job begins before one of three kills");
    let here = scratch.path();
    run(&mut copy_in(here, &["tree", "target"])).expect_code(0);
    assert_same(&source, &here.join("target"));
    assert_eq!(names_in(here), ["target", "tree"]);
}

/// Kills a copy of `tree` to `target` when that is due. None: its job has begun.
fn killed_when(here: &Path, is_due: &dyn Fn() -> bool) -> Option<()> {
    let mut command = copy_in(here, &["--iops", "300", "tree", "target"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !is_due() && jobs_in(here).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    jobs_in(here).is_empty().then_some(())
}

/// Only the record of the killed run says that TARGET is a copy: another copy beside it leaves that.
#[test]
fn copies_leave_one_killed_in_its_first_second() {
    let killed = (0..20).find_map(|_| {
        let (scratch, source) = tree();
        let target = scratch.join("target");
        killed_when(scratch.path(), &|| target.exists()).map(|()| (scratch, source))
    });
    let (scratch, source) = killed.expect("no job begins before a kill");
    let here = scratch.path();
    make_directory(here.join("other"));
    let ran = run(&mut copy_in(here, &["other", "target2"])).expect_code(0);
    assert!(ran.err().contains("note: . has what another copy has begun (pid "), "{}", ran.err());
    run(&mut copy_in(here, &["tree", "target"])).expect_code(0);
    assert_same(&source, &here.join("target"));
    assert_eq!(names_in(here), ["other", "target", "target2", "tree"]);
}

/// A copy that was killed three times before its job began, after TARGET had its name. None: a job has begun.
fn killed_before_its_job() -> Option<(Scratch, PathBuf)> {
    let (scratch, source) = tree();
    let here = scratch.path();
    let home = home(here);
    let runs = || if home.exists() { names_in(&home) } else { Vec::new() };
    killed_when(here, &|| here.join("target").exists())?;
    // TARGET is older than the next run by more than the clocks of hosts may differ.
    std::thread::sleep(Duration::from_millis(2_500));
    for _ in 0..2 {
        let before = runs();
        killed_when(here, &|| {
            runs().iter().any(|run| !before.contains(run)) && !runs().iter().any(|run| before.contains(run))
        })?;
    }
    Some((scratch, source))
}

/// TARGET has only its temporary name when the copy is killed, and then somebody makes a directory of that name.
#[test]
fn directory_made_after_a_kill_is_not_the_copy() {
    let (scratch, source) = tree();
    let here = scratch.path();
    let mut command = copy(&["--iops", "300", "tree", "target"]);
    let mut child = command.current_dir(here).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while names_in(here).len() < 3 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let own = make_directory(here.join("target")).join("flat");
    make_file(&own, b"of somebody");
    run(&mut copy_in(here, &["tree", "target"])).expect_code(0);
    assert_eq!(std::fs::read(&own).unwrap(), b"of somebody");
    assert_same(&source, &here.join("target/tree"));
}

#[test]
fn copy_goes_on_where_no_log_can_be_kept() {
    let (scratch, source) = killed();
    let job = jobs_in(scratch.path()).remove(0);
    std::fs::remove_dir_all(&job).unwrap();
    make_file(&job, b"of somebody");
    let ran = run(copy_in(scratch.path(), &["-T", "tree", "target"]).args(SLOWLY)).expect_code(0);
    assert!(ran.err().contains("note: cannot "), "{}", ran.err());
    std::fs::remove_file(&job).unwrap();
    let _ = std::fs::remove_dir(home(scratch.path()));
    assert_same(&source, &scratch.join("target"));
}
