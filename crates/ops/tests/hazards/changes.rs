//! Rows 10, 12 and 13: sources that change, grow or go away while they are copied, at exactly the worst moment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use atta_entry::Class;
use atta_ops::copy::{Existing, Fsync, Keep, Options};
use atta_testkit::slow::SlowFs;

use crate::copying::{assert_same, threads};
use crate::served::{assert_no_leftovers, assert_whole_or_old, copy_with, copy_within, names, serve, small};

/// A file that is copied in chunks of a MiB, with more than zeros in it.
fn large(path: &Path) {
    let content: Vec<u8> = (0..5 << 20).map(|at: u32| (at * 31 / 7) as u8).collect();
    fs::write(path, content).unwrap();
}

fn in_chunks() -> Options<'static> {
    Options { chunk: Some(1 << 20), digest: true, ..threads(1) }
}

/// Row 12 of docs/hazards.md.
#[test]
fn file_that_changed_once_is_copied_again() {
    let test = "file_that_changed_once_is_copied_again";
    for change in ["grow", "cut", "rewrite"] {
        for name in ["victim", "large", "linked"] {
            let fill = |directory: &Path| {
                let source = directory.join("source");
                small(&source);
                large(&source.join("large"));
                fs::write(source.join("linked"), "linked".repeat(1000)).unwrap();
                fs::hard_link(source.join("linked"), source.join("zz-other")).unwrap();
            };
            let rule = format!("read:{name}:{change}:times=1");
            let Some(served) = serve(test, fill, &[&rule]) else { return };
            let target = served.scratch.join("target");
            let (outcome, failures) = copy_with(&served.at("source"), &target, &in_chunks());
            assert_eq!(failures, [], "{rule}");
            assert_eq!(outcome.totals.changed, 0, "{rule}");
            // What it is now, not what it was, and no mixture.
            for name in ["a", "victim", "z", "large", "linked", "zz-other", "sub/inner"] {
                let (source, copy) = (served.beneath("source").join(name), target.join(name));
                assert_eq!(fs::read(source).unwrap(), fs::read(copy).unwrap(), "{rule}: {name}");
            }
            // A name that is looked at after the change is not known to be the file that was copied before it.
            if name != "linked" {
                assert_same(&served.beneath("source"), &target);
            }
        }
    }
}

/// Row 12 of docs/hazards.md.
/// They are copied as a whole then, and other threads may be done with the rest of their directory.
#[test]
fn shrunken_large_file_is_not_visible_in_part() {
    let test = "shrunken_large_file_is_not_visible_in_part";
    let content: Vec<u8> = (0..128 << 10).map(|at: u32| (at * 31 / 7) as u8).collect();
    let victims: Vec<_> = (0..4).map(|number| format!("victim-{number}")).collect();
    let fill = |directory: &Path| {
        fs::create_dir_all(directory.join("source/sub")).unwrap();
        fs::create_dir(directory.join("target")).unwrap();
        for (number, victim) in victims.iter().enumerate() {
            fs::write(directory.join("source/sub").join(victim), &content).unwrap();
            fs::write(directory.join(format!("source/sub/slow-{number}")), "slow").unwrap();
        }
    };
    let cut = victims.iter().map(|victim| format!("open:{victim}:cut:times=1"));
    let rules: Vec<_> =
        cut.chain(["write:slow-*:delay=100", "write:victim-*:delay=1000"].map(str::to_owned)).collect();
    let rules: Vec<_> = rules.iter().map(String::as_str).collect();
    let Some(served) = serve(test, fill, &rules) else { return };
    let options = Options { chunk: Some(64 << 10), fsync: Fsync::None, ..threads(2) };
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| copy_with(&served.at("source"), &served.at("target"), &options));
        while !copying.is_finished() {
            for victim in &victims {
                if let Ok(seen) = fs::read(served.beneath("target/sub").join(victim)) {
                    assert_eq!(seen.len(), 64 << 10, "{victim} is seen in part");
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(copying.join().unwrap().1, []);
    });
    assert_same(&served.beneath("source"), &served.beneath("target"));
}

/// Row 12 of docs/hazards.md.
#[test]
fn unstable_file_leaves_the_old_copy() {
    let test = "unstable_file_leaves_the_old_copy";
    for change in ["grow", "cut", "rewrite"] {
        for name in ["victim", "large"] {
            let fill = |directory: &Path| {
                small(&directory.join("source"));
                large(&directory.join("source/large"));
            };
            let rule = format!("read:{name}:{change}");
            let Some(served) = serve(test, fill, &[&rule]) else { return };
            let target = served.scratch.join("target");
            for round in ["a new directory", "one that is there"] {
                if round != "a new directory" {
                    fs::write(target.join(name), "old").unwrap();
                }
                let (outcome, failures) = copy_with(&served.at("source"), &target, &in_chunks());
                assert_eq!(names(&failures), [name], "{rule}, {round}");
                assert_eq!((failures[0].0, outcome.totals.changed), (Class::Changed, 1), "{rule}, {round}");
                assert_eq!(outcome.signature, None, "{rule}, {round}");
                let there = fs::read(target.join(name)).ok();
                let expected = (round != "a new directory").then(|| b"old".to_vec());
                assert_eq!(there, expected, "{rule}, {round}");
                assert_no_leftovers(&target);
            }
        }
    }
}

