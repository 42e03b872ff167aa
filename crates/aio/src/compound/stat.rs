//! Gets the metadata of a file by its path, through a descriptor: `statx` queries the file that `open` found, so the file
//! cannot be replaced in between.
//!
//! | state | step | if it fails |
//! | --- | --- | --- |
//! | Start | `open` with `O_PATH` | returned |
//! | Opening | `statx` with `AT_EMPTY_PATH` | returned, after the close |
//! | Looking | `close` | ignored: the file was not written |

use atta_entry::Errno;

use super::{Held, Next, Steps};
use crate::{Op, Outcome, Place, Work};

enum State {
    Start,
    Opening,
    Looking,
}

struct Stat {
    state: State,
    place: Place,
    flags: i32,
    mask: u32,
    /// The metadata found.
    found: Option<Box<libc::statx>>,
}

/// Gets the metadata of a file: result 0, and an [`Op::Stat`] with the metadata is returned. With `AT_SYMLINK_NOFOLLOW` in
/// `flags` it does not follow a link in the last name.
#[must_use]
pub fn stat(place: Place, flags: i32, mask: u32) -> Work {
    super::work(steps(place, flags, mask))
}

pub(super) fn steps(place: Place, flags: i32, mask: u32) -> impl Steps + 'static {
    Stat { state: State::Start, place, flags, mask, found: None }
}

/// A structure for `statx` to fill.
pub(super) fn empty() -> Box<libc::statx> {
    // SAFETY: a structure of numbers, for which zero is a value.
    Box::new(unsafe { std::mem::zeroed::<libc::statx>() })
}

impl Steps for Stat {
    fn step(&mut self, op: Op, outcome: Outcome, held: &mut Held) -> Result<Next, Errno> {
        let value = outcome?;
        let (state, next) = match self.state {
            State::Start => {
                let no_follow =
                    if self.flags & libc::AT_SYMLINK_NOFOLLOW != 0 { libc::O_NOFOLLOW } else { 0 };
                let flags = libc::O_PATH | libc::O_CLOEXEC | no_follow;
                (State::Opening, Op::Open { place: self.place.clone(), flags, mode: 0 })
            }
            State::Opening => {
                let file = held.opened(value);
                let (place, flags) = (Place::file(held.fd(file)), self.flags | libc::AT_EMPTY_PATH);
                (State::Looking, Op::Stat { place, flags, mask: self.mask, out: empty() })
            }
            State::Looking => {
                if let Op::Stat { out, .. } = op {
                    self.found = Some(out);
                }
                return Ok(Next::End(0));
            }
        };
        self.state = state;
        Ok(Next::Do(next))
    }

    fn give_back(self) -> Option<Op> {
        let Self { place, flags, mask, .. } = self;
        self.found.map(|out| Op::Stat { place, flags, mask, out })
    }
}
