//! Rows 15 and 16 on real file systems: some that are too small, and a disk that dies under one.

use std::fs;
use std::path::Path;

use atta_entry::Class;
use atta_ops::copy::{Fsync, Options};
use atta_testkit::disk::DyingDisk;
use atta_testkit::lock::Lock;
use atta_testkit::mounts::{Mount, loop_image};
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;

use crate::copying::threads;
use crate::served::{assert_no_leftovers, assert_whole_or_old, copy_with, whole_or_hidden};

/// Forty files of 64 KiB and forty of 100 bytes in four directories.
fn many(tree: &Path) {
    for directory in 0..4 {
        let directory = tree.join(directory.to_string());
        fs::create_dir_all(&directory).unwrap();
        for file in 0..10_u8 {
            fs::write(directory.join(format!("large-{file}")), vec![file; 64 << 10]).unwrap();
            fs::write(directory.join(format!("small-{file}")), vec![file; 100]).unwrap();
        }
    }
}

/// Copies what does not fit, first into new directories, then over old ones: what is there is whole, and what is not was told.
fn fill(what: &str, room: &Path, options: &Options<'_>) {
    let scratch = Scratch::new("space").unwrap();
    let source = scratch.join("source");
    many(&source);
    for round in 0..2 {
        let target = room.join("target");
        let (outcome, failures) = copy_with(&source, &target, options);
        assert!(!failures.is_empty(), "{what}: all of it found room");
        let is_room =
            |failure: &(Class, _, String)| failure.0 == Class::Resource && failure.2.contains("ENOSPC");
        assert!(failures.iter().all(is_room), "{what}: {failures:?}");
        let copied = assert_whole_or_old(&source, &target, b"");
        assert!(copied > 10, "{what}: {copied} copied");
        if round == 0 {
            let directories =
                failures.iter().filter(|(_, path, _)| path.parent() == Some(&source.join("."))).count();
            assert_eq!(copied + failures.len() - directories, 80 - 20 * directories, "{what}");
        }
        assert_eq!(outcome.signature, None);
        assert_no_leftovers(room);
    }
    // With room for it what is missing comes.
    fs::remove_dir_all(room.join("target")).unwrap();
    for directory in ["1", "2", "3"] {
        fs::remove_dir_all(source.join(directory)).unwrap();
    }
    fs::remove_file(source.join("0/large-0")).unwrap();
    let (_, failures) = copy_with(&source, &room.join("target"), options);
    assert_eq!(failures, [], "{what}");
}

#[test]
fn row_15_a_target_without_room_has_whole_files_or_none() {
    let test = "row_15_a_target_without_room_has_whole_files_or_none";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("room").unwrap();
    let room = Mount::tmpfs(scratch.path(), 1200 << 10);
    let Some(room) = skip::unless_available(test, room) else { return };
    for count in [1, 4] {
        fill("tmpfs, bytes", room.path(), &threads(count));
        fs::remove_dir_all(room.path().join("target")).unwrap();
    }
    drop(room);
    let room = Mount::tmpfs_of_entries(scratch.path(), 60).unwrap();
    fill("tmpfs, entries", room.path(), &threads(2));
}

#[test]
fn row_15_a_disk_without_room_has_whole_files_or_none() {
    let test = "row_15_a_disk_without_room_has_whole_files_or_none";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    for fsync in [Fsync::Batch, Fsync::File, Fsync::None] {
        let Some(disk) = skip::unless_available(test, loop_image("ext4", 2)) else { return };
        fill("ext4", disk.path(), &Options { fsync, ..threads(2) });
    }
}

/// No name may be of something that is not on the disk.
#[test]
fn row_16_nothing_gets_its_name_on_a_disk_that_died_before_it_was_durable() {
    let test = "row_16_nothing_gets_its_name_on_a_disk_that_died_before_it_was_durable";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("dying").unwrap();
    let source = scratch.join("source");
    many(&source);
    for fsync in [Fsync::Batch, Fsync::File] {
        let disk = DyingDisk::new(32, &["write,fsync,fallocate:disk:EIO:armed"]);
        let Some(mut disk) = skip::unless_available(test, disk) else { return };
        let old = disk.path().join("old/0");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("large-0"), "old").unwrap();
        rustix::fs::syncfs(fs::File::open(&old).unwrap()).unwrap();
        disk.break_now().unwrap();
        let options = Options { fsync, ..threads(2) };
        for target in ["old", "new"] {
            let (_, failures) = copy_with(&source, &disk.path().join(target), &options);
            assert!(!failures.is_empty(), "{fsync:?}: the disk is dead");
        }
        disk.revive().unwrap();
        // What has its name is on the disk, as a whole.
        assert_eq!(fs::read(old.join("large-0")).unwrap(), b"old", "{fsync:?}");
        let names = whole_or_hidden(&source, &disk.path().join("old"));
        assert_eq!(names, 1, "{fsync:?}: only what was there");
        assert!(!disk.path().join("new").exists(), "{fsync:?}");
    }
}

/// The disk fails a few times and is well again: what the failed writes were of is not on it, and only the first sync tells.
#[test]
fn row_16_a_batch_whose_sync_failed_gets_no_name_although_the_disk_is_well_again() {
    let test = "row_16_a_batch_whose_sync_failed_gets_no_name_although_the_disk_is_well_again";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("failing").unwrap();
    let source = scratch.join("source");
    many(&source);
    let disk = DyingDisk::new(32, &["write:disk:EIO:armed:times=2"]);
    let Some(mut disk) = skip::unless_available(test, disk) else { return };
    let old = disk.path().join("old/0");
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join("large-0"), "old").unwrap();
    rustix::fs::syncfs(fs::File::open(&old).unwrap()).unwrap();
    disk.break_now().unwrap();
    let (outcome, failures) = copy_with(&source, &disk.path().join("old"), &threads(1));
    assert!(!failures.is_empty(), "two writes failed");
    assert_eq!(outcome.signature, None);
    disk.revive().unwrap();
    assert!(fs::read(old.join("large-0")).unwrap() == b"old", "it was replaced by what is not on the disk");
    assert_eq!(whole_or_hidden(&source, &disk.path().join("old")), 1, "only what was there");
}
