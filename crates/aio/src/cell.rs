//! One operation, shared by the submitter, the progress thread, and the waiter, which blocks or polls a future. The cell holds
//! the request until a thread takes it to carry it out, so that an early waiter can do that itself. Other messages to the
//! progress thread use the same cells.

use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::done::Done;
use crate::inbox::{Letter, Node};
use crate::patience::Patience;
use crate::proactor::{Handle, Terms, Work};
use crate::service::Call;

/// A function that is called with the result of an operation.
pub(crate) type Continuation = Box<dyn FnOnce(Done) + Send>;

/// The receiver of the result of an operation.
pub(crate) enum Then {
    /// The owner of the cell.
    Cell,
    /// On the executor.
    Apart(Continuation),
    /// On the progress thread.
    Inline(Continuation),
}

/// A submitted operation. It is small, because there may be millions.
pub(crate) struct Request {
    pub(crate) work: Work,
    /// The time limit in nanoseconds, counted from when the progress thread takes it.
    within: Option<NonZero<u64>>,
    position: Option<NonZero<u64>>,
    /// It was cancelled before the proactor got it.
    pub(crate) is_cancelled: bool,
}

impl Request {
    pub(crate) fn new(work: Work, call: Call) -> Self {
        let nanoseconds = |within: Duration| u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        let within =
            call.within.map(|within| NonZero::new(nanoseconds(within)).unwrap_or(NonZero::<u64>::MIN));
        // No position has the number 0 or the highest number.
        let position = call.position.map(|position| NonZero::new(position).unwrap_or(NonZero::<u64>::MAX));
        Self { work, within, position, is_cancelled: false }
    }

    /// Whether the proactor may get it later: it uses no position, and has no deadline.
    fn may_stay(&self) -> bool {
        self.position.is_none() && self.within.is_none()
    }

    /// The terms of the operation, from `now` on.
    pub(crate) fn terms(&self, now: impl FnOnce() -> Duration) -> Terms {
        let deadline = self.within.map(|within| now() + Duration::from_nanos(within.get()));
        Terms { deadline, position: self.position.map(NonZero::get) }
    }
}

/// A message to the progress thread.
pub(crate) enum Message {
    Submit(Request),
    Cancel(Arc<Node<Cell>>),
    AddPosition(u64, u64),
    RemovePosition(u64),
    CancelAll,
    Close,
}

/// A waiter to wake when an operation has ended: after the lock is released, and after other operations have ended as well.
pub(crate) enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    pub(crate) fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

thread_local! {
    /// The usual waiting time of this thread.
    static USUAL: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
}

enum State {
    /// Not started.
    Queued(Message),
    /// The waiter carries it out.
    Taken,
    /// The progress thread has it; the handle is set once it is in the proactor.
    Running(Option<Handle>),
    Ended(Done),
    /// The result has been taken, or will not be requested.
    Gone,
}

/// The receiver of the result, or the waiter to wake.
enum To {
    Nobody,
    Waiter(Waiter),
    Apart(Continuation),
    Inline(Continuation),
}

impl To {
    fn take_waiter(&mut self) -> Option<Waiter> {
        match std::mem::replace(self, Self::Nobody) {
            Self::Waiter(waiter) => Some(waiter),
            other => {
                *self = other;
                None
            }
        }
    }

    fn take_then(&mut self) -> Then {
        match std::mem::replace(self, Self::Nobody) {
            Self::Apart(then) => Then::Apart(then),
            Self::Inline(then) => Then::Inline(then),
            other => {
                *self = other;
                Then::Cell
            }
        }
    }
}

struct Inside {
    state: State,
    to: To,
}

/// What the progress thread does with a cell.
pub(crate) enum Begun {
    /// It takes this message.
    Message(Message, Then),
    /// The operation may stay in the cell.
    Stays,
    /// The waiter has it, or it has ended.
    Gone,
}

/// See the head of this file.
pub(crate) struct Cell(Mutex<Inside>);

impl Cell {
    /// Creates a cell to ask for the result, and the letter to send.
    pub(crate) fn new(request: Request, then: Then) -> (Arc<Node<Self>>, Letter<Self>) {
        let to = match then {
            Then::Cell => To::Nobody,
            Then::Apart(then) => To::Apart(then),
            Then::Inline(then) => To::Inline(then),
        };
        Node::new(Self::of(Message::Submit(request), to))
    }

    /// Creates a cell that only the progress thread sees.
    pub(crate) fn letter(message: Message) -> Letter<Self> {
        Node::letter(Self::of(message, To::Nobody))
    }

