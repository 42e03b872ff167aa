//! What ranks need at each mount point, added up for each source on the way up the tree of ranks, and who looks at it. It asks no file system.

use std::collections::BTreeMap;

use atta_code::record;

use super::requirements::Requirements;
use crate::class::Key;

/// Ranks that share a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The lowest one: it looks.
    pub(crate) representative: u32,
    pub(crate) ranks: u32,
    /// Bytes that they write.
    pub(crate) space: u64,
    /// Bytes that they remove before.
    pub(crate) freed: u64,
    /// It is no other file system than all others that are definite.
    pub(crate) is_definite: bool,
}

record!(Source { representative, ranks, space, freed, is_definite });

impl Source {
    pub(crate) fn of(rank: u32, wanted: &Requirements, is_definite: bool) -> Self {
        let Requirements { space_each: space, space_to_free: freed, .. } = *wanted;
        Self { representative: rank, ranks: 1, space, freed, is_definite }
    }

    fn merge(&mut self, other: Self) {
        self.representative = self.representative.min(other.representative);
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.space = self.space.saturating_add(other.space);
        self.freed = self.freed.saturating_add(other.freed);
        self.is_definite &= other.is_definite;
    }

    /// Bytes that must be available, with the share of what all of so many ranks write together.
    fn need(&self, space_total: u64, ranks: u32) -> u64 {
        let product = u128::from(space_total) * u128::from(self.ranks);
        let share = u64::try_from(product.div_ceil(u128::from(ranks.max(1)))).unwrap_or(u64::MAX);
        self.space.saturating_add(share).saturating_sub(self.freed)
    }
}

/// A mount point over all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Not all ranks can keep files there.
    pub(crate) is_left_out: bool,
    /// The lowest rank on which it is read-only.
    pub(crate) read_only: Option<u32>,
    /// The lowest speed and scalability of the table.
    pub(crate) rating: (u32, u32),
    /// The lowest measured speed, in bytes a second.
    pub(crate) measured: Option<u64>,
    pub(crate) sources: BTreeMap<Key, Source>,
}

record!(Needs { is_left_out, read_only, rating, measured, sources });

impl Needs {
    pub(crate) const LEFT_OUT: Self =
        Self { is_left_out: true, read_only: None, rating: (0, 0), measured: None, sources: BTreeMap::new() };

    /// Adds other ranks. The result does not depend on the order.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.is_left_out || other.is_left_out {
            *self = Self::LEFT_OUT;
            return;
        }
        self.read_only = self.read_only.into_iter().chain(other.read_only).min();
        self.rating = (self.rating.0.min(other.rating.0), self.rating.1.min(other.rating.1));
        self.measured = self.measured.into_iter().chain(other.measured).min();
        for (key, source) in other.sources {
            self.sources.entry(key).and_modify(|own| own.merge(source)).or_insert(source);
        }
    }

    /// How many file systems there are, and who looks at which for how many bytes. Where some may be one, each of these must have space for
    /// all of them, and they count as one.
    pub(crate) fn looks(&self, is_certain: bool, wanted: &Requirements, ranks: u32) -> (u32, Vec<Look>) {
        let need = |source: &Source| source.need(wanted.space_total, ranks);
        let is_apart = |source: &Source| is_certain || source.is_definite;
        let joined = self.sources.values().filter(|source| !is_apart(source));
        let joined_need = joined.clone().map(need).fold(0, u64::saturating_add);
        let count = self.sources.len() - joined.clone().count() + usize::from(joined.count() > 0);
        let look = |source: &Source| {
            let bytes = if is_apart(source) { need(source) } else { joined_need };
            Look { rank: source.representative, need: bytes }
        };
        (u32::try_from(count).unwrap_or(u32::MAX), self.sources.values().map(look).collect())
    }
}

/// A look at one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) rank: u32,
    /// Bytes that must be available.
    pub(crate) need: u64,
}

record!(Look { rank, need });

/// Who looks at which mount point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The looks at each mount point, in the order of the map.
    pub(crate) looks: Vec<Vec<Look>>,
    pub(crate) is_write_wanted: bool,
}

