//! Comparisons on ranks within this process: the same differences as on one rank, regardless of the distribution of work. Ranks of real processes are the business
//! of the program's tests.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod harness;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use atta_engine::{Config, ScheduleKind};
use atta_entry::{Difference, Failure, Field};
use atta_fabric::{InProcess, in_process_on_hosts};
use atta_ops::verify::{self, Fields, Options, Totals, Trees, Watch};
use atta_runtime::{Limits, Session, Stream};
use atta_testkit::scratch::Scratch;
use harness::{bytes_of, scratch, threads};

/// The hosts of the ranks of each job.
const HOSTS: [&[u32]; 4] = [&[0], &[0, 1], &[0, 0, 1], &[0, 0, 1, 1, 2]];
const LINKS: Stream = Stream(3);

/// Keeps the differences.
#[derive(Default)]
struct Keep(Mutex<Vec<Difference<'static>>>);

impl Watch for Keep {
    fn difference(&self, difference: &Difference<'_>) {
        let Difference { path, kind, change } = difference.clone();
        self.0.lock().unwrap().push(Difference { path: path.into_owned().into(), kind, change });
    }

    fn failure(&self, failure: &Failure<'_>) {
        panic!("{failure}");
    }
}

impl Keep {
    fn sorted(self) -> Vec<Difference<'static>> {
        let mut differences = self.0.into_inner().unwrap();
        differences.sort_by_cached_key(|difference| (difference.path.to_vec(), format!("{difference:?}")));
        differences
    }
}

/// The results of all ranks.
struct Whole {
    differences: Vec<Difference<'static>>,
    totals: Totals,
    /// Tasks that came from other ranks.
    accepted: u64,
}

fn options() -> Options<'static> {
    let fields: Fields = Field::ALL.into_iter().filter(|field| *field != Field::Mtime).collect();
    Options { walk: threads(2), fields, chunk: Some(1024), ..Options::default() }
}

fn alone(source: &Path, target: &Path) -> Whole {
    let keep = Keep::default();
    let outcome = verify::run_alone(&bytes_of(source), &bytes_of(target), &options(), &keep, |_| {}).unwrap();
    Whole { differences: keep.sorted(), totals: outcome.totals, accepted: 0 }
}

