//! Operations for any thread: a progress thread with a [`Proactor`] of its own, and threads that run continuations. How an
//! operation is carried out is the proactor's and its driver's.
//!
//! ```text
//!   any thread ── submit ──▶ inbox (no lock) ──▶ progress thread: Proactor ──▶ driver
//!       ▲                                             │
//!       │ waits, or polls a future                    ├──▶ cell: the result of one operation
//!       └─────────────────────────────────────────────└──▶ executor: continuations on threads of their own
//! ```
//!
//! Before the progress thread sleeps it looks around for [`Options::spin`], so that under load nobody needs to wake it, which
//! takes a system call; [`Service::counts`] tells how often somebody did. `sleep.rs` says why no wake-up is lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cell::{Cell, Request};
use crate::done::Done;
use crate::driver::ring::{Ring, RingOptions};
use crate::driver::threads::Threads;
use crate::driver::{Driver, Wake};
use crate::executor::{self, Executor};
use crate::fork::Process;
use crate::inbox::Inbox;
use crate::proactor::{Handle, Limits, Proactor, Terms, Work};
use crate::sleep::{Duty, Sleep};

mod tracked;
pub use tracked::Tracked;

/// What carries operations out.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The kernel's ring where there is one, else threads.
    Best(RingOptions),
    /// The kernel's ring.
    Ring(RingOptions),
    /// So many threads.
    Threads(usize),
}

/// How a service is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// What carries operations out.
    pub backend: Backend,
    /// Bounds on what runs, and on how long what was cancelled may take.
    pub limits: Limits,
    /// Operations that have been submitted and have not ended, at most; more are refused with `EAGAIN`. None: any number.
    pub pending: Option<usize>,
    /// Threads that run continuations; none: the progress thread does.
    pub continuation_threads: usize,
    /// For how long the progress thread looks around before it sleeps.
    pub spin: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: Backend::Best(RingOptions::default()),
            limits: Limits::default(),
            pending: None,
            continuation_threads: 2,
            spin: Duration::from_micros(20),
        }
    }
}

/// How long an operation may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// It ends with `ETIMEDOUT` after so long; none: it takes as long as it takes.
    pub within: Option<Duration>,
    /// The position that it uses: see [`Service::add_position`].
    pub position: Option<u64>,
}

/// Why nothing was submitted. The work comes back.
#[derive(Debug)]
pub enum Refused {
    /// As many operations are pending as may (`EAGAIN`).
    Full(Work),
    /// The service has been shut down (`ESHUTDOWN`).
    Closed(Work),
    /// This process is a copy, by `fork`, of the one that made the service (`EOWNERDEAD`).
    Forked(Work),
}

impl Refused {
    /// The error number for it.
    #[must_use]
    pub fn errno(&self) -> atta_entry::Errno {
        atta_entry::Errno(match self {
            Self::Full(_) => libc::EAGAIN,
            Self::Closed(_) => libc::ESHUTDOWN,
            Self::Forked(_) => libc::EOWNERDEAD,
        })
    }

    /// What was not submitted.
    #[must_use]
    pub fn into_work(self) -> Work {
        match self {
            Self::Full(work) | Self::Closed(work) | Self::Forked(work) => work,
        }
    }
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// Operations that were submitted.
    pub submitted: u64,
    /// Times that somebody who submitted had to wake the progress thread.
    pub woken: u64,
    /// Operations that whoever waited for them carried out.
    pub run_by_waiter: u64,
}

/// What is to be told when an operation has ended.
pub(crate) enum Claim {
    Cell(Arc<Cell>),
    /// On the executor.
    Then(Box<dyn FnOnce(Done) + Send>),
    /// On the progress thread.
    Inline(Box<dyn FnOnce(Done) + Send>),
}

enum Message {
    Submit(Request, Claim),
    /// The request is in the cell, unless whoever waits for it has taken it.
    Cell(Arc<Cell>),
    /// The same, and what comes of it goes to a continuation.
    Tracked(Arc<Cell>, Claim),
    Cancel(Arc<Cell>),
    AddPosition(u64, u64),
    RemovePosition(u64),
    CancelAll,
    Close,
}

struct Shared {
    inbox: Inbox<Message>,
    sleep: Sleep,
    is_closed: AtomicBool,
    /// Whoever waits may carry an operation out.
    is_kernel: bool,
    waker: Arc<dyn Wake>,
    pending: AtomicUsize,
    pending_most: usize,
    submitted: AtomicU64,
    woken: AtomicU64,
    run_by_waiter: AtomicU64,
    next_position: AtomicU64,
    process: Process,
    executor: executor::Identity,
}

