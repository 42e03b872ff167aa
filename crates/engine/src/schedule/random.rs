//! `random` (the papers' DRQS, Algorithm 2): any other rank, drawn at random each time.

use alloc::boxed::Box;

use super::{Schedule, Step};
use crate::{Place, Random, Rank};

/// Refusals in a row after which a rank pauses. The papers' ranks never pause.
const TRIES: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct RandomVictim {
    here: u32,
    others: u32,
    refusals: u32,
}

impl RandomVictim {
    pub(super) fn new(place: &Place) -> Self {
        Self { here: place.here().0, others: place.size() - 1, refusals: 0 }
    }
}

impl Schedule for RandomVictim {
    fn next(&mut self, random: &mut Random, _idle: bool) -> Step {
        if self.others == 0 {
            return Step::Sleep;
        }
        if self.refusals >= TRIES.min(self.others) {
            self.refusals = 0;
            return Step::Rest;
        }
        let drawn = u32::try_from(random.below(u64::from(self.others))).unwrap_or(0);
        Step::Ask { victim: Rank(drawn + u32::from(drawn >= self.here)), wait: false }
    }

    fn refused(&mut self, _by: Rank) {
        self.refusals += 1;
    }

    fn received(&mut self, _from: Rank) {
        self.refusals = 0;
    }

    fn boxed_clone(&self) -> Box<dyn Schedule> {
        Box::new(self.clone())
    }

    fn fingerprint(&self) -> u64 {
        u64::from(self.refusals)
    }
}
