//! A tree that is changed while it is walked: nothing outside is ever listed, what vanishes is a failure at most, and
//! the walk ends. A leak is a failure of the test on the first one; that none was seen proves only that many tries
//! found none.

mod harness;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atta_entry::Operation;
use atta_ops::walk::{Options, Start};
use atta_testkit::churn::Churn;
use atta_testkit::scratch::Scratch;
use atta_testkit::{oracle, trees};
use harness::{Walked, bytes_of, fixed, scratch, walk, walk_starts};

/// How long each test walks.
const WHILE: Duration = Duration::from_millis(1500);
/// And how many times at least, however busy the machine is.
const WALKS: u32 = 20;

struct Swapped {
    scratch: Scratch,
    root: PathBuf,
    /// Inodes of all that lies outside.
    outside: BTreeSet<u64>,
}

/// A directory with `inner` names below it, and a likeness of it outside with a file called `secret` everywhere.
fn swapped() -> Swapped {
    let scratch = scratch("churn");
    let root = scratch.join("root");
    for (top, file) in [("root/swapped", "mine"), ("outside", "secret")] {
        trees::chain(&scratch.join(top.split('/').next().unwrap_or(top)), 0, b"").expect("a directory");
        for branch in 0..10 {
            let branch = scratch.join(top).join(format!("branch{branch}"));
            trees::chain(&scratch.join(top), 0, b"").expect("a directory");
            trees::chain(&branch, 4, b"level").expect("a chain");
            for depth in 0..=4 {
                let path = branch.join("level/".repeat(depth)).join(file);
                std::fs::write(path, file).expect("a file");
            }
        }
    }
    trees::flat(&root.join("flat"), 200).expect("files");
    let outside = oracle::list(&scratch.join("outside")).expect("the outside");
    let outside = outside.values().map(|record| record.ino).collect();
    Swapped { scratch, root, outside }
}

fn assert_nothing_outside(swapped: &Swapped, walked: &Walked) {
    for (path, found) in &walked.found {
        let is_outside = path.ends_with(b"secret") || swapped.outside.contains(&found.inode);
        assert!(!is_outside, "listed: {}: {found:?}", harness::escaped(path));
    }
    walked.assert_once();
    let flat =
        walked.found.keys().filter(|path| path.starts_with(&bytes_of(&swapped.root.join("flat/")))).count();
    assert_eq!(flat, 200, "unchanged files are found");
}

/// Walks again and again while the directory is exchanged with a link to the outside.
fn walk_while_swapped(swapped: &Swapped, mut walk: impl FnMut() -> Walked) -> Vec<Walked> {
    let outside = swapped.scratch.join("outside");
    let churn = Churn::swap_directory_with_symlink(&swapped.root.join("swapped"), &outside).expect("churn");
    let (start, mut walks) = (Instant::now(), Vec::new());
    while start.elapsed() < WHILE || walks.len() < WALKS as usize {
        let walked = walk();
        assert_nothing_outside(swapped, &walked);
        walks.push(walked);
    }
    let rounds = churn.finish().expect("the churn went on");
    assert!(rounds > 0);
    walks
}

fn errors(walks: &[Walked]) -> BTreeSet<(Operation, String)> {
    let failures = walks.iter().flat_map(|walked| &walked.failures);
    failures.map(|failure| (failure.operation, failure.errno.label())).collect()
}

fn assert_errors_are_of(walks: &[Walked], allowed: &[&str]) {
    for (operation, error) in errors(walks) {
        assert!(allowed.contains(&error.as_str()), "{operation:?}: {error}");
    }
}

#[test]
fn directory_exchanged_with_a_link_is_not_left() {
    let swapped = swapped();
    let mut count = 0;
    let walks = walk_while_swapped(&swapped, || {
        count += 1;
        walk(&swapped.root, &harness::threads(1 + count % 4))
    });
    assert_errors_are_of(&walks, &["ENOENT", "ENOTDIR"]);
}

