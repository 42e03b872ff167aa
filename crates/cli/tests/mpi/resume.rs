//! Walks, copies, sums and comparisons with a job on ranks: everything is killed, and other numbers of ranks go on.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use atta_testkit::lock::Lock;
use atta_testkit::mpi::{self, Mpi};
use atta_testkit::trees;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{make_directory, python, run, scratch, walk};
use crate::{
    descendants, expect_code, mpis, program_on, rank_of, ranks, ranks_on, text, three_hosts, tree, walks,
};

/// The bytes of the logs of a job.
fn logged(job: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(job) else { return 0 };
    let is_log = |file: &std::fs::DirEntry| file.file_name().as_encoded_bytes()[0].is_ascii_digit();
    let logs = files.map(|file| file.unwrap()).filter(is_log);
    logs.map(|log| log.metadata().unwrap().len()).sum()
}

/// Kills all ranks and their launcher when a log has grown.
fn kill(launcher: Child, job: &Path) {
    kill_when_grown(launcher, || logged(job));
}

fn kill_when_grown(mut launcher: Child, logged: impl Fn() -> u64) {
    let before = logged();
    while logged() == before && launcher.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    for process in descendants(launcher.id()).into_iter().rev() {
        // It may have ended.
        let _ = kill_process(Pid::from_raw(process).unwrap(), Signal::KILL);
    }
    launcher.wait().unwrap();
}

fn killed(mpi: &Mpi, count: u32, job: &Path, tree: &str) {
    let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
    let arguments = ["-q", "-j1", "--iops", "900", "--job", job.to_str().unwrap(), tree];
    let mut command = ranks(mpi, count, &arguments);
    kill(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), job);
}

#[test]
fn killed_ranks_go_on_with_other_numbers_of_ranks() {
    let (scratch, tree) = tree("mpi-resume");
    let alone: Value = serde_json::from_slice(&walk(["--json"]).arg(&tree).output().unwrap().stdout).unwrap();
    for (number, mpi) in mpis("killed_ranks_go_on_with_other_numbers_of_ranks").iter().enumerate() {
        let job = scratch.join(format!("job-{number}"));
        let name = job.to_str().unwrap();
        for count in [3, 1, 2] {
            killed(mpi, count, &job, &tree);
            assert!(!job.join("end").exists(), "{}: it ended before it was killed", mpi.version);
        }
        let summary = if number == 0 {
            let last = mpi::alone(&mut ranks(mpi, 4, &["--json", "--job", name, &tree]));
            expect_code(&last, 0, &mpi.version);
            assert!(text(&last.stderr).contains("entries are not looked at again"), "{}", text(&last.stderr));
            last.stdout
        } else {
            // A run without MPI goes on with what ranks left.
            run(walk(["--json", "--job", name]).arg(&tree)).expect_code(0).stdout
        };
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        assert_eq!(summary["totals"], alone["totals"], "{}", mpi.version);
        let again = run(walk(["--job", name]).arg(&tree)).expect_code(0);
        assert!(again.err().contains("is complete"), "{}", again.err());
    }
}

/// The job beside a catalog, if there is one.
pub(crate) fn job_beside(here: &Path) -> Option<PathBuf> {
    let home = here.join(format!(".atta.{}", rustix::process::geteuid().as_raw()));
    let mut jobs = std::fs::read_dir(home).ok()?.map(|job| job.unwrap().path());
    jobs.find(|job| job.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"job.")))
}

/// Parts of the unfinished catalog of a job.
fn parts(job: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(job.join("catalog")) else { return 0 };
    files.filter(|file| file.as_ref().unwrap().file_name().as_encoded_bytes().starts_with(b"part-")).count()
        as u64
}

