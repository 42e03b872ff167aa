//! `atta-bench copy` from the command line to its files, with programs in the places of atta and the peers: whose copies
//! count, and who is left out with which reason.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// In memory where that is possible: what a disk takes to sync depends on everybody who uses it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let below = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = below.join(format!("atta-bench-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn program(&self, name: &str, script: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test made this file itself")]
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "the test made this directory itself")]
        let removed = fs::remove_dir_all(&self.0);
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

/// Runs one case over twenty files, everybody named.
fn bench(scratch: &Scratch, case: &str, atta: &str, peers: &[(&str, String)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atta-bench"));
    command.args(["copy", "--quick", "--set", "small", "--scale", "0.0005", "--rounds", "3"]);
    command
        .args(["--only", case, "--dir"])
        .arg(scratch.0.join("place"))
        .arg("--results")
        .arg(scratch.0.join("results"));
    command.args(["--copy-limit", env!("CARGO_BIN_EXE_copy-limit"), "--atta", atta]);
    peers.iter().for_each(|(name, program)| {
        command.arg("--peer").arg(format!("{name}={program}"));
    });
    command.output().unwrap()
}

/// The only file with this ending.
fn written(scratch: &Scratch, ending: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "the test made this directory itself")]
    let mut files = fs::read_dir(scratch.0.join("results")).unwrap().map(|file| file.unwrap().path());
    let file = files.find(|file| file.extension().is_some_and(|extension| extension == ending)).unwrap();
    fs::read_to_string(file).unwrap()
}

#[test]
fn only_complete_copies_count() {
    let scratch = Scratch::new("complete");
    let log = scratch.0.join("log");
    // What it is asked for it writes down; then it copies all of it.
    let script = format!(
        "echo \"$@\" >>{}\nwhile [ $# -gt 2 ]; do shift; done\nexec cp -a \"$1\" \"$2\"",
        log.display()
    );
    let atta = scratch.program("atta", &script);
    let peers = [
        ("cp", "cp".to_owned()),
        // Copies all but one of the files.
        ("rsync", scratch.program("rsync", "cp -a \"$2\" \"$3\"; rm \"$(find \"$3\" -type f | head -1)\"")),
        ("rclone", scratch.program("rclone", "echo first >&2; echo broken: $PPID >&2; exit 7")),
        ("xcp", scratch.program("xcp", "true")),
        ("fpsync", scratch.program("fpsync", "kill -9 $$")),
        ("dcp", "/nowhere/dcp".to_owned()),
    ];
    let output = bench(&scratch, "peers", &atta, &peers);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    let report = written(&scratch, "md");
    assert_eq!(String::from_utf8_lossy(&output.stdout), report);
    for reason in [
        "Left out: rsync: made 19 files with",
        "Left out: rclone: exit code 7: broken: ",
        "Left out: xcp: looking at what was made: No such file",
        "Left out: fpsync: ended by a signal",
        "Left out: dcp: ",
    ] {
        assert!(report.contains(reason), "{reason}\n{report}");
    }
    let json: serde_json::Value = serde_json::from_str(&written(&scratch, "json")).unwrap();
    let samples = json["sheets"][0]["samples"].as_array().unwrap();
    let seconds = samples.iter().filter(|sample| sample["what"] == "seconds");
    let counted: Vec<_> =
        seconds.map(|sample| (sample["who"].as_str().unwrap(), &sample["by_round"])).collect();
    let names: Vec<_> = counted.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["copy-limit", "atta copy", "atta copy, no digest", "cp"], "{report}");
    assert!(counted.iter().all(|(_, rounds)| rounds.as_array().unwrap().len() == 3), "{counted:?}");
    // One round to warm up and three, with a digest and without.
    let asked = fs::read_to_string(log).unwrap();
    let asked: Vec<_> = asked.lines().filter(|line| line.starts_with("copy ")).collect();
    let without = asked.iter().filter(|line| line.contains(" --digest none ")).count();
    assert_eq!((asked.len(), without), (8, 4), "{asked:?}");
    assert!(!report.contains(scratch.0.to_str().unwrap()), "paths of this machine:\n{report}");
    #[expect(clippy::disallowed_methods, reason = "the test made this directory itself")]
    let left = fs::read_dir(scratch.0.join("place")).unwrap().count();
    assert_eq!(left, 0, "everything is removed");
}

#[test]
fn missing_option_leaves_only_its_contender_out() {
    let scratch = Scratch::new("option");
    let script = "case \"$*\" in *--verify*) echo no such option >&2; exit 2;; esac\n\
                  while [ $# -gt 2 ]; do shift; done\nexec cp -a \"$1\" \"$2\"";
    let atta = scratch.program("atta", script);
    let output = bench(&scratch, "verify", &atta, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = written(&scratch, "md");
    assert!(report.contains("Left out: atta copy, verified: exit code 2: no such option"), "{report}");
    assert!(report.contains("| atta copy ") && report.contains("| cp -a, diff -r "), "{report}");
}
