//! Makes a path of directories, as `mkdir -p` does. A directory that exists already is accepted.
//!
//! It starts with the whole path, goes up until a directory was created or exists, then goes down again. It checks nothing in
//! advance, so concurrent operations on the same path do not conflict.
//!
//! | outcome of `mkdir` | at the last name | at an earlier name |
//! | --- | --- | --- |
//! | created | the end | one name down |
//! | `EEXIST` | Looking: `stat`; a directory is the end, anything else is `EEXIST` | one name down |
//! | `ENOENT` | one name up | one name up |
//! | anything else | returned | returned |
//!
//! A file within the path results in `ENOTDIR`, from the `mkdir` below it. Directories that were created before a failure or a
//! stop stay.

use std::ffi::CString;

use atta_entry::Errno;

use super::{Held, Next, Steps, stat};
use crate::{Op, Outcome, Place, Work};

/// How often a directory may vanish on the way down, by a concurrent removal or because a link points to nothing.
const VANISHED_MOST: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Up,
    Down,
    Looking,
}

struct Directories {
    state: State,
    place: Place,
    mode: u32,
    /// The end of each name in the path.
    ends: Vec<usize>,
    /// The index of the name that is being created.
    at: usize,
    made: u64,
    vanished: u32,
}

/// Makes a directory and its missing parents.
///
/// The result is the number of directories that it created. The mode is that of the last one; parents also get write and search
/// permission for their owner. Both are less the process's mask.
#[must_use]
pub fn make_directories(place: Place, mode: u32) -> Work {
    super::work(steps(place, mode))
}

pub(super) fn steps(place: Place, mode: u32) -> impl Steps + 'static {
    let ends = ends(place.path.as_bytes());
    let at = ends.len().saturating_sub(1);
    Directories { state: State::Start, place, mode, ends, at, made: 0, vanished: 0 }
}

/// The end of each name in a path; for `/` alone, the end of the path.
fn ends(path: &[u8]) -> Vec<usize> {
    let is_end = |at: &usize| path[at - 1] != b'/' && path.get(*at).is_none_or(|next| *next == b'/');
    let ends: Vec<usize> = (1..=path.len()).filter(is_end).collect();
    if ends.is_empty() && !path.is_empty() { vec![path.len()] } else { ends }
}

impl Directories {
    fn is_last(&self) -> bool {
        self.at + 1 == self.ends.len()
    }

    fn make(&mut self, state: State) -> Result<Next, Errno> {
        self.state = state;
        let end = *self.ends.get(self.at).ok_or(Errno::NOENT)?;
        let path = CString::new(&self.place.path.as_bytes()[..end]).map_err(|_| Errno::INVAL)?;
        let mode = if self.is_last() { self.mode } else { self.mode | 0o300 };
        let place = Place { dir: self.place.dir.clone(), path };
        Ok(Next::Do(Op::MakeDirectory { place, mode }))
    }

    fn down(&mut self) -> Result<Next, Errno> {
        self.at += 1;
        self.make(State::Down)
    }

    fn up(&mut self) -> Result<Next, Errno> {
        self.vanished += u32::from(self.state == State::Down);
        if self.at == 0 || self.vanished > VANISHED_MOST {
            return Err(Errno::NOENT);
        }
        self.at -= 1;
        self.make(State::Up)
    }

    fn look(&mut self) -> Next {
        self.state = State::Looking;
        let (place, mask) = (self.place.clone(), libc::STATX_TYPE);
        Next::Do(Op::Stat { place, flags: 0, mask, out: stat::empty() })
    }
}

impl Steps for Directories {
    fn step(&mut self, op: Op, outcome: Outcome, _: &mut Held) -> Result<Next, Errno> {
        match (self.state, outcome) {
            (State::Start, _) => self.make(State::Up),
            (State::Looking, outcome) => {
                // A dangling link exists and is not a directory.
                outcome.map_err(|errno| if errno == Errno::NOENT { EXIST } else { errno })?;
                match op {
                    Op::Stat { out, .. } if kind(&out) == libc::S_IFDIR => Ok(Next::End(self.made)),
                    _ => Err(EXIST),
                }
            }
            (_, Ok(_)) => {
                self.made += 1;
                if self.is_last() { Ok(Next::End(self.made)) } else { self.down() }
            }
            (_, Err(EXIST)) if self.is_last() => Ok(self.look()),
            (_, Err(EXIST)) => self.down(),
            (_, Err(Errno::NOENT)) => self.up(),
            (_, Err(errno)) => Err(errno),
        }
    }
}

const EXIST: Errno = Errno(libc::EEXIST);

/// The bits of the mode that encode the file type.
pub(super) fn kind(stat: &libc::statx) -> u32 {
    u32::from(stat.stx_mode) & libc::S_IFMT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_where_slashes_begin() {
        assert_eq!(ends(b"/a/b//cd/"), [2, 4, 8]);
        assert_eq!(ends(b"a"), [1]);
        assert_eq!(ends(b"//"), [2]);
        assert_eq!(ends(b""), []);
    }
}
