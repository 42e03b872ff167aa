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
//! takes a system call; [`Service::counts`] tells how often somebody did. `patience.rs` says when that is worth it, and
//! `sleep.rs` why no wake-up is lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cell::{Cell, Continuation, Message, Request, Waiter};
use crate::crew;
use crate::done::Done;
use crate::driver::ring::{Ring, RingOptions};
use crate::driver::threads::Threads;
use crate::driver::{Driver, Wake};
use crate::executor::{self, Executor};
use crate::fork::Process;
use crate::inbox::{Inbox, Letter, Node};
use crate::patience::Patience;
use crate::proactor::{Limits, Proactor, Work};
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
    /// For how long the progress thread looks around before it sleeps, at most: not where something to do has lately come less
    /// often than that. Whoever waits for an operation by blocking does the same, for 100 us at most. Meanwhile they give way to
    /// others.
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

/// For how long somebody who waits for an operation looks around before they sleep, at most: it is not their only work.
const WAITER_SPIN: Duration = Duration::from_micros(100);

/// Who is told when an operation has ended.
enum Claim {
    Cell(Arc<Node<Cell>>),
    /// On the executor.
    Apart(Continuation),
    /// On the progress thread.
    Inline(Continuation),
}

/// Keeps what some write off the cache lines that others use.
struct Gap {
    _bytes: [u8; 128],
}

const GAP: Gap = Gap { _bytes: [0; 128] };

