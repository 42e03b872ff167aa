//! What is on stable storage when a copy ends, or when the machine goes down before it ends: on file systems whose `syncfs` does
//! not reach storage, and on those where this is unknown.

use std::fs;
use std::path::Path;

use atta_ops::copy::{Existing, Fsync, Options};
use atta_testkit::lock::Lock;
use atta_testkit::mounts;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;

use crate::copying::{assert_same, copy, threads};
use crate::served::{copy_with, names, serve, serve_forgetful, small, small_and_old, whole_or_hidden};

/// Entries of all kinds, a large file that is copied in chunks, and directories below each other.
fn mixed(tree: &Path) {
    small(tree);
    fs::create_dir_all(tree.join("deep/deeper")).unwrap();
    fs::write(tree.join("deep/deeper/file"), "deep").unwrap();
    fs::write(tree.join("large"), vec![7; 300_000]).unwrap();
    fs::write(tree.join("linked"), "linked").unwrap();
    fs::hard_link(tree.join("linked"), tree.join("sub/other")).unwrap();
    std::os::unix::fs::symlink("a", tree.join("link")).unwrap();
    fs::create_dir(tree.join("empty")).unwrap();
}

// Hazard 31.
#[test]
fn copied_files_survive_the_loss_of_unsynced_data() {
    let test = "copied_files_survive_the_loss_of_unsynced_data";
    for fsync in [Fsync::Batch, Fsync::File] {
        for target in ["new", "old"] {
            let fill = |directory: &Path| small_and_old(&directory.join("old"));
            let Some(served) = serve_forgetful(test, fill, &[]) else { return };
            let source = served.scratch.join("source");
            mixed(&source);
            let options = Options { fsync, chunk: Some(64 << 10), ..threads(2) };
            copy(&[&source.join(".")], &served.at(target), &options);
            let (directory, _kept) = served.end();
            assert_same(&source, &directory.join(target));
        }
    }
}

/// The double does lose what was not synced.
// Hazard 31.
#[test]
fn without_syncs_what_was_copied_is_lost() {
    let test = "without_syncs_what_was_copied_is_lost";
    let Some(served) = serve_forgetful(test, |_| {}, &[]) else { return };
    let source = served.scratch.join("source");
    small(&source);
    copy(&[&source.join(".")], &served.at("new"), &Options { fsync: Fsync::None, ..threads(2) });
    let (directory, _kept) = served.end();
    assert!(!directory.join("new").exists());
}

// Hazard 31.
#[test]
fn individually_synced_files_do_not_wait() {
    let test = "individually_synced_files_do_not_wait";
    for fsync in [Fsync::Batch, Fsync::File] {
        for target in ["new", "old"] {
            // One thread copies; no fsync ends before four have begun.
            let Some(served) = serve(
                test,
                |directory| fs::create_dir(directory.join("old")).unwrap(),
                &["fsync:*/file-?:together=4"],
            ) else {
                return;
            };
            let source = served.scratch.join("source");
            fs::create_dir(&source).unwrap();
            for number in 0..8 {
                fs::write(source.join(format!("file-{number}")), format!("{number}")).unwrap();
            }
            let (_, failures) = copy_with(&source, &served.at(target), &Options { fsync, ..threads(1) });
            assert_eq!(names(&failures), Vec::<String>::new(), "{fsync:?} {target}: {failures:?}");
            assert_same(&source, &served.beneath(target));
        }
    }
}

/// The kernel answers a `syncfs` of such an overlay and does nothing.
// Hazard 31.
#[test]
fn volatile_overlay_gets_an_fsync_for_each_file() {
    let test = "volatile_overlay_gets_an_fsync_for_each_file";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("overlay").unwrap();
    let (source, lower) = (scratch.join("source"), scratch.join("lower"));
    small(&source);
    fs::create_dir(&lower).unwrap();
    let Some(disk) = skip::unless_available(test, mounts::loop_image("ext4", 32)) else { return };
    for (option, each) in [("", false), ("volatile", true)] {
        let made = mounts::overlay_with(&[&lower], disk.path(), option);
        let Some(overlay) = skip::unless_available(test, made) else { return };
        let outcome = copy(&[&source.join(".")], &overlay.path().join("new"), &threads(1));
        // Four files and their directories, or a batch and the end.
        let syncs = outcome.rank.syncs;
        assert_eq!(syncs >= 6, each, "'{option}': {syncs} syncs");
    }
}

/// Old files, new ones, or none, whatever the step at which the machine goes down.
// Hazard 31.
#[test]
fn files_have_their_names_whole_after_a_crash() {
    let test = "files_have_their_names_whole_after_a_crash";
    for (target, existing) in
        [("old", Existing::Replace), ("new", Existing::Replace), ("old", Existing::Update)]
    {
        let mut steps = 0;
        loop {
            // From some step on nothing is done any more.
            let rule = format!("any:*:EIO:armed:skip={steps}");
            let fill = |directory: &Path| small_and_old(&directory.join("old"));
            let Some(mut served) = serve_forgetful(test, fill, &[&rule]) else { return };
            let source = served.scratch.join("source");
            small(&source);
            served.shown.arm().unwrap();
            let options = Options { existing, ..threads(1) };
            let sources = [&*source.join(".")];
            let copied = crate::copying::try_copy(&sources, &served.at(target), &options);
            let is_over = copied.is_ok_and(|(_, failures)| failures.is_empty());
            let (directory, _kept) = served.end();
            for there in ["old", "new"] {
                whole_or_hidden(&source, &directory.join(there));
            }
            if is_over {
                break;
            }
            steps += 7;
        }
        assert!(steps > 30, "{target}: only {steps} steps");
    }
}
