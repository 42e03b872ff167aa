//! Ranks of a program as a [`Collective`]: a value goes up and down a binomial tree by `send` and `receive`, or as the program does it by
//! itself. A reduction is always followed by a broadcast (`atta-status` does so), which also carries an error to all ranks.
//!
//! ```text
//!   rank 0 ◀── 1                    a rank sends to the one without its lowest bit; it receives from those with one lower bit more
//!     ▲ ◀───── 2 ◀── 3
//!     └─────── 4 ◀── 5 ...
//! ```

use std::fmt;

use atta_code::Code;
use atta_entry::Errno;
use atta_status::{Collective, Ranks};

use crate::status::ranks::functions::{Functions, Pair};
use crate::status::ranks::message::{PROTOCOL, message, value_of};
use crate::status::ranks::total::{Total, Typed};

/// Why ranks of a program cannot communicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) Errno);

impl fmt::Display for Failed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the ranks cannot communicate: {}", self.0)
    }
}

impl std::error::Error for Failed {}

/// The ranks, and what they ask each other.
#[derive(Debug)]
pub(crate) struct Links {
    functions: Functions,
    question: u32,
}

impl Links {
    pub(crate) const fn new(functions: Functions) -> Self {
        Self { functions, question: 0 }
    }

    /// Sets what is asked from now on: messages of other questions are errors.
    pub(crate) const fn ask(&mut self, question: u32) {
        self.question = question;
    }

    /// Reduces along the tree, or as the program does. An error that this rank can still report upwards is not one here.
    fn up(&self, total: &mut Total<'_>) -> Result<(), Errno> {
        if self.functions.reduces() {
            let reduced = self.functions.reduce(total);
            return if self.functions.rank == 0 { reduced.and(total.result()) } else { reduced };
        }
        let Some(pair) = self.functions.pair else { return Ok(()) };
        let tree = Tree::of_all(&self.functions);
        for child in tree.children() {
            match pair.receive(child) {
                // The total keeps the error.
                Ok(message) => drop(total.take(&message)),
                Err(error) => total.fail(error),
            }
        }
        match tree.parent() {
            Some(parent) => pair.send(parent, &total.message()),
            None => total.result(),
        }
    }

    /// Broadcasts a message of the first rank along the tree, or as the program does.
    fn down(&self, own: Option<Vec<u8>>) -> Result<Vec<u8>, Errno> {
        if self.functions.broadcasts() {
            return self.functions.broadcast(own);
        }
        match self.functions.pair {
            Some(pair) => self.along(pair, &Tree::of_all(&self.functions), own),
            // One rank.
            None => own.ok_or(PROTOCOL),
        }
    }

    /// Passes a message down a tree. What a rank did not receive, those below it learn of.
    fn along(&self, pair: Pair, tree: &Tree<'_>, own: Option<Vec<u8>>) -> Result<Vec<u8>, Errno> {
        let received = match tree.parent() {
            Some(parent) => pair.receive(parent),
            None => own.ok_or(PROTOCOL),
        };
        let failure = received.as_ref().err().map(|error| message(self.question, Err(*error)));
        let passed = failure.as_deref().unwrap_or_else(|| received.as_deref().unwrap_or_default());
        // Each of them waits, also if another one cannot be reached. The one with the most ranks below it comes first.
        let sent: Vec<_> = tree.children().rev().map(|child| pair.send(child, passed)).collect();
        let received = received?;
        // What the first rank reports comes before the loss of a rank below, which mostly follows from it.
        if value_of(self.question, &received).is_ok() {
            sent.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(received)
    }

    /// Sends an error to the ranks that wait for this one: there will be no value.
    fn abandon(&self, error: Errno) -> Failed {
        let failure = message(self.question, Err(error));
        if self.functions.rank == 0 {
            // They learn of this error or of another one.
            let _ = self.down(Some(failure));
        } else if let Some(pair) = self.functions.pair.filter(|_| !self.functions.broadcasts()) {
            for child in Tree::of_all(&self.functions).children() {
                let _ = pair.send(child, &failure);
            }
        }
        Failed(error)
    }

    fn decoded<T: Code>(&self, message: &[u8]) -> Result<T, Failed> {
        let bytes = value_of(self.question, message).map_err(Failed)?;
        T::decode_all(bytes).ok_or(Failed(PROTOCOL))
    }
}

impl Collective for Links {
    type Error = Failed;

