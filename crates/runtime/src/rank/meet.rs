//! All ranks together, before and after a job: each brings something, the first one decides, everybody hears. It goes along the tree of
//! ranks, so that nobody holds something for each rank. Each meeting is a step with a number, the same on all ranks, so that what comes from
//! a rank that is further on is kept.

use std::time::Duration;

use atta_engine::{Rank, Tree, WireError};
use atta_entry::Code;

use super::error::RankError;
use super::link::Link;
use super::wait::{Limits, Wait};

/// Between two looks at whether all has been sent.
const POLL: Duration = Duration::from_micros(100);

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

    /// Brings something of each rank together: the first one gets the whole.
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

    /// Sends a value of the first rank to all; the others give nothing.
    pub(crate) fn broadcast<T: Code>(&mut self, said: Option<T>) -> Result<T, RankError> {
        let tree = self.next_step()?;
        let bytes = match (tree.parent(), said) {
            (Some(parent), _) => self.receive(parent.0, &[parent.0], &mut Wait::new(self.limits))?,
            (None, Some(said)) => said.encoded(),
            (None, None) => return Err(RankError::Stuck("the first rank gives no value")),
        };
        for child in tree.children() {
            self.link.send_step(child.0, self.step, &bytes)?;
        }
        // Whoever has heard may leave at once.
        let children: Vec<u32> = tree.children().map(|child| child.0).collect();
        let mut wait = Wait::new(self.limits);
        self.link.forget_alive();
        while self.link.unsent()? > 0 {
            wait.check(&mut self.link, &children)?;
            std::thread::sleep(POLL);
        }
        decoded(tree.parent().unwrap_or(Rank::ROOT).0, &bytes)
    }

    /// What each rank of this host says, in their order.
    pub(crate) fn among_neighbours<T: Code>(&mut self, own: &T) -> Result<Vec<T>, RankError> {
        self.next_step()?;
        let (here, neighbours, own) = (self.link.rank(), self.link.neighbours().to_vec(), own.encoded());
        for &rank in neighbours.iter().filter(|rank| **rank != here) {
            self.link.send_step(rank, self.step, &own)?;
        }
        let mut wait = Wait::new(self.limits);
        let hear = |rank| {
            let said = if rank == here { own.clone() } else { self.receive(rank, &[rank], &mut wait)? };
            decoded(rank, &said)
        };
        neighbours.into_iter().map(hear).collect()
    }

    /// Looks at what has come, and sends what waits. Does not wait.
    fn hear(&mut self) -> Result<(), RankError> {
        while self.link.take_in()? {}
        self.link.serve()?;
        self.link.unsent()?;
        self.link.failure().map_or(Ok(()), Err)
    }

    /// The same for a rank that is at work: it says so after a request to end.
    pub(crate) fn listen(&mut self) -> Result<(), RankError> {
        self.hear()?;
        self.link.say_alive(true, self.limits.period())
    }

    /// Begins the next step; gives the tree along which it goes. A request to end is passed on before, also by who has not to wait.
    fn next_step(&mut self) -> Result<Tree, RankError> {
        self.hear()?;
        self.link.forget_alive();
        self.step = self.step.wrapping_add(1);
        Ok(self.link.tree())
    }

    /// What a rank says in this step; it is one of those that are waited for.
    fn receive(&mut self, from: u32, awaited: &[u32], wait: &mut Wait) -> Result<Vec<u8>, RankError> {
        loop {
            if let Some(bytes) = self.link.step_from(from, self.step)? {
                return Ok(bytes);
            }
            self.hear()?;
            if let Some(bytes) = self.link.step_from(from, self.step)? {
                return Ok(bytes);
            }
            wait.check(&mut self.link, awaited)?;
            self.link.wait(wait.pause(self.link.is_polled));
        }
    }
}

/// What a rank sent.
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
}
