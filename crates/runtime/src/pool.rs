//! The pool: starts workers, finds tasks for them, tunes their number, and reports. The job defines the tasks.

pub(crate) mod shared;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::{Duration, Instant};

use crossbeam_deque::Worker;

use crate::cpu::Watch;
use crate::job::Job;
use crate::options::{Options, Outcome, Status, WorkerReport};
use crate::probe::Probe;
use crate::queue::Queue;
use crate::rank::local::Peer;
use crate::rank::outbox::Outbox;
use crate::search::Search;
use crate::threads::{Threads, Tuner};
use shared::{Ranks, Shared};

/// Ticks at the start are short, so that a slow file system gets its threads within some 50 ms.
const TICK_FIRST: Duration = Duration::from_millis(4);
const TICK_LATER: Duration = Duration::from_millis(25);
const TICKS_FIRST: u32 = 25;

/// Runs `seeds` and all tasks that follow from them. Returns when all are done or `options.stop` was set.
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

/// Like [`run`], but as a part of a job on several ranks if `peer` is given.
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
    let shared = Shared::new(job, options, &deques, peer.as_deref().map(ranks_of));
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
    // The scope would report only that a thread panicked, without the message.
    if let Some(panic) = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(panic);
    }
    shared.outcome(started.elapsed())
}

impl<J: Job> Shared<'_, J> {
    /// The main loop of a worker.
    fn live(&self, index: usize, deque: &Worker<J::Task>) {
        let meter = self.meter(index);
        let _ = meter.watch.set(Watch::this_thread());
        let worked = catch_unwind(AssertUnwindSafe(|| {
            let mut worker = self.job.worker(index);
            let mut queue = Queue { index, deque, shared: self, pushes: 0 };
            let mut search = Search::new(index);
            while let Some(task) = search.next(self, deque, &mut worker) {
                meter.task_begins();
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

fn ranks_of(peer: &dyn Peer) -> Ranks {
    Ranks { bell: peer.bell(), kept: peer.kept() }
}

/// Ends the workers when the supervising thread panics, in the observer or otherwise. The scope waits for the workers, which
/// would otherwise wait forever for tasks, or for room in the outbox.
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

/// The calling thread's part of a job: monitors, tunes, reports, and communicates with other ranks.
struct Supervisor<'scope, 'env, 'a, J: Job, D> {
    shared: &'env Shared<'a, J>,
    scope: &'scope Scope<'scope, 'env>,
    /// The deques of workers that have not been started.
    deques: D,
    options: &'env Options<'env>,
    tuner: Tuner,
    probe: Probe<'env>,
    /// The current target number of threads.
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
                // The last rows are being written. That can block, so keep checking for signals.
                self.await_end(pause);
            } else {
                self.tune();
            }
        }
    }

    /// Communicates with the other ranks until the next tick. Returns whether the job is over.
    fn attend(&mut self, peer: &mut dyn Peer, tick: Duration) -> bool {
        let began = Instant::now();
        loop {
            self.look_at_stop();
            let pause = peer.attend(self.shared, self.stop_seen.is_some());
            if peer.has_finished() {
                if peer.was_stopped() && !self.shared.stop.is_set() {
                    // Another rank requested it: waiting tasks are dropped, and long tasks end early.
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
                // No more threads are available: the running ones do the work. Without any thread the job cannot run.
                Err(error) if index == 0 => panic!("cannot start a thread: {error}"),
                Err(_) => {
                    shared.idle.discharge();
                    // The deque of that index is gone. A later worker would get the next one, but thieves look for deques by index. So no
                    // more workers are started.
                    self.deques.by_ref().for_each(drop);
                    break;
                }
            }
        }
        self.threads = count.min(shared.started.load(Ordering::Relaxed));
    }

    /// Waits until all workers have ended, up to a limit.
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
