//! Parcels on their way: what this rank gave and nobody has accepted yet, and what it accepted from whom. What is in a
//! parcel is the driver's business.

use alloc::collections::BTreeMap;

use crate::message::Tasks;
use crate::{Rank, Rule, Rules};

/// Numbers of parcels, by giver and taker. Grows with the ranks that work really went to or came from.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Parcels {
    /// The last number given to each taker.
    given: BTreeMap<Rank, u64>,
    /// The last number accepted from each giver.
    accepted: BTreeMap<Rank, u64>,
    /// Given and not accepted yet. Kept so that a taker that dies before it accepted costs nothing.
    outbox: BTreeMap<(Rank, u64), Tasks>,
}

impl Parcels {
    /// Puts a parcel for `to` into the outbox; its number.
    pub(crate) fn give(&mut self, to: Rank, tasks: Tasks) -> u64 {
        let last = self.given.entry(to).or_default();
        *last += 1;
        self.outbox.insert((to, *last), tasks);
        *last
    }

    /// Takes note that `by` accepted, perhaps again. False: there was no such parcel.
    pub(crate) fn accepted(&mut self, by: Rank, sequence: u64) -> bool {
        self.outbox.remove(&(by, sequence));
        self.given.get(&by).is_some_and(|last| (1..=*last).contains(&sequence))
    }

    /// Whether a parcel has been accepted before.
    pub(crate) fn is_repeated(&self, from: Rank, sequence: u64) -> bool {
        self.accepted.get(&from).is_some_and(|last| sequence <= *last)
    }

    /// Whether a parcel is new and so is to be taken in. An old one is only acknowledged again.
    pub(crate) fn is_new(&mut self, from: Rank, sequence: u64, rules: Rules) -> bool {
        let last = self.accepted.entry(from).or_default();
        let is_new = sequence == *last + 1;
        if is_new {
            *last = sequence;
        }
        is_new || rules.is_broken(Rule::AcceptOnce)
    }

    /// Whether all that was given has been accepted.
    pub(crate) fn is_settled(&self) -> bool {
        self.outbox.is_empty()
    }
}
