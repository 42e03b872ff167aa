//! The progress thread: takes what was submitted, runs its proactor, and tells who is to be told. Who submits is in `service.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use crate::cell::{Cell, Continuation, Message, Request, Waiter};
use crate::done::Done;
use crate::driver::Driver;
use crate::executor::{self, Executor};
use crate::inbox::Node;
use crate::patience::Patience;
use crate::proactor::{Limits, Proactor};

/// Who is told when an operation has ended.
enum Claim {
    Cell(Arc<Node<Cell>>),
    /// On the executor.
    Apart(Continuation),
    /// On the progress thread.
    Inline(Continuation),
}

/// The progress thread's side.
pub(super) struct Progress {
    shared: Arc<Shared>,
    proactor: Proactor<Box<dyn Driver>, Claim>,
    executor: Executor<Done>,
    /// Who is to be woken once all that have ended are known to have.
    waiters: Vec<Waiter>,
    is_closing: bool,
}

impl Progress {
    pub(super) fn new(
        shared: Arc<Shared>,
        driver: Box<dyn Driver>,
        limits: Limits,
        executor: Executor<Done>,
    ) -> Self {
        let proactor = Proactor::new(driver, limits);
        Self { shared, proactor, executor, waiters: Vec::new(), is_closing: false }
    }

    /// Until the service is closed and nothing is pending.
    pub(super) fn run(mut self, spin: Duration) {
        let mut patience = Patience::new(spin, Duration::ZERO, Instant::now());
        loop {
            let began = Instant::now();
            let (had_mail, had_ends) = (self.read(), self.advance(Some(Duration::ZERO)));
            if had_mail || had_ends.is_some() {
                patience.was_busy(began, Instant::now());
                continue;
            }
            if self.is_closing && self.proactor.pending() == 0 {
                // Who submits after this sees it, and ends what nobody else will.
                self.shared.sleep.go();
                return self.shared.refuse();
            }
            if patience.is_left(began) {
                // Whoever copies for it in the kernel may need this core.
                std::thread::yield_now();
                continue;
            }
            self.shared.sleep.lie_down();
            if self.shared.inbox.is_empty()
                && let Some(began) = self.advance(None)
            {
                patience.was_busy(began, Instant::now());
            }
            self.shared.sleep.get_up();
        }
    }

    /// Goes on with operations. When it found some that have ended, if it did.
    fn advance(&mut self, at_most: Option<Duration>) -> Option<Instant> {
        let Self { shared, proactor, executor, waiters, .. } = self;
        let mut began = None;
        proactor.advance(at_most, |claim, done| {
            began.get_or_insert_with(Instant::now);
            // Before anybody hears of it, who may submit the next one at once.
            shared.count_end();
            match claim {
                Claim::Cell(cell) => waiters.extend(cell.end(done)),
                Claim::Apart(then) if !executor.is_inline() => executor.push(then, done),
                Claim::Apart(then) | Claim::Inline(then) => {
                    // It may take long, or even wait for one of them.
                    waiters.drain(..).for_each(wake);
                    executor::run(move || then(done));
                }
            }
        });
        // Whoever waits for several finds all of them, and is not woken for each.
        waiters.drain(..).for_each(wake);
        began
    }

    /// Takes what was submitted. Whether there was anything.
    fn read(&mut self) -> bool {
        let Self { shared, proactor, is_closing, .. } = self;
        if shared.inbox.is_empty() {
            return false;
        }
        shared.inbox.take(|cell| {
            // None: whoever waits for it has taken it.
            let Some(message) = cell.begin() else { return };
            match message {
                Message::Submit(request) => submit(proactor, &cell, request),
                Message::Cancel(cell) => {
                    if let Some(handle) = cell.handle() {
                        proactor.cancel(handle);
                    }
                }
                Message::AddPosition(id, offset) => proactor.put_position(id, offset),
                Message::RemovePosition(id) => proactor.remove_position(id),
                Message::CancelAll => proactor.cancel_all(),
                Message::Close => *is_closing = true,
            }
        });
        true
    }
}

/// Wakes somebody. What a program's own waker does in a panic is its own affair.
pub(super) fn wake(waiter: Waiter) {
    executor::run(|| waiter.wake());
}

/// Submits what was in a cell.
fn submit(proactor: &mut Proactor<Box<dyn Driver>, Claim>, cell: &Arc<Node<Cell>>, request: Request) {
    let terms = request.terms(|| proactor.driver().now());
    let claim = match (request.then, request.is_inline) {
        (None, _) => Claim::Cell(Arc::clone(cell)),
        (Some(then), false) => Claim::Apart(then),
        (Some(then), true) => Claim::Inline(then),
    };
    let handle = proactor.submit_unbounded(request.work, terms, claim);
    cell.set_handle(handle);
    if request.is_cancelled {
        proactor.cancel(handle);
    }
}
