//! Syncs files and directories one by one, many at a time, while others are copied: these threads only call `fsync`. Each outcome is
//! taken by a thread that copies. This module opens and renames nothing; for the handling of outcomes see `durable.rs`.
//!
//! ```text
//!   a thread that copies: add ─▶ queue ─▶ a thread of this crew: fsync, close ─▶ done ─▶ a thread that copies: take
//! ```
//!
//! Queued files are open, so the queue is bounded: a thread takes outcomes before it adds to a full queue.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use atta_entry::Errno;
use rustix::fd::OwnedFd;

use crate::copy::results::times::Syncs;
use crate::file::error::{FileError, Step};
use crate::file::retries::close;
use atta_sys::retry;

/// Most threads: at 20 ms a sync they do 6,400 syncs a second.
const THREADS_MOST: usize = 128;
/// The threads only make system calls.
const STACK_BYTES: usize = 128 << 10;

/// A file or directory to be made durable.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Closed afterwards.
    File(OwnedFd),
    Directory(Arc<OwnedFd>),
}

/// The outcome of one sync.
#[derive(Debug)]
pub(crate) struct Synced<T> {
    pub(crate) what: T,
    pub(crate) outcome: Result<(), FileError>,
}

/// The queue, and the threads that sync.
#[derive(Debug)]
pub(crate) struct Syncing<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    most: usize,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    work: Condvar,
    done: Condvar,
    syncs: Arc<Syncs>,
}

#[derive(Debug)]
struct State<T> {
    queued: VecDeque<(Opened, T)>,
    running: usize,
    done: VecDeque<Synced<T>>,
    /// Threads that wait for work.
    idle: usize,
    is_over: bool,
}

impl<T> State<T> {
    fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.running == 0 && self.done.is_empty()
    }
}

