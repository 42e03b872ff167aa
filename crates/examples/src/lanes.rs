//! Two lanes on one endpoint: the session of the queries on one, the servers of a tree on the other. Each message begins with the number of its
//! lane, so neither takes what is meant for the other. One thread uses both lanes of a rank, one at a time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_fabric::{Endpoint, FabricError, Received, Wake};

struct Shared<'e> {
    inner: &'e mut dyn Endpoint,
    arrived: [VecDeque<Received>; 2],
    wakes: [Option<Wake>; 2],
}

/// One of two lanes.
pub struct Lane<'e> {
    shared: Arc<Mutex<Shared<'e>>>,
    number: u8,
    rank: u32,
    neighbours: Vec<u32>,
}

impl std::fmt::Debug for Lane<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Lane")
            .field("number", &self.number)
            .field("rank", &self.rank)
            .finish_non_exhaustive()
    }
}

/// Splits an endpoint.
pub fn lanes(inner: &mut dyn Endpoint) -> [Lane<'_>; 2] {
    let (rank, neighbours) = (inner.rank(), inner.neighbours().to_vec());
    let shared =
        Arc::new(Mutex::new(Shared { inner, arrived: Default::default(), wakes: Default::default() }));
    [0, 1].map(|number| Lane { shared: Arc::clone(&shared), number, rank, neighbours: neighbours.clone() })
}

impl<'e> Lane<'e> {
    fn shared(&self) -> MutexGuard<'_, Shared<'e>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Endpoint for Lane<'_> {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.shared().inner.size()
    }

    fn neighbours(&self) -> &[u32] {
        &self.neighbours
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        self.shared().inner.send(to, [&[self.number][..], &message].concat())
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        let number = usize::from(self.number);
        let mut shared = self.shared();
        while shared.arrived[number].is_empty() {
            let Some(Received { from, mut message }) = shared.inner.receive()? else { return Ok(None) };
            // Both ends are this program: a message without a number is not sent.
            let lane = usize::from(message.first().copied().unwrap_or_default()) % 2;
            message.drain(..message.len().min(1));
            shared.arrived[lane].push_back(Received { from, message });
        }
        Ok(shared.arrived[number].pop_front())
    }

    /// An arrival calls both lanes back: whose message it is, shows only when it is received.
    fn on_arrival(&mut self, wake: Wake) -> bool {
        let mut shared = self.shared();
        shared.wakes[usize::from(self.number)] = Some(wake);
        let wakes = shared.wakes.clone();
        shared.inner.on_arrival(Arc::new(move || wakes.iter().flatten().for_each(|wake| wake())))
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.shared().inner.unsent()
    }

    /// Nothing: the rank leaves the endpoint itself.
    fn leave(self: Box<Self>) -> Result<(), FabricError> {
        Ok(())
    }

    fn abort(&mut self, exit_code: i32) {
        self.shared().inner.abort(exit_code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_fabric::in_process;

    #[test]
    fn each_lane_gets_its_own_messages() {
        let mut ends = in_process(2);
        let (one, two) = ends.split_at_mut(1);
        let ([mut one_a, mut one_b], [mut two_a, mut two_b]) = (lanes(&mut one[0]), lanes(&mut two[0]));
        one_b.send(1, b"b1".to_vec()).unwrap();
        one_a.send(1, b"a1".to_vec()).unwrap();
        one_b.send(1, Vec::new()).unwrap();
        while one_a.unsent().unwrap() > 0 {}
        let next = |lane: &mut Lane<'_>| lane.receive().unwrap().map(|received| received.message);
        assert_eq!((next(&mut two_a), next(&mut two_a)), (Some(b"a1".to_vec()), None));
        assert_eq!(
            (next(&mut two_b), next(&mut two_b), next(&mut two_b)),
            (Some(b"b1".to_vec()), Some(Vec::new()), None)
        );
    }
}
