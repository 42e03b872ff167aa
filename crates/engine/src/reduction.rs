//! Totals that climb the tree of ranks, asynchronously. Each rank sends the totals of its subtree on a soft period. No rank
//! waits for them until the end, when the final ones are complete. The caller defines the type of the totals.

use alloc::vec;
use alloc::vec::Vec;

use atta_code::Code;

use crate::Tree;

/// A value that ranks add up: progress, totals, an application's result.
///
/// Merging must not depend on order or grouping.
pub trait Reduce: Clone + Code {
    /// Adds the part of another rank.
    fn merge(&mut self, other: &Self);
}

/// For jobs without totals.
impl Reduce for () {
    fn merge(&mut self, (): &Self) {}
}

/// The newest totals of this rank and of each of its children.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Reduction<R> {
    own: Option<Part<R>>,
    below: Vec<Option<Part<R>>>,
}

#[derive(Clone, Debug, Hash)]
struct Part<R> {
    is_last: bool,
    value: R,
}

impl<R: Reduce> Reduction<R> {
    pub(crate) fn new(tree: &Tree) -> Self {
        Self { own: None, below: vec![None; tree.children().count()] }
    }

    pub(crate) fn set_own(&mut self, value: R, is_last: bool) {
        self.own = Some(Part { is_last, value });
    }

    /// Takes a child's totals. False: the child is unknown, or its final totals arrived before.
    pub(crate) fn set_child(&mut self, child: usize, value: R, is_last: bool) -> bool {
        let Some(part) = self.below.get_mut(child) else { return false };
        if part.as_ref().is_some_and(|part| part.is_last) {
            return false;
        }
        *part = Some(Part { is_last, value });
        true
    }

    /// Whether the own part is final.
    pub(crate) fn is_own_last(&self) -> bool {
        self.own.as_ref().is_some_and(|part| part.is_last)
    }

    /// Whether the parts of all children are final.
    pub(crate) fn are_children_last(&self) -> bool {
        self.below.iter().all(|part| part.as_ref().is_some_and(|part| part.is_last))
    }

    /// The children whose part is not final, by index.
    pub(crate) fn children_not_last(&self) -> impl Iterator<Item = usize> {
        let is_last = |part: &Option<Part<R>>| part.as_ref().is_some_and(|part| part.is_last);
        self.below.iter().enumerate().filter(move |(_, part)| !is_last(part)).map(|(child, _)| child)
    }

    /// The sum of this subtree, as far as it is known.
    pub(crate) fn sum(&self) -> Option<R> {
        let mut parts = self.own.iter().chain(self.below.iter().flatten());
        let mut sum = parts.next()?.value.clone();
        parts.for_each(|part| sum.merge(&part.value));
        Some(sum)
    }
}
