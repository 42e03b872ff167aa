//! The stack of work that the threads of `walk-limit` share: one mutex, one condition variable.
//!
//! ```text
//!   worker --push(children, batches)--> [ ..., work ] --next()--> worker
//! ```
//!
//! Last in, first out keeps the walk deep before it is wide, and so bounds the descriptors that queued directories
//! hold. The walk is over when nothing is queued and nothing that was taken can queue more.
//!
//! It is not fair, and one lock for all is not meant for many cores: the lock is taken once for each directory.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// One piece of work. A shared descriptor is closed with its last use.
pub(crate) enum Work {
    /// A directory to open below `parent` (below the working directory if there is none) and to read.
    Directory { parent: Option<Arc<OwnedFd>>, name: CString },
    /// Names of `directory`, each ended by a NUL, to be stat'ed.
    Names { directory: Arc<OwnedFd>, names: Vec<u8> },
}

/// The shared stack.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    stack: Vec<Work>,
    /// Work that is queued or in some worker's hands.
    unfinished: usize,
    /// Waking is a system call even if nobody sleeps, so the sleepers are counted.
    sleepers: usize,
}

impl Queue {
    /// A queue with one piece of work.
    pub(crate) fn new(first: Work) -> Self {
        let state = State { stack: vec![first], unfinished: 1, sleepers: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Queues all of `work` and leaves it empty, its memory kept.
    pub(crate) fn push(&self, work: &mut Vec<Work>) {
        let mut state = self.lock();
        state.unfinished += work.len();
        let wake_all = work.len() > 1;
        state.stack.append(work);
        match (state.sleepers, wake_all) {
            (0, _) => {}
            (_, true) => self.changed.notify_all(),
            (_, false) => self.changed.notify_one(),
        }
    }

    /// Waits for work; `None` once all of it is done.
    pub(crate) fn first(&self) -> Option<Work> {
        self.take(self.lock())
    }

    /// Tells that one piece of work is done and waits for another, under one lock; `None` once all of it is done.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        state.unfinished -= 1;
        if state.unfinished == 0 {
            self.changed.notify_all();
        }
        self.take(state)
    }

    fn take(&self, mut state: MutexGuard<'_, State>) -> Option<Work> {
        while state.stack.is_empty() && state.unfinished > 0 {
            state.sleepers += 1;
            state = self.changed.wait(state).expect("no worker panics inside the lock");
            state.sleepers -= 1;
        }
        state.stack.pop()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no worker panics inside the lock")
    }
}