#[test]
fn killed_ranks_go_on_with_a_catalog() {
    let test = "killed_ranks_go_on_with_a_catalog";
    let (scratch, tree) = tree("mpi-catalog");
    let alone: Value = serde_json::from_slice(&walk(["--json"]).arg(&tree).output().unwrap().stdout).unwrap();
    for (number, mpi) in mpis(test).iter().enumerate() {
        let catalog = scratch.join(format!("catalog-{number}"));
        let name = catalog.to_str().unwrap();
        for count in [3, 1, 2] {
            let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
            let options = ["-q", "-j1", "--iops", "900", "--part-rows", "60", "--output", name, &tree];
            let mut command = ranks(mpi, count, &options);
            let launcher = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // The log grows when it has parts.
            kill_when_grown(launcher, || {
                job_beside(scratch.path()).map_or(0, |job| if parts(&job) > 2 { logged(&job) } else { 0 })
            });
            assert!(!catalog.exists(), "{}: it ended before it was killed", mpi.version);
        }
        let count = if number == 0 { 4 } else { 2 };
        let last = mpi::alone(&mut ranks(mpi, count, &["--json", "--output", name, &tree]));
        expect_code(&last, 0, &mpi.version);
        assert!(text(&last.stderr).contains("entries are not looked at again"), "{}", text(&last.stderr));
        let summary: Value = serde_json::from_slice(&last.stdout).unwrap();
        assert_eq!(summary["totals"], alone["totals"], "{}", mpi.version);
        assert_eq!(job_beside(scratch.path()), None, "{}", mpi.version);
        let readers = ["duckdb", "polars", "pandas", "pyarrow", "pytz"];
        let Some(mut reader) = python(test, "catalog.py", &readers) else { continue };
        let compared = run(reader.args([name, &tree])).expect_code(0);
        assert!(compared.out().contains("equal: "), "{}", compared.out());
    }
}

/// `atta sum --output`, on ranks.
fn summing(mpi: &Mpi, count: u32, arguments: &[&str]) -> Command {
    let mut command = mpi.launch(count, Some(&mpi.plugin));
    command.arg(env!("CARGO_BIN_EXE_atta")).args(["sum", "--chunk", "1M", "--output"]).args(arguments);
    command.stdin(Stdio::null());
    command
}

#[test]
fn killed_ranks_of_a_sum_go_on() {
    let (scratch, tree) = tree("mpi-resume-sum");
    let bytes: Vec<u8> =
        (0..2 << 20_u32).flat_map(|word: u32| word.wrapping_mul(2_654_435_769).to_le_bytes()).collect();
    std::fs::write(Path::new(&tree).join("large"), &bytes).unwrap();
    let summed = |summary: &[u8]| -> Vec<Value> {
        let summary: Value = serde_json::from_slice(summary).unwrap();
        ["files", "directories", "bytes", "signature"]
            .iter()
            .map(|name| summary["totals"][name].clone())
            .collect()
    };
    let plain = scratch.join("plain");
    let alone = Command::new(env!("CARGO_BIN_EXE_atta"))
        .args(["sum", "--json", "--no-job", "--output", plain.to_str().unwrap(), &tree])
        .output()
        .unwrap();
    for (number, mpi) in mpis("killed_ranks_of_a_sum_go_on").iter().enumerate() {
        let catalog = scratch.join(format!("sums-{number}"));
        let name = catalog.to_str().unwrap();
        for count in [3, 2] {
            let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
            let options = [name, "-q", "-j1", "--iops", "900", "--part-rows", "60", &tree];
            let mut command = summing(mpi, count, &options);
            let launcher = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            kill_when_grown(launcher, || {
                job_beside(scratch.path()).map_or(0, |job| if parts(&job) > 2 { logged(&job) } else { 0 })
            });
            assert!(!catalog.exists(), "{}: it ended before it was killed", mpi.version);
        }
        let last = mpi::alone(&mut summing(mpi, 4, &[name, "--json", &tree]));
        expect_code(&last, 0, &mpi.version);
        assert!(text(&last.stderr).contains("entries are not looked at again"), "{}", text(&last.stderr));
        assert_eq!(summed(&last.stdout), summed(&alone.stdout), "{}", mpi.version);
        assert_eq!(job_beside(scratch.path()), None, "{}", mpi.version);
        let mut check = Command::new(env!("CARGO_BIN_EXE_atta"));
        let checked = run(check.args(["sum", "-q", "--check", name, &tree])).expect_code(0);
        assert_eq!(checked.out(), "");
    }
}

/// A copy of a tree that differs from it.
pub(crate) fn changed_copy(tree: &str, copy: &Path) {
    let copied = Command::new("cp").arg("-a").arg(tree).arg(copy).status().unwrap();
    assert!(copied.success());
    let listed = run(walk(["--print"]).arg(copy)).expect_code(0).out();
    let files: Vec<_> = listed.lines().map(Path::new).filter(|path| path.is_file()).collect();
    for (number, path) in files.iter().enumerate().step_by(9) {
        std::fs::remove_file(path).unwrap();
        std::fs::write(path.with_file_name(format!("extra {number}")), "").unwrap();
    }
}

