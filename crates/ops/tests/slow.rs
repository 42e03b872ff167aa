//! A file system that is slow, large or fails: on the synthetic one over FUSE. What is asserted are counts; the ratios
//! of times stand in tests that are run by hand.

mod harness;

use std::path::Path;
use std::time::Duration;

use atta_entry::{Kind, Operation};
use atta_ops::walk::{Options, Start, each, run};
use atta_runtime::Threads;
use atta_testkit::lock::Lock;
use atta_testkit::slow::{Builder, SlowFs};
use atta_testkit::{oracle, skip};
use harness::{Failed, bytes_of, fixed, number, walk};

/// Mounts with the lock held, or says why the test is skipped.
fn mount(test: &str, builder: Builder) -> Option<(SlowFs, Lock)> {
    let lock = Lock::for_own_mount().expect("take the lock of mounts");
    skip::unless_available(test, builder.mount()).map(|mounted| (mounted, lock))
}

fn quick() -> Builder {
    SlowFs::builder().latency(Duration::ZERO)
}

#[test]
fn unknown_types_are_looked_up() {
    let test = "unknown_types_are_looked_up";
    let shape = || quick().directories(3, 3).files(7).symlinks(2);
    for builder in [shape(), shape().unknown_types(), shape().readdirplus()] {
        let Some((mounted, _lock)) = mount(test, builder) else { return };
        for count in [1, 2, 8] {
            let walked = walk(mounted.path(), &Options { threads: fixed(count), ..harness::with_targets() });
            harness::assert_as_oracle(mounted.path(), &walked);
        }
        let lite = walk(mounted.path(), &Options { lite: true, ..harness::threads(2) });
        lite.assert_whole();
        let expected = oracle::list(mounted.path()).unwrap();
        harness::assert_same_paths(expected.keys(), &lite);
        for (path, record) in expected {
            assert_eq!(harness::letter(lite.found[&path].kind), record.kind);
        }
        // Rules that distinguish directories from files need the type, too.
        let rules = atta_ops::walk::Rules::new(&[atta_ops::walk::Rule::Exclude("*1/".into())]).unwrap();
        let walked = walk(mounted.path(), &Options { rules: Some(rules), ..harness::threads(2) });
        walked.assert_whole();
        assert!(
            !walked.has(&mounted.path().join("d0001")) && walked.has(&mounted.path().join("d0000/f0000001"))
        );
    }
}

/// One fault, what fails with it, and below what nothing is found.
struct Case {
    rule: &'static str,
    expected: &'static [(Operation, &'static str, &'static str)],
    /// The entry itself is not found either.
    is_hidden: bool,
}

const CASES: [Case; 14] = [
    Case { rule: "lookup:d0001:EIO", expected: &[(Operation::Stat, "d0001", "EIO")], is_hidden: true },
    Case { rule: "lookup:d0001:ENOENT", expected: &[(Operation::Stat, "d0001", "ENOENT")], is_hidden: true },
    Case { rule: "lookup:d0001:ESTALE", expected: &[(Operation::Stat, "d0001", "ESTALE")], is_hidden: true },
    Case { rule: "stat:d0001:EACCES", expected: &[(Operation::Stat, "d0001", "EACCES")], is_hidden: true },
    Case { rule: "stat:d0001:ELOOP", expected: &[(Operation::Stat, "d0001", "ELOOP")], is_hidden: true },
    Case {
        rule: "stat:d0001:ENAMETOOLONG",
        expected: &[(Operation::Stat, "d0001", "ENAMETOOLONG")],
        is_hidden: true,
    },
    Case {
        rule: "stat:d0001:ETIMEDOUT",
        expected: &[(Operation::Stat, "d0001", "ETIMEDOUT")],
        is_hidden: true,
    },
    Case {
        rule: "opendir:d0001:EACCES",
        expected: &[(Operation::OpenDirectory, "d0001", "EACCES")],
        is_hidden: false,
    },
    Case {
        rule: "opendir:d0001:EIO",
        expected: &[(Operation::OpenDirectory, "d0001", "EIO")],
        is_hidden: false,
    },
    Case {
        rule: "opendir:d0001:ELOOP",
        expected: &[(Operation::OpenDirectory, "d0001", "ELOOP")],
        is_hidden: false,
    },
    Case {
        rule: "opendir:d0001:ENFILE",
        expected: &[(Operation::OpenDirectory, "d0001", "ENFILE")],
        is_hidden: false,
    },
    Case {
        rule: "readdir:d0001:EIO",
        expected: &[(Operation::ReadDirectory, "d0001", "EIO")],
        is_hidden: false,
    },
    Case {
        rule: "readdir:d0001:ESTALE",
        expected: &[(Operation::ReadDirectory, "d0001", "ESTALE")],
        is_hidden: false,
    },
    Case {
        rule: "readdir:d0001:EACCES",
        expected: &[(Operation::ReadDirectory, "d0001", "EACCES")],
        is_hidden: false,
    },
];

