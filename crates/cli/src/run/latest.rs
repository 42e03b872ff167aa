//! A thread that writes values for another one, so that a full pipe, a stopped terminal or a slow disk does not hold that one up. Only the
//! newest value waits; it replaces an older one. For progress, whose older values are worth nothing. It does no I/O of its own.
//!
//! ```text
//!   supervising thread ── put ──▶ one value ──▶ thread: write, may block
//! ```

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two looks whether a wait is given up.
const LOOK: Duration = Duration::from_millis(20);

/// See the head of this file. When it is dropped, the thread ends after the value that it is writing.
#[derive(Debug)]
pub(crate) struct Latest<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: Option<T>,
    is_writing: bool,
    /// No value follows.
    is_over: bool,
}

impl<T: Send + 'static> Latest<T> {
    /// Starts the thread, which passes each value to `write`.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn start(name: &str, mut write: impl FnMut(T) + Send + 'static) -> io::Result<Self> {
        let state = State { waiting: None, is_writing: false, is_over: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let writing = Writing(Arc::clone(&shared));
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Some(value) = writing.next() {
                write(value);
            }
        })?;
        Ok(Self(shared))
    }
}

impl<T> Latest<T> {
    /// Hands over a value. Does not wait.
    pub(crate) fn put(&self, value: T) {
        let replaced = self.0.lock().waiting.replace(value);
        self.0.changed.notify_all();
        drop(replaced);
    }

    /// Waits until the last value is written, or until `gives_up`. Returns whether it is written; if not, it never will be, unless that has
    /// begun.
    pub(crate) fn wait(&self, mut gives_up: impl FnMut() -> bool) -> bool {
        let mut state = self.0.lock();
        while state.is_writing || (state.waiting.is_some() && !state.is_over) {
            if gives_up() {
                state.waiting = None;
                return false;
            }
            state = self.0.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.waiting.is_none()
    }
}

impl<T> Drop for Latest<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }
}

/// The thread's side. When it is dropped, also by a panic, nobody waits for the thread any more.
struct Writing<T>(Arc<Shared<T>>);

impl<T> Writing<T> {
    /// The next value, when there is one. None: no value follows.
    fn next(&self) -> Option<T> {
        let mut state = self.0.lock();
        state.is_writing = false;
        self.0.changed.notify_all();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(value) = state.waiting.take() {
                state.is_writing = true;
                return Some(value);
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for Writing<T> {
    fn drop(&mut self) {
        self.0.lock().is_writing = false;
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A destination that takes a value only when the test lets it: the values that it begins to write, and the leave to go on.
    fn slow() -> (Latest<u32>, Receiver<u32>, Sender<()>) {
        let (begun, begins) = channel();
        let (leave, leaves) = channel::<()>();
        let write = move |value| {
            begun.send(value).unwrap();
            // An error: the test is over.
            let _ = leaves.recv();
        };
        (Latest::start("test", write).unwrap(), begins, leave)
    }

    #[test]
    fn a_writer_that_is_stuck_holds_nobody_up() {
        let (latest, begins, leave) = slow();
        latest.put(1);
        assert_eq!(begins.recv(), Ok(1));
        (2..100).for_each(|value| latest.put(value));
        assert!(!latest.wait(|| true), "it is stuck");
        leave.send(()).unwrap();
        assert!(latest.wait(|| false));
        assert!(begins.try_recv().is_err(), "a value was written after the wait for it was given up");
    }

    #[test]
    fn the_newest_value_is_written_last() {
        let (latest, begins, leave) = slow();
        latest.put(1);
        assert_eq!(begins.recv(), Ok(1));
        (2..100).for_each(|value| latest.put(value));
        (0..2).for_each(|_| leave.send(()).unwrap());
        assert!(latest.wait(|| false));
        assert_eq!(begins.try_iter().collect::<Vec<_>>(), [99]);
    }

    #[test]
    fn a_writer_that_panics_is_not_waited_for() {
        let latest = Latest::start("test", |()| panic!("a panic of the test")).unwrap();
        latest.put(());
        latest.wait(|| false);
        latest.put(());
        assert!(!latest.wait(|| false), "no thread writes it");
    }
}
