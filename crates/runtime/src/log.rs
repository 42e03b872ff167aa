//! Writes the log of this process beside a job, so that the job can be resumed after a kill. It takes what threads have noted as bytes: facts
//! and their meaning are those of `atta-ledger` and of the caller. It reads no log.
//!
//! ```text
//!   workers note facts ──▶ Facts::take ──▶ one frame ──▶ pwrite at the end          thread 1: each second
//!                              ▲                          │                         any thread: write_now
//!   write_now, each second ────┘                          ▼
//!                                                     fdatasync                     thread 2: 5 s after the first write, or when
//!                                                                                   too much is not on storage
//! ```
//!
//! Frames are taken and written under one lock, so they are in order. A sync runs without it: frames are written while a sync hangs, up to
//! [`LogLimits::unsynced_bytes`]. They stay in memory until a sync covers them. A failed write or sync is not repeated, because the kernel may
//! have dropped the pages: the log goes on in a new file, once (`log/journal.rs`).

pub(crate) mod file;
mod journal;
pub(crate) mod outcome;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atta_ledger::Key;

use crate::stop::Stop;
use file::{Calls, LaterLog, LogFile};
use journal::Journal;
use outcome::{LogError, LogWritten};

/// What the threads of a job have noted.
pub trait Facts: Sync {
    /// Takes what all threads have noted, as sections of one frame. One thread calls it at a time. It must not wait for a
    /// [`LogHandle::write_now`].
    fn take(&self) -> Vec<Vec<u8>>;

    /// Whether [`take`](Self::take) has left something that does not fit in a frame with the rest.
    fn has_more(&self) -> bool {
        false
    }
}

/// When a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Time between two frames.
    pub frame_every: Duration,
    /// Time from the first write that no sync covers to the next sync.
    pub sync_every: Duration,
    /// With more bytes that may not be on storage, the next frame waits for a sync. The log holds them in memory, and one frame more.
    pub unsynced_bytes: u64,
}

impl Default for LogLimits {
    /// 1 s, 5 s, 64 MiB.
    fn default() -> Self {
        Self {
            frame_every: Duration::from_secs(1),
            sync_every: Duration::from_secs(5),
            unsynced_bytes: 64 << 20,
        }
    }
}

impl LogLimits {
    /// For ranks that go on when others die: frames each 200 ms, as what a dead rank has not written is done again.
    #[must_use]
    pub fn where_ranks_survive() -> Self {
        Self { frame_every: Duration::from_millis(200), ..Self::default() }
    }
}

/// What is logged, and how.
#[derive(Clone, Copy)]
pub struct Logging<'a> {
    /// What the threads have noted.
    pub facts: &'a dyn Facts,
    /// Set when the disk is full or the log has failed.
    pub stop: &'a Stop,
    /// When the log is written.
    pub limits: LogLimits,
}

/// A log that is being written, for the threads of its job.
pub struct LogHandle<'a> {
    file: &'a dyn Calls,
    write_now: &'a (dyn Fn() -> Result<(), LogError> + Sync),
    sync_now: &'a (dyn Fn() -> Result<(), LogError> + Sync),
}

impl LogHandle<'_> {
    /// Waits until everything that was noted before the call is in the file. It may not be on storage. The caller holds no lock that
    /// [`Facts::take`] takes.
    ///
    /// # Errors
    /// The log has failed: what was noted may not be in the file, and nothing more is written.
    pub fn write_now(&self) -> Result<(), LogError> {
        (self.write_now)()
    }

    /// Whether there is a log. One that has not begun begins now.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.file.begin()
    }

    /// If there is no log yet, none begins any more.
    pub fn cancel(&self) {
        self.file.cancel();
    }

    /// As [`write_now`](Self::write_now); it is also on storage.
    ///
    /// # Errors
    /// As `write_now`.
    pub fn sync_now(&self) -> Result<(), LogError> {
        (self.write_now)().and_then(|()| (self.sync_now)())
    }
}

/// The log of a process.
#[derive(Debug)]
pub enum Log {
    /// Its file is there.
    Now(LogFile),
    /// Its file is created by the first frame: after [`LogLimits::frame_every`], on request, or at the end of a job that was stopped.
    Later(LaterLog),
}

impl From<LogFile> for Log {
    fn from(file: LogFile) -> Self {
        Self::Now(file)
    }
}

impl From<LaterLog> for Log {
    fn from(later: LaterLog) -> Self {
        Self::Later(later)
    }
}

