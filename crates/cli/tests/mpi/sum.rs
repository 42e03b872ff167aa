//! `atta sum` on real ranks: what one process prints, whatever the schedule.

use std::process::{Command, Output, Stdio};

use atta_testkit::mpi::{self, Mpi};
use atta_testkit::scratch::Scratch;

use crate::{SCHEDULES, expect_code, mpis, text, tree};

fn alone(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atta")).arg("sum").args(arguments).output().unwrap()
}

fn on_ranks(mpi: &Mpi, count: u32, arguments: &[&str]) -> Output {
    let mut command = mpi.launch(count, Some(&mpi.plugin));
    command.arg(env!("CARGO_BIN_EXE_atta")).arg("sum").args(arguments).stdin(Stdio::null());
    mpi::alone(&mut command)
}

/// The tree of all tests, with a file that is hashed in chunks.
fn tree_with_large() -> (Scratch, String) {
    let (scratch, tree) = tree("sum");
    let bytes: Vec<u8> = (0..24_000_001_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(format!("{tree}/large"), bytes).unwrap();
    (scratch, tree)
}

/// Rows in order, without the times of access, which reading may set.
fn rows(output: &Output) -> Vec<String> {
    let rows = text(&output.stdout);
    let mut rows: Vec<_> = rows
        .lines()
        .map(|row| {
            let mut row: serde_json::Value = serde_json::from_str(row).unwrap();
            row.as_object_mut().unwrap().remove("atime");
            row.to_string()
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn sum_on_ranks_prints_what_it_prints_alone() {
    let (_scratch, tree) = tree_with_large();
    let sorted = ["--sort", "-q", "--chunk", "1M", &tree];
    let lines = alone(&sorted);
    expect_code(&lines, 0, "alone");
    let listed = rows(&alone(&["--format", "ndjson", "-q", &tree]));
    let signature = alone(&["--signature", "-q", &tree]);
    for mpi in mpis("sum_on_ranks_prints_what_it_prints_alone") {
        for (schedule, count) in SCHEDULES.into_iter().zip([3, 2, 3, 3, 5, 1]) {
            let what = format!("{}: {schedule}, {count} ranks", mpi.version);
            let arguments = |more: [&'static str; 2]| [["--schedule", schedule], more].concat();
            let found = on_ranks(mpi, count, &[&["--schedule", schedule], &sorted[..]].concat());
            expect_code(&found, 0, &what);
            assert!(found.stdout == lines.stdout, "{what}");
            let found =
                on_ranks(mpi, count, &[&arguments(["--format", "ndjson"])[..], &["-q", &tree]].concat());
            expect_code(&found, 0, &what);
            assert!(rows(&found) == listed, "{what}");
            let found = on_ranks(mpi, count, &[&arguments(["--signature", "-q"])[..], &[&tree]].concat());
            assert_eq!(text(&found.stdout), text(&signature.stdout), "{what}");
        }
    }
}

#[test]
fn records_are_made_and_checked_on_ranks() {
    let (scratch, tree) = tree_with_large();
    let list = scratch.join("list.b3").to_string_lossy().into_owned();
    for (number, mpi) in mpis("records_are_made_and_checked_on_ranks").iter().enumerate() {
        let what = &mpi.version;
        let catalog = scratch.join(format!("catalog-{number}")).to_string_lossy().into_owned();
        expect_code(&on_ranks(mpi, 3, &["--output", &catalog, &tree]), 0, what);
        expect_code(&alone(&["--check", &catalog]), 0, what);
        expect_code(&on_ranks(mpi, 3, &["--check", &catalog]), 0, what);
        std::fs::write(&list, on_ranks(mpi, 3, &["-q", &tree]).stdout).unwrap();
        expect_code(&alone(&["--check", &list]), 0, what);
        expect_code(&on_ranks(mpi, 3, &["--check", &list]), 0, what);
        // One file changes, one is new, and one listed is not there.
        std::fs::write(format!("{tree}/large"), b"changed").unwrap();
        std::fs::write(format!("{tree}/new"), b"new").unwrap();
        let missing = format!("{}  {tree}/missing\n", "0".repeat(64));
        std::fs::write(&list, [std::fs::read(&list).unwrap(), missing.into_bytes()].concat()).unwrap();
        for record in [&["--check", &list][..], &["--check", &list, &tree], &["--check", &catalog]] {
            let expected = alone(record);
            let found = on_ranks(mpi, 3, record);
            expect_code(&expected, 1, what);
            expect_code(&found, 1, what);
            assert_eq!(text(&found.stdout), text(&expected.stdout), "{what}");
        }
        std::fs::remove_file(format!("{tree}/new")).unwrap();
        let bytes: Vec<u8> =
            (0..24_000_001_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(format!("{tree}/large"), bytes).unwrap();
    }
}

#[test]
fn standard_input_is_refused_on_ranks() {
    for mpi in mpis("standard_input_is_refused_on_ranks") {
        let refused = on_ranks(mpi, 2, &["-"]);
        let error = text(&refused.stderr);
        expect_code(&refused, 2, &mpi.version);
        assert_eq!(error.matches("atta: standard input is read on one rank").count(), 1, "{error}");
    }
}
