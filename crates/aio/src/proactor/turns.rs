//! Turns at a position, among the blocks that use it. `position.rs` defines how a position moves.

use std::num::NonZero;

use super::{Handle, Proactor, State};
use crate::driver::Driver;
use crate::position::Position;
use crate::{Op, Outcome};

impl<D: Driver, C> Proactor<D, C> {
    /// Moves a position and starts the next operation that waits for it. Between two steps of a compound operation, the
    /// position stays with that operation.
    pub(super) fn move_position(&mut self, id: u64, op: &Op, outcome: Outcome, goes_on: Option<Handle>) {
        if let Some(position) = self.positions.get_mut(&id) {
            position.after(op, outcome);
            match goes_on {
                Some(handle) => position.keep(handle),
                None => self.pass_position(id),
            }
        }
    }

    /// Releases the position of an operation that will not use it.
    pub(super) fn skip_position(&mut self, handle: Handle) {
        let taken = self.block(handle).and_then(|block| block.position.take());
        let Some(id) = taken.map(NonZero::get) else { return };
        if let Some(position) = self.positions.get_mut(&id) {
            position.forget(handle);
            position.leave();
            // It may have been the next in turn.
            self.pass_position(id);
            self.forget_position(id);
        }
    }

    /// Removes a closed position that no operation uses.
    pub(super) fn forget_position(&mut self, id: u64) {
        if self.positions.get(&id).is_some_and(Position::is_unused) {
            self.positions.remove(&id);
        }
    }

    /// Starts the next operation that waits for a position, if the position is free.
    pub(super) fn pass_position(&mut self, id: u64) {
        let Some(position) = self.positions.get_mut(&id) else { return };
        let Some(next) = position.next() else { return };
        if let Some(block) = self.block(next)
            && let State::Parked(op) = std::mem::replace(&mut block.state, State::Running)
        {
            block.state = State::Waiting(op);
            self.waiting.push_front(next);
        }
    }
}
