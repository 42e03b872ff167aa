//! All ranks together, before a job: each brings something, the root decides, everybody hears. Along the tree of ranks, so
//! that nobody holds something for each rank. It waits, unlike everything else here: there is nothing to do before.

use std::collections::VecDeque;
use std::time::Duration;

use atta_engine::{Rank, Tree};
use atta_fabric::{Endpoint, FabricError, Received};

/// Children of each rank in the tree.
const WIDTH: u32 = 16;
/// Between two looks for a message.
const POLL: Duration = Duration::from_micros(100);

/// The ranks of a job before it begins.
pub struct Meeting<'e> {
    pub(crate) endpoint: &'e mut dyn Endpoint,
    /// What came from ranks that are further on.
    pub(crate) early: VecDeque<Received>,
}

impl std::fmt::Debug for Meeting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meeting").field("rank", &self.endpoint.rank()).finish_non_exhaustive()
    }
}

impl<'e> Meeting<'e> {
    /// Meets the other ranks of a fabric. All ranks then do the same steps in the same order.
    pub fn new(endpoint: &'e mut dyn Endpoint) -> Self {
        Self { endpoint, early: VecDeque::new() }
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.endpoint.rank()
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.endpoint.size()
    }

    /// Ranks on this host, ascending, this one among them.
    #[must_use]
    pub fn neighbours(&self) -> &[u32] {
        self.endpoint.neighbours()
    }

    /// Brings something of each rank together; the root gets the whole. `merge` adds a part to what there is; its result
    /// must not depend on the order, nor grow with the number of ranks.
    ///
    /// # Errors
    /// The fabric fails.
    pub fn gather(
        &mut self,
        own: Vec<u8>,
        mut merge: impl FnMut(&[u8], &[u8]) -> Vec<u8>,
    ) -> Result<Option<Vec<u8>>, FabricError> {
        let tree = self.tree();
        let mut sum = own;
        for child in tree.children() {
            sum = merge(&sum, &self.receive_from(child.0)?);
        }
        match tree.parent() {
            Some(parent) => self.endpoint.send(parent.0, sum).map(|()| None),
            None => Ok(Some(sum)),
        }
    }

    /// Tells all ranks what the root says; the others give nothing.
    ///
    /// # Errors
    /// The fabric fails.
    pub fn tell(&mut self, said: Option<Vec<u8>>) -> Result<Vec<u8>, FabricError> {
        let tree = self.tree();
        let said = match (tree.parent(), said) {
            (Some(parent), _) => self.receive_from(parent.0)?,
            (None, said) => said.unwrap_or_default(),
        };
        for child in tree.children() {
            self.endpoint.send(child.0, said.clone())?;
        }
        // Whoever has heard may leave at once.
        while self.endpoint.unsent()? > 0 {
            std::thread::sleep(POLL);
        }
        Ok(said)
    }

    /// What each rank of this host says, in their order.
    ///
    /// # Errors
    /// The fabric fails.
    pub fn among_neighbours(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>, FabricError> {
        let (here, neighbours) = (self.rank(), self.neighbours().to_vec());
        for &rank in neighbours.iter().filter(|rank| **rank != here) {
            self.endpoint.send(rank, own.to_vec())?;
        }
        let hear = |rank| if rank == here { Ok(own.to_vec()) } else { self.receive_from(rank) };
        neighbours.into_iter().map(hear).collect()
    }

    fn tree(&self) -> Tree {
        Tree::new(Rank(self.rank()), self.size(), WIDTH)
    }

    fn receive_from(&mut self, from: u32) -> Result<Vec<u8>, FabricError> {
        if let Some(at) = self.early.iter().position(|received| received.from == from) {
            return Ok(self.early.remove(at).map(|received| received.message).unwrap_or_default());
        }
        loop {
            self.endpoint.unsent()?;
            match self.endpoint.receive()? {
                Some(received) if received.from == from => return Ok(received.message),
                Some(received) => self.early.push_back(received),
                None => std::thread::sleep(POLL),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hear_what_the_root_makes_of_what_all_bring() {
        let hosts: Vec<u32> = (0..40).map(|rank| rank / 3).collect();
        std::thread::scope(|scope| {
            for mut endpoint in atta_fabric::in_process_on_hosts(&hosts) {
                scope.spawn(move || {
                    let mut meeting = Meeting::new(&mut endpoint);
                    for round in 0..3_u8 {
                        let own = vec![u8::try_from(meeting.rank()).unwrap() + round];
                        let merge = |one: &[u8], other: &[u8]| vec![one[0].max(other[0])];
                        let most = meeting.gather(own, merge).unwrap();
                        assert_eq!(most.is_some(), meeting.rank() == 0);
                        assert_eq!(meeting.tell(most).unwrap(), [39 + round]);
                        let here = u8::try_from(meeting.rank()).unwrap();
                        let near = meeting.among_neighbours(&[here]).unwrap();
                        let expected: Vec<Vec<u8>> = meeting
                            .neighbours()
                            .iter()
                            .map(|rank| vec![u8::try_from(*rank).unwrap()])
                            .collect();
                        assert_eq!(near, expected);
                    }
                });
            }
        });
    }
}
