//! The length of a file by its path: `truncate`, for which the kernel's ring has no opcode.
//!
//! | state | step | if it fails |
//! | --- | --- | --- |
//! | Start | `open` to write; an open file skips this | `ENXIO` is told as `EINVAL`, as `truncate` says it of pipes and sockets; else told |
//! | Opening | `ftruncate` | told, after closing |
//! | Truncating | `close` | told |
//!
//! Links are followed, as by `truncate`. A file that was truncated stays so, whatever closing says; a stop comes too late once
//! that was done.

use atta_entry::Errno;

use super::{Held, Next, Steps};
use crate::{Fd, Op, Outcome, Place, Work};

enum State {
    Start(Place),
    Opening,
    Truncating,
}

struct Truncate {
    state: State,
    bytes: u64,
}

/// Sets the length of a file: result 0.
#[must_use]
pub fn truncate(place: Place, bytes: u64) -> Work {
    super::work(steps(place, bytes))
}

pub(super) fn steps(place: Place, bytes: u64) -> impl Steps + 'static {
    Truncate { state: State::Start(place), bytes }
}

impl Truncate {
    fn truncate(&mut self, fd: Fd) -> Next {
        self.state = State::Truncating;
        Next::Do(Op::Truncate { fd, bytes: self.bytes })
    }
}

impl Steps for Truncate {
    fn step(&mut self, _: Op, outcome: Outcome, held: &mut Held) -> Result<Next, Errno> {
        let value = match (&self.state, outcome) {
            (State::Opening, Err(Errno(libc::ENXIO))) => return Err(Errno::INVAL),
            (_, outcome) => outcome?,
        };
        match &self.state {
            State::Start(place) if place.is_file() => {
                let fd = place.dir.clone();
                Ok(self.truncate(fd))
            }
            State::Start(place) => {
                // A pipe that nobody reads is not to be waited for.
                let flags = libc::O_WRONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
                let op = Op::Open { place: place.clone(), flags, mode: 0 };
                self.state = State::Opening;
                Ok(Next::Do(op))
            }
            State::Opening => {
                let file = held.opened_to_write(value);
                Ok(self.truncate(held.fd(file)))
            }
            State::Truncating => Ok(Next::End(0)),
        }
    }
}
