//! Operations made of several: what one has to say so that it looks like a single one. What there are, is in `compound`.

use atta_entry::Errno;

use crate::{Op, Outcome};

/// What a machine does next.
#[derive(Debug)]
pub enum Step {
    /// Carry out this one, and tell.
    Do(Op),
    /// Carry out this one, whoever wants the machine to end, and tell: it cleans up, or must not be left half done. It is
    /// started even if it waits, and never cut short.
    Finish(Op),
    /// It has ended; an operation to give back, for its buffers, if there is one.
    End(Outcome, Option<Op>),
}

/// Several operations, one after the other, that look like one. Its states are its own; a proactor calls it between two
/// operations. It must not panic: that would end whoever runs it, and all that is pending there.
pub trait Machine: Send {
    /// The next step, after what the last operation led to; none at the start.
    ///
    /// `stop`: somebody wants it to end, with this error. It takes no further step but to clean up.
    fn next(&mut self, last: Option<(Op, Outcome)>, stop: Option<Errno>) -> Step;

    /// Whether it uses memory that somebody lent.
    fn borrows(&self) -> bool {
        false
    }
}