    fn rank(&self) -> u32 {
        self.functions.rank
    }

    fn size(&self) -> u32 {
        self.functions.ranks
    }

    fn reduce<T: Code>(&mut self, own: T, merge: impl FnMut(&mut T, T)) -> Result<Option<T>, Failed> {
        let mut typed = Typed { value: own, merge };
        let mut total = Total::new(self.question, &mut typed);
        self.up(&mut total).map_err(|error| self.abandon(error))?;
        Ok((self.functions.rank == 0).then_some(typed.value))
    }

    fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, Failed> {
        let own = value.filter(|_| self.functions.rank == 0);
        let own = own.map(|value| message(self.question, Ok(&value.encoded())));
        self.decoded(&self.down(own).map_err(Failed)?)
    }

    fn multicast<T: Code>(&mut self, group: &Ranks, value: Option<T>) -> Result<Option<T>, Failed> {
        let members: Vec<u32> = group.iter().collect();
        let Some(at) = members.iter().position(|member| *member == self.functions.rank) else {
            return Ok(None);
        };
        if members.len() == 1 {
            return Ok(value);
        }
        let pair = self.functions.pair.ok_or(Failed(Errno(libc::ENOSYS)))?;
        let own = value.filter(|_| at == 0).map(|value| message(self.question, Ok(&value.encoded())));
        let tree = Tree { at: at as u32, count: members.len() as u32, members: Some(&members) };
        self.decoded(&self.along(pair, &tree, own).map_err(Failed)?).map(Some)
    }
}

/// The place of this rank in a tree.
struct Tree<'a> {
    at: u32,
    count: u32,
    /// The ranks by their places. None: all ranks, each at its number.
    members: Option<&'a [u32]>,
}

impl Tree<'_> {
    const fn of_all(functions: &Functions) -> Self {
        Self { at: functions.rank, count: functions.ranks, members: None }
    }

    fn rank(&self, at: u32) -> u32 {
        self.members.map_or(at, |members| members[at as usize])
    }

    /// None: it is the first one.
    fn parent(&self) -> Option<u32> {
        (self.at > 0).then(|| self.rank(self.at & (self.at - 1)))
    }

    /// Those that are this one with a lower bit, in the order of the numbers of ranks below them.
    fn children(&self) -> impl DoubleEndedIterator<Item = u32> {
        let bits = if self.at == 0 { u32::BITS } else { self.at.trailing_zeros() };
        (0..bits)
            .filter_map(|bit| self.at.checked_add(1 << bit))
            .filter(|child| *child < self.count)
            .map(|child| self.rank(child))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_is_the_child_of_its_parent() {
        for count in [1_u32, 2, 3, 7, 8, 9, 100] {
            let tree = |at| Tree { at, count, members: None };
            let mut below = 0;
            for at in 0..count {
                for child in tree(at).children() {
                    assert_eq!(tree(child).parent(), Some(at));
                    below += 1;
                }
            }
            assert_eq!(below, count - 1);
        }
        let members = [3, 5, 900];
        let tree = Tree { at: 0, count: 3, members: Some(&members) };
        assert_eq!(tree.children().collect::<Vec<_>>(), [5, 900]);
        assert_eq!(Tree { at: 2, ..tree }.parent(), Some(3));
        let most = Tree { at: u32::MAX - 1, count: u32::MAX, members: None };
        assert_eq!(most.children().count(), 0);
    }
}
