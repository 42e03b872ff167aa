//! An operation that has ended, as whoever asked for it gets it. No queues here.

use std::fmt;
use std::sync::Arc;

use crate::driver::Close;
use crate::perform::close;
use crate::{Buffer, Op, Outcome};

/// What came of an operation, and the operation itself with its buffers. A new descriptor that nobody takes is closed.
pub struct Done {
    outcome: Outcome,
    op: Option<Box<Op>>,
    /// What closes the descriptor; none: the kernel.
    closer: Option<Arc<dyn Close>>,
    was_cut: bool,
}

impl Done {
    pub(crate) fn new(outcome: Outcome, op: Option<Box<Op>>) -> Self {
        Self::with_closer(outcome, op, None)
    }

    /// Of a driver whose descriptors are not the kernel's.
    pub(crate) fn with_closer(outcome: Outcome, op: Option<Box<Op>>, closer: Option<Arc<dyn Close>>) -> Self {
        Self { outcome, op, closer, was_cut: false }
    }

    /// The same, cut short.
    pub(crate) fn cut(mut self) -> Self {
        self.was_cut = true;
        self
    }

    /// Whether it was ended before its time, by a cancellation or its deadline: a close that was cut has not closed.
    #[must_use]
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// What it led to: see [`Op`] for the meaning of the number.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The operation with its buffers and what was written to them. None: it was given up while the kernel still worked on
    /// it, which frees them later.
    #[must_use]
    pub fn op(&self) -> Option<&Op> {
        self.op.as_deref()
    }

    /// Takes both apart. A descriptor that an [`Op::Open`] gave is the caller's to close from here on.
    pub fn into_parts(mut self) -> (Outcome, Option<Box<Op>>) {
        (self.outcome, self.op.take())
    }

    /// What it led to, and the buffer; an empty one if it was given up or had none.
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
                // Nobody is left to tell of an error.
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
