//! A driver of threads that make system calls: where there is no ring, and for operations that a ring does not know. Threads
//! start when there is work for them and stay. An operation that a thread has begun cannot be interrupted.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atta_entry::Errno;

use super::{Driver, Ended, Token, Wake};
use crate::Op;
use crate::perform::perform;

/// Threads and what they share.
pub struct Threads {
    shared: Arc<Shared>,
    most: usize,
    started: Instant,
}

struct Shared {
    state: Mutex<State>,
    /// For threads: there is work, or no more will come.
    work: Condvar,
    /// For the owner: something has ended, or somebody wakes it.
    ended: Condvar,
    /// Rung besides, where the owner waits for something else.
    bell: Option<Arc<dyn Wake>>,
}

#[derive(Default)]
struct State {
    queued: VecDeque<(Token, Box<Op>)>,
    ended: Vec<Ended>,
    threads: usize,
    idle: usize,
    is_woken: bool,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some((token, mut op)) = state.queued.pop_front() {
                drop(state);
                let outcome = perform(&mut op);
                state = self.lock();
                let is_first = state.ended.is_empty();
                state.ended.push(Ended::new(token, op, outcome));
                if is_first {
                    self.ended.notify_one();
                    if let Some(bell) = &self.bell {
                        bell.wake();
                    }
                }
                continue;
            }
            if state.is_over {
                return;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Wake for Shared {
    fn wake(&self) {
        self.lock().is_woken = true;
        self.ended.notify_one();
    }
}

impl Threads {
    /// Up to so many threads, one at least.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self::with_bell(most, None)
    }

    /// The same, and `bell` rings when something has ended.
    pub(crate) fn with_bell(most: usize, bell: Option<Arc<dyn Wake>>) -> Self {
        let shared = Shared { state: Mutex::default(), work: Condvar::new(), ended: Condvar::new(), bell };
        Self { shared: Arc::new(shared), most: most.max(1), started: Instant::now() }
    }

    /// Takes what has ended, without waiting.
    pub(crate) fn reap(&self, ended: &mut Vec<Ended>) {
        ended.append(&mut self.shared.lock().ended);
    }
}

impl Driver for Threads {
    fn start(&mut self, token: Token, op: Box<Op>) {
        let mut state = self.shared.lock();
        state.queued.push_back((token, op));
        if state.idle >= state.queued.len() {
            drop(state);
            return self.shared.work.notify_one();
        }
        if state.threads == self.most {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("atta-aio".to_owned()).spawn(move || shared.serve());
        match thread {
            Ok(_) => state.threads += 1,
            // Those that are there will do it.
            Err(_) if state.threads > 0 => {}
            Err(error) => {
                let errno = Errno(error.raw_os_error().unwrap_or(libc::EAGAIN));
                if let Some((token, op)) = state.queued.pop_back() {
                    state.ended.push(Ended::new(token, op, Err(errno)));
                }
                // Nobody else would ring.
                state.is_woken = true;
                if let Some(bell) = &self.shared.bell {
                    bell.wake();
                }
            }
        }
    }

    fn cancel(&mut self, token: Token) {
        let mut state = self.shared.lock();
        let Some(at) = state.queued.iter().position(|(queued, _)| *queued == token) else { return };
        if let Some((token, op)) = state.queued.remove(at) {
            state.ended.push(Ended::new(token, op, Err(Errno(libc::ECANCELED))));
            state.is_woken = true;
            if let Some(bell) = &self.shared.bell {
                bell.wake();
            }
        }
    }

    fn wait(&mut self, at_most: Option<Duration>, ended: &mut Vec<Ended>) {
        let until = at_most.map(|at_most| Instant::now() + at_most);
        let mut state = self.shared.lock();
        while state.ended.is_empty() && !state.is_woken {
            state = match until {
                None => self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    self.shared.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.is_woken = false;
        ended.append(&mut state.ended);
    }

    fn is_kernel(&self) -> bool {
        true
    }

    fn depth(&self) -> usize {
        self.most
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.shared) as Arc<dyn Wake>
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Drop for Threads {
    /// Threads end once nothing is queued. One that hangs in a system call is left behind, with what it uses.
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.work.notify_all();
    }
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.shared.lock();
        let (threads, queued) = (state.threads, state.queued.len());
        f.debug_struct("Threads").field("threads", &threads).field("queued", &queued).finish_non_exhaustive()
    }
}
