//! The sleep of idle workers, and the detection of the end. It holds no tasks.
//!
//! # Why no wake-up is lost
//! A worker that pushes stores the task, then (sequentially consistent fence) reads `sleeping`. A worker that goes to
//! sleep raises `sleeping`, then (fence) looks at every deque once more. Whichever fence comes first in the single
//! order of fences, the other side sees its store: either the pusher sees a sleeper and wakes one, or the sleeper sees
//! the task and stays awake.
//!
//! # Why the detected end is final
//! A task is in a deque, in the injector, in the spill file, or running on a worker that is awake. A worker counts as asleep
//! only while it holds the lock or waits on the condition; then it runs nothing, and its own deque is empty or open to
//! thieves. The worker that completes the count checks all places under the lock. No other worker is awake to put a task
//! anywhere, so "all asleep and nothing anywhere" stays true: the job is done.
//!
//! In a job with other ranks it stays true only until the supervising thread brings tasks from one of them. There the same
//! state is called *drained*, and all ranks together detect the end of the job.
//!
//! In a job of one rank the worker that completes the count asks the job for the rest ([`Job::rest`](crate::Job::rest)) under the
//! lock, and the job is done only if there is none. With other ranks the supervising thread asks for it.

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::bell::Bell;

/// The state of the sleepers. One lock; workers take it only on their way to sleep.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Whether there are other ranks: then an idle pool is not the end.
    has_peers: bool,
    state: Mutex<State>,
    /// Sleepers that a push can wake. Outside the lock, so that pushers can read it.
    sleeping: AtomicUsize,
    work: Condvar,
    /// Workers beyond the wanted number of threads.
    retired: Condvar,
    /// Rung when the job is over or drained: for the supervising thread.
    bell: Bell,
}

#[derive(Debug, Default)]
struct State {
    /// Workers that have been started.
    live: usize,
    /// Workers that are asleep or retired.
    asleep: usize,
    over: bool,
}

impl Idle {
    pub(crate) fn new(has_peers: bool, bell: Bell) -> Self {
        Self {
            has_peers,
            state: Mutex::default(),
            sleeping: AtomicUsize::new(0),
            work: Condvar::new(),
            retired: Condvar::new(),
            bell,
        }
    }

    /// Whether there are other ranks.
    pub(crate) fn has_peers(&self) -> bool {
        self.has_peers
    }

    /// Wakes the supervising thread.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// Wakes all sleepers that wait for work. Call after tasks were made visible.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) > 0 {
            let _guard = self.lock();
            self.work.notify_all();
        }
    }

    /// The number of workers that run a task or look for one. It is 0 exactly if no task is anywhere here. Then none appears until
    /// the calling, supervising thread brings one.
    pub(crate) fn busy(&self, empty: impl Fn() -> bool) -> usize {
        let state = self.lock();
        if state.asleep == state.live && empty() { 0 } else { (state.live - state.asleep).max(1) }
    }

    /// Counts one more worker, before its thread starts: it is awake from now on.
    pub(crate) fn enlist(&self) {
        self.lock().live += 1;
    }

    /// Reverts an enlistment: the thread could not be started.
    pub(crate) fn discharge(&self) {
        let mut state = self.lock();
        state.live -= 1;
        if state.live > 0 && state.asleep == state.live {
            // All other workers went to sleep meanwhile and wait for the one that never started.
            self.work.notify_all();
        }
    }

    /// Wakes one sleeper if there is any. Call after a task was made visible.
    pub(crate) fn wake_one(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) > 0 {
            let _guard = self.lock();
            self.work.notify_one();
        }
    }

    /// Whether a worker is idle: a reason to split work finer.
    pub(crate) fn anyone_sleeping(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn sleepers(&self) -> usize {
        self.sleeping.load(Ordering::Relaxed)
    }

    /// Sleeps until there may be work. `empty`: whether every place that can hold a task is empty. `rest`: adds a task if something still
    /// waits that a task can end, and returns whether it did; called when nothing else is left in a job of one rank. Returns false when the
    /// job is over.
    pub(crate) fn sleep(&self, empty: impl Fn() -> bool, rest: impl Fn() -> bool) -> bool {
        let mut state = self.lock();
        self.sleeping.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        state.asleep += 1;
        if !state.over && empty() {
            let follows = state.asleep == state.live && self.out_of_work(&mut state, rest);
            if !state.over && !follows {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state.asleep -= 1;
        self.sleeping.fetch_sub(1, Ordering::Relaxed);
        !state.over
    }

    /// Sleeps while `surplus` holds, as a worker beyond the target number. Returns false when the job is over. For `empty` and `rest` see
    /// [`sleep`](Self::sleep).
    pub(crate) fn retire(
        &self,
        surplus: impl Fn() -> bool,
        empty: impl Fn() -> bool,
        rest: impl Fn() -> bool,
    ) -> bool {
        let mut state = self.lock();
        state.asleep += 1;
        if !state.over {
            if !empty() {
                // It may have consumed a wake-up, or leave tasks in its deque: pass the wake-up on.
                self.work.notify_one();
            } else if state.asleep == state.live && self.out_of_work(&mut state, rest) {
                // The workers that are not surplus sleep.
                self.work.notify_one();
            }
        }
        while surplus() && !state.over {
            state = self.retired.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep -= 1;
        !state.over
    }

    /// Wakes retired workers so that they check the target number of threads again.
    pub(crate) fn recall(&self) {
        let _guard = self.lock();
        self.retired.notify_all();
    }

    /// Ends the job: wakes and ends every sleeper.
    pub(crate) fn finish(&self) {
        self.finish_locked(&mut self.lock());
    }

    /// Waits for the bell, up to a limit.
    pub(crate) fn wait_bell(&self, at_most: Duration) {
        self.bell.wait(at_most);
    }

    /// Waits until the job is over, up to a limit. Returns whether it is.
    pub(crate) fn wait_over(&self, at_most: Duration) -> bool {
        if !self.lock().over {
            self.bell.wait(at_most);
        }
        self.lock().over
    }

    /// All workers are asleep and no task is left. Returns whether one was added.
    fn out_of_work(&self, state: &mut MutexGuard<'_, State>, rest: impl Fn() -> bool) -> bool {
        if self.has_peers {
            // The supervising thread asks for the rest when the other ranks have no work either.
            self.bell.ring();
            return false;
        }
        let follows = rest();
        if !follows {
            self.finish_locked(state);
        }
        follows
    }

    fn finish_locked(&self, state: &mut MutexGuard<'_, State>) {
        state.over = true;
        self.work.notify_all();
        self.retired.notify_all();
        self.bell.ring();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held cannot leave it half changed: each change is a single store.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
