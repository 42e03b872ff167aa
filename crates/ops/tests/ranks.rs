//! The walk on ranks within this process: hostile trees, each entry once, under every schedule with every number of ranks
//! and either split. Ranks of real processes are the business of the program's tests.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod harness;

use std::path::Path;
use std::time::Duration;

use atta_engine::{Config, Reason, ScheduleKind, Split};
use atta_entry::{Entry, Failure, Kind};
use atta_fabric::in_process_on_hosts;
use atta_ops::walk::{self, Options, Start, Tasks, Visit};
use atta_runtime::{Limits, Session};
use atta_testkit::{oracle, trees};
use harness::{bytes_of, escaped, scratch, threads};

/// The hosts of the ranks of each job.
const HOSTS: [&[u32]; 5] = [&[0], &[0, 1], &[0, 0, 1], &[0, 0, 1, 1, 2], &[0, 1, 2, 3, 0, 1, 2, 3]];

/// Keeps all paths, and is slow enough for the other ranks to ask for some.
struct Paths;

impl Visit for Paths {
    type Results = ();
    type Worker = Vec<Vec<u8>>;

    fn worker(&self, _index: usize) -> Self::Worker {
        Vec::new()
    }

    fn entry(&self, paths: &mut Self::Worker, entry: &Entry<'_>, _tasks: &mut Tasks) {
        if entry.kind == Kind::Directory {
            std::thread::sleep(Duration::from_micros(200));
        }
        paths.push(entry.path());
    }

    fn failure(&self, paths: &mut Self::Worker, failure: &Failure<'_>) {
        // No path begins so.
        paths.push(format!("failed: {failure:?}").into_bytes());
    }
}

/// Walks on ranks on these hosts. Gives all paths in order, and how many tasks came to other ranks.
fn walked(root: &Path, hosts: &[u32], config: Config) -> (Vec<Vec<u8>>, u64) {
    let ranks: Vec<_> = std::thread::scope(|scope| {
        let begin = |(rank, mut endpoint): (usize, atta_fabric::InProcess)| {
            scope.spawn(move || {
                let options: Options<'_> = threads(2);
                let joined = Session::join(&mut endpoint, "test", options.stop.clone(), Limits::default());
                let mut session = joined.unwrap().unwrap().with_schedule(config);
                let starts = (rank == 0).then(|| Start::new(bytes_of(root)));
                let outcome = walk::run_on(&mut session, &Paths, starts, &options, |_| {}).unwrap();
                session.close((), |(), ()| ()).unwrap();
                assert_eq!(outcome.reason, Reason::Done);
                (outcome.workers.concat(), outcome.exchanged.counts.tasks_accepted)
            })
        };
        let ranks: Vec<_> = in_process_on_hosts(hosts).into_iter().enumerate().map(begin).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let accepted = ranks.iter().map(|(_, accepted)| accepted).sum();
    let mut paths: Vec<_> = ranks.into_iter().flat_map(|(paths, _)| paths).collect();
    paths.sort();
    (paths, accepted)
}

#[test]
fn every_schedule_visits_each_hostile_entry_once() {
    let scratch = scratch("ranks");
    let root = scratch.join("tree");
    std::fs::create_dir(&root).unwrap();
    trees::hostile_names(&root.join("names")).unwrap();
    trees::kinds(&root.join("kinds"), &scratch.join("outside")).unwrap();
    trees::chain(&root.join("chain"), 40, b"level").unwrap();
    trees::flat(&root.join("flat"), 600).unwrap();
    trees::random(&root.join("random"), 7, 300).unwrap();
    let expected: Vec<_> = oracle::list(&root).unwrap().into_keys().collect();
    for schedule in ScheduleKind::ALL {
        let mut given = 0;
        for hosts in HOSTS {
            for split in [Split::Equal, Split::Random] {
                let config = Config { schedule, split, tree_width: 2, ..Config::default() };
                let (paths, accepted) = walked(&root, hosts, config);
                given += accepted;
                let name = format!("{schedule}, {split:?}, {} ranks", hosts.len());
                let differs = paths.iter().zip(&expected).find(|(path, expected)| path != expected);
                let differs = differs.map(|(path, expected)| (escaped(path), escaped(expected)));
                assert_eq!((differs, paths.len()), (None, expected.len()), "{name}");
            }
        }
        println!("{schedule}: {given} tasks came to other ranks");
        assert!(given > 0, "{schedule}: no rank gave another one anything");
    }
}
