//! Positions in files: reads and writes without an offset go one after the other, each from where the last one ended. No
//! I/O here.
//!
//! Giving each a part beforehand would let them run at the same time, but what one leaves unread, at the end of the file or by
//! an error, would have been given away already. Who wants several at once says where: that is what offsets are for.

use std::collections::VecDeque;

use atta_entry::Errno;

use crate::Outcome;
use crate::op::{At, Op};
use crate::proactor::Handle;

/// Where a file is read and written next, and who waits to do so.
#[derive(Debug)]
pub(crate) struct Position {
    offset: u64,
    is_used: bool,
    is_closed: bool,
    /// Whose turn it is, though it has not started yet.
    turn: Option<Handle>,
    waiting: VecDeque<Handle>,
    /// Operations that were submitted with it and have not ended.
    users: usize,
}

/// What is to happen with an operation that wants a position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// It is free, and the operation now says where.
    Start,
    /// Another one is before it.
    Park,
    /// There is nothing left to do.
    Ended(Outcome),
}

impl Position {
    pub(crate) fn new(offset: u64) -> Self {
        Self { offset, is_used: false, is_closed: false, turn: None, waiting: VecDeque::new(), users: 0 }
    }

    /// An operation is submitted that will use it. Whether it may.
    pub(crate) fn enter(&mut self) -> bool {
        self.users += usize::from(!self.is_closed);
        !self.is_closed
    }

    /// An operation that was to use it has ended.
    pub(crate) fn leave(&mut self) {
        self.users -= 1;
    }

    /// An operation comes to its turn.
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
            // The kernel knows the end of the file, and where its holes are.
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

    /// An operation that used it goes on with another one of its own.
    pub(crate) fn keep(&mut self, handle: Handle) {
        self.turn = Some(handle);
    }

    /// Who is next in line, if it is free and nobody was told so before: one who has the turn is not to be overtaken.
    pub(crate) fn next(&mut self) -> Option<Handle> {
        if !self.is_used && self.turn.is_none() {
            self.turn = self.waiting.pop_front();
            return self.turn;
        }
        None
    }

    /// An operation in line has been cancelled.
    pub(crate) fn forget(&mut self, handle: Handle) {
        self.waiting.retain(|waiting| *waiting != handle);
        self.turn = self.turn.filter(|turn| *turn != handle);
    }

    /// No more will come.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether it can be forgotten.
    pub(crate) fn is_unused(&self) -> bool {
        self.is_closed && self.users == 0
    }
}

/// A position moved from somewhere by so many bytes.
fn moved(from: u64, by: i64) -> Outcome {
    let to = from.checked_add_signed(by).filter(|to| i64::try_from(*to).is_ok());
    to.ok_or(if by < 0 { Errno::INVAL } else { Errno(libc::EOVERFLOW) })
}
