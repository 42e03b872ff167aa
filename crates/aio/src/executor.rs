//! Threads that run continuations, so that a slow one does not delay I/O. It is independent of operations.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::crew::Crew;

thread_local! {
    /// The executor that this thread belongs to.
    static HERE: Cell<Identity> = const { Cell::new(Identity(0)) };
}

/// Identifies an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(usize);

impl Identity {
    /// Whether the calling thread belongs to it.
    pub(crate) fn is_here(self) -> bool {
        HERE.get() == self
    }
}

/// Threads that call functions with an argument, which takes one allocation less than a closure without arguments.
pub(crate) struct Executor<T> {
    crew: Arc<Crew<Task<T>>>,
    threads: Vec<JoinHandle<()>>,
}

type Task<T> = (Box<dyn FnOnce(T) + Send>, T);

/// Runs a continuation. A panic is reported by the panic hook and goes no further.
pub(crate) fn run(continuation: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(continuation));
}

impl<T: Send + 'static> Executor<T> {
    /// Starts this many threads; with zero, continuations run on the calling thread.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let mut executor = Self { crew: Arc::new(Crew::new()), threads: Vec::new() };
        for _ in 0..threads {
            let crew = Arc::clone(&executor.crew);
            let identity = executor.identity();
            let serve = move || {
                HERE.set(identity);
                while let Some((then, with)) = crew.next() {
                    run(|| then(with));
                }
            };
            let thread = std::thread::Builder::new().name("atta-then".to_owned());
            executor.threads.push(thread.spawn(serve)?);
        }
        Ok(executor)
    }

    /// The identity, which is unique while the executor exists.
    pub(crate) fn identity(&self) -> Identity {
        Identity(Arc::as_ptr(&self.crew) as usize)
    }

    /// Whether continuations run on the calling thread.
    pub(crate) fn is_inline(&self) -> bool {
        self.threads.is_empty()
    }

    /// Queues a continuation.
    pub(crate) fn push(&self, then: Box<dyn FnOnce(T) + Send>, with: T) {
        if self.is_inline() {
            return run(|| then(with));
        }
        // All threads have been started: no more can be added.
        let _ = self.crew.push((then, with));
    }
}

impl<T> Drop for Executor<T> {
    /// Runs all queued continuations first. A continuation that drops the executor itself does not wait for its own end.
    fn drop(&mut self) {
        self.crew.close();
        let here = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != here) {
            // The thread has caught the panics of its continuations.
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
                let then = move |number| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    if number % 10 == 0 {
                        std::panic::resume_unwind(Box::new("a continuation that fails"));
                    }
                };
                executor.push(Box::new(then), number);
            }
            drop(executor);
            assert_eq!(ran.load(Ordering::Relaxed), 100, "{threads} threads");
        }
    }
}
