//! `atta verify` that is killed: the same command goes on, and reports each difference of an undisturbed comparison once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use rustix::process::Signal;
use serde_json::Value;

use crate::job_in_target::jobs_in;
use crate::resume::kill;
use crate::support::{Ran, at, atta, make_directory, make_file, names_in, python, run, scratch};

/// `source`, and `target` with differences of all kinds: in directories of all sizes, and of files with several names.
fn trees() -> Scratch {
    let scratch = scratch("resume-verify");
    let [source, target] = ["source", "target"].map(|name| make_directory(scratch.join(name)));
    for tree in [&source, &target] {
        trees::random(&make_directory(tree.join("random")), 9, 300).unwrap();
        trees::flat(&make_directory(tree.join("flat")), 5_000).unwrap();
        for number in 0..150 {
            let directory = make_directory(tree.join(format!("d{number}")));
            trees::flat(&directory, 20).unwrap();
            std::fs::hard_link(tree.join("d0/f0000001"), directory.join("again")).unwrap();
        }
    }
    for number in (0..150).step_by(5) {
        let directory = target.join(format!("d{number}"));
        std::fs::remove_file(directory.join("f0000003")).unwrap();
        std::fs::write(directory.join("f0000004"), "other").unwrap();
        make_file(directory.join("extra"), b"");
        // A file of its own in place of one more name.
        std::fs::remove_file(directory.join("again")).unwrap();
        std::fs::copy(target.join("d1/f0000001"), directory.join("again")).unwrap();
    }
    for number in (0..5_000).step_by(90) {
        std::fs::remove_file(target.join(format!("flat/f{number:07}"))).unwrap();
        make_file(target.join(format!("flat/extra {number}")), b"");
    }
    scratch
}

/// `atta verify --content`; prints rows and a JSON summary.
fn verify(here: &Path, more: &[&str]) -> Command {
    let mut command = atta();
    command.args(["verify", "--content", "--fields", "size,mode,xattrs,target,links,device"]);
    command.args(["--json", "--format", "ndjson"]).args(more).current_dir(here);
    command.args(["source", "target"]);
    command
}

/// The rows, sorted.
fn rows(ran: &Ran) -> Vec<String> {
    let mut rows: Vec<_> = ran.out().lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

/// What the summary on standard error counts, without what depends on the run.
fn counts(ran: &Ran) -> Vec<Value> {
    let said = ran.err();
    let summary: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    ["compared", "missing", "extra", "different", "fields", "failed", "same"]
        .map(|name| at(&summary, name).clone())
        .to_vec()
}

/// Kills a run when its log has grown.
fn killed(command: &mut Command, job: &dyn Fn() -> PathBuf, signal: Signal) {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !job().exists() {
        std::thread::yield_now();
    }
    kill(child, &job(), signal);
}

#[test]
fn killed_comparison_reports_each_difference_once() {
    let scratch = trees();
    let here = scratch.path();
    let expected = run(&mut verify(here, &[])).expect_code(1);
    let job = || here.join("job");
    for (threads, signal) in [("1", Signal::KILL), ("3", Signal::TERM), ("2", Signal::KILL)] {
        killed(&mut verify(here, &["--job", "job", "--iops", "2500", "-j", threads]), &job, signal);
    }
    let ran = run(&mut verify(here, &["--job", "job"])).expect_code(1);
    assert!(ran.err().contains("entries are not looked at again"), "{}", ran.err());
    assert_eq!(rows(&ran), rows(&expected));
    assert_eq!(counts(&ran), counts(&expected));
    // A job that is complete says again what it came to.
    let again = run(&mut verify(here, &["--job", "job"])).expect_code(1);
    assert!(again.err().contains("the job in job is complete"), "{}", again.err());
    let anew = run(&mut verify(here, &["--job", "job", "--restart"])).expect_code(1);
    assert_eq!(rows(&anew), rows(&expected));
}

/// The only job in a directory, if there is one.
fn job_beside(here: &Path) -> PathBuf {
    jobs_in(here).first().cloned().unwrap_or_else(|| here.join("none"))
}

#[test]
fn killed_comparison_completes_its_table() {
    let test = "killed_comparison_completes_its_table";
    let scratch = trees();
    let here = scratch.path();
    let expected = run(&mut verify(here, &[])).expect_code(1);
    let table = ["--output", "table.parquet"];
    killed(
        &mut verify(here, &[&table[..], &["--iops", "2500", "-j1"]].concat()),
        &|| job_beside(here),
        Signal::KILL,
    );
    let other = run(&mut verify(here, &[&table[..], &["--exclude", "d1"]].concat())).expect_code(2);
    assert!(other.err().contains("--exclude d1"), "{}", other.err());
    let shown = run(atta().args(["jobs", "show"]).arg(job_beside(here))).expect_code(0);
    assert!(shown.out().contains("verify"), "{}", shown.out());
    let ran = run(atta().args(["resume", "table.parquet"]).current_dir(here)).expect_code(1);
    assert_eq!(rows(&ran), rows(&expected));
    assert_eq!(counts(&ran), counts(&expected));
    assert_eq!(names_in(here), ["source", "table.parquet", "target"]);
    let Some(mut reader) = python(test, "differences.py", &["duckdb", "polars", "pandas"]) else { return };
    let read = run(reader.arg("table.parquet").current_dir(here)).expect_code(0);
    for change in ["missing", "extra"] {
        let of_rows = rows(&expected).iter().filter(|row| row.contains(&format!("\"{change}\""))).count();
        let of_table =
            read.out().lines().filter(|row| row.contains(change) && !row.contains("different")).count();
        assert_eq!(of_table, of_rows, "{change}");
    }
}

#[test]
fn job_in_a_compared_tree_is_left_out() {
    let scratch = trees();
    let here = scratch.path();
    let expected = rows(&run(&mut verify(here, &[])).expect_code(1));
    for (name, change) in [("source/table", "missing"), ("target/table", "extra")] {
        killed(
            &mut verify(here, &["--output", name, "--iops", "2500", "-j1"]),
            &|| job_beside(here.join(name).parent().unwrap()),
            Signal::KILL,
        );
        let ran = run(&mut verify(here, &["--output", name])).expect_code(1);
        let own = format!("{{\"path\":\"table\",\"change\":\"{change}\",\"kind\":\"file\"}}");
        assert_eq!(rows(&ran).into_iter().filter(|row| *row != own).collect::<Vec<_>>(), expected);
        std::fs::remove_file(here.join(name)).unwrap();
    }
}

#[test]
fn interrupted_comparison_says_how_to_go_on() {
    let scratch = trees();
    let here = scratch.path();
    let mut command = verify(here, &["--output", "table", "--iops", "2500", "-j1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let job = || job_beside(here);
    while !job().exists() {
        std::thread::yield_now();
    }
    let before = crate::resume::logged(&job());
    while crate::resume::logged(&job()) == before {
        std::thread::yield_now();
    }
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(143));
    let said = String::from_utf8(ended.stderr).unwrap();
    let hint = said.lines().find_map(|line| line.split("or: atta resume ").nth(1)).expect("a hint");
    let ran = run(atta().args(["resume", hint.trim()]).current_dir(here)).expect_code(1);
    assert_eq!(rows(&ran), rows(&run(&mut verify(here, &[])).expect_code(1)));
    assert_eq!(jobs_in(here), Vec::<PathBuf>::new());
}
