//! Rows 15 and 16 on real file systems: some that are too small, and a disk that dies under one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use atta_entry::Class;
use atta_ledger::{Fact, Key, Record, SliceNumber};
use atta_ops::copy::{Copy, Existing, Fsync, Options, Results};
use atta_ops::walk::Journal;
use atta_runtime::{Facts as _, Seat, Session, Stop};
use atta_testkit::disk::DyingDisk;
use atta_testkit::lock::Lock;
use atta_testkit::mounts::{Mount, loop_image};
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;

use crate::copying::logged::InMemory;
use crate::copying::{Reported, assert_same, threads, try_copy};
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

/// Copies what does not fit, first into new directories, then over old ones: existing files are complete, and every missing one was reported.
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

/// Row 15 of docs/hazards.md.
#[test]
fn full_target_has_only_whole_files() {
    let test = "full_target_has_only_whole_files";
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

/// Row 15 of docs/hazards.md.
#[test]
fn full_disk_has_only_whole_files() {
    let test = "full_disk_has_only_whole_files";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    for fsync in [Fsync::Batch, Fsync::File, Fsync::None] {
        let Some(disk) = skip::unless_available(test, loop_image("ext4", 2)) else { return };
        fill("ext4", disk.path(), &Options { fsync, ..threads(2) });
    }
}

/// Row 16 of docs/hazards.md.
/// No name may be of something that is not on the disk.
#[test]
fn dead_disk_gets_no_final_names() {
    let test = "dead_disk_gets_no_final_names";
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

/// Row 16 of docs/hazards.md.
#[test]
fn mounts_below_the_target_are_synced_first() {
    let test = "mounts_below_the_target_are_synced_first";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("dying").unwrap();
    let disk = DyingDisk::new(32, &["write,fsync,fallocate:disk:EIO:armed"]);
    let Some(mut disk) = skip::unless_available(test, disk) else { return };
    let (target, name) =
        (disk.path().parent().unwrap().to_owned(), disk.path().file_name().unwrap().to_owned());
    let source = scratch.join("source");
    many(&source.join(&name).join("new"));
    disk.break_now().unwrap();
    let (_, failures) = copy_with(&source, &target, &threads(2));
    assert!(!failures.is_empty(), "the disk is dead, whatever TARGET's is");
    disk.revive().unwrap();
    assert!(!disk.path().join("new").exists());
}

/// Row 16 of docs/hazards.md.
/// The disk fails a few times and then works again: the data of the failed writes is lost, and only the first sync reports it.
#[test]
fn batch_is_written_again_after_a_failed_sync() {
    let test = "batch_is_written_again_after_a_failed_sync";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("failing").unwrap();
    let source = scratch.join("source");
    many(&source);
    // Writing a file once more must not fail because of its mode, nor remove its rights.
    let last = source.join("3/small-9");
    fs::set_permissions(&last, fs::Permissions::from_mode(0o4501)).unwrap();
    fs::hard_link(&last, source.join("3/linked")).unwrap();
    std::os::unix::fs::symlink("small-9", source.join("3/symlink")).unwrap();
    let disk = DyingDisk::new(32, &["write:disk:EIO:armed:times=2"]);
    let Some(mut disk) = skip::unless_available(test, disk) else { return };
    let old = disk.path().join("old/0");
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join("large-0"), "old").unwrap();
    rustix::fs::syncfs(fs::File::open(&old).unwrap()).unwrap();
    disk.break_now().unwrap();
    let options = Options { digest: true, ..threads(1) };
    let (outcome, failures) = copy_with(&source, &disk.path().join("old"), &options);
    assert_eq!(failures, []);
    assert!(outcome.totals.mended >= 80, "{} written again", outcome.totals.mended);
    assert!(outcome.signature.is_some());
    disk.revive().unwrap();
    // The order in which the names of a file are visited is unspecified, so each name has a separate file here.
    assert_eq!(outcome.totals.not_kept.hard_links, 2);
    fs::remove_file(source.join("3/linked")).unwrap();
    let linked = disk.path().join("old/3/linked");
    for copy in [linked.as_path(), &disk.path().join("old/3/small-9")] {
        assert_eq!(fs::metadata(copy).unwrap().mode() & 0o7777, 0o4501);
        assert_eq!(fs::read(copy).unwrap(), fs::read(&last).unwrap());
    }
    fs::remove_file(&linked).unwrap();
    for changed in [source.join("3"), disk.path().join("old/3")] {
        let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        fs::File::open(changed).unwrap().set_times(times).unwrap();
    }
    assert_same(&source, &disk.path().join("old"));
}

/// Row 16 of docs/hazards.md.
/// Of a file with several names some are met before the sync that fails and some after it: none of these may be the lost one.
#[test]
fn links_of_a_lost_file_are_copied_again() {
    let test = "links_of_a_lost_file_are_copied_again";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("failing").unwrap();
    let source = scratch.join("source");
    // Whichever end is copied first: between both, one file fills a batch and takes no time.
    let roots = ["new-1", "old-1", "large", "old-2", "new-2"].map(|name| source.join(name));
    roots.iter().for_each(|root| fs::create_dir_all(root).unwrap());
    let content = vec![b'x'; 64 << 10];
    fs::write(roots[0].join("one"), &content).unwrap();
    let names = [0, 1, 3, 4].map(|root| ["one", "other"].map(|name| roots[root].join(name)));
    for name in names.iter().flatten().skip(1) {
        fs::hard_link(roots[0].join("one"), name).unwrap();
    }
    fs::File::create(roots[2].join("hole")).unwrap().set_len(600 << 20).unwrap();
    let disk = DyingDisk::new(32, &["write:disk:EIO:armed:times=2"]);
    let Some(mut disk) = skip::unless_available(test, disk) else { return };
    for old in ["old-1", "old-2"] {
        fs::create_dir(disk.path().join(old)).unwrap();
    }
    rustix::fs::syncfs(fs::File::open(disk.path()).unwrap()).unwrap();
    disk.break_now().unwrap();
    let options = Options { chunk: Some(1 << 30), verify: true, digest: true, ..threads(1) };
    let (outcome, failures) =
        try_copy(&roots.each_ref().map(PathBuf::as_path), &disk.path(), &options).unwrap();
    assert_eq!(failures, []);
    assert_eq!((outcome.totals.files, outcome.totals.hard_links), (2, 7));
    disk.revive().unwrap();
    for name in names.iter().flatten() {
        let copy = disk.path().join(name.strip_prefix(&source).unwrap());
        assert!(fs::read(&copy).unwrap() == content, "{}", copy.display());
    }
    assert!(outcome.totals.mended >= 8, "{} written again", outcome.totals.mended);
    // They are other files by then, and read back as such.
    assert!(outcome.totals.verified_bytes >= (600 << 20) + content.len() as u64, "{:?}", outcome.totals);
    assert_eq!(outcome.totals.not_verified, 0);
}

/// Row 16 of docs/hazards.md.
/// Where it goes on to fail, what is written once more fails by itself, and no file of it has its name.
#[test]
fn file_that_stays_lost_is_removed() {
    let test = "file_that_stays_lost_is_removed";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("failing").unwrap();
    let source = scratch.join("source");
    many(&source);
    let disk = DyingDisk::new(32, &["write:disk:EIO:armed:percent=30"]);
    let Some(mut disk) = skip::unless_available(test, disk) else { return };
    disk.break_now().unwrap();
    let target = disk.path().join("new");
    let (_, failures) = copy_with(&source, &target, &threads(1));
    assert!(!failures.is_empty(), "a third of all writes failed");
    disk.revive().unwrap();
    whole_or_hidden(&source, &target);
    let is_reported = |path: &Path| {
        failures.iter().any(|(_, failed, _)| path.starts_with(failed) || failed.ends_with("new"))
    };
    for directory in 0..4 {
        for entry in fs::read_dir(source.join(directory.to_string())).unwrap() {
            let path = entry.unwrap().path();
            let copy = target.join(path.strip_prefix(&source).unwrap());
            assert!(
                copy.exists() || is_reported(&source.join(".").join(path.strip_prefix(&source).unwrap())),
                "{}",
                path.display()
            );
        }
    }
}

/// Row 15 of docs/hazards.md.
/// A target that is full is not asked for room a million times.
#[test]
fn copy_without_space_parks_and_goes_on() {
    let test = "copy_without_space_parks_and_goes_on";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("parked").unwrap();
    let source = scratch.join("source");
    for directory in 0..40 {
        let directory = source.join(directory.to_string());
        fs::create_dir_all(&directory).unwrap();
        for file in 0..50 {
            fs::write(directory.join(file.to_string()), vec![b'x'; 4096]).unwrap();
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o751)).unwrap();
    }
    let place = scratch.join("room");
    fs::create_dir(&place).unwrap();
    let room = Mount::tmpfs(&place, 1 << 20);
    let Some(room) = skip::unless_available(test, room) else { return };
    let target = room.path().join("target");
    // Directories that are there, so that a whole one that cannot be made is not one failure.
    for directory in 0..40 {
        fs::create_dir_all(target.join(directory.to_string())).unwrap();
    }
    let verifying = Options { verify: true, digest: true, ..threads(2) };
    let (outcome, failures) = copy_with(&source, &target, &verifying);
    assert!(outcome.parked && outcome.stopped);
    // What waits to be read back keeps no directory from what it is to have.
    for entry in fs::read_dir(&target).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        let is_begun = fs::read_dir(entry.path()).unwrap().count() > 0;
        assert!(!is_begun || entry.metadata().unwrap().mode() & 0o777 == 0o751, "{name:?}");
    }
    let verified = outcome.totals.verified_bytes / 4096;
    assert_eq!(verified + outcome.totals.not_verified, outcome.totals.files);
    let copied = assert_whole_or_old(&source, &target, b"");
    assert!(copied > 50 && failures.len() >= 128, "{copied} copied, {} failed", failures.len());
    assert!(copied + failures.len() < 1900, "{copied} copied, {} failed: all was tried", failures.len());
    assert_no_leftovers(room.path());
    room.resize(64 << 20).unwrap();
    let options = Options { existing: Existing::Update, ..threads(2) };
    let (outcome, failures) = copy_with(&source, &target, &options);
    assert_eq!((failures, outcome.parked), (vec![], false));
    assert_eq!(outcome.totals.skipped, copied as u64);
    assert_eq!(assert_whole_or_old(&source, &target, b""), 2000);
}

