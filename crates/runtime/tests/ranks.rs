//! One job on several ranks within this process: every task once, whatever the schedule, and totals of all ranks.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atta_engine::{Config, Reason, Reduce, ScheduleKind, Split, Termination};
use atta_fabric::Endpoint;
use atta_fabric::in_process_on_hosts;
use atta_runtime::conformance::Endless;
use atta_runtime::{
    Job, Limits, Options, Outbox, Queue, Session, Status, Stop, Stream, Threads, Work, run_and_reduce,
};

/// A session of ranks of this test.
fn join<'e>(endpoint: &'e mut dyn Endpoint, config: Config, stop: &Stop) -> Session<'e> {
    let joined = Session::join(endpoint, "test", stop.clone(), Limits::default());
    joined.unwrap().unwrap().with_schedule(config)
}

/// Marks each number of a range once: a task is a range, which is cut into parts, or marked.
struct Cover {
    seen: Vec<AtomicU64>,
}

impl Cover {
    fn new(count: usize) -> Self {
        Self { seen: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }

    fn counts(&self) -> Vec<u64> {
        self.seen.iter().map(|seen| seen.load(Ordering::Relaxed)).collect()
    }
}

impl Job for Cover {
    type Task = (u32, u32);
    type Worker = u64;

    fn worker(&self, _index: usize) -> u64 {
        0
    }

    fn run(&self, done: &mut u64, (from, to): (u32, u32), queue: &mut Queue<'_, Self>) {
        if to - from <= 1 {
            (from..to).for_each(|at| {
                self.seen[at as usize].fetch_add(1, Ordering::Relaxed);
            });
            *done += u64::from(to - from);
            return;
        }
        // Uneven parts, so that some subtrees are deep and some are leaves.
        let part = ((to - from) / 7).max(1);
        (from..to).step_by(part as usize).for_each(|at| queue.push((at, (at + part).min(to))));
    }

    fn pack(&self, &(from, to): &Self::Task, _last: Option<&Self::Task>, out: &mut Vec<u8>) -> bool {
        // Some cannot leave their rank.
        let packable = from % 11 != 3;
        if packable {
            out.extend(from.to_le_bytes());
            out.extend(to.to_le_bytes());
        }
        packable
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<Self::Task>, &'static str> {
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).map_err(|_| "cut short");
        bytes.chunks(8).map(|task| Ok((number(&task[..4])?, number(&task[4..])?))).collect()
    }
}

/// How many numbers were marked.
#[derive(Clone, Debug, Default, PartialEq)]
struct Marked(u64);

impl Reduce for Marked {
    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }
}

atta_entry::record!(Marked { 0 });

