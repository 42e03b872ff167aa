//! Compound operations: each is a state machine that looks like one operation. This module holds the parts that they share: how
//! they end, how they clean up, and which error they report. It starts nothing itself; the proactor does.
//!
//! | operation | what it does |
//! | --- | --- |
//! | [`truncate`] | sets the length of a file by its path |
//! | [`stat`] | looks at a file by its path, through a descriptor |
//! | [`copy`] | copies a range of a file, in the kernel if possible |
//! | [`write()`] | creates or replaces a file atomically |
//! | [`make_directories`] | makes a path of directories |
//! | [`rename`] | renames, also from one file system to another |
//!
//! # Which error is reported
//! - The first error that made the operation fail. Errors of the cleanup never hide it.
//! - If nothing failed: the first error of closing a file that was written. Other errors of closing are ignored.
//! - A stop carries the error that the operation is to end with, and no further step starts. That error is reported, unless the
//!   step that was running failed by itself or was the last one.
//! - After a step that cannot be undone (each operation names its own), a stop is too late: the remaining steps are carried
//!   out.
//!
//! In each of these cases the operation first closes all descriptors and removes its temporary file. An operation that was
//! given up (see [`Limits`](crate::Limits)) does so later. If the proactor itself is dropped meanwhile, the descriptors are
//! closed and the temporary file stays.
//!
//! # Writing another one
//! Define the step that follows each step, with an enum of states, and leave the rest to [`work`]:
//!
//! ```
//! use atta_aio::compound::{self, Held, Next, Opened, Steps};
//! use atta_aio::driver::threads::Threads;
//! use atta_aio::{Limits, Op, Outcome, Place, Proactor, Sync, Terms};
//! use atta_entry::Errno;
//!
//! /// Makes an empty file durable.
//! struct Touch(State);
//!
//! enum State {
//!     Start(Place),
//!     Opening,
//!     Syncing(Opened),
//! }
//!
//! impl Steps for Touch {
//!     fn step(&mut self, _: Op, outcome: Outcome, held: &mut Held) -> Result<Next, Errno> {
//!         // On an error, the function returns and everything in `held` is closed.
//!         let value = outcome?;
//!         let (state, next) = match &self.0 {
//!             State::Start(place) => {
//!                 let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC;
//!                 (State::Opening, Next::Do(Op::Open { place: place.clone(), flags, mode: 0o600 }))
//!             }
//!             State::Opening => {
//!                 let file = held.opened_to_write(value);
//!                 (State::Syncing(file), Next::Do(Op::Sync { fd: held.fd(file), what: Sync::All }))
//!             }
//!             State::Syncing(_) => return Ok(Next::End(0)),
//!         };
//!         self.0 = state;
//!         Ok(next)
//!     }
//! }
//!
//! let path = std::env::temp_dir().join(format!("atta-touch-{}", std::process::id()));
//! let place = Place::path(std::ffi::CString::new(path.to_str().unwrap()).unwrap());
//! let mut proactor = Proactor::new(Threads::new(1), Limits::default());
//! proactor.submit(compound::work(Touch(State::Start(place))), Terms::default(), ()).unwrap();
//! let mut outcome = None;
//! while outcome.is_none() {
//!     proactor.advance(None, |(), done| outcome = Some(done.outcome()));
//! }
//! assert_eq!(outcome, Some(Ok(0)));
//! std::fs::remove_file(path).unwrap();
//! ```

use atta_entry::Errno;

use crate::{Machine, Op, Outcome, Step, Work};

mod carry;
mod copy;
mod directories;
mod held;
mod names;
mod rename;
mod stat;
#[cfg(test)]
mod tests;
mod truncate;
mod write;

pub use copy::copy;
pub use directories::make_directories;
pub use held::{Held, Opened};
pub use rename::rename;
pub use stat::stat;
pub use truncate::truncate;
pub use write::write;

/// The next action of a compound operation.
#[derive(Debug)]
pub enum Next {
    /// Carry out this operation. It does not start, or is cut short, if the compound operation was stopped.
    Do(Op),
    /// Carry out this operation, which cannot be undone. It does not start if the compound operation was stopped, and it is
    /// never cut short, so that its outcome is known.
    Commit(Op),
    /// Carry out this operation in any case: the steps before require it.
    Finish(Op),
    /// Close this descriptor, in any case.
    Close(Opened),
    /// The compound operation has succeeded, with this result.
    End(u64),
}

