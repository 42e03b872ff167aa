//! One simulated rank: its engine, waiting tasks, threads, and unread messages. `drive.rs` drives it.

use std::collections::VecDeque;

use atta_engine::{Engine, Message};

use crate::outcome::{RankStats, WorkerStats};
use crate::setup::Setup;
use crate::task::Pool;
use crate::totals::Totals;
use crate::tree::mix;
use crate::work::Running;

/// Stands for "never".
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) engine: Engine<Totals>,
    pub(crate) pool: Pool,
    /// The task that each thread runs.
    pub(crate) threads: Box<[Option<Running>]>,
    /// Statistics of each thread.
    pub(crate) workers: Box<[WorkerStats]>,
    /// The number of threads that run a task.
    pub(crate) running: u32,
    /// Messages that arrived and are unread.
    pub(crate) inbox: VecDeque<(u32, Message)>,
    /// The time until which the thread that handles messages is busy.
    pub(crate) free_at: u64,
    /// The next wake-up for messages, and the next for the engine's timers.
    pub(crate) wake_at: u64,
    pub(crate) timer_at: u64,
    /// The factor by which this rank is slower than others.
    pub(crate) slowness: u64,
    /// Waiting and running tasks, as last reported to the checkers.
    pub(crate) known_busy: u64,
    /// Whether a task has ended since the last report of the load to the engine.
    pub(crate) has_ended_task: bool,
    /// Whether the engine's view of the load is out of date.
    pub(crate) is_stale: bool,
    pub(crate) runs_tasks: bool,
    pub(crate) hands_in: bool,
    pub(crate) finishing: bool,
    pub(crate) finished: bool,
    pub(crate) left: bool,
    pub(crate) stats: RankStats,
}

impl Process {
    pub(crate) fn new(setup: &Setup, rank: u32, with_distances: bool) -> Self {
        let engine = Engine::new(setup.engine, &setup.network.place(rank, setup.ranks, with_distances));
        let slow_one_in = u64::from(setup.disturbance.slow_one_in);
        let is_slow =
            slow_one_in > 0 && mix(setup.engine.seed ^ mix(u64::from(rank))).is_multiple_of(slow_one_in);
        let threads = setup.habits.threads.max(1) as usize;
        Self {
            runs_tasks: engine.runs_tasks(),
            hands_in: engine.hands_in().is_some(),
            pool: Pool::new(setup.habits.batch_files, setup.habits.gives_evenly),
            threads: vec![None; threads].into(),
            workers: vec![WorkerStats::default(); if engine.runs_tasks() { threads } else { 1 }].into(),
            engine,
            running: 0,
            inbox: VecDeque::new(),
            free_at: 0,
            wake_at: NEVER,
            timer_at: NEVER,
            slowness: if is_slow { u64::from(setup.disturbance.slow_factor.max(1)) } else { 1 },
            known_busy: 0,
            has_ended_task: false,
            is_stale: true,
            finishing: false,
            finished: false,
            left: false,
            stats: RankStats::default(),
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        self.stats.done
    }

    /// The number of waiting and running tasks.
    pub(crate) fn busy(&self) -> u64 {
        self.pool.units() + u64::from(self.running)
    }

    /// The time at which the engine wants a call, or [`NEVER`].
    pub(crate) fn timeout(&self) -> u64 {
        self.engine.poll_timeout().map_or(NEVER, |at| u64::try_from(at.as_nanos()).unwrap_or(NEVER))
    }
}
