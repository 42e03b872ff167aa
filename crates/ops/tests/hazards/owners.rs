//! Rows 22 to 24: whose the copies are and what they let do, extended attributes, times.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use atta_testkit::lock::Lock;
use atta_testkit::mounts::loop_image;
use atta_testkit::scratch::Scratch;
use atta_testkit::{skip, trees};
use rustix::fs::XattrFlags;

use crate::copying::{as_nobody, assert_same, copy, threads, try_copy};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

#[test]
fn row_22_who_cannot_give_files_away_gives_no_rights_of_others_either() {
    let test = "row_22_who_cannot_give_files_away_gives_no_rights_of_others_either";
    if !skip::is_root() {
        return skip::skipped(test, "it needs two users");
    }
    let scratch = Scratch::new("owners").unwrap();
    set_mode(scratch.path(), 0o755);
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&target).unwrap();
    chown(&target, Some(65534), Some(65534)).unwrap();
    let modes = [("setuid", 0o4755), ("setgid", 0o2755), ("both", 0o6711), ("plain", 0o644)];
    for (name, mode) in modes {
        fs::write(source.join(name), name).unwrap();
        set_mode(&source.join(name), mode | 0o444);
    }
    let (outcome, failures) = as_nobody(|| try_copy(&[&source.join(".")], &target, &threads(2)).unwrap());
    assert_eq!(failures, []);
    for (name, mode) in modes {
        let found = fs::metadata(target.join(name)).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777), (65534, (mode | 0o444) & 0o777), "{name}");
    }
    let not_kept = outcome.totals.not_kept;
    assert_eq!(not_kept.set_id_bits, 3, "{not_kept:?}");
    assert!(not_kept.owners >= 4, "{not_kept:?}");
    // Who can, keeps all.
    copy(&[&source], &scratch.join("kept"), &threads(2));
    assert_same(&source, &scratch.join("kept"));
}

#[test]
fn row_22_what_a_directory_would_hand_down_is_not_taken() {
    let test = "row_22_what_a_directory_would_hand_down_is_not_taken";
    if !skip::is_root() {
        return skip::skipped(test, "it needs two groups");
    }
    let scratch = Scratch::new("inherited").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    fs::create_dir_all(source.join("below")).unwrap();
    fs::create_dir(&target).unwrap();
    for name in ["file", "below/file"] {
        fs::write(source.join(name), name).unwrap();
        set_mode(&source.join(name), 0o600);
    }
    // A group, and a list that lets user 1000 do all.
    chown(&target, None, Some(4242)).unwrap();
    set_mode(&target, 0o2777);
    set(&target, "system.posix_acl_default", &access_list(1000));
    copy(&[&source], &target, &threads(2));
    assert_same(&source, &target.join("source"));
    copy(&[&source.join("file")], &target, &threads(2));
    assert_same(&source.join("file"), &target.join("file"));
}

/// `u::rwx,u:UID:rwx,g::r-x,m::rwx,o::---` as the kernel takes it.
fn access_list(uid: u32) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1_u16, 7_u16, NOBODY), (2, 7, uid), (4, 5, NOBODY), (16, 7, NOBODY), (32, 0, NOBODY)]
    {
        bytes.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
    }
    bytes
}

#[test]
fn row_23_extended_attributes_lists_and_capabilities_are_kept() {
    let test = "row_23_extended_attributes_lists_and_capabilities_are_kept";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    // The only one that takes a value of 64 KiB.
    let Some(disk) = skip::unless_available(test, loop_image("xfs", 320)) else { return };
    let (source, target) = (disk.path().join("source"), disk.path().join("target"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(source.join("directory")).unwrap();
    for name in ["user", "long", "many", "trusted", "able", "list"] {
        fs::write(source.join(name), name).unwrap();
    }
    set(&source.join("user"), "user.empty", b"");
    set(&source.join("user"), "user.bytes \n\u{e9}", b"\0\xff");
    set(&source.join("long"), "user.long", &[b'x'; 64 << 10]);
    for number in 0..200 {
        set(&source.join("many"), &format!("user.{number}-{}", "n".repeat(100)), b"value");
    }
    set(&source.join("trusted"), "trusted.one", b"one");
    // cap_net_raw, permitted and effective, version 2. It goes with a change of the owner, so it comes after that.
    chown(source.join("able"), Some(1000), Some(1000)).unwrap();
    let capability = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    set(&source.join("able"), "security.capability", &capability);
    set(&source.join("list"), "system.posix_acl_access", &access_list(1000));
    set(&source.join("directory"), "system.posix_acl_default", &access_list(1001));
    set(&source.join("directory"), "system.posix_acl_access", &access_list(1002));
    for sources in [source.clone(), source.join(".")] {
        let outcome = copy(&[&sources], &target, &threads(2));
        assert_same(&source, &target);
        assert_eq!(outcome.totals.not_kept.extended, 0);
    }
}

#[test]
fn row_24_times_are_kept_whenever_they_are() {
    let scratch = Scratch::new("times").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    trees::times(&source).unwrap();
    for sources in [source.clone(), source.join(".")] {
        copy(&[&sources], &target, &threads(2));
        assert_same(&source, &target);
    }
}
