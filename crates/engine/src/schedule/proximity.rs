//! `proximity` (the papers' PA-DRQS, section IV.C): a request vector, walked from top to bottom. The local root asks
//! outside first, nearest first, then on its host; the others ask only on their host, the local root before the rest.
//!
//! A walk starts at the top again after work arrives. Where the network is not known, "nearest" is the order of ranks that
//! starts after this one. The papers' list starts at the lowest rank, which all ranks then ask first.

use alloc::boxed::Box;

use super::{Schedule, Step};
use crate::{Place, Random, Rank};

#[derive(Clone, Debug)]
pub(super) struct Proximity {
    place: Place,
    next: u32,
}

impl Proximity {
    pub(super) fn new(place: Place) -> Self {
        Self { place, next: 0 }
    }

    fn victim(&self, index: u32) -> Option<Rank> {
        let here = self.place.here();
        let outside = if self.place.is_local_root() { self.place.outside() } else { 0 };
        if index < outside {
            return self.place.outward(index);
        }
        let inside = self.place.neighbours().iter().filter(|rank| **rank != here);
        inside.copied().nth(usize::try_from(index - outside).ok()?)
    }
}

impl Schedule for Proximity {
    fn next(&mut self, _random: &mut Random, _idle: bool) -> Step {
        if self.place.size() == 1 {
            return Step::Sleep;
        }
        let Some(victim) = self.victim(self.next) else {
            self.next = 0;
            return Step::Rest;
        };
        self.next += 1;
        Step::Ask { victim, wait: false }
    }

    fn received(&mut self, _from: Rank) {
        self.next = 0;
    }

    fn boxed_clone(&self) -> Box<dyn Schedule> {
        Box::new(self.clone())
    }

    fn fingerprint(&self) -> u64 {
        u64::from(self.next)
    }
}
