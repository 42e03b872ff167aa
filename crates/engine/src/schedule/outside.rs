//! `hybrid` (the papers' H-DRQS, section IV.D): one rank per host, whose threads share one pool. When the pool runs low, the
//! rank asks another host, drawn at random.
//!
//! The threads of a rank are outside this file. If several ranks share a host anyway, the first asks outside and the others
//! ask on their host, as the papers' ranks do under `proximity`.

use alloc::boxed::Box;

use super::{Schedule, Step};
use crate::{Place, Random, Rank};

/// Refusals in a row after which a rank pauses.
const TRIES: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct Outside {
    place: Place,
    refusals: u32,
}

impl Outside {
    pub(super) fn new(place: Place) -> Self {
        Self { place, refusals: 0 }
    }

    /// A random victim: on another host for a local root, if there is one; else on the same host.
    pub(super) fn victim(place: &Place, random: &mut Random) -> Option<Rank> {
        let outside = place.outside();
        if outside > 0 && place.is_local_root() {
            return place.outward(u32::try_from(random.below(u64::from(outside))).ok()?);
        }
        let inside = place.neighbours().len() - 1;
        let drawn = usize::try_from(random.below(inside as u64)).ok()?;
        place.neighbours().iter().filter(|rank| **rank != place.here()).nth(drawn).copied()
    }
}

impl Schedule for Outside {
    fn next(&mut self, random: &mut Random, _idle: bool) -> Step {
        if self.refusals >= TRIES.min(self.place.size()) {
            self.refusals = 0;
            return Step::Rest;
        }
        Self::victim(&self.place, random).map_or(Step::Sleep, |victim| Step::Ask { victim, wait: false })
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