/// Runs `body` on the calling thread while two others write its log. At the end, a last frame is written, and all of the log is synced.
/// Returns the result of `body`, and statistics of the log.
///
/// # Errors
/// The log has failed. The request to stop was made at that time; `body` went on without a log.
///
/// # Panics
/// No thread can be started; or `body` or [`Facts::take`] panicked.
pub fn with_log<T>(
    log: impl Into<Log>,
    logging: Logging<'_>,
    body: impl FnOnce(&LogHandle<'_>) -> T,
) -> (T, Result<LogWritten, LogError>) {
    let (file, key): (Arc<dyn Calls>, Key) = match log.into() {
        Log::Now(file) => {
            let key = file.key;
            (Arc::new(file), key)
        }
        Log::Later(later) => {
            let key = later.key;
            (Arc::new(later), key)
        }
    };
    write_beside((file, key), logging, body)
}

fn write_beside<T>(
    (file, key): (Arc<dyn Calls>, Key),
    logging: Logging<'_>,
    body: impl FnOnce(&LogHandle<'_>) -> T,
) -> (T, Result<LogWritten, LogError>) {
    let journal = Journal::new(Arc::clone(&file), key, logging.stop);
    let state = Mutex::new(State { journal, is_over: false });
    let writing = Writing { logging, state, changed: Condvar::new() };
    let result = std::thread::scope(|scope| {
        let _over = Over(&writing);
        scope.spawn(|| writing.write_frames());
        scope.spawn(|| writing.sync_frames());
        let (write_now, sync_now) = (&|| writing.write_now(), &|| writing.wait_for_sync());
        let result = body(&LogHandle { file: &*file, write_now, sync_now });
        // A job that was stopped has a log, although nothing may be noted.
        if file.is_begun() || logging.stop.is_set() && file.begin() {
            // The journal keeps the error.
            while writing.write_now().is_ok() && logging.facts.has_more() {}
        }
        result
    });
    let state = writing.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    (result, state.journal.finish())
}

/// What the threads share.
struct Writing<'a> {
    logging: Logging<'a>,
    state: Mutex<State<'a>>,
    /// Something was written or synced, the log has failed, or all is over.
    changed: Condvar,
}

struct State<'a> {
    journal: Journal<'a>,
    is_over: bool,
}

/// Ends the threads when it is dropped, also by a panic.
struct Over<'w, 'a>(&'w Writing<'a>);

impl Drop for Over<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl State<'_> {
    /// Whether there is nothing left to do for the threads.
    fn is_ended(&self) -> bool {
        self.is_over || self.journal.is_failed()
    }
}

impl<'a> Writing<'a> {
    fn write_frames(&self) {
        loop {
            let waited =
                self.wait_up_to(self.lock(), self.logging.limits.frame_every, |state| !state.is_ended());
            if waited.is_ended() {
                return;
            }
            drop(waited);
            // The journal keeps the error.
            let _ = self.write_now();
        }
    }

    fn sync_frames(&self) {
        loop {
            let is_synced = |state: &State<'a>| !state.is_ended() && state.journal.unsynced_bytes() == 0;
            let state = self.wait(self.lock(), is_synced);
            let is_early = |state: &State<'a>| !state.is_ended() && !state.journal.is_sync_due;
            let mut state = self.wait_up_to(state, self.logging.limits.sync_every, is_early);
            if state.is_ended() {
                return;
            }
            let syncing = state.journal.begin_sync();
            drop(state);
            let synced = syncing.run();
            // The journal keeps the error.
            let _ = self.lock().journal.end_sync(&synced);
            self.changed.notify_all();
        }
    }

    fn write_now(&self) -> Result<(), LogError> {
        let mut state = self.wait_for_room(self.lock());
        // Nothing is taken that cannot be written.
        state.journal.check()?;
        let written = state.journal.write(self.logging.facts.take());
        drop(state);
        self.changed.notify_all();
        written
    }

    /// Waits until all that is written is on storage.
    fn wait_for_sync(&self) -> Result<(), LogError> {
        let mut state = self.lock();
        let end = state.journal.end();
        state.journal.is_sync_due = state.journal.unsynced_bytes() > 0;
        self.changed.notify_all();
        let is_unsynced = |state: &State<'a>| !state.is_ended() && !state.journal.is_synced(end);
        self.wait(state, is_unsynced).journal.check()
    }

    /// Waits until another frame may stay in memory.
    fn wait_for_room<'s>(&'s self, mut state: MutexGuard<'s, State<'a>>) -> MutexGuard<'s, State<'a>> {
        while !state.journal.is_failed()
            && state.journal.unsynced_bytes() > self.logging.limits.unsynced_bytes
        {
            state.journal.is_sync_due = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn wait<'s>(
        &'s self,
        state: MutexGuard<'s, State<'a>>,
        while_this: impl Fn(&State<'a>) -> bool,
    ) -> MutexGuard<'s, State<'a>> {
        let waited = self.changed.wait_while(state, |state| while_this(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_up_to<'s>(
        &'s self,
        state: MutexGuard<'s, State<'a>>,
        at_most: Duration,
        while_this: impl Fn(&State<'a>) -> bool,
    ) -> MutexGuard<'s, State<'a>> {
        let waited = self.changed.wait_timeout_while(state, at_most, |state| while_this(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
