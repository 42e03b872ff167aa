//! `atta simulate`: the same arguments give the same numbers, figures are drawn, numbers add up, a signal ends it. How the
//! numbers look is in the snapshots.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Ran, atta, names_in, parse, run, scratch};

/// `atta simulate` with the words of a line.
fn simulate(words: &str) -> Command {
    let mut command = atta();
    command.arg("simulate").args(words.split_whitespace());
    command
}

/// Runs it with `--plots` into a new directory; the names that are there then, and that each is an SVG file.
fn plot(words: &str, directory: &Path) -> Vec<OsString> {
    run(simulate(words).arg("--plots").arg(directory)).expect_code(0);
    let names = names_in(directory);
    for name in &names {
        let figure = std::fs::read(directory.join(name)).unwrap();
        assert!(figure.starts_with(b"<svg") && figure.ends_with(b"</svg>\n"), "{name:?}");
    }
    names
}

/// The runs, without the time that it took to simulate them.
fn runs(ran: &Ran) -> Vec<Value> {
    let mut runs = ran.json()["runs"].as_array().unwrap().clone();
    for run in &mut runs {
        run.as_object_mut().unwrap().remove("elapsed_seconds").unwrap();
    }
    runs
}

#[test]
fn same_seed_gives_the_same_tree() {
    let words = "--ranks 6 --threads 2 --files 20K --json";
    let once = runs(&run(&mut simulate(words)).expect_code(0));
    assert_eq!(once, runs(&run(&mut simulate(words)).expect_code(0)));
    let other = runs(&run(simulate(words).args(["--seed", "2"])).expect_code(0));
    assert_ne!(once[0]["trace"], other[0]["trace"]);
}

#[test]
fn numbers_of_ranks_and_kinds_add_up() {
    let scratch = scratch("simulated");
    let stats = scratch.join("stats.json");
    let words = "--paper --schedule centralized,random,hybrid --ranks 8 --files 5000";
    run(simulate(words).arg("--stats").arg(&stats)).expect_code(0);
    let stats = parse(&std::fs::read(&stats).unwrap());
    let runs = stats["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| run["ranks_count"].as_u64().unwrap()).collect::<Vec<_>>(), [8, 8, 4]);
    for run in runs {
        let ranks = run["ranks"].as_array().unwrap();
        let entries: u64 = ranks.iter().map(|rank| rank["entries"].as_u64().unwrap()).sum();
        let directories = run["directories"].as_u64().unwrap();
        assert_eq!((run["files"].as_u64(), entries), (Some(5000), 5000 + directories));
        let kinds = run["by_kind"].as_object().unwrap();
        for (at, name) in [(1, "messages"), (2, "bytes")] {
            let traffic = ranks.iter().flat_map(|rank| rank["traffic"].as_array().unwrap());
            let of_pairs: u64 = traffic.map(|sent| sent[at].as_u64().unwrap()).sum();
            let of_kinds: u64 = kinds.values().map(|kind| kind[name].as_u64().unwrap()).sum();
            assert_eq!((of_pairs, Some(of_kinds)), (of_kinds, run[name].as_u64()), "{name}");
        }
    }
    // A master does no task, and none of the others talks to anybody else.
    let centralized = runs[0]["ranks"].as_array().unwrap();
    assert_eq!(centralized[0]["entries"], 0);
    for rank in &centralized[1..] {
        // The token goes around.
        let work = rank["traffic"].as_array().unwrap().iter().filter(|sent| sent[2].as_u64() > Some(1000));
        assert!(work.into_iter().all(|sent| sent[0] == 0), "{rank}");
    }
}

#[test]
fn one_run_is_drawn_and_several_are_compared() {
    let scratch = scratch("figures");
    let one = plot("--ranks 5 --files 2K", &scratch.join("one"));
    assert_eq!(one, ["bytes.svg", "messages.svg", "sent.svg", "time.svg", "work.svg"]);
    let several = plot("--ranks 2,4 --schedule random,lifeline --files 2K", &scratch.join("several"));
    let expected = [
        "bytes-lifeline-2.svg",
        "bytes-lifeline-4.svg",
        "bytes-random-2.svg",
        "bytes-random-4.svg",
        "running-time.svg",
        "sent-bytes.svg",
        "sent-messages.svg",
        "time-lifeline.svg",
        "time-random.svg",
        "work-2.svg",
        "work-4.svg",
    ];
    assert_eq!(several, expected);
}

#[test]
fn every_figure_of_the_paper_is_drawn() {
    let scratch = scratch("papers-figures");
    let figures: [(&str, &[&str]); 5] = [
        ("1", &["figure-1-centralized.svg"]),
        ("3", &["figure-3a.svg", "figure-3b-hybrid.svg"]),
        ("4", &["figure-4-bytes.svg", "figure-4-messages.svg"]),
        (
            "5",
            &[
                "figure-5-centralized.svg",
                "figure-5-hybrid.svg",
                "figure-5-proximity.svg",
                "figure-5-random.svg",
            ],
        ),
        ("6", &["figure-6a.svg", "figure-6b.svg"]),
    ];
    for (number, names) in figures {
        let directory = scratch.join(number);
        assert_eq!(plot(&format!("--figure {number} --files 2K --quiet"), &directory), names);
    }
}

#[test]
fn stats_without_pairs_have_no_maps() {
    let scratch = scratch("many-ranks");
    let directory = scratch.join("figures");
    let ran = run(simulate("--ranks 2049 --files 100").arg("--plots").arg(&directory)).expect_code(0);
    assert!(ran.err().contains("no heat maps"), "{}", ran.err());
    assert_eq!(names_in(&directory), ["sent.svg", "time.svg", "work.svg"]);
}

#[test]
fn what_cannot_be_written_is_said() {
    let scratch = scratch("unwritable");
    let stats = scratch.join("missing/stats.json");
    let ran = run(simulate("--ranks 2 --files 10").arg("--stats").arg(stats)).expect_code(4);
    assert!(ran.err().contains("cannot write statistics: "), "{}", ran.err());
}

#[test]
fn a_signal_ends_it() {
    let scratch = scratch("endless");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        // Some days of simulation. What it says first comes when signals are caught already.
        let mut command = simulate("--ranks 2049 --files 1T --plots");
        command.arg(scratch.join("figures")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stderr.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "interrupted: 0 runs were done\n");
        assert!(!scratch.join("figures").exists());
    }
}
