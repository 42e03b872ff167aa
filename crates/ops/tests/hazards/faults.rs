//! Rows 15 to 18: a target that is full, or breaks, or has not what others have; errors that are none.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use atta_entry::Class;
use atta_ops::copy::{Existing, Options};
use atta_testkit::lock::Lock;
use atta_testkit::mounts::Mount;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use rustix::fs::IFlags;

use crate::copying::{assert_same, threads};
use crate::served::{
    assert_no_leftovers, assert_whole_or_old, copy_with, copy_within, names, serve, small, small_and_old,
};

/// Row 15 of docs/hazards.md.
/// Reports of entries that cannot be created: for each operation, in a new and in an existing directory.
#[test]
fn file_without_space_leaves_nothing() {
    let test = "file_without_space_leaves_nothing";
    for (operation, error) in [
        ("create", "ENOSPC"),
        ("write", "ENOSPC"),
        ("write", "EDQUOT"),
        ("fsync", "ENOSPC"),
        ("fsync", "EDQUOT"),
        ("flush", "EDQUOT"),
        ("flush", "ENOSPC"),
    ] {
        // In a new directory the file has its own name from the beginning.
        let rule = format!("{operation}:*victim:{error}");
        let Some(served) = serve(test, |_| {}, &[&rule]) else { return };
        let source = served.scratch.join("source");
        small(&source);
        let (outcome, failures) = copy_within(&source, &served.at("new"));
        assert_eq!(names(&failures), ["victim"], "{rule}: {failures:?}");
        assert_eq!((failures[0].0, outcome.totals.failed()), (Class::Resource, 1), "{rule}");
        assert!(failures[0].2.contains(error), "{rule}: {failures:?}");
        assert!(!served.beneath("new/victim").exists(), "{rule}");
        assert_eq!(assert_whole_or_old(&source, &served.beneath("new"), b""), 3, "{rule}");
        assert_no_leftovers(&served.directory);
        drop(served);
        // In one that was there it has another one until it is whole: the first that is made so.
        // The first file created in TARGET is the owner probe. Every close of a file is a flush, also that of a process which another
        // test starts, in its copy of the table of descriptors: so all of them fail.
        let (count, copied, when) = match operation {
            "flush" => (3, 1, ""),
            "create" => (1, 3, ":skip=1:times=1"),
            _ => (1, 3, ":times=1"),
        };
        let rule = format!("{operation}:old/.atta.*.*.*:{error}{when}");
        let Some(served) = serve(test, |directory| small_and_old(&directory.join("old")), &[&rule]) else {
            return;
        };
        let source = served.scratch.join("source");
        small(&source);
        let (_, failures) = copy_within(&source, &served.at("old"));
        assert_eq!(failures.len(), count, "{rule}: {failures:?}");
        assert!(failures.iter().all(|failed| failed.2.contains(error)), "{rule}: {failures:?}");
        assert_eq!(assert_whole_or_old(&source, &served.beneath("old"), b"old"), copied, "{rule}");
        assert_no_leftovers(&served.directory);
    }
}

/// Row 15 of docs/hazards.md.
#[test]
fn name_without_space_fails_alone() {
    let test = "name_without_space_fails_alone";
    let Some(served) =
        serve(test, |directory| small_and_old(&directory.join("old")), &["rename:victim:ENOSPC"])
    else {
        return;
    };
    let source = served.scratch.join("source");
    small(&source);
    let (_, failures) = copy_within(&source, &served.at("old"));
    assert_eq!(names(&failures), ["victim"], "{failures:?}");
    assert_eq!(assert_whole_or_old(&source, &served.beneath("old"), b"old"), 3);
    assert_eq!(fs::read(served.beneath("old/victim")).unwrap(), b"old");
    assert_no_leftovers(&served.directory);
    drop(served);
    let Some(served) = serve(test, |_| {}, &["mkdir:*/.atta.*:EDQUOT"]) else { return };
    let source = served.scratch.join("source");
    small(&source);
    let (_, failures) = copy_within(&source, &served.at("new"));
    assert_eq!(names(&failures), ["sub"], "{failures:?}");
    assert_eq!(assert_whole_or_old(&source, &served.beneath("new"), b""), 3);
    assert!(!served.beneath("new/sub").exists());
    assert_no_leftovers(&served.directory);
}

