//! The place of a rank among the others: the ranks on its host, and the distances to the rest. The caller provides both. The
//! list of far ranks needs knowledge of the network and may be missing.

use alloc::vec::Vec;

use crate::Rank;

/// The surroundings of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    here: Rank,
    size: u32,
    /// Ranks on this host, ascending, including this one.
    neighbours: Vec<Rank>,
    /// Ranks on other hosts, nearest first. Empty if the network is not known.
    outward: Vec<Rank>,
}

impl Place {
    /// A rank that shares its host with `neighbours`, which may include the rank itself.
    #[must_use]
    pub fn new(here: Rank, size: u32, mut neighbours: Vec<Rank>) -> Self {
        neighbours.push(here);
        neighbours.sort_unstable();
        neighbours.dedup();
        Self { here, size: size.max(1), neighbours, outward: Vec::new() }
    }

    /// Adds the ranks of other hosts, nearest first, where the network is known. The list grows with the job; only the schedule
    /// `proximity` reads it.
    #[must_use]
    pub fn with_outward(mut self, outward: Vec<Rank>) -> Self {
        self.outward = outward;
        self
    }

    /// This rank.
    #[must_use]
    pub fn here(&self) -> Rank {
        self.here
    }

    /// The number of ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Ranks on this host, ascending, including this one.
    #[must_use]
    pub fn neighbours(&self) -> &[Rank] {
        &self.neighbours
    }

    /// Whether this rank is the first on its host, the papers' local root.
    #[must_use]
    pub fn is_local_root(&self) -> bool {
        self.neighbours.first() == Some(&self.here)
    }

    /// The number of ranks on other hosts.
    #[must_use]
    pub fn outside(&self) -> u32 {
        self.size.saturating_sub(u32::try_from(self.neighbours.len()).unwrap_or(u32::MAX))
    }

    /// A rank of another host by its index, 0 to [`outside`](Self::outside) - 1, nearest first. Where the network is not known,
    /// the ranks that follow this one in a ring come first, so that not all ranks begin with the same one.
    #[must_use]
    pub fn outward(&self, index: u32) -> Option<Rank> {
        if !self.outward.is_empty() {
            return self.outward.get(usize::try_from(index).ok()?).copied();
        }
        if index >= self.outside() {
            return None;
        }
        // First the ranks after this one, then those from 0 on; the neighbours are skipped.
        let after = self.neighbours.iter().filter(|rank| **rank > self.here).count();
        let upper = self.size - self.here.0 - 1 - u32::try_from(after).unwrap_or(0);
        let (mut rank, from) =
            if index < upper { (self.here.0 + 1 + index, self.here.0 + 1) } else { (index - upper, 0) };
        for neighbour in self.neighbours.iter().filter(|neighbour| neighbour.0 >= from) {
            if neighbour.0 <= rank {
                rank += 1;
            }
        }
        Some(Rank(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outward(place: &Place) -> Vec<u32> {
        (0..place.outside()).filter_map(|index| place.outward(index)).map(|rank| rank.0).collect()
    }

    #[test]
    fn other_ranks_form_a_ring_without_neighbours() {
        let place = Place::new(Rank(3), 8, [2, 5].map(Rank).to_vec());
        assert_eq!(place.neighbours(), [2, 3, 5].map(Rank));
        assert_eq!(outward(&place), [4, 6, 7, 0, 1]);
        assert_eq!(place.outward(5), None);
        assert!(!place.is_local_root());
    }

    #[test]
    fn every_rank_of_another_host_is_outside_once() {
        for size in 1..12 {
            for here in 0..size {
                for host in 1..4 {
                    let neighbours = (0..size).filter(|rank| rank % host == here % host).map(Rank).collect();
                    let place = Place::new(Rank(here), size, neighbours);
                    let mut others = outward(&place);
                    others.sort_unstable();
                    let expected: Vec<u32> = (0..size).filter(|rank| rank % host != here % host).collect();
                    assert_eq!(others, expected, "rank {here} of {size} on host {}", here % host);
                }
            }
        }
    }

    #[test]
    fn a_known_network_decides_the_order() {
        let place = Place::new(Rank(0), 4, Vec::new()).with_outward([2, 1, 3].map(Rank).to_vec());
        assert_eq!(outward(&place), [2, 1, 3]);
    }
}
