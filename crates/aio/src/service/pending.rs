//! An operation to wait for, by blocking or as a future.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use crate::cell::{Cell, Message, Request};
use crate::done::Done;
use crate::inbox::Node;
use crate::proactor::Work;

/// A submitted operation, as a future. Without an executor of futures, call [`wait`](Self::wait). On drop it cancels the
/// operation, whose buffers live as long as the kernel uses them.
pub struct Pending {
    pub(super) cell: Arc<Node<Cell>>,
    pub(super) shared: Arc<Shared>,
    pub(super) is_detached: bool,
}

impl Pending {
    /// Blocks until the operation has ended. If it has not started, this thread carries it out.
    #[must_use]
    pub fn wait(self) -> Done {
        self.run_here();
        self.cell.wait(None, self.shared.spin).unwrap_or_else(gone)
    }

    /// Blocks until the operation has ended, for `at_most`. After that the operation continues and can be waited for again.
    ///
    /// # Errors
    /// It has not ended.
    pub fn wait_timeout(self, at_most: Duration) -> Result<Done, Self> {
        self.cell.wait(Some(Instant::now() + at_most), self.shared.spin).ok_or(self)
    }

    /// Ends the operation with `ECANCELED`, if it has not ended.
    pub fn cancel(&self) {
        if self.shared.process.is_here() {
            self.cell.cancel();
            self.shared.notify(Message::Cancel(Arc::clone(&self.cell)));
        }
    }

    /// Lets the operation continue on its own; its result is dropped.
    pub fn detach(mut self) {
        self.is_detached = true;
    }

    /// Whether the operation has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.cell.has_ended()
    }

    fn run_here(&self) {
        if !self.shared.is_kernel || !self.shared.process.is_here() {
            return;
        }
        let Some(Request { work: Work::Op(mut op), .. }) = self.cell.take() else { return };
        let outcome = crate::perform(&mut op);
        self.shared.count_help();
        // No wake-up needed: this thread is the waiter.
        let _ = self.cell.end(Done::new(outcome, Some(op)));
    }
}

/// The result for a second request: each result is returned once.
fn gone() -> Done {
    Done::new(Err(atta_entry::Errno::INVAL), None)
}

impl Future for Pending {
    type Output = Done;

    fn poll(self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Done> {
        self.cell.poll(context.waker()).map(|done| done.unwrap_or_else(gone))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_detached && self.cell.leave() && self.shared.process.is_here() {
            self.shared.notify(Message::Cancel(Arc::clone(&self.cell)));
        }
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}
