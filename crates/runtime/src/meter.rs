//! Counters of each worker, readable by others while it works. Only their owner writes them, so no counter is contended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::cpu::Watch;

/// The counters of one worker.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    numbers: CachePadded<Numbers>,
    /// Whether its thread is blocked; set when the thread starts.
    pub(crate) watch: OnceLock<Option<Watch>>,
}

#[derive(Debug, Default)]
struct Numbers {
    tasks: AtomicU64,
    steals: AtomicU64,
    waiting_ns: AtomicU64,
    /// Bytes pushed minus bytes taken by this worker. A thief takes what another worker pushed, so one number may be negative. The
    /// sum over all workers is the memory held.
    held_bytes: AtomicI64,
    is_running: AtomicBool,
}

/// Adds to a counter that only the calling thread writes: no locked instruction.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Meter {
    /// This worker has a task and runs it.
    pub(crate) fn task_begins(&self) {
        self.numbers.is_running.store(true, Ordering::Relaxed);
    }

    pub(crate) fn task_done(&self) {
        add(&self.numbers.tasks, 1);
        self.numbers.is_running.store(false, Ordering::Relaxed);
    }

    /// Whether this worker runs a task, and does not look for one or sleep. It may lag behind the worker.
    pub(crate) fn is_running(&self) -> bool {
        self.numbers.is_running.load(Ordering::Relaxed)
    }

    pub(crate) fn stole(&self) {
        add(&self.numbers.steals, 1);
    }

    pub(crate) fn waited(&self, nanoseconds: u64) {
        add(&self.numbers.waiting_ns, nanoseconds);
    }

    /// Adds to what this worker holds (or takes away, if negative).
    pub(crate) fn hold(&self, bytes: i64) {
        let held = self.numbers.held_bytes.load(Ordering::Relaxed);
        self.numbers.held_bytes.store(held + bytes, Ordering::Relaxed);
    }

    pub(crate) fn tasks(&self) -> u64 {
        self.numbers.tasks.load(Ordering::Relaxed)
    }

    pub(crate) fn steals(&self) -> u64 {
        self.numbers.steals.load(Ordering::Relaxed)
    }

    pub(crate) fn waiting_ns(&self) -> u64 {
        self.numbers.waiting_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn held_bytes(&self) -> i64 {
        self.numbers.held_bytes.load(Ordering::Relaxed)
    }
}
