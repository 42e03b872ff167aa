//! The copy on ranks within this process: the same result as on one rank, regardless of the distribution of work. Ranks of real processes are the business of the
//! program's tests.

#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

mod copying;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

use atta_engine::Config;
use atta_ops::copy::{Fsync, Options};
use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use copying::ranks::{HOSTS, all_schedules, copied};
use copying::{assert_same, facts, hostile};

fn options(threads: usize, fsync: Fsync) -> Options<'static> {
    Options { fsync, digest: true, ..copying::threads(threads) }
}

#[test]
fn copy_on_many_ranks_equals_its_source() {
    let scratch = Scratch::new("copy-ranks").unwrap();
    let tree = hostile(&scratch);
    for number in 0..40 {
        let directory = tree.join(format!("linked/{number}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("own"), number.to_string()).unwrap();
        let first = tree.join("linked/0/own");
        fs::hard_link(first, directory.join("other")).unwrap();
    }
    // Directories without rights, below each other: only root could create entries there after their modes are set.
    for path in ["barred/a/b", "barred/a", "barred"] {
        fs::create_dir_all(tree.join(path)).unwrap();
        fs::write(tree.join(path).join("file"), path).unwrap();
    }
    for path in ["barred/a/b", "barred/a", "barred"] {
        fs::set_permissions(tree.join(path), fs::Permissions::from_mode(0o500)).unwrap();
    }
    let (mut number, mut accepted, mut signatures) = (0, 0, Vec::new());
    for (hosts, config) in all_schedules() {
        number += 1;
        let (schedule, fsync) = (config.schedule, [Fsync::Batch, Fsync::None][number % 2]);
        let target = scratch.join(format!("copy-{number}"));
        let whole = copied(&tree, &target, hosts, config, || options(1 + number % 2, fsync));
        assert_eq!(whole.failures, [] as [String; 0], "{schedule} on {hosts:?}");
        assert_same(&tree, &target);
        let totals = &whole.totals;
        let kinds = totals.files + totals.directories + totals.symlinks + totals.specials;
        assert_eq!((kinds + totals.hard_links) as usize, facts(&tree).len());
        assert_eq!(totals.not_kept, atta_ops::copy::NotKept::default());
        accepted += whole.accepted;
        signatures.push(whole.signature.unwrap().digest());
        fs::remove_dir_all(&target).unwrap();
    }
    assert!(accepted > 0, "ranks share the work");
    assert!(signatures.iter().all(|signature| *signature == signatures[0]));
}

/// Without hard links nothing keeps a directory open until the last task: a debug assertion of the copy states that.
#[test]
fn directories_are_closed_by_tasks_on_all_ranks() {
    let scratch = Scratch::new("copy-ranks").unwrap();
    let tree = scratch.join("tree");
    for number in 0..30 {
        let directory = tree.join(format!("{}/{number}/deep/er", number % 3));
        fs::create_dir_all(&directory).unwrap();
        (0..20).for_each(|file| fs::write(directory.join(file.to_string()), "data").unwrap());
        let above = directory.parent().unwrap();
        (0..number * 8).for_each(|file| fs::write(above.join(file.to_string()), "more").unwrap());
        fs::set_permissions(above, fs::Permissions::from_mode(0o500)).unwrap();
    }
    let mut accepted = 0;
    for (number, (hosts, config)) in all_schedules().enumerate() {
        let target = scratch.join(format!("copy-{number}"));
        let fsync = [Fsync::Batch, Fsync::None, Fsync::File][number % 3];
        let whole = copied(&tree, &target, hosts, config, || Options {
            verify: number % 2 == 0,
            ..options(1 + number % 2, fsync)
        });
        assert_eq!(whole.failures, [] as [String; 0], "{} on {hosts:?}", config.schedule);
        assert_same(&tree, &target);
        accepted += whole.accepted;
        fs::remove_dir_all(&target).unwrap();
    }
    assert!(accepted > 0, "ranks share the work");
}

#[test]
fn chunks_of_large_files_are_copied_by_all_ranks() {
    let scratch = Scratch::new("copy-ranks").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir_all(tree.join("below")).unwrap();
    let bytes: Vec<u8> = (0..8_000_003_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(tree.join("large"), &bytes).unwrap();
    fs::write(tree.join("below/other"), &bytes[..1 << 20]).unwrap();
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.write_all_at(b"middle", 3 << 20).unwrap();
    sparse.set_len(7 << 20).unwrap();
    let mut signatures = Vec::new();
    for (number, hosts) in HOSTS.into_iter().enumerate() {
        let target = scratch.join(format!("copy-{number}"));
        let config = Config { seed: 7, ..Config::default() };
        let chunk = || Options { chunk: Some(4 << 10), ..options(2, Fsync::Batch) };
        let whole = copied(&tree, &target, hosts, config, chunk);
        assert_eq!(whole.failures, [] as [String; 0]);
        assert_same(&tree, &target);
        // With one file there is nothing else to be given.
        assert!(whole.accepted > 0 || hosts.len() == 1, "{hosts:?}");
        signatures.push(whole.signature.unwrap().digest());
        // A single file, by its own path.
        let single = scratch.join(format!("single-{number}"));
        let whole = copied(&tree.join("large"), &single, hosts, config, chunk);
        assert_eq!((whole.failures.len(), fs::read(&single).unwrap() == bytes), (0, true));
    }
    assert!(signatures.iter().all(|signature| *signature == signatures[0]));
}

#[test]
fn large_file_that_changes_on_ranks_is_not_copied() {
    let scratch = Scratch::new("copy-ranks").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    let log = tree.join("log");
    fs::write(&log, vec![b'a'; 8 << 20]).unwrap();
    trees::flat(&tree.join("flat"), 200).unwrap();
    let target = scratch.join("target");
    let ended = AtomicBool::new(false);
    let whole = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
            while !ended.load(Ordering::Relaxed) {
                file.write_all_at(b"b", 5).unwrap();
            }
        });
        let config = Config { seed: 3, ..Config::default() };
        let chunk = || Options { chunk: Some(16 << 10), ..options(2, Fsync::Batch) };
        let whole = copied(&tree, &target, HOSTS[2], config, chunk);
        ended.store(true, Ordering::Relaxed);
        whole
    });
    let [failure] = whole.failures.as_slice() else { panic!("{:?}", whole.failures) };
    assert!(failure.contains("log") && failure.contains("it changed each time it was read"), "{failure}");
    assert_eq!(whole.totals.changed, 1);
    let mut names: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [OsStr::new("flat")], "nothing is left of it");
    assert_same(&tree.join("flat"), &target.join("flat"));
}