/// Row 16 of docs/hazards.md.
#[test]
fn unreadable_file_is_reported() {
    let test = "unreadable_file_is_reported";
    let Some(served) = serve(test, |directory| small(&directory.join("source")), &["read:victim:EIO"]) else {
        return;
    };
    let target = served.scratch.join("target");
    for round in ["a new directory", "one that is there"] {
        let (_, failures) = copy_within(&served.at("source"), &target);
        assert_eq!((names(&failures), failures[0].0), (vec!["victim".to_owned()], Class::Io), "{round}");
        assert_eq!(assert_whole_or_old(&served.beneath("source"), &target, b""), 3, "{round}");
        assert!(!target.join("victim").exists(), "{round}");
        assert_no_leftovers(&target);
    }
}

/// Row 16 of docs/hazards.md.
/// Disks read at the second try what they could not at the first.
#[test]
fn failed_read_is_tried_again_twice() {
    let test = "failed_read_is_tried_again_twice";
    for (rule, failed) in [("read:victim:EIO:times=2", 0), ("read:victim:EIO:times=3", 1)] {
        let Some(served) = serve(test, |directory| small(&directory.join("source")), &[rule]) else { return };
        let target = served.scratch.join("target");
        let (_, failures) = copy_within(&served.at("source"), &target);
        assert_eq!(names(&failures).len(), failed, "{rule}: {failures:?}");
        assert_eq!(assert_whole_or_old(&served.beneath("source"), &target, b""), 4 - failed, "{rule}");
    }
}

/// Row 16 of docs/hazards.md.
/// The kernel reports a writeback error once; a second sync of the same file succeeds although data was lost.
#[test]
fn file_is_written_again_after_a_failed_sync() {
    let test = "file_is_written_again_after_a_failed_sync";
    // What the first sync was of is lost, as it is on a disk.
    let rules = ["write:*victim:lose:times=1", "fsync:*victim:EIO:times=1"];
    let Some(served) = serve(test, |_| {}, &rules) else { return };
    let source = served.scratch.join("source");
    small(&source);
    let (outcome, failures) = copy_within(&source, &served.at("new"));
    assert_eq!(failures, []);
    assert_eq!(outcome.totals.files, 4);
    assert_same(&source, &served.beneath("new"));
    drop(served);
    // A second error is one too many.
    let Some(served) = serve(test, |_| {}, &["fsync:*victim:EIO"]) else { return };
    let source = served.scratch.join("source");
    small(&source);
    let (_, failures) = copy_within(&source, &served.at("new"));
    assert_eq!(names(&failures), ["victim"], "{failures:?}");
    assert!(!served.beneath("new/victim").exists());
    assert_no_leftovers(&served.directory);
}

/// Row 16 of docs/hazards.md.
/// It has the size and time of its source by then, and must not be taken for a complete copy.
#[test]
fn file_in_place_is_emptied_if_not_durable() {
    let test = "file_in_place_is_emptied_if_not_durable";
    let rules = ["fsync:*victim:EIO:times=2"];
    let Some(served) = serve(test, |directory| small_and_old(&directory.join("new")), &rules) else { return };
    let source = served.scratch.join("source");
    small(&source);
    let options = Options { in_place: true, ..threads(1) };
    let (_, failures) = copy_with(&source, &served.at("new"), &options);
    assert_eq!(names(&failures), ["victim"], "{failures:?}");
    let left = fs::metadata(served.beneath("new/victim")).unwrap();
    assert_eq!((left.len(), left.mode() & 0o7777), (0, 0o600));
    let options = Options { existing: Existing::Update, in_place: true, ..threads(1) };
    let (_, failures) = copy_with(&source, &served.at("new"), &options);
    assert_eq!(failures, []);
    assert_same(&source, &served.beneath("new"));
}

