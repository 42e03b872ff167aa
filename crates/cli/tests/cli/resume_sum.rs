//! `atta sum --output` that is killed: the same command goes on, with the digests, totals and signature of an undisturbed run.

use std::path::{Path, PathBuf};
use std::process::Command;

use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use rustix::process::Signal;
use serde_json::Value;

use crate::job_in_target::jobs_in;
use crate::resume::add_files;
use crate::resume_catalog::ended;
use crate::support::{
    Ran, at, atta, make_directory, make_file, names_in, number, parse, run, scratch, set_mode, unprivileged,
};

/// Small files, large ones, and files with several names.
fn tree() -> (Scratch, PathBuf) {
    let scratch = scratch("resume-sum");
    let tree = make_directory(scratch.join("tree"));
    trees::random(&make_directory(tree.join("random")), 5, 400).unwrap();
    trees::flat(&make_directory(tree.join("flat")), 4_300).unwrap();
    let words = |seed: u32| (0..700_000_u32).map(move |word| word.wrapping_mul(2_654_435_769) ^ seed);
    for number in 0..100_u32 {
        let directory = make_directory(tree.join(format!("d{number}")));
        trees::flat(&directory, 20).unwrap();
        if number % 25 == 0 {
            let bytes: Vec<u8> = words(number).flat_map(u32::to_le_bytes).collect();
            make_file(directory.join("large"), &bytes);
        }
        std::fs::hard_link(tree.join(format!("d{}/f0000001", number / 7)), directory.join("again")).unwrap();
    }
    (scratch, tree)
}

fn sum(here: &Path, more: &[&str]) -> Command {
    let mut command = atta();
    command.args(["sum", "--json", "--chunk", "1M", "--output", "sums"]).args(more).arg("tree");
    command.current_dir(here);
    command
}

const SLOW: &[&str] = &["--part-rows", "100", "--iops", "1000"];

/// What does not depend on which of several names of a file was read first.
fn totals(ran: &Ran) -> Vec<Value> {
    let totals = at(&ran.json(), "totals").clone();
    ["files", "directories", "symlinks", "special_files", "bytes", "entries", "signature"]
        .map(|name| totals[name].clone())
        .to_vec()
}

/// A complete catalog has a row for each entry, with the right digest.
fn assert_sums(here: &Path) {
    let manifest = parse(&std::fs::read(here.join("sums/_manifest.json")).unwrap());
    let shards = at(&manifest, "shards").as_array().unwrap();
    let rows: u64 = shards.iter().map(|shard| number(shard, "rows")).sum();
    assert_eq!(rows, number(&manifest, "totals.entries"));
    assert_eq!(jobs_in(here), Vec::<PathBuf>::new());
    let checked =
        run(atta().args(["sum", "--json", "--check", "sums", "tree"]).current_dir(here)).expect_code(0);
    // Standard output has the differences.
    assert_eq!(checked.out(), "");
}

#[test]
fn changed_directories_are_reported_by_a_sum() {
    let (scratch, tree) = tree();
    let here = scratch.path();
    ended(&mut sum(here, SLOW), here, Signal::KILL);
    add_files(&tree);
    let ran = run(&mut sum(here, &[])).expect_code(3);
    assert!(number(&ran.json(), "earlier.changed_directories") > 0, "{}", ran.out());
}

#[test]
fn killed_sum_goes_on_to_the_same_signature() {
    let (scratch, _) = tree();
    let here = scratch.path();
    let expected = totals(&run(&mut sum(here, &["--no-job"])).expect_code(0));
    assert!(expected.iter().all(|value| !value.is_null()), "{expected:?}");
    std::fs::remove_dir_all(here.join("sums")).unwrap();
    for (threads, signal) in [("1", Signal::KILL), ("3", Signal::TERM)] {
        ended(sum(here, SLOW).args(["-j", threads]), here, signal);
        assert!(!here.join("sums").exists());
    }
    let ran = run(&mut sum(here, &["-j3"])).expect_code(0);
    assert!(ran.err().contains("entries are not looked at again"), "{}", ran.err());
    assert_eq!(totals(&ran), expected);
    assert_sums(here);
    assert_eq!(names_in(here), ["sums", "tree"]);
}

