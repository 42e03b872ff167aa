//! The interface of operations made of several, which look like a single one. `compound` holds those that exist.

use atta_entry::Errno;

use crate::{Op, Outcome};

/// The next action of a machine.
#[derive(Debug)]
pub enum Step {
    /// Carry out this operation, and report its outcome.
    Do(Op),
    /// Carry out this operation despite a stop, and report its outcome: it cleans up, or must not be left half done. It starts
    /// even if it waits, and is never cut short.
    Finish(Op),
    /// The machine has ended, with an operation to return for its buffers, if any.
    End(Outcome, Option<Op>),
}

/// Several operations, one after the other, that look like one. A proactor calls it between two operations. It must not panic:
/// that would end the thread that runs it, and all operations that are pending there.
pub trait Machine: Send {
    /// The next step, after the outcome of the last operation; `last` is `None` at the start.
    ///
    /// With `stop`, the machine is to end with this error, and takes no further steps except for the cleanup.
    fn next(&mut self, last: Option<(Op, Outcome)>, stop: Option<Errno>) -> Step;

    /// Whether the machine uses memory that a caller lent.
    fn borrows(&self) -> bool {
        false
    }
}