/// Row 17 of docs/hazards.md.
#[test]
fn short_calls_and_retries_are_handled() {
    let test = "short_calls_and_retries_are_handled";
    for rule in [
        "read:*:short=1",
        "read:*:short=4095",
        "read:*:EINTR:percent=50",
        "open,read:*:EAGAIN:percent=50",
        "open:victim:ESTALE:times=2",
        "opendir:sub:ESTALE:times=4",
        "lookup:victim:ESTALE:times=4",
        "lookup:inner:ESTALE:times=4",
    ] {
        let Some(served) = serve(test, |directory| small(&directory.join("source")), &[rule]) else { return };
        let target = served.scratch.join("target");
        let (_, failures) = copy_within(&served.at("source"), &target);
        assert_eq!(failures, [], "{rule}");
        assert_same(&served.beneath("source"), &target);
    }
    for rule in
        ["write:*:short=1", "write:*:short=4095", "write:*:EINTR:percent=50", "write:*:EAGAIN:percent=50"]
    {
        let Some(served) = serve(test, |_| {}, &[rule]) else { return };
        let source = served.scratch.join("source");
        small(&source);
        let (_, failures) = copy_within(&source, &served.at("new"));
        assert_eq!(failures, [], "{rule}");
        assert_same(&source, &served.beneath("new"));
    }
}

/// Row 18 of docs/hazards.md.
#[test]
fn attributes_that_a_target_lacks_are_counted() {
    let test = "attributes_that_a_target_lacks_are_counted";
    let rules = ["setxattr,link,mknod,symlink:*:EOPNOTSUPP", "chown:*:EPERM"];
    let Some(served) = serve(test, |_| {}, &rules) else { return };
    let source = served.scratch.join("source");
    small(&source);
    fs::hard_link(source.join("a"), source.join("other")).unwrap();
    std::os::unix::fs::symlink("a", source.join("link")).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(source.join("z"), "user.z", b"z", flags).unwrap();
    let (outcome, failures) = copy_within(&source, &served.at("new"));
    // A link cannot be replaced by anything; the rest is there, without what there is no room for.
    assert_eq!(names(&failures), ["link"], "{failures:?}");
    let not_kept = outcome.totals.not_kept;
    assert!(not_kept.extended == 1 && not_kept.hard_links >= 1 && not_kept.owners > 0, "{not_kept:?}");
    for name in ["a", "other", "victim", "z", "sub/inner"] {
        assert_eq!(fs::read(served.beneath("new").join(name)).unwrap(), fs::read(source.join(name)).unwrap());
    }
    assert_no_leftovers(&served.directory);
    drop(served);
    // As on vfat, which takes no modes but its own.
    let Some(served) = serve(test, |_| {}, &["chmod,utimes:*:EPERM"]) else { return };
    let source = served.scratch.join("source");
    small(&source);
    let (outcome, failures) = copy_within(&source, &served.at("new"));
    assert_eq!((names(&failures), outcome.totals.files), (vec![], 4), "{failures:?}");
    // Of four files and two directories.
    assert_eq!(outcome.totals.not_kept.modes_and_times, 12);
    assert_eq!(
        fs::metadata(served.beneath("new/a")).unwrap().permissions().mode() & 0o777,
        0o600,
        "nobody else's"
    );
    drop(served);
    let read_only = ["create,mkdir,symlink,mknod,link,rename,unlink:*:EROFS"];
    let Some(served) = serve(test, |directory| small_and_old(&directory.join("old")), &read_only) else {
        return;
    };
    let source = served.scratch.join("source");
    small(&source);
    let (outcome, failures) = copy_within(&source, &served.at("old"));
    assert_eq!(names(&failures), ["a", "inner", "victim", "z"], "{failures:?}");
    assert!(failures.iter().all(|(class, _, text)| *class == Class::Permission && text.contains("EROFS")));
    assert_eq!((outcome.totals.files, outcome.signature), (0, None));
    assert_eq!(assert_whole_or_old(&source, &served.beneath("old"), b"old"), 0);
}

