//! `atta copy --from-list` and `--repair` with what `atta verify` found: exactly these entries, exactly what differs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use atta_testkit::scratch::Scratch;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Ran, run, scratch};

/// The tree of a report of a broken repair: a directory with two files, one of which has another name above.
const TREE: &str = "mkdir -p a/s; echo 1 >a/s/f; echo 2 >a/s/g; echo 3 >a/t; ln a/s/f a/h; $ATTA copy -q a b";
/// The pipeline of docs/verify.md.
const PIPE: &str =
    "$ATTA verify --content --format ndjson a b 2>/dev/null | $ATTA copy --json --from-list - a/. b";
/// The same as one command, with a list that was made before.
const REPAIR: &str = "$ATTA verify -q --content a b; \
                      $ATTA verify --content --format ndjson a b >list 2>/dev/null; $ATTA copy --json --repair list a b";
const BOTH: [&str; 2] = [PIPE, REPAIR];

/// Runs a script with `$ATTA`.
fn shell(directory: &Path, script: &str) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("ATTA", env!("CARGO_BIN_EXE_atta")).current_dir(directory);
    run(&mut command)
}

/// Makes the tree and its copy, damages the copy, and repairs it. The summary, which says that all is well, as a comparison does.
#[track_caller]
fn repaired(name: &str, damage: &str, repair: &str) -> (Scratch, Value) {
    let scratch = scratch(name);
    shell(scratch.path(), TREE).expect_code(0);
    shell(scratch.path(), damage).expect_code(0);
    let ran = shell(scratch.path(), repair).expect_code(0);
    shell(scratch.path(), "$ATTA verify --content a b").expect_code(0);
    let left = shell(scratch.path(), "ls -A b | grep '^.atta' || true");
    assert_eq!(left.out(), "", "nothing is left over");
    (scratch, ran.json())
}

fn inode(scratch: &Scratch, path: &str) -> u64 {
    fs::symlink_metadata(scratch.join(path)).unwrap().ino()
}

/// Files, hard links, and entries that kept their bytes.
fn counts(summary: &Value) -> [u64; 3] {
    ["files", "hard_links", "repaired"].map(|name| summary[name].as_u64().unwrap())
}

// Hazard 37.
#[test]
fn root_row_does_not_copy_everything() {
    for repair in BOTH {
        let (scratch, summary) = repaired("repair-root", "rm b/t", repair);
        assert_eq!(counts(&summary), [1, 0, 1], "{summary}");
        assert_eq!(inode(&scratch, "b/s/f"), inode(&scratch, "b/h"));
    }
}

// Hazard 37.
#[test]
fn directory_row_does_not_copy_its_tree_again() {
    for repair in BOTH {
        let before = "stat -c %i b/s/f >f; rm b/s/g; chmod 700 b/s";
        let (scratch, summary) = repaired("repair-directory", before, repair);
        assert_eq!(counts(&summary), [1, 0, 1], "{summary}");
        let was: u64 = fs::read_to_string(scratch.join("f")).unwrap().trim().parse().unwrap();
        assert_eq!((inode(&scratch, "b/s/f"), inode(&scratch, "b/h")), (was, was), "the link is as it was");
    }
}

// Hazard 37.
#[test]
fn what_the_target_alone_has_is_left_and_counted() {
    for repair in
        ["$ATTA verify a b --format ndjson 2>/dev/null | $ATTA copy --json --from-list - a/. b", REPAIR]
    {
        let scratch = scratch("repair-extra");
        shell(scratch.path(), TREE).expect_code(0);
        shell(scratch.path(), "mkdir b/x; echo mine >b/x/y; echo mine >b/s/z; rm b/t").expect_code(0);
        let summary = shell(scratch.path(), repair).expect_code(0).json();
        assert_eq!((&summary["extra"], &summary["failed"]), (&Value::from(2), &Value::from(0)));
        assert_eq!(fs::read_to_string(scratch.join("b/x/y")).unwrap(), "mine\n");
        assert_eq!(fs::read_to_string(scratch.join("b/s/z")).unwrap(), "mine\n");
        let words =
            shell(scratch.path(), "$ATTA verify --format ndjson a b | $ATTA copy --from-list - a/. b");
        assert!(words.expect_code(0).out().contains("left alone: 2 entries that only TARGET has\n"));
        let left = shell(scratch.path(), "$ATTA verify --format ndjson a b 2>/dev/null").expect_code(1).out();
        assert!(left.lines().all(|row| row.contains("\"extra\"")), "{left}");
    }
}

// Hazard 37.
#[test]
fn further_name_becomes_a_link_of_the_copy() {
    for damage in
        ["rm b/h", "rm -r b/s", "rm b/h; cp -p b/s/f b/h", "rm b/s/f b/h; mkdir b/s/f b/h; rmdir b/s/f b/h"]
    {
        for repair in BOTH {
            let (scratch, summary) = repaired("repair-link", damage, repair);
            assert_eq!(inode(&scratch, "b/s/f"), inode(&scratch, "b/h"), "{damage}: {summary}");
            if damage == "rm b/h" {
                assert_eq!((&summary["files"], &summary["bytes"]), (&Value::from(0), &Value::from(0)));
            }
        }
    }
}

