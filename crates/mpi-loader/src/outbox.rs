//! Messages to send, in order, for each peer. The outbox holds messages that MPI has not seen yet and counts those that MPI
//! holds; it sends nothing itself.
//!
//! MPI gets a few messages per peer at a time. With all of them at once, a peer that does not receive for a while would leave
//! ten thousand requests that MPI checks again and again. A limit over all peers would let one such peer hold up the others.

use std::collections::{BTreeMap, VecDeque};

/// The maximum of messages to one peer that MPI holds. Enough to bridge the time between two checks, few enough to check often.
const ACTIVE_MAX: usize = 64;

/// Messages to all peers. Memory grows with the waiting messages; a peer without messages takes none.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    lanes: BTreeMap<u32, Lane>,
    unsent: usize,
}

/// Messages to one peer.
#[derive(Debug, Default)]
struct Lane {
    active: usize,
    waiting: VecDeque<Vec<u8>>,
}

impl Outbox {
    /// Takes a message for a peer, and returns it if it must be handed to MPI now.
    pub(crate) fn offer(&mut self, to: u32, message: Vec<u8>) -> Option<Vec<u8>> {
        self.unsent += 1;
        let lane = self.lanes.entry(to).or_default();
        if lane.active < ACTIVE_MAX {
            lane.active += 1;
            return Some(message);
        }
        lane.waiting.push_back(message);
        None
    }

    /// Records that a message to a peer has gone or failed. Returns the next one, to be handed to MPI now.
    ///
    /// # Panics
    /// MPI holds no message to that peer.
    pub(crate) fn gone(&mut self, to: u32) -> Option<Vec<u8>> {
        let lane = self.lanes.get_mut(&to).filter(|lane| lane.active > 0);
        let lane = lane.expect("a message to this peer was handed to MPI before it went");
        self.unsent -= 1;
        let next = lane.waiting.pop_front();
        if next.is_none() {
            lane.active -= 1;
            if lane.active == 0 {
                self.lanes.remove(&to);
            }
        }
        next
    }

    /// Drops what waits for a peer that has died, and no longer counts what MPI holds: that may never go.
    pub(crate) fn forget(&mut self, to: u32) {
        self.unsent -= self.lanes.remove(&to).map_or(0, |lane| lane.active + lane.waiting.len());
    }

    /// The number of messages that have not gone yet.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_so_many_at_once_and_the_rest_in_order() {
        let mut outbox = Outbox::default();
        let many = ACTIVE_MAX + 3;
        let mut handed: Vec<_> = (0..many).filter_map(|number| outbox.offer(1, vec![number as u8])).collect();
        assert_eq!(handed.len(), ACTIVE_MAX);
        assert_eq!(outbox.offer(2, vec![9]), Some(vec![9]), "one peer does not hold up another");
        assert_eq!(outbox.unsent(), many + 1);
        for left in (0..many).rev() {
            handed.extend(outbox.gone(1));
            assert_eq!(outbox.unsent(), left + 1);
        }
        assert_eq!(handed, (0..many).map(|number| vec![number as u8]).collect::<Vec<_>>());
        assert_eq!(outbox.gone(2), None);
        assert!(outbox.lanes.is_empty());
    }

    #[test]
    fn what_waits_for_a_dead_peer_is_dropped() {
        let mut outbox = Outbox::default();
        for number in 0..ACTIVE_MAX + 3 {
            outbox.offer(1, vec![number as u8]);
        }
        outbox.offer(2, vec![9]);
        outbox.forget(1);
        outbox.forget(3);
        assert_eq!(outbox.unsent(), 1);
        assert_eq!(outbox.gone(2), None);
        assert!(outbox.lanes.is_empty());
    }

    #[test]
    #[should_panic(expected = "handed to MPI")]
    fn what_was_never_sent_cannot_go() {
        Outbox::default().gone(0);
    }
}
