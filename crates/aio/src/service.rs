//! Operations from any thread: a progress thread with its own [`Proactor`], and threads that run continuations. The proactor
//! and its driver carry the operations out.
//!
//! ```text
//!   any thread ── submit ──▶ inbox (no lock) ──▶ progress thread: Proactor ──▶ driver
//!       ▲                                             │
//!       │ waits, or polls a future                    ├──▶ cell: the result of one operation
//!       └─────────────────────────────────────────────└──▶ executor: continuations on threads of their own
//! ```
//!
//! The progress thread polls for [`Options::spin`] before it sleeps, so that under load no submitter has to wake it, which
//! takes a system call; [`Service::counts`] returns the number of such wake-ups. `patience.rs` defines when polling is worth
//! it, and `sleep.rs` explains why no wake-up is lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cell::{Begun, Cell, Message, Request, Then};
use crate::crew;
use crate::done::Done;
use crate::driver::ring::{Ring, RingOptions};
use crate::driver::threads::Threads;
use crate::driver::{Driver, Wake};
use crate::executor::{self, Executor};
use crate::fork::Process;
use crate::inbox::{Inbox, Letter, Node};
use crate::proactor::{Limits, Work};
use crate::sleep::{Duty, Sleep};

mod pending;
mod progress;
mod tracked;
pub use pending::Pending;
use progress::{Progress, wake};
pub use tracked::Tracked;

/// The means to carry operations out.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The kernel's ring if available, else threads.
    Best(RingOptions),
    /// The kernel's ring.
    Ring(RingOptions),
    /// This number of threads.
    Threads(usize),
}

/// The options of a service.
#[derive(Clone, Debug)]
pub struct Options {
    /// The means to carry operations out.
    pub backend: Backend,
    /// Limits on running operations, and the grace period of cancelled ones.
    pub limits: Limits,
    /// The maximum number of pending operations; further ones are refused with `EAGAIN`. `None`: unlimited.
    pub pending: Option<usize>,
    /// The number of threads that run continuations; zero: the progress thread runs them.
    pub continuation_threads: usize,
    /// The longest time that the progress thread polls before it sleeps. It does not poll if recent work came at longer
    /// intervals. A thread that blocks for an operation polls too, for 100 us at most. Both yield to other threads while they
    /// poll.
    pub spin: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: Backend::Best(RingOptions::default()),
            limits: Limits::default(),
            pending: None,
            continuation_threads: 2,
            spin: Duration::from_micros(100),
        }
    }
}

/// The terms of a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The time limit, after which the operation ends with `ETIMEDOUT`; `None`: unlimited.
    pub within: Option<Duration>,
    /// The position that it uses: see [`Service::add_position`].
    pub position: Option<u64>,
}

/// Why an operation was not submitted. It holds the work.
#[derive(Debug)]
pub enum Refused {
    /// The maximum number of pending operations is reached (`EAGAIN`).
    Full(Work),
    /// The service has been shut down (`ESHUTDOWN`).
    Closed(Work),
    /// This process is a copy, by `fork`, of the process that created the service (`EOWNERDEAD`).
    Forked(Work),
}

impl Refused {
    /// The corresponding error number.
    #[must_use]
    pub fn errno(&self) -> atta_entry::Errno {
        atta_entry::Errno(match self {
            Self::Full(_) => libc::EAGAIN,
            Self::Closed(_) => libc::ESHUTDOWN,
            Self::Forked(_) => libc::EOWNERDEAD,
        })
    }

    /// The work that was not submitted.
    #[must_use]
    pub fn into_work(self) -> Work {
        match self {
            Self::Full(work) | Self::Closed(work) | Self::Forked(work) => work,
        }
    }
}

/// Event counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// Submitted operations.
    pub submitted: u64,
    /// Submissions that had to wake the progress thread.
    pub woken: u64,
    /// Operations that the waiting thread carried out itself.
    pub run_by_waiter: u64,
}

/// The longest time that a waiting thread polls before it sleeps, since waiting may not be its only work.
const WAITER_SPIN: Duration = Duration::from_micros(100);

/// Separates fields of different writers into different cache lines.
struct Gap {
    _bytes: [u8; 128],
}

const GAP: Gap = Gap { _bytes: [0; 128] };