#[test]
fn followed_link_to_the_outside_is_refused() {
    let swapped = swapped();
    let mut count = 0;
    let walks = walk_while_swapped(&swapped, || {
        count += 1;
        walk(&swapped.root, &Options { follow: true, ..harness::threads(1 + count % 4) })
    });
    // The partner is always there under one of the two names.
    assert!(errors(&walks).contains(&(Operation::FollowLink, "EXDEV".to_owned())));
    assert_errors_are_of(&walks, &["ENOENT", "ENOTDIR", "EXDEV", "ELOOP"]);
}

#[test]
fn listed_names_below_a_swapped_directory_are_safe() {
    let swapped = swapped();
    let names: Vec<_> = (0..10)
        .flat_map(|branch| {
            ["mine", "secret", "level/level/mine", "level/level/secret", "level/level/level"]
                .map(|name| format!("swapped/branch{branch}/{name}"))
        })
        .collect();
    let root = bytes_of(&swapped.root);
    let _walks = walk_while_swapped(&swapped, || {
        let listed = |name: &String| Start { root: root.clone(), below: Some(name.clone().into_bytes()) };
        let flat = Start { root: root.clone(), below: Some(b"flat".to_vec()) };
        let starts: Vec<_> = names.iter().map(listed).chain([flat]).collect();
        let options = harness::threads(2);
        walk_starts(starts, &options)
    });
}

#[test]
fn reopened_directories_are_the_same_ones() {
    harness::in_child("reopening_in_a_process_with_64_descriptors", "".as_ref());
}

#[test]
#[ignore = "a child process of reopened_directories_are_the_same_ones"]
fn reopening_in_a_process_with_64_descriptors() {
    let Some(_) = harness::child_argument() else { return };
    let swapped = swapped();
    harness::limit_descriptors(64);
    for follow in [false, true] {
        for memory_bytes in [0, 128 << 20] {
            let walks = walk_while_swapped(&swapped, || {
                let options = Options { follow, memory_bytes, threads: fixed(3), ..Options::default() };
                walk(&swapped.root, &options)
            });
            assert_errors_are_of(&walks, &["ENOENT", "ENOTDIR", "ESTALE", "EXDEV", "ELOOP"]);
        }
    }
}

#[test]
fn entries_that_come_and_go_are_failures_at_most() {
    let scratch = scratch("vanish");
    trees::random(&scratch.join("stays"), 41, 150).unwrap();
    trees::flat(&scratch.join("changing"), 50).unwrap();
    let stays = oracle::list(&scratch.join("stays")).unwrap();
    let churn = Churn::vanish(&scratch.join("changing")).unwrap();
    let (start, mut walks) = (Instant::now(), 0);
    while start.elapsed() < WHILE || walks < WALKS {
        let walked = walk(scratch.path(), &harness::threads(1 + walks as usize % 4));
        walks += 1;
        for failure in &walked.failures {
            assert_eq!(failure.class(), atta_entry::Class::Vanished, "{failure}");
            assert!(harness::escaped(&failure.path).contains("/vanish-"), "{failure}");
        }
        assert!(stays.keys().all(|path| walked.found.contains_key(path)));
        let is_changing = |path: &&Vec<u8>| path.starts_with(&bytes_of(&scratch.join("changing/f")));
        assert_eq!(walked.found.keys().filter(is_changing).count(), 50);
    }
    assert!(churn.finish().unwrap() > 0);
}

#[test]
fn root_that_vanishes_ends_the_walk() {
    let scratch = scratch("vanishing-root");
    for round in 0..20 {
        let root = scratch.join(format!("root{round}"));
        trees::chain(&root, 50, b"level").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| remove(&root));
            let walked = walk(&root, &harness::threads(2));
            assert!(walked.failures.iter().all(|failure| failure.class() == atta_entry::Class::Vanished));
        });
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own directory")]
fn remove(root: &Path) {
    std::fs::remove_dir_all(root).expect("remove the tree");
}
