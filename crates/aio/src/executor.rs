//! Threads that run continuations, so that a slow one holds up no input and no output. It knows nothing of operations.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

thread_local! {
    /// The executor that this thread belongs to.
    static HERE: Cell<Identity> = const { Cell::new(Identity(0)) };
}

/// Which executor it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(usize);

impl Identity {
    /// Whether the calling thread is one of it.
    pub(crate) fn is_here(self) -> bool {
        HERE.get() == self
    }
}

type Continuation = Box<dyn FnOnce() + Send>;

/// See the head of this file.
pub(crate) struct Executor {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queued: VecDeque<Continuation>,
    idle: usize,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(continuation) = state.queued.pop_front() {
                drop(state);
                run(continuation);
                state = self.lock();
            } else if state.is_over {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

/// Runs a continuation. One that panics has told so by the panic's hook; it takes nobody else with it.
pub(crate) fn run(continuation: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(continuation));
}

impl Executor {
    /// So many threads; none: continuations run where they are handed in.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut executor = Self { shared, threads: Vec::new() };
        for _ in 0..threads {
            let shared = Arc::clone(&executor.shared);
            let thread = std::thread::Builder::new().name("atta-then".to_owned());
            let identity = executor.identity();
            let serve = move || {
                HERE.set(identity);
                shared.serve();
            };
            executor.threads.push(thread.spawn(serve)?);
        }
        Ok(executor)
    }

    /// Which one it is, as long as it is there.
    pub(crate) fn identity(&self) -> Identity {
        Identity(Arc::as_ptr(&self.shared) as usize)
    }

    /// Hands a continuation in.
    pub(crate) fn push(&self, continuation: Continuation) {
        if self.threads.is_empty() {
            return run(continuation);
        }
        let mut state = self.shared.lock();
        state.queued.push_back(continuation);
        let is_idle = state.idle > 0;
        drop(state);
        if is_idle {
            self.shared.work.notify_one();
        }
    }
}

impl Drop for Executor {
    /// All that was handed in is run first. A continuation that drops the executor itself does not wait for its own end.
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.work.notify_all();
        let here = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != here) {
            // It has caught the panics of its continuations.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_run_even_if_some_panic() {
        for threads in [0, 1, 3] {
            let executor = Executor::new(threads).unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            for number in 0..100 {
                let ran = Arc::clone(&ran);
                executor.push(Box::new(move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                    if number % 10 == 0 {
                        std::panic::resume_unwind(Box::new("a continuation that fails"));
                    }
                }));
            }
            drop(executor);
            assert_eq!(ran.load(Ordering::Relaxed), 100, "{threads} threads");
        }
    }
}