/// `atta verify` with a job, on ranks.
fn comparing(mpi: &Mpi, count: u32, arguments: &[&str]) -> Command {
    let mut command = mpi.launch(count, Some(&mpi.plugin));
    command.arg(env!("CARGO_BIN_EXE_atta")).args(["verify", "--content", "--format", "ndjson"]);
    command.args(arguments).stdin(Stdio::null());
    command
}

#[test]
fn killed_ranks_of_a_comparison_go_on() {
    let (scratch, tree) = tree("mpi-resume-verify");
    let copy = scratch.join("copy");
    changed_copy(&tree, &copy);
    let copy = copy.to_str().unwrap();
    let rows = |bytes: &[u8]| {
        let mut rows: Vec<_> = text(bytes).lines().map(str::to_owned).collect();
        rows.sort();
        rows
    };
    let mut alone = Command::new(env!("CARGO_BIN_EXE_atta"));
    let alone = run(alone.args(["verify", "--content", "--format", "ndjson", &tree, copy])).expect_code(1);
    for (number, mpi) in mpis("killed_ranks_of_a_comparison_go_on").iter().enumerate() {
        let (job, printed) = (scratch.join(format!("job-{number}")), scratch.join(format!("rows-{number}")));
        let name = job.to_str().unwrap();
        for count in [3, 1, 2] {
            let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
            let arguments = ["-j1", "--iops", "900", "--job", name, &tree, copy];
            let mut command = comparing(mpi, count, &arguments);
            kill(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), &job);
            assert!(!job.join("end").exists(), "{}: it ended before it was killed", mpi.version);
        }
        let to = printed.to_str().unwrap();
        let last = mpi::alone(&mut comparing(mpi, 4, &["--print-to", to, "--job", name, &tree, copy]));
        expect_code(&last, 1, &mpi.version);
        assert!(text(&last.stderr).contains("entries are not looked at again"), "{}", text(&last.stderr));
        assert_eq!(rows(&std::fs::read(&printed).unwrap()), rows(&alone.stdout), "{}", mpi.version);
    }
}

/// `atta copy` with a job, on ranks.
fn copying(mpi: &Mpi, count: u32, arguments: &[&str]) -> Command {
    let mut command = mpi.launch(count, Some(&mpi.plugin));
    command.arg(env!("CARGO_BIN_EXE_atta")).args(["copy", "--json", "--fsync", "none"]).args(arguments);
    command.stdin(Stdio::null());
    command
}

/// What a copy has come to.
pub(crate) fn copied(summary: &[u8]) -> Vec<Value> {
    let summary: Value = serde_json::from_slice(summary).unwrap();
    let counts =
        ["files", "directories", "symlinks", "hard_links", "special_files", "bytes", "skipped", "failed"];
    counts.iter().chain(&["signature", "names_elsewhere"]).map(|count| summary[count].clone()).collect()
}

#[test]
fn killed_ranks_of_a_copy_go_on() {
    let test = "killed_ranks_of_a_copy_go_on";
    let (scratch, tree) = tree("mpi-resume-copy");
    let plain = scratch.join("plain");
    let alone = Command::new(env!("CARGO_BIN_EXE_atta"))
        .args(["copy", "--json", &tree, plain.to_str().unwrap()])
        .output()
        .unwrap();
    for (number, mpi) in mpis(test).iter().enumerate() {
        let (job, target) = (scratch.join(format!("job-{number}")), scratch.join(format!("copy-{number}")));
        let (name, copy) = (job.to_str().unwrap(), target.to_str().unwrap());
        for count in [3, 1, 2] {
            let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
            let arguments = ["-q", "-j1", "--iops", "2000", "--job", name, &tree, copy];
            let mut command = copying(mpi, count, &arguments);
            kill(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), &job);
            assert!(!job.join("end").exists(), "{}: it ended before it was killed", mpi.version);
        }
        let count = if number == 0 { 4 } else { 2 };
        let last = mpi::alone(&mut copying(mpi, count, &["--job", name, &tree, copy]));
        expect_code(&last, 0, &mpi.version);
        assert!(text(&last.stderr).contains("entries are not looked at again"), "{}", text(&last.stderr));
        assert_eq!(copied(&last.stdout), copied(&alone.stdout), "{}", mpi.version);
        let verified =
            Command::new(env!("CARGO_BIN_EXE_atta")).args(["verify", "-q", &tree, copy]).output().unwrap();
        expect_code(&verified, 0, &mpi.version);
        let left = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with(".atta.")).collect();
        assert!(left.is_empty(), "{}: {left:?}", mpi.version);
    }
}

