//! What carries operations out: the kernel's ring, threads, or a simulated file system, behind one trait. A driver owns each
//! operation until it has ended, so that what the kernel uses cannot be freed; it knows no queues and no continuations.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use crate::{Done, Op, Outcome};

mod cached;
pub mod ring;
pub mod simulated;
pub mod threads;

/// Names a started operation. Whoever starts it chooses the number, which no other operation that runs may have.
pub type Token = u64;

/// An operation that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Which.
    pub token: Token,
    /// What it led to, and the operation with what belongs to it.
    pub done: Done,
}

impl Ended {
    pub(crate) fn new(token: Token, op: Box<Op>, outcome: Outcome) -> Self {
        Self::with_closer(token, op, outcome, None)
    }

    /// Of a driver whose descriptors are not the kernel's.
    pub(crate) fn with_closer(
        token: Token,
        op: Box<Op>,
        outcome: Outcome,
        closer: Option<Arc<dyn Close>>,
    ) -> Self {
        Self { token, done: Done::with_closer(outcome, Some(op), closer) }
    }
}

/// Closes descriptors that are not the kernel's.
pub trait Close: Send + Sync {
    /// Does it, now or when the driver is used next.
    fn close(&self, fd: RawFd);
}

/// Makes [`Driver::wait`] return, from any thread.
pub trait Wake: Send + Sync {
    /// Does it, now or at the next call. Takes one system call at most.
    fn wake(&self);
}

/// Carries out operations. Used by one thread.
pub trait Driver {
    /// Takes an operation over. It may begin now, or at the next [`wait`](Self::wait).
    fn start(&mut self, token: Token, op: Box<Op>);

    /// Tries to end an operation soon, with `ECANCELED`. It may still end in any other way, or take as long as it takes: what
    /// a server that hangs holds up cannot be interrupted.
    fn cancel(&mut self, token: Token);

    /// Adds what has ended to `ended`, after waiting for something to end, but not longer than `at_most`; none: for ever.
    /// Returns early, with nothing, when it was woken.
    fn wait(&mut self, at_most: Option<Duration>, ended: &mut Vec<Ended>);

    /// Whether its files are those of the kernel, so that a caller who would only wait may carry an operation out by
    /// [`perform`](crate::perform).
    fn is_kernel(&self) -> bool;

    /// How many operations it would like to have at a time.
    fn depth(&self) -> usize;

    /// What wakes it.
    fn waker(&self) -> Arc<dyn Wake>;

    /// The time since some beginning: of a clock that need not be the system's.
    fn now(&self) -> Duration;

    /// What closes a descriptor that it opened and nobody took; none: the kernel does.
    fn closer(&self) -> Option<Arc<dyn Close>> {
        None
    }
}

impl<D: Driver + ?Sized> Driver for Box<D> {
    fn start(&mut self, token: Token, op: Box<Op>) {
        (**self).start(token, op);
    }

    fn cancel(&mut self, token: Token) {
        (**self).cancel(token);
    }

    fn wait(&mut self, at_most: Option<Duration>, ended: &mut Vec<Ended>) {
        (**self).wait(at_most, ended);
    }

    fn is_kernel(&self) -> bool {
        (**self).is_kernel()
    }

    fn depth(&self) -> usize {
        (**self).depth()
    }

    fn waker(&self) -> Arc<dyn Wake> {
        (**self).waker()
    }

    fn now(&self) -> Duration {
        (**self).now()
    }

    fn closer(&self) -> Option<Arc<dyn Close>> {
        (**self).closer()
    }
}