/// See the head of this file. Dropped, it cancels what is pending and waits for the end of that; a continuation of its own
/// that drops it does not wait for itself.
pub struct Service {
    shared: Arc<Shared>,
    progress: Option<JoinHandle<()>>,
}

impl Shared {
    fn send(&self, message: Message) {
        self.inbox.push(message);
        match self.sleep.duty() {
            Duty::None => {}
            Duty::Wake => {
                self.woken.fetch_add(1, Ordering::Relaxed);
                self.waker.wake();
            }
            Duty::Take => self.refuse(),
        }
    }

    /// Ends what came after the progress thread had ended.
    fn refuse(&self) {
        let ended = |work: Work| {
            let op = match work {
                Work::Op(op) => Some(op),
                Work::Machine(_) => None,
            };
            Done::new(Err(atta_entry::Errno(libc::ESHUTDOWN)), op)
        };
        self.inbox.take(|message| match message {
            Message::Submit(request, Claim::Then(then) | Claim::Inline(then)) => {
                executor::run(move || then(ended(request.work)));
            }
            Message::Submit(request, Claim::Cell(cell)) => cell.end(ended(request.work)),
            Message::Tracked(cell, Claim::Then(then) | Claim::Inline(then)) => {
                if let Some((request, _)) = cell.begin() {
                    executor::run(move || then(ended(request.work)));
                }
            }
            Message::Cell(cell) => {
                if let Some((request, _)) = cell.begin() {
                    cell.end(ended(request.work));
                }
            }
            _ => {}
        });
    }

    /// Counts one more operation, if there is room.
    fn admit(&self, work: Work) -> Result<Work, Refused> {
        if !self.process.is_here() {
            return Err(Refused::Forked(work));
        }
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Refused::Closed(work));
        }
        if self.pending.fetch_add(1, Ordering::Relaxed) >= self.pending_most {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Full(work));
        }
        self.submitted.fetch_add(1, Ordering::Relaxed);
        Ok(work)
    }
}

impl Service {
    /// Starts one.
    ///
    /// # Errors
    /// There is no ring though one was asked for, or threads or descriptors run out.
    pub fn new(options: &Options) -> io::Result<Self> {
        let backend = options.backend.clone();
        // A ring belongs to the thread that makes it.
        Self::start(options, move || match &backend {
            Backend::Ring(ring) => Ok(Box::new(Ring::new(ring)?) as Box<dyn Driver>),
            Backend::Threads(threads) => Ok(Box::new(Threads::new(*threads)) as Box<dyn Driver>),
            Backend::Best(ring) => match Ring::new(ring) {
                Ok(ring) => Ok(Box::new(ring) as Box<dyn Driver>),
                Err(_) => Ok(Box::new(Threads::new(ring.threads)) as Box<dyn Driver>),
            },
        })
    }

    /// Starts one on a driver that `make` makes, on the progress thread.
    ///
    /// # Errors
    /// As [`Service::new`], and those of `make`.
    pub fn start(
        options: &Options,
        make: impl FnOnce() -> io::Result<Box<dyn Driver>> + Send + 'static,
    ) -> io::Result<Self> {
        let process = Process::here();
        let executor = Executor::new(options.continuation_threads)?;
        let (told, made) = std::sync::mpsc::sync_channel(1);
        let (limits, spin, pending_most) =
            (options.limits, options.spin, options.pending.unwrap_or(usize::MAX));
        let thread = std::thread::Builder::new().name("atta-progress".to_owned());
        let progress = thread.spawn(move || {
            let driver = match make() {
                Ok(driver) => driver,
                Err(error) => return drop(told.send(Err(error))),
            };
            let shared = Arc::new(Shared {
                inbox: Inbox::new(),
                sleep: Sleep::new(),
                is_closed: AtomicBool::new(false),
                is_kernel: driver.is_kernel(),
                waker: driver.waker(),
                pending: AtomicUsize::new(0),
                pending_most,
                submitted: AtomicU64::new(0),
                woken: AtomicU64::new(0),
                run_by_waiter: AtomicU64::new(0),
                next_position: AtomicU64::new(1),
                process,
                executor: executor.identity(),
            });
            if told.send(Ok(Arc::clone(&shared))).is_ok() {
                Progress { shared, proactor: Proactor::new(driver, limits), executor, is_closing: false }
                    .run(spin);
            }
        })?;
        let shared = made.recv().unwrap_or_else(|_| Err(io::Error::other("the progress thread ended")))?;
        Ok(Self { shared, progress: Some(progress) })
    }