/// The names below a source of which a log says that they are done.
fn done(journal: &Journal<Results>, source: &Path) -> Vec<PathBuf> {
    let (mut listed, mut done) = (Vec::new(), Vec::new());
    for section in journal.take() {
        let is_valid = atta_ledger::records(&section, &mut |record| {
            let Record::In(at, fact) = record else { return };
            let directory = PathBuf::from(OsStr::from_bytes(at.path));
            match fact {
                Fact::Listed { slice, names } => {
                    let names = names.iter().map(|name| directory.join(OsStr::from_bytes(name)));
                    listed.push((directory.clone(), *slice, names.collect::<Vec<_>>()));
                }
                Fact::Done { slice, .. } => done.push((directory, *slice)),
                _ => {}
            }
        });
        assert!(is_valid);
    }
    let names_of = |(directory, slice): &(PathBuf, Option<SliceNumber>)| -> Vec<PathBuf> {
        let own: Vec<_> = listed.iter().filter(|(of, ..)| of == directory).collect();
        if let Some(slice) = slice {
            let its = own.iter().filter(|(_, number, _)| number == slice);
            return its.flat_map(|(.., names)| names.clone()).collect();
        }
        let entries = fs::read_dir(source.join(directory)).unwrap();
        let names = entries.map(|entry| directory.join(entry.unwrap().file_name()));
        names.filter(|name| !own.iter().any(|(.., names)| names.contains(name))).collect()
    };
    done.iter().flat_map(names_of).filter(|name| source.join(name).is_file()).collect()
}

