//! Operations made of several: each is a machine of states that looks like one operation. Here is what they share: who ends
//! them, who cleans up, and whose error is told. It starts nothing itself: that is the proactor's.
//!
//! | operation | what it does |
//! | --- | --- |
//! | [`truncate`] | sets the length of a file by its path |
//! | [`stat`] | looks at a file by its path, through a descriptor |
//! | [`copy`] | copies a range of a file, by the kernel if it can |
//! | [`write()`] | makes or replaces a file as a whole or not at all |
//! | [`make_directories`] | makes a path of directories |
//! | [`rename`] | renames, also from one file system to another |
//!
//! # Whose error is told
//! - The first error that made the operation fail. Errors of cleaning up never hide it.
//! - If nothing failed: the first error of closing a file that was written. Other errors of closing mean nothing.
//! - Whoever stops an operation gives the error it is to end with, and no further step is begun. That error is told, unless the
//!   step that ran just then failed by itself, or was the last one.
//! - From a step that cannot be undone on (each operation names its own), a stop is too late: the rest is done.
//!
//! In each of these cases all descriptors are closed and a temporary file is removed first. An operation that was given up
//! (see [`Limits`](crate::Limits)) does so later. If the proactor itself is dropped meanwhile, descriptors are closed and a
//! temporary file stays.
//!
//! # To write another one
//! Say what follows each step, with an enum of states, and leave the rest to [`work`]:
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
//!         // An error leads out of here: then what is held is closed.
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
//! let mut told = None;
//! while told.is_none() {
//!     proactor.advance(None, |(), done| told = Some(done.outcome()));
//! }
//! assert_eq!(told, Some(Ok(0)));
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

/// What follows a step.
#[derive(Debug)]
pub enum Next {
    /// This one. It is not begun, or cut short, if somebody wants the operation to end.
    Do(Op),
    /// This one, which is not begun if somebody wants the operation to end, and never cut short: it cannot be undone, so that
    /// one must know whether it was done.
    Commit(Op),
    /// This one in any case: it cannot be left out after what was done.
    Finish(Op),
    /// Closing this one, in any case.
    Close(Opened),
    /// It has all been done, with this result.
    End(u64),
}

/// The states of a compound operation; how it ends is not theirs.
pub trait Steps: Send {
    /// What follows `op`, which led to `outcome`. At the start that is [`Op::Nop`], which led to zero. Called as well when the
    /// operation is to end, so that what has been opened or made is known to `held`.
    ///
    /// # Errors
    /// The operation fails.
    fn step(&mut self, op: Op, outcome: Outcome, held: &mut Held) -> Result<Next, Errno>;

    /// A step that it gave is not begun, because somebody wants the operation to end. For those who must give a buffer back.
    fn refused(&mut self, op: Op) {
        drop(op);
    }

    /// The operation to give back at the end.
    fn give_back(self) -> Option<Op>
    where
        Self: Sized,
    {
        None
    }

    /// Whether it uses memory that somebody lent.
    fn borrows(&self) -> bool {
        false
    }
}

/// What is to be done, from its steps.
pub fn work(steps: impl Steps + 'static) -> Work {
    Work::Machine(Box::new(machine(steps)))
}

fn machine<S: Steps>(steps: S) -> Compound<S> {
    Compound { steps: Some(steps), held: Held::default(), outcome: Ok(0), gift: None, is_written: false }
}

/// Steps, and what ends them.
struct Compound<S> {
    /// None: it cleans up.
    steps: Option<S>,
    held: Held,
    outcome: Outcome,
    gift: Option<Op>,
    /// A file that was written is being closed on the way out.
    is_written: bool,
}

impl<S: Steps> Compound<S> {
    /// Calls the steps. None: they have ended, and the outcome is known.
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
            // Somebody else has it too, and it closes with them.
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
            // It may share what is closed next.
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

/// Whether that is how an operation ends that was cut short.
fn is_cut(errno: Errno) -> bool {
    matches!(errno.0, libc::ECANCELED | libc::EINTR)
}
