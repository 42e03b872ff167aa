//! The progress thread: takes submissions, runs its proactor, and delivers results. `service.rs` holds the submitting side.
//! Operations that the proactor cannot start yet stay in their cells, in a linked queue: this needs no further memory, and a
//! waiting thread may still carry them out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use crate::cell::{Begun, Cell, Continuation, Message, Request, Then, Waiter};
use crate::done::Done;
use crate::driver::Driver;
use crate::executor::{self, Executor};
use crate::inbox::{Letter, Node, Queue};
use crate::patience::Patience;
use crate::proactor::{Limits, Proactor};

/// The receiver of a result.
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
    /// Operations that are not yet in the proactor.
    queue: Queue<Cell>,
    /// The number of cells that were cancelled since the last sweep of the queue.
    cancelled: usize,
    /// Waiters to wake once all results of this round are stored.
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
        let (queue, waiters) = (Queue::new(), Vec::new());
        Self { shared, proactor, executor, queue, cancelled: 0, waiters, is_closing: false }
    }

    /// Runs until the service is closed and nothing is pending.
    pub(super) fn run(mut self, spin: Duration) {
        let mut patience = Patience::new(spin, Duration::ZERO, Instant::now());
        loop {
            let began = Instant::now();
            let (had_mail, had_ends) = (self.read(), self.advance(Some(Duration::ZERO)));
            if had_mail || had_ends.is_some() {
                patience.was_busy(began, Instant::now());
                continue;
            }
            if self.is_closing && self.proactor.pending() == 0 && self.queue.len() == 0 {
                // A submitter after this sees it, and ends its operation itself.
                self.shared.sleep.go();
                return self.shared.refuse();
            }
            if patience.is_left(began) {
                // A kernel thread that copies data for it may need this core.
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

    /// Makes progress. Returns when it found ended operations, if any.
    fn advance(&mut self, at_most: Option<Duration>) -> Option<Instant> {
        let Self { shared, proactor, executor, waiters, .. } = self;
        let mut began = None;
        proactor.advance(at_most, |claim, done| {
            began.get_or_insert_with(Instant::now);
            // Count before the delivery: the receiver may submit the next operation at once.
            shared.count_end();
            match claim {
                Claim::Cell(cell) => waiters.extend(cell.end(done)),
                Claim::Apart(then) if !executor.is_inline() => executor.push(then, done),
                Claim::Apart(then) | Claim::Inline(then) => {
                    // The continuation may take long, or even wait for one of them.
                    waiters.drain(..).for_each(wake);
                    executor::run(move || then(done));
                }
            }
        });
        // Wake after all results are stored, so that a thread that waits for several is not woken for each.
        waiters.drain(..).for_each(wake);
        self.refill();
        began
    }

    /// Moves operations from the queue to the proactor until it is full.
    fn refill(&mut self) {
        while !self.proactor.is_full()
            && let Some(letter) = self.queue.pop()
        {
            self.begin(&letter);
        }
    }

    /// Moves an operation from the queue to the proactor, unless another thread has started it.
    fn begin(&mut self, letter: &Letter<Cell>) {
        if let Begun::Message(Message::Submit(request), then) = letter.node().begin(false) {
            self.submit(letter.node(), request, then);
        }
    }

    /// Takes new messages. Returns whether there were any.
    fn read(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        if shared.inbox.is_empty() {
            return false;
        }
        shared.inbox.take(|letter| {
            let is_full = self.queue.len() > 0 || self.proactor.is_full();
            match letter.node().begin(is_full) {
                Begun::Message(message, then) => self.heed(letter.node(), message, then),
                Begun::Stays => self.queue.push(letter),
                Begun::Gone => {}
            }
        });
        self.refill();
        true
    }

    /// Handles a message.
    fn heed(&mut self, cell: &Arc<Node<Cell>>, message: Message, then: Then) {
        match message {
            Message::Submit(request) => {
                // Operations before it start before it.
                while let Some(letter) = self.queue.pop() {
                    self.begin(&letter);
                }
                self.submit(cell, request, then);
            }
            Message::Cancel(cell) => self.cancel(&cell),
            Message::AddPosition(id, offset) => self.proactor.put_position(id, offset),
            Message::RemovePosition(id) => self.proactor.remove_position(id),
            Message::CancelAll => {
                while let Some(letter) = self.queue.pop() {
                    letter.node().cancel();
                    self.cancel(letter.node());
                }
                self.proactor.cancel_all();
            }
            Message::Close => self.is_closing = true,
        }
    }

    /// Cancels an operation.
    fn cancel(&mut self, cell: &Cell) {
        if let Some(handle) = cell.handle() {
            self.proactor.cancel(handle);
        } else if let Some((work, then)) = cell.begin_cancelled() {
            self.shared.end_unbegun(cell, work, then, libc::ECANCELED);
            self.cancelled += 1;
            self.sweep();
        }
    }

    /// Removes cancelled operations from the queue, once they are half of it.
    fn sweep(&mut self) {
        if 2 * self.cancelled <= self.queue.len() {
            return;
        }
        for _ in 0..self.queue.len() {
            if let Some(letter) = self.queue.pop()
                && letter.node().is_queued()
            {
                self.queue.push(letter);
            }
        }
        self.cancelled = 0;
    }

    /// Submits the operation of a cell.
    fn submit(&mut self, cell: &Arc<Node<Cell>>, request: Request, then: Then) {
        let terms = request.terms(|| self.proactor.driver().now());
        let claim = match then {
            Then::Cell => Claim::Cell(Arc::clone(cell)),
            Then::Apart(then) => Claim::Apart(then),
            Then::Inline(then) => Claim::Inline(then),
        };
        let handle = self.proactor.submit_unbounded(request.work, terms, claim);
        cell.set_handle(handle);
        if request.is_cancelled {
            self.proactor.cancel(handle);
        }
    }
}

/// Wakes a waiter. A panic of a program's own waker is caught and ignored.
pub(super) fn wake(waiter: Waiter) {
    executor::run(|| waiter.wake());
}
