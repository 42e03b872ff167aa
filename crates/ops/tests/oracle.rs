//! The walk against the slow and obvious one: on generated hostile trees, with every number of threads, with much and
//! little memory, and with each option that leaves something out.

mod harness;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use atta_entry::{Kind, Metadata, Timestamp};
use atta_ops::walk::{Options, Rule, Rules, Start};
use atta_testkit::oracle::{self, Record};
use atta_testkit::trees;
use harness::{
    Collect, assert_as_oracle, assert_equal, assert_same_paths, bytes_of, fixed, scratch, walk, walk_with,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// The numbers of threads to try; 0 stands for as many as needed.
const THREADS: [usize; 5] = [1, 2, 3, 8, 0];

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

/// The path below the root.
fn below<'p>(root: &Path, path: &'p [u8]) -> &'p [u8] {
    let rest = &path[root.as_os_str().len()..];
    rest.strip_prefix(b"/").unwrap_or(rest)
}

fn depth_of(below: &[u8]) -> u32 {
    let names = below.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).count();
    u32::try_from(names).expect("a depth")
}

fn list(root: &Path) -> BTreeMap<Vec<u8>, Record> {
    oracle::list(root).expect("the oracle's list")
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn random_trees_are_walked_as_the_oracle_walks_them(
        seed in any::<u64>(),
        budget in 0_u64..400,
        threads in prop::sample::select(THREADS.to_vec()),
        memory_bytes in prop::sample::select(vec![0, 10_000, 128 << 20]),
        slash in any::<bool>(),
    ) {
        let scratch = scratch("random");
        let root = scratch.join(if slash { "tree/" } else { "tree" });
        trees::random(&root, seed, budget).unwrap();
        let options = Options { threads: fixed(threads), memory_bytes, targets: true, ..Options::default() };
        let walked = walk(&root, &options);
        assert_as_oracle(&root, &walked);
        for (path, found) in &walked.found {
            prop_assert_eq!(found.depth, depth_of(below(&root, path)));
            prop_assert_eq!(found.below.as_slice(), below(&root, path));
        }
    }

    #[test]
    fn lite_finds_the_same_paths_kinds_and_inodes(seed in any::<u64>(), threads in 1_usize..4) {
        let scratch = scratch("lite");
        trees::random(scratch.path(), seed, 200).unwrap();
        let options = Options { threads: fixed(threads), lite: true, targets: true, ..Options::default() };
        let walked = walk(scratch.path(), &options);
        walked.assert_whole();
        let expected = list(scratch.path());
        assert_same_paths(expected.keys(), &walked);
        for (path, record) in &expected {
            let found = &walked.found[path];
            prop_assert_eq!(harness::letter(found.kind), record.kind);
            prop_assert_eq!((found.inode, &found.target), (record.ino, &record.target));
            // The root is looked at: nothing said of which kind it is.
            prop_assert_eq!(found.metadata.is_some(), found.depth == 0);
        }
    }

    #[test]
    fn a_depth_limit_is_a_filter_by_depth(seed in any::<u64>(), most in 0_u32..8, threads in 1_usize..4) {
        let scratch = scratch("depth");
        trees::random(scratch.path(), seed, 200).unwrap();
        let mut expected = list(scratch.path());
        expected.retain(|path, _| depth_of(below(scratch.path(), path)) <= most);
        let options = Options { threads: fixed(threads), max_depth: Some(most), targets: true, ..Options::default() };
        let walked = walk(scratch.path(), &options);
        walked.assert_whole();
        assert_equal(&expected, &walked);
    }

    #[test]
    fn pruned_directories_are_shown_and_not_entered(seed in any::<u64>(), threads in 1_usize..4) {
        let scratch = scratch("prune");
        trees::random(scratch.path(), seed, 200).unwrap();
        let is_pruned = |name: &[u8]| name.len().is_multiple_of(3);
        let mut expected = list(scratch.path());
        expected.retain(|path, _| {
            let names: Vec<_> = below(scratch.path(), path).split(|&byte| byte == b'/').collect();
            let above = names.split_last().map_or([].as_slice(), |(_, above)| above);
            above.iter().all(|name| !is_pruned(name))
        });
        let options = Options { threads: fixed(threads), targets: true, ..Options::default() };
        // Asked for every kind of entry: on a file it must do nothing, not even to the next directory.
        let visit = Collect { prune: |entry: &atta_entry::Entry<'_>| entry.depth > 0 && is_pruned(entry.name) };
        let walked = walk_with(&visit, [Start::new(bytes_of(scratch.path()))], &options);
        walked.assert_whole();
        assert_equal(&expected, &walked);
    }

    #[test]
    fn rules_filter_names_and_all_below_them(
        seed in any::<u64>(),
        rules in prop::collection::vec((any::<bool>(), prop::sample::select(PATTERNS.to_vec())), 1..4),
        threads in 1_usize..4,
        lite in any::<bool>(),
    ) {
        let scratch = scratch("rules");
        trees::random(scratch.path(), seed, 200).unwrap();
        let given: Vec<_> = rules.iter().map(|&(include, pattern)| {
            if include { Rule::Include(pattern.to_owned()) } else { Rule::Exclude(pattern.to_owned()) }
        }).collect();
        let rules = Rules::new(&given).unwrap();
        let all = list(scratch.path());
        let expected = kept(scratch.path(), &all, &rules);
        let options = Options {
            threads: fixed(threads),
            rules: Some(rules),
            lite,
            targets: true,
            ..Options::default()
        };
        let walked = walk(scratch.path(), &options);
        walked.assert_whole();
        assert_same_paths(expected.keys(), &walked);
        // What is below a directory that is left out was never met, so it is not counted.
        let left_out = all.keys().filter(|path| {
            let parent = &path[..path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)];
            !expected.contains_key(*path) && expected.contains_key(parent)
        });
        prop_assert_eq!(walked.profile.excluded, left_out.count() as u64);
    }
}