/// The states of a compound operation. The module decides how the operation ends.
pub trait Steps: Send {
    /// Returns the action that follows `op`, which had `outcome`. The first call gets [`Op::Nop`] with the outcome 0. It is
    /// also called after a stop, so that `held` knows every descriptor and file that the last step created.
    ///
    /// # Errors
    /// The operation fails.
    fn step(&mut self, op: Op, outcome: Outcome, held: &mut Held) -> Result<Next, Errno>;

    /// Returns an operation that does not start, because of a stop. Steps that must give a buffer back override this.
    fn refused(&mut self, op: Op) {
        drop(op);
    }

    /// The operation to return to the caller at the end.
    fn give_back(self) -> Option<Op>
    where
        Self: Sized,
    {
        None
    }

    /// Whether the operation uses memory that a caller lent.
    fn borrows(&self) -> bool {
        false
    }
}

/// Builds a [`Work`] from steps.
pub fn work(steps: impl Steps + 'static) -> Work {
    Work::Machine(Box::new(machine(steps)))
}

fn machine<S: Steps>(steps: S) -> Compound<S> {
    Compound { steps: Some(steps), held: Held::default(), outcome: Ok(0), gift: None, is_written: false }
}

/// Steps, and the code that ends them.
struct Compound<S> {
    /// `None` during the cleanup.
    steps: Option<S>,
    held: Held,
    outcome: Outcome,
    gift: Option<Op>,
    /// The cleanup is closing a file that was written.
    is_written: bool,
}

impl<S: Steps> Compound<S> {
    /// Calls the steps. Returns `None` when they have ended and the outcome is known.
    fn go_on(&mut self, op: Op, outcome: Outcome, stop: Option<Errno>) -> Option<Step> {
        let steps = self.steps.as_mut()?;
        let next = match steps.step(op, outcome, &mut self.held) {
            Ok(next) => next,
            Err(errno) => return self.end(Err(stop.filter(|_| is_cut(errno)).unwrap_or(errno))),
        };
        match (next, stop) {
            (Next::End(value), _) => self.end(Ok(value)),
            (Next::Do(op) | Next::Commit(op), Some(stop)) => {
                steps.refused(op);
                self.end(Err(stop))
            }
            (Next::Do(op), None) => Some(Step::Do(op)),
            (Next::Commit(op) | Next::Finish(op), _) => Some(Step::Finish(op)),
            // Another operation or state shares it; it closes with the last of them.
            (Next::Close(opened), _) => Some(Step::Finish(self.held.close(opened).unwrap_or(Op::Nop))),
        }
    }

    fn end(&mut self, outcome: Outcome) -> Option<Step> {
        self.outcome = outcome;
        self.gift = self.steps.take().and_then(S::give_back);
        None
    }
}

impl<S: Steps> Machine for Compound<S> {
    fn next(&mut self, last: Option<(Op, Outcome)>, stop: Option<Errno>) -> Step {
        let (op, outcome) = last.unwrap_or((Op::Nop, Ok(0)));
        if self.steps.is_some() {
            if let Some(step) = self.go_on(op, outcome, stop) {
                return step;
            }
        } else {
            // It may share the descriptor that is closed next.
            drop(op);
            if self.is_written && self.outcome.is_ok() && outcome.is_err() {
                self.outcome = outcome;
            }
        }
        match self.held.release() {
            Some((op, is_written)) => {
                self.is_written = is_written;
                Step::Finish(op)
            }
            None => Step::End(self.outcome, self.gift.take()),
        }
    }

    fn borrows(&self) -> bool {
        self.steps.as_ref().map_or_else(|| self.gift.as_ref().is_some_and(Op::borrows), S::borrows)
    }
}

/// Whether an operation that was cut short ends with this error.
fn is_cut(errno: Errno) -> bool {
    matches!(errno.0, libc::ECANCELED | libc::EINTR)
}
