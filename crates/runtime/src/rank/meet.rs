//! Meetings of all ranks, before and after a job: each rank contributes, the first one decides, all get the result. Messages follow
//! the tree of ranks, so that no rank holds data for each rank. Each meeting is a numbered step, the same on all ranks, so that
//! messages of a rank that is further ahead are kept.

use atta_engine::{Rank, Tree, WireError};
use atta_entry::Code;

use super::error::RankError;
use super::link::Link;
use super::wait::{Limits, Wait};

/// The meetings of a session.
pub(crate) struct Meeting<'e> {
    pub(crate) link: Link<'e>,
    /// Steps that have begun: the same on all ranks.
    step: u32,
    pub(crate) limits: Limits,
}

impl<'e> Meeting<'e> {
    pub(crate) fn new(link: Link<'e>, limits: Limits) -> Self {
        Self { link, step: 0, limits }
    }

    /// Combines a value of each rank. The first one gets the result.
    pub(crate) fn reduce<T: Code>(
        &mut self,
        own: T,
        mut merge: impl FnMut(&mut T, T),
    ) -> Result<Option<T>, RankError> {
        let tree = self.next_step()?;
        let children: Vec<u32> = tree.children().map(|child| child.0).collect();
        let (mut sum, mut wait) = (own, Wait::new(self.limits));
        for (at, child) in children.iter().enumerate() {
            let part = self.receive(*child, &children[at..], &mut wait)?;
            merge(&mut sum, decoded(*child, &part)?);
        }
        match tree.parent() {
            Some(parent) => self.link.send_step(parent.0, self.step, &sum.encoded()).map(|()| None),
            None => Ok(Some(sum)),
        }
    }

    /// Sends a value of the first rank to all. The others pass none.
    pub(crate) fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, RankError> {
        let tree = self.next_step()?;
        let children: Vec<u32> = tree.children().map(|child| child.0).collect();
        self.pass_down(tree.parent().map(|parent| parent.0), &children, value)
    }

    /// Sends a value of the first rank of each group to the others of it. `members` has those of this rank's group, ascending; it is empty
    /// on a rank without a group. Trees of groups do not touch, so that one step serves all of them.
    pub(crate) fn multicast<T: Code>(
        &mut self,
        members: &[u32],
        value: Option<T>,
    ) -> Result<Option<T>, RankError> {
        self.next_step()?;
        let Ok(place) = members.binary_search(&self.link.rank()) else { return Ok(None) };
        let tree = Link::tree_of_group(place, members.len());
        let rank = |place: Rank| members[place.0 as usize];
        let children: Vec<u32> = tree.children().map(rank).collect();
        self.pass_down(tree.parent().map(rank), &children, value).map(Some)
    }

    fn pass_down<T: Code>(
        &mut self,
        parent: Option<u32>,
        children: &[u32],
        value: Option<T>,
    ) -> Result<T, RankError> {
        let bytes = match (parent, value) {
            (Some(parent), _) => self.receive(parent, &[parent], &mut Wait::new(self.limits))?,
            (None, Some(value)) => value.encoded(),
            (None, None) => return Err(RankError::Stuck("the first rank gives no value")),
        };
        for child in children {
            self.link.send_step(*child, self.step, &bytes)?;
        }
        self.send_all(children)?;
        decoded(parent.unwrap_or(Rank::ROOT.0), &bytes)
    }

    /// Waits until all messages to these ranks have gone: this rank may leave after the step.
    pub(crate) fn send_all(&mut self, to: &[u32]) -> Result<(), RankError> {
        let mut wait = Wait::new(self.limits);
        self.link.forget_alive();
        while self.link.unsent()? > 0 {
            wait.check(&mut self.link, to)?;
            wait.rest_while_sending();
        }
        Ok(())
    }

    /// The values of all ranks of this host, in order of rank.
    pub(crate) fn among_neighbours<T: Code>(&mut self, own: &T) -> Result<Vec<T>, RankError> {
        self.next_step()?;
        let (here, neighbours, own) = (self.link.rank(), self.link.neighbours().to_vec(), own.encoded());
        for &rank in neighbours.iter().filter(|rank| **rank != here) {
            self.link.send_step(rank, self.step, &own)?;
        }
        let mut wait = Wait::new(self.limits);
        let value_of = |rank| {
            let bytes = if rank == here { own.clone() } else { self.receive(rank, &[rank], &mut wait)? };
            decoded(rank, &bytes)
        };
        neighbours.into_iter().map(value_of).collect()
    }

    /// Takes in arrivals, and sends waiting messages. Does not block.
    pub(crate) fn exchange(&mut self) -> Result<(), RankError> {
        while self.link.take_in()? {}
        self.link.serve()?;
        self.link.unsent()?;
        self.link.failure().map_or(Ok(()), Err)
    }

