//! `lifeline`: like hybrid, but a rank that was refused a few times registers with its lifeline partners and goes quiet until
//! one of them sends work. So an idle rank costs nothing, and new work spreads along the lifelines like a broadcast. The idea
//! is from Saraswat et al., PPoPP 2011.
//!
//! ```text
//!   partners of r, once per power of two below N:   r+1  r+2  r+4  r+8 ...   (modulo N)
//! ```
//!
//! Any rank is reached from any other over at most log2(N) lifelines. At the start each rank counts as registered with one
//! partner, without a message, so that all form a binomial tree below rank 0. Work then spreads as fast as directories can be
//! split, and no rank receives work from log2(N) partners at once. A registration holds until it is answered with work.
//!
//! A refused rank registers with one partner after another, with growing pauses in between. Most ranks receive work before
//! they have registered with all partners. Random victims are necessary: without them, neighbours on the ring pass crumbs of
//! work to and fro while other ranks have plenty.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::outside::Outside;
use super::{Schedule, Step};
use crate::{Place, Random, Rank};

/// Random victims to ask before a rank turns to its lifelines. A higher value costs messages when few ranks have work; a
/// lower one makes neighbours wait for each other while others have plenty.
const TRIES: u32 = 2;

/// The maximum of pauses at the start. They double each time; ten last longer than work needs to reach a million ranks.
const PATIENCE_MOST: u32 = 10;

#[derive(Clone, Debug)]
pub(super) struct Lifeline {
    place: Place,
    /// Refusals by random victims since work last arrived.
    refusals: u32,
    /// Partners with which this rank is registered, one bit per power of two.
    registered: u32,
    /// Pauses before the next request. At the start: the number of steps that work needs to get here.
    patience: u32,
}

impl Lifeline {
    pub(super) fn new(place: Place) -> Self {
        let registered = match behind_root(&place) {
            0 => 0,
            distance => 1 << distance.trailing_zeros(),
        };
        let patience = powers(place.size()).min(PATIENCE_MOST);
        Self { place, refusals: 0, registered, patience }
    }

    fn partner(&self, power: u32) -> Rank {
        let size = u64::from(self.place.size());
        let step = (1_u64 << power) % size;
        Rank(u32::try_from((u64::from(self.place.here().0) + step) % size).unwrap_or(0))
    }
}

/// Steps of 1 along the ring from here to the root. The lowest set bit is the step to the start partner.
fn behind_root(place: &Place) -> u32 {
    (place.size() - place.here().0) % place.size()
}

/// The number of powers of two below `size`, which is the number of lifelines of a rank.
fn powers(size: u32) -> u32 {
    u32::BITS - (size - 1).leading_zeros()
}

impl Schedule for Lifeline {
    fn next(&mut self, random: &mut Random, idle: bool) -> Step {
        if self.patience > 0 && idle {
            self.patience -= 1;
            return Step::Rest;
        }
        if self.refusals < TRIES
            && let Some(victim) = Outside::victim(&self.place, random)
        {
            return Step::Ask { victim, wait: false };
        }
        if !idle {
            // A rank that still works may soon have plenty: it must not register for more.
            self.refusals = 0;
            return Step::Rest;
        }
        let missing = (0..powers(self.place.size())).find(|power| self.registered & (1 << power) == 0);
        let Some(power) = missing else { return Step::Sleep };
        self.registered |= 1 << power;
        self.patience = 1;
        Step::Ask { victim: self.partner(power), wait: true }
    }

    fn refused(&mut self, _by: Rank) {
        self.refusals = self.refusals.saturating_add(1);
    }

    fn received(&mut self, from: Rank) {
        self.refusals = 0;
        self.patience = 0;
        for power in 0..powers(self.place.size()) {
            if self.partner(power) == from {
                self.registered &= !(1 << power);
            }
        }
    }

    fn waiting_at_start(&self) -> Vec<Rank> {
        let (here, size) = (behind_root(&self.place), self.place.size());
        let steps = if here == 0 { powers(size) } else { here.trailing_zeros() };
        // The farthest first: it supplies the largest part of the ring.
        let behind = (0..steps).rev().filter_map(|power| here.checked_add(1 << power));
        behind.filter(|distance| *distance < size).map(|distance| Rank(size - distance)).collect()
    }

    fn boxed_clone(&self) -> Box<dyn Schedule> {
        Box::new(self.clone())
    }

    fn fingerprint(&self) -> u64 {
        let asked = u64::from(self.refusals.min(TRIES)) << 8 | u64::from(self.patience);
        asked << 32 | u64::from(self.registered)
    }
}