/// A rank is stopped, and the others are killed. While it may write its log, nobody goes on; whatever it does afterwards harms nothing.
///
/// The launcher is stopped as well: it would end the rank, and without it the kernel ends or continues the processes of its group.
#[test]
fn stopped_rank_of_a_killed_copy_harms_nothing() {
    let (scratch, tree) = tree("mpi-resume-stopped");
    for (number, mpi) in mpis("stopped_rank_of_a_killed_copy_harms_nothing").iter().enumerate() {
        let (job, target) = (scratch.join(format!("job-{number}")), scratch.join(format!("copy-{number}")));
        let (name, copy) = (job.to_str().unwrap(), target.to_str().unwrap());
        let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
        let arguments = ["-q", "-j1", "--iops", "600", "--job", name, &tree, copy];
        let mut launcher =
            copying(mpi, 3, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let before = logged(&job);
        while logged(&job) == before && launcher.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let processes = descendants(launcher.id());
        let (ranks, launchers): (Vec<i32>, Vec<i32>) = processes.iter().partition(|id| walks(**id));
        let last = *ranks.iter().find(|id| rank_of(**id) == 2).expect("the last rank runs");
        for process in launchers.iter().chain([&last]) {
            signal(*process, Signal::STOP);
        }
        for process in ranks.iter().filter(|id| **id != last) {
            signal(*process, Signal::KILL);
            wait_until(|| !is_alive(*process));
        }
        assert!(!job.join("end").exists(), "{}: it ended before it was killed", mpi.version);
        let again = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_atta"));
            command.args(["copy", "--json", "--fsync", "none", "--job", name, &tree, copy]).output().unwrap()
        };
        let refused = again();
        expect_code(&refused, 4, &mpi.version);
        assert!(text(&refused.stderr).contains("1.2"), "{}: {}", mpi.version, text(&refused.stderr));
        signal(last, Signal::CONT);
        // It may wait for the others for ever.
        wait_until(|| !is_alive(last));
        for process in processes.iter().rev() {
            signal(*process, Signal::KILL);
        }
        launcher.wait().unwrap();
        wait_until(|| !is_alive(last));
        let done = again();
        expect_code(&done, 0, &mpi.version);
        let verified = Command::new(env!("CARGO_BIN_EXE_atta"))
            .args(["verify", "--content", "-q", &tree, copy])
            .output();
        expect_code(&verified.unwrap(), 0, &mpi.version);
    }
}

/// Sends a signal to a process, which may have ended.
pub(crate) fn signal(process: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(process).unwrap(), signal);
}

/// Waits at most five seconds.
pub(crate) fn wait_until(holds: impl Fn() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(5);
    while !holds() && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process runs, or is stopped.
pub(crate) fn is_alive(id: i32) -> bool {
    let about = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = about.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !['Z', 'X'].contains(&state))
}

#[test]
fn names_of_one_directory_are_shared_with_a_job() {
    let test = "names_of_one_directory_are_shared_with_a_job";
    let scratch = scratch("mpi-resume-flat");
    let source = make_directory(scratch.join("source"));
    trees::flat(&source, 2_000).unwrap();
    for (number, mpi) in mpis(test).iter().enumerate() {
        let (job, target) = (scratch.join(format!("job-{number}")), scratch.join(format!("copy-{number}")));
        let (job, target) = (job.to_str().unwrap(), target.to_str().unwrap());
        let arguments = ["-j1", "--iops", "2000", "--job", job, source.to_str().unwrap(), target];
        let done = mpi::alone(&mut copying(mpi, 3, &arguments));
        expect_code(&done, 0, &mpi.version);
        let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
        let by_rank = summary["by_rank"].as_array().unwrap();
        let files: Vec<_> = by_rank.iter().map(|rank| rank["files"].as_u64().unwrap()).collect();
        assert!(files.iter().all(|files| *files > 0), "{}: {files:?}", mpi.version);
        assert_eq!(files.iter().sum::<u64>(), 2_000, "{}", mpi.version);
    }
}

