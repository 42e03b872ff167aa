//! The pool: starts workers, finds them tasks, tunes their number, and reports. Tasks themselves are the job's.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crossbeam_deque::{Injector, Stealer, Worker};

use crate::bell::Bell;
use crate::cpu::Watch;
use crate::idle::Idle;
use crate::local::Peer;
use crate::meter::Meter;
use crate::probe::Probe;
use crate::search::Search;
use crate::spill::Spill;
use crate::stream::Outbox;
use crate::threads::Tuner;
use crate::{Job, Queue, Rate, SpillReport, Stop, Threads, available_cores};

/// Ticks at the start are short, so that a slow file system gets its threads within some 50 ms.
const TICK_FIRST: Duration = Duration::from_millis(4);
const TICK_LATER: Duration = Duration::from_millis(25);
const TICKS_FIRST: u32 = 25;
/// While fewer tasks than this wait on one rank of several, workers open directories in breadth. More make no better parcels.
const BREADTH: usize = 16;

/// How a job is run.
#[derive(Debug)]
pub struct Options<'a> {
    /// How many threads.
    pub threads: Threads,
    /// Most threads, whatever that says: what the process may hold open does not suffice for more.
    pub threads_most: usize,
    /// Bytes that waiting tasks may hold in memory; past it the oldest go to a file. An aim, not a hard limit: what a
    /// task that runs pushes at once, and what [`Job::pack`] gives back, comes on top.
    pub memory_bytes: u64,
    /// Where the file for waiting tasks is made (without a name) if one is needed.
    pub spill_directory: PathBuf,
    /// A request to end early.
    pub stop: Stop,
    /// The cap that the job's tasks keep to, so that being held back is not taken for a slow file system.
    pub rate: Option<&'a Rate>,
    /// Cores that are this process's: what [`Threads::Auto`] begins with.
    pub cores: usize,
}

impl Default for Options<'_> {
    /// Threads as needed, 128 MiB, and a spill file in `$TMPDIR` or `/var/tmp` (`/tmp` is often memory).
    fn default() -> Self {
        Self {
            threads: Threads::Auto,
            threads_most: usize::MAX,
            memory_bytes: 128 << 20,
            spill_directory: std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from),
            stop: Stop::new(),
            rate: None,
            cores: available_cores(),
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
    /// Tasks that are to leave this rank, where none may stay; the workers do not take them.
    pub(crate) outgoing: Injector<J::Task>,
    /// Tasks for one rank each, none of them this one.
    pub(crate) addressed: Injector<(u32, J::Task)>,
    /// Of what a task leads to, so many stay; none: all.
    pub(crate) kept: Option<usize>,
    /// While fewer tasks than this wait, about, workers take the oldest and not the newest.
    pub(crate) breadth: usize,
    /// Whether another rank asked for work in vain: a reason to cut work finer.
    pub(crate) is_wanted: AtomicBool,
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
    run_with(job, seeds, options, None, &mut observe)
}

/// The same, as a part of a job on several ranks if there is a peer to speak with them.
pub(crate) fn run_with<J: Job>(
    job: &J,
    seeds: Vec<J::Task>,
    options: &Options<'_>,
    peer: Option<&mut dyn Peer>,
    observe: &mut impl FnMut(&Status),
) -> Outcome<J::Worker> {
    let started = Instant::now();
    let cores = options.cores;
    let runs_tasks = peer.as_ref().is_none_or(|peer| peer.runs_tasks());
    let most = options.threads.max(cores).min(options.threads_most.max(1));
    let (first, most) = if runs_tasks { (options.threads.initial(cores).min(most), most) } else { (0, 0) };
    let deques: Vec<_> = (0..most).map(|_| Worker::new_lifo()).collect();
    let shared = Shared::new(job, options, &deques, peer.as_deref());
    seeds.into_iter().for_each(|task| shared.seeds.push(task));
    std::thread::scope(|scope| {
        let _guard = EndsWithSupervisor { shared: &shared, outbox: peer.as_deref().map(Peer::outbox) };
        let mut supervisor = Supervisor {
            shared: &shared,
            scope,
            deques: deques.into_iter(),
            options,
            tuner: Tuner::new(options.threads, cores, options.threads_most.max(1)),
            probe: Probe::new(options.rate),
            threads: 0,
            stop_seen: None,
            started,
        };
        supervisor.enlarge(first);
        supervisor.run(peer, observe);
    });
    // The scope would pass on that a thread panicked, and not what it said.
    if let Some(panic) = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(panic);
    }
    shared.outcome(started.elapsed())
}