/// This order lets a submission touch few cache lines, which are cold after long transfers.
#[repr(C)]
struct Shared {
    /// Written by submitters, as is the reference count in front of it.
    submitted: AtomicU64,
    _submitters: Gap,
    /// Written by submitters, and read by the progress thread all the time.
    inbox: Inbox<Cell>,
    _inbox: Gap,
    /// Written by the thread that ends operations, mostly the progress thread.
    ended: AtomicU64,
    run_by_waiter: AtomicU64,
    _enders: Gap,
    /// Written when the progress thread falls asleep or is woken. The fields below are rarely written.
    sleep: Sleep,
    is_closed: AtomicBool,
    /// A waiting thread may carry an operation out.
    is_kernel: bool,
    waker: Arc<dyn Wake>,
    pending_most: Option<u64>,
    woken: AtomicU64,
    /// The longest time that waiting threads poll before they sleep.
    spin: Duration,
    next_position: AtomicU64,
    process: Process,
    executor: executor::Identity,
}

/// See the head of this file. On drop it cancels pending operations and waits for their end. If one of its own continuations
/// drops it, it does not wait.
pub struct Service {
    shared: Arc<Shared>,
    progress: Option<JoinHandle<()>>,
}

impl Shared {
    fn notify(&self, message: Message) {
        self.send(Cell::letter(message));
    }

    fn send(&self, letter: Letter<Cell>) {
        self.inbox.push(letter);
        match self.sleep.duty() {
            Duty::None => {}
            Duty::Wake => {
                self.woken.fetch_add(1, Ordering::Relaxed);
                self.waker.wake();
            }
            Duty::Take => self.refuse(),
        }
    }

    /// Ends operations that arrived after the progress thread had ended.
    fn refuse(&self) {
        self.inbox.take(|letter| {
            let cell = letter.node();
            if let Begun::Message(Message::Submit(Request { work, .. }), then) = cell.begin(false) {
                self.end_unbegun(cell, work, then, libc::ESHUTDOWN);
            }
        });
    }

    /// Ends an operation that was not started.
    fn end_unbegun(&self, cell: &Cell, work: Work, then: Then, errno: i32) {
        let op = match work {
            Work::Op(op) => Some(op),
            Work::Machine(_) => None,
        };
        self.count_end();
        let done = Done::new(Err(atta_entry::Errno(errno)), op);
        match then {
            Then::Apart(then) | Then::Inline(then) => executor::run(move || then(done)),
            Then::Cell => {
                if let Some(waiter) = cell.end(done) {
                    wake(waiter);
                }
            }
        }
    }

    fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    fn pending(&self) -> u64 {
        loop {
            // Read both counters at one moment: an operation that ends in between must not count as an additional one.
            let ended = self.ended();
            let submitted = self.submitted.load(Ordering::Acquire);
            if self.ended() == ended {
                return submitted.saturating_sub(ended);
            }
        }
    }

    fn count_end(&self) {
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// Counts the end of an operation that the waiting thread carried out.
    fn count_help(&self) {
        self.run_by_waiter.fetch_add(1, Ordering::Relaxed);
        self.count_end();
    }

    /// Counts one more operation, if the limit permits.
    fn admit(&self, work: Work) -> Result<Work, Refused> {
        if !self.process.is_here() {
            return Err(Refused::Forked(work));
        }
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Refused::Closed(work));
        }
        let before = self.submitted.fetch_add(1, Ordering::Relaxed);
        if let Some(most) = self.pending_most
            && before.saturating_sub(self.ended()) >= most
        {
            self.submitted.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Full(work));
        }
        Ok(work)
    }
}

impl Service {
    /// Starts a service.
    ///
    /// # Errors
    /// A ring was requested and is not available, or threads or descriptors run out.
    pub fn new(options: &Options) -> io::Result<Self> {
        let backend = options.backend.clone();
        // A ring belongs to the thread that creates it.
        Self::start(options, move || match &backend {
            Backend::Ring(ring) => Ok(Box::new(Ring::new(ring)?) as Box<dyn Driver>),
            Backend::Threads(threads) => Ok(Box::new(Threads::new(*threads)) as Box<dyn Driver>),
            Backend::Best(ring) => match Ring::new(ring) {
                Ok(ring) => Ok(Box::new(ring) as Box<dyn Driver>),
                Err(_) => Ok(Box::new(Threads::new(ring.threads)) as Box<dyn Driver>),
            },
        })
    }

