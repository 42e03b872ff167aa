//! Digests on ranks within this process: the same as on one rank, regardless of the distribution of work. Ranks of real processes are the business of the
//! program's tests.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod harness;

use std::path::Path;

use atta_engine::{Config, ScheduleKind};
use atta_entry::{Entry, Failure};
use atta_fabric::{InProcess, in_process_on_hosts};
use atta_ops::digest::{Hash, Signature};
use atta_ops::sum::{self, Options, Outcome, Totals, Watch};
use atta_ops::walk::Start;
use atta_runtime::{Limits, Session};
use atta_testkit::trees;
use harness::{bytes_of, scratch, threads};

/// The hosts of the ranks of each job.
const HOSTS: [&[u32]; 4] = [&[0], &[0, 1], &[0, 0, 1], &[0, 0, 1, 1, 2]];

/// A path and its digest.
type Found = (Vec<u8>, Option<Hash>);

/// Keeps all that is found.
struct Keep;

impl Watch for Keep {
    type Worker = Vec<Found>;
    type Gathered = ();

    fn worker(&self, _index: usize) -> Vec<Found> {
        Vec::new()
    }

    fn entry(&self, found: &mut Vec<Found>, entry: &Entry<'_>, digest: Option<&Hash>) {
        found.push((entry.path(), digest.copied()));
    }

    fn failure(&self, _found: &mut Vec<Found>, failure: &Failure<'_>) {
        panic!("{failure}");
    }
}

/// The results of all ranks.
struct Whole {
    found: Vec<Found>,
    totals: Totals,
    signature: Signature,
    /// Tasks that came from other ranks.
    accepted: u64,
}

fn options() -> Options<'static> {
    Options { walk: threads(2), chunk: Some(1024), ..Options::default() }
}

fn whole(ranks: Vec<Outcome<Vec<Found>>>) -> Whole {
    let (mut totals, mut signature, mut accepted) = (Totals::default(), Signature::default(), 0);
    let mut found = Vec::new();
    for outcome in ranks {
        totals += &outcome.totals;
        signature.merge(&outcome.signature.unwrap());
        accepted += outcome.exchanged.counts.tasks_accepted;
        found.extend(outcome.workers.concat());
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Whole { found, totals, signature, accepted }
}

fn alone(root: &Path) -> Whole {
    whole(vec![sum::run_alone(&Keep, [Start::new(bytes_of(root))], &options(), |_| {})])
}

fn on_ranks(root: &Path, hosts: &[u32], config: Config) -> Whole {
    let one = |(rank, mut endpoint): (usize, InProcess)| {
        let options = options();
        let joined = Session::join(&mut endpoint, "test", options.walk.stop.clone(), Limits::default());
        let mut session = joined.unwrap().unwrap().with_schedule(config);
        let starts = (rank == 0).then(|| Start::new(bytes_of(root)));
        let outcome = sum::run(&mut session, &Keep, starts, &options, |_| {}).unwrap();
        session.close((), |(), ()| ()).unwrap();
        outcome
    };
    std::thread::scope(|scope| {
        let endpoints = in_process_on_hosts(hosts).into_iter().enumerate();
        let ranks: Vec<_> = endpoints.map(|rank| scope.spawn(move || one(rank))).collect();
        whole(ranks.into_iter().map(|rank| rank.join().unwrap()).collect())
    })
}

/// Compares a run on ranks, under every schedule, with one alone. Returns the tasks that came from other ranks.
fn assert_same_on_ranks(root: &Path) -> u64 {
    let expected = alone(root);
    let mut accepted = 0;
    for (number, schedule) in ScheduleKind::ALL.into_iter().enumerate() {
        let (hosts, config) = (HOSTS[number % HOSTS.len()], Config { schedule, ..Config::default() });
        let found = on_ranks(root, hosts, config);
        assert!(found.found == expected.found, "{schedule} on {hosts:?}");
        // A file with names on two ranks is read by both.
        let totals = Totals { known: expected.totals.known, ..found.totals };
        assert_eq!(totals, expected.totals, "{schedule} on {hosts:?}");
        assert_eq!(found.signature.digest(), expected.signature.digest());
        accepted += found.accepted;
    }
    accepted
}

#[test]
fn digests_on_ranks_are_those_of_one_rank() {
    let scratch = scratch("sum-ranks");
    let tree = scratch.join("tree");
    for number in 0..60 {
        let directory = tree.join(format!("{number}"));
        std::fs::create_dir_all(&directory).unwrap();
        for size in 0..20 {
            std::fs::write(directory.join(size.to_string()), vec![number; size * 300]).unwrap();
        }
        std::fs::hard_link(tree.join("0/19"), directory.join("link")).unwrap();
    }
    let names = tree.join("names");
    std::fs::create_dir(&names).unwrap();
    trees::hostile_names(&names).unwrap();
    assert!(assert_same_on_ranks(&tree) > 0, "ranks share the work");
}

#[test]
fn chunks_of_a_file_are_hashed_by_all_ranks() {
    let scratch = scratch("sum-ranks");
    let bytes: Vec<u8> = (0..6_000_003_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = scratch.join("file");
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(alone(&file).found[0].1, Some(blake3::hash(&bytes)));
    // There are no other tasks than those of its chunks.
    assert!(assert_same_on_ranks(&file) > 0, "ranks share the chunks");
}
