//! Rows 21, 27 and 29: mounts within what is copied, directories that are shared, two copies at once.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_entry::Failure;
use atta_ops::copy::{self, Options, Watch};
use atta_ops::walk;
use atta_testkit::automounts::Automounts;
use atta_testkit::lock::Lock;
use atta_testkit::mounts::{Mount, loop_image, mounted};
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;

use crate::copying::{assert_same, bytes, copy, threads, try_copy};
use crate::served::{assert_no_leftovers, names, whole_or_hidden};

/// Row 21 of docs/hazards.md.
#[test]
fn mounts_are_entered_or_left_alone() {
    let test = "mounts_are_entered_or_left_alone";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("mounts").unwrap();
    let (source, other) = (scratch.join("source"), scratch.join("other"));
    for directory in [source.join("tmpfs"), source.join("bound"), other.clone(), scratch.join("kept")] {
        fs::create_dir_all(directory).unwrap();
    }
    let Some(tmpfs) = skip::unless_available(test, Mount::tmpfs(&source.join("tmpfs"), 1 << 20)) else {
        return;
    };
    fs::write(source.join("file"), "file").unwrap();
    fs::write(tmpfs.path().join("on-tmpfs"), "on tmpfs").unwrap();
    copy(&[&source], &scratch.join("all"), &threads(2));
    assert_same(&source, &scratch.join("all"));
    copy(&[&source], &scratch.join("one"), &one_file_system());
    assert_eq!(fs::read_dir(scratch.join("one/tmpfs")).unwrap().count(), 0);
    assert_eq!(fs::read(scratch.join("one/file")).unwrap(), b"file");
    // A mount shows TARGET below SOURCE, which no path reveals: it is skipped and reported.
    let bound = Mount::bind(&other, &source.join("bound")).unwrap();
    let (_, failures) = try_copy(&[&source], &other, &threads(2)).unwrap();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].1.ends_with("bound"), "{failures:?}");
    assert_eq!(fs::read(other.join("source/file")).unwrap(), b"file");
    assert!(!other.join("source/bound/source").exists());
    drop(bound);
    // So is what is mounted there of the target: its copy would be in it, or it itself.
    for (below, mounted) in [("source", "bound"), ("source/bound", "bound"), ("source/tmpfs", "tmpfs")] {
        let target = scratch.join(format!("endless-{}", below.replace('/', "-")));
        fs::create_dir_all(target.join(below)).unwrap();
        let bound = Mount::bind(&target.join(below), &source.join(mounted)).unwrap();
        let (_, failures) = try_copy(&[&source], &target, &threads(2)).unwrap();
        assert_eq!(names(&failures), [mounted], "{failures:?}");
        assert_eq!(fs::read(target.join("source/file")).unwrap(), b"file");
        assert_eq!(fs::read_dir(target.join("source").join(mounted)).map_or(0, Iterator::count), 0);
        drop(bound);
    }
    drop(tmpfs);
}

/// Row 21 of docs/hazards.md.
#[test]
fn automounts_are_entered_or_left_alone() {
    let test = "automounts_are_entered_or_left_alone";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("automounts").unwrap();
    let source = scratch.join("source");
    fs::create_dir_all(source.join("home")).unwrap();
    fs::write(source.join("file"), "file").unwrap();
    let home = source.join("home");
    let Some(automounts) = skip::unless_available(test, Automounts::on(&home, &["one", "two", "refused"]))
    else {
        return;
    };
    let is_entered = |name: &str| mounted().unwrap().contains(&home.join(name));
    copy(&[&source], &scratch.join("left"), &one_file_system());
    assert_eq!(fs::read_dir(scratch.join("left/home")).unwrap().count(), 0);
    assert!(!is_entered("one") && !is_entered("two"));
    // A SOURCE is entered, whatever it is.
    copy(&[&home.join("one")], &scratch.join("one"), &one_file_system());
    assert_eq!(fs::read(scratch.join("one/file")).unwrap(), b"one");
    assert!(is_entered("one") && !is_entered("two"));
    let (_, failures) = try_copy(&[&source], &scratch.join("all"), &threads(2)).unwrap();
    assert_eq!(names(&failures), ["refused"], "{failures:?}");
    for name in ["one", "two"] {
        assert_same(&home.join(name), &scratch.join("all/home").join(name));
        assert_eq!(fs::read(scratch.join("all/home").join(name).join("file")).unwrap(), name.as_bytes());
    }
    assert_eq!(fs::read(scratch.join("all/file")).unwrap(), b"file");
    drop(automounts);
}