/// Row 13 of docs/hazards.md.
#[test]
fn vanished_entry_is_reported() {
    let test = "vanished_entry_is_reported";
    // Between the listing and the first look, between looking and opening.
    for rule in ["lookup:victim:vanish:times=1", "lookup:victim:vanish:skip=1:times=1"] {
        let Some(served) = serve(test, |directory| small(&directory.join("source")), &[rule]) else { return };
        let target = served.scratch.join("target");
        let (_, failures) = copy_within(&served.at("source"), &target);
        assert_eq!(names(&failures), ["victim"], "{rule}: {failures:?}");
        assert_eq!(failures[0].0, Class::Vanished, "{rule}");
        assert_eq!(assert_whole_or_old(&served.beneath("source"), &target, b""), 3, "{rule}");
        assert_no_leftovers(&target);
    }
}

/// Row 13 of docs/hazards.md.
#[test]
fn repeated_names_are_copied_once() {
    let test = "repeated_names_are_copied_once";
    let fill = |directory: &Path| {
        let source = directory.join("source");
        small(&source);
        std::os::unix::fs::symlink("a", source.join("link")).unwrap();
        fs::write(source.join("linked"), "linked").unwrap();
        fs::hard_link(source.join("linked"), source.join("sub/linked")).unwrap();
    };
    let Some(served) = serve(test, fill, &["readdir:*:twice"]) else { return };
    for target in ["one", "two", "two"] {
        let target = served.scratch.join(target);
        let (_, failures) = copy_within(&served.at("source"), &target);
        assert_eq!(failures, []);
        assert_same(&served.beneath("source"), &target);
        assert_no_leftovers(&target);
    }
}

/// Row 7 of docs/hazards.md.
/// What was a file when it was listed is opened without waiting, and not through a link.
#[test]
fn file_that_changed_its_type_is_not_copied() {
    let test = "file_that_changed_its_type_is_not_copied";
    for kind in ["fifo", "directory", "link"] {
        let rule = format!("lookup:victim:{kind}:skip=1:times=1");
        let Some(served) = serve(test, |directory| small(&directory.join("source")), &[&rule]) else {
            return;
        };
        let target = served.scratch.join("target");
        let (_, failures) = copy_within(&served.at("source"), &target);
        assert_eq!(names(&failures), ["victim"], "{rule}: {failures:?}");
        assert!(!target.join("victim").exists(), "{rule}");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 3, "{rule}");
        assert_no_leftovers(&target);
    }
}

/// Row 13 of docs/hazards.md.
#[test]
fn truncated_directory_removes_nothing() {
    let test = "truncated_directory_removes_nothing";
    let fill = |directory: &Path| {
        fs::create_dir_all(directory.join("source/broken")).unwrap();
        for number in 0..50 {
            fs::write(directory.join(format!("source/broken/{number}")), "new").unwrap();
        }
    };
    let Some(served) = serve(test, fill, &["readdir:broken:EIO"]) else { return };
    let target = served.scratch.join("target");
    let (_, failures) = copy_within(&served.at("source"), &target);
    assert_eq!((names(&failures), failures[0].0), (vec!["broken".to_owned()], Class::Io), "{failures:?}");
    assert_eq!(fs::read_dir(target.join("broken")).unwrap().count(), 10);
    for number in 0..50 {
        fs::write(target.join(format!("broken/{number}")), "old").unwrap();
    }
    let (_, failures) = copy_within(&served.at("source"), &target);
    assert_eq!(names(&failures), ["broken"], "{failures:?}");
    assert_eq!(fs::read_dir(target.join("broken")).unwrap().count(), 50, "what was not listed stays");
    assert_eq!(assert_whole_or_old(&served.beneath("source"), &target, b"old"), 10);
    assert_no_leftovers(&target);
}

/// Row 12 of docs/hazards.md.
/// In-place copies have lost the old content: the file is truncated, so that it is not taken for a complete copy.
#[test]
fn unstable_file_in_place_is_emptied() {
    let test = "unstable_file_in_place_is_emptied";
    let fill = |directory: &Path| {
        let source = directory.join("source");
        small(&source);
        fs::write(source.join("victim"), "victim".repeat(100_000)).unwrap();
    };
    let Some(served) = serve(test, fill, &["read:victim:rewrite"]) else { return };
    let target = served.scratch.join("target");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("victim"), "old".repeat(1000)).unwrap();
    let options = Options { in_place: true, ..threads(1) };
    let (outcome, failures) = copy_with(&served.at("source"), &target, &options);
    assert_eq!((names(&failures), outcome.totals.changed), (vec!["victim".to_owned()], 1), "{failures:?}");
    let left = fs::metadata(target.join("victim")).unwrap();
    assert_eq!((left.len(), left.permissions().mode() & 0o777), (0, 0o600));
    // And the mode that it had comes back with its bytes.
    let keep = Keep { mode: false, ..Keep::default() };
    fs::set_permissions(target.join("victim"), fs::Permissions::from_mode(0o640)).unwrap();
    let changes_once = SlowFs::builder().latency(Duration::ZERO).over(&served.directory);
    let shown = changes_once.fail("read:victim:grow:times=1").mount().unwrap();
    let options = Options { existing: Existing::Update, keep, ..options };
    let (_, failures) = copy_with(&shown.path().join("source"), &target, &options);
    assert_eq!(failures, []);
    assert_eq!(fs::read(target.join("victim")).unwrap(), fs::read(served.beneath("source/victim")).unwrap());
    assert_eq!(fs::metadata(target.join("victim")).unwrap().permissions().mode() & 0o777, 0o640);
}