#[test]
fn interrupted_repair_says_how_to_go_on() {
    let scratch = scratch("repair-interrupted");
    let make = "mkdir a; for i in $(seq 300); do mkdir a/d$i; echo $i >a/d$i/f; done; $ATTA copy -q a b; chmod 700 b/d*; \
                $ATTA verify --format ndjson a b 2>/dev/null >list; true";
    shell(scratch.path(), make).expect_code(0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_atta"));
    command.args(["copy", "--repair", "list", "--iops", "100", "a", "b"]).current_dir(scratch.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let is_done = |number: &u32| {
        let found = fs::symlink_metadata(scratch.join(format!("b/d{number}"))).unwrap();
        found.mode() & 0o777 != 0o700
    };
    while (1..=300).filter(is_done).count() < 20 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (said, printed) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(!printed.contains("left under"), "{printed}");
    assert_eq!(shell(scratch.path(), "find b -name '.atta*'").out(), "");
    // The advice does what it says.
    let hint = said.lines().find_map(|line| line.strip_prefix("hint: copy the rest with: "));
    shell(scratch.path(), hint.unwrap_or_else(|| panic!("{said}"))).expect_code(0);
    shell(scratch.path(), "$ATTA verify --content a b").expect_code(0);
}

// The names need more memory than there is for those that are linked together.
#[test]
fn many_names_become_links_in_little_memory() {
    let scratch = scratch("repair-many");
    // Names of one file are far apart, and so are files with consecutive inodes.
    let make = "mkdir -p a/one a/two a/gone; \
                for i in $(seq 1500); do echo $i >a/one/f-$i; ln a/one/f-$i a/two/$((i * 7 % 1500))-$i; done; \
                for i in $(seq 200); do ln a/one/f-$i a/gone/$i; ln -s $i a/gone/s-$i; ln a/gone/s-$i a/two/s-$i; done; \
                $ATTA copy -q a b";
    shell(scratch.path(), make).expect_code(0);
    let damage = "cp -pr b/two b/new; rm -r b/two b/gone; mv b/new b/two; touch -r a b";
    shell(scratch.path(), damage).expect_code(0);
    let repair = "$ATTA verify --content --format ndjson a b 2>/dev/null >list; \
                  $ATTA copy --json --memory 1M --repair list a b";
    let summary = shell(scratch.path(), repair).expect_code(0).json();
    shell(scratch.path(), "$ATTA verify --content a b").expect_code(0);
    assert_eq!(summary["files"], 0, "each file was there: {summary}");
    assert_eq!(inode(&scratch, "b/one/f-7"), inode(&scratch, "b/gone/7"));
    assert_eq!(inode(&scratch, "b/two/s-7"), inode(&scratch, "b/gone/s-7"));
}

// Hazard 37.
#[test]
fn name_shared_with_a_foreign_file_gets_its_own() {
    for repair in BOTH {
        let (scratch, _) = repaired("repair-stranger", "ln -f b/t b/s/g", repair);
        assert_ne!(inode(&scratch, "b/s/g"), inode(&scratch, "b/t"));
    }
}

// Hazard 37.
#[test]
fn differing_attributes_are_given_to_the_old_file() {
    let damages = ["chmod 604 b/t", "touch b/t", "touch -d 2001-01-01 b/t; chmod 777 b", "chmod 600 b/h"];
    for damage in damages {
        for repair in BOTH {
            let damage = format!("stat -c '%i %n' b/t b/h >inodes; {damage}");
            let (scratch, summary) = repaired("repair-attributes", &damage, repair);
            assert_eq!(
                (&summary["files"], &summary["hard_links"]),
                (&Value::from(0), &Value::from(0)),
                "{damage}"
            );
            shell(scratch.path(), "stat -c '%i %n' b/t b/h | cmp - inodes").expect_code(0);
        }
    }
}

// Hazard 37.
#[test]
fn differing_bytes_are_replaced_under_each_name() {
    let damage =
        "cp -p b/s/f keep; printf 'X\\n' >b/s/f; touch -r keep b/s/f; printf 'Y\\n' >b/t; touch -r a/t b/t";
    for repair in BOTH {
        let (scratch, summary) = repaired("repair-content", damage, repair);
        assert_eq!(counts(&summary)[..2], [2, 1], "{summary}");
        assert_eq!(inode(&scratch, "b/s/f"), inode(&scratch, "b/h"));
    }
}

// Hazard 37.
#[test]
fn both_sides_of_each_row_are_looked_at_again() {
    let scratch = scratch("repair-again");
    shell(scratch.path(), TREE).expect_code(0);
    let script = "rm b/t; rm -r b/s; $ATTA verify --format ndjson a b >list 2>/dev/null; cp -a a/t b/t; mkdir b/s; cp -a a/s/g b/s; \
                  stat -c %i b/t b/s/g >was; touch a/late; rm a/h";
    shell(scratch.path(), script).expect_code(0);
    let ran = shell(scratch.path(), "$ATTA copy --json --repair list a b").expect_code(0);
    assert_eq!(counts(&ran.json())[0], 1, "f alone: {}", ran.out());
    shell(scratch.path(), "stat -c %i b/t b/s/g | cmp - was").expect_code(0);
    // What is gone from SOURCE is reported, what the list does not name is left.
    fs::write(scratch.join("gone"), "{\"path\":\"n\",\"change\":\"missing\",\"kind\":\"file\"}\n").unwrap();
    let ran = shell(scratch.path(), "$ATTA copy --repair gone a b").expect_code(3);
    assert!(ran.err().contains("cannot stat: a/./n: no such file or directory (ENOENT)"), "{}", ran.err());
    assert!(!scratch.join("b/late").exists());
}

#[test]
fn rights_are_not_given_to_bytes_of_others() {
    if !rustix::process::geteuid().is_root() {
        return atta_testkit::skip::skipped("rights_are_not_given_to_bytes_of_others", "not root");
    }
    for (source, target) in [
        ("chmod 4755 a/t", "chown 1000:1000 b/t"),
        ("chmod 4755 a/t", "chmod 0755 b/t"),
        ("chmod 2755 a/t; chgrp 5 a/t; chmod 2755 a/t", "chmod 0755 b/t"),
        ("true", "chown 1000 b/t"),
    ] {
        for repair in BOTH {
            let damage = format!("{source}; {target}; touch -r a/t b/t; stat -c %i b/t >was");
            let (scratch, _) = repaired("repair-rights", &damage, repair);
            let was: u64 = fs::read_to_string(scratch.join("was")).unwrap().trim().parse().unwrap();
            assert_ne!(inode(&scratch, "b/t"), was, "{source}; {target}");
        }
    }
}

#[test]
fn a_large_file_is_compared_and_repaired() {
    let script = "head -c 40000000 /dev/zero | tr '\\0' x >a/large; $ATTA copy -q a/large b; \
                  printf y | dd of=b/large bs=1 seek=39999998 conv=notrunc status=none; touch -r a/large b/large; touch -r a b";
    for repair in BOTH {
        let (_scratch, summary) = repaired("repair-large", script, repair);
        assert_eq!(counts(&summary), [1, 0, 0], "{summary}");
    }
}

#[test]
fn a_rehearsal_says_what_would_be_repaired() {
    let scratch = scratch("repair-rehearsal");
    shell(scratch.path(), TREE).expect_code(0);
    let script = "rm b/t; chmod 600 b/s/g; printf 'X\\n' >b/h; $ATTA verify --content --format ndjson a b >list 2>/dev/null; \
                  $ATTA copy -n -v --repair list a b 2>/dev/null | sort";
    let ran = shell(scratch.path(), script).expect_code(0);
    assert_eq!(
        ran.out(),
        "changed   a/.\nchanged   a/./s/g\nnew       a/./t\nreplaced  a/./h\nreplaced  a/./s/f\n"
    );
    assert!(!scratch.join("b/t").exists());
}

#[test]
fn a_list_that_is_none_of_differences_is_refused() {
    let scratch = scratch("repair-refused");
    shell(scratch.path(), TREE).expect_code(0);
    let refused = |script: &str, code: i32, said: &str| {
        let ran = shell(scratch.path(), script).expect_code(code);
        assert!(ran.err().contains(said), "{script}: {}", ran.err());
    };
    refused("printf 't\\0' | $ATTA copy --repair - a b", 4, "not a list of differences: -");
    refused("echo '{\"path\":\"t\"}' | $ATTA copy --repair - a b", 4, "it has no \"change\"");
    let mixed = "echo '{\"path\":\"t\",\"change\":\"missing\"}\n{\"path\":\"t\"}'";
    refused(&format!("{mixed} | $ATTA copy --from-list - a/. b"), 4, "it has no \"change\"");
    refused(&format!("{mixed} | $ATTA copy --update --from-list - a/. b"), 2, "leave the option out");
    refused("$ATTA copy --repair list --update a b", 2, "cannot be used with");
    refused(": | $ATTA copy --repair - a/t b", 2, "--repair: not a directory: a/t");
    refused(": | $ATTA copy --repair - a a b", 2, "--repair with several SOURCEs");
    let escape = "echo '{\"path\":\"../a/t\",\"change\":\"missing\"}'";
    refused(&format!("{escape} | $ATTA copy --repair - a b"), 4, "has a `..` component");
    // Nothing differs.
    shell(scratch.path(), ": | $ATTA copy --repair - a b").expect_code(0);
}
