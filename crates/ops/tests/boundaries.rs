//! Where a walk ends on its own: at mounts, if asked; nowhere because of depth or of few descriptors.

mod harness;

use std::os::fd::OwnedFd;
use std::path::Path;

use atta_ops::walk::{Each, Features, Options, Start, each, run};
use atta_testkit::lock::Lock;
use atta_testkit::mounts::Mount;
use atta_testkit::scratch::Scratch;
use atta_testkit::{oracle, skip, trees};
use harness::{Walked, bytes_of, fixed, scratch, walk, walk_starts};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

/// A tree with a tmpfs and a second mount of its own file system in it, at two depths.
struct Mounted {
    scratch: Scratch,
    _mounts: Vec<Mount>,
    _lock: Lock,
}

fn mounted(test: &str) -> Option<Mounted> {
    let lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("boundaries").expect("a directory for the test");
    trees::random(&scratch.join("plain"), 11, 50).expect("a tree");
    trees::random(&scratch.join("plain/shown"), 12, 20).expect("a tree");
    let mut mounts = Vec::new();
    for place in ["tmpfs", "bind", "plain/tmpfs", "plain/bind"] {
        let path = scratch.join(place);
        mkdirat(CWD, &path, Mode::RWXU).expect("a mount point");
        let mount = match place.ends_with("tmpfs") {
            true => Mount::tmpfs(&path, 1 << 20),
            false => Mount::bind(&scratch.join("plain/shown"), &path),
        };
        mounts.push(skip::unless_available(test, mount)?);
        mkdirat(CWD, path.join("beyond"), Mode::RWXU).or_else(exists).expect("a directory");
        std::fs::write(path.join("beyond/file"), b"beyond").expect("a file");
    }
    Some(Mounted { scratch, _mounts: mounts, _lock: lock })
}

fn exists(error: rustix::io::Errno) -> Result<(), rustix::io::Errno> {
    if error == rustix::io::Errno::EXIST { Ok(()) } else { Err(error) }
}

const FEATURES: [Features; 2] =
    [Features { statx_mount_id: true, calls_at: true }, Features { statx_mount_id: false, calls_at: false }];

fn is_beyond(root: &Path, path: &[u8]) -> bool {
    ["tmpfs/", "bind/", "plain/tmpfs/", "plain/bind/"]
        .iter()
        .any(|place| path.starts_with(&bytes_of(&root.join(place))))
}

#[test]
fn mounts_are_crossed_unless_forbidden() {
    let Some(mounted) = mounted("mounts_are_crossed_unless_forbidden") else { return };
    let root = mounted.scratch.path();
    let all = oracle::list(root).unwrap();
    let mut within = all.clone();
    within.retain(|path, _| !is_beyond(root, path));
    assert!(all.len() > within.len() + 40);
    for features in FEATURES {
        for count in [1, 3] {
            let options = || Options { features, threads: fixed(count), targets: true, ..Options::default() };
            let walked = walk(root, &options());
            walked.assert_whole();
            harness::assert_equal(&all, &walked);
            // The mount points themselves are shown, as find -xdev does, but for what lies below them.
            let walked = walk(root, &Options { one_file_system: true, ..options() });
            walked.assert_whole();
            harness::assert_equal(&within, &walked);
            // The same when tasks went through the spill file.
            let walked = walk(root, &Options { one_file_system: true, memory_bytes: 0, ..options() });
            walked.assert_whole();
            harness::assert_equal(&within, &walked);
        }
    }
}

#[test]
fn listed_names_keep_to_the_file_system_of_the_root() {
    let Some(mounted) = mounted("listed_names_keep_to_the_file_system_of_the_root") else { return };
    let root = mounted.scratch.path();
    for features in FEATURES {
        for place in ["tmpfs", "bind", "plain/tmpfs", "plain/bind"] {
            let start = Start { root: bytes_of(root), below: Some(place.as_bytes().to_vec()) };
            let options = Options { features, one_file_system: true, ..harness::threads(2) };
            let walked = walk_starts([start.clone()], &options);
            walked.assert_whole();
            assert_eq!(walked.paths(), [bytes_of(&root.join(place))], "{features:?}");
            let options = Options { features, ..harness::threads(2) };
            let walked = walk_starts([start], &options);
            walked.assert_whole();
            assert!(walked.has(&root.join(place).join("beyond/file")));
        }
    }
}

#[test]
fn one_file_system_also_holds_for_followed_links() {
    let Some(mounted) = mounted("a_followed_link_to_another_file_system") else { return };
    let root = mounted.scratch.path();
    rustix::fs::symlinkat("tmpfs/beyond", CWD, root.join("link")).unwrap();
    let walked = walk(root, &Options { one_file_system: true, follow: true, ..harness::threads(2) });
    assert!(walked.has(&root.join("link")) && !walked.has(&root.join("link/file")));
    let walked = walk(root, &Options { follow: true, ..harness::threads(2) });
    assert!(walked.has(&root.join("link/file")));
}

