//! The pool: starts workers, finds them tasks, tunes their number, and reports. Tasks themselves are the job's.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crossbeam_deque::{Injector, Stealer, Worker};

use crate::cpu::Watch;
use crate::idle::Idle;
use crate::meter::Meter;
use crate::probe::Probe;
use crate::search::Search;
use crate::spill::Spill;
use crate::threads::Tuner;
use crate::{Job, Queue, Rate, SpillReport, Stop, Threads, available_cores};

/// Ticks at the start are short, so that a slow file system gets its threads within some 50 ms.
const TICK_FIRST: Duration = Duration::from_millis(4);
const TICK_LATER: Duration = Duration::from_millis(25);
const TICKS_FIRST: u32 = 25;
/// How a job is run.
#[derive(Debug)]
pub struct Options<'a> {
    /// How many threads.
    pub threads: Threads,
    /// Bytes that waiting tasks may hold in memory; past it the oldest go to a file. An aim, not a hard limit: what a
    /// task that runs pushes at once, and what [`Job::pack`] gives back, comes on top.
    pub memory_bytes: u64,
    /// Where the file for waiting tasks is made (without a name) if one is needed.
    pub spill_directory: PathBuf,
    /// A request to end early.
    pub stop: Stop,
    /// The cap that the job's tasks keep to, so that being held back is not taken for a slow file system.
    pub rate: Option<&'a Rate>,
}

impl Default for Options<'_> {
    /// Threads as needed, 128 MiB, and a spill file in `$TMPDIR` or `/var/tmp` (`/tmp` is often memory).
    fn default() -> Self {
        Self {
            threads: Threads::Auto,
            memory_bytes: 128 << 20,
            spill_directory: std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from),
            stop: Stop::new(),
            rate: None,
        }
    }
}

/// How a job stands, as its observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Since the start.
    pub elapsed: Duration,
    /// Threads that are wanted at present.
    pub threads: usize,
    /// How long ago the job was asked to end, if it was: a thread may be stuck in a system call.
    pub stopping: Option<Duration>,
}

/// What one worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Tasks done.
    pub tasks: u64,
    /// Of them, taken from other workers.
    pub steals: u64,
    /// Time without a task.
    pub waiting: Duration,
}

/// What a job left.
#[derive(Debug)]
pub struct Outcome<W> {
    /// The state of each worker that was started.
    pub workers: Vec<W>,
    /// What each of them did, in the same order.
    pub reports: Vec<WorkerReport>,
    /// What was spilled.
    pub spill: SpillReport,
    /// The most threads that worked.
    pub threads_max: usize,
    /// From the first task to the last.
    pub elapsed: Duration,
    /// Whether it ended early because it was asked to.
    pub stopped: bool,
}

/// What all workers share.
pub(crate) struct Shared<'a, J: Job> {
    pub(crate) job: &'a J,
    pub(crate) idle: Idle,
    pub(crate) spill: Spill,
    pub(crate) stop: Stop,
    pub(crate) meters: Vec<Meter>,
    pub(crate) stealers: Vec<Stealer<J::Task>>,
    pub(crate) seeds: Injector<J::Task>,
    /// Workers that have been started; they are the first of `stealers`.
    pub(crate) started: AtomicUsize,
    /// Workers with an index from here on are not wanted at present.
    pub(crate) wanted: AtomicUsize,
    memory_bytes: i64,
    /// Workers that have ended, by a panic or otherwise.
    ended: AtomicUsize,
    finished: Mutex<Vec<(usize, J::Worker)>>,
    /// The first panic of a task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Runs `seeds` and all that they lead to; returns when everything is done or `options.stop` was set.
///
/// `observe` is called on the calling thread some 40 times a second.
///
/// # Panics
/// A panic of a task ends the job and is passed on.
pub fn run<J: Job>(
    job: &J,
    seeds: Vec<J::Task>,
    options: &Options<'_>,
    mut observe: impl FnMut(&Status),
) -> Outcome<J::Worker> {
    let started = Instant::now();
    let cores = available_cores();
    let most = options.threads.max(cores);
    let deques: Vec<_> = (0..most).map(|_| Worker::new_lifo()).collect();
    let shared = Shared::new(job, options, &deques);
    seeds.into_iter().for_each(|task| shared.seeds.push(task));
    std::thread::scope(|scope| {
        let mut deques = deques.into_iter();
        let tuner = Tuner::new(options.threads, cores);
        shared.enlarge(scope, &mut deques, options.threads.initial(cores));
        shared.supervise(scope, &mut deques, options, tuner, started, &mut observe);
    });
    // The scope would pass on that a thread panicked, and not what it said.
    if let Some(panic) = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(panic);
    }
    shared.outcome(started.elapsed())
}

impl<'a, J: Job> Shared<'a, J> {
    fn new(job: &'a J, options: &Options<'_>, deques: &[Worker<J::Task>]) -> Self {
        Self {
            job,
            idle: Idle::default(),
            spill: Spill::new(options.spill_directory.clone()),
            stop: options.stop.clone(),
            meters: deques.iter().map(|_| Meter::default()).collect(),
            stealers: deques.iter().map(Worker::stealer).collect(),
            seeds: Injector::new(),
            started: AtomicUsize::new(0),
            wanted: AtomicUsize::new(deques.len()),
            memory_bytes: i64::try_from(options.memory_bytes).unwrap_or(i64::MAX),
            ended: AtomicUsize::new(0),
            finished: Mutex::default(),
            panic: Mutex::default(),
        }
    }