/// Row 21 of docs/hazards.md.
#[test]
fn snapshots_within_are_trees_of_their_own() {
    let test = "snapshots_within_are_trees_of_their_own";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let Some(image) = skip::unless_available(test, loop_image("btrfs", 160)) else {
        return;
    };
    let source = image.path().join("source");
    btrfs(&[OsStr::new("create"), source.as_os_str()]);
    fs::create_dir(source.join(".snapshot")).unwrap();
    fs::write(source.join("file"), "of now").unwrap();
    fs::hard_link(source.join("file"), source.join("other")).unwrap();
    let daily = source.join(".snapshot/daily");
    btrfs(&[OsStr::new("snapshot"), source.as_os_str(), daily.as_os_str()]);
    fs::write(daily.join("file"), "of then").unwrap();
    // Files have the same inode numbers in both; only the device numbers differ.
    let number = |path: &Path| fs::metadata(path).map(|of| (of.ino(), of.nlink())).unwrap();
    assert_eq!(number(&source.join("file")), number(&daily.join("file")));
    let target = Scratch::new("snapshots").unwrap();
    copy(&[&source], &target.join("all"), &threads(2));
    assert_same(&source, &target.join("all"));
    for (tree, holds) in [("all", "of now"), ("all/.snapshot/daily", "of then")] {
        let tree = target.join(tree);
        assert_eq!(fs::read_to_string(tree.join("other")).unwrap(), holds);
        assert_eq!(number(&tree.join("file")), number(&tree.join("other")));
    }
    copy(&[&source], &target.join("one"), &one_file_system());
    assert_eq!(fs::read_dir(target.join("one/.snapshot/daily")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(target.join("one/other")).unwrap(), "of now");
}

fn one_file_system() -> Options<'static> {
    Options { walk: walk::Options { one_file_system: true, ..threads(2).walk }, ..Options::default() }
}

fn btrfs(arguments: &[&OsStr]) {
    let output = Command::new("btrfs").arg("subvolume").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Row 27 of docs/hazards.md.
#[test]
fn foreign_files_in_sticky_directories() {
    let test = "foreign_files_in_sticky_directories";
    let protected = fs::read_to_string("/proc/sys/fs/protected_regular").unwrap_or_default();
    if !skip::is_root() || protected.trim() == "0" {
        return skip::skipped(test, "it needs root, and fs.protected_regular");
    }
    let scratch = Scratch::new("sticky").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    for directory in [&source, &target] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("file"), directory.as_os_str().len().to_string()).unwrap();
    }
    std::os::unix::fs::chown(target.join("file"), Some(65534), Some(65534)).unwrap();
    std::os::unix::fs::chown(&target, Some(1), Some(1)).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o1777)).unwrap();
    copy(&[&source.join("file")], &target, &threads(1));
    assert_same(&source.join("file"), &target.join("file"));
}

/// Row 21 of docs/hazards.md.
#[test]
fn mounts_in_the_target_get_all_attributes() {
    let test = "mounts_in_the_target_get_all_attributes";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("mounted").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    for directory in ["mounted/old", "mounted/new"] {
        let directory = source.join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), "file").unwrap();
        std::os::unix::fs::symlink("file", directory.join("link")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, directory.join("fifo"), fifo, 0o600.into(), 0).unwrap();
    }
    let mounted = target.join("mounted");
    fs::create_dir_all(&mounted).unwrap();
    let Some(_mount) = skip::unless_available(test, Mount::tmpfs(&mounted, 16 << 20)) else { return };
    fs::create_dir(mounted.join("old")).unwrap();
    let outcome = copy(&[&source.join(".")], &target, &threads(2));
    assert_same(&source, &target);
    assert_no_leftovers(&target);
    assert_eq!(outcome.totals.not_kept, copy::NotKept::default());
    // Links do not lead from one file system to another one: counted, and copied.
    fs::hard_link(source.join("mounted/old/file"), source.join("mounted/new/other")).unwrap();
    let outcome = copy(&[&source.join(".")], &target, &threads(2));
    assert_eq!(outcome.totals.not_kept.hard_links, 2);
    assert_eq!(fs::read(mounted.join("new/other")).unwrap(), b"file");
    assert_no_leftovers(&target);
}