/// A chain of `levels` directories, each with `side` more directories in it that hold a file each.
fn branched_chain(top: &Path, levels: usize, sides: usize) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    mkdirat(CWD, top, Mode::RWXU).expect("make the top");
    let mut here: OwnedFd = openat(CWD, top, flags, Mode::empty()).expect("open the top");
    for _ in 0..levels {
        for side in 0..sides {
            mkdirat(&here, format!("s{side}"), Mode::RWXU).expect("make a side branch");
            let file = format!("s{side}/f");
            rustix::fs::mknodat(&here, file, rustix::fs::FileType::RegularFile, Mode::RUSR, 0)
                .expect("make a file");
        }
        mkdirat(&here, "n", Mode::RWXU).expect("make a level");
        here = openat(&here, "n", flags, Mode::empty()).expect("open a level");
    }
}

/// Counts what is found, with the most descriptors that were open meanwhile.
fn count(root: &Path, options: &Options<'_>) -> (u64, u64, usize, u32) {
    let deepest = std::sync::atomic::AtomicU32::new(0);
    let visit: Each<_, _> = each(|entry, _| {
        deepest.fetch_max(entry.depth, std::sync::atomic::Ordering::Relaxed);
    });
    let mut most = 0;
    let outcome = run(&visit, [Start::new(bytes_of(root))], options, |_| {
        most = most.max(harness::open_descriptors());
    });
    let failures: Vec<_> = outcome.workers.into_iter().flatten().take(3).collect();
    assert!(failures.is_empty(), "{failures:?}");
    (outcome.profile.entries, outcome.profile.directories, most, deepest.into_inner())
}

#[test]
fn branches_at_20_000_levels_need_few_descriptors() {
    harness::in_child("a_deep_tree_in_a_process_with_1000_descriptors", "".as_ref());
}

#[test]
#[ignore = "a child process of branches_at_20_000_levels_need_few_descriptors"]
fn a_deep_tree_in_a_process_with_1000_descriptors() {
    let Some(_) = harness::child_argument() else { return };
    let scratch = scratch("deep");
    branched_chain(&scratch.join("chain"), 20_000, 0);
    branched_chain(&scratch.join("branched"), 5_000, 2);
    harness::limit_descriptors(1000);
    for threads in [1, 2, 0] {
        let options = Options { threads: fixed(threads), ..Options::default() };
        let (entries, directories, most, deepest) = count(&scratch.join("chain"), &options);
        assert_eq!((entries, directories, deepest), (20_001, 20_001, 20_000));
        assert!(most < 700, "{most} descriptors");
        let (entries, directories, most, deepest) = count(&scratch.join("branched"), &options);
        assert_eq!((entries, directories, deepest), (25_001, 15_001, 5_001));
        assert!(most < 700, "{most} descriptors");
    }
}

#[test]
fn with_very_few_descriptors_all_is_found() {
    harness::in_child("trees_in_a_process_with_few_descriptors", "48".as_ref());
    harness::in_child("trees_in_a_process_with_few_descriptors", "128".as_ref());
}

#[test]
#[ignore = "a child process of with_very_few_descriptors_all_is_found"]
fn trees_in_a_process_with_few_descriptors() {
    let Some(argument) = harness::child_argument() else { return };
    let scratch = scratch("few");
    branched_chain(&scratch.join("branched"), 300, 2);
    trees::random(&scratch.join("random"), 21, 300).unwrap();
    for number in 0..100 {
        trees::chain(&scratch.join(format!("wide-{number}")), 30, b"level").unwrap();
    }
    trees::flat(&scratch.join("flat"), 20_000).unwrap();
    let expected = oracle::list(scratch.path()).unwrap();
    let count: u64 = argument.to_str().unwrap().parse().unwrap();
    harness::limit_descriptors(count);
    let most = if count < 128 { 3 } else { 8 };
    for threads in [1, 2, most, 0] {
        for memory_bytes in [0, 128 << 20] {
            let options = Options { threads: fixed(threads), memory_bytes, ..harness::with_targets() };
            let walked: Walked = walk(scratch.path(), &options);
            println!("{count} descriptors, {threads} threads, {memory_bytes} bytes");
            walked.assert_whole();
            harness::assert_equal(&expected, &walked);
        }
    }
}

#[test]
fn listed_deep_names_need_few_descriptors() {
    harness::in_child("listed_names_in_a_process_with_64_descriptors", "".as_ref());
}

#[test]
#[ignore = "a child process of listed_deep_names_need_few_descriptors"]
fn listed_names_in_a_process_with_64_descriptors() {
    let Some(_) = harness::child_argument() else { return };
    let scratch = scratch("few-listed");
    branched_chain(&scratch.join("branched"), 200, 1);
    harness::limit_descriptors(64);
    let below = |levels: usize| format!("branched/{}s0", "n/".repeat(levels)).into_bytes();
    let starts = (0..200).map(|levels| Start { root: bytes_of(scratch.path()), below: Some(below(levels)) });
    let options = harness::threads(3);
    let walked = walk_starts(starts.collect::<Vec<_>>(), &options);
    walked.assert_whole();
    assert_eq!(walked.found.len(), 400);
}
