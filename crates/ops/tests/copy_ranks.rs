//! The copy on ranks within this process: the same as on one, whoever does what. Ranks of real processes are the business of the
//! program's tests.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

mod copying;

use std::ffi::OsStr;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use atta_engine::{Config, Reason, Reduce, ScheduleKind, Split, Termination};
use atta_entry::Failure;
use atta_fabric::in_process_on_hosts;
use atta_ops::copy::{Copy, Fsync, Options, Outcome, Seat, Totals, Watch};
use atta_ops::digest::Signature;
use atta_ops::walk;
use atta_runtime::{Meeting, Member, Threads};
use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use copying::{assert_same, facts, hostile};

const HOSTS: [&[u32]; 4] = [&[0], &[0, 1], &[0, 0, 1, 1, 2], &[0, 1, 2, 3, 0, 1, 2, 3]];

#[derive(Clone)]
struct Nothing;

impl Reduce for Nothing {
    fn merge(&mut self, _other: &Self) {}

    fn encode(&self, _out: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(Self)
    }
}

#[derive(Default)]
struct Failures(Mutex<Vec<String>>);

impl Watch for Failures {
    fn failure(&self, failure: &Failure<'_>) {
        self.0.lock().unwrap().push(failure.to_string());
    }
}

/// What all ranks together came to.
#[derive(Debug)]
struct Whole {
    totals: Totals,
    signature: Signature,
    failures: Vec<String>,
    /// Tasks that another rank gave.
    accepted: u64,
}

fn options(threads: usize, fsync: Fsync) -> Options<'static> {
    let threads = Threads::Fixed(NonZeroUsize::new(threads).unwrap());
    let walk = walk::Options { threads, ..walk::Options::default() };
    Options { walk, fsync, digest: true, ..Options::default() }
}

/// One rank's part, as the program does it.
fn one_rank(endpoint: &mut atta_fabric::InProcess, copy: Copy<'_>, config: Config) -> (Outcome, u64) {
    let mut meeting = Meeting::new(endpoint);
    let there = meeting.gather(vec![], |_, _| vec![]).unwrap();
    meeting.tell(there).unwrap();
    let mut member = Member::after(meeting, config);
    let mut ending = copy.run_on_ranks(&mut member, |_| Nothing, |_, _| {}).unwrap();
    let accepted = member.counts().tasks_accepted;
    assert_eq!(member.close(Nothing).unwrap().0, Reason::Done);
    drop(member);
    ending.settle(&mut Meeting::new(endpoint)).unwrap();
    (ending.end(), accepted)
}

fn copied(
    source: &Path,
    target: &Path,
    hosts: &[u32],
    config: Config,
    options: impl Fn() -> Options<'static> + Sync,
) -> Whole {
    let sources = [source.as_os_str().as_bytes().to_vec()];
    let failures = Failures::default();
    // All are set up before one begins.
    let all_options: Vec<_> = hosts.iter().map(|_| options()).collect();
    let ranks: Vec<_> = std::thread::scope(|scope| {
        let begin = |(rank, (mut endpoint, options)): (usize, (atta_fabric::InProcess, _))| {
            let seat = Seat { rank: rank as u32, ranks: hosts.len() as u32, job: config.seed };
            let target = target.as_os_str().as_bytes();
            let copy = Copy::prepare(&sources, target, options, &failures, seat).unwrap();
            scope.spawn(move || one_rank(&mut endpoint, copy, config))
        };
        let ranks = in_process_on_hosts(hosts).into_iter().zip(&all_options).enumerate();
        let ranks: Vec<_> = ranks.map(begin).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let mut whole = Whole {
        totals: Totals::default(),
        signature: Signature::default(),
        failures: failures.0.into_inner().unwrap(),
        accepted: 0,
    };
    for (outcome, accepted) in ranks {
        whole.totals += &outcome.totals;
        whole.accepted += accepted;
        outcome.signature.iter().for_each(|signature| whole.signature.merge(signature));
    }
    whole
}

#[test]
fn a_copy_by_many_ranks_is_what_its_source_is_under_every_schedule() {
    let scratch = Scratch::new("copy-ranks").unwrap();
    let tree = hostile(&scratch);
    for number in 0..40 {
        let directory = tree.join(format!("linked/{number}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("own"), number.to_string()).unwrap();
        let first = tree.join("linked/0/own");
        fs::hard_link(first, directory.join("other")).unwrap();
    }
    // Directories without rights, below each other: nobody but root could make anything there once they have their modes.
    for path in ["barred/a/b", "barred/a", "barred"] {
        fs::create_dir_all(tree.join(path)).unwrap();
        fs::write(tree.join(path).join("file"), path).unwrap();
    }
    for path in ["barred/a/b", "barred/a", "barred"] {
        fs::set_permissions(tree.join(path), fs::Permissions::from_mode(0o500)).unwrap();
    }
    let (mut number, mut accepted, mut signatures) = (0, 0, Vec::new());
    for schedule in ScheduleKind::ALL {
        number += 1;
        let hosts = HOSTS[number % HOSTS.len()];
        let (split, termination) = (Split::ALL[number % 2], Termination::ALL[number / 2 % 2]);
        let fsync = [Fsync::Batch, Fsync::None][number % 2];
        let config = Config { schedule, split, termination, seed: number as u64, ..Config::default() };
        let target = scratch.join(format!("copy-{number}"));
        let whole = copied(&tree, &target, hosts, config, || options(1 + number % 2, fsync));
        assert_eq!(whole.failures, [] as [String; 0], "{schedule} on {hosts:?}");
        assert_same(&tree, &target);
        let totals = &whole.totals;
        let kinds = totals.files + totals.directories + totals.symlinks + totals.specials;
        assert_eq!((kinds + totals.hard_links) as usize, facts(&tree).len());
        assert_eq!(totals.not_kept, atta_ops::copy::NotKept::default());
        accepted += whole.accepted;
        signatures.push(whole.signature.digest());
        fs::remove_dir_all(&target).unwrap();
    }
    assert!(accepted > 0, "ranks share the work");
    assert!(signatures.iter().all(|signature| *signature == signatures[0]));
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
        signatures.push(whole.signature.digest());
        // A single file, by its own path.
        let single = scratch.join(format!("single-{number}"));
        let whole = copied(&tree.join("large"), &single, hosts, config, chunk);
        assert_eq!((whole.failures.len(), fs::read(&single).unwrap() == bytes), (0, true));
    }
    assert!(signatures.iter().all(|signature| *signature == signatures[0]));
}

#[test]
fn a_large_file_that_changes_under_all_ranks_is_no_copy() {
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
