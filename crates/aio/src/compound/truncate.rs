//! Sets the length of a file by its path: `truncate`, for which the kernel's ring has no opcode.
//!
//! | state | step | if it fails |
//! | --- | --- | --- |
//! | Start | `open` for writing; not for an open file | `ENXIO` becomes `EINVAL`, as `truncate` returns for pipes, sockets; else returned |
//! | Opening | `ftruncate` | returned, after the close |
//! | Truncating | `close` | returned |
//!
//! Links are followed, as by `truncate`. A truncated file stays truncated, whatever the close returns; a stop after the
//! `ftruncate` is too late.

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
                // Do not wait for the reader of a pipe.
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
