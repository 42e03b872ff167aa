//! Drivers carry operations out: the kernel's ring, threads, or a simulated file system, behind one trait. A driver owns each
//! operation until it has ended, so that memory in use by the kernel is not freed. It knows no queues and no continuations.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use crate::{Done, Op, Outcome};

mod cached;
pub mod ring;
pub mod simulated;
pub mod threads;

/// Identifies a started operation. The caller chooses the number, which must be unique among running operations.
pub type Token = u64;

/// An operation that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The operation's token.
    pub token: Token,
    /// The result, and the operation with its buffers.
    pub done: Done,
}

impl Ended {
    pub(crate) fn new(token: Token, op: Box<Op>, outcome: Outcome) -> Self {
        Self::with_closer(token, op, outcome, None)
    }

    /// For a driver whose descriptors are not the kernel's.
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
    /// Closes the descriptor, now or at the next use of the driver.
    fn close(&self, fd: RawFd);
}

/// Makes [`Driver::wait`] return, from any thread.
pub trait Wake: Send + Sync {
    /// Wakes the driver, now or at its next wait. Takes one system call at most.
    fn wake(&self);
}

/// Carries out operations. One thread uses it.
pub trait Driver {
    /// Takes over an operation. It may start now, or at the next [`wait`](Self::wait).
    fn start(&mut self, token: Token, op: Box<Op>);

    /// Tries to end an operation soon, with `ECANCELED`. The operation may still end in any other way, and at any later time:
    /// one that waits for a hung server cannot be interrupted.
    fn cancel(&mut self, token: Token);

    /// Waits until an operation ends, and adds ended operations to `ended`. It waits for `at_most`; `None`: without limit.
    /// After a wake-up it returns early, without results.
    fn wait(&mut self, at_most: Option<Duration>, ended: &mut Vec<Ended>);

    /// Whether its files are the kernel's, so that a waiting caller may carry an operation out by [`perform`](crate::perform).
    fn is_kernel(&self) -> bool;

    /// The preferred number of concurrent operations.
    fn depth(&self) -> usize;

    /// Returns its waker.
    fn waker(&self) -> Arc<dyn Wake>;

    /// The time since some start, on a clock that need not be the system's.
    fn now(&self) -> Duration;

    /// Closes descriptors that it opened and no caller took; `None`: the kernel does.
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
