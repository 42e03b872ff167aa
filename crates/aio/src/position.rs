//! File positions: reads and writes without an offset run one after the other, each from where the last one ended. No I/O here.
//!
//! Ranges assigned in advance would allow concurrent operations, but a short read or write, at the end of the file or after an
//! error, would leave a gap. For concurrent operations, use offsets.

use std::collections::VecDeque;

use atta_entry::Errno;

use crate::Outcome;
use crate::op::{At, Op};
use crate::proactor::Handle;

/// The offset of the next operation on a file, and the operations that wait for it.
#[derive(Debug)]
pub(crate) struct Position {
    offset: u64,
    is_used: bool,
    is_closed: bool,
    /// The operation whose turn it is, though it has not started yet.
    turn: Option<Handle>,
    waiting: VecDeque<Handle>,
    /// The number of operations that were submitted with it and have not ended.
    users: usize,
}

/// The action for an operation that requests the position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// The position is free, and the operation now has its offset.
    Start,
    /// Another operation is before it.
    Park,
    /// Nothing remains to be done.
    Ended(Outcome),
}

impl Position {
    pub(crate) fn new(offset: u64) -> Self {
        Self { offset, is_used: false, is_closed: false, turn: None, waiting: VecDeque::new(), users: 0 }
    }

    /// Registers a submitted operation. Returns whether the position accepts it.
    pub(crate) fn enter(&mut self) -> bool {
        self.users += usize::from(!self.is_closed);
        !self.is_closed
    }

    /// Unregisters an operation that has ended.
    pub(crate) fn leave(&mut self) {
        self.users -= 1;
    }

    /// An operation requests its turn.
    pub(crate) fn before(&mut self, op: &mut Op, handle: Handle) -> Before {
        if self.is_used || self.turn.is_some_and(|turn| turn != handle) {
            self.waiting.push_back(handle);
            return Before::Park;
        }
        self.turn = None;
        self.is_used = true;
        match op {
            Op::Read { at, .. }
            | Op::Write { at, .. }
            | Op::ReadVectors { at, .. }
            | Op::WriteVectors { at, .. } => {
                *at = At::Offset(self.offset);
                Before::Start
            }
            Op::Seek { offset, whence: libc::SEEK_SET, .. } => Before::Ended(moved(0, *offset)),
            Op::Seek { offset, whence: libc::SEEK_CUR, .. } => Before::Ended(moved(self.offset, *offset)),
            // The kernel knows the end of the file, and its holes.
            _ => Before::Start,
        }
    }

    /// An operation that used it has ended.
    pub(crate) fn after(&mut self, op: &Op, outcome: Outcome) {
        match (op, outcome) {
            (
                Op::Read { .. } | Op::Write { .. } | Op::ReadVectors { .. } | Op::WriteVectors { .. },
                Ok(bytes),
            ) => self.offset = self.offset.saturating_add(bytes),
            (Op::Seek { .. }, Ok(offset)) => self.offset = offset,
            _ => {}
        }
        self.is_used = false;
    }

    /// An operation that used it continues with another step.
    pub(crate) fn keep(&mut self, handle: Handle) {
        self.turn = Some(handle);
    }

    /// Returns the next operation in line, if the position is free and has no other in turn, which must not be overtaken.
    pub(crate) fn next(&mut self) -> Option<Handle> {
        if !self.is_used && self.turn.is_none() {
            self.turn = self.waiting.pop_front();
            return self.turn;
        }
        None
    }

    /// Removes a cancelled operation from the line.
    pub(crate) fn forget(&mut self, handle: Handle) {
        self.waiting.retain(|waiting| *waiting != handle);
        self.turn = self.turn.filter(|turn| *turn != handle);
    }

    /// Accepts no further operations.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether it can be removed.
    pub(crate) fn is_unused(&self) -> bool {
        self.is_closed && self.users == 0
    }
}

/// The position `by` bytes from `from`.
fn moved(from: u64, by: i64) -> Outcome {
    let to = from.checked_add_signed(by).filter(|to| i64::try_from(*to).is_ok());
    to.ok_or(if by < 0 { Errno::INVAL } else { Errno(libc::EOVERFLOW) })
}
