//! `atta walk --output` that is killed: the same command goes on, and the catalog has the rows of an undisturbed walk, each once.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use atta_testkit::random::Random;
use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::job_in_target::jobs_in;
use crate::resume::{add_files, logged};
use crate::support::{
    Ran, at, atta, give_to_nobody, make_directory, make_file, make_link, names_in, number, parse,
    parse_lines, python, run, scratch, unprivileged, walk,
};

/// Directories of all sizes, and files with several names.
fn tree() -> (Scratch, PathBuf) {
    let scratch = scratch("resume-catalog");
    let tree = make_directory(scratch.join("tree"));
    trees::random(&make_directory(tree.join("random")), 9, 400).unwrap();
    trees::flat(&make_directory(tree.join("flat")), 4_500).unwrap();
    for number in 0..120 {
        let directory = make_directory(tree.join(format!("d{number}")));
        trees::flat(&directory, 20).unwrap();
        if number % 3 == 0 {
            std::fs::hard_link(tree.join("d0/f0000001"), directory.join("again")).unwrap();
        }
    }
    (scratch, tree)
}

/// `atta walk --output scan.catalog tree`, slowly, with small parts.
fn slow(here: &Path, more: &[&str]) -> Command {
    let mut command = walk(["--json", "--output", "scan.catalog", "--part-rows", "100", "--iops", "1000"]);
    command.args(more).arg("tree").current_dir(here);
    command
}

/// The same with nothing that holds it up.
fn fast(here: &Path, more: &[&str]) -> Command {
    let mut command = walk(["--json", "--output", "scan.catalog"]);
    command.args(more).arg("tree").current_dir(here);
    command
}

fn job(here: &Path) -> PathBuf {
    let mut jobs = jobs_in(here);
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs.remove(0)
}

/// Parts of the unfinished catalog.
fn parts(here: &Path) -> usize {
    let catalog = jobs_in(here).first().map(|job| job.join("catalog"));
    let names = catalog.filter(|catalog| catalog.exists()).map(|catalog| names_in(&catalog));
    names.map_or(0, |names| names.iter().filter(|name| name.as_encoded_bytes().starts_with(b"part-")).count())
}

/// Sends a signal to a program that runs.
fn send(child: &Child, signal: Signal) {
    kill_process(i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap(), signal).unwrap();
}

/// Ends a run when it has ended parts, and its log has grown since. Returns what it has said on standard error.
pub(crate) fn ended(command: &mut Command, here: &Path, signal: Signal) -> String {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = child.stderr.take().unwrap();
    let sum = || jobs_in(here).iter().map(|job| logged(job)).sum::<u64>();
    let since = Instant::now();
    let mut wait_until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(since.elapsed() < Duration::from_secs(100), "it writes no log");
            assert!(child.try_wait().unwrap().is_none(), "it ended before");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let logged_before = sum();
    wait_until(&|| sum() > logged_before && parts(here) > 2);
    let logged_then = sum();
    wait_until(&|| sum() > logged_then);
    send(&child, signal);
    child.wait().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut said, &mut text).unwrap();
    text
}

fn totals(ran: &Ran) -> Value {
    at(&ran.json(), "totals").clone()
}

/// A complete catalog has these totals and each row once, and nothing else is left.
fn assert_catalog(test: &str, here: &Path, expected: &Value) {
    let place = here.join("scan.catalog");
    let manifest = parse(&std::fs::read(place.join("_manifest.json")).unwrap());
    assert_eq!(at(&manifest, "totals"), expected);
    let shards = at(&manifest, "shards").as_array().unwrap();
    assert_eq!(
        shards.iter().map(|shard| number(shard, "rows")).sum::<u64>(),
        number(&manifest, "totals.entries")
    );
    assert_eq!(names_in(&place).len(), shards.len() + 2, "{:?}", names_in(&place));
    assert_eq!(jobs_in(here), Vec::<PathBuf>::new());
    assert!(
        !names_in(here).iter().any(|name| name.as_encoded_bytes().starts_with(b".")),
        "{:?}",
        names_in(here)
    );
    let Some(mut reader) = python(test, "catalog.py", &["duckdb", "polars", "pandas", "pyarrow", "pytz"])
    else {
        return;
    };
    let compared = run(reader.arg("scan.catalog").arg("tree").current_dir(here)).expect_code(0);
    assert!(compared.out().contains("equal: "), "{}", compared.out());
}