#[test]
fn failure_names_what_where_and_why() {
    let test = "failure_names_what_where_and_why";
    let shape = || quick().directories(3, 1).files(40).symlinks(2);
    for case in CASES {
        let Some((mounted, _lock)) = mount(test, shape().fail(case.rule)) else { return };
        let root = mounted.path();
        for count in [1, 3] {
            let walked = walk(root, &harness::threads(count));
            let expected =
                case.expected.iter().map(|&(operation, name, error)| failed(root, operation, name, error));
            assert_eq!(walked.failed(), expected.collect::<Vec<_>>(), "{}", case.rule);
            walked.assert_once();
            assert_eq!(walked.has(&root.join("d0001")), !case.is_hidden, "{}", case.rule);
            // The root, the other directories with all that is in them, and this one if it is there.
            let inside =
                walked.found.keys().filter(|path| path.starts_with(&bytes_of(&root.join("d0001/")))).count();
            let others = walked.found.len() - inside - usize::from(!case.is_hidden);
            assert_eq!(others, 1 + 2 * (1 + 42), "{}", case.rule);
            let is_read_in_part = case.rule.starts_with("readdir:");
            // A directory that cannot be read to its end shows the entries that were read.
            assert_eq!(inside > 0, is_read_in_part, "{}: {inside}", case.rule);
        }
    }
}

fn failed(root: &Path, operation: Operation, name: &str, error: &str) -> Failed {
    (operation, root.join(name), error.to_owned())
}

#[test]
fn failing_single_files_harm_no_others() {
    let test = "failing_single_files_harm_no_others";
    let builder = quick()
        .directories(2, 1)
        .files(10)
        .symlinks(3)
        .fail("stat:f0000003:EIO")
        .fail("readlink:l0000001:EIO");
    let Some((mounted, _lock)) = mount(test, builder) else { return };
    let root = mounted.path();
    let everywhere = |operation, name: &str| {
        ["d0000", "d0001"].map(|directory| failed(root, operation, &format!("{directory}/{name}"), "EIO"))
    };
    let stat = everywhere(Operation::Stat, "f0000003");
    let walked = walk(root, &harness::threads(2));
    assert_eq!(walked.failed(), stat);
    // A link whose target cannot be read is still a link.
    let walked = walk(root, &Options { targets: true, ..harness::threads(2) });
    assert_eq!(walked.failed(), [stat.clone(), everywhere(Operation::ReadLink, "l0000001")].concat());
    assert_eq!(walked.get(&root.join("d0000/l0000001")).target, None);
    assert_eq!(walked.get(&root.join("d0000/l0000002")).target.as_deref(), Some(b"f0000002".as_slice()));
    let walked = walk(root, &Options { follow: true, ..harness::threads(2) });
    assert_eq!(walked.failed(), [stat, everywhere(Operation::FollowLink, "l0000001")].concat());
    assert_eq!(walked.get(&root.join("d0000/l0000001")).kind, Kind::Symlink);
    assert_eq!(walked.get(&root.join("d0000/l0000002")).kind, Kind::File);
    // The operation is not requested, so nothing fails.
    walk(root, &Options { lite: true, ..harness::threads(2) }).assert_whole();
}

#[test]
fn a_root_that_fails_is_a_failure_and_no_panic() {
    let test = "a_root_that_fails_is_a_failure_and_no_panic";
    let rules = [("opendir:.:EIO", Operation::OpenDirectory), ("readdir:.:EIO", Operation::ReadDirectory)];
    for (rule, operation) in rules {
        let Some((mounted, _lock)) = mount(test, quick().directories(2, 1).files(3).fail(rule)) else {
            return;
        };
        let walked = walk(mounted.path(), &harness::threads(2));
        assert_eq!(walked.failed(), [(operation, mounted.path().to_path_buf(), "EIO".to_owned())]);
    }
}

#[test]
fn walk_ends_when_the_server_of_a_directory_is_gone() {
    let test = "walk_ends_when_the_server_of_a_directory_is_gone";
    let Some((mounted, _lock)) = mount(test, quick().directories(10, 2).files(100)) else { return };
    let pid = i32::try_from(mounted.process()).unwrap();
    let killed = std::sync::Once::new();
    let visit = each(|entry, _| {
        if entry.depth == 2 {
            killed.call_once(|| {
                let pid = rustix::process::Pid::from_raw(pid).expect("a process");
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill the server");
            });
        }
    });
    let options = harness::threads(2);
    let outcome = run(&visit, [Start::new(bytes_of(mounted.path()))], &options, |_| {});
    let failures: Vec<_> = outcome.workers.into_iter().flatten().collect();
    assert!(!failures.is_empty() && !outcome.stopped);
    let errors: std::collections::BTreeSet<_> =
        failures.iter().map(|failure| failure.errno.label()).collect();
    assert!(
        errors.iter().all(|error| ["ENOTCONN", "ECONNABORTED", "ENOENT", "EIO"].contains(&error.as_str())),
        "{errors:?}"
    );
}

