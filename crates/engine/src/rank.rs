//! Rank numbers, and the tree of all ranks. No state grows with the number of ranks.

use core::fmt;

/// One process of a job, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

impl Rank {
    /// The rank that starts the job, decides that it is over, and holds its result.
    pub const ROOT: Self = Self(0);
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The tree along which totals climb and decisions descend, as seen by one rank.
///
/// The tree is complete, of a given width, with rank 0 at its root. Its height is the logarithm of the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    here: u32,
    size: u32,
    width: u32,
}

impl Tree {
    /// The place of `here` among `size` ranks. Each rank has up to `width` (at least 1) children.
    #[must_use]
    pub fn new(here: Rank, size: u32, width: u32) -> Self {
        Self { here: here.0, size, width: width.max(1) }
    }

    /// The parent. None for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Rank> {
        (self.here > 0).then(|| Rank((self.here - 1) / self.width))
    }

    /// The children, in ascending order.
    pub fn children(&self) -> impl Iterator<Item = Rank> + use<> {
        let first = u64::from(self.here) * u64::from(self.width) + 1;
        let end = (first + u64::from(self.width)).min(u64::from(self.size));
        (first..end.max(first)).filter_map(|child| u32::try_from(child).ok().map(Rank))
    }

    /// The index of a child. None for a rank that is not a child.
    #[must_use]
    pub fn child_index(&self, rank: Rank) -> Option<usize> {
        self.children().position(|child| child == rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_root_is_a_child_of_its_parent() {
        for (size, width) in [(1, 2), (2, 1), (7, 2), (100, 3), (1000, 32)] {
            let mut seen = 0;
            for here in (0..size).map(Rank) {
                let tree = Tree::new(here, size, width);
                assert_eq!(tree.parent().is_none(), here == Rank::ROOT);
                for child in tree.children() {
                    assert_eq!(Tree::new(child, size, width).parent(), Some(here));
                    seen += 1;
                }
            }
            assert_eq!(seen, size - 1, "{size} ranks, {width} wide");
        }
    }

    #[test]
    fn last_ranks_of_the_largest_job_have_no_children() {
        assert_eq!(Tree::new(Rank(u32::MAX - 1), u32::MAX, 32).children().count(), 0);
    }
}
