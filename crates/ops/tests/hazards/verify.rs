//! Silent corruption on the way to the target or from it: `--verify` finds it, and mends it if that is possible.

use std::fs;
use std::time::Duration;

use atta_ops::copy::{Fsync, Options};
use atta_testkit::skip;
use atta_testkit::slow::SlowFs;

use crate::copying::{assert_same, copy, set_extended, threads};
use crate::served::{copy_with, names, serve, small};

fn verifying(count: usize) -> Options<'static> {
    Options { verify: true, digest: true, ..threads(count) }
}

#[test]
fn bytes_corrupted_on_the_way_are_written_again() {
    let test = "bytes_corrupted_on_the_way_are_written_again";
    for (name, fsync) in [("new", Fsync::Batch), ("old", Fsync::File), ("none", Fsync::None)] {
        let Some(served) = serve(
            test,
            |directory| fs::create_dir(directory.join("old")).unwrap(),
            // The first write is that of the job's record.
            &["write:*:flip:skip=1:times=1"],
        ) else {
            return;
        };
        let source = served.scratch.join("source");
        small(&source);
        let options = Options { fsync, ..verifying(1) };
        let (outcome, failures) = copy_with(&source, &served.at(name), &options);
        assert_eq!(failures, [], "{name}");
        assert_eq!(
            (outcome.totals.mended, outcome.totals.verified_bytes),
            (1, outcome.totals.bytes),
            "{name}"
        );
        assert_same(&source, &served.beneath(name));
    }
}

#[test]
fn lasting_corruption_is_reported_and_removed() {
    let test = "lasting_corruption_is_reported_and_removed";
    let Some(served) = serve(test, |_| {}, &["write:*victim:flip"]) else { return };
    let source = served.scratch.join("source");
    small(&source);
    let (outcome, failures) = copy_with(&source, &served.at("new"), &verifying(2));
    assert_eq!(names(&failures), ["victim"], "{failures:?}");
    assert!(failures[0].2.contains("cannot verify the copy"), "{failures:?}");
    assert!(!served.beneath("new/victim").exists(), "a later run would take it for a copy");
    assert!(served.beneath("new/sub/inner").exists());
    assert!(outcome.signature.is_none());
}

#[test]
fn a_part_of_a_large_file_is_mended_and_only_that() {
    let test = "a_part_of_a_large_file_is_mended_and_only_that";
    let Some(served) = serve(test, |_| {}, &["write:*:flip:skip=20:times=1"]) else { return };
    let source = served.scratch.join("source");
    fs::create_dir(&source).unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(source.join("large"), bytes).unwrap();
    let options = Options { chunk: Some(1 << 20), ..verifying(2) };
    let (outcome, failures) = copy_with(&source, &served.at("new"), &options);
    assert_eq!(failures, []);
    assert_eq!((outcome.totals.mended, outcome.totals.verified_bytes), (1, 12_000_000));
    assert_same(&source, &served.beneath("new"));
}

#[test]
fn a_copy_that_is_right_is_verified_and_left_alone() {
    let scratch = atta_testkit::scratch::Scratch::new("verify").unwrap();
    let tree = crate::copying::hostile(&scratch);
    for count in [1, 4] {
        let target = scratch.join(format!("target-{count}"));
        let outcome = copy(&[&tree], &target, &verifying(count));
        assert_eq!((outcome.totals.mended, outcome.totals.verified_bytes), (0, outcome.totals.bytes));
        assert_same(&tree, &target);
    }
}

#[test]
fn names_of_a_corrupted_file_are_all_removed() {
    let test = "names_of_a_corrupted_file_are_all_removed";
    // The server knows the file by any of its names, also by that in the job's own directory.
    let rules = ["write:*victim:flip", "write:*.atta.*/*/*-*:flip"];
    for count in [1, 4] {
        let Some(served) = serve(test, |_| {}, &rules) else { return };
        let source = served.scratch.join("source");
        small(&source);
        fs::hard_link(source.join("victim"), source.join("sub/other-victim")).unwrap();
        let (_, failures) = copy_with(&source, &served.at("new"), &verifying(count));
        assert_eq!(names(&failures), ["other-victim", "victim"], "{failures:?}");
        for name in ["victim", "sub/other-victim"] {
            assert!(!served.beneath("new").join(name).exists(), "{name}");
        }
        assert!(served.beneath("new/sub/inner").exists());
    }
}

/// It is unknown whether such a copy is corrupted.
#[test]
fn unreadable_copy_is_reported_and_stays() {
    let test = "unreadable_copy_is_reported_and_stays";
    let never = &["open:*victim:EMFILE"][..];
    // The first time it is opened to be read, the second time to be written once more.
    let not_again = &["read:*victim:EIO", "open:*victim:EMFILE:skip=1"];
    for (rules, failed) in
        [(never, &["victim"][..]), (not_again, &["victim"]), (&["open:*victim:EMFILE:times=1"], &[])]
    {
        let Some(served) = serve(test, |_| {}, rules) else { return };
        let source = served.scratch.join("source");
        small(&source);
        let (_, failures) = copy_with(&source, &served.at("new"), &verifying(1));
        assert_eq!(names(&failures), failed, "{failures:?}");
        assert_same(&source, &served.beneath("new"));
    }
}

/// The kernel takes a file's capability away whenever somebody writes into it.
#[test]
fn what_is_mended_has_what_writing_takes_away() {
    let test = "what_is_mended_has_what_writing_takes_away";
    if !skip::is_root() {
        return skip::skipped(test, "it needs root");
    }
    let Some(served) = serve(test, |_| {}, &["write:*victim:flip:times=1"]) else { return };
    let source = served.scratch.join("source");
    small(&source);
    let capability = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    set_extended(&source.join("victim"), "security.capability", &capability);
    let (outcome, failures) = copy_with(&source, &served.at("new"), &verifying(1));
    assert_eq!((failures, outcome.totals.mended), (vec![], 1));
    assert_same(&source, &served.beneath("new"));
}

/// A copy with a fault is better than none, and one of which no fault is known all the more.
#[test]
fn corrupted_copy_stays_if_its_source_is_lost() {
    let test = "corrupted_copy_stays_if_its_source_is_lost";
    for (of_target, of_source) in
        [("write:*victim:flip", "open:victim:ENOENT:skip=1"), ("read:*victim:EIO", "read:victim:EIO:skip=1")]
    {
        let Some(served) = serve(test, |_| {}, &[of_target]) else { return };
        let directory = served.scratch.join("source");
        small(&directory);
        let source =
            SlowFs::builder().latency(Duration::ZERO).over(&directory).fail(of_source).mount().unwrap();
        let (_, failures) = copy_with(source.path(), &served.at("new"), &verifying(1));
        assert_eq!(names(&failures), ["victim"], "{failures:?}");
        let left = fs::metadata(served.beneath("new/victim")).unwrap();
        assert_eq!(left.len(), fs::metadata(directory.join("victim")).unwrap().len());
    }
}
