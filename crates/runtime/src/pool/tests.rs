//! The pool against simple jobs: everything once, the end noticed, nothing lost to spilling.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::available_cores;

fn fixed(threads: usize) -> Options<'static> {
    Options { threads: Threads::Fixed(NonZeroUsize::new(threads).unwrap()), ..Options::default() }
}

/// Marks each number below `count` once; a task is a range that is cut in two, or done.
struct Cover {
    seen: Vec<AtomicU64>,
    spillable: bool,
}

impl Cover {
    fn new(count: usize, spillable: bool) -> Self {
        Self { seen: (0..count).map(|_| AtomicU64::new(0)).collect(), spillable }
    }

    fn all_once(&self) -> bool {
        self.seen.iter().all(|seen| seen.load(Ordering::Relaxed) == 1)
    }
}

impl Job for Cover {
    type Task = (usize, usize);
    type Worker = u64;

    fn worker(&self, _index: usize) -> u64 {
        0
    }

    fn run(&self, done: &mut u64, (from, to): (usize, usize), queue: &mut Queue<'_, Self>) {
        match to - from {
            0 => {}
            1 => {
                self.seen[from].fetch_add(1, Ordering::Relaxed);
                *done += 1;
            }
            // A wide fan-out first, so that there is something to spill.
            wide if wide > 1000 => (0..wide).for_each(|at| queue.push((from + at, from + at + 1))),
            _ => {
                queue.push((from, from.midpoint(to)));
                queue.push((from.midpoint(to), to));
            }
        }
    }

    fn pack(&self, &(from, to): &Self::Task, _last: Option<&Self::Task>, out: &mut Vec<u8>) -> bool {
        let packable = self.spillable && from % 7 != 0;
        if packable {
            out.extend_from_slice(&from.to_ne_bytes());
            out.extend_from_slice(&to.to_ne_bytes());
        }
        packable
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<Self::Task>, &'static str> {
        let number = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).map_err(|_| "short");
        bytes.chunks(16).map(|pair| Ok((number(&pair[..8])?, number(&pair[8..])?))).collect()
    }
}

#[test]
fn every_task_runs_once_on_any_number_of_threads() {
    for threads in [1, 2, 3, 8, 33] {
        let job = Cover::new(900, false);
        let outcome = run(&job, vec![(0, 400), (400, 900)], &fixed(threads), |_| {});
        assert!(job.all_once(), "{threads} threads");
        assert_eq!(outcome.workers.iter().sum::<u64>(), 900);
        assert_eq!(outcome.threads_max, threads);
        assert_eq!(outcome.reports.iter().map(|report| report.tasks).sum::<u64>(), 2 + 2 * (899 - 1));
        assert!(!outcome.stopped);
    }
}

#[test]
fn a_job_without_tasks_ends_at_once() {
    for _ in 0..200 {
        assert_eq!(run(&Cover::new(0, false), vec![], &fixed(4), |_| {}).workers.len(), 4);
    }
}

#[test]
fn short_jobs_end_a_thousand_times() {
    for round in 0..1000 {
        let job = Cover::new(40, false);
        drop(run(&job, vec![(0, 40)], &fixed(1 + round % 5), |_| {}));
        assert!(job.all_once(), "round {round}");
    }
}

#[test]
fn what_is_spilled_comes_back_once() {
    let job = Cover::new(100_000, true);
    let options = Options { memory_bytes: 64 << 10, ..fixed(3) };
    let outcome = run(&job, vec![(0, 100_000)], &options, |_| {});
    assert!(job.all_once());
    assert!(outcome.spill.tasks > 1_000, "{:?}", outcome.spill);
    assert_eq!(outcome.spill.error, None);
}

#[test]
fn a_spill_file_that_cannot_be_made_loses_nothing() {
    let job = Cover::new(100_000, true);
    let options = Options { memory_bytes: 64 << 10, spill_directory: "/nonexistent".into(), ..fixed(2) };
    let outcome = run(&job, vec![(0, 100_000)], &options, |_| {});
    assert!(job.all_once());
    assert!(outcome.spill.error.is_some());
}

/// Never ends by itself.
struct Endless;

impl Job for Endless {
    type Task = ();
    type Worker = ();
    fn worker(&self, _index: usize) {}
    fn run(&self, (): &mut (), (): (), queue: &mut Queue<'_, Self>) {
        queue.push(());
    }
}

#[test]
fn a_request_to_stop_ends_the_job() {
    let options = fixed(3);
    let stop = options.stop.clone();
    let outcome = run(&Endless, vec![(), (), ()], &options, |status| {
        if status.elapsed > Duration::from_millis(20) {
            stop.set();
        }
    });
    assert!(outcome.stopped);
    assert_eq!(outcome.workers.len(), 3);
}

/// Sleeps as a slow server does.
struct Slow;

impl Job for Slow {
    type Task = u32;
    type Worker = ();
    fn worker(&self, _index: usize) {}
    fn run(&self, (): &mut (), height: u32, queue: &mut Queue<'_, Self>) {
        std::thread::sleep(Duration::from_millis(2));
        if height > 0 {
            (0..4).for_each(|_| queue.push(height - 1));
        }
    }
}

#[test]
fn threads_grow_where_tasks_wait() {
    let outcome = run(&Slow, vec![6], &Options::default(), |_| {});
    assert!(outcome.threads_max > available_cores(), "{} threads", outcome.threads_max);
}

/// Fails as a program error does.
struct Panics;

impl Job for Panics {
    type Task = u32;
    type Worker = ();
    fn worker(&self, _index: usize) {}
    fn run(&self, (): &mut (), height: u32, queue: &mut Queue<'_, Self>) {
        assert!(height > 0, "as the test wants it");
        queue.push(height - 1);
    }
}

#[test]
fn a_panic_ends_the_job_and_comes_out() {
    let panicked = catch_unwind(|| run(&Panics, vec![5], &fixed(4), |_| {}));
    assert!(panicked.is_err());
}

/// A task that is never done by itself: it ends when the job is stopped.
struct UntilStopped;

impl Job for UntilStopped {
    type Task = ();
    type Worker = ();

    fn worker(&self, _index: usize) {}

    fn run(&self, _worker: &mut (), (): (), queue: &mut Queue<'_, Self>) {
        while !queue.is_stopping() {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
#[should_panic(expected = "the observer fails")]
fn a_panic_of_the_observer_ends_the_workers() {
    // Two busy workers and two that wait for tasks. The test hangs if they are not ended.
    run(&UntilStopped, vec![(), ()], &fixed(4), |_| panic!("the observer fails"));
}

/// Holds back all that it gets; its rest is done when no task is left.
struct Late(AtomicU64);

impl Job for Late {
    type Task = Option<u64>;
    type Worker = u64;

    fn worker(&self, _index: usize) -> u64 {
        0
    }

    fn run(&self, done: &mut u64, task: Option<u64>, queue: &mut Queue<'_, Self>) {
        match task {
            Some(0) => {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            Some(more) => (0..2).for_each(|_| queue.push(Some(more - 1))),
            None => *done += self.0.swap(0, Ordering::Relaxed),
        }
    }

    fn rest(&self) -> Option<Option<u64>> {
        (self.0.load(Ordering::Relaxed) > 0).then_some(None)
    }
}

#[test]
fn the_rest_of_a_job_runs_before_its_end() {
    for threads in [1, 2, 4] {
        for _ in 0..50 {
            let outcome = run(&Late(AtomicU64::new(0)), vec![Some(6)], &fixed(threads), |_| {});
            assert_eq!(outcome.workers.iter().sum::<u64>(), 64);
        }
    }
}
