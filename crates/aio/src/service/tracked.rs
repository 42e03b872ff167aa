//! Operations with a continuation that can be cancelled, and that a waiting thread can carry out: the base of the C interface.
//! [`Pending`](super::Pending) stores results for waiters.

use std::sync::Arc;

use super::{Call, Refused, Service, Shared};
use crate::cell::{Cell, Message, Then};
use crate::done::Done;
use crate::inbox::Node;
use crate::proactor::Work;

/// An operation that was submitted with a continuation. Dropping it lets the operation continue.
pub struct Tracked {
    cell: Arc<Node<Cell>>,
    shared: Arc<Shared>,
}

impl Service {
    /// As [`submit_then`](Self::submit_then), or [`submit_inline`](Self::submit_inline) if `is_inline`, for an operation that
    /// may be cancelled.
    ///
    /// # Errors
    /// Nothing was submitted, and `then` is not called.
    pub fn submit_tracked(
        &self,
        work: impl Into<Work>,
        call: Call,
        is_inline: bool,
        then: impl FnOnce(Done) + Send + 'static,
    ) -> Result<Tracked, Refused> {
        let to = if is_inline { Then::Inline } else { Then::Apart };
        let (cell, shared) = self.submit_request(work.into(), call, to(Box::new(then)))?;
        Ok(Tracked { cell, shared })
    }
}

impl Tracked {
    /// Ends the operation with `ECANCELED`, if it has not ended.
    pub fn cancel(&self) {
        if self.shared.process.is_here() {
            self.cell.cancel();
            self.shared.notify(Message::Cancel(Arc::clone(&self.cell)));
        }
    }

    /// Carries the operation out on this thread, if it has not started. Then the continuation is not called, and the result is
    /// returned here.
    #[must_use]
    pub fn run_here(&self) -> Option<Done> {
        if !self.shared.is_kernel || !self.shared.process.is_here() {
            return None;
        }
        let Work::Op(mut op) = self.cell.take()?.work else { return None };
        let outcome = crate::perform(&mut op);
        self.shared.count_help();
        Some(Done::new(outcome, Some(op)))
    }
}

impl std::fmt::Debug for Tracked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracked").finish_non_exhaustive()
    }
}
