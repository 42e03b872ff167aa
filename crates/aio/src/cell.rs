//! The result of one operation, for whoever waits for it: by blocking, or as a future. The request is in it until somebody
//! takes it to carry it out, so that a waiter who comes early enough can do that itself.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

use crate::done::Done;
use crate::proactor::{Handle, Terms, Work};

/// What was submitted.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) work: Work,
    pub(crate) terms: Terms,
}

enum State {
    /// Nobody has begun with it.
    Queued(Request),
    /// Whoever waits carries it out.
    Taken,
    /// The progress thread has it; the handle, once the proactor has given it one.
    Running(Option<Handle>),
    /// It was cancelled before the proactor had it.
    Ended(Done),
    /// The result has been taken, or nobody will ask.
    Gone,
}

/// See the head of this file.
pub(crate) struct Cell {
    state: Mutex<(State, Option<Waker>, bool)>,
    ended: Condvar,
}

impl Cell {
    pub(crate) fn new(request: Request) -> Self {
        Self { state: Mutex::new((State::Queued(request), None, false)), ended: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, (State, Option<Waker>, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the request for the progress thread; none if a waiter has it. True: it has been cancelled meanwhile.
    pub(crate) fn begin(&self) -> Option<(Request, bool)> {
        let mut state = self.lock();
        let is_cancelled = state.2;
        match std::mem::replace(&mut state.0, State::Running(None)) {
            State::Queued(request) => Some((request, is_cancelled)),
            other => {
                state.0 = other;
                None
            }
        }
    }

    /// Notes by which handle the proactor knows it.
    pub(crate) fn set_handle(&self, handle: Handle) {
        let mut state = self.lock();
        if let State::Running(place) = &mut state.0 {
            *place = Some(handle);
        }
    }

    /// The handle, if the proactor has it.
    pub(crate) fn handle(&self) -> Option<Handle> {
        match self.lock().0 {
            State::Running(handle) => handle,
            _ => None,
        }
    }

    /// Takes the request for a waiter, if nobody has begun with it and it is one operation without a position.
    pub(crate) fn take(&self) -> Option<Request> {
        let mut state = self.lock();
        let is_plain = matches!(
            &state.0,
            State::Queued(Request { work: Work::Op(_), terms: Terms { position: None, .. } })
        );
        if !is_plain || state.2 {
            return None;
        }
        match std::mem::replace(&mut state.0, State::Taken) {
            State::Queued(request) => Some(request),
            _ => None,
        }
    }

    /// Remembers that it is to be cancelled.
    pub(crate) fn cancel(&self) {
        self.lock().2 = true;
    }

    /// The operation has ended.
    pub(crate) fn end(&self, done: Done) {
        let mut state = self.lock();
        // Nobody will ask: what came of it is dropped, outside the lock.
        let dropped = match state.0 {
            State::Gone => Some(done),
            _ => {
                state.0 = State::Ended(done);
                None
            }
        };
        let waker = state.1.take();
        drop(state);
        drop(dropped);
        self.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether it has ended and what came of it has not been taken.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.lock().0, State::Ended(_))
    }

    /// Blocks until it has ended, or `until`.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Option<Done> {
        let mut state = self.lock();
        loop {
            match std::mem::replace(&mut state.0, State::Gone) {
                State::Ended(done) => return Some(done),
                State::Gone => return None,
                other => state.0 = other,
            }
            state = match until {
                None => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// For a future.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Option<Done>> {
        let mut state = self.lock();
        match std::mem::replace(&mut state.0, State::Gone) {
            State::Ended(done) => Poll::Ready(Some(done)),
            State::Gone => Poll::Ready(None),
            other => {
                state.0 = other;
                if !state.1.as_ref().is_some_and(|known| known.will_wake(waker)) {
                    state.1 = Some(waker.clone());
                }
                Poll::Pending
            }
        }
    }

    /// Nobody will ask what came of it. Whether it has not ended yet.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.lock();
        let (is_pending, dropped) = match std::mem::replace(&mut state.0, State::Gone) {
            State::Ended(done) => (false, Some(done)),
            State::Gone => (false, None),
            queued @ State::Queued(_) => {
                // The progress thread will find it, and see that it is cancelled.
                state.0 = queued;
                state.2 = true;
                (false, None)
            }
            State::Running(handle) => {
                state.0 = State::Running(handle);
                (true, None)
            }
            State::Taken => (true, None),
        };
        drop(state);
        drop(dropped);
        is_pending
    }
}
