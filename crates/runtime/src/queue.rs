//! What a running task sees of the pool: where it puts more tasks. The deque is lock-free; spilling is the rare case.

use crossbeam_deque::{Steal, Worker};

use crate::Job;
use crate::pool::Shared;

/// Tasks looked at between two looks at how much is held in memory.
const PUSHES_PER_CHECK: u32 = 64;
/// Tasks in one spilled segment, at most: what is read back at once must be small against the limit.
const SEGMENT_TASKS: usize = 1024;

/// Where a running task puts more tasks. They may run at once on another thread.
pub struct Queue<'a, J: Job> {
    pub(crate) index: usize,
    pub(crate) deque: &'a Worker<J::Task>,
    pub(crate) shared: &'a Shared<'a, J>,
    pub(crate) pushes: u32,
}

impl<J: Job> std::fmt::Debug for Queue<'_, J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("worker", &self.index).field("tasks", &self.deque.len()).finish()
    }
}

impl<J: Job> Queue<'_, J> {
    /// Adds a task. The newest one is done first by this thread, the oldest one is given to others.
    pub fn push(&mut self, task: J::Task) {
        let bytes = self.shared.job.weigh(&task);
        self.shared.meter(self.index).hold(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.deque.push(task);
        self.shared.idle.wake_one();
        self.pushes += 1;
        if self.pushes >= PUSHES_PER_CHECK {
            self.pushes = 0;
            if self.shared.is_over_memory() {
                self.spill();
            }
        }
    }

    /// Whether some thread has nothing to do: a reason to cut work finer.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.shared.idle.anyone_sleeping()
    }

    /// Whether the job was asked to end early: a long task may stop between two steps.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.shared.stop.is_set()
    }

    /// Index of the worker on which the task runs.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.index
    }

    /// Moves the oldest half of this worker's tasks to the spill file.
    fn spill(&mut self) {
        if self.shared.spill.is_broken() {
            return;
        }
        let mut left = self.deque.len() / 2;
        let stealer = self.deque.stealer();
        let mut kept = Vec::new();
        while left > 0 {
            let mut tasks = Vec::with_capacity(left.min(SEGMENT_TASKS));
            while tasks.len() < left.min(SEGMENT_TASKS) {
                match stealer.steal() {
                    Steal::Success(task) => tasks.push(task),
                    Steal::Retry => {}
                    Steal::Empty => break,
                }
            }
            if tasks.is_empty() {
                break;
            }
            left -= tasks.len();
            if !self.spill_segment(tasks, &mut kept) {
                break;
            }
        }
        // These stay in memory, and so they stay accounted for.
        kept.into_iter().for_each(|task| self.deque.push(task));
    }

    /// Writes one segment; what cannot be written goes to `kept`. Returns false if no more can be written.
    fn spill_segment(&self, tasks: Vec<J::Task>, kept: &mut Vec<J::Task>) -> bool {
        let job = self.shared.job;
        let weight: usize = tasks.iter().map(|task| job.weigh(task)).sum();
        let count = tasks.len();
        let mut bytes = Vec::new();
        let unpackable = job.pack(tasks, &mut bytes);
        let unpackable_weight: usize = unpackable.iter().map(|task| job.weigh(task)).sum();
        let packed = count - unpackable.len();
        kept.extend(unpackable);
        if packed == 0 {
            return true;
        }
        if self.shared.spill.push(&bytes, packed as u64) {
            let freed = i64::try_from(weight.saturating_sub(unpackable_weight)).unwrap_or(i64::MAX);
            self.shared.meter(self.index).hold(-freed);
            return true;
        }
        // Nothing is lost: the tasks come back from the bytes that could not be written.
        match job.unpack(&bytes) {
            Ok(tasks) => kept.extend(tasks),
            Err(why) => unreachable!("a segment that was packed a moment ago does not unpack: {why}"),
        }
        false
    }
}
