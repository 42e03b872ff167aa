//! Reductions, broadcasts and multicasts of up to a million ranks. Values, merges and bytes are those of the program that the ranks run; times
//! are modelled. Ranks are no threads, nothing is lost, and no rank dies.
//!
//! # How one process runs all ranks
//! Ranks run one after the other, the highest first, and each from its beginning. So the children of a rank, which have higher numbers, have
//! sent their values when the rank merges them. A rank that needs the result of a step that is not over gets [`NotYet`], and returns.
//! A pass over all ranks ends one reduction, and the broadcast that follows it; in the next pass the ranks run again, and get what these
//! steps gave. This needs ranks that take the same steps each time.
//!
//! # The model of time
//! Each rank has a clock. A message costs its sender and its receiver [`StepCosts`], and what [`Network`] says on the way. A rank receives one
//! message at a time, in the order of its children; messages to different ranks do not disturb each other.

mod rank_tree;
mod times;
mod turn;

use std::fmt;

use crate::network::Network;
pub use rank_tree::RankTree;
use times::{Clocks, Sent};
pub use times::{StepCosts, StepTraffic};
pub use turn::Turn;

/// The result of a step is not known in this pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotYet;

impl fmt::Display for NotYet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the step is not over")
    }
}

impl std::error::Error for NotYet {}

/// What a step that is over gave.
enum Given {
    /// To rank 0.
    Reduced(Vec<u8>),
    /// To all.
    Broadcast(Vec<u8>),
    /// To each group, by its first rank, ascending.
    Multicast(Vec<(u32, Vec<u8>)>),
}

/// All ranks of a job, and the steps that they have taken together.
pub struct Steps {
    clocks: Clocks,
    /// The steps that are over.
    given: Vec<Given>,
    /// How many were over when the pass began: the number of the step whose values are sent in this pass.
    pass: usize,
    /// Of this pass, by receiver.
    sent: Vec<Vec<Sent>>,
    /// Multicasts of this pass.
    groups: Vec<(u32, Vec<u8>)>,
    measured_from: usize,
}

impl fmt::Debug for Steps {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Steps({} of {} ranks)", self.given.len(), self.clocks.ranks())
    }
}

impl Steps {
    /// A job of `ranks` ranks, 1 or more.
    #[must_use]
    pub fn new(ranks: u32, tree: RankTree, network: Network, costs: StepCosts) -> Self {
        let ranks = ranks.max(1);
        let sent = (0..ranks).map(|_| Vec::new()).collect();
        let clocks = Clocks::new(ranks, tree, network, costs);
        Self { clocks, given: Vec::new(), pass: 0, sent, groups: Vec::new(), measured_from: 0 }
    }

    /// Counts nothing of the first steps: all ranks begin together with the next one, at time 0.
    #[must_use]
    pub fn measured_from(mut self, step: usize) -> Self {
        self.measured_from = step;
        self
    }

    /// Runs `program` on each rank until all have ended, and returns what it returned on each, by rank.
    ///
    /// # Errors
    /// The first error of a rank that does not wait for a step.
    ///
    /// # Panics
    /// A pass ended no step: ranks do not take the same steps.
    pub fn run<T, E>(&mut self, mut program: impl FnMut(&mut Turn<'_>) -> Result<T, E>) -> Result<Vec<T>, E> {
        loop {
            self.begin_pass();
            let mut values = Vec::new();
            for rank in (0..self.clocks.ranks()).rev() {
                let mut turn = Turn::begin(self, rank);
                match program(&mut turn) {
                    Ok(value) => values.push(value),
                    Err(_) if turn.waits() => {}
                    Err(error) => return Err(error),
                }
            }
            if values.len() == self.clocks.ranks() as usize {
                values.reverse();
                return Ok(values);
            }
            assert!(self.given.len() > self.pass, "ranks do not take the same steps");
        }
    }

    /// Messages and bytes of all ranks, and rounds.
    #[must_use]
    pub fn traffic(&self) -> StepTraffic {
        self.clocks.traffic
    }

    /// When the last rank had the result of the last step, in nanoseconds.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.clocks.end_ns()
    }

    /// The number of steps that are over.
    #[must_use]
    pub fn count(&self) -> usize {
        self.given.len()
    }

    fn begin_pass(&mut self) {
        self.pass = self.given.len();
        self.sent.iter_mut().for_each(Vec::clear);
        self.groups.clear();
    }

    fn end_step(&mut self, given: Given) {
        self.given.push(given);
        if self.given.len() == self.measured_from {
            self.clocks.restart();
        }
    }
}

#[cfg(test)]
mod tests;