    /// The same for a rank at work: it reports so after a request to end.
    pub(crate) fn listen(&mut self) -> Result<(), RankError> {
        self.exchange()?;
        self.link.send_alive(true, self.limits.period())
    }

    /// Begins the next step and returns its tree.
    fn next_step(&mut self) -> Result<Tree, RankError> {
        self.begin_step()?;
        Ok(self.link.tree())
    }

    /// Begins the next step. Passes a request to end on first, even if this rank need not wait.
    pub(crate) fn begin_step(&mut self) -> Result<(), RankError> {
        self.exchange()?;
        self.link.forget_alive();
        self.step = self.step.wrapping_add(1);
        Ok(())
    }

    /// The number of this step.
    pub(crate) fn step(&self) -> u32 {
        self.step
    }

    /// The value of a rank in this step. The rank is one of those awaited.
    fn receive(&mut self, from: u32, awaited: &[u32], wait: &mut Wait) -> Result<Vec<u8>, RankError> {
        loop {
            if let Some(bytes) = self.link.step_from(from, self.step)? {
                return Ok(bytes);
            }
            self.exchange()?;
            if let Some(bytes) = self.link.step_from(from, self.step)? {
                return Ok(bytes);
            }
            wait.check(&mut self.link, awaited)?;
            wait.rest(&self.link);
        }
    }
}

/// Decodes a value that a rank sent.
fn decoded<T: Code>(from: u32, bytes: &[u8]) -> Result<T, RankError> {
    T::decode_all(bytes).ok_or(RankError::Wire { from: Rank(from), error: WireError::Value })
}

#[cfg(test)]
mod tests {
    use atta_fabric::{Endpoint, in_process};

    use super::*;
    use crate::rank::link::End;
    use crate::stop::Stop;

    fn meeting(endpoint: &mut dyn Endpoint) -> Meeting<'_> {
        Meeting::new(Link::new(End::Lent(endpoint), Stop::new()), Limits::default())
    }

    #[test]
    fn message_of_another_step_is_an_error() {
        for message in [vec![0x7f, 2, 0, 0, 0], vec![0x7f, 1, 0, 0]] {
            let mut ranks = in_process(2);
            ranks[1].send(0, message).unwrap();
            let error = meeting(&mut ranks[0]).reduce((), |(), ()| ()).unwrap_err();
            assert!(matches!(error, RankError::Wire { from: Rank(1), .. }), "{error}");
        }
    }

    #[test]
    fn what_is_no_value_of_the_step_is_an_error() {
        let mut ranks = in_process(2);
        ranks[1].send(0, vec![0x7f, 1, 0, 0, 0, 0x80]).unwrap();
        let error = meeting(&mut ranks[0]).reduce(1_u64, |sum, more| *sum += more).unwrap_err();
        assert!(matches!(error, RankError::Wire { from: Rank(1), .. }), "{error}");
    }

    #[test]
    fn all_hear_what_the_root_makes_of_what_all_bring() {
        let hosts: Vec<u32> = (0..40).map(|rank| rank / 3).collect();
        std::thread::scope(|scope| {
            for mut endpoint in atta_fabric::in_process_on_hosts(&hosts) {
                scope.spawn(move || {
                    let rank = endpoint.rank();
                    let neighbours = endpoint.neighbours().to_vec();
                    let mut meeting = meeting(&mut endpoint);
                    for round in 0..3 {
                        let most =
                            meeting.reduce(rank + round, |most, other| *most = other.max(*most)).unwrap();
                        assert_eq!(most.is_some(), rank == 0);
                        assert_eq!(meeting.broadcast(most).unwrap(), 39 + round);
                        assert_eq!(meeting.among_neighbours(&rank).unwrap(), neighbours);
                    }
                });
            }
        });
    }

    #[test]
    fn first_rank_of_each_group_is_heard_in_it() {
        // Two groups of every third rank, one of them larger than the tree is wide, and ranks without one.
        std::thread::scope(|scope| {
            for mut endpoint in in_process(60) {
                scope.spawn(move || {
                    let rank = endpoint.rank();
                    let group = (0..60).filter(|other| other % 3 == rank % 3).collect::<Vec<_>>();
                    let group = if rank % 3 == 2 { Vec::new() } else { group };
                    let mut meeting = meeting(&mut endpoint);
                    for round in 0..3 {
                        let value = (group.first() == Some(&rank)).then_some(rank + 10 * round);
                        let expected = (rank % 3 < 2).then_some(rank % 3 + 10 * round);
                        assert_eq!(meeting.multicast(&group, value).unwrap(), expected);
                    }
                });
            }
        });
    }
}