fn on_ranks(source: &Path, target: &Path, hosts: &[u32], config: Config) -> Whole {
    let keep = Keep::default();
    let one = |(rank, mut endpoint): (usize, InProcess)| {
        let options = options();
        let joined = Session::join(&mut endpoint, "test", options.walk.stop.clone(), Limits::default());
        let mut session = joined.unwrap().unwrap().with_schedule(config);
        let mut trees = Trees::open(&bytes_of(source), &bytes_of(target), &options).unwrap();
        if rank > 0 {
            trees = trees.with_links_sent(session.outbox(), LINKS);
        }
        let receive = |_, stream, names: &[u8]| {
            assert_eq!(stream, LINKS);
            trees.receive(names);
        };
        session
            .receiving(receive, |session| {
                let outcome = verify::run(session, &trees, &options, &keep, |_| {}).unwrap();
                let own = (outcome.totals, outcome.exchanged.counts.tasks_accepted);
                session.close(own, |(totals, accepted), (more, tasks)| {
                    *totals += &more;
                    *accepted += tasks;
                })
            })
            .unwrap()
            .map(|(mut totals, accepted)| {
                trees.conclude(&keep, &mut totals);
                (totals, accepted)
            })
    };
    let all = std::thread::scope(|scope| {
        let endpoints = in_process_on_hosts(hosts).into_iter().enumerate();
        let ranks: Vec<_> = endpoints.map(|rank| scope.spawn(|| one(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<_>>()
    });
    let (totals, accepted) = all.into_iter().flatten().next().unwrap();
    Whole { differences: keep.sorted(), totals, accepted }
}

/// Compares a run on ranks, under every schedule, with one alone. Returns the tasks that came from other ranks.
fn assert_same_on_ranks(source: &Path, target: &Path, expected: &Whole) -> u64 {
    let mut accepted = 0;
    for (number, schedule) in ScheduleKind::ALL.into_iter().enumerate() {
        let (hosts, config) = (HOSTS[number % HOSTS.len()], Config { schedule, ..Config::default() });
        let found = on_ranks(source, target, hosts, config);
        let what = format!("{schedule} on {hosts:?}");
        assert_eq!(found.differences, expected.differences, "{what}");
        // Equal files with names on two ranks are read by both, and chunks of a different file farther than alone.
        let Totals { files, bytes, .. } = expected.totals;
        assert_eq!(Totals { files, bytes, ..found.totals }, expected.totals, "{what}");
        accepted += found.accepted;
    }
    accepted
}

#[test]
fn differences_on_ranks_are_those_of_one_rank() {
    let scratch = scratch("verify-ranks");
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    for root in [&source, &target] {
        for number in 0..30 {
            let directory = root.join(format!("{number}"));
            fs::create_dir_all(&directory).unwrap();
            for size in 0..10 {
                fs::write(directory.join(size.to_string()), vec![number; size * 300]).unwrap();
            }
            fs::hard_link(root.join("0/9"), directory.join("link")).unwrap();
        }
    }
    fs::write(source.join("1/only"), b"1").unwrap();
    fs::write(target.join("2/only"), b"1").unwrap();
    fs::write(target.join("3/5"), vec![4; 1500]).unwrap();
    fs::remove_file(target.join("7/link")).unwrap();
    fs::write(target.join("7/link"), vec![0; 2700]).unwrap();
    let expected = alone(&source, &target);
    assert_eq!(expected.totals.differences(), 4, "{:?}", expected.differences);
    assert!(assert_same_on_ranks(&source, &target, &expected) > 0, "ranks share the work");
}

/// Two trees with 5,000 names in the root, and none below.
fn large_directories(scratch: &Scratch) -> [PathBuf; 2] {
    let roots = [scratch.join("source"), scratch.join("target")];
    for root in &roots {
        fs::create_dir_all(root).unwrap();
        for number in 0..5000 {
            fs::File::create(root.join(format!("{number}"))).unwrap();
        }
    }
    roots
}

#[test]
fn names_of_a_shared_directory_are_reported_once() {
    let scratch = scratch("verify-ranks");
    let [source, target] = large_directories(&scratch);
    for number in 0..40 {
        fs::remove_file(source.join(format!("{}", number * 100))).unwrap();
    }
    let expected = alone(&source, &target);
    // The sums differ, so each name of TARGET is looked up.
    assert_eq!((expected.totals.extra, expected.totals.looked_up), (40, 5000));
    assert!(assert_same_on_ranks(&source, &target, &expected) > 0, "ranks share the names");
}

#[test]
fn shared_directories_are_compared_by_sums() {
    let scratch = scratch("verify-ranks");
    let [source, target] = large_directories(&scratch);
    // A name that TARGET lacks is in neither sum.
    fs::remove_file(target.join("77")).unwrap();
    let expected = alone(&source, &target);
    assert_eq!((expected.totals.missing, expected.totals.looked_up), (1, 0));
    assert!(assert_same_on_ranks(&source, &target, &expected) > 0, "ranks share the names");
}

#[test]
fn one_extra_name_of_a_shared_directory_is_found() {
    let scratch = scratch("verify-ranks");
    let [source, target] = large_directories(&scratch);
    // As many names on both sides.
    fs::rename(target.join("77"), target.join("extra")).unwrap();
    let expected = alone(&source, &target);
    assert_eq!((expected.totals.missing, expected.totals.extra), (1, 1));
    assert!(assert_same_on_ranks(&source, &target, &expected) > 0, "ranks share the names");
}

#[test]
fn chunks_of_a_file_are_compared_by_all_ranks() {
    let scratch = scratch("verify-ranks");
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    let mut bytes = vec![7; 6_000_003];
    fs::write(&source, &bytes).unwrap();
    fs::write(&target, &bytes).unwrap();
    let same = alone(&source, &target);
    assert_eq!(same.totals.differences(), 0);
    assert!(assert_same_on_ranks(&source, &target, &same) > 0, "ranks share the chunks");
    for at in [5_000_000, 4_000_000] {
        bytes[at] = 8;
    }
    fs::write(&target, &bytes).unwrap();
    let differs = alone(&source, &target);
    assert_eq!(differs.totals.differences(), 1);
    assert_same_on_ranks(&source, &target, &differs);
}