record!(Plan { looks, is_write_wanted });

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted(space_each: u64, space_to_free: u64) -> Requirements {
        Requirements { space_each, space_to_free, ..Requirements::default() }
    }

    fn needs(rank: u32, source: u8, is_definite: bool, wanted: &Requirements) -> Needs {
        let sources = [([source; 16], Source::of(rank, wanted, is_definite))].into();
        Needs { is_left_out: false, read_only: None, rating: (2, 1), measured: None, sources }
    }

    proptest! {
        #[test]
        fn needs_do_not_depend_on_the_order(ranks in prop::collection::vec((0_u8..3, any::<u64>(), 0_u64..9, any::<bool>()), 1..20),
                                            split in any::<prop::sample::Index>()) {
            let of = |(rank, &(source, each, free, is_slow)): (u32, &(u8, u64, u64, bool))| Needs {
                rating: (if is_slow { 1 } else { 2 }, 3),
                read_only: is_slow.then_some(rank),
                measured: (free > 4).then_some(free),
                ..needs(rank, source, true, &wanted(each, free))
            };
            let all: Vec<_> = (0_u32..).zip(&ranks).map(of).collect();
            let merged = |parts: &[Needs]| parts.iter().cloned().reduce(|mut one, other| { one.merge(other); one });
            let at = split.index(all.len());
            let halves = [merged(&all[at..]), merged(&all[..at])].into_iter().flatten().collect::<Vec<_>>();
            let expected = merged(&all).unwrap();
            prop_assert_eq!(merged(&halves), Some(expected.clone()));
            for (key, source) in &expected.sources {
                let own = (0_u32..).zip(&ranks).filter(|(_, rank)| rank.0 == key[0]);
                let space = own.clone().fold(0_u128, |sum, (_, rank)| sum + u128::from(rank.1));
                prop_assert_eq!(u128::from(source.space), space.min(u128::from(u64::MAX)));
                prop_assert_eq!(source.representative, own.clone().map(|(at, _)| at).min().unwrap());
                prop_assert_eq!(source.ranks as usize, own.count());
            }
        }
    }

    // Defect 8: more to free than to write gave a need of almost 2^64 bytes.
    #[test]
    fn more_to_free_than_to_write_needs_nothing() {
        let source = |each, free| Source::of(0, &wanted(each, free), true);
        assert_eq!(source(5, 9).need(0, 1), 0);
        assert_eq!(source(9, 5).need(0, 1), 4);
        assert_eq!(source(u64::MAX, 0).need(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn total_is_shared_by_all_ranks() {
        let source = |ranks| Source { ranks, ..Source::of(0, &wanted(1, 0), true) };
        assert_eq!(source(2).need(10, 4), 1 + 5);
        assert_eq!(source(1).need(10, 4), 1 + 3, "rounded up");
        assert_eq!(source(4).need(10, 4), 1 + 10);
    }

    #[test]
    fn sources_that_may_be_one_need_space_for_all() {
        let mut all = needs(0, 1, false, &wanted(5, 0));
        all.merge(needs(1, 2, false, &wanted(7, 0)));
        all.merge(needs(2, 3, true, &wanted(9, 0)));
        let found = |is_certain| {
            let (sources, looks) = all.looks(is_certain, &Requirements::default(), 3);
            (sources, looks.iter().map(|look| (look.rank, look.need)).collect::<Vec<_>>())
        };
        assert_eq!(found(true), (3, vec![(0, 5), (1, 7), (2, 9)]));
        assert_eq!(found(false), (2, vec![(0, 12), (1, 12), (2, 9)]));
    }

    #[test]
    fn a_rank_without_the_mount_leaves_it_out() {
        let mut all = needs(0, 1, true, &wanted(5, 0));
        all.merge(Needs::LEFT_OUT);
        all.merge(needs(1, 1, true, &wanted(5, 0)));
        assert_eq!(all, Needs::LEFT_OUT);
    }
}