    /// Starts a service on a driver that `make` creates, on the progress thread.
    ///
    /// # Errors
    /// As [`Service::new`], and those of `make`.
    pub fn start(
        options: &Options,
        make: impl FnOnce() -> io::Result<Box<dyn Driver>> + Send + 'static,
    ) -> io::Result<Self> {
        let process = Process::here();
        let executor = Executor::new(options.continuation_threads)?;
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let (limits, spin) = (options.limits, options.spin);
        let pending_most = options.pending.map(|most| most as u64);
        let progress = crew::start("atta-progress", move || {
            let driver = match make() {
                Ok(driver) => driver,
                Err(error) => return drop(sender.send(Err(error))),
            };
            let shared = Arc::new(Shared {
                submitted: AtomicU64::new(0),
                _submitters: GAP,
                inbox: Inbox::new(),
                _inbox: GAP,
                ended: AtomicU64::new(0),
                run_by_waiter: AtomicU64::new(0),
                _enders: GAP,
                sleep: Sleep::new(),
                is_closed: AtomicBool::new(false),
                is_kernel: driver.is_kernel(),
                waker: driver.waker(),
                pending_most,
                woken: AtomicU64::new(0),
                spin: spin.min(WAITER_SPIN),
                next_position: AtomicU64::new(1),
                process,
                executor: executor.identity(),
            });
            if sender.send(Ok(Arc::clone(&shared))).is_ok() {
                Progress::new(shared, driver, limits, executor).run(spin);
            }
        })?;
        let shared =
            receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the progress thread ended")))?;
        Ok(Self { shared, progress: Some(progress) })
    }

    /// Submits an operation and returns a [`Pending`] to wait for it.
    ///
    /// # Errors
    /// Nothing was submitted: see [`Refused`].
    pub fn submit(&self, work: impl Into<Work>, call: Call) -> Result<Pending, Refused> {
        let (cell, shared) = self.submit_request(work.into(), call, Then::Cell)?;
        Ok(Pending { cell, shared, is_detached: false })
    }

    /// Submits an operation with a continuation.
    ///
    /// The continuation is called exactly once, on a continuation thread of the service, also when the operation fails, is
    /// late, or is cancelled by a shutdown.
    ///
    /// # Errors
    /// Nothing was submitted, and `then` is not called.
    pub fn submit_then(
        &self,
        work: impl Into<Work>,
        call: Call,
        then: impl FnOnce(Done) + Send + 'static,
    ) -> Result<(), Refused> {
        self.submit_tracked(work, call, false, then).map(drop)
    }

    /// As [`submit_then`](Self::submit_then), but the continuation runs on the progress thread. It must be short, since it
    /// blocks all other progress.
    ///
    /// # Errors
    /// As for [`submit_then`](Self::submit_then).
    pub fn submit_inline(
        &self,
        work: impl Into<Work>,
        call: Call,
        then: impl FnOnce(Done) + Send + 'static,
    ) -> Result<(), Refused> {
        self.submit_tracked(work, call, true, then).map(drop)
    }

    fn submit_request(
        &self,
        work: Work,
        call: Call,
        then: Then,
    ) -> Result<(Arc<Node<Cell>>, Arc<Shared>), Refused> {
        let work = self.shared.admit(work)?;
        let (cell, letter) = Cell::new(Request::new(work, call), then);
        self.shared.send(letter);
        Ok((cell, Arc::clone(&self.shared)))
    }

    /// Adds a position in a file. Operations with this position read, write or move it one after the other, in the order of
    /// submission.
    #[must_use]
    pub fn add_position(&self, offset: u64) -> u64 {
        let position = self.shared.next_position.fetch_add(1, Ordering::Relaxed);
        self.notify(Message::AddPosition(position, offset));
        position
    }

    /// Removes a position once its users have ended; later operations with it end with `EBADF`.
    pub fn remove_position(&self, position: u64) {
        self.notify(Message::RemovePosition(position));
    }

    /// Sends a message to the progress thread, if that is in this process.
    fn notify(&self, message: Message) {
        if self.shared.process.is_here() {
            self.shared.notify(message);
        }
    }

    /// The number of operations that have been submitted and have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        usize::try_from(self.shared.pending()).unwrap_or(usize::MAX)
    }

    /// Returns the event counts.
    #[must_use]
    pub fn counts(&self) -> ServiceCounts {
        ServiceCounts {
            submitted: self.shared.submitted.load(Ordering::Relaxed),
            woken: self.shared.woken.load(Ordering::Relaxed),
            run_by_waiter: self.shared.run_by_waiter.load(Ordering::Relaxed),
        }
    }

    /// Accepts no more operations, and waits for pending operations and their continuations.
    ///
    /// After `within` it cancels the remaining ones. Returns whether all ended without that.
    pub fn shutdown(mut self, within: Option<Duration>) -> bool {
        let until = within.map(|within| Instant::now() + within);
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.notify(Message::Close);
        while self.shared.process.is_here()
            && self.progress.as_ref().is_some_and(|thread| !thread.is_finished())
        {
            if until.is_some_and(|until| Instant::now() >= until) {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        self.progress = None;
        true
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        if !self.shared.process.is_here() {
            // The thread is not in this process.
            return;
        }
        self.shared.notify(Message::CancelAll);
        self.shared.notify(Message::Close);
        if let Some(progress) = self.progress.take()
            && progress.thread().id() != std::thread::current().id()
            && !self.shared.executor.is_here()
        {
            // The thread catches the panics of continuations.
            let _ = progress.join();
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