#[test]
fn changed_directories_are_reported_by_a_catalog() {
    let (scratch, tree) = tree();
    let here = scratch.path();
    ended(&mut slow(here, &["-j1"]), here, Signal::KILL);
    add_files(&tree);
    let ran = run(&mut fast(here, &[])).expect_code(3);
    assert!(number(&ran.json(), "earlier.changed_directories") > 0, "{}", ran.out());
    let hint = "hint: the same command with another --output has all directories as they are now\n";
    assert!(ran.err().contains(hint), "{}", ran.err());
    assert_eq!(jobs_in(here), Vec::<PathBuf>::new());
}

#[test]
fn killed_catalog_goes_on_and_has_each_row_once() {
    let (scratch, _) = tree();
    let here = scratch.path();
    let expected = totals(&run(walk(["--json"]).arg("tree").current_dir(here)).expect_code(0));
    for (threads, signal) in [("1", Signal::KILL), ("3", Signal::TERM)] {
        ended(&mut slow(here, &["-j", threads]), here, signal);
        assert!(!here.join("scan.catalog").exists());
    }
    let ran = run(&mut fast(here, &["-j3"])).expect_code(0);
    assert!(ran.err().contains("entries are not looked at again"), "{}", ran.err());
    assert_eq!(totals(&ran), expected);
    assert_catalog("killed_catalog_goes_on_and_has_each_row_once", here, &expected);
}

#[test]
fn parts_that_the_log_names_are_kept() {
    let (scratch, _) = tree();
    let here = scratch.path();
    ended(&mut slow(here, &["-j2"]), here, Signal::TERM);
    let catalog = job(here).join("catalog");
    let kept: Vec<_> = names_in(&catalog).into_iter().map(|name| catalog.join(name)).collect();
    let inodes = |paths: &[PathBuf]| -> Vec<u64> {
        let inode = |path: &PathBuf| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
        paths.iter().filter(|path| path.extension().is_some_and(|end| end == "parquet")).map(inode).collect()
    };
    let before = inodes(&kept);
    let ran = run(atta().args(["resume", "scan.catalog"]).current_dir(here)).expect_code(0);
    let place = here.join("scan.catalog");
    let after: Vec<_> = names_in(&place).into_iter().map(|name| place.join(name)).collect();
    let (after, lasting) = (inodes(&after), before.len());
    let stay = before.iter().filter(|inode| after.contains(inode)).count();
    // The log names all that were ended, also those at the signal.
    assert!(stay >= 3 && stay + 2 >= lasting, "{stay} of {lasting} parts were kept: {}", ran.err());
}

/// Without the signal a part ends after 30 seconds, and this walk takes some 13.
#[test]
fn signal_puts_parts_on_storage() {
    let (scratch, _) = tree();
    let here = scratch.path();
    let mut walks = walk(["--output", "scan.catalog", "--iops", "1000", "-j1", "tree"]);
    let mut child = walks.current_dir(here).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while parts(here) < 3 {
        if parts(here) > 0 || !jobs_in(here).is_empty() {
            send(&child, Signal::USR1);
        }
        assert!(child.try_wait().unwrap().is_none(), "no part has ended before the walk");
        assert!(since.elapsed() < Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(100));
    }
    let job = job(here);
    let logged_then = logged(&job);
    while logged(&job) == logged_then {
        std::thread::sleep(Duration::from_millis(20));
    }
    send(&child, Signal::KILL);
    child.wait().unwrap();
    let ran = run(&mut fast(here, &[])).expect_code(0);
    assert!(ran.err().contains("entries are not looked at again"), "{}", ran.err());
}

