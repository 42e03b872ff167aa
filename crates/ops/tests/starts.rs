//! Start points of a walk: names from a list that is read during the walk; symbolic links are followed only if the list names them.

mod harness;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_entry::Operation;
use atta_ops::walk::{Options, Start, each, run};
use atta_testkit::{oracle, trees};
use harness::{bytes_of, fixed, scratch, walk, walk_starts};
use rustix::fs::{CWD, symlinkat};

fn listed(root: &[u8], below: &[u8]) -> Start {
    Start { root: root.to_vec(), below: Some(below.to_vec()) }
}

#[test]
fn every_listed_hostile_name_has_its_metadata() {
    let scratch = scratch("listed");
    trees::hostile_names(&scratch.join("names")).unwrap();
    trees::random(&scratch.join("random"), 31, 200).unwrap();
    let root = bytes_of(scratch.path());
    let expected = oracle::list(scratch.path()).unwrap();
    let starts: Vec<_> = expected
        .iter()
        .filter(|(_, record)| record.kind != 'd')
        .map(|(path, _)| listed(&root, &path[root.len() + 1..]))
        .collect();
    for count in [1, 3] {
        let options = Options { threads: fixed(count), ..harness::with_targets() };
        let walked = walk_starts(starts.clone(), &options);
        walked.assert_whole();
        let leaves = expected.iter().filter(|(_, record)| record.kind != 'd');
        harness::assert_equal(
            &leaves.map(|(path, record)| (path.clone(), record.clone())).collect(),
            &walked,
        );
        for (path, found) in &walked.found {
            assert_eq!(found.below, path[root.len() + 1..]);
        }
    }
}

#[test]
fn listed_directory_is_walked_without_siblings() {
    let scratch = scratch("listed-directory");
    trees::random(&scratch.join("a/b"), 1, 0).unwrap_or_default();
    trees::chain(&scratch.join("a"), 1, b"b").unwrap();
    trees::random(&scratch.join("a/b/wanted"), 32, 60).unwrap();
    trees::random(&scratch.join("a/b/other"), 33, 60).unwrap();
    let root = bytes_of(scratch.path());
    let expected = oracle::list(&scratch.join("a/b/wanted")).unwrap();
    for below in ["a/b/wanted", "/a//./b/wanted/", "./a/b/wanted"] {
        let options = Options { threads: fixed(2), ..harness::with_targets() };
        let walked = walk_starts([listed(&root, below.as_bytes())], &options);
        walked.assert_whole();
        harness::assert_equal(&expected, &walked);
        // Depth counts from the root, not from the listed name.
        assert_eq!(walked.get(&scratch.join("a/b/wanted")).depth, 3);
    }
    let options = Options { max_depth: Some(3), ..harness::threads(1) };
    assert_eq!(walk_starts([listed(&root, b"a/b/wanted")], &options).found.len(), 1);
}

#[test]
fn names_that_lead_up_or_nowhere_are_refused() {
    let scratch = scratch("refused");
    trees::random(&scratch.join("root"), 34, 20).unwrap();
    trees::flat(&scratch.join("outside"), 1).unwrap();
    let root = bytes_of(&scratch.join("root"));
    for below in ["..", "../outside/f0000000", "a/../..", "x/..", "", "/", "."] {
        let options = harness::threads(2);
        let walked = walk_starts([listed(&root, below.as_bytes())], &options);
        assert_eq!((walked.found.len(), walked.failures.len()), (0, 1), "{below:?}: {walked:?}");
        let failure = &walked.failures[0];
        assert_eq!(
            (failure.operation, failure.errno.label().as_str()),
            (Operation::Stat, "EINVAL"),
            "{below:?}"
        );
        assert_eq!(failure.path.as_ref(), [root.as_slice(), below.as_bytes()].join(&b'/'));
    }
    let options = harness::threads(2);
    let walked = walk_starts([listed(&root, b"a\0b"), listed(&root, b"nothing/at/all")], &options);
    let errors: BTreeSet<_> = walked.failures.iter().map(|failure| failure.errno.label()).collect();
    assert_eq!(errors, ["EINVAL".to_owned(), "ENOENT".to_owned()].into());
}