    /// Submits an operation, to be waited for: see [`Pending`].
    ///
    /// # Errors
    /// Nothing was submitted: see [`Refused`].
    pub fn submit(&self, work: impl Into<Work>, call: Call) -> Result<Pending, Refused> {
        let work = self.shared.admit(work.into())?;
        let cell = Arc::new(Cell::new(Request { work, terms: self.terms(call) }));
        self.shared.send(Message::Cell(Arc::clone(&cell)));
        Ok(Pending { cell, shared: Arc::clone(&self.shared), is_detached: false })
    }

    /// Submits an operation with a continuation, which is called once, on a thread of the service for continuations, in any
    /// case: also when the operation fails, is late, or is cancelled by a shutdown.
    ///
    /// # Errors
    /// Nothing was submitted, and `then` is not called.
    pub fn submit_then(
        &self,
        work: impl Into<Work>,
        call: Call,
        then: impl FnOnce(Done) + Send + 'static,
    ) -> Result<(), Refused> {
        self.submit_claim(work.into(), call, Claim::Then(Box::new(then)))
    }

    /// The same, with a continuation that is called on the progress thread: it must be tiny, since nothing else goes on
    /// meanwhile.
    ///
    /// # Errors
    /// As above.
    pub fn submit_inline(
        &self,
        work: impl Into<Work>,
        call: Call,
        then: impl FnOnce(Done) + Send + 'static,
    ) -> Result<(), Refused> {
        self.submit_claim(work.into(), call, Claim::Inline(Box::new(then)))
    }

    fn submit_claim(&self, work: Work, call: Call, claim: Claim) -> Result<(), Refused> {
        let work = self.shared.admit(work)?;
        self.shared.send(Message::Submit(Request { work, terms: self.terms(call) }, claim));
        Ok(())
    }

    fn terms(&self, call: Call) -> Terms {
        // The driver's clock is the progress thread's to read: it turns what is left into a time.
        Terms { deadline: call.within, position: call.position }
    }

    /// Adds a position in a file. Operations that name it read, write or move it one after the other, in the order in which
    /// they were submitted.
    #[must_use]
    pub fn add_position(&self, offset: u64) -> u64 {
        let position = self.shared.next_position.fetch_add(1, Ordering::Relaxed);
        self.shared.send(Message::AddPosition(position, offset));
        position
    }

    /// Forgets a position, once those who use it have ended; later ones end in `EBADF`.
    pub fn remove_position(&self, position: u64) {
        self.shared.send(Message::RemovePosition(position));
    }