#[test]
fn signal_to_commit_ends_no_run_without_a_job() {
    let (scratch, _) = tree();
    let mut walks = walk(["--json", "--iops", "4000", "tree"]);
    let child =
        walks.current_dir(scratch.path()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // Before it catches the signal, that would end it.
    while std::fs::read_to_string(format!("/proc/{}/status", child.id()))
        .is_ok_and(|status| !catches(&status, Signal::USR1))
    {
        std::thread::yield_now();
    }
    send(&child, Signal::USR1);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

/// Whether a process catches a signal, by its `/proc/PID/status`.
fn catches(status: &str, signal: Signal) -> bool {
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn interrupted_catalog_says_how_to_go_on() {
    let (scratch, _) = tree();
    let here = scratch.path();
    let expected = totals(&run(walk(["--json"]).arg("tree").current_dir(here)).expect_code(0));
    let said = ended(&mut slow(here, &["-j2"]), here, Signal::TERM);
    let hint = said.lines().find_map(|line| line.split_once("or: atta ")).map(|(_, command)| command);
    let words: Vec<_> = hint.unwrap_or_else(|| panic!("{said}")).split(' ').collect();
    assert!(said.contains("to do what is left, give the same command again"), "{said}");
    let listed = run(atta().args(["jobs", "scan.catalog"]).current_dir(here)).expect_code(0);
    assert!(listed.out().contains("interrupted"), "{}", listed.out());
    let shown = run(atta().args(["jobs", "show", "--json", "scan.catalog"]).current_dir(here)).expect_code(0);
    assert!(number(&shown.json(), "logged.entries") > 100, "{}", shown.out());
    // The options are those of the first run: it takes some seconds.
    run(atta().args(words).current_dir(here)).expect_code(0);
    assert_catalog("interrupted_catalog_says_how_to_go_on", here, &expected);
}

#[test]
fn other_options_are_refused_and_restart_forgets() {
    let (scratch, _) = tree();
    let here = scratch.path();
    ended(&mut slow(here, &[]), here, Signal::KILL);
    for (option, code) in [("--lite", 2), ("--targets", 2), ("--no-job", 0)] {
        let mut command = fast(here, &[option]);
        let ran = run(&mut command).expect_code(code);
        if code == 2 {
            assert!(ran.err().contains("--restart"), "{}", ran.err());
        }
    }
    // The catalog of another walk is in its place: the job has nothing to give it to.
    let ran = run(&mut fast(here, &[])).expect_code(4);
    assert!(ran.err().starts_with("atta: catalog directory is not empty"), "{}", ran.err());
    std::fs::remove_dir_all(here.join("scan.catalog")).unwrap();
    let part = job(here).join("catalog");
    let first =
        names_in(&part).into_iter().find(|name| name.as_encoded_bytes().starts_with(b"part-")).unwrap();
    std::fs::write(part.join(&first), b"torn").unwrap();
    let ran = run(&mut fast(here, &[])).expect_code(4);
    assert!(ran.err().contains("a part of the unfinished catalog is lost"), "{}", ran.err());
    let ran = run(&mut fast(here, &["--restart"])).expect_code(0);
    assert_eq!(ran.err(), "");
    assert_catalog("other_options_are_refused_and_restart_forgets", here, &totals(&ran));
}

#[test]
fn catalog_in_the_walked_tree_leaves_itself_out() {
    let (scratch, tree) = tree();
    let here = scratch.path();
    make_file(tree.join(format!(".atta.{}", 999_999)), b"a name of the tree");
    let undisturbed =
        run(walk(["--json", "--output", "scan.catalog", "."]).current_dir(&tree)).expect_code(0);
    std::fs::remove_dir_all(tree.join("scan.catalog")).unwrap();
    let options = ["--json", "--output", "scan.catalog", "--part-rows", "100", "--iops", "1000", "."];
    ended(walk(options).current_dir(&tree), &tree, Signal::KILL);
    let ran = run(walk(["--json", "--output", "scan.catalog", "."]).current_dir(&tree)).expect_code(0);
    assert_eq!(number(&ran.json(), "totals.entries"), number(&undisturbed.json(), "totals.entries"));
    let plain =
        run(walk(["--json", "--output", "scan.catalog", "tree", "--exclude", "/scan.catalog"])
            .current_dir(here));
    assert_eq!(number(&plain.expect_code(0).json(), "totals.entries"), number(&ran.json(), "totals.entries"));
}

#[test]
fn job_that_was_killed_at_its_very_end_is_removed() {
    let (scratch, _) = tree();
    let here = scratch.path();
    ended(&mut slow(here, &[]), here, Signal::KILL);
    // As if it had been killed between the rename and the removal of its job.
    std::fs::rename(job(here).join("catalog"), here.join("scan.catalog")).unwrap();
    let ran = run(&mut fast(here, &[])).expect_code(4);
    assert!(ran.err().starts_with("atta: catalog directory is not empty"), "{}", ran.err());
    assert_eq!(jobs_in(here), Vec::<PathBuf>::new());
}

#[test]
fn link_in_place_of_an_unfinished_catalog_is_refused() {
    let (scratch, _) = tree();
    let here = scratch.path();
    run(walk(["--output", "other.catalog", "tree"]).current_dir(here)).expect_code(0);
    let other = names_in(&here.join("other.catalog"));
    ended(&mut slow(here, &[]), here, Signal::KILL);
    let catalog = job(here).join("catalog");
    std::fs::rename(&catalog, here.join("moved")).unwrap();
    make_link(here.join("other.catalog"), &catalog);
    let ran = run(&mut fast(here, &[])).expect_code(4);
    assert!(ran.err().contains("it is not the private directory"), "{}", ran.err());
    assert_eq!(names_in(&here.join("other.catalog")), other);
    std::fs::remove_file(&catalog).unwrap();
    std::fs::rename(here.join("moved"), &catalog).unwrap();
    run(&mut fast(here, &[])).expect_code(0);
}

#[test]
fn catalog_has_one_job_however_it_is_spelled() {
    let (scratch, _) = tree();
    let here = scratch.path();
    make_link(".", here.join("link"));
    ended(&mut slow(here, &[]), here, Signal::KILL);
    let spelled = here.join("link/scan.catalog");
    let listed = run(atta().arg("jobs").arg(&spelled)).expect_code(0);
    assert!(listed.out().contains("interrupted"), "{}", listed.out());
    let ran = run(walk(["--output"]).arg(&spelled).arg("tree").current_dir(here)).expect_code(0);
    assert!(ran.err().contains("entries are not looked at again"), "{}", ran.err());
    assert!(here.join("scan.catalog/_manifest.json").exists());
    assert_eq!(jobs_in(here), Vec::<PathBuf>::new());
}

#[test]
fn second_run_leaves_files_of_the_first_alone() {
    let (scratch, _) = tree();
    let here = scratch.path();
    let mut first = slow(here, &["--errors", "errors", "missing"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while parts(here) < 2 {
        assert!(since.elapsed() < Duration::from_secs(100), "it ends no part");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(here.join("errors"), "a row of the first\n").unwrap();
    let second = run(&mut fast(here, &["--errors", "errors", "missing"])).expect_code(4);
    assert!(second.err().contains("is running"), "{}", second.err());
    assert_eq!(std::fs::read(here.join("errors")).unwrap(), b"a row of the first\n");
    kill_process(i32::try_from(first.id()).ok().and_then(Pid::from_raw).unwrap(), Signal::KILL).unwrap();
    first.wait().unwrap();
}

#[test]
fn manifest_says_when_and_how_the_job_began() {
    let (scratch, _) = tree();
    let here = scratch.path();
    ended(&mut slow(here, &["--exclude", "d1*"]), here, Signal::KILL);
    std::thread::sleep(Duration::from_secs(1));
    run(atta().args(["resume", "scan.catalog"]).current_dir(here)).expect_code(0);
    let manifest = parse(&std::fs::read(here.join("scan.catalog/_manifest.json")).unwrap());
    let options = at(&manifest, "options").as_array().unwrap();
    assert!(options.iter().any(|option| option == "d1*"), "{options:?}");
    assert!(at(&manifest, "started").as_str() < at(&manifest, "finished").as_str());
}

#[test]
fn clean_removes_an_unfinished_catalog() {
    let (scratch, _) = tree();
    let here = scratch.path();
    ended(&mut slow(here, &[]), here, Signal::KILL);
    let listed = run(atta().args(["clean", "."]).current_dir(here)).expect_code(0);
    assert!(listed.out().contains("would be removed"), "{}", listed.out());
    assert!(parts(here) > 2);
    run(atta().args(["clean", "--yes", "."]).current_dir(here)).expect_code(0);
    assert_eq!(names_in(here), ["tree"]);
}

#[test]
fn failures_of_all_runs_are_in_the_catalog() {
    let test = "failures_of_all_runs_are_in_the_catalog";
    let Some((scratch, atta)) = unprivileged(test) else { return };
    let here = scratch.path();
    let tree = make_directory(here.join("tree"));
    for number in 0..120 {
        trees::flat(&make_directory(tree.join(format!("d{number}"))), 30).unwrap();
    }
    trees::unreadable(&make_directory(tree.join("closed"))).unwrap();
    give_to_nobody(here);
    let walk = |more: &[&str]| {
        let mut command = atta();
        command.args(["walk", "--json", "--output", "scan.catalog"]).args(more).arg("tree").current_dir(here);
        command
    };
    let expected = run(&mut walk(&["--no-job"])).expect_code(3);
    let undisturbed = sorted_errors(here);
    std::fs::remove_dir_all(here.join("scan.catalog")).unwrap();
    ended(&mut walk(&["--part-rows", "100", "--iops", "1000"]), here, Signal::KILL);
    let ran = run(&mut walk(&[])).expect_code(3);
    assert_eq!(totals(&ran), totals(&expected));
    assert_eq!(sorted_errors(here), undisturbed);
    assert_eq!(jobs_in(here), Vec::<PathBuf>::new());
}

/// The rows of failed entries.
fn sorted_errors(here: &Path) -> Vec<String> {
    let rows = parse_lines(&std::fs::read(here.join("scan.catalog/_errors.ndjson")).unwrap());
    let mut rows: Vec<_> = rows.iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

/// Kills at random times; each run ends parts after another number of rows.
#[test]
fn catalog_killed_at_random_times_goes_on() {
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let scratch = scratch("catalog-kills");
        let here = scratch.path();
        let tree = make_directory(here.join("tree"));
        trees::random(&make_directory(tree.join("random")), seed, 600).unwrap();
        trees::flat(&make_directory(tree.join("flat")), 4_300).unwrap();
        let expected = totals(&run(walk(["--json"]).arg("tree").current_dir(here)).expect_code(0));
        for _ in 0..1 + random.index(4) {
            let (rows, iops) = (50 + random.below(2_000), 1_000 + random.below(5_000));
            let threads = ["1", "2", "5"][random.index(3)];
            let mut command = walk(["--json", "--output", "scan.catalog", "-j", threads]);
            command.args(["--part-rows", &rows.to_string(), "--iops", &iops.to_string(), "tree"]);
            let mut child =
                command.current_dir(here).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(50 + random.below(1_500)));
            let signal = [Signal::KILL, Signal::KILL, Signal::TERM][random.index(3)];
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
            // It may have ended.
            let _ = kill_process(pid, signal);
            child.wait().unwrap();
            if here.join("scan.catalog").exists() {
                break;
            }
        }
        if !here.join("scan.catalog").exists() {
            run(&mut fast(here, &[])).expect_code(0);
        }
        assert_catalog("catalog_killed_at_random_times_goes_on", here, &expected);
    }
}
