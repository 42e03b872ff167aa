//! An operation that has ended, as its submitter gets it. No queues here.

use std::fmt;
use std::sync::Arc;

use crate::driver::Close;
use crate::perform::close;
use crate::{Buffer, Op, Outcome};

/// The outcome of an operation, and the operation with its buffers. A new descriptor that is not taken is closed.
pub struct Done {
    outcome: Outcome,
    op: Option<Box<Op>>,
    /// Closes the descriptor; `None`: the kernel does.
    closer: Option<Arc<dyn Close>>,
    was_cut: bool,
}

impl Done {
    pub(crate) fn new(outcome: Outcome, op: Option<Box<Op>>) -> Self {
        Self::with_closer(outcome, op, None)
    }

    /// For a driver whose descriptors are not the kernel's.
    pub(crate) fn with_closer(outcome: Outcome, op: Option<Box<Op>>, closer: Option<Arc<dyn Close>>) -> Self {
        Self { outcome, op, closer, was_cut: false }
    }

    /// Marks it as cut short.
    pub(crate) fn cut(mut self) -> Self {
        self.was_cut = true;
        self
    }

    /// Whether it ended early, by a cancellation or its deadline: a close that was cut has not closed.
    #[must_use]
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// The outcome: see [`Op`] for the meaning of the number.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The operation with its buffers and their new contents. `None`: it was given up while the kernel still worked on it; the
    /// buffers are freed later.
    #[must_use]
    pub fn op(&self) -> Option<&Op> {
        self.op.as_deref()
    }

    /// Takes both apart. The caller must close the descriptor of an [`Op::Open`] from here on.
    pub fn into_parts(mut self) -> (Outcome, Option<Box<Op>>) {
        (self.outcome, self.op.take())
    }

    /// The outcome and the buffer; the buffer is empty if the operation was given up or had none.
    pub fn into_buffer(self) -> (Outcome, Buffer) {
        let (outcome, op) = self.into_parts();
        (outcome, op.and_then(|op| op.into_buffer()).unwrap_or_default())
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if let (Ok(fd), Some(Op::Open { .. })) = (self.outcome, self.op.as_deref())
            && let Ok(fd) = i32::try_from(fd)
        {
            match &self.closer {
                Some(closer) => closer.close(fd),
                // There is no one to report an error to.
                None => drop(close(fd)),
            }
        }
    }
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done").field("outcome", &self.outcome).field("op", &self.op).finish_non_exhaustive()
    }
}