impl<'a, J: Job> Shared<'a, J> {
    pub(crate) fn new(
        job: &'a J,
        options: &Options<'_>,
        deques: &[Worker<J::Task>],
        peer: Option<&dyn Peer>,
    ) -> Self {
        let bell = peer.map_or_else(Bell::default, Peer::bell);
        Self {
            job,
            idle: Idle::new(peer.is_some(), bell),
            spill: Spill::new(options.spill_directory.clone()),
            stop: options.stop.clone(),
            // One more for the supervising thread, which brings tasks from other ranks and takes some for them.
            meters: (0..=deques.len()).map(|_| Meter::default()).collect(),
            stealers: deques.iter().map(Worker::stealer).collect(),
            seeds: Injector::new(),
            outgoing: Injector::new(),
            addressed: Injector::new(),
            kept: peer.and_then(Peer::kept),
            breadth: if peer.is_some() { BREADTH } else { 0 },
            is_wanted: AtomicBool::new(false),
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

    /// The supervising thread's.
    pub(crate) fn outside(&self) -> &Meter {
        &self.meters[self.meters.len() - 1]
    }

    /// Whether waiting tasks hold more than they may.
    pub(crate) fn is_over_memory(&self) -> bool {
        self.meters.iter().map(Meter::held_bytes).sum::<i64>() > self.memory_bytes
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

/// Ends the workers when the supervising thread panics, in the observer or otherwise: the scope waits for them, and they
/// would wait for ever, for tasks or for room in what goes to another rank.
struct EndsWithSupervisor<'env, 'a, J: Job> {
    shared: &'env Shared<'a, J>,
    outbox: Option<Outbox>,
}

impl<J: Job> Drop for EndsWithSupervisor<'_, '_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.stop.set();
            self.shared.idle.finish();
            self.outbox.iter().for_each(Outbox::close);
        }
    }
}

/// The calling thread's part of a job: watches, tunes, reports, and speaks with other ranks.
struct Supervisor<'scope, 'env, 'a, J: Job, D> {
    shared: &'env Shared<'a, J>,
    scope: &'scope Scope<'scope, 'env>,
    /// The deques of workers that have not been started.
    deques: D,
    options: &'env Options<'env>,
    tuner: Tuner,
    probe: Probe<'env>,
    /// Threads that are wanted at present.
    threads: usize,
    stop_seen: Option<Instant>,
    started: Instant,
}

impl<'env, J: Job, D: Iterator<Item = Worker<J::Task>>> Supervisor<'_, 'env, '_, J, D>
where
    J::Task: 'env,
{
    /// Supervises until the job is over and all workers have ended.
    fn run(&mut self, mut peer: Option<&mut dyn Peer>, observe: &mut impl FnMut(&Status)) {
        let shared = self.shared;
        for tick in 0_u32.. {
            let pause = if tick < TICKS_FIRST { TICK_FIRST } else { TICK_LATER };
            let over = match &mut peer {
                Some(peer) => self.attend(&mut **peer, pause),
                None => shared.idle.wait_over(pause),
            };
            self.look_at_stop();
            observe(&Status {
                elapsed: self.started.elapsed(),
                threads: self.threads,
                stopping: self.stop_seen.map(|since| since.elapsed()),
            });
            if over && shared.started.load(Ordering::Relaxed) == shared.ended.load(Ordering::Acquire) {
                return;
            }
            if over {
                // The last rows are being written; that can hang, so signals are still looked at.
                self.await_end(pause);
            } else {
                self.tune();
            }
        }
    }

    /// Speaks with the other ranks until the next tick. Returns whether the job is over.
    fn attend(&mut self, peer: &mut dyn Peer, tick: Duration) -> bool {
        let began = Instant::now();
        loop {
            self.look_at_stop();
            let pause = peer.attend(self.shared, self.stop_seen.is_some());
            if peer.has_finished() {
                if peer.was_stopped() {
                    // Another rank wants it: what waits here is dropped, and long tasks end early.
                    self.shared.stop.set();
                }
                self.shared.idle.finish();
                return true;
            }
            let left = tick.saturating_sub(began.elapsed());
            if left.is_zero() {
                return false;
            }
            self.shared.idle.wait_bell(pause.min(left));
        }
    }

    fn look_at_stop(&mut self) {
        if self.shared.stop.is_set() && self.stop_seen.is_none() {
            self.stop_seen = Some(Instant::now());
            self.shared.idle.finish();
        }
    }

    fn tune(&mut self) {
        let automatic = matches!(self.options.threads, Threads::Auto) && self.threads > 0;
        if !automatic || self.stop_seen.is_some() {
            return;
        }
        let wanted = self.tuner.tick(&self.probe.sample(self.shared, self.threads));
        if wanted != self.threads {
            self.shared.wanted.store(wanted, Ordering::Relaxed);
            self.enlarge(wanted);
            self.shared.idle.recall();
        }
    }

    /// Starts workers until there are `count`.
    fn enlarge(&mut self, count: usize) {
        let shared = self.shared;
        while shared.started.load(Ordering::Relaxed) < count {
            let Some(deque) = self.deques.next() else { break };
            let index = shared.started.load(Ordering::Relaxed);
            shared.idle.enlist();
            let spawned = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn_scoped(self.scope, move || shared.live(index, &deque));
            match spawned {
                Ok(_) => shared.started.store(index + 1, Ordering::Release),
                // No more threads to be had: those that run do the work. Without any there is nobody to do it.
                Err(error) if index == 0 => panic!("cannot start a thread: {error}"),
                Err(_) => {
                    shared.idle.discharge();
                    // The deque of that index is gone; a later worker would get the next one, and thieves look for
                    // deques by index. So nobody is started any more.
                    self.deques.by_ref().for_each(drop);
                    break;
                }
            }
        }
        self.threads = count.min(shared.started.load(Ordering::Relaxed));
    }

    /// Waits until all workers have ended, at most so long.
    fn await_end(&self, at_most: Duration) {
        let shared = self.shared;
        let started = Instant::now();
        while shared.ended.load(Ordering::Acquire) < shared.started.load(Ordering::Relaxed)
            && started.elapsed() < at_most
        {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

#[cfg(test)]
mod tests;
