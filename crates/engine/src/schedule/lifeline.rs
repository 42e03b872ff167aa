//! `lifeline`: as hybrid, but a rank that asked a few others in vain registers with its lifeline partners and goes quiet
//! until one of them sends work. So a rank without work costs nothing, and when work appears it spreads along the
//! lifelines like a broadcast. (Saraswat et al., PPoPP 2011, for the idea.)
//!
//! ```text
//!   partners of r, once per power of two below N:   r+1  r+2  r+4  r+8 ...   (modulo N)
//! ```
//!
//! Any rank is reached from any other over at most log2(N) lifelines. At the start every rank counts as registered with
//! all its partners, without a message: work spreads from rank 0 as fast as directories can be split. A registration
//! holds until it is answered with work; later rounds only renew those.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::outside::Outside;
use super::{Schedule, Step};
use crate::{Place, Random, Rank};

/// Random victims that are asked before a rank turns to its lifelines. More cost messages when hardly anybody has work,
/// fewer make neighbours wait for each other while others have plenty.
const TRIES: u32 = 2;

#[derive(Clone, Debug)]
pub(super) struct Lifeline {
    place: Place,
    /// Random victims that refused since work last came.
    refusals: u32,
    /// Partners with whom this rank is registered, a bit for each power of two.
    registered: u32,
}

impl Lifeline {
    pub(super) fn new(place: Place) -> Self {
        let all = (1_u64 << powers(place.size())) - 1;
        Self { place, refusals: 0, registered: u32::try_from(all).unwrap_or(u32::MAX) }
    }

    fn partner(&self, power: u32, backwards: bool) -> Rank {
        let size = u64::from(self.place.size());
        let step = (1_u64 << power) % size;
        let step = if backwards { size - step } else { step };
        Rank(u32::try_from((u64::from(self.place.here().0) + step) % size).unwrap_or(0))
    }
}

/// Powers of two below `size`: so many lifelines has a rank.
fn powers(size: u32) -> u32 {
    u32::BITS - (size - 1).leading_zeros()
}

impl Schedule for Lifeline {
    fn next(&mut self, random: &mut Random, idle: bool) -> Step {
        if self.refusals < TRIES
            && let Some(victim) = Outside::victim(&self.place, random)
        {
            return Step::Ask { victim, wait: false };
        }
        if !idle {
            // Who still works may soon have plenty: it must not be sent more.
            self.refusals = 0;
            return Step::Rest;
        }
        let missing = (0..powers(self.place.size())).find(|power| self.registered & (1 << power) == 0);
        let Some(power) = missing else { return Step::Sleep };
        self.registered |= 1 << power;
        Step::Ask { victim: self.partner(power, false), wait: true }
    }

    fn refused(&mut self, _by: Rank) {
        self.refusals = self.refusals.saturating_add(1);
    }

    fn received(&mut self, from: Rank) {
        self.refusals = 0;
        for power in 0..powers(self.place.size()) {
            if self.partner(power, false) == from {
                self.registered &= !(1 << power);
            }
        }
    }

    fn waiting_at_start(&self) -> Vec<Rank> {
        // The farthest first: it has the largest part of the ring to supply.
        (0..powers(self.place.size())).rev().map(|power| self.partner(power, true)).collect()
    }

    fn boxed_clone(&self) -> Box<dyn Schedule> {
        Box::new(self.clone())
    }

    fn fingerprint(&self) -> u64 {
        u64::from(self.refusals.min(TRIES)) << 32 | u64::from(self.registered)
    }
}
