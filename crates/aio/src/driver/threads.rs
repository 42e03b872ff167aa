//! A driver of threads that make system calls, for systems without a ring and for operations without an opcode. Threads start
//! when there is work for them, and stay. An operation that a thread has started cannot be interrupted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atta_entry::Errno;

use super::{Driver, Ended, Token, Wake};
use crate::Op;
use crate::crew::{self, Crew};
use crate::perform::perform;

/// Threads and their shared state.
pub struct Threads {
    crew: Arc<Crew<(Token, Box<Op>)>>,
    ends: Arc<Ends>,
    /// The number of threads.
    threads: usize,
    most: usize,
    started: Instant,
}

/// Ended operations, and the notification of the owner.
struct Ends {
    state: Mutex<State>,
    /// Notified when an operation has ended or the owner is to wake.
    notified: Condvar,
    /// Rung instead of `notified` if the owner waits elsewhere.
    bell: Option<Arc<dyn Wake>>,
    /// Whether the list is not empty: readable without the lock.
    are_there: AtomicBool,
}

#[derive(Default)]
struct State {
    ended: Vec<Ended>,
    is_woken: bool,
    /// The owner waits.
    is_awaited: bool,
}

impl Ends {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, ended: Ended) {
        let mut state = self.lock();
        state.ended.push(ended);
        self.are_there.store(true, Ordering::Release);
        self.notify(state);
    }

    /// Notifies the owner, if it waits and has not been notified.
    fn notify(&self, mut state: MutexGuard<'_, State>) {
        if !std::mem::take(&mut state.is_awaited) {
            return;
        }
        drop(state);
        match &self.bell {
            Some(bell) => bell.wake(),
            None => self.notified.notify_one(),
        }
    }

    fn take(&self, ended: &mut Vec<Ended>) {
        // An operation that is pushed after this triggers a notification, or is found the next time.
        if self.are_there.load(Ordering::Acquire) {
            let mut state = self.lock();
            self.are_there.store(false, Ordering::Relaxed);
            ended.append(&mut state.ended);
        }
    }
}

impl Wake for Ends {
    fn wake(&self) {
        let mut state = self.lock();
        state.is_woken = true;
        self.notify(state);
    }
}

impl Threads {
    /// Creates a pool of up to this many threads, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self::with_bell(most, None)
    }

    /// As [`new`](Self::new), but rings `bell` when an operation has ended, for an owner that [waits](Self::will_wait).
    pub(crate) fn with_bell(most: usize, bell: Option<Arc<dyn Wake>>) -> Self {
        let ends = Ends {
            state: Mutex::default(),
            notified: Condvar::new(),
            bell,
            are_there: AtomicBool::new(false),
        };
        let (crew, ends) = (Arc::new(Crew::new()), Arc::new(ends));
        Self { crew, ends, threads: 0, most: most.max(1), started: Instant::now() }
    }

    /// Takes ended operations, without waiting.
    pub(crate) fn reap(&self, ended: &mut Vec<Ended>) {
        self.ends.take(ended);
    }

    /// Announces that the owner waits for the bell from now on. Returns false if an operation has ended already.
    pub(crate) fn will_wait(&self) -> bool {
        let mut state = self.ends.lock();
        state.is_awaited = state.ended.is_empty();
        state.is_awaited
    }

    /// Drops operations that no thread has started, without a result.
    pub(crate) fn forget_queued(&self) {
        while self.crew.take_back(|_| true).is_some() {}
    }

    fn add_thread(&mut self) {
        let (crew, ends) = (Arc::clone(&self.crew), Arc::clone(&self.ends));
        let serve = move || {
            while let Some((token, mut op)) = crew.next() {
                let outcome = perform(&mut op);
                ends.push(Ended::new(token, op, outcome));
            }
        };
        match crew::start("atta-aio", serve) {
            Ok(_) => self.threads += 1,
            // The existing threads will carry it out.
            Err(_) if self.threads > 0 => {}
            Err(error) => {
                let errno = Errno(error.raw_os_error().unwrap_or(libc::EAGAIN));
                if let Some((token, op)) = self.crew.take_back(|_| true) {
                    self.ends.push(Ended::new(token, op, Err(errno)));
                }
            }
        }
    }
}

impl Driver for Threads {
    fn start(&mut self, token: Token, op: Box<Op>) {
        let is_short = self.crew.push((token, op));
        if is_short && self.threads < self.most {
            self.add_thread();
        }
    }

    fn cancel(&mut self, token: Token) {
        if let Some((token, op)) = self.crew.take_back(|(queued, _)| *queued == token) {
            self.ends.push(Ended::new(token, op, Err(Errno(libc::ECANCELED))));
        }
    }

    fn wait(&mut self, at_most: Option<Duration>, ended: &mut Vec<Ended>) {
        self.ends.take(ended);
        if !ended.is_empty() || at_most == Some(Duration::ZERO) {
            return;
        }
        let until = at_most.map(|at_most| Instant::now() + at_most);
        let mut state = self.ends.lock();
        while state.ended.is_empty() && !state.is_woken {
            state.is_awaited = true;
            state = match until {
                None => self.ends.notified.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    self.ends.notified.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        (state.is_awaited, state.is_woken) = (false, false);
        self.ends.are_there.store(false, Ordering::Relaxed);
        ended.append(&mut state.ended);
    }

    fn is_kernel(&self) -> bool {
        true
    }

    fn depth(&self) -> usize {
        self.most
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.ends) as Arc<dyn Wake>
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Drop for Threads {
    /// Threads end once nothing is queued. One that hangs in a system call stays, with its memory.
    fn drop(&mut self) {
        self.crew.close();
    }
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (threads, queued) = (self.threads, self.crew.queued());
        f.debug_struct("Threads").field("threads", &threads).field("queued", &queued).finish_non_exhaustive()
    }
}