/// Patterns that hit some of the names that random trees have.
const PATTERNS: [&str; 8] = ["e1*", "e*[0-7]", "*e", "/e*", "e*/", "-rf", ".*", "**/e2*/**"];

/// The naive filter: an entry stays unless a rule leaves it or a directory above it out.
fn kept(root: &Path, all: &BTreeMap<Vec<u8>, Record>, rules: &Rules) -> BTreeMap<Vec<u8>, Record> {
    let is_kept = |path: &[u8]| {
        let below = below(root, path);
        let is_directory = |end: usize| end < below.len() || all[path].kind == 'd';
        let ends = (1..=below.len()).filter(|&end| end == below.len() || below[end] == b'/');
        ends.into_iter().all(|end| !rules.exclude(&below[..end], is_directory(end)))
    };
    all.iter()
        .filter(|(path, _)| is_kept(path))
        .map(|(path, record)| (path.clone(), record.clone()))
        .collect()
}

#[test]
fn hostile_names_and_times_survive_any_threads() {
    let scratch = scratch("hostile");
    let root = scratch.join("tree");
    rustix::fs::mkdirat(CWD, &root, rustix::fs::Mode::RWXU).unwrap();
    trees::hostile_names(&root.join("names")).unwrap();
    trees::kinds(&root.join("kinds"), &scratch.join("outside")).unwrap();
    trees::times(&root.join("times")).unwrap();
    trees::unreadable(&root.join("unreadable")).unwrap();
    trees::chain(&root.join("chain"), 300, b"level").unwrap();
    trees::flat(&root.join("flat"), 3000).unwrap();
    let expected = list(&root);
    if expected.values().any(|record| record.unread.is_some()) {
        // Not root: what cannot be read is the subject of another test.
        return atta_testkit::skip::skipped("hostile_names_kinds_and_times", "needs root");
    }
    for count in THREADS {
        let walked = walk(&root, &Options { threads: fixed(count), ..harness::with_targets() });
        walked.assert_whole();
        assert_equal(&expected, &walked);
    }
}

#[test]
fn every_time_is_what_statx_says() {
    let scratch = scratch("statx");
    trees::times(&scratch.join("times")).unwrap();
    trees::random(&scratch.join("random"), 7, 150).unwrap();
    let walked = walk(scratch.path(), &harness::threads(2));
    walked.assert_whole();
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    for (path, found) in &walked.found {
        let said = statx(CWD, path.as_slice(), AtFlags::SYMLINK_NOFOLLOW, mask).unwrap();
        let time =
            |time: rustix::fs::StatxTimestamp| Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec };
        let metadata = found.metadata.unwrap();
        let expected = Metadata {
            mode: u32::from(said.stx_mode),
            ctime: time(said.stx_ctime),
            mtime: time(said.stx_mtime),
            btime: (said.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| time(said.stx_btime)),
            // Reading a directory changes it.
            atime: if found.kind == Kind::Directory { metadata.atime } else { time(said.stx_atime) },
            ..metadata
        };
        assert_eq!(metadata, expected, "{}", harness::escaped(path));
    }
}

