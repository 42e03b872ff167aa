//! The life of a control block: created, started, continued after each operation, delivered, freed. `ends.rs` handles early
//! ends.

use std::num::NonZero;

use atta_entry::Errno;

use super::{Block, Handle, Proactor, State, Stop};
use crate::done::Done;
use crate::driver::Driver;
use crate::machine::Step;
use crate::position::Before;
use crate::{Op, Outcome};

impl<D: Driver, C> Proactor<D, C> {
    pub(super) fn insert(&mut self, block: Block<C>) -> Handle {
        self.held += 1;
        if let Some(slot) = self.free.pop() {
            let place = &mut self.blocks[slot as usize];
            let generation = place.generation;
            *place = Block { generation, ..block };
            return Handle { slot, generation };
        }
        let slot = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        self.blocks.push(block);
        Handle { slot, generation: 0 }
    }

    /// The block of an operation that has not been freed.
    pub(super) fn block(&mut self, handle: Handle) -> Option<&mut Block<C>> {
        let block = self.blocks.get_mut(handle.slot as usize)?;
        (block.generation == handle.generation && !matches!(block.state, State::Free)).then_some(block)
    }

    /// Frees a block, and returns the caller's data.
    pub(super) fn release(&mut self, handle: Handle) -> Option<C> {
        let block = self.block(handle)?;
        block.state = State::Free;
        block.machine = None;
        block.generation = block.generation.wrapping_add(1);
        let (claim, position) = (block.claim.take(), block.position.take());
        if let Some(id) = position.map(NonZero::get)
            && let Some(position) = self.positions.get_mut(&id)
        {
            position.leave();
            self.forget_position(id);
        }
        self.free.push(handle.slot);
        self.held -= 1;
        self.given_up -= usize::from(claim.is_none());
        claim
    }

    /// Ends an operation for good and queues its result.
    pub(super) fn deliver(&mut self, handle: Handle, done: Done) {
        if let Some(claim) = self.release(handle) {
            self.results.push_back((handle, claim, done));
        }
    }

    /// The maximum number of running operations.
    pub(super) fn most_running(&self) -> usize {
        self.limits.running.unwrap_or_else(|| self.driver.depth()).max(1)
    }

    /// Starts waiting operations, up to the limit.
    pub(super) fn fill(&mut self) {
        let most = self.most_running();
        while self.running < most
            && let Some(handle) = self.waiting.pop_front()
        {
            // It may have been cancelled, or started from an earlier entry in the queue.
            let Some(block) = self.block(handle).filter(|block| matches!(block.state, State::Waiting(_)))
            else {
                continue;
            };
            let State::Waiting(op) = std::mem::replace(&mut block.state, State::Running) else { continue };
            self.waits -= 1;
            self.begin(handle, op);
        }
    }

    /// Starts an operation, unless its position is in use.
    pub(super) fn begin(&mut self, handle: Handle, mut op: Box<Op>) {
        let position = self.block(handle).and_then(|block| block.position).map(NonZero::get);
        let before = match position {
            None => Before::Start,
            Some(position) => match self.positions.get_mut(&position) {
                Some(position) => position.before(&mut op, handle),
                None => Before::Ended(Err(Errno(libc::EBADF))),
            },
        };
        match before {
            Before::Start => {
                if let Some(block) = self.block(handle) {
                    block.borrows = op.borrows();
                }
                self.running += 1;
                self.driver.start(handle.token(), op);
            }
            Before::Park => {
                self.waits += 1;
                if let Some(block) = self.block(handle) {
                    block.state = State::Parked(op);
                }
            }
            Before::Ended(outcome) => self.after(handle, op, outcome),
        }
    }

    pub(super) fn after_driver(&mut self, handle: Handle, done: Done) {
        if let (outcome, Some(op)) = done.into_parts() {
            self.after(handle, op, outcome);
        }
    }

    /// The result of an operation of this driver.
    pub(super) fn done(&self, outcome: Outcome, op: Option<Box<Op>>) -> Done {
        let is_open = outcome.is_ok() && matches!(op.as_deref(), Some(Op::Open { .. }));
        Done::with_closer(outcome, op, if is_open { self.driver.closer() } else { None })
    }

    /// Continues after an operation of the driver, or of a position, has ended.
    pub(super) fn after(&mut self, handle: Handle, op: Box<Op>, outcome: Outcome) {
        let Some(block) = self.block(handle) else { return drop(self.done(outcome, Some(op))) };
        let (stop, goes_on) = (block.stop.map(Stop::errno), block.machine.is_some());
        if let Some(position) = block.position.map(NonZero::get) {
            self.move_position(position, &op, outcome, goes_on.then_some(handle));
        }
        let Some(block) = self.block(handle) else { return drop(self.done(outcome, Some(op))) };
        if let Some(mut machine) = block.machine.take() {
            let step = machine.next(Some((*op, outcome)), stop);
            block.is_finishing = matches!(step, Step::Finish(_));
            match step {
                Step::Do(op) | Step::Finish(op) => {
                    block.machine = Some(machine);
                    block.state = State::Waiting(Box::new(op));
                    self.waiting.push_front(handle);
                    self.waits += 1;
                }
                Step::End(outcome, op) => {
                    let done = self.done(outcome, op.map(Box::new));
                    self.skip_position(handle);
                    self.deliver(handle, done);
                }
            }
            return;
        }
        let was_cut = match outcome {
            Err(Errno(libc::ECANCELED)) => true,
            // An interrupted close has closed the descriptor.
            Err(Errno(libc::EINTR)) => !matches!(*op, Op::Close { .. }),
            _ => false,
        };
        let done = match stop {
            Some(stop) if was_cut => self.done(Err(stop), Some(op)).cut(),
            _ => self.done(outcome, Some(op)),
        };
        self.deliver(handle, done);
    }
}
