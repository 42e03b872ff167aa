//! The queue of future events: the earliest first, and events of the same time in the order of insertion. `world.rs` defines
//! what an event means.
//!
//! A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, 1990). No event is ever inserted before the last one removed, so events are
//! kept in 65 buckets by the highest bit in which their time differs from that one. Events move between buckets in their
//! present order, which keeps those of one time in order without a sequence number. Unlike a binary heap it accesses memory
//! sequentially, which matters most with a million ranks.

/// A future event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// When, in nanoseconds.
    pub(crate) time: u64,
    /// The rank.
    pub(crate) rank: u32,
    /// The event's number, as `world.rs` encodes it.
    pub(crate) what: u32,
}

/// All future events.
#[derive(Debug)]
pub(crate) struct Events {
    /// The time of the last event removed.
    last: u64,
    buckets: Vec<Vec<Event>>,
    /// The number of events removed from the first bucket.
    taken: usize,
    /// A bit for each bucket after the first that is not empty.
    filled: u64,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { last: 0, buckets: vec![Vec::new(); 65], taken: 0, filled: 0 }
    }

    /// Inserts an event. It may not be earlier than the last one removed.
    pub(crate) fn push(&mut self, event: Event) {
        debug_assert!(event.time >= self.last, "an event in the past");
        let bucket = (u64::BITS - (event.time ^ self.last).leading_zeros()) as usize;
        self.buckets[bucket].push(event);
        if bucket > 0 {
            self.filled |= 1 << (bucket - 1);
        }
    }

    /// Removes the next event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.taken == self.buckets[0].len() {
            self.refill()?;
        }
        let event = self.buckets[0][self.taken];
        self.taken += 1;
        Some(event)
    }

    /// Refills the first bucket with the events of the next time.
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
        // Reuse the memory.
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
    fn events_are_ordered_by_time_then_insertion() {
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