    pub(crate) fn meter(&self, index: usize) -> &Meter {
        &self.meters[index]
    }

    /// Whether waiting tasks hold more than they may.
    pub(crate) fn is_over_memory(&self) -> bool {
        self.meters.iter().map(Meter::held_bytes).sum::<i64>() > self.memory_bytes
    }

    /// Starts workers until there are `count`.
    fn enlarge<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        deques: &mut impl Iterator<Item = Worker<J::Task>>,
        count: usize,
    ) where
        J::Task: 'env,
    {
        while self.started.load(Ordering::Relaxed) < count {
            let Some(deque) = deques.next() else { return };
            let index = self.started.load(Ordering::Relaxed);
            self.idle.enlist();
            let spawned = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn_scoped(scope, move || self.live(index, &deque));
            match spawned {
                Ok(_) => self.started.store(index + 1, Ordering::Release),
                // No more threads to be had: those that run do the work. Without any there is nobody to do it.
                Err(error) if index == 0 => panic!("cannot start a thread: {error}"),
                Err(_) => {
                    self.idle.discharge();
                    // The deque of that index is gone; a later worker would get the next one, and thieves look for
                    // deques by index. So nobody is started any more.
                    deques.by_ref().for_each(drop);
                    return;
                }
            }
        }
    }

    /// The calling thread's part: watches, tunes and reports until the job is over.
    fn supervise<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        deques: &mut impl Iterator<Item = Worker<J::Task>>,
        options: &Options<'_>,
        mut tuner: Tuner,
        started: Instant,
        observe: &mut impl FnMut(&Status),
    ) where
        J::Task: 'env,
    {
        let mut probe = Probe::new(options.rate);
        let mut stop_seen: Option<Instant> = None;
        let mut threads = self.started.load(Ordering::Relaxed);
        for tick in 0_u32.. {
            let pause = if tick < TICKS_FIRST { TICK_FIRST } else { TICK_LATER };
            let over = self.idle.wait_over(pause);
            if self.stop.is_set() && stop_seen.is_none() {
                stop_seen = Some(Instant::now());
                self.idle.finish();
            }
            observe(&Status {
                elapsed: started.elapsed(),
                threads,
                stopping: stop_seen.map(|since| since.elapsed()),
            });
            let left = self.started.load(Ordering::Relaxed) - self.ended.load(Ordering::Acquire);
            if left == 0 {
                return;
            }
            if over {
                // The last rows are being written; that can hang, so signals are still looked at.
                self.await_end(pause);
                continue;
            }
            if matches!(options.threads, Threads::Auto) && stop_seen.is_none() {
                let wanted = tuner.tick(&probe.sample(self, threads));
                if wanted != threads {
                    self.wanted.store(wanted, Ordering::Relaxed);
                    self.enlarge(scope, deques, wanted);
                    threads = wanted.min(self.started.load(Ordering::Relaxed));
                    self.idle.recall();
                }
            }
        }
    }

    /// Waits until all workers have ended, at most so long.
    fn await_end(&self, at_most: Duration) {
        let started = Instant::now();
        while self.ended.load(Ordering::Acquire) < self.started.load(Ordering::Relaxed)
            && started.elapsed() < at_most
        {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// A worker's life.
    fn live(&self, index: usize, deque: &Worker<J::Task>) {
        let meter = self.meter(index);
        let _ = meter.watch.set(Watch::this_thread());
        let worked = catch_unwind(AssertUnwindSafe(|| {
            let mut worker = self.job.worker(index);
            let mut queue = Queue { index, deque, shared: self, pushes: 0 };
            let mut search = Search::new(index);
            while let Some(task) = search.next(self, deque, &mut worker) {
                meter.hold(-i64::try_from(self.job.weigh(&task)).unwrap_or(i64::MAX));
                self.job.run(&mut worker, task, &mut queue);
                meter.task_done();
            }
            self.job.finish(&mut worker);
            worker
        }));
        match worked {
            Ok(worker) => {
                self.finished.lock().unwrap_or_else(PoisonError::into_inner).push((index, worker));
            }
            Err(panic) => {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
                self.stop.set();
                self.idle.finish();
            }
        }
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// Whether no task is to be had anywhere but from a worker that runs.
    pub(crate) fn is_empty(&self) -> bool {
        let started = self.started.load(Ordering::Acquire);
        self.seeds.is_empty()
            && self.spill.is_empty()
            && self.stealers.iter().take(started).all(Stealer::is_empty)
    }

    fn outcome(self, elapsed: Duration) -> Outcome<J::Worker> {
        let mut finished = self.finished.into_inner().unwrap_or_else(PoisonError::into_inner);
        finished.sort_by_key(|(index, _)| *index);
        let reports = self.meters.iter().take(finished.len()).map(|meter| WorkerReport {
            tasks: meter.tasks(),
            steals: meter.steals(),
            waiting: Duration::from_nanos(meter.waiting_ns()),
        });
        Outcome {
            reports: reports.collect(),
            threads_max: finished.len(),
            workers: finished.into_iter().map(|(_, worker)| worker).collect(),
            spill: self.spill.report(),
            elapsed,
            stopped: self.stop.is_set(),
        }
    }
}

#[cfg(test)]
mod tests;
