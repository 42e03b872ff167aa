//! Sets of ranks, as ranges: ranks of one host mostly follow each other. It does not know how many ranks there are.

use atta_code::Code;

/// A set of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranks {
    /// First and last rank of each range: ascending, and not adjacent.
    ranges: Vec<(u32, u32)>,
}

impl Ranks {
    /// One rank.
    #[must_use]
    pub fn of(rank: u32) -> Self {
        Self { ranges: vec![(rank, rank)] }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    /// The lowest one.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|(first, _)| *first)
    }

    /// Whether the rank is one of them.
    #[must_use]
    pub fn contains(&self, rank: u32) -> bool {
        self.position(rank).is_some()
    }

    /// How many lower ones there are. None: the rank is not in the set.
    #[must_use]
    pub fn position(&self, rank: u32) -> Option<u64> {
        let mut lower = 0;
        for (first, last) in &self.ranges {
            if rank < *first {
                return None;
            }
            if rank <= *last {
                return Some(lower + u64::from(rank - first));
            }
            lower += u64::from(last - first) + 1;
        }
        None
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// First and last rank of each range, ascending. Between two ranges there is at least one rank.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.ranges.iter().copied()
    }

    /// Adds others.
    pub fn add(&mut self, others: &Self) {
        let mut all = Vec::with_capacity(self.ranges.len() + others.ranges.len());
        let (mut one, mut two) = (self.ranges.iter().peekable(), others.ranges.iter().peekable());
        while let Some(next) = match (one.peek(), two.peek()) {
            (Some(left), Some(right)) if left <= right => one.next(),
            (_, Some(_)) => two.next(),
            _ => one.next(),
        } {
            append(&mut all, *next);
        }
        self.ranges = all;
    }

    /// Keeps the lowest ones.
    pub(crate) fn truncate(&mut self, mut count: u32) {
        let mut kept = 0;
        for (first, last) in &mut self.ranges {
            if count == 0 {
                break;
            }
            *last = (*last).min(first.saturating_add(count - 1));
            count -= *last - *first + 1;
            kept += 1;
        }
        self.ranges.truncate(kept);
    }
}

/// Appends a range that begins no earlier than the last one.
fn append(ranges: &mut Vec<(u32, u32)>, (first, last): (u32, u32)) {
    match ranges.last_mut() {
        Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
        _ => ranges.push((first, last)),
    }
}

/// The number of ranges, then of each how many ranks lie before it and how many are in it, less what there must be.
impl Code for Ranks {
    fn encode(&self, out: &mut Vec<u8>) {
        self.ranges.len().encode(out);
        let mut begin = 0;
        for (first, last) in &self.ranges {
            (first - begin, last - first).encode(out);
            begin = last.saturating_add(2);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (count, mut begin) = (usize::decode(bytes)?, Some(0_u32));
        let mut ranges = Vec::new();
        for _ in 0..count {
            let (gap, more) = <(u32, u32)>::decode(bytes)?;
            let first = begin?.checked_add(gap)?;
            let last = first.checked_add(more)?;
            ranges.push((first, last));
            begin = last.checked_add(2);
        }
        Some(Self { ranges })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(ranks: &BTreeSet<u32>) -> Ranks {
        ranks.iter().fold(Ranks::default(), |mut all, rank| {
            all.add(&Ranks::of(*rank));
            all
        })
    }

    proptest! {
        #[test]
        fn ranges_behave_as_sets(one in prop::collection::btree_set(0_u32..40, 0..30),
                                 two in prop::collection::btree_set(0_u32..40, 0..30), count in 0_u32..40) {
            let mut all = set(&one);
            all.add(&set(&two));
            let expected: Vec<u32> = one.union(&two).copied().collect();
            prop_assert_eq!(all.iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(all.len(), expected.len() as u64);
            for rank in 0..41 {
                let at = expected.iter().position(|each| *each == rank).map(|at| at as u64);
                prop_assert_eq!(all.position(rank), at);
            }
            prop_assert_eq!(Ranks::decode_all(&all.encoded()), Some(all.clone()));
            let ends: Vec<_> = all.ranges().collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{:?}", ends);
            all.truncate(count);
            let lowest: Vec<u32> = expected.into_iter().take(count as usize).collect();
            prop_assert_eq!(all.iter().collect::<Vec<_>>(), lowest);
        }
    }

    #[test]
    fn last_possible_ranks_travel() {
        let mut all = Ranks::of(u32::MAX);
        all.add(&Ranks::of(u32::MAX - 2));
        assert_eq!(Ranks::decode_all(&all.encoded()), Some(all));
    }
}