    /// How many operations have been submitted and have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed)
    }

    /// How often things have happened.
    #[must_use]
    pub fn counts(&self) -> ServiceCounts {
        ServiceCounts {
            submitted: self.shared.submitted.load(Ordering::Relaxed),
            woken: self.shared.woken.load(Ordering::Relaxed),
            run_by_waiter: self.shared.run_by_waiter.load(Ordering::Relaxed),
        }
    }

    /// Takes no more operations, and waits until all that are pending have ended and their continuations were called: at most
    /// so long, then it cancels the rest. Whether all ended by themselves.
    pub fn shutdown(mut self, within: Option<Duration>) -> bool {
        let until = within.map(|within| Instant::now() + within);
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.send(Message::Close);
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
        self.shared.send(Message::CancelAll);
        self.shared.send(Message::Close);
        if let Some(progress) = self.progress.take()
            && progress.thread().id() != std::thread::current().id()
            && !self.shared.executor.is_here()
        {
            // It catches the panics of continuations.
            let _ = progress.join();
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// An operation that was submitted. It is a future; who has no executor of futures calls [`wait`](Self::wait). Dropped, it
/// cancels the operation, whose buffers live as long as the kernel uses them.
pub struct Pending {
    cell: Arc<Cell>,
    shared: Arc<Shared>,
    is_detached: bool,
}

impl Pending {
    /// Blocks until the operation has ended. If nobody has begun with it, this thread carries it out.
    #[must_use]
    pub fn wait(self) -> Done {
        self.run_here();
        self.cell.wait(None).unwrap_or_else(gone)
    }

    /// Blocks until the operation has ended, at most so long; else it goes on, and can be waited for again.
    ///
    /// # Errors
    /// It has not ended.
    pub fn wait_timeout(self, at_most: Duration) -> Result<Done, Self> {
        self.cell.wait(Some(Instant::now() + at_most)).ok_or(self)
    }

    /// Ends the operation with `ECANCELED`, if it has not ended yet.
    pub fn cancel(&self) {
        self.cell.cancel();
        self.shared.send(Message::Cancel(Arc::clone(&self.cell)));
    }

    /// Lets it go on by itself; what comes of it is dropped.
    pub fn detach(mut self) {
        self.is_detached = true;
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.cell.has_ended()
    }

    fn run_here(&self) {
        if !self.shared.is_kernel {
            return;
        }
        let Some(Request { work: Work::Op(mut op), .. }) = self.cell.take() else { return };
        let outcome = crate::perform(&mut op);
        self.shared.run_by_waiter.fetch_add(1, Ordering::Relaxed);
        self.shared.pending.fetch_sub(1, Ordering::Relaxed);
        self.cell.end(Done::new(outcome, Some(op)));
    }
}

/// A result that was taken before: nobody gets it twice.
fn gone() -> Done {
    Done::new(Err(atta_entry::Errno::INVAL), None)
}

impl Future for Pending {
    type Output = Done;

    fn poll(self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Done> {
        self.cell.poll(context.waker()).map(|done| done.unwrap_or_else(gone))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_detached && self.cell.leave() && self.shared.process.is_here() {
            self.shared.send(Message::Cancel(Arc::clone(&self.cell)));
        }
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}

/// The progress thread's side.
struct Progress {
    shared: Arc<Shared>,
    proactor: Proactor<Box<dyn Driver>, Claim>,
    executor: Executor,
    is_closing: bool,
}

impl Progress {
    fn run(mut self, spin: Duration) {
        let mut busy_until = Instant::now() + spin;
        loop {
            let (had_mail, had_ends) = (self.read(), self.advance(Some(Duration::ZERO)));
            if had_mail || had_ends {
                busy_until = Instant::now() + spin;
                continue;
            }
            if self.is_closing && self.proactor.pending() == 0 {
                // Who submits after this sees it, and ends what nobody else will.
                self.shared.sleep.go();
                return self.shared.refuse();
            }
            if Instant::now() < busy_until {
                std::hint::spin_loop();
                continue;
            }
            self.shared.sleep.lie_down();
            if self.shared.inbox.is_empty() {
                self.advance(None);
            }
            self.shared.sleep.get_up();
            busy_until = Instant::now() + spin;
        }
    }

    /// Goes on with operations. Whether some have ended.
    fn advance(&mut self, at_most: Option<Duration>) -> bool {
        let (executor, shared) = (&self.executor, &self.shared);
        let mut ended = 0;
        self.proactor.advance(at_most, |claim, done| {
            ended += 1;
            // Before anybody hears of it, who may submit the next one at once.
            shared.pending.fetch_sub(1, Ordering::Relaxed);
            tell(executor, claim, done);
        });
        ended > 0
    }

    /// Takes what was submitted. Whether there was anything.
    fn read(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        if shared.inbox.is_empty() {
            return false;
        }
        shared.inbox.take(|message| match message {
            Message::Submit(request, claim) => drop(self.submit(request, claim)),
            Message::Cell(cell) => self.begin(&cell, Claim::Cell(Arc::clone(&cell))),
            Message::Tracked(cell, claim) => self.begin(&cell, claim),
            Message::Cancel(cell) => {
                if let Some(handle) = cell.handle() {
                    self.proactor.cancel(handle);
                }
            }
            Message::AddPosition(id, offset) => self.proactor.put_position(id, offset),
            Message::RemovePosition(id) => self.proactor.remove_position(id),
            Message::CancelAll => self.proactor.cancel_all(),
            Message::Close => self.is_closing = true,
        });
        true
    }

    /// Submits what is in a cell, unless whoever waits for it has taken it.
    fn begin(&mut self, cell: &Cell, claim: Claim) {
        let Some((request, is_cancelled)) = cell.begin() else { return };
        let handle = self.submit(request, claim);
        cell.set_handle(handle);
        if is_cancelled {
            self.proactor.cancel(handle);
        }
    }

    fn submit(&mut self, request: Request, claim: Claim) -> Handle {
        let Request { work, mut terms } = request;
        terms.deadline = terms.deadline.map(|within| self.proactor.driver().now() + within);
        self.proactor.submit_unbounded(work, terms, claim)
    }
}

fn tell(executor: &Executor, claim: Claim, done: Done) {
    match claim {
        Claim::Cell(cell) => cell.end(done),
        Claim::Then(then) => executor.push(Box::new(move || then(done))),
        Claim::Inline(then) => executor::run(move || then(done)),
    }
}
