//! What ranks must be able to do together: reduce, broadcast, multicast. A fabric that can do these can carry all queries. Here are the ranks of a
//! session (threads, MPI, simulator) and a process alone. Files are not its subject.

use std::collections::BTreeMap;

use atta_code::Code;
use atta_runtime::{RankError, Session, Shape};

use crate::ranks::Ranks;

/// Ranks that take the same steps in the same order. Values travel as their bytes ([`Code::encoded`]).
pub trait Collective {
    /// Why ranks cannot communicate.
    type Error: std::error::Error;

    /// This rank, from 0.
    fn rank(&self) -> u32;

    /// The number of ranks, 1 or more.
    fn size(&self) -> u32;

    /// Combines a value of each rank along a tree. The first rank gets the result. It must not depend on the order of merges.
    ///
    /// # Errors
    /// The fabric fails, or a rank sends something else.
    fn reduce<T: Code>(&mut self, own: T, merge: impl FnMut(&mut T, T)) -> Result<Option<T>, Self::Error>;

    /// Sends a value of the first rank to all. The others pass none.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce); or the first rank passes none.
    fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, Self::Error>;

    /// Sends a value of the first rank of each group to the others of it. All ranks call this together, each with all ranks of its own group,
    /// or with none; no rank is in two groups.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn multicast<T: Code>(&mut self, group: &Ranks, value: Option<T>) -> Result<Option<T>, Self::Error>;

    /// Sends parts from the first rank of each group to all of it, that rank included. There `next` makes them, and returns none at the end; `take`
    /// gets them on each rank, in order. `members` are all ranks of this rank's group, in the same order on each of them; those without a group
    /// pass none. All ranks call this together, and no rank is in two groups. A fabric may run both functions on other threads.
    ///
    /// Without an implementation of its own, each part goes to the first rank and from there to all, one after the other.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn multicast_parts(
        &mut self,
        members: &[u32],
        shape: Shape,
        mut next: impl FnMut() -> Option<Vec<u8>> + Send,
        mut take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), Self::Error> {
        let _ = shape;
        let first = members.first().copied();
        let mut makes = first == Some(self.rank());
        loop {
            let own = if makes { next() } else { None };
            makes = own.is_some();
            let own: BTreeMap<u32, Vec<u8>> = own.map(|part| (self.rank(), part)).into_iter().collect();
            let all = self.reduce(own, BTreeMap::extend)?;
            let all: BTreeMap<u32, Vec<u8>> = self.broadcast(all)?;
            if all.is_empty() {
                return Ok(());
            }
            if let Some(part) = first.and_then(|first| all.get(&first)) {
                take(part);
            }
        }
    }
}

/// Reduces, lets the first rank conclude something from the result, and sends that to all.
pub(crate) fn concluded<C: Collective, T: Code, U: Code>(
    collective: &mut C,
    own: T,
    merge: impl FnMut(&mut T, T),
    conclude: impl FnOnce(T) -> U,
) -> Result<U, C::Error> {
    let whole = collective.reduce(own, merge)?;
    collective.broadcast(whole.map(conclude))
}

/// The ranks of a session, over whatever fabric it has joined.
impl Collective for Session<'_> {
    type Error = RankError;

    fn rank(&self) -> u32 {
        self.seat().rank
    }

    fn size(&self) -> u32 {
        self.seat().ranks
    }

    fn reduce<T: Code>(&mut self, own: T, merge: impl FnMut(&mut T, T)) -> Result<Option<T>, RankError> {
        Session::reduce(self, own, merge)
    }

    fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, RankError> {
        Session::broadcast(self, value)
    }

    fn multicast<T: Code>(&mut self, group: &Ranks, value: Option<T>) -> Result<Option<T>, RankError> {
        let members: Vec<u32> = group.iter().collect();
        Session::multicast(self, &members, value)
    }

    fn multicast_parts(
        &mut self,
        members: &[u32],
        shape: Shape,
        next: impl FnMut() -> Option<Vec<u8>> + Send,
        take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), RankError> {
        Session::multicast_parts(self, members, shape, next, take)
    }
}

/// A process that is its only rank. It sends no messages. It has the results and errors of a [`Session`] of one rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Collective for Alone {
    type Error = RankError;

    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn reduce<T: Code>(&mut self, own: T, _merge: impl FnMut(&mut T, T)) -> Result<Option<T>, RankError> {
        Ok(Some(own))
    }

    fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, RankError> {
        value.ok_or(RankError::Stuck("the first rank gives no value"))
    }

    fn multicast<T: Code>(&mut self, group: &Ranks, value: Option<T>) -> Result<Option<T>, RankError> {
        if group.contains(0) { self.broadcast(value).map(Some) } else { Ok(None) }
    }
}