/// In this order, so that a submission finds what it needs on few cache lines, which are cold after long transfers.
#[repr(C)]
struct Shared {
    /// Written by whoever submits, as is the count of references in front of it.
    submitted: AtomicU64,
    _submitters: Gap,
    /// Written by whoever submits, and read by the progress thread all the time.
    inbox: Inbox<Cell>,
    _inbox: Gap,
    /// Written by whoever ends operations: mostly the progress thread.
    ended: AtomicU64,
    run_by_waiter: AtomicU64,
    _enders: Gap,
    /// Written when the progress thread falls asleep or is woken; what follows, hardly ever.
    sleep: Sleep,
    is_closed: AtomicBool,
    /// Whoever waits may carry an operation out.
    is_kernel: bool,
    waker: Arc<dyn Wake>,
    pending_most: Option<u64>,
    woken: AtomicU64,
    /// For how long waiters look around before they sleep.
    spin: Duration,
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
    fn tell(&self, message: Message) {
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

    /// Ends what came after the progress thread had ended.
    fn refuse(&self) {
        self.inbox.take(|cell| {
            let Some(Message::Submit(Request { work, then, .. })) = cell.begin() else { return };
            let op = match work {
                Work::Op(op) => Some(op),
                Work::Machine(_) => None,
            };
            self.count_end();
            let done = Done::new(Err(atta_entry::Errno(libc::ESHUTDOWN)), op);
            match then {
                Some(then) => executor::run(move || then(done)),
                None => {
                    if let Some(waiter) = cell.end(done) {
                        wake(waiter);
                    }
                }
            }
        });
    }

    fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    fn pending(&self) -> u64 {
        loop {
            // Both from the same moment: what ends in between was pending or not, but is not counted as one more.
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

    /// The same, by whoever waits.
    fn count_help(&self) {
        self.run_by_waiter.fetch_add(1, Ordering::Relaxed);
        self.count_end();
    }

    /// Counts one more operation, if there is room.
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
        let (limits, spin) = (options.limits, options.spin);
        let pending_most = options.pending.map(|most| most as u64);
        let progress = crew::start("atta-progress", move || {
            let driver = match make() {
                Ok(driver) => driver,
                Err(error) => return drop(told.send(Err(error))),
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
            if told.send(Ok(Arc::clone(&shared))).is_ok() {
                let proactor = Proactor::new(driver, limits);
                Progress { shared, proactor, executor, waiters: Vec::new(), is_closing: false }.run(spin);
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
        let (cell, shared) = self.submit_request(work.into(), call, None, false)?;
        Ok(Pending { cell, shared, is_detached: false })
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
        self.submit_tracked(work, call, false, then).map(drop)
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
        self.submit_tracked(work, call, true, then).map(drop)
    }

    fn submit_request(
        &self,
        work: Work,
        call: Call,
        then: Option<Continuation>,
        is_inline: bool,
    ) -> Result<(Arc<Node<Cell>>, Arc<Shared>), Refused> {
        let work = self.shared.admit(work)?;
        let (cell, letter) = Cell::new(Request::new(work, call, then, is_inline));
        self.shared.send(letter);
        Ok((cell, Arc::clone(&self.shared)))
    }

    /// Adds a position in a file. Operations that name it read, write or move it one after the other, in the order in which
    /// they were submitted.
    #[must_use]
    pub fn add_position(&self, offset: u64) -> u64 {
        let position = self.shared.next_position.fetch_add(1, Ordering::Relaxed);
        self.tell(Message::AddPosition(position, offset));
        position
    }

    /// Forgets a position, once those who use it have ended; later ones end in `EBADF`.
    pub fn remove_position(&self, position: u64) {
        self.tell(Message::RemovePosition(position));
    }

    /// Tells the progress thread, if it is in this process.
    fn tell(&self, message: Message) {
        if self.shared.process.is_here() {
            self.shared.tell(message);
        }
    }

    /// How many operations have been submitted and have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        usize::try_from(self.shared.pending()).unwrap_or(usize::MAX)
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
        self.shared.tell(Message::Close);
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
        self.shared.tell(Message::CancelAll);
        self.shared.tell(Message::Close);
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
    cell: Arc<Node<Cell>>,
    shared: Arc<Shared>,
    is_detached: bool,
}

impl Pending {
    /// Blocks until the operation has ended. If nobody has begun with it, this thread carries it out.
    #[must_use]
    pub fn wait(self) -> Done {
        self.run_here();
        self.cell.wait(None, self.shared.spin).unwrap_or_else(gone)
    }

    /// Blocks until the operation has ended, at most so long; else it goes on, and can be waited for again.
    ///
    /// # Errors
    /// It has not ended.
    pub fn wait_timeout(self, at_most: Duration) -> Result<Done, Self> {
        self.cell.wait(Some(Instant::now() + at_most), self.shared.spin).ok_or(self)
    }

    /// Ends the operation with `ECANCELED`, if it has not ended yet.
    pub fn cancel(&self) {
        if self.shared.process.is_here() {
            self.cell.cancel();
            self.shared.tell(Message::Cancel(Arc::clone(&self.cell)));
        }
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
        if !self.shared.is_kernel || !self.shared.process.is_here() {
            return;
        }
        let Some(Request { work: Work::Op(mut op), .. }) = self.cell.take() else { return };
        let outcome = crate::perform(&mut op);
        self.shared.count_help();
        // The one who would be woken is here.
        let _ = self.cell.end(Done::new(outcome, Some(op)));
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
            self.shared.tell(Message::Cancel(Arc::clone(&self.cell)));
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
    executor: Executor<Done>,
    /// Who is to be woken once all that have ended are known to have.
    waiters: Vec<Waiter>,
    is_closing: bool,
}

impl Progress {
    fn run(mut self, spin: Duration) {
        let mut patience = Patience::new(spin, Duration::ZERO, Instant::now());
        loop {
            let began = Instant::now();
            let (had_mail, had_ends) = (self.read(), self.advance(Some(Duration::ZERO)));
            if had_mail || had_ends.is_some() {
                patience.was_busy(began, Instant::now());
                continue;
            }
            if self.is_closing && self.proactor.pending() == 0 {
                // Who submits after this sees it, and ends what nobody else will.
                self.shared.sleep.go();
                return self.shared.refuse();
            }
            if patience.is_left(began) {
                // Whoever copies for it in the kernel may need this core.
                std::thread::yield_now();
                continue;
            }
            self.shared.sleep.lie_down();
            if self.shared.inbox.is_empty()
                && let Some(began) = self.advance(None)
            {
                patience.was_busy(began, Instant::now());
            }
            self.shared.sleep.get_up();
        }
    }

    /// Goes on with operations. When it found some that have ended, if it did.
    fn advance(&mut self, at_most: Option<Duration>) -> Option<Instant> {
        let Self { shared, proactor, executor, waiters, .. } = self;
        let mut began = None;
        proactor.advance(at_most, |claim, done| {
            began.get_or_insert_with(Instant::now);
            // Before anybody hears of it, who may submit the next one at once.
            shared.count_end();
            match claim {
                Claim::Cell(cell) => waiters.extend(cell.end(done)),
                Claim::Apart(then) if !executor.is_inline() => executor.push(then, done),
                Claim::Apart(then) | Claim::Inline(then) => {
                    // It may take long, or even wait for one of them.
                    waiters.drain(..).for_each(wake);
                    executor::run(move || then(done));
                }
            }
        });
        // Whoever waits for several finds all of them, and is not woken for each.
        waiters.drain(..).for_each(wake);
        began
    }

    /// Takes what was submitted. Whether there was anything.
    fn read(&mut self) -> bool {
        let Self { shared, proactor, is_closing, .. } = self;
        if shared.inbox.is_empty() {
            return false;
        }
        shared.inbox.take(|cell| {
            // None: whoever waits for it has taken it.
            let Some(message) = cell.begin() else { return };
            match message {
                Message::Submit(request) => submit(proactor, &cell, request),
                Message::Cancel(cell) => {
                    if let Some(handle) = cell.handle() {
                        proactor.cancel(handle);
                    }
                }
                Message::AddPosition(id, offset) => proactor.put_position(id, offset),
                Message::RemovePosition(id) => proactor.remove_position(id),
                Message::CancelAll => proactor.cancel_all(),
                Message::Close => *is_closing = true,
            }
        });
        true
    }
}

/// Wakes somebody. What a program's own waker does in a panic is its own affair.
fn wake(waiter: Waiter) {
    executor::run(|| waiter.wake());
}

/// Submits what was in a cell.
fn submit(proactor: &mut Proactor<Box<dyn Driver>, Claim>, cell: &Arc<Node<Cell>>, request: Request) {
    let terms = request.terms(|| proactor.driver().now());
    let claim = match (request.then, request.is_inline) {
        (None, _) => Claim::Cell(Arc::clone(cell)),
        (Some(then), false) => Claim::Apart(then),
        (Some(then), true) => Claim::Inline(then),
    };
    let handle = proactor.submit_unbounded(request.work, terms, claim);
    cell.set_handle(handle);
    if request.is_cancelled {
        proactor.cancel(handle);
    }
}