#[test]
fn no_link_on_the_way_to_a_listed_name_is_followed() {
    let scratch = scratch("through-link");
    let root = scratch.join("root");
    trees::chain(&root, 1, b"directory").unwrap();
    trees::flat(&root.join("directory"), 2).unwrap();
    trees::chain(&scratch.join("outside"), 1, b"directory").unwrap();
    trees::flat(&scratch.join("outside/directory"), 2).unwrap();
    symlinkat("directory", CWD, root.join("inside")).unwrap();
    symlinkat(scratch.join("outside"), CWD, root.join("outside")).unwrap();
    let bytes = bytes_of(&root);
    let names = ["inside/f0000000", "outside/directory", "outside/directory/f0000001"];
    for follow in [false, true] {
        let options = Options { follow, ..harness::threads(2) };
        let walked = walk_starts(names.map(|name| listed(&bytes, name.as_bytes())), &options);
        let expected = names.map(|name| (Operation::Stat, root.join(name), "ENOTDIR".to_owned()));
        assert_eq!(walked.failed(), expected);
        assert_eq!(walked.found.len(), 0);
    }
    // The last name is a link itself, and the root may be reached through one: the operator named it.
    symlinkat("root", CWD, scratch.join("alias")).unwrap();
    let alias = bytes_of(&scratch.join("alias"));
    let options = harness::with_targets();
    let walked = walk_starts([listed(&alias, b"inside"), listed(&alias, b"directory/f0000000")], &options);
    walked.assert_whole();
    assert_eq!(walked.found.len(), 2);
    assert_eq!(walked.get(&scratch.join("alias/inside")).target.as_deref(), Some(b"directory".as_slice()));
}

#[test]
fn rules_and_lite_apply_to_listed_names() {
    let scratch = scratch("listed-rules");
    trees::flat(&scratch.join("a"), 3).unwrap();
    let root = bytes_of(scratch.path());
    let rules = atta_ops::walk::Rules::new(&[atta_ops::walk::Rule::Exclude("f0000001".into())]).unwrap();
    let options = Options { rules: Some(rules), lite: true, ..harness::threads(2) };
    let walked = walk_starts([listed(&root, b"a/f0000001"), listed(&root, b"a/f0000002")], &options);
    walked.assert_whole();
    assert_eq!(walked.paths(), [bytes_of(&scratch.join("a/f0000002"))]);
    assert_eq!(walked.profile.excluded, 1);
}

#[test]
fn unopenable_root_fails_for_each_listed_name() {
    let scratch = scratch("no-root");
    let root = bytes_of(&scratch.join("nothing"));
    let options = harness::threads(2);
    let walked = walk_starts([listed(&root, b"a"), listed(&root, b"b")], &options);
    assert_eq!(walked.failures.len(), 2);
    assert!(walked.failures.iter().all(|failure| failure.operation == Operation::OpenDirectory));
}

#[test]
fn a_long_list_is_taken_as_the_walk_goes_on() {
    let scratch = scratch("long-list");
    trees::flat(&scratch.join("flat"), 1000).unwrap();
    let root = bytes_of(scratch.path());
    for count in [1, 2, 8] {
        let (taken, seen, ahead) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let starts = (0..100_000).map(|number| {
            let taken = taken.fetch_add(1, Ordering::Relaxed) + 1;
            ahead.fetch_max(taken.saturating_sub(seen.load(Ordering::Relaxed)), Ordering::Relaxed);
            listed(&root, format!("flat/f{:07}", number % 1000).as_bytes())
        });
        let visit = each(|_, _| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        let options = harness::threads(count);
        let outcome = run(&visit, starts, &options, |_| {});
        assert_eq!((outcome.profile.entries, outcome.profile.failures), (100_000, 0));
        // Each thread may hold what it took at one time, and be about to take more.
        let most = 1024 * count as u64;
        assert!(
            ahead.load(Ordering::Relaxed) <= most,
            "{count} threads: {} ahead",
            ahead.load(Ordering::Relaxed)
        );
    }
}

#[test]
fn a_list_with_little_memory_is_walked_whole() {
    let scratch = scratch("list-spill");
    trees::flat(&scratch.join("flat"), 1000).unwrap();
    let root = bytes_of(scratch.path());
    let starts =
        || (0..1000).map(|number| listed(&root, format!("flat/f{number:07}").as_bytes())).collect::<Vec<_>>();
    for count in [1, 3] {
        let options = Options { memory_bytes: 0, ..harness::threads(count) };
        let walked = walk_starts(starts(), &options);
        walked.assert_whole();
        assert_eq!(walked.found.len(), 1000);
        assert!(walked.spill.tasks > 0);
    }
}

#[test]
fn an_empty_list_and_a_list_of_a_full_feed_end() {
    let scratch = scratch("feed");
    for count in [0, 255, 256, 257, 512] {
        let starts = vec![Start::new(bytes_of(scratch.path())); count];
        let options = harness::threads(2);
        let walked = walk_starts(starts, &options);
        assert_eq!(walked.profile.entries, count as u64);
    }
    let walked = walk(scratch.path(), &harness::threads(1));
    walked.assert_whole();
}
