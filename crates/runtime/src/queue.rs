//! The pool as a running task sees it: the target for new tasks. The deque is lock-free; spilling is the rare case.

use std::sync::atomic::Ordering;

use crossbeam_deque::{Steal, Worker};

use crate::job::Job;
use crate::pool::shared::Shared;

/// Tasks pushed between two checks of the memory held.
const PUSHES_PER_CHECK: u32 = 64;
/// The maximum number of tasks in a spilled segment: a segment that is read back must be small against the limit.
const SEGMENT_TASKS: usize = 1024;
/// The maximum of bytes in a segment, beyond its first task.
const SEGMENT_BYTES: usize = 1 << 20;

/// The target for new tasks of a running task. They may run at once on another thread.
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
    /// Adds a task. This thread runs the newest task first; other threads get the oldest.
    pub fn push(&mut self, task: J::Task) {
        let bytes = self.shared.job.weigh(&task);
        self.shared.meter(self.index).hold(i64::try_from(bytes).unwrap_or(i64::MAX));
        if self.shared.kept.is_some_and(|kept| self.deque.len() >= kept) {
            self.shared.outgoing.push(task);
            self.shared.idle.ring();
            return;
        }
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

    /// Sends a task to another rank of this job, which must run it. On arrival it is a task like any other. To keep it on that
    /// rank, use [`Job::pack`].
    ///
    /// # Panics
    /// The job runs on one rank.
    pub fn send(&mut self, rank: u32, task: J::Task) {
        assert!(self.shared.idle.has_peers(), "a task for rank {rank}, and there is but one");
        let bytes = self.shared.job.weigh(&task);
        self.shared.meter(self.index).hold(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.shared.addressed.push((rank, task));
        self.shared.idle.ring();
    }

    /// Whether a thread or another rank is idle: a reason to split work finer.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.shared.idle.anyone_sleeping() || self.shared.is_wanted.load(Ordering::Relaxed)
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
        let mut left = self.deque.len() / 2;
        let mut kept = Vec::new();
        while left > 0 && !self.shared.spill.is_broken() {
            let before = left;
            self.spill_segment(&mut left, &mut kept);
            if left == before {
                break;
            }
        }
        // These stay in memory, and so they stay accounted for.
        kept.into_iter().for_each(|task| self.deque.push(task));
    }

    /// Writes one segment of the oldest tasks, at most `left` of them. Tasks that cannot be written go to `kept`.
    fn spill_segment(&self, left: &mut usize, kept: &mut Vec<J::Task>) {
        let job = self.shared.job;
        let stealer = self.deque.stealer();
        let mut bytes = Vec::new();
        let mut tasks: Vec<J::Task> = Vec::new();
        // The first task contains the shared part, so the segment may exceed the limit by that.
        let mut first_bytes = None;
        while *left > 0
            && tasks.len() < SEGMENT_TASKS
            && bytes.len() < first_bytes.unwrap_or(usize::MAX / 2) + SEGMENT_BYTES
        {
            let task = match stealer.steal() {
                Steal::Success(task) => task,
                Steal::Retry => continue,
                Steal::Empty => {
                    *left = 0;
                    break;
                }
            };
            *left -= 1;
            if job.spill(&task, tasks.last(), &mut bytes) {
                tasks.push(task);
                first_bytes.get_or_insert(bytes.len());
            } else {
                kept.push(task);
            }
        }
        if tasks.is_empty() {
            return;
        }
        if self.shared.spill.push(&bytes, tasks.len() as u64) {
            let freed: usize = tasks.iter().map(|task| job.weigh(task)).sum();
            tasks.iter().for_each(|task| job.spilled(task));
            self.shared.meter(self.index).hold(-i64::try_from(freed).unwrap_or(i64::MAX));
        } else {
            tasks.iter().for_each(|task| job.not_spilled(task));
            kept.append(&mut tasks);
        }
    }
}
