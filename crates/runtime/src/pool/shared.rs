//! The shared state of a pool's workers: waiting tasks, idle workers, memory held. It starts no threads and takes no tasks.

use std::any::Any;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crossbeam_deque::{Injector, Stealer, Worker};

use crate::bell::Bell;
use crate::idle::Idle;
use crate::job::Job;
use crate::meter::Meter;
use crate::options::Options;
use crate::spill::Spill;
use crate::stop::Stop;

/// While fewer tasks than this wait on one rank of several, workers open directories in breadth. More make no better parcels.
const BREADTH: usize = 16;

/// State that a rank among several has beside its workers.
#[derive(Default)]
pub(crate) struct Ranks {
    /// Rung for events that concern the thread that communicates with other ranks.
    pub(crate) bell: Bell,
    /// The number of new tasks that stay here. None: all.
    pub(crate) kept: Option<usize>,
}

/// The shared state of all workers.
pub(crate) struct Shared<'a, J: Job> {
    pub(crate) job: &'a J,
    pub(crate) idle: Idle,
    pub(crate) spill: Spill,
    pub(crate) stop: Stop,
    pub(crate) meters: Vec<Meter>,
    pub(crate) stealers: Vec<Stealer<J::Task>>,
    pub(crate) seeds: Injector<J::Task>,
    /// Tasks that must leave this rank, where none may stay. Workers do not take them.
    pub(crate) outgoing: Injector<J::Task>,
    /// Tasks addressed to one rank each, never this one.
    pub(crate) addressed: Injector<(u32, J::Task)>,
    /// The number of new tasks that stay here. None: all.
    pub(crate) kept: Option<usize>,
    /// While about fewer tasks than this wait, workers take the oldest instead of the newest.
    pub(crate) breadth: usize,
    /// Whether this rank refused a request of another rank: a reason to split work finer.
    pub(crate) is_wanted: AtomicBool,
    /// Workers that have been started; they are the first of `stealers`.
    pub(crate) started: AtomicUsize,
    /// Workers with an index from here on must pause.
    pub(crate) wanted: AtomicUsize,
    memory_bytes: i64,
    /// Whether no task was left when the supervising thread last looked, and since when. With other ranks only.
    pub(crate) is_drained: AtomicBool,
    pub(crate) drained_since: Mutex<Instant>,
    /// Workers that have ended, by a panic or otherwise.
    pub(crate) ended: AtomicUsize,
    pub(super) finished: Mutex<Vec<(usize, J::Worker)>>,
    /// The first panic of a task.
    pub(super) panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl<'a, J: Job> Shared<'a, J> {
    pub(crate) fn new(
        job: &'a J,
        options: &Options<'_>,
        deques: &[Worker<J::Task>],
        ranks: Option<Ranks>,
    ) -> Self {
        let is_one_of_many = ranks.is_some();
        let Ranks { bell, kept } = ranks.unwrap_or_default();
        Self {
            job,
            idle: Idle::new(is_one_of_many, bell),
            spill: Spill::new(options.spill_directory.clone()),
            stop: options.stop.clone(),
            // One more for the supervising thread, which brings tasks from other ranks and takes some for them.
            meters: (0..=deques.len()).map(|_| Meter::default()).collect(),
            stealers: deques.iter().map(Worker::stealer).collect(),
            seeds: Injector::new(),
            outgoing: Injector::new(),
            addressed: Injector::new(),
            kept,
            breadth: if is_one_of_many { BREADTH } else { 0 },
            is_wanted: AtomicBool::new(false),
            started: AtomicUsize::new(0),
            wanted: AtomicUsize::new(deques.len()),
            memory_bytes: i64::try_from(options.memory_bytes).unwrap_or(i64::MAX),
            is_drained: AtomicBool::new(false),
            drained_since: Mutex::new(Instant::now()),
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

    /// Whether waiting tasks hold more memory than allowed.
    pub(crate) fn is_over_memory(&self) -> bool {
        self.meters.iter().map(Meter::held_bytes).sum::<i64>() > self.memory_bytes
    }

    /// Adds the task that ends what still waits in the job, if there is one. Returns whether there is. The caller wakes a worker.
    pub(crate) fn add_rest(&self) -> bool {
        let rest = self.job.rest();
        let follows = rest.is_some();
        if let Some(task) = rest {
            self.outside().hold(i64::try_from(self.job.weigh(&task)).unwrap_or(i64::MAX));
            self.seeds.push(task);
        }
        follows
    }

    /// Whether only a running worker can provide more tasks.
    pub(crate) fn is_empty(&self) -> bool {
        let started = self.started.load(Ordering::Acquire);
        self.seeds.is_empty()
            && self.spill.is_empty()
            && self.stealers.iter().take(started).all(Stealer::is_empty)
    }
}
