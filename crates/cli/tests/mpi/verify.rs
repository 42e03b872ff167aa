//! `atta verify` on real ranks: what one process prints, whatever the schedule.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use atta_testkit::mpi::{self, Mpi};
use atta_testkit::scratch::Scratch;

use crate::{SCHEDULES, expect_code, mpis, text};

fn alone(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atta")).arg("verify").args(arguments).output().unwrap()
}

fn on_ranks(mpi: &Mpi, count: u32, arguments: &[&str]) -> Output {
    let mut command = mpi.launch(count, Some(&mpi.plugin));
    command.arg(env!("CARGO_BIN_EXE_atta")).arg("verify").args(arguments).stdin(Stdio::null());
    mpi::alone(&mut command)
}

/// Two trees that are the same: many directories, one of them large, a file that is compared in chunks, and hard links.
fn same_trees(name: &str) -> (Scratch, [String; 2]) {
    let scratch = Scratch::new(name).unwrap();
    let bytes: Vec<u8> = (0..24_000_001_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let roots = ["one", "two"].map(|name| scratch.join(name));
    for root in &roots {
        for number in 0..20 {
            let directory = root.join(number.to_string());
            fs::create_dir_all(&directory).unwrap();
            for name in 0..20 {
                fs::write(directory.join(name.to_string()), vec![number; name * 50]).unwrap();
            }
            fs::hard_link(root.join("0/19"), directory.join("link")).unwrap();
        }
        fs::write(root.join("large"), &bytes).unwrap();
        fs::create_dir(root.join("many")).unwrap();
        for number in 0..3000 {
            fs::File::create(root.join(format!("many/{number}"))).unwrap();
        }
    }
    (scratch, roots.map(|root| root.to_string_lossy().into_owned()))
}

/// Makes every kind of difference in a copy.
fn change(target: &str) {
    let target = Path::new(target);
    fs::remove_file(target.join("3/3")).unwrap();
    fs::write(target.join("4/new\n"), b"new").unwrap();
    fs::write(target.join("5/5"), vec![6; 250]).unwrap();
    fs::remove_file(target.join("7/link")).unwrap();
    fs::write(target.join("7/link"), vec![0; 950]).unwrap();
    fs::write(target.join("many/extra"), b"").unwrap();
    let mut large = fs::read(target.join("large")).unwrap();
    large[20_000_000] ^= 1;
    fs::write(target.join("large"), large).unwrap();
}

fn sorted(output: &Output) -> Vec<String> {
    let mut lines: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The summary, without what differs from run to run.
fn summary(output: &Output) -> serde_json::Value {
    let mut summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for name in ["elapsed_seconds", "threads", "files", "bytes"] {
        summary.as_object_mut().unwrap().remove(name).unwrap();
    }
    summary
}

#[test]
fn verify_on_ranks_reports_the_same_as_alone() {
    let (scratch, [one, two]) = same_trees("verify");
    let fields = "size,mode,owner,target,links,content";
    let basic = ["--fields", fields, "--chunk", "1M", &one, &two];
    expect_code(&alone(&basic), 0, "alone");
    for mpi in mpis("verify_on_ranks_reports_the_same_as_alone") {
        expect_code(&on_ranks(mpi, 3, &basic), 0, &mpi.version);
    }
    change(&two);
    let rows = [&["--format", "ndjson"], &basic[..]].concat();
    let (expected, alone) =
        (alone(&rows), alone(&[&["--json", "--output", "/dev/null"], &basic[..]].concat()));
    expect_code(&expected, 1, "alone");
    assert_eq!(sorted(&expected).len(), 6, "{}", text(&expected.stdout));
    for mpi in mpis("verify_on_ranks_reports_the_same_as_alone") {
        for (schedule, count) in SCHEDULES.into_iter().zip([3, 2, 3, 3, 5, 1]) {
            let what = format!("{}: {schedule}, {count} ranks", mpi.version);
            let found = on_ranks(mpi, count, &[&["--schedule", schedule], &rows[..]].concat());
            expect_code(&found, 1, &what);
            assert_eq!(sorted(&found), sorted(&expected), "{what}");
        }
        let table = scratch.join("table.parquet").to_string_lossy().into_owned();
        for count in [3, 1] {
            let what = format!("{}: {count} ranks", mpi.version);
            let found = on_ranks(mpi, count, &[&["--json", "--output", &table], &basic[..]].concat());
            expect_code(&found, 1, &what);
            assert_eq!(summary(&found), summary(&alone), "{what}");
            assert!(fs::read(&table).unwrap().ends_with(b"PAR1"), "{what}");
        }
        expect_code(&on_ranks(mpi, 3, &[&["--quiet"], &basic[..]].concat()), 1, &mpi.version);
    }
}

#[test]
fn example_extra_on_ranks_prints_the_same_as_alone() {
    let test = "example_extra_on_ranks_prints_the_same_as_alone";
    if mpis(test).is_empty() {
        return;
    }
    let (_scratch, [one, two]) = same_trees("extra");
    change(&two);
    let extra = mpi::build_example("atta-ops", "extra");
    let alone = Command::new(&extra).args([&one, &two]).output().unwrap();
    // The names, their directories and the root.
    assert_eq!(sorted(&alone).len(), 3, "{}", text(&alone.stdout));
    for mpi in mpis(test) {
        for count in [1, 3] {
            let mut command = mpi.launch(count, Some(&mpi.plugin));
            let output = mpi::alone(command.arg(&extra).args([&one, &two]).stdin(Stdio::null()));
            expect_code(&output, 0, &mpi.version);
            assert_eq!(sorted(&output), sorted(&alone), "{}: {count} ranks", mpi.version);
        }
    }
}

#[test]
fn roots_that_cannot_be_compared_are_refused_once() {
    let (_scratch, [one, _]) = same_trees("verify");
    for mpi in mpis("roots_that_cannot_be_compared_are_refused_once") {
        for (other, what) in [("/dev/null", "SOURCE is a directory and TARGET a "), ("/missing", "/missing")]
        {
            let refused = on_ranks(mpi, 3, &[&one, other]);
            let error = text(&refused.stderr);
            expect_code(&refused, 4, &mpi.version);
            assert_eq!(error.matches("atta: ").count(), 1, "{error}");
            assert!(error.contains(what), "{error}");
        }
    }
}
