//! `centralized` (the papers' CP, Algorithm 1): rank 0, the master, holds all tasks and runs none. The others ask it for one
//! task at a time and return all new tasks. A refused rank waits until the master sends it a task. In the variant, a rank
//! keeps one of its new tasks, which saves a request.
//!
//! This is the baseline. Every task costs at least two messages, and all of them pass through one rank.

use alloc::boxed::Box;

use super::{Schedule, Step};
use crate::{Place, Random, Rank};

#[derive(Clone, Debug)]
pub(super) struct Centralized {
    alone: bool,
    master: bool,
    keep: u64,
    /// Whether the master refused and registered this rank: another request would only keep the master busy.
    waits: bool,
}

impl Centralized {
    pub(super) fn new(place: &Place, keep: u64) -> Self {
        Self { alone: place.size() == 1, master: place.here() == Rank::ROOT, keep, waits: false }
    }
}

impl Schedule for Centralized {
    fn next(&mut self, _random: &mut Random, _idle: bool) -> Step {
        if self.master || self.waits { Step::Sleep } else { Step::Ask { victim: Rank::ROOT, wait: true } }
    }

    fn refused(&mut self, _by: Rank) {
        self.waits = true;
    }

    fn received(&mut self, _from: Rank) {
        self.waits = false;
    }

    fn runs_tasks(&self) -> bool {
        self.alone || !self.master
    }

    fn hands_in(&self) -> Option<(Rank, u64)> {
        (!self.master).then_some((Rank::ROOT, self.keep))
    }

    fn is_single(&self) -> bool {
        !self.alone
    }

    fn boxed_clone(&self) -> Box<dyn Schedule> {
        Box::new(self.clone())
    }

    fn fingerprint(&self) -> u64 {
        u64::from(self.waits)
    }
}