#[test]
fn without_the_birth_time_all_else_is_the_same() {
    let scratch = scratch("without-birth");
    trees::kinds(&scratch.join("kinds"), &scratch.join("outside")).unwrap();
    trees::times(&scratch.join("times")).unwrap();
    trees::random(&scratch.join("random"), 11, 150).unwrap();
    let whole = walk(scratch.path(), &harness::threads(2));
    let lean = walk(scratch.path(), &Options { birth_time: false, ..harness::threads(2) });
    lean.assert_whole();
    assert_eq!(whole.found.len(), lean.found.len());
    let mut without = 0;
    for (path, found) in &whole.found {
        let (expected, metadata) = (found.metadata.unwrap(), lean.found[path].metadata.unwrap());
        // Roots are looked at as ever; reading a directory changes its time of access.
        let btime = if metadata.btime.is_some() { expected.btime } else { None };
        let atime = if found.kind == Kind::Directory { metadata.atime } else { expected.atime };
        assert_eq!(metadata, Metadata { btime, atime, ..expected }, "{}", harness::escaped(path));
        without += usize::from(metadata.btime.is_none());
    }
    assert_eq!(without, whole.found.len() - 1, "it was asked for all the same");
}

#[test]
fn waiting_tasks_spill_without_loss() {
    let scratch = scratch("spill");
    trees::random(&scratch.join("random"), 3, 400).unwrap();
    let wide = scratch.join("wide");
    for number in 0..2000 {
        // A directory in each of many: all wait at the same time.
        trees::chain(&wide, 0, b"").unwrap();
        trees::chain(&wide.join(format!("d{number:04}")), 2, b"below").unwrap();
    }
    let expected = list(scratch.path());
    for count in THREADS {
        let options = Options { threads: fixed(count), memory_bytes: 0, ..harness::with_targets() };
        let walked = walk(scratch.path(), &options);
        walked.assert_whole();
        assert_equal(&expected, &walked);
        assert!(walked.spill.tasks > 0, "{count} threads: {:?}", walked.spill);
        assert_eq!(walked.spill.error, None);
    }
}

#[test]
fn without_a_spill_directory_tasks_stay_in_memory() {
    let scratch = scratch("unspilled");
    for number in 0..500 {
        trees::chain(&scratch.join(format!("d{number:04}")), 1, b"below").unwrap();
    }
    let options = Options {
        threads: fixed(2),
        memory_bytes: 0,
        spill_directory: "/nonexistent/spill".into(),
        ..harness::with_targets()
    };
    let walked = walk(scratch.path(), &options);
    assert_as_oracle(scratch.path(), &walked);
    assert!(walked.spill.error.as_deref().is_some_and(|error| error.contains("/nonexistent/spill")));
}

#[test]
fn several_roots_are_walked_below_their_names() {
    let scratch = scratch("roots");
    let mut expected = BTreeMap::new();
    let mut starts = Vec::new();
    for number in 0..600 {
        let root = scratch.join(format!("root{number}"));
        trees::random(&root, number, 5).unwrap();
        expected.extend(list(&root));
        starts.push(Start::new(bytes_of(&root)));
    }
    for (count, memory_bytes) in [(1, 128 << 20), (3, 128 << 20), (1, 0), (3, 0)] {
        let options = Options { threads: fixed(count), memory_bytes, ..harness::with_targets() };
        let walked = harness::walk_starts(starts.clone(), &options);
        walked.assert_whole();
        assert_equal(&expected, &walked);
    }
}

#[test]
fn a_root_may_be_any_kind_of_entry() {
    let scratch = scratch("kinds");
    let tree = scratch.join("tree");
    trees::kinds(&tree, &scratch.join("outside")).unwrap();
    let names = [
        "file",
        "fifo",
        "socket",
        "link-directory",
        "link-dangling",
        "link-self",
        "directory-empty",
        "link-long",
    ];
    for name in names {
        let walked = walk(&tree.join(name), &harness::with_targets());
        assert_as_oracle(&tree.join(name), &walked);
        assert_eq!(walked.found.len(), 1, "{name}");
    }
    // A slash at the end says that the directory is meant; so does the kernel.
    let slash = tree.join("link-directory/");
    let walked = walk(&slash, &harness::threads(1));
    walked.assert_whole();
    assert_eq!(walked.get(&slash).kind, Kind::Directory);
    assert!(walked.has(&tree.join("link-directory/file")));
}

#[test]
fn missing_roots_fail_and_others_are_walked() {
    let scratch = scratch("missing");
    trees::flat(&scratch.join("tree"), 3).unwrap();
    let starts = ["nothing", "tree", "tree/f0000001/x"].map(|name| Start::new(bytes_of(&scratch.join(name))));
    let options = harness::threads(2);
    let walked = harness::walk_starts(starts, &options);
    assert_eq!(walked.found.len(), 4);
    let failed = walked.failed();
    let stat = atta_entry::Operation::Stat;
    let expected = [("nothing", "ENOENT"), ("tree/f0000001/x", "ENOTDIR")];
    assert_eq!(failed, expected.map(|(name, error)| (stat, scratch.join(name), error.to_owned())));
    assert!(walked.failures.iter().all(|failure| failure.root == failure.path));
    let nul = walk(Path::new(std::ffi::OsStr::from_bytes(b"a\0b")), &harness::threads(1));
    assert_eq!(nul.failed()[0].2, "EINVAL");
}
