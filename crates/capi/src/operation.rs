//! A submitted operation: the actions at its end, its status after that, and the threads that wait for it. `wait` assigns its
//! number in C.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use atta_aio::{Done, Tracked};
use atta_entry::Errno;

use crate::answer::Answer;
use crate::arguments::{Callback, Data};

/// The actions at the end of an operation.
pub(crate) struct Sequel {
    pub(crate) answer: Answer,
    pub(crate) callback: Callback,
    pub(crate) data: Data,
}

enum Stage {
    Asked(Sequel),
    /// It has ended, and its continuation runs.
    Continuing,
    /// Zero or an error number.
    Ended(c_int),
}

/// See the head of this file.
pub(crate) struct Operation {
    stage: Mutex<Stage>,
    ended: Condvar,
    /// Set once it is submitted.
    pub(crate) tracked: OnceLock<Tracked>,
    /// Its number in C; 0: not requested.
    pub(crate) number: AtomicU64,
    has_callback: bool,
}

/// Operations that were submitted and whose continuations have not returned.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// Threads that wait for all operations to end.
static WAITERS: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

thread_local! {
    /// The operation whose continuation this thread runs.
    static CONTINUES: Cell<*const Operation> = const { Cell::new(ptr::null()) };
}

/// Whether this thread runs a continuation.
pub(crate) fn is_in_continuation() -> bool {
    !CONTINUES.get().is_null()
}

/// One more operation is under way.
pub(crate) fn begin() {
    UNDER_WAY.fetch_add(1, Ordering::SeqCst);
}

/// One operation fewer is under way.
pub(crate) fn end() {
    if UNDER_WAY.fetch_sub(1, Ordering::SeqCst) == 1 {
        let waiters = WAITERS.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *waiters > 0 {
            WAITERS.1.notify_all();
        }
    }
}

/// Blocks until no operation is under way, for at most `within`.
pub(crate) fn wait_all(within: Option<Duration>) -> Result<(), Errno> {
    if is_in_continuation() {
        return Err(Errno(libc::EDEADLK));
    }
    let until = within.map(|within| Instant::now() + within);
    let mut waiters = WAITERS.0.lock().unwrap_or_else(PoisonError::into_inner);
    *waiters += 1;
    let mut outcome = Ok(());
    while UNDER_WAY.load(Ordering::SeqCst) > 0 {
        match left(until) {
            Some(Duration::ZERO) => {
                outcome = Err(Errno(libc::ETIMEDOUT));
                break;
            }
            left => waiters = wait(&WAITERS.1, waiters, left),
        }
    }
    *waiters -= 1;
    outcome
}

/// The remaining time; `None`: unlimited.
fn left(until: Option<Instant>) -> Option<Duration> {
    until.map(|until| until.saturating_duration_since(Instant::now()))
}

fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, left: Option<Duration>) -> MutexGuard<'a, T> {
    match left {
        None => condvar.wait(guard).unwrap_or_else(PoisonError::into_inner),
        Some(left) => condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0,
    }
}

impl Operation {
    pub(crate) fn new(sequel: Sequel) -> Arc<Self> {
        Arc::new(Self {
            has_callback: sequel.callback.is_some(),
            stage: Mutex::new(Stage::Asked(sequel)),
            ended: Condvar::new(),
            tracked: OnceLock::new(),
            number: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the operation: stores results, runs the continuation, wakes waiting threads.
    pub(crate) fn finish(&self, done: Done) {
        let Stage::Asked(sequel) = std::mem::replace(&mut *self.lock(), Stage::Continuing) else { return };
        let status = status_of(&sequel.answer, done);
        if let Some(callback) = sequel.callback {
            let outer = CONTINUES.replace(self);
            // Its return value is ignored; a foreign exception that leaves it ends the process.
            callback(sequel.data.0, status);
            CONTINUES.set(outer);
        }
        *self.lock() = Stage::Ended(status);
        self.ended.notify_all();
        end();
    }

    /// Blocks until it has ended and its continuation has returned, for at most `within`. Returns its status.
    pub(crate) fn wait(&self, within: Option<Duration>) -> Result<c_int, Errno> {
        if ptr::eq(CONTINUES.get(), self) {
            return Err(Errno(libc::EDEADLK));
        }
        // If it has not started and this thread would only wait, this thread carries it out.
        if within.is_none()
            && !self.has_callback
            && let Some(done) = self.tracked.get().and_then(Tracked::run_here)
        {
            self.finish(done);
        }
        let until = within.map(|within| Instant::now() + within);
        let mut stage = self.lock();
        loop {
            if let Stage::Ended(status) = *stage {
                return Ok(status);
            }
            match left(until) {
                Some(Duration::ZERO) => return Err(Errno(libc::ETIMEDOUT)),
                left => stage = wait(&self.ended, stage, left),
            }
        }
    }
}

/// Stores results. Returns zero or an error number.
fn status_of(answer: &Answer, done: Done) -> c_int {
    let stored = catch_unwind(AssertUnwindSafe(|| {
        let was_cut = done.was_cut();
        let (outcome, op) = done.into_parts();
        let number = outcome.inspect_err(|_| answer.failed(was_cut))?;
        answer.store(number, op.as_deref())
    }));
    match stored {
        Ok(Ok(())) => 0,
        // Always a positive number: zero would mean success.
        Ok(Err(Errno(error))) if error > 0 => error,
        _ => libc::EIO,
    }
}
