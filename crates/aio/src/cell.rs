//! One operation between whoever submits it, the progress thread, and whoever waits for it: by blocking, or as a future. The
//! request is in it until somebody takes it to carry it out, so that a waiter who comes early enough can do that itself.
//! Other messages to the progress thread travel in the same way.

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

/// What is called with what came of an operation.
pub(crate) type Continuation = Box<dyn FnOnce(Done) + Send>;

/// Who is told what came of an operation.
pub(crate) enum Then {
    /// Whoever has the cell.
    Cell,
    /// On the executor.
    Apart(Continuation),
    /// On the progress thread.
    Inline(Continuation),
}

/// What was submitted. Small: there may be millions.
pub(crate) struct Request {
    pub(crate) work: Work,
    /// Nanoseconds from when the progress thread has it.
    within: Option<NonZero<u64>>,
    position: Option<NonZero<u64>>,
    /// It was cancelled before the proactor had it.
    pub(crate) is_cancelled: bool,
}

impl Request {
    pub(crate) fn new(work: Work, call: Call) -> Self {
        let nanoseconds = |within: Duration| u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        let within =
            call.within.map(|within| NonZero::new(nanoseconds(within)).unwrap_or(NonZero::<u64>::MIN));
        // No position has the number 0, nor ever the highest.
        let position = call.position.map(|position| NonZero::new(position).unwrap_or(NonZero::<u64>::MAX));
        Self { work, within, position, is_cancelled: false }
    }

    /// Whether it matters little when the proactor gets it: no position has its turn by it, and no deadline runs.
    fn may_stay(&self) -> bool {
        self.position.is_none() && self.within.is_none()
    }

    /// How it is to be treated, from `now` on.
    pub(crate) fn terms(&self, now: impl FnOnce() -> Duration) -> Terms {
        let deadline = self.within.map(|within| now() + Duration::from_nanos(within.get()));
        Terms { deadline, position: self.position.map(NonZero::get) }
    }
}

/// What the progress thread is told.
pub(crate) enum Message {
    Submit(Request),
    Cancel(Arc<Node<Cell>>),
    AddPosition(u64, u64),
    RemovePosition(u64),
    CancelAll,
    Close,
}

/// Who is to be told that an operation has ended: after the lock is free, and after others have ended as well.
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
    /// How long this thread usually waits.
    static USUAL: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
}

enum State {
    /// Nobody has begun with it.
    Queued(Message),
    /// Whoever waits carries it out.
    Taken,
    /// The progress thread has it; the handle, once the proactor has given it one.
    Running(Option<Handle>),
    Ended(Done),
    /// The result has been taken, or nobody will ask.
    Gone,
}

/// Who is to be told, or woken.
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
    /// It has this message now.
    Message(Message, Then),
    /// It is an operation that may stay where it is.
    Stays,
    /// Whoever waits has it, or it has ended.
    Gone,
}

/// See the head of this file.
pub(crate) struct Cell(Mutex<Inside>);

impl Cell {
    /// One that can be asked, and the letter to be sent.
    pub(crate) fn new(request: Request, then: Then) -> (Arc<Node<Self>>, Letter<Self>) {
        let to = match then {
            Then::Cell => To::Nobody,
            Then::Apart(then) => To::Apart(then),
            Then::Inline(then) => To::Inline(then),
        };
        Node::new(Self::of(Message::Submit(request), to))
    }

    /// One that only the progress thread sees.
    pub(crate) fn letter(message: Message) -> Letter<Self> {
        Node::letter(Self::of(message, To::Nobody))
    }

    fn of(message: Message, to: To) -> Self {
        Self(Mutex::new(Inside { state: State::Queued(message), to }))
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the message for the progress thread, but for an operation that may stay, if it wants none (`is_full`).
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

    /// Takes an operation that nobody has begun with and somebody has cancelled, to be ended.
    pub(crate) fn begin_cancelled(&self) -> Option<(Work, Then)> {
        let is_cancelled =
            matches!(&self.lock().state, State::Queued(Message::Submit(request)) if request.is_cancelled);
        match is_cancelled.then(|| self.begin(false))? {
            Begun::Message(Message::Submit(request), then) => Some((request.work, then)),
            _ => None,
        }
    }

    /// Notes by which handle the proactor knows it.
    pub(crate) fn set_handle(&self, handle: Handle) {
        if let State::Running(place) = &mut self.lock().state {
            *place = Some(handle);
        }
    }

    /// The handle, if the proactor has it.
    pub(crate) fn handle(&self) -> Option<Handle> {
        match self.lock().state {
            State::Running(handle) => handle,
            _ => None,
        }
    }

    /// Takes the request for a waiter, if nobody has begun with it and it is one operation without a position or a deadline.
    pub(crate) fn take(&self) -> Option<Request> {
        let mut inside = self.lock();
        let State::Queued(Message::Submit(request)) = &inside.state else { return None };
        // Whoever carries out what has a deadline could not be stopped by it.
        if !request.may_stay() || request.is_cancelled || matches!(request.work, Work::Machine(_)) {
            return None;
        }
        let State::Queued(Message::Submit(request)) = std::mem::replace(&mut inside.state, State::Taken)
        else {
            return None;
        };
        let then = inside.to.take_then();
        drop(inside);
        // Whoever takes it is told here; what a continuation holds is dropped outside the lock.
        drop(then);
        Some(request)
    }

    /// Whether nobody has begun with it.
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.lock().state, State::Queued(_))
    }

    /// Remembers that it is to be cancelled.
    pub(crate) fn cancel(&self) {
        if let State::Queued(Message::Submit(request)) = &mut self.lock().state {
            request.is_cancelled = true;
        }
    }

    /// The operation has ended. Whoever is given back is to be woken.
    #[must_use]
    pub(crate) fn end(&self, done: Done) -> Option<Waiter> {
        let mut inside = self.lock();
        // Nobody will ask: what came of it is dropped, outside the lock.
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

    /// Whether it has ended and what came of it has not been taken.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.lock().state, State::Ended(_))
    }

    /// Blocks until it has ended, or `until`; looks around for `spin` at most before it sleeps.
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

    /// Sleeps until it has ended.
    fn park(&self, until: Option<Instant>) -> Option<Done> {
        let mut has_slept = false;
        let done = loop {
            // It parks again if it was woken for something else.
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
            // It may have been woken for somebody else on this thread, who is to find that out.
            std::thread::current().unpark();
        }
        done
    }

    /// For a future.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Option<Done>> {
        self.ask(|known| match known {
            Some(Waiter::Task(known)) if known.will_wake(waker) => Waiter::Task(known),
            _ => Waiter::Task(waker.clone()),
        })
    }

    /// What came of it, if it has ended; else it remembers who waits. None: it was taken before.
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

    /// Nobody will ask what came of it. Whether the progress thread is to hear that it is cancelled.
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
