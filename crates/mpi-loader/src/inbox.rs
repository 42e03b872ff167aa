//! Incoming messages: those that MPI still receives, and complete ones that wait for an earlier one of the same rank. The
//! inbox owns the buffers and picks the next message; it receives nothing itself.
//!
//! Several messages are received at once, so that a large message of a slow rank does not hold up those of other ranks. The
//! number is bounded, because a rank needs memory for all of them.

use std::collections::{BTreeMap, BTreeSet};

use atta_fabric::Received;

/// Messages received at once. More than one rank hands to MPI for one receiver, so that a single rank cannot occupy all of
/// them, and few enough to check often.
pub(crate) const MESSAGES_MAX: usize = 128;
/// Bytes received at once, plus one more message.
pub(crate) const BYTES_MAX: usize = 64 << 20;

/// Messages by ticket. Tickets ascend in the order in which the messages were matched.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    messages: BTreeMap<u64, Incoming>,
    bytes: usize,
    next_ticket: u64,
    /// Ranks that have died. Nothing of theirs is given any more, as something before it may be missing.
    dead: BTreeSet<u32>,
    /// Buffers of their messages: MPI may still write to them.
    given_up: BTreeMap<u64, Received>,
}

#[derive(Debug)]
struct Incoming {
    received: Received,
    is_whole: bool,
}

impl Inbox {
    /// Whether another message may be received.
    pub(crate) fn has_room(&self) -> bool {
        self.messages.len() < MESSAGES_MAX && self.bytes < BYTES_MAX
    }

    /// Whether MPI is receiving any message.
    pub(crate) fn is_receiving(&self) -> bool {
        self.messages.values().any(|incoming| !incoming.is_whole)
    }

    /// Adds a matched message. Returns its ticket and its buffer, which stays in place until [`fail`](Self::fail) or
    /// [`next`](Self::next) returns it.
    pub(crate) fn add(&mut self, from: u32, bytes: usize) -> (u64, &mut [u8]) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        if self.dead.contains(&from) {
            let received = Received { from, message: vec![0; bytes] };
            let given_up = self.given_up.entry(ticket).or_insert(received);
            return (ticket, &mut given_up.message);
        }
        self.bytes += bytes;
        let received = Received { from, message: vec![0; bytes] };
        let incoming = self.messages.entry(ticket).or_insert(Incoming { received, is_whole: false });
        (ticket, &mut incoming.received.message)
    }

    /// Records that a message is complete.
    ///
    /// # Panics
    /// No message has this ticket.
    pub(crate) fn complete(&mut self, ticket: u64) {
        if self.given_up.remove(&ticket).is_some() {
            return;
        }
        self.messages.get_mut(&ticket).expect("a ticket was given for each message").is_whole = true;
    }

    /// Gives up a failed message and returns its sender and its buffer.
    ///
    /// # Panics
    /// No message has this ticket.
    pub(crate) fn fail(&mut self, ticket: u64) -> Received {
        let given_up = self.given_up.remove(&ticket);
        given_up.or_else(|| self.remove(ticket)).expect("a ticket was given for each message")
    }

    /// Gives nothing more of a rank that has died: what it had not sent whole may never be, and must not take room.
    pub(crate) fn give_up(&mut self, from: u32) {
        self.dead.insert(from);
        let of_rank = self.messages.iter().filter(|(_, incoming)| incoming.received.from == from);
        let tickets: Vec<_> = of_rank.map(|(ticket, incoming)| (*ticket, incoming.is_whole)).collect();
        for (ticket, is_whole) in tickets {
            let received = self.remove(ticket).filter(|_| !is_whole);
            self.given_up.extend(received.map(|received| (ticket, received)));
        }
    }

    /// The next complete message that has no earlier one of the same rank before it.
    pub(crate) fn next(&mut self) -> Option<Received> {
        let mut unfinished = Vec::new();
        let ticket = self.messages.iter().find_map(|(ticket, incoming)| {
            let from = incoming.received.from;
            if incoming.is_whole && !unfinished.contains(&from) {
                return Some(*ticket);
            }
            unfinished.push(from);
            None
        })?;
        self.remove(ticket)
    }

    /// All buffers, for a caller that must keep them.
    pub(crate) fn into_buffers(self) -> impl Iterator<Item = Vec<u8>> {
        let rest = self.messages.into_values().map(|incoming| incoming.received);
        rest.chain(self.given_up.into_values()).map(|received| received.message)
    }

    fn remove(&mut self, ticket: u64) -> Option<Received> {
        let received = self.messages.remove(&ticket)?.received;
        self.bytes -= received.message.len();
        Some(received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_rank_keep_their_order() {
        let mut inbox = Inbox::default();
        let tickets = [(1, 100), (2, 1), (1, 2), (2, 3)].map(|(from, bytes)| inbox.add(from, bytes).0);
        tickets[1..].iter().for_each(|ticket| inbox.complete(*ticket));
        let passed: Vec<_> = std::iter::from_fn(|| inbox.next()).map(|each| each.message.len()).collect();
        assert_eq!(passed, [1, 3]);
        assert!(inbox.is_receiving());
        inbox.complete(tickets[0]);
        assert!(!inbox.is_receiving());
        let rest: Vec<_> = std::iter::from_fn(|| inbox.next()).map(|each| each.message.len()).collect();
        assert_eq!(rest, [100, 2]);
    }

    #[test]
    fn messages_of_dead_ranks_take_no_room() {
        let mut inbox = Inbox::default();
        let tickets: Vec<u64> = (0..MESSAGES_MAX).map(|_| inbox.add(1, 3).0).collect();
        inbox.complete(tickets[0]);
        inbox.give_up(1);
        assert!(inbox.has_room() && !inbox.is_receiving());
        assert_eq!(inbox.next(), None);
        let (late, _) = inbox.add(1, 7);
        inbox.complete(late);
        let (other, _) = inbox.add(2, 5);
        inbox.complete(tickets[1]);
        assert_eq!(inbox.fail(tickets[2]).from, 1);
        inbox.complete(other);
        assert_eq!(inbox.next().unwrap().message.len(), 5);
        assert_eq!((inbox.next(), inbox.bytes), (None, 0));
        assert_eq!(inbox.into_buffers().count(), MESSAGES_MAX - 3);
    }

    #[test]
    fn messages_and_bytes_are_bounded() {
        let mut inbox = Inbox::default();
        (0..MESSAGES_MAX).for_each(|_| {
            assert!(inbox.has_room());
            inbox.add(1, 0);
        });
        assert!(!inbox.has_room());
        inbox.complete(0);
        assert!(!inbox.has_room(), "it has not been given yet");
        inbox.next().unwrap();
        assert!(inbox.has_room());
        let (large, _) = inbox.add(2, BYTES_MAX);
        assert!(!inbox.has_room());
        assert_eq!(inbox.fail(large).message.len(), BYTES_MAX);
        assert!(inbox.has_room());
    }
}