/// Row 21 of docs/hazards.md.
#[test]
fn links_are_made_across_bind_mounts() {
    let test = "links_are_made_across_bind_mounts";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("bound").unwrap();
    let (source, target, other) = (scratch.join("source"), scratch.join("target"), scratch.join("other"));
    for directory in [&source.join("bound"), &target.join("bound"), &other] {
        fs::create_dir_all(directory).unwrap();
    }
    std::os::unix::fs::symlink("somewhere", source.join("bound/link")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, source.join("bound/fifo"), fifo, 0o640.into(), 0).unwrap();
    let Some(_bound) = skip::unless_available(test, Mount::bind(&other, &target.join("bound"))) else {
        return;
    };
    let outcome = copy(&[&source.join(".")], &target, &threads(1));
    assert_same(&source, &target);
    assert_no_leftovers(&target);
    assert_eq!(outcome.totals.not_kept, copy::NotKept::default());
}

/// Warnings about other copies.
#[derive(Default)]
struct Crowded(AtomicU64);

impl Watch for Crowded {
    fn failure(&self, failure: &Failure<'_>) {
        panic!("{failure}");
    }

    fn notice(&self, notice: &copy::Notice) {
        assert!(matches!(notice, copy::Notice::Crowded(_)), "{notice:?}");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Row 29 of docs/hazards.md.
#[test]
fn second_copy_is_reported_as_not_alone() {
    let scratch = Scratch::new("crowded").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    for directory in [&source, &target] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(source.join("file"), "file").unwrap();
    let notes = |target: &Path| {
        let watch = Crowded::default();
        copy::run(&[bytes(&source)], &bytes(target), &threads(1), &watch, |_| {}).unwrap();
        watch.0.into_inner()
    };
    assert_eq!((notes(&target), notes(&target)), (0, 0), "one after another");
    // As a copy does while it runs.
    let other = fs::File::open(&target).unwrap();
    other.lock().unwrap();
    assert_eq!(notes(&target), 1);
    assert_eq!(fs::read(target.join("source/file")).unwrap(), b"file");
    assert_eq!(notes(&target.join("new")), 0, "into a directory of its own");
    // Also for a child process of another test, which has the descriptor until it runs a program.
    other.unlock().unwrap();
    assert_eq!(notes(&target), 0);
}

/// Row 29 of docs/hazards.md.
#[test]
fn two_copies_leave_whole_files() {
    let scratch = Scratch::new("two").unwrap();
    let (one, other, target) = (scratch.join("one"), scratch.join("other"), scratch.join("target"));
    for (source, letter) in [(&one, b'1'), (&other, b'2')] {
        for directory in 0..10 {
            let directory = source.join(directory.to_string());
            fs::create_dir_all(&directory).unwrap();
            for file in 0..40 {
                fs::write(directory.join(file.to_string()), vec![letter; 50_000]).unwrap();
            }
        }
        fs::write(source.join("large"), vec![letter; 5 << 20]).unwrap();
    }
    fs::create_dir(&target).unwrap();
    for round in 0..3 {
        let (first, second) = std::thread::scope(|scope| {
            let copy = |source: &std::path::Path| {
                let options = Options { chunk: Some(1 << 20), ..threads(2) };
                try_copy(&[&source.join(".")], &target, &options).unwrap().1
            };
            let (one, other) = (one.clone(), other.clone());
            let first = scope.spawn(move || copy(&one));
            let second = scope.spawn(move || copy(&other));
            (first.join().unwrap(), second.join().unwrap())
        });
        // The second copy to create a directory reports that it exists; contents never mix, and every failure is reported.
        for entry in 0..10 {
            let directory = target.join(entry.to_string());
            let failed =
                first.iter().chain(&second).filter(|(_, path, _)| path.ends_with(entry.to_string())).count();
            let found = fs::read_dir(&directory).unwrap().count();
            assert!(found == 40 || failed > 0, "{round}: {found} files in {entry}: {first:?} {second:?}");
        }
        for file in files(&target) {
            let content = fs::read(&file).unwrap();
            let is_whole = [5 << 20, 50_000].contains(&content.len());
            assert!(is_whole && content.iter().all(|byte| *byte == content[0]), "{}", file.display());
        }
        if round == 1 {
            fs::remove_dir_all(&target).unwrap();
            fs::create_dir(&target).unwrap();
        }
    }
    copy(&[&one.join(".")], &target, &threads(2));
    assert_eq!(whole_or_hidden(&one, &target), 401);
}

/// All files with names of their own.
fn files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".atta.")) {
            true => {}
            false if path.is_dir() => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}