impl<T: Send + 'static> Syncing<T> {
    /// Creates a queue of at most `most` entries. Threads are started when they are needed.
    pub(crate) fn new(most: usize, syncs: Arc<Syncs>) -> Self {
        let (queued, done) = (VecDeque::new(), VecDeque::new());
        let state = Mutex::new(State { queued, running: 0, done, idle: 0, is_over: false });
        let shared = Arc::new(Shared { state, work: Condvar::new(), done: Condvar::new(), syncs });
        Self { shared, threads: Mutex::default(), most: most.max(1) }
    }

    /// Whether an outcome should be taken before more is added.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.shared.lock();
        state.queued.len() + state.running + state.done.len() >= self.most
    }

    /// Whether anything is queued, or its outcome was not taken.
    pub(crate) fn has_any(&self) -> bool {
        !self.shared.lock().is_empty()
    }

    /// Adds an entry. If no thread can be started, the caller syncs one at once.
    pub(crate) fn add(&self, opened: Opened, what: T) {
        let is_short = {
            let mut state = self.shared.lock();
            state.queued.push_back((opened, what));
            state.queued.len() > state.idle
        };
        if is_short && !self.start() {
            self.shared.do_one();
        }
        self.shared.work.notify_one();
    }

    /// Starts one more thread, unless there are enough. Returns whether any thread exists.
    fn start(&self) -> bool {
        let mut threads = lock(&self.threads);
        if threads.len() < self.most.min(THREADS_MOST) {
            let shared = Arc::clone(&self.shared);
            let new = std::thread::Builder::new().name("atta-fsync".to_owned()).stack_size(STACK_BYTES);
            threads.extend(new.spawn(move || shared.serve()));
        }
        !threads.is_empty()
    }

    /// Takes an outcome, if there is one.
    pub(crate) fn take(&self) -> Option<Synced<T>> {
        let mut state = self.shared.lock();
        let synced = state.done.pop_front();
        self.shared.wake_if_empty(&state);
        synced
    }

    /// Waits for an outcome and takes it. `None`: nothing is left.
    pub(crate) fn wait(&self) -> Option<Synced<T>> {
        let mut state = self.shared.lock();
        loop {
            if let Some(synced) = state.done.pop_front() {
                self.shared.wake_if_empty(&state);
                return Some(synced);
            }
            if state.is_empty() {
                return None;
            }
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T: Send + 'static> Drop for Syncing<T> {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.work.notify_all();
        for thread in lock(&self.threads).drain(..) {
            // No other thread waits for this one.
            let _ended = thread.join();
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }

    /// Wakes all waiting threads when nothing is left to wait for.
    fn wake_if_empty(&self, state: &State<T>) {
        if state.is_empty() {
            self.done.notify_all();
        }
    }

    /// Syncs one queued entry. Returns whether there was one.
    fn do_one(&self) -> bool {
        let next = {
            let mut state = self.lock();
            let next = state.queued.pop_front();
            state.running += usize::from(next.is_some());
            next
        };
        let Some((opened, what)) = next else { return false };
        let outcome = self.syncs.timed(|| make_durable(opened));
        let mut state = self.lock();
        state.running -= 1;
        state.done.push_back(Synced { what, outcome });
        drop(state);
        self.done.notify_one();
        true
    }

    /// The loop of a thread until the queue is closed.
    fn serve(&self) {
        loop {
            while self.do_one() {}
            let mut state = self.lock();
            while state.queued.is_empty() {
                if state.is_over {
                    return;
                }
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

/// Syncs a file or directory to stable storage, and closes it if it is a file.
pub(crate) fn make_durable(opened: Opened) -> Result<(), FileError> {
    let failed = |errno| FileError::new(Step::Sync, errno);
    match opened {
        Opened::File(file) => {
            let synced = retry(|| rustix::fs::fsync(&file)).map_err(failed);
            // A server may report only on close that it has no space left.
            synced.and(close(file))
        }
        Opened::Directory(directory) => match retry(|| rustix::fs::fsync(&directory)) {
            // The file system does not support `fsync` of directories (fsync(2)).
            Ok(()) | Err(Errno::BADF | Errno::INVAL | Errno::ROFS | Errno::NOSYS | Errno::OPNOTSUPP) => {
                Ok(())
            }
            Err(errno) => Err(failed(errno)),
        },
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syncing(most: usize) -> Syncing<usize> {
        Syncing::new(most, Arc::new(Syncs::default()))
    }

    fn null() -> Opened {
        Opened::File(std::fs::File::open("/dev/null").unwrap().into())
    }

    #[test]
    fn each_outcome_is_taken_once_whoever_waits() {
        let (syncing, scratch) = (syncing(512), atta_testkit::scratch::Scratch::new("syncing").unwrap());
        for number in 0..100 {
            let file = std::fs::File::create(scratch.join(number.to_string())).unwrap();
            syncing.add(Opened::File(file.into()), number);
        }
        let taken = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(Synced { what, outcome }) = syncing.wait() {
                        assert_eq!(outcome, Ok(()));
                        lock(&taken).push(what);
                    }
                });
            }
        });
        let mut taken = taken.into_inner().unwrap();
        taken.sort_unstable();
        assert_eq!(taken, (0..100).collect::<Vec<_>>());
        assert_eq!(syncing.shared.syncs.read().0, 100);
    }

    #[test]
    fn what_is_open_is_bounded() {
        let syncing = syncing(2);
        assert!(!syncing.is_full());
        syncing.add(null(), 1);
        assert!(!syncing.is_full());
        syncing.add(null(), 2);
        assert!(syncing.is_full());
        // `/dev/null` cannot be synced: EINVAL.
        let outcome = syncing.wait().unwrap().outcome;
        assert_eq!(outcome, Err(FileError::new(Step::Sync, Errno::INVAL)));
        assert!(!syncing.is_full());
        assert!(syncing.wait().is_some() && syncing.wait().is_none() && syncing.take().is_none());
        let directory = std::fs::File::open("/proc/self").unwrap();
        assert_eq!(make_durable(Opened::Directory(Arc::new(directory.into()))), Ok(()));
    }
}
