//! Few file descriptors: whatever the limit is, from the stated minimum on, everything is walked, copied, summed up and compared.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{make_directory, make_file, number, run, scratch};

/// The program with so many descriptors at most, which it cannot raise.
fn limited<A: AsRef<OsStr>>(descriptors: u32, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n \"$0\" && exec \"$@\""]).arg(descriptors.to_string());
    command.arg(env!("CARGO_BIN_EXE_atta")).args(arguments).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
    command
}

const CHAINS: u64 = 40;
const LEVELS: u64 = 30;

/// Chains of directories, with a file in each.
fn chains(top: &Path) {
    make_directory(top);
    for chain in 0..CHAINS {
        let mut here = top.join(format!("chain-{chain}"));
        for level in 0..LEVELS {
            make_file(make_directory(&here).join("file"), format!("{chain} {level}").as_bytes());
            here.push("level");
        }
    }
}

// Each directory that waits for its name keeps its source, which was open without being counted.
#[test]
fn tree_of_long_chains_needs_few_descriptors() {
    let scratch = scratch("chains");
    let source = scratch.join("source");
    chains(&source);
    let signature = |descriptors, threads: &str| {
        let options = ["sum", "--signature", "-q", "-j", threads];
        run(limited(descriptors, options).arg(&source)).expect_code(0).out()
    };
    let whole = signature(4096, "2");
    for (descriptors, threads) in [(64, "1"), (64, "128"), (200, "auto"), (1024, "128")] {
        let target = scratch.join(format!("target-{descriptors}-{threads}"));
        let options = ["--json", "-j", threads];
        let command = |name| limited(descriptors, [&[name][..], &options].concat());
        let copied = run(command("copy").args([&source, &target])).expect_code(0).json();
        assert_eq!(number(&copied, "files"), CHAINS * LEVELS);
        run(command("copy")
            .args(["--update", "--verify", "--chunk", "1M"])
            .arg(source.join("."))
            .arg(&target))
        .expect_code(0);
        run(command("verify").arg("--content").args([&source, &target])).expect_code(0);
        let walked = run(command("walk").arg(&target)).expect_code(0).json();
        assert_eq!(number(&walked, "totals.entries"), 2 * CHAINS * LEVELS + 1);
        assert_eq!(signature(descriptors, threads), whole);
    }
}

#[test]
fn too_few_descriptors_are_refused_at_the_start() {
    let scratch = scratch("too-few");
    make_directory(scratch.join("source"));
    for command in [&["walk", "source"][..], &["sum", "source"], &["copy", "source", "target"]] {
        let ran = run(limited(63, command).current_dir(scratch.path())).expect_code(4);
        assert!(
            ran.err().starts_with("atta: cannot start: the limit of open files is 63, "),
            "{}",
            ran.err()
        );
        assert!(ran.err().contains("\nhint: raise the limit"), "{}", ran.err());
    }
    assert!(!scratch.join("target").exists());
}

#[test]
fn thread_limit_of_descriptors_is_reported() {
    let scratch = scratch("many-threads");
    let ran = run(limited(256, ["walk", "-j", "128"]).arg(scratch.path())).expect_code(0);
    let (beginning, end) = ("atta: note: ", " of 128 threads: the limit of open files is 256 (ulimit -n)\n");
    assert!(ran.err().starts_with(beginning) && ran.err().ends_with(end), "{}", ran.err());
    assert_eq!(run(limited(256, ["walk", "-q", "-j", "128"]).arg(scratch.path())).expect_code(0).err(), "");
    assert_eq!(run(limited(256, ["walk", "-j", "4"]).arg(scratch.path())).expect_code(0).err(), "");
}
