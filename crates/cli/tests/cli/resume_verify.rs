//! `atta verify` that is killed: the same command goes on, and reports each difference of an undisturbed comparison once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use rustix::process::Signal;
use serde_json::Value;

use crate::job_in_target::jobs_in;
use crate::resume::kill;
use crate::support::{
    Ran, at, atta, give_to_nobody, make_directory, make_file, names_in, number, python, run, scratch,
    set_mode, unprivileged,
};

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

/// The summary on standard error.
fn summary(ran: &Ran) -> Value {
    let said = ran.err();
    // A hint may follow.
    let mut values =
        serde_json::Deserializer::from_str(&said[said.find('{').unwrap()..]).into_iter::<Value>();
    values.next().unwrap().unwrap()
}

/// What the summary counts, without what depends on the run.
fn counts(ran: &Ran) -> Vec<Value> {
    let summary = summary(ran);
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
    assert!(again.err().contains("entries compared") && again.out().is_empty(), "no rows: {}", again.out());
    let anew = run(&mut verify(here, &["--job", "job", "--restart"])).expect_code(1);
    assert_eq!(rows(&anew), rows(&expected));
}

#[test]
fn changed_directories_are_reported_by_a_comparison() {
    for changed in ["source", "target"] {
        let scratch = trees();
        let here = scratch.path();
        std::fs::remove_dir_all(here.join("target")).unwrap();
        run(atta().args(["copy", "-q", "source", "target"]).current_dir(here)).expect_code(0);
        let job = || here.join("job");
        killed(&mut verify(here, &["--job", "job", "--iops", "2500"]), &job, Signal::KILL);
        killed(&mut verify(here, &["--job", "job", "--iops", "2500"]), &job, Signal::KILL);
        let ran = run(&mut verify(here, &["--job", "job"])).expect_code(0);
        assert_eq!(number(&summary(&ran), "earlier.changed_directories"), 0, "{}", ran.err());
        killed(&mut verify(here, &["--job", "job", "--restart", "--iops", "2500"]), &job, Signal::KILL);
        killed(&mut verify(here, &["--job", "job", "--iops", "2500"]), &job, Signal::KILL);
        // Of what is compared later, the names are the same.
        for tree in ["source", "target"] {
            std::fs::read_dir(here.join(tree)).unwrap().for_each(|entry| {
                let directory = entry.unwrap().path();
                if tree == changed {
                    std::fs::remove_file(make_file(directory.join("new"), b"")).unwrap();
                }
            });
        }
        let ran = run(&mut verify(here, &["--job", "job"])).expect_code(1);
        let summary = summary(&ran);
        assert!(number(&summary, "earlier.changed_directories") > 0, "{changed}: {summary}");
        assert_eq!((at(&summary, "same"), ran.out()), (&Value::Bool(false), String::new()));
        let hint = "hint: the same command with --restart has all directories as they are now\n";
        assert!(ran.err().contains(hint), "{}", ran.err());
        run(&mut verify(here, &["--job", "job", "--restart"])).expect_code(0);
    }
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

/// A directory that several threads and slices have, and names that only TARGET has in it.
#[test]
fn extras_of_large_directories_come_once() {
    let scratch = scratch("resume-verify-extras");
    let here = scratch.path();
    for tree in ["source", "target"].map(|name| make_directory(here.join(name))) {
        for number in 0..2 {
            trees::flat(&tree.join(format!("d{number}")), 9_000).unwrap();
        }
    }
    for number in 0..6 {
        make_file(here.join(format!("target/d{}/extra {number}", number % 2)), b"");
    }
    let expected = rows(&run(&mut verify(here, &[])).expect_code(1));
    assert_eq!(expected.len(), 6);
    for round in 0..4 {
        let name = format!("job{round}");
        for _ in 0..2 {
            let slowly = ["--job", &name, "--iops", "9000", "-j1"];
            killed(&mut verify(here, &slowly), &|| here.join(&name), Signal::TERM);
        }
        let ran = run(&mut verify(here, &["--job", &name])).expect_code(1);
        assert_eq!(rows(&ran), expected);
    }
}

#[test]
fn directory_that_is_opened_later_is_compared() {
    let Some((scratch, program)) = unprivileged("directory_that_is_opened_later_is_compared") else { return };
    let here = scratch.path();
    for tree in ["source", "target"] {
        trees::flat(&make_directory(here.join(tree)).join("d"), 9_000).unwrap();
    }
    for number in [1, 5_000, 8_999] {
        std::fs::write(here.join(format!("target/d/f{number:07}")), "longer").unwrap();
    }
    // The job is that of the user who runs the program.
    let jobs = make_directory(here.join("jobs"));
    [&jobs, &here.join("target"), &here.join("target/d")].iter().for_each(|path| give_to_nobody(path));
    let verify = || {
        let mut command = program();
        command
            .args(["verify", "--fields", "size", "-j1", "--job", "jobs/job", "--format", "ndjson", "--json"]);
        run(command.args(["source", "target"]).current_dir(here)).expect_code(1)
    };
    set_mode(&here.join("target/d"), 0);
    let failed = &counts(&verify())[5];
    assert_eq!(*failed, 1);
    set_mode(&here.join("target/d"), 0o755);
    let ran = verify();
    assert_eq!(rows(&ran).len(), 3, "{}{}", ran.out(), ran.err());
}

#[test]
fn refused_run_leaves_what_the_first_one_prints() {
    let scratch = trees();
    let here = scratch.path();
    let printed = make_file(here.join("printed"), b"of before");
    let arguments = ["--job", "job", "--print-to", "printed"];
    let mut slow = verify(here, &[&arguments[..], &["--iops", "600", "-j1"]].concat());
    let mut first = slow.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !here.join("job/holder").exists() {
        std::thread::yield_now();
    }
    run(&mut verify(here, &arguments)).expect_code(4);
    assert_eq!(std::fs::read(&printed).unwrap(), b"of before");
    first.kill().unwrap();
    first.wait().unwrap();
    let expected = rows(&run(&mut verify(here, &[])).expect_code(1));
    run(&mut verify(here, &arguments)).expect_code(1);
    let lines = String::from_utf8(std::fs::read(&printed).unwrap()).unwrap();
    assert_eq!(lines.lines().count(), expected.len());
}
