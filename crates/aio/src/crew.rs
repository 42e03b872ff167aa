//! A queue that threads serve, and the threads. The caller defines how items are processed.
//!
//! A push wakes a thread only if no other thread is waking up: that thread wakes the next one if there is more. So a burst of
//! items takes a few system calls, not one per item.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// See the head of this file.
pub(crate) struct Crew<T> {
    state: Mutex<State<T>>,
    work: Condvar,
}

struct State<T> {
    queued: VecDeque<T>,
    /// Threads that sleep.
    idle: usize,
    /// Threads that have been woken, and do not run yet.
    called: usize,
    is_over: bool,
}

impl<T> Crew<T> {
    pub(crate) fn new() -> Self {
        let state = State { queued: VecDeque::new(), idle: 0, called: 0, is_over: false };
        Self { state: Mutex::new(state), work: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item. Returns whether more items wait than threads sleep, so that one more thread would help.
    pub(crate) fn push(&self, item: T) -> bool {
        let mut state = self.lock();
        state.queued.push_back(item);
        let is_short = state.queued.len() > state.idle;
        self.call(state);
        is_short
    }

    /// Wakes a thread, if there is work for one and none is waking up.
    fn call(&self, mut state: MutexGuard<'_, State<T>>) {
        if !state.queued.is_empty() && state.called == 0 && state.idle > 0 {
            state.called = 1;
            drop(state);
            self.work.notify_one();
        }
    }

    /// Returns the next item to a thread, once there is one. `None`: no more will come.
    pub(crate) fn next(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.queued.pop_front() {
                self.call(state);
                return Some(item);
            }
            if state.is_over {
                return None;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            // After a spurious wake-up, the thread that was called finds nothing and sleeps on.
            state.called = state.called.saturating_sub(1);
        }
    }

    /// Removes an item that no thread has taken.
    pub(crate) fn take_back(&self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let mut state = self.lock();
        let at = state.queued.iter().position(is_it)?;
        state.queued.remove(at)
    }

    /// Ends the threads once nothing is queued.
    pub(crate) fn close(&self) {
        self.lock().is_over = true;
        self.work.notify_all();
    }

    /// The number of items that no thread has taken.
    pub(crate) fn queued(&self) -> usize {
        self.lock().queued.len()
    }
}

/// Starts a thread that blocks all signals except those of its own faults, and so leaves them to the program's threads. Do not
/// use it for threads that run code of the program: a child process created there would inherit the blocked signals.
///
/// # Errors
/// There are too many threads.
pub(crate) fn start(name: &str, serve: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call fills the set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS] {
        // SAFETY: the set has been filled.
        unsafe { libc::sigdelset(all.as_mut_ptr(), fault) };
    }
    let before = set_mask(libc::SIG_SETMASK, all.as_ptr());
    // A thread inherits the signal mask of its creator.
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(serve);
    set_mask(libc::SIG_SETMASK, &raw const before);
    started
}

/// Changes the thread's signal mask, and returns the old one.
fn set_mask(how: libc::c_int, set: *const libc::sigset_t) -> libc::sigset_t {
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` is null, or a set that the caller has filled; the other one belongs to this function.
    unsafe { libc::pthread_sigmask(how, set, before.as_mut_ptr()) };
    // SAFETY: any bits are a set, and these are zero or were written by the call.
    unsafe { before.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_item_is_served_once() {
        for threads in 1..=4 {
            let crew = Arc::new(Crew::new());
            let served = Arc::new(AtomicUsize::new(0));
            let members: Vec<_> = (0..threads)
                .map(|_| {
                    let (crew, served) = (Arc::clone(&crew), Arc::clone(&served));
                    let serve = move || {
                        while let Some(number) = crew.next() {
                            served.fetch_add(number, Ordering::Relaxed);
                        }
                    };
                    start("test", serve).unwrap()
                })
                .collect();
            let mut sum = 0;
            for number in 0..10_000 {
                crew.push(number);
                sum += number;
                if number % 1000 == 0 {
                    // Let them fall asleep.
                    while crew.queued() > 0 || crew.lock().idle < threads {
                        std::thread::yield_now();
                    }
                }
            }
            crew.close();
            members.into_iter().for_each(|member| member.join().unwrap());
            assert_eq!(served.load(Ordering::Relaxed), sum, "{threads} threads");
        }
    }

    #[test]
    fn two_waiting_callers_are_served_with_threads() {
        let crew = Arc::new(Crew::<Arc<std::sync::Barrier>>::new());
        let members: Vec<_> = (0..2)
            .map(|_| {
                let crew = Arc::clone(&crew);
                let serve = move || {
                    while let Some(barrier) = crew.next() {
                        barrier.wait();
                    }
                };
                start("test", serve).unwrap()
            })
            .collect();
        for _ in 0..2000 {
            let barrier = Arc::new(std::sync::Barrier::new(2));
            crew.push(Arc::clone(&barrier));
            crew.push(barrier);
        }
        crew.close();
        members.into_iter().for_each(|member| member.join().unwrap());
    }

    #[test]
    fn threads_leave_signals_to_the_program() {
        let blocked = || {
            let set = set_mask(libc::SIG_BLOCK, std::ptr::null());
            // SAFETY: the set has been filled.
            let is_member = |signal| unsafe { libc::sigismember(&raw const set, signal) == 1 };
            [libc::SIGUSR1, libc::SIGTERM, libc::SIGSEGV, libc::SIGBUS].map(is_member)
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        start("test", move || sender.send(blocked()).unwrap()).unwrap().join().unwrap();
        assert_eq!(receiver.recv().unwrap(), [true, true, false, false]);
        assert_eq!(blocked(), [false; 4]);
    }
}