/// Copies to a disk, which dies when the first names are there, if it `dies`. Returns the names of which the log says that they are done.
/// None: the copy was faster than the end of the disk.
fn copied_to(disk: &mut DyingDisk, source: &Path, dies: bool) -> Option<Vec<PathBuf>> {
    let target = disk.path().join("target");
    for directory in ["0", "1", "2", "3"] {
        fs::create_dir_all(target.join(directory)).unwrap();
    }
    rustix::fs::syncfs(fs::File::open(&target).unwrap()).unwrap();
    let journal = Journal::new(Key::of_job(&[7; 16]), 1, 0).with_closing();
    let failed = std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            let options = Options { chunk: Some(1 << 30), run_of_job: Some(1), ..threads(1) };
            let (sources, failures) = ([source.join(".").into_os_string().into_vec()], Reported::default());
            let path = target.as_os_str().as_bytes();
            let copy = Copy::prepare(&sources, path, &options, &failures, Seat::alone()).unwrap();
            let copy = copy.logged(&journal, &InMemory, Results::default());
            copy.run(&mut Session::alone(Stop::default()), |_| {}).unwrap().totals.failed()
        });
        let has_names = || (0..4).any(|number| target.join(format!("{number}/small-0")).exists());
        while dies && !copying.is_finished() && !has_names() {
            std::thread::yield_now();
        }
        if dies {
            disk.break_now().unwrap();
        }
        copying.join().unwrap()
    });
    let done = done(&journal, source);
    disk.revive().unwrap();
    (dies == (failed > 0)).then_some(done)
}

/// Row 16 of docs/hazards.md.
/// The disk dies after the first batch has its names, and before a sync has written these. The log of a job must not say that it is done.
#[test]
fn nothing_is_done_in_a_log_after_a_failed_sync() {
    let test = "nothing_is_done_in_a_log_after_a_failed_sync";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("failing").unwrap();
    let source = scratch.join("source");
    many(&source);
    // One such file fills a batch and takes no time.
    for directory in ["0", "1", "2", "3"] {
        fs::File::create(source.join(directory).join("hole")).unwrap().set_len(600 << 20).unwrap();
    }
    for dies in [false, true] {
        for attempt in 0..20 {
            let disk = DyingDisk::new(32, &["write,fsync,fallocate:disk:EIO:armed"]);
            let Some(mut disk) = skip::unless_available(test, disk) else { return };
            let Some(done) = copied_to(&mut disk, &source, dies) else {
                assert!(attempt < 19, "the disk never dies in time");
                continue;
            };
            for name in done.iter().filter(|name| !name.ends_with("hole")) {
                let (copy, from) = (disk.path().join("target").join(name), source.join(name));
                assert!(fs::read(copy).ok() == fs::read(from).ok(), "{dies} {}", name.display());
            }
            assert!(dies || done.len() > 40, "{done:?}");
            break;
        }
    }
}
