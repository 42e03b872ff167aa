//! An endpoint that counts messages and bytes, for statistics: the papers' messages, bytes and heat map. It does not change
//! the messages and measures no time.

use std::collections::BTreeMap;

use crate::{Endpoint, FabricError, Received, Wake};

/// Traffic between this rank and one peer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Messages queued for the peer.
    pub sent_messages: u64,
    /// Bytes in them.
    pub sent_bytes: u64,
    /// Messages received from the peer.
    pub received_messages: u64,
    /// Bytes in them.
    pub received_bytes: u64,
}

/// An endpoint that counts messages and bytes for each peer. Messages that could not be queued do not count.
///
/// Memory grows with the peers actually used, not with the ranks of the job.
#[derive(Debug)]
pub struct Counted<E> {
    inner: E,
    peers: BTreeMap<u32, Traffic>,
}

impl<E: Endpoint> Counted<E> {
    /// Wraps `inner`. All counts start at zero.
    pub fn new(inner: E) -> Self {
        Self { inner, peers: BTreeMap::new() }
    }

    /// Traffic with each peer, by rank. This rank is its own peer.
    #[must_use]
    pub fn peers(&self) -> &BTreeMap<u32, Traffic> {
        &self.peers
    }

    /// The sum over all peers.
    #[must_use]
    pub fn total(&self) -> Traffic {
        self.peers.values().fold(Traffic::default(), |sum, each| Traffic {
            sent_messages: sum.sent_messages + each.sent_messages,
            sent_bytes: sum.sent_bytes + each.sent_bytes,
            received_messages: sum.received_messages + each.received_messages,
            received_bytes: sum.received_bytes + each.received_bytes,
        })
    }

    /// Returns the wrapped endpoint and discards the counts.
    pub fn into_inner(self) -> E {
        self.inner
    }
}

impl<E: Endpoint> Endpoint for Counted<E> {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn neighbours(&self) -> &[u32] {
        self.inner.neighbours()
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        let bytes = message.len() as u64;
        self.inner.send(to, message)?;
        let traffic = self.peers.entry(to).or_default();
        traffic.sent_messages += 1;
        traffic.sent_bytes += bytes;
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        let received = self.inner.receive()?;
        if let Some(Received { from, message }) = &received {
            let traffic = self.peers.entry(*from).or_default();
            traffic.received_messages += 1;
            traffic.received_bytes += message.len() as u64;
        }
        Ok(received)
    }

    fn on_arrival(&mut self, wake: Wake) -> bool {
        self.inner.on_arrival(wake)
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.inner.unsent()
    }

    fn survives(&self) -> bool {
        self.inner.survives()
    }

    fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        self.inner.lost()
    }

    fn leave(self: Box<Self>) -> Result<(), FabricError> {
        Box::new(self.inner).leave()
    }

    fn abort(&mut self, exit_code: i32) {
        self.inner.abort(exit_code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_process;

    #[test]
    fn traffic_counts_only_passed_bytes_of_known_peers() {
        let mut ranks: Vec<_> = in_process(4).into_iter().map(Counted::new).collect();
        ranks[0].send(2, vec![0; 10]).unwrap();
        ranks[0].send(2, vec![]).unwrap();
        ranks[0].send(0, vec![0; 3]).unwrap();
        ranks[0].send(9, vec![0; 100]).unwrap_err();
        while ranks[2].receive().unwrap().is_some() {}
        assert!(ranks[0].receive().unwrap().is_some());

        let own = Traffic { sent_messages: 1, sent_bytes: 3, received_messages: 1, received_bytes: 3 };
        let to_2 = Traffic { sent_messages: 2, sent_bytes: 10, ..Traffic::default() };
        assert_eq!(*ranks[0].peers(), BTreeMap::from([(0, own), (2, to_2)]));
        assert_eq!(ranks[0].total().sent_bytes, 13);
        let from_0 = Traffic { received_messages: 2, received_bytes: 10, ..Traffic::default() };
        assert_eq!(*ranks[2].peers(), BTreeMap::from([(0, from_0)]));
        assert!(ranks[1].peers().is_empty());
    }
}