    fn of(message: Message, to: To) -> Self {
        Self(Mutex::new(Inside { state: State::Queued(message), to }))
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the message for the progress thread, except an operation that may stay while the proactor is full (`is_full`).
    pub(crate) fn begin(&self, is_full: bool) -> Begun {
        let mut inside = self.lock();
        if is_full
            && let State::Queued(Message::Submit(request)) = &inside.state
            && request.may_stay()
        {
            return Begun::Stays;
        }
        match std::mem::replace(&mut inside.state, State::Running(None)) {
            State::Queued(message) => Begun::Message(message, inside.to.take_then()),
            other => {
                inside.state = other;
                Begun::Gone
            }
        }
    }

    /// Takes an operation that was cancelled before it started, to end it.
    pub(crate) fn begin_cancelled(&self) -> Option<(Work, Then)> {
        let is_cancelled =
            matches!(&self.lock().state, State::Queued(Message::Submit(request)) if request.is_cancelled);
        match is_cancelled.then(|| self.begin(false))? {
            Begun::Message(Message::Submit(request), then) => Some((request.work, then)),
            _ => None,
        }
    }

    /// Stores the handle of the operation in the proactor.
    pub(crate) fn set_handle(&self, handle: Handle) {
        if let State::Running(place) = &mut self.lock().state {
            *place = Some(handle);
        }
    }

    /// The handle, if the operation is in the proactor.
    pub(crate) fn handle(&self) -> Option<Handle> {
        match self.lock().state {
            State::Running(handle) => handle,
            _ => None,
        }
    }

    /// Takes the request for a waiter, if it has not started and is a single operation without a position or a deadline.
    pub(crate) fn take(&self) -> Option<Request> {
        let mut inside = self.lock();
        let State::Queued(Message::Submit(request)) = &inside.state else { return None };
        // A thread that carries out an operation cannot be stopped by its deadline.
        if !request.may_stay() || request.is_cancelled || matches!(request.work, Work::Machine(_)) {
            return None;
        }
        let State::Queued(Message::Submit(request)) = std::mem::replace(&mut inside.state, State::Taken)
        else {
            return None;
        };
        let then = inside.to.take_then();
        drop(inside);
        // The thread that takes it gets the result directly. The data of the continuation is dropped outside the lock.
        drop(then);
        Some(request)
    }

    /// Whether the operation has not started.
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.lock().state, State::Queued(_))
    }

    /// Marks the operation as cancelled.
    pub(crate) fn cancel(&self) {
        if let State::Queued(Message::Submit(request)) = &mut self.lock().state {
            request.is_cancelled = true;
        }
    }

    /// Stores the result. Returns the waiter to wake.
    #[must_use]
    pub(crate) fn end(&self, done: Done) -> Option<Waiter> {
        let mut inside = self.lock();
        // If the result will not be requested, it is dropped, outside the lock.
        let dropped = match inside.state {
            State::Gone => Some(done),
            _ => {
                inside.state = State::Ended(done);
                None
            }
        };
        let waiter = inside.to.take_waiter();
        drop(inside);
        drop(dropped);
        waiter
    }

    /// Whether the operation has ended and its result has not been taken.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.lock().state, State::Ended(_))
    }

    /// Blocks until the operation has ended, or `until`. It polls for at most `spin` before it sleeps.
    pub(crate) fn wait(&self, until: Option<Instant>, spin: Duration) -> Option<Done> {
        if self.has_ended() {
            return self.park(until);
        }
        let mut now = Instant::now();
        let mut patience = Patience::new(spin, USUAL.get(), now);
        while patience.is_left(now) && until.is_none_or(|until| now < until) && !self.has_ended() {
            std::thread::yield_now();
            now = Instant::now();
        }
        let done = self.park(until)?;
        let now = Instant::now();
        USUAL.set(patience.was_busy(now, now));
        Some(done)
    }

    /// Sleeps until the operation has ended.
    fn park(&self, until: Option<Instant>) -> Option<Done> {
        let mut has_slept = false;
        let done = loop {
            // It parks again after an unrelated wake-up.
            if let Poll::Ready(done) = self.ask(|_| Waiter::Thread(std::thread::current())) {
                break done;
            }
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(left) if left.is_zero() => break None,
                Some(left) => std::thread::park_timeout(left),
            }
            has_slept = true;
        };
        if has_slept {
            // The wake-up may have been for another waiter on this thread: pass it on.
            std::thread::current().unpark();
        }
        done
    }

    /// Polls for a future.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Option<Done>> {
        self.ask(|known| match known {
            Some(Waiter::Task(known)) if known.will_wake(waker) => Waiter::Task(known),
            _ => Waiter::Task(waker.clone()),
        })
    }

    /// Returns the result if the operation has ended, else stores the waiter. `None`: the result was taken before.
    fn ask(&self, waiter: impl FnOnce(Option<Waiter>) -> Waiter) -> Poll<Option<Done>> {
        let mut inside = self.lock();
        match std::mem::replace(&mut inside.state, State::Gone) {
            State::Ended(done) => Poll::Ready(Some(done)),
            State::Gone => Poll::Ready(None),
            other => {
                inside.state = other;
                let known = inside.to.take_waiter();
                inside.to = To::Waiter(waiter(known));
                Poll::Pending
            }
        }
    }

    /// Gives up the result. Returns whether to notify the progress thread of the cancellation.
    pub(crate) fn leave(&self) -> bool {
        let mut inside = self.lock();
        let (is_pending, dropped) = match std::mem::replace(&mut inside.state, State::Gone) {
            State::Ended(done) => (false, Some(done)),
            State::Gone => (false, None),
            State::Queued(mut message) => {
                // The progress thread may have left it in its queue, with its buffers.
                if let Message::Submit(request) = &mut message {
                    request.is_cancelled = true;
                }
                inside.state = State::Queued(message);
                (true, None)
            }
            State::Running(handle) => {
                inside.state = State::Running(handle);
                (true, None)
            }
            State::Taken => (true, None),
        };
        drop(inside);
        drop(dropped);
        is_pending
    }
}
