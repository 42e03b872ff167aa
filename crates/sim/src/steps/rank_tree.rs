//! Trees of ranks. Rank 0 is the root, and children have higher numbers than their parents.

use atta_engine::{Rank, Tree};

/// The shape of a tree of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankTree {
    /// A complete tree in which each rank has so many children: that of a session, with 16.
    Wide(u32),
    /// A binomial tree: that of FGFS over MPI (Ahn et al. 2013, section IV.D).
    Binomial,
}

impl RankTree {
    /// The tree that sessions use.
    pub const SESSION: Self = Self::Wide(16);

    /// The parent. None for the root.
    #[must_use]
    pub fn parent(self, rank: u32, ranks: u32) -> Option<u32> {
        match self {
            Self::Wide(width) => Tree::new(Rank(rank), ranks, width).parent().map(|rank| rank.0),
            Self::Binomial => (rank > 0).then(|| rank & (rank - 1)),
        }
    }

    /// The children, in the order in which they are sent to: the largest subtree first.
    #[must_use]
    pub fn children(self, rank: u32, ranks: u32) -> Vec<u32> {
        match self {
            Self::Wide(width) => Tree::new(Rank(rank), ranks, width).children().map(|rank| rank.0).collect(),
            Self::Binomial => {
                let bits = if rank == 0 { u32::BITS } else { rank.trailing_zeros() };
                let child = |bit| rank.checked_add(1_u32 << bit).filter(|child| *child < ranks);
                (0..bits).rev().filter_map(child).collect()
            }
        }
    }
}
