//! The queue of all that is going to happen: the earliest first, and what falls on the same time in the order in which it
//! was put in. What an event means is `world.rs`'s business.
//!
//! A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, 1990): nothing is ever put in before what was taken out last, so events
//! are kept in 65 heaps by the highest bit in which their time differs from that one. Events move from heap to heap in the
//! order in which they stand, which keeps those of one time in order without a number for it. Against a binary heap it
//! touches memory in sequence: with a million ranks that is what counts.

/// Something that is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// When, in nanoseconds.
    pub(crate) time: u64,
    /// To whom.
    pub(crate) rank: u32,
    /// What, as `world.rs` writes it.
    pub(crate) what: u32,
}

/// All events that are to come.
#[derive(Debug)]
pub(crate) struct Events {
    /// The time of the last event that was taken out.
    last: u64,
    buckets: Vec<Vec<Event>>,
    /// How many of the first bucket are gone.
    taken: usize,
    /// A bit for each bucket after the first that is not empty.
    filled: u64,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { last: 0, buckets: vec![Vec::new(); 65], taken: 0, filled: 0 }
    }

    /// Puts an event in; none may be earlier than the one taken out last.
    pub(crate) fn push(&mut self, event: Event) {
        debug_assert!(event.time >= self.last, "an event in the past");
        let bucket = (u64::BITS - (event.time ^ self.last).leading_zeros()) as usize;
        self.buckets[bucket].push(event);
        if bucket > 0 {
            self.filled |= 1 << (bucket - 1);
        }
    }

    /// Takes the next event out.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.taken == self.buckets[0].len() {
            self.refill()?;
        }
        let event = self.buckets[0][self.taken];
        self.taken += 1;
        Some(event)
    }

    /// Fills the first bucket again with the events of the next time.
    fn refill(&mut self) -> Option<()> {
        self.buckets[0].clear();
        self.taken = 0;
        if self.filled == 0 {
            return None;
        }
        let bucket = self.filled.trailing_zeros() as usize + 1;
        self.filled &= self.filled - 1;
        let mut events = std::mem::take(&mut self.buckets[bucket]);
        self.last = events.iter().map(|event| event.time).min()?;
        events.drain(..).for_each(|event| self.push(event));
        // The memory is used again.
        self.buckets[bucket] = events;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::tree::{below, mix};

    #[test]
    fn events_come_out_by_time_and_then_in_the_order_they_were_put_in() {
        let mut events = Events::new();
        let mut oracle = BinaryHeap::new();
        let (mut now, mut number) = (0, 0_u32);
        for round in 0..100_000_u64 {
            let drawn = mix(round);
            let range = 1 << below(mix(drawn), 40);
            if drawn % 5 < 2 {
                for _ in 0..drawn % 4 {
                    let time = now + below(mix(drawn ^ u64::from(number)), range);
                    events.push(Event { time, rank: number, what: 0 });
                    oracle.push(Reverse((time, number)));
                    number += 1;
                }
            } else {
                let event = events.pop().map(|event| (event.time, event.rank));
                assert_eq!(event, oracle.pop().map(|Reverse(event)| event));
                now = event.map_or(now, |event| event.0);
            }
        }
        assert!(number > 10_000);
    }
}