/// Ranks that copy chunks of a large file, without `--job`: the same command goes on.
#[test]
fn large_file_goes_on_with_other_numbers_of_ranks() {
    let (scratch, _) = tree("mpi-resume-large");
    let source = make_directory(scratch.join("source"));
    let bytes: Vec<u8> =
        (0..24 << 20_u32).flat_map(|word: u32| word.wrapping_mul(2_654_435_769).to_le_bytes()).collect();
    std::fs::write(source.join("large"), &bytes).unwrap();
    let home = scratch.join(format!(".atta.{}", rustix::process::geteuid().as_raw()));
    let logged_there = || {
        let jobs = std::fs::read_dir(&home).into_iter().flatten().flatten().map(|entry| entry.path());
        jobs.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("job.")))
            .map(|job| logged(&job))
            .sum::<u64>()
    };
    for (number, mpi) in mpis("large_file_goes_on_with_other_numbers_of_ranks").iter().enumerate() {
        let target = scratch.join(format!("copy-{number}"));
        let words = ["--chunk", "1M", source.to_str().unwrap(), target.to_str().unwrap()];
        // The first run copies a third of it, and some chunks are in the log.
        for count in [3, 1] {
            let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
            let mut command = copying(mpi, count, &["-q", "-j1", "--bandwidth", "12M"]);
            let child = command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let until = logged_there() + 1_000;
            kill_when_grown(child, || u64::from(logged_there() > until));
            assert!(!target.join("large").exists(), "{}: it ended before it was killed", mpi.version);
        }
        let last = mpi::alone(copying(mpi, 2, &["-j1"]).args(words));
        expect_code(&last, 0, &mpi.version);
        assert!(text(&last.stderr).contains(": resuming the job in "), "{}", text(&last.stderr));
        let summary: Value = serde_json::from_slice(&last.stdout).unwrap();
        let by_rank: Vec<u64> = summary["by_rank"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rank| rank["bytes"].as_u64().unwrap())
            .collect();
        assert!(by_rank.iter().all(|bytes| *bytes > 0), "{}: {by_rank:?}", mpi.version);
        let again: u64 = by_rank.iter().sum();
        assert!(again < bytes.len() as u64 - (20 << 20), "{}: {again} bytes were left", mpi.version);
        assert!(std::fs::read(target.join("large")).unwrap() == bytes, "{}", mpi.version);
        assert!(!home.exists(), "{}", mpi.version);
    }
}

#[test]
fn job_needs_a_first_rank_that_walks() {
    let (scratch, tree) = tree("mpi-resume-refused");
    let job = scratch.join("job");
    for mpi in mpis("job_needs_a_first_rank_that_walks") {
        let arguments = ["-q", "--schedule", "centralized", "--job", job.to_str().unwrap(), &tree];
        let refused = mpi::alone(&mut ranks(mpi, 2, &arguments));
        expect_code(&refused, 2, &mpi.version);
        assert!(text(&refused.stderr).contains("--schedule centralized"), "{}", text(&refused.stderr));
    }
}

#[test]
fn job_directory_must_be_the_same_on_all_hosts() {
    let test = "job_directory_must_be_the_same_on_all_hosts";
    let Some(hosts) = three_hosts(test) else { return };
    let (scratch, tree) = tree("mpi-resume-hosts");
    let jobs = make_directory(scratch.join("jobs"));
    let jobs = jobs.to_str().unwrap();
    let mounted = hosts.on(1).args(["mount", "-t", "tmpfs", "tmpfs", jobs]).status().unwrap();
    assert!(mounted.success());
    for (number, mpi) in mpis(test).iter().enumerate() {
        let job = format!("{jobs}/{number}");
        let Some(mut command) = ranks_on(mpi, &hosts, &["-q", "--job", &job, &tree]) else { continue };
        let output = mpi::alone(&mut command);
        expect_code(&output, 4, &mpi.version);
        let message = text(&output.stderr);
        assert!(message.contains("is not the same on all ranks"), "{}: {message}", mpi.version);
        assert!(!Path::new(&job).join("end").exists(), "{}", mpi.version);
        // A copy that cannot go on is not complete, either.
        let (job, target) = (format!("{jobs}/copy-{number}"), scratch.join(format!("copy-{number}")));
        let arguments = ["-q", "--job", &job, &tree, target.to_str().unwrap()];
        let Some(mut command) = program_on(mpi, &hosts, "copy", &arguments) else { continue };
        let output = mpi::alone(&mut command);
        expect_code(&output, 4, &mpi.version);
        let message = text(&output.stderr);
        assert!(message.contains("is not the same on all ranks"), "{}: {message}", mpi.version);
        assert!(!Path::new(&job).join("end").exists(), "{}", mpi.version);
    }
}
