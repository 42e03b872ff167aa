//! The same result as the oracle's on every file system that can be had here.

mod harness;

use std::path::Path;

use atta_ops::walk::Options;
use atta_testkit::lock::Lock;
use atta_testkit::mounts::{Mount, loop_image, overlay};
use atta_testkit::scratch::Scratch;
use atta_testkit::{oracle, skip, trees};
use harness::{fixed, walk};
use rustix::fs::{CWD, Mode, mkdirat};

/// Makes the hostile tree in a directory of the file system; `seed` so that two differ.
fn make(top: &Path, seed: u64) {
    mkdirat(CWD, top.join("tree"), Mode::RWXU).expect("make a directory");
    let tree = top.join("tree");
    trees::hostile_names(&tree.join("names")).expect("hostile names");
    match trees::kinds(&tree.join("kinds"), &tree.join("beyond")) {
        Ok(_) => {}
        // xfs takes no target of 4,095 bytes, and what would come after that link is made here.
        Err(error) if error.raw_os_error() == Some(36) => make_specials(&tree.join("kinds")),
        Err(error) => panic!("kinds: {error}"),
    }
    trees::times(&tree.join("times")).expect("times");
    trees::random(&tree.join("random"), seed, 200).expect("a random tree");
    trees::chain(&tree.join("chain"), 300, b"level").expect("a chain");
    trees::flat(&tree.join("flat"), 2000).expect("a flat directory");
}

fn make_specials(top: &Path) {
    use rustix::fs::{FileType, makedev, mknodat};
    let kinds = [FileType::Fifo, FileType::Socket, FileType::CharacterDevice, FileType::BlockDevice];
    for (number, kind) in kinds.into_iter().enumerate() {
        let name = top.join(format!("special-{number}"));
        mknodat(CWD, name, kind, Mode::RUSR, makedev(1, 3)).expect("make a special file");
    }
}

fn assert_as_oracle(root: &Path) {
    let expected = oracle::list(root).expect("the oracle's list");
    assert!(expected.len() > 2500);
    for (threads, memory_bytes, one_file_system) in
        [(1, 128 << 20, false), (3, 0, false), (3, 0, true), (0, 1, true)]
    {
        let threads = fixed(threads);
        let options = Options { threads, memory_bytes, one_file_system, targets: true, ..Options::default() };
        let walked = walk(root, &options);
        walked.assert_whole();
        harness::assert_equal(&expected, &walked);
    }
    let lite = walk(root, &Options { lite: true, ..harness::threads(2) });
    lite.assert_whole();
    harness::assert_same_paths(expected.keys(), &lite);
    assert!(expected.iter().all(|(path, record)| harness::letter(lite.found[path].kind) == record.kind));
}

fn on_image(kind: &str, megabytes: u64) {
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let test = format!("{kind}_is_walked_as_the_oracle_walks_it");
    let Some(image) = skip::unless_available(&test, loop_image(kind, megabytes)) else { return };
    make(image.path(), 51);
    assert_as_oracle(&image.path().join("tree"));
}

#[test]
fn ext4_is_walked_as_the_oracle_walks_it() {
    on_image("ext4", 600);
}

#[test]
fn xfs_is_walked_as_the_oracle_walks_it() {
    on_image("xfs", 320);
}

#[test]
fn btrfs_is_walked_as_the_oracle_walks_it() {
    on_image("btrfs", 160);
}

#[test]
fn tmpfs_is_walked_as_the_oracle_walks_it() {
    let _lock = Lock::for_mounts().unwrap();
    let Some(scratch) = skip::unless_available("tmpfs", Scratch::on_tmpfs(64 << 20)) else { return };
    make(scratch.path(), 52);
    assert_as_oracle(&scratch.join("tree"));
}

#[test]
fn overlays_are_walked_as_the_oracle_walks_them() {
    let _lock = Lock::for_mounts().unwrap();
    let Some(space) = skip::unless_available("overlay", Scratch::on_tmpfs(128 << 20)) else { return };
    let lower = space.join("lower");
    mkdirat(CWD, &lower, Mode::RWXU).unwrap();
    make(&lower, 53);
    let Some(merged) = skip::unless_available("overlay", overlay(&[&lower], space.path())) else { return };
    // Changes in the upper layer: a file of the lower one hidden, one copied up, a new one.
    let tree = merged.path().join("tree");
    std::fs::remove_file(tree.join("flat/f0000001")).unwrap();
    std::fs::write(tree.join("flat/f0000002"), b"changed").unwrap();
    std::fs::write(tree.join("flat/new"), b"new").unwrap();
    assert_as_oracle(&tree);
    let walked = walk(&tree, &harness::threads(2));
    assert!(!walked.has(&tree.join("flat/f0000001")) && walked.has(&tree.join("flat/new")));
    // The upper layer itself holds a whiteout, which is a character device.
    let upper = walk(&merged.upper(), &harness::with_targets());
    harness::assert_as_oracle(&merged.upper(), &upper);
    let whiteout = upper.get(&merged.upper().join("tree/flat/f0000001"));
    assert_eq!(whiteout.kind, atta_entry::Kind::CharDevice);
}

#[test]
fn mount_over_a_directory_is_shown() {
    let _lock = Lock::for_mounts().unwrap();
    let scratch = harness::scratch("on-top");
    trees::flat(&scratch.join("over"), 5).unwrap();
    let Some(mount) = skip::unless_available("a_mount_on_top", Mount::tmpfs(&scratch.join("over"), 1 << 20))
    else {
        return;
    };
    trees::flat(mount.path(), 2).unwrap();
    let walked = walk(scratch.path(), &harness::with_targets());
    harness::assert_as_oracle(scratch.path(), &walked);
    assert_eq!(walked.found.len(), 4);
    // lite has the inode from the directory that holds the mount point: that is the one below the mount.
    walk(scratch.path(), &Options { lite: true, ..harness::threads(1) }).assert_whole();
}

#[test]
fn proc_is_walked_to_its_end() {
    // Names come and go, links lead to other processes, and some files belong to others.
    let root = Path::new("/proc/self");
    let walked = walk(root, &harness::with_targets());
    assert_eq!(walked.found.len(), 1);
    let walked =
        walk(Path::new("/proc/self/"), &Options { targets: true, max_depth: Some(4), ..harness::threads(2) });
    assert!(walked.found.len() > 50);
    walked.assert_once();
}
