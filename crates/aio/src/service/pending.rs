//! An operation that somebody waits for: by blocking, or as a future. How it is carried out is not known here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use crate::cell::{Cell, Message, Request};
use crate::done::Done;
use crate::inbox::Node;
use crate::proactor::Work;

/// An operation that was submitted. It is a future; who has no executor of futures calls [`wait`](Self::wait). Dropped, it
/// cancels the operation, whose buffers live as long as the kernel uses them.
pub struct Pending {
    pub(super) cell: Arc<Node<Cell>>,
    pub(super) shared: Arc<Shared>,
    pub(super) is_detached: bool,
}

impl Pending {
    /// Blocks until the operation has ended. If nobody has begun with it, this thread carries it out.
    #[must_use]
    pub fn wait(self) -> Done {
        self.run_here();
        self.cell.wait(None, self.shared.spin).unwrap_or_else(gone)
    }

    /// Blocks until the operation has ended, at most so long; else it goes on, and can be waited for again.
    ///
    /// # Errors
    /// It has not ended.
    pub fn wait_timeout(self, at_most: Duration) -> Result<Done, Self> {
        self.cell.wait(Some(Instant::now() + at_most), self.shared.spin).ok_or(self)
    }

    /// Ends the operation with `ECANCELED`, if it has not ended yet.
    pub fn cancel(&self) {
        if self.shared.process.is_here() {
            self.cell.cancel();
            self.shared.tell(Message::Cancel(Arc::clone(&self.cell)));
        }
    }

    /// Lets it go on by itself; what comes of it is dropped.
    pub fn detach(mut self) {
        self.is_detached = true;
    }

    /// Whether it has ended.
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
        // The one who would be woken is here.
        let _ = self.cell.end(Done::new(outcome, Some(op)));
    }
}

/// A result that was taken before: nobody gets it twice.
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
            self.shared.tell(Message::Cancel(Arc::clone(&self.cell)));
        }
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}