#[test]
fn refused_sum_leaves_files_and_names_the_job() {
    let (scratch, _) = tree();
    let here = scratch.path();
    ended(&mut sum(here, SLOW), here, Signal::KILL);
    std::fs::write(here.join("errors"), "a row of another run\n").unwrap();
    let other = run(atta().args(["walk", "--output", "sums", "tree"]).current_dir(here)).expect_code(2);
    assert!(other.err().contains("it has atta sum"), "{}", other.err());
    run(&mut sum(here, &["--no-job"])).expect_code(0);
    let ran = run(&mut sum(here, &["--errors", "errors"])).expect_code(4);
    let clean = ran
        .err()
        .lines()
        .find_map(|line| line.split_once("to give it up: atta "))
        .map(|(_, words)| words.to_owned());
    let clean = clean.unwrap_or_else(|| panic!("{}", ran.err()));
    assert_eq!(std::fs::read(here.join("errors")).unwrap(), b"a row of another run\n");
    run(atta().args(clean.split(' ')).current_dir(here)).expect_code(0);
    assert_eq!(names_in(here), ["errors", "sums", "tree"]);
}

#[test]
fn interrupted_sum_says_how_to_go_on() {
    let (scratch, _) = tree();
    let here = scratch.path();
    let said = ended(sum(here, SLOW).arg("-j2"), here, Signal::INT);
    let hint = said.lines().find_map(|line| line.split_once("or: atta ")).map(|(_, command)| command);
    let words: Vec<_> = hint.unwrap_or_else(|| panic!("{said}")).split(' ').collect();
    let shown = run(atta().args(["jobs", "show", "--json", "sums"]).current_dir(here)).expect_code(0);
    assert!(number(&shown.json(), "logged.entries") > 100, "{}", shown.out());
    let refused = run(&mut sum(here, &["--max-holes", "1M"])).expect_code(2);
    assert!(refused.err().contains("--max-holes"), "{}", refused.err());
    run(atta().args(words).current_dir(here)).expect_code(0);
    assert_sums(here);
}

#[test]
fn unreadable_file_is_tried_again_by_a_resume() {
    let Some((scratch, atta)) = unprivileged("unreadable_file_is_tried_again_by_a_resume") else {
        return;
    };
    let here = scratch.path();
    let tree = make_directory(here.join("tree"));
    for number in 0..150 {
        trees::flat(&make_directory(tree.join(format!("d{number}"))), 30).unwrap();
    }
    for number in [3, 77] {
        make_file(tree.join(format!("d{number}/closed")), b"closed");
    }
    crate::support::give_to_nobody(here);
    set_mode(&tree.join("d3/closed"), 0);
    set_mode(&tree.join("d77/closed"), 0);
    let sum = |more: &[&str]| {
        let mut command = atta();
        command.args(["sum", "--json", "--output", "sums"]).args(more).arg("tree").current_dir(here);
        command
    };
    let said = ended(&mut sum(&["--part-rows", "200", "--iops", "900"]), here, Signal::TERM);
    assert!(said.contains("to do what is left"), "{said}");
    set_mode(&tree.join("d3/closed"), 0o644);
    let ran = run(&mut sum(&[])).expect_code(3);
    assert_eq!((number(&ran.json(), "totals.files"), number(&ran.json(), "errors.count")), (150 * 30 + 1, 1));
    let errors = std::fs::read_to_string(here.join("sums/_errors.ndjson")).unwrap();
    assert_eq!((errors.lines().count(), errors.contains("d77/closed")), (1, true), "{errors}");
    let manifest = parse(&std::fs::read(here.join("sums/_manifest.json")).unwrap());
    let rows =
        at(&manifest, "shards").as_array().unwrap().iter().map(|shard| number(shard, "rows")).sum::<u64>();
    assert_eq!(rows, number(&manifest, "totals.entries"));
}
