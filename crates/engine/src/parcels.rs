//! Parcels by number: given, accepted, and known to have arrived, for each peer. The contents are not kept.

use alloc::collections::BTreeMap;

use crate::{Rank, Rule, Rules};

/// Parcel numbers by giver and taker. Grows only with the ranks that exchanged work with this one.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Parcels {
    /// The last number given to each taker.
    given: BTreeMap<Rank, u64>,
    /// The last number accepted from each giver.
    accepted: BTreeMap<Rank, u64>,
    /// The last number that each taker is known to have accepted.
    settled: BTreeMap<Rank, u64>,
    /// Parcels given but not known to have been accepted.
    open: u64,
}

impl Parcels {
    /// The number of a new parcel for `to`.
    pub(crate) fn give(&mut self, to: Rank) -> u64 {
        let last = self.given.entry(to).or_default();
        *last += 1;
        self.open += 1;
        *last
    }

    /// Records that `by` has accepted all parcels up to this number. Repeats are allowed. False: no such parcel was given.
    pub(crate) fn accepted(&mut self, by: Rank, sequence: u64) -> bool {
        if !self.given.get(&by).is_some_and(|last| (1..=*last).contains(&sequence)) {
            return false;
        }
        let settled = self.settled.entry(by).or_default();
        self.open -= sequence.saturating_sub(*settled);
        *settled = sequence.max(*settled);
        true
    }

    /// Records that all parcels given have been accepted.
    pub(crate) fn settle(&mut self) {
        self.open = 0;
        self.settled.clone_from(&self.given);
    }

    /// The ranks from which parcels were accepted, with the last number from each.
    pub(crate) fn takings(&self) -> impl Iterator<Item = (Rank, u64)> {
        self.accepted.iter().map(|(from, last)| (*from, *last))
    }

    /// Whether a parcel has been accepted before.
    pub(crate) fn is_repeated(&self, from: Rank, sequence: u64) -> bool {
        self.accepted.get(&from).is_some_and(|last| sequence <= *last)
    }

    /// Whether a parcel is new and must be taken in. An old parcel is only acknowledged again.
    pub(crate) fn is_new(&mut self, from: Rank, sequence: u64, rules: Rules) -> bool {
        let last = self.accepted.entry(from).or_default();
        let is_new = sequence == *last + 1;
        if is_new {
            *last = sequence;
        }
        is_new || rules.is_broken(Rule::AcceptOnce)
    }

    /// Whether all parcels given have been accepted.
    pub(crate) fn is_settled(&self) -> bool {
        self.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_settles_all_parcels_up_to_it() {
        let mut parcels = Parcels::default();
        let (one, other) = (Rank(1), Rank(2));
        assert_eq!([one, one, other, one].map(|to| parcels.give(to)), [1, 2, 1, 3]);
        assert!(parcels.accepted(one, 2) && parcels.accepted(one, 1) && !parcels.is_settled());
        assert!(!parcels.accepted(one, 4) && !parcels.accepted(Rank(3), 1) && !parcels.accepted(one, 0));
        assert!(parcels.accepted(other, 1) && parcels.accepted(one, 3) && parcels.is_settled());
        parcels.give(other);
        assert!(!parcels.is_settled());
        parcels.settle();
        assert!(parcels.is_settled() && parcels.accepted(other, 2));
    }
}
