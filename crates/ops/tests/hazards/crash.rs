//! Rows 25, 26 and 28: a copy that is killed at each step, what a dead one left, bytes that become others.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use atta_ops::copy::Options;
use atta_testkit::corrupt::{Damage, Files, corrupt};
use atta_testkit::scratch::Scratch;

use crate::copying::{assert_same, copy, threads, try_copy};
use crate::harness;
use crate::served::{Served, serve, small, small_and_old, whole_or_hidden};

/// All that a copy changes in its target.
const STEPS: &str =
    "create,write,fsync,flush,rename,mkdir,link,symlink,mknod,unlink,rmdir,chmod,chown,utimes";

/// Row 25 of docs/hazards.md.
/// Old files or new ones, or none, whatever the step at which it is killed; and the next copy completes it. Every third step; the long test has all.
#[test]
fn kill_at_any_step_leaves_whole_files() {
    let test = "kill_at_any_step_leaves_whole_files";
    kill_at_steps(test, "old", (0..).step_by(3));
    kill_at_steps(test, "new", (1..).step_by(3));
}

#[test]
#[ignore = "takes minutes"]
fn kill_at_each_step_leaves_whole_files() {
    let test = "kill_at_each_step_leaves_whole_files";
    kill_at_steps(test, "old", 0..);
    kill_at_steps(test, "new", 0..);
}

fn kill_at_steps(test: &str, target: &str, steps: impl Iterator<Item = u64>) {
    for step in steps {
        let rule = format!("{STEPS}:*:kill:skip={step}:times=1");
        let fill = |directory: &Path| small_and_old(&directory.join("old"));
        let Some(served) = serve(test, fill, &[&rule]) else { return };
        let is_over = !is_killed(&served, target);
        let source = served.scratch.join("source");
        for there in ["old", "new"] {
            whole_or_hidden(&source, &served.beneath(there));
        }
        // Row 26: the leftovers of the killed copy do no harm.
        let there = served.beneath(target);
        fs::create_dir_all(&there).unwrap();
        copy(&[&source.join(".")], &there, &threads(1));
        assert_eq!(whole_or_hidden(&source, &there), 7, "step {step}");
        if is_over {
            assert!(step > 20, "{target}: only {step} steps");
            return;
        }
    }
}

/// Copies in a process of its own; whether it was killed.
fn is_killed(served: &Served, target: &str) -> bool {
    let source = served.scratch.join("source");
    small(&source);
    fs::write(source.join("linked"), "linked").unwrap();
    fs::hard_link(source.join("linked"), source.join("sub/linked")).unwrap();
    std::os::unix::fs::symlink("a", source.join("link")).unwrap();
    let arguments = format!("{}|{}", source.display(), served.at(target).display());
    let name = "crash::a_copy_that_may_be_killed";
    let output = harness::child(name, arguments.as_ref()).output().unwrap();
    let is_killed = output.status.signal() == Some(9);
    assert!(is_killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    is_killed
}

#[test]
#[ignore = "a child process of row 25"]
fn a_copy_that_may_be_killed() {
    let Some(arguments) = harness::child_argument() else { return };
    let (source, target) = arguments.to_str().unwrap().split_once('|').unwrap();
    copy(&[&Path::new(source).join(".")], Path::new(target), &threads(1));
}

/// Row 28 of docs/hazards.md.
/// A copy does not read what it wrote. But its signature covers what it read, so that a later check detects the difference.
#[test]
fn changed_bytes_change_the_signature() {
    let test = "changed_bytes_change_the_signature";
    let Some(served) = serve(test, |_| {}, &["write:victim:flip:times=1"]) else { return };
    let source = served.scratch.join("source");
    small(&source);
    let options = Options { digest: true, ..threads(1) };
    let signature = |from: &Path, to: &Path| copy(&[from], to, &options).signature.unwrap().digest();
    let read = signature(&source, &served.at("new"));
    assert_ne!(fs::read(served.beneath("new/victim")).unwrap(), fs::read(source.join("victim")).unwrap());
    let there = signature(&served.beneath("new"), &served.scratch.join("again"));
    assert_ne!(read, there, "a bit that was written wrongly");
    // The rule is over: this one is right, until somebody turns bits in it.
    let good = served.scratch.join("good");
    assert_eq!(signature(&source, &good), read);
    assert_same(&source, &good);
    assert_eq!(signature(&good, &served.scratch.join("good-again")), read);
    for (seed, damage) in [(1, Damage::Bits(1)), (2, Damage::Block(512))] {
        let changes = corrupt(&good, seed, &Files::Some(1), damage).unwrap();
        let now = signature(&good, &served.scratch.join(format!("bad-{seed}")));
        assert_ne!(now, read, "{changes:?}");
    }
}

/// Row 26 of docs/hazards.md.
#[test]
fn leftovers_and_foreign_names_stay() {
    let scratch = Scratch::new("leftovers").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    small(&source);
    fs::create_dir_all(target.join(".atta.0123456789ab")).unwrap();
    fs::write(target.join(".atta.0123456789ab/secret"), "of another").unwrap();
    fs::write(target.join(".atta.cdefghjkmnpq"), "of another").unwrap();
    let (_, failures) = try_copy(&[&source.join(".")], &target, &threads(2)).unwrap();
    assert_eq!(failures, []);
    assert_eq!(whole_or_hidden(&source, &target), 4);
    assert_eq!(fs::read(target.join(".atta.0123456789ab/secret")).unwrap(), b"of another");
    assert_eq!(fs::read(target.join(".atta.cdefghjkmnpq")).unwrap(), b"of another");
}