/// Row 18 of docs/hazards.md.
/// Immutable and append-only files and directories (`chattr +i`, `+a`): not even root may change them.
#[test]
fn immutable_files_stay_and_are_reported() {
    let test = "immutable_files_stay_and_are_reported";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("immutable").unwrap();
    let (source, room) = (scratch.join("source"), scratch.join("room"));
    small(&source);
    // What has the same time as its source lacks nothing.
    fs::File::open(source.join("sub")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::create_dir(&room).unwrap();
    let Some(mount) = skip::unless_available(test, Mount::tmpfs(&room, 16 << 20)) else { return };
    let target = mount.path().join("target");
    small_and_old(&target);
    let flag = |name: &str, flags| {
        let file = fs::File::open(target.join(name)).unwrap();
        rustix::fs::ioctl_setflags(file, flags)
    };
    let is_known = [("victim", IFlags::IMMUTABLE), ("z", IFlags::APPEND), ("sub", IFlags::IMMUTABLE)]
        .into_iter()
        .try_for_each(|(name, flags)| flag(name, flags));
    if let Err(errno) = is_known {
        return skip::skipped(test, &format!("tmpfs has no such flags: {errno}"));
    }
    for in_place in [false, true] {
        let (outcome, failures) = copy_with(&source, &target, &Options { in_place, ..threads(1) });
        // A directory that takes no names has files that may be written into.
        let shut = if in_place { &["sub", "victim", "z"][..] } else { &["inner", "sub", "victim", "z"] };
        assert_eq!(names(&failures), shut, "{failures:?}");
        assert!(
            failures.iter().all(|(class, _, text)| *class == Class::Permission && text.contains("EPERM"))
        );
        assert_eq!(outcome.signature, None);
        assert_eq!(fs::read(target.join("a")).unwrap(), fs::read(source.join("a")).unwrap());
        for name in ["victim", "z", "sub/inner"].into_iter().filter(|name| !in_place || *name != "sub/inner")
        {
            assert_eq!(fs::read(target.join(name)).unwrap(), b"old", "{name}");
        }
        assert_no_leftovers(mount.path());
    }
    ["victim", "z", "sub"].iter().for_each(|name| flag(name, IFlags::empty()).unwrap());
    let (_, failures) = copy_within(&source, &target);
    assert_eq!(failures, []);
}

/// Row 17 of docs/hazards.md.
/// What follows begins at no page, and other threads have written what is behind.
#[test]
fn short_direct_reads_harm_no_other_chunk() {
    let test = "short_direct_reads_harm_no_other_chunk";
    let fill = |directory: &std::path::Path| {
        let source = directory.join("source");
        fs::create_dir(&source).unwrap();
        let content: Vec<u8> = (0..20_000_001_u32).map(|at| (at * 31 / 7) as u8).collect();
        fs::write(source.join("large"), content).unwrap();
    };
    for rule in ["read:large:short=4095:times=3", "read:large:short=8192", "read:large:EINVAL:times=1"] {
        let Some(served) = serve(test, fill, &[rule]) else { return };
        for target in [served.scratch.join("target"), served.at("target")] {
            let options = Options { direct: true, digest: true, chunk: Some(1 << 20), ..threads(4) };
            let (_, failures) = copy_with(&served.at("source"), &target, &options);
            assert_eq!(failures, [], "{rule}");
            assert_same(&served.beneath("source"), &target);
        }
    }
}