/// Runs the job on ranks on these hosts; gives the reason of its end and the root's totals.
fn cover(job: &Cover, hosts: &[u32], threads: usize, config: Config, stop: &Stop) -> (Reason, Marked) {
    let size = u32::try_from(job.seen.len()).unwrap();
    let mut results = std::thread::scope(|scope| {
        let ranks: Vec<_> = in_process_on_hosts(hosts)
            .into_iter()
            .enumerate()
            .map(|(rank, mut endpoint)| {
                scope.spawn(move || {
                    let seeds = if rank == 0 { vec![(0, size)] } else { Vec::new() };
                    let threads = Threads::Fixed(NonZeroUsize::new(threads).unwrap());
                    let options = Options { threads, stop: stop.clone(), ..Options::default() };
                    let mut session = join(&mut endpoint, config, stop);
                    let totals = |workers: Option<&[u64]>| Marked(workers.unwrap_or(&[]).iter().sum());
                    let work = Work { seeds, options: &options };
                    let ran = session.run(job, work, totals, |_, _| {}).unwrap();
                    session.close((), |(), ()| ()).unwrap();
                    (ran.reason, ran.sum)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(results[1..].iter().all(|(_, totals)| totals.is_none()));
    let (reason, totals) = results.swap_remove(0);
    (reason, totals.unwrap())
}

#[test]
fn every_task_is_done_once_under_every_schedule() {
    for schedule in ScheduleKind::ALL {
        for hosts in [&[0][..], &[0, 1], &[0, 0, 1], &[0, 0, 1, 1, 2], &[0, 1, 2, 3, 4, 5, 6, 7]] {
            for termination in Termination::ALL {
                let split = if termination == Termination::Token { Split::Random } else { Split::Equal };
                let config = Config { schedule, termination, split, tree_width: 2, ..Config::default() };
                let job = Cover::new(700);
                let (reason, totals) = cover(&job, hosts, 2, config, &Stop::new());
                let name = format!("{schedule}, {termination}, {} ranks", hosts.len());
                assert_eq!((reason, totals), (Reason::Done, Marked(700)), "{name}");
                assert!(job.counts().iter().all(|count| *count == 1), "{name}");
            }
        }
    }
}

#[test]
fn progress_reaches_the_root() {
    let config = Config { progress_interval: Some(Duration::from_micros(1)), ..Config::default() };
    let job = Cover::new(50_000);
    assert_eq!(cover(&job, &[0, 1, 2], 1, config, &Stop::new()), (Reason::Done, Marked(50_000)));
}

#[test]
fn a_stop_on_one_rank_ends_all() {
    let stop = Stop::new();
    stop.set();
    let job = Cover::new(5_000);
    let (reason, totals) = cover(&job, &[0, 1, 2], 1, Config::default(), &stop);
    assert_eq!((reason, totals.0), (Reason::Stopped, job.counts().iter().sum()));
}

#[test]
fn stop_on_one_rank_ends_tasks_of_another() {
    std::thread::scope(|scope| {
        for (rank, mut endpoint) in in_process_on_hosts(&[0, 1]).into_iter().enumerate() {
            scope.spawn(move || {
                let options = Options::default();
                let mut session = join(&mut endpoint, Config::default(), &options.stop);
                if rank == 1 {
                    options.stop.set();
                }
                let seeds = if rank == 0 { vec![()] } else { Vec::new() };
                let work = Work { seeds, options: &options };
                let ran = session.run(&Endless, work, |_| Marked(0), |_, _| {}).unwrap();
                session.close((), |(), ()| ()).unwrap();
                assert_eq!(ran.reason, Reason::Stopped);
            });
        }
    });
}

/// Pushes to the root until it is stopped: sooner or later it waits for room.
struct Talks(Outbox);

impl Job for Talks {
    type Task = ();
    type Worker = ();

    fn worker(&self, _index: usize) {}

    fn run(&self, _worker: &mut (), (): (), queue: &mut Queue<'_, Self>) {
        while !queue.is_stopping() {
            self.0.push(Stream(0), &[0; 1 << 16]);
        }
    }
}

#[test]
fn panic_ends_workers_that_wait_for_room() {
    // Rank 0 takes nothing in; rank 1 has seeds of its own and panics while its worker waits. It hangs if nobody ends it.
    let mut endpoints = in_process_on_hosts(&[0, 0]);
    let (mut second, mut first) = (endpoints.pop().unwrap(), endpoints.pop().unwrap());
    let first = std::thread::spawn(move || {
        drop(join(&mut first, Config::default(), &Stop::new()));
        first
    });
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut session = join(&mut second, Config::default(), &Stop::new());
        let job = Talks(session.outbox());
        let options = Options { threads: Threads::Fixed(NonZeroUsize::MIN), ..Options::default() };
        let observe =
            |status: &Status, _| assert!(status.elapsed < Duration::from_millis(200), "the observer fails");
        let work = Work { seeds: vec![()], options: &options };
        let _never = session.run(&job, work, |_| Marked(0), observe);
    }));
    assert!(panicked.is_err());
    drop(first.join().unwrap());
}

/// Counts down; its tasks cannot become bytes.
struct Unpackable;

impl Job for Unpackable {
    type Task = u32;
    type Worker = Marked;

    fn worker(&self, _index: usize) -> Marked {
        Marked(0)
    }

    fn run(&self, sum: &mut Marked, task: u32, queue: &mut Queue<'_, Self>) {
        sum.0 += 1;
        (0..task).for_each(|next| queue.push(next));
    }
}

#[test]
fn tasks_that_cannot_leave_stay_or_fail() {
    for schedule in [ScheduleKind::Lifeline, ScheduleKind::Centralized] {
        let config = Config { schedule, ..Config::default() };
        let results: Vec<_> = std::thread::scope(|scope| {
            let ranks: Vec<_> = in_process_on_hosts(&[0, 0])
                .into_iter()
                .map(|endpoint| {
                    scope.spawn(move || run_and_reduce(&Unpackable, vec![4], Box::new(endpoint), config))
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        match schedule {
            ScheduleKind::Lifeline => assert_eq!(results[0].as_ref().unwrap(), &Some(Marked(16))),
            _ => {
                let error = results[0].as_ref().unwrap_err().to_string();
                assert!(error.contains("Job::pack"), "{error}");
                assert!(results[1].is_err());
            }
        }
    }
}

/// Cuts numbers into ones and holds these back. Its rest sends a mark for each to the next rank.
struct Holding {
    rank: u32,
    ranks: u32,
    held: AtomicU64,
}

/// Ends what is held.
const REST: u32 = 0;
const MARK: u32 = u32::MAX;

impl Job for Holding {
    type Task = u32;
    type Worker = Marked;

    fn worker(&self, _index: usize) -> Marked {
        Marked(0)
    }

    fn run(&self, sum: &mut Marked, task: u32, queue: &mut Queue<'_, Self>) {
        match task {
            REST => {
                for _ in 0..self.held.swap(0, Ordering::Relaxed) {
                    match (self.rank + 1) % self.ranks {
                        next if next == self.rank => queue.push(MARK),
                        next => queue.send(next, MARK),
                    }
                }
            }
            MARK => sum.0 += 1,
            1 => drop(self.held.fetch_add(1, Ordering::Relaxed)),
            number => [number / 2, number - number / 2].into_iter().for_each(|half| queue.push(half)),
        }
    }

    fn rest(&self) -> Option<u32> {
        (self.held.load(Ordering::Relaxed) > 0).then_some(REST)
    }

    fn pack(&self, task: &u32, _last: Option<&u32>, out: &mut Vec<u8>) -> bool {
        // The rest of a rank is its own.
        let may_leave = *task != REST;
        if may_leave {
            out.extend(task.to_le_bytes());
        }
        may_leave
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<u32>, &'static str> {
        Ok(bytes.as_chunks().0.iter().map(|task| u32::from_le_bytes(*task)).collect())
    }
}

#[test]
fn the_rest_of_every_rank_runs_before_the_end() {
    for schedule in ScheduleKind::ALL {
        for ranks in [1, 2, 3, 5] {
            let config = Config { schedule, ..Config::default() };
            let hosts: Vec<u32> = (0..ranks).collect();
            let results: Vec<_> = std::thread::scope(|scope| {
                let ranks: Vec<_> = in_process_on_hosts(&hosts)
                    .into_iter()
                    .zip(0..)
                    .map(|(endpoint, rank)| {
                        scope.spawn(move || {
                            let job = Holding { rank, ranks, held: AtomicU64::new(0) };
                            run_and_reduce(&job, vec![500], Box::new(endpoint), config).unwrap()
                        })
                    })
                    .collect();
                ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
            });
            assert_eq!(results[0], Some(Marked(500)), "{schedule}, {ranks} ranks");
        }
    }
}
