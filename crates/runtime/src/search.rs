//! How a worker finds its next task: its own deque, the seeds, other workers, the spill file; else it sleeps.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_deque::{Steal, Worker};

use crate::job::Job;
use crate::pool::shared::Shared;

/// Rounds over all victims before an idle worker goes to sleep. A wake-up costs its caller about 12 us, so a little
/// patience pays; more than that would take the cores from those who work.
const ROUNDS_BEFORE_SLEEP: u32 = 4;
/// How one worker looks for its next task.
pub(crate) struct Search {
    index: usize,
    random: u64,
}

impl Search {
    pub(crate) fn new(index: usize) -> Self {
        Self { index, random: index as u64 + 1 }
    }

    /// The next task; none when the job is over.
    pub(crate) fn next<J: Job>(
        &mut self,
        shared: &Shared<'_, J>,
        deque: &Worker<J::Task>,
        worker: &mut J::Worker,
    ) -> Option<J::Task> {
        if shared.stop.is_set() {
            return None;
        }
        let surplus = || self.index >= shared.wanted.load(Ordering::Relaxed);
        if !surplus()
            && let Some(task) = self.own(shared, deque)
        {
            return Some(task);
        }
        let started = Instant::now();
        let found = self.search(shared, deque, worker);
        shared.meter(self.index).waited(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        found
    }

    /// The next of this worker's own tasks: the newest. Where there are other ranks, the oldest of all while there are few:
    /// so there are soon many, and a part of them is a part of the work.
    fn own<J: Job>(&self, shared: &Shared<'_, J>, deque: &Worker<J::Task>) -> Option<J::Task> {
        if deque.len() * shared.started.load(Ordering::Relaxed) >= shared.breadth {
            return deque.pop();
        }
        let oldest = settle(|| shared.seeds.steal());
        oldest.or_else(|| settle(|| shared.stealers[self.index].steal()))
    }

    fn search<J: Job>(
        &mut self,
        shared: &Shared<'_, J>,
        deque: &Worker<J::Task>,
        worker: &mut J::Worker,
    ) -> Option<J::Task> {
        loop {
            let index = self.index;
            let surplus = || index >= shared.wanted.load(Ordering::Relaxed);
            if surplus() && !shared.idle.retire(surplus, || shared.is_empty(), || shared.add_rest()) {
                return None;
            }
            for round in 0..ROUNDS_BEFORE_SLEEP {
                if let Some(task) = self.take(shared, deque, worker) {
                    return Some(task);
                }
                (0..16 << round).for_each(|_| std::hint::spin_loop());
            }
            if !shared.idle.sleep(|| shared.is_empty(), || shared.add_rest()) || shared.stop.is_set() {
                return None;
            }
        }
    }

    /// One look at every place that can hold a task.
    fn take<J: Job>(
        &mut self,
        shared: &Shared<'_, J>,
        deque: &Worker<J::Task>,
        worker: &mut J::Worker,
    ) -> Option<J::Task> {
        if let Some(task) = self.own(shared, deque) {
            return Some(task);
        }
        if let Some(task) = settle(|| shared.seeds.steal()) {
            return Some(task);
        }
        let victims = shared.started.load(Ordering::Acquire);
        let first = self.random_below(victims);
        for victim in (first..victims).chain(0..first).filter(|&victim| victim != self.index) {
            if let Some(task) = settle(|| shared.stealers[victim].steal()) {
                shared.meter(self.index).stole();
                return Some(task);
            }
        }
        self.unspill(shared, deque, worker)
    }

    /// Brings a spilled segment back: all but one task go to the own deque.
    fn unspill<J: Job>(
        &self,
        shared: &Shared<'_, J>,
        deque: &Worker<J::Task>,
        worker: &mut J::Worker,
    ) -> Option<J::Task> {
        let (bytes, count) = shared.spill.pop()?;
        let tasks = match bytes {
            Ok(bytes) => shared.job.unpack(&bytes).map_err(str::to_owned),
            Err(error) => Err(error.to_string()),
        };
        match tasks {
            Ok(tasks) => {
                let weight: usize = tasks.iter().map(|task| shared.job.weigh(task)).sum();
                shared.meter(self.index).hold(i64::try_from(weight).unwrap_or(i64::MAX));
                tasks.into_iter().for_each(|task| {
                    deque.push(task);
                    shared.idle.wake_one();
                });
                deque.pop()
            }
            Err(why) => {
                shared.job.lost(worker, count, &why);
                None
            }
        }
    }

    /// A random victim (xorshift). Quality does not matter, as long as idle workers do not all ask the same one.
    fn random_below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % bound.max(1) as u64).unwrap_or(0)
    }
}

/// Repeats a steal that lost a race.
fn settle<T>(steal: impl Fn() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}