#[test]
fn a_slow_file_system_gets_many_requests_at_once() {
    let test = "a_slow_file_system_gets_many_requests_at_once";
    let shapes =
        [("tree", SlowFs::builder().directories(40, 1).files(60)), ("flat", SlowFs::builder().flat(3000))];
    for (shape, builder) in shapes {
        let Some((mounted, _lock)) = mount(test, builder) else { return };
        let walked = walk(mounted.path(), &Options::default());
        walked.assert_whole();
        assert_eq!(walked.found.len() as u64, mounted.tree().entries());
        let working = walked.threads.iter().filter(|thread| thread.profile.entries > 0).count();
        assert!(
            working >= 32,
            "{shape}: {working} threads had entries, {} were wanted",
            walked.threads_wanted
        );
        let served = mounted.finish().unwrap();
        assert!(served.peak >= 32, "{shape}: {served}");
        eprintln!("{shape}: {working} threads, {served}");
    }
}

/// Entries per second.
fn rate(root: &Path, threads: Threads) -> f64 {
    let options = Options { threads, ..Options::default() };
    let outcome = run(&each(|_, _| {}), [Start::new(bytes_of(root))], &options, |_| {});
    assert_eq!(outcome.profile.failures, 0);
    outcome.profile.entries as f64 / outcome.elapsed.as_secs_f64()
}

#[test]
#[ignore = "compares times: wants a quiet machine"]
fn slow_storage_gets_20_times_the_work_of_one_thread() {
    let test = "slow_storage_gets_20_times_the_work_of_one_thread";
    let Some((small, lock)) = mount(test, SlowFs::builder().directories(2, 1).files(100)) else { return };
    let one = rate(small.path(), fixed(1));
    drop((small, lock));
    let shapes =
        [("tree", SlowFs::builder().directories(40, 1).files(400)), ("flat", SlowFs::builder().flat(16_000))];
    for (shape, builder) in shapes {
        let Some((large, _lock)) = mount(test, builder) else { return };
        let many = rate(large.path(), Threads::Auto);
        eprintln!("{shape}: {one:.0} entries/s on one thread, {many:.0} as needed: {:.1} times", many / one);
        assert!(many / one >= 20.0, "{shape}: {one:.0} -> {many:.0}");
    }
}

/// Walks a flat directory in a process of its own; returns what that printed.
fn flat(test: &str, files: u64, how: &str) -> Option<String> {
    let (mounted, _lock) = mount(test, quick().flat(files))?;
    let argument = format!("{how}:{}", mounted.path().display());
    let said = harness::in_child("a_flat_directory_in_a_process_of_its_own", argument.as_ref());
    assert_eq!((number(&said, "entries="), number(&said, "failures=")), (files + 1, 0), "{said}");
    Some(said)
}

#[test]
#[ignore = "a child process of the tests of flat directories"]
fn a_flat_directory_in_a_process_of_its_own() {
    let Some(argument) = harness::child_argument() else { return };
    let argument = argument.to_str().unwrap();
    let (how, root) = argument.split_once(':').unwrap();
    let options = Options { lite: how == "lite", ..harness::threads(4) };
    let outcome = run(&each(|_, _| {}), [Start::new(root)], &options, |_| {});
    let least = outcome.threads.iter().map(|thread| thread.profile.entries).min().unwrap();
    let (entries, failures) = (outcome.profile.entries, outcome.profile.failures);
    let tasks: u64 = outcome.threads.iter().map(|thread| thread.worker.tasks).sum();
    println!(
        "\nentries={entries} failures={failures} tasks={tasks} least={least} memory_kb={} spilled={} seconds={:.1}",
        harness::peak_memory_kb(),
        outcome.spill.tasks,
        outcome.elapsed.as_secs_f64(),
    );
}

#[test]
fn million_files_are_spread_over_threads() {
    let test = "million_files_are_spread_over_threads";
    // Names alone: to ask for the metadata of a million takes FUSE a minute.
    let Some(said) = flat(test, 1_000_000, "lite") else { return };
    // Names of a million files are 17 MB: they are not all there at once.
    assert!(number(&said, "memory_kb=") < 30_000, "{said}");
    // And handed over by the thousand, although the first answer of a new mount is a slow one.
    assert!(number(&said, "tasks=") < 100_000, "{said}");
    eprintln!("{said}");
    let Some(said) = flat(test, 60_000, "full") else { return };
    // A fair share of four is 15,000; an unfair one is far from nothing.
    assert!(number(&said, "least=") > 1_000, "{said}");
    assert!(number(&said, "memory_kb=") < 30_000, "{said}");
}

#[test]
#[ignore = "takes minutes"]
fn ten_million_files_are_spread_over_threads() {
    let test = "ten_million_files_are_spread_over_threads";
    let Some(said) = flat(test, 10_000_000, "full") else { return };
    assert!(number(&said, "least=") > 500_000, "{said}");
    assert!(number(&said, "memory_kb=") < 30_000, "{said}");
}
