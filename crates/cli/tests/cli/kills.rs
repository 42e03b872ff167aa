//! Copies that are killed and interrupted at random times, with other options in each run, until one comes to its end: it is the copy that an
//! undisturbed run makes. `ATTA_KILLS`: how many such copies; `ATTA_SEED`: the first seed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use atta_testkit::random::{Random, asked};
use atta_testkit::trees;
use rustix::process::{Pid, Signal, kill_process};

use crate::resume_copy::{assert_same, copy, signature, temporary, totals};
use crate::support::{Ran, make_directory, make_file, run, scratch};

/// Copies in a short test.
const KILLS: u64 = 6;
/// Runs of one copy that are ended early, at most.
const RUNS_MAX: usize = 5;

/// Small and large files, files with several names, directories of all sizes.
fn make_tree(tree: &Path, seed: u64) {
    make_directory(tree);
    trees::random(&make_directory(tree.join("random")), seed, 700).unwrap();
    trees::flat(&make_directory(tree.join("flat")), 4_300).unwrap();
    for number in 0..60_u32 {
        let directory = make_directory(tree.join(format!("d{number}")));
        trees::flat(&directory, 12).unwrap();
        std::fs::hard_link(tree.join(format!("d{}/f0000001", number / 7)), directory.join("again")).unwrap();
    }
    let bytes: Vec<u8> =
        (0..5 << 20_u32).flat_map(|word: u32| word.wrapping_mul(2_654_435_769).to_le_bytes()).collect();
    make_file(tree.join("d3/large"), &bytes);
    make_file(tree.join("large"), &bytes);
}

/// Ends a run after some time, unless it ends before. Returns whether it did.
fn ended_by_itself(command: &mut Command, after: Duration, signal: Signal) -> Option<i32> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    if let Some(status) = child.try_wait().unwrap() {
        return status.code();
    }
    kill_process(i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap(), signal).unwrap();
    // A signal may come when it has ended.
    child.wait().unwrap().code().filter(|code| *code == 0)
}

/// One copy. Returns how many runs were ended early, and what the last one came to; none: a run ended before it was killed.
fn copied_at_last(here: &Path, random: &mut Random, form: usize) -> (usize, Option<Ran>) {
    let words: [&[&str]; 4] =
        [&["tree", "target"], &["tree", "into"], &["-T", "tree", "merged"], &["tree/.", "into"]];
    let fsync = ["none", "batch"][random.index(2)];
    let verify: &[&str] = if random.below(10) < 3 { &["--verify"] } else { &[] };
    let command = |threads: &str| {
        let mut command = copy(&["--json", "--chunk", "1M", "--fsync", fsync, "-j", threads]);
        command.args(verify).args(words[form]).current_dir(here);
        command
    };
    let runs = 1 + random.index(RUNS_MAX);
    for number in 0..runs {
        let (iops, bandwidth) = (1_000 + random.below(5_000), 4 + random.below(30));
        let mut command = command(["1", "2", "5"][random.index(3)]);
        command.args(["--iops", &iops.to_string(), "--bandwidth", &format!("{bandwidth}M")]);
        let after = Duration::from_millis(50 + random.below(2_500));
        let signal = [Signal::KILL, Signal::KILL, Signal::TERM, Signal::INT][random.index(4)];
        if let Some(code) = ended_by_itself(&mut command, after, signal) {
            assert_eq!(code, 0, "{words:?}");
            return (number, None);
        }
    }
    (runs, Some(run(&mut command("2")).expect_code(0)))
}

#[test]
fn killed_at_random_times_it_goes_on() {
    kill_and_go_on(KILLS);
}

#[test]
#[ignore = "takes half an hour"]
fn killed_very_often_it_goes_on() {
    kill_and_go_on(150);
}

fn kill_and_go_on(copies: u64) {
    let first = asked("ATTA_SEED").unwrap_or(1);
    for seed in first..first + asked("ATTA_KILLS").unwrap_or(copies) {
        let mut random = Random::new(seed);
        let scratch = scratch("kills");
        let (here, source) = (scratch.path(), scratch.join("tree"));
        make_tree(&source, seed);
        make_directory(here.join("into"));
        make_directory(here.join("merged"));
        let plain = run(copy(&["--json"]).arg(&source).arg(here.join("plain"))).expect_code(0);
        let form = random.index(4);
        let (runs, last) = copied_at_last(here, &mut random, form);
        let target = here.join(["target", "into/tree", "merged", "into"][form]);
        if let Some(last) = last {
            let said = format!("seed {seed}, {runs} runs: {}{}", last.out(), last.err());
            assert_eq!((totals(&last), signature(&last)), (totals(&plain), signature(&plain)), "{said}");
        }
        assert_same(&source, &target);
        assert_eq!(temporary(here), Vec::<std::path::PathBuf>::new(), "seed {seed}");
    }
}
