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

use std::fmt;

use atta_code::Code;

use crate::network::Network;
pub use rank_tree::RankTree;
use times::{Clocks, Members, Sent};
pub use times::{StepCosts, StepTraffic};

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
                let mut turn = Turn { steps: self, rank, next: 0, work_ns: 0, waits: false };
                match program(&mut turn) {
                    Ok(value) => values.push(value),
                    Err(_) if turn.waits => {}
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

/// The turn of one rank in a pass.
pub struct Turn<'s> {
    steps: &'s mut Steps,
    rank: u32,
    next: usize,
    work_ns: u64,
    waits: bool,
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Turn(rank {}, step {})", self.rank, self.next)
    }
}

/// What is to be done for a step.
enum Stage {
    /// It is over: its number.
    Over(usize),
    /// This pass evaluates it.
    Now,
}

impl Turn<'_> {
    /// The number of this rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.steps.clocks.ranks()
    }

    /// Whether the next step counts.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.next >= self.steps.measured_from
    }

    /// This rank works for so long before its next step. What precedes a step that is over does not count again.
    pub fn work(&mut self, ns: u64) {
        self.work_ns += ns;
    }

    /// Combines a value of each rank. The first rank gets the result.
    ///
    /// # Errors
    /// An earlier step is not over.
    ///
    /// # Panics
    /// A child's value does not decode as one of this type, or a step is no reduction.
    pub fn reduce<T: Code>(&mut self, own: T, mut merge: impl FnMut(&mut T, T)) -> Result<Option<T>, NotYet> {
        if let Stage::Over(step) = self.stage(self.steps.pass)? {
            let Given::Reduced(bytes) = &self.steps.given[step] else {
                panic!("step {step} is no reduction")
            };
            return Ok((self.rank == 0).then(|| decoded(bytes)));
        }
        let work_ns = std::mem::take(&mut self.work_ns);
        let sent = std::mem::take(&mut self.steps.sent[self.rank as usize]);
        let mut all = own;
        self.steps.clocks.begin_value(self.rank, work_ns);
        // The highest ranks sent first, but the lowest children are received first.
        for child in sent.into_iter().rev() {
            self.steps.clocks.receive(self.rank, &child);
            merge(&mut all, decoded(&child.bytes));
        }
        if self.rank == 0 {
            self.steps.end_step(Given::Reduced(all.encoded()));
            return Ok(Some(all));
        }
        let (parent, sent) = self.steps.clocks.send_up(self.rank, all.encoded());
        self.steps.sent[parent as usize].push(sent);
        Ok(None)
    }

    /// Sends a value of the first rank to all.
    ///
    /// # Errors
    /// This step, or an earlier one, is not over.
    ///
    /// # Panics
    /// The first rank has no value, or a step is no broadcast.
    pub fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, NotYet> {
        // A reduction of this pass may be over.
        let now = if self.rank == 0 { self.steps.given.len() } else { usize::MAX };
        if let Stage::Over(step) = self.stage(now)? {
            let Given::Broadcast(bytes) = &self.steps.given[step] else {
                panic!("step {step} is no broadcast")
            };
            return Ok(decoded(bytes));
        }
        let value = value.expect("the first rank has a value");
        let bytes = value.encoded();
        let work_ns = std::mem::take(&mut self.work_ns);
        self.steps.clocks.pass_down(&Members::All(self.size()), bytes.len(), work_ns);
        self.steps.end_step(Given::Broadcast(bytes));
        Ok(value)
    }

    /// Sends a value of the first rank of each group to the others of it. `members`: those of this rank's group, ascending, or none.
    ///
    /// # Errors
    /// This step, or an earlier one, is not over.
    ///
    /// # Panics
    /// The first rank of a group has no value, or a step is no multicast.
    pub fn multicast<T: Code>(&mut self, members: &[u32], value: Option<T>) -> Result<Option<T>, NotYet> {
        let first = members.first().copied();
        if let Stage::Over(step) = self.stage(self.steps.pass)? {
            let Given::Multicast(groups) = &self.steps.given[step] else {
                panic!("step {step} is no multicast")
            };
            let found = first.and_then(|first| groups.binary_search_by_key(&first, |group| group.0).ok());
            return Ok(found.map(|at| decoded(&groups[at].1)));
        }
        if first == Some(self.rank) {
            let bytes = value.as_ref().expect("the first rank of a group has a value").encoded();
            let work_ns = std::mem::take(&mut self.work_ns);
            self.steps.clocks.pass_down(&Members::Listed(members), bytes.len(), work_ns);
            self.steps.groups.push((self.rank, bytes));
        }
        if self.rank == 0 {
            let mut groups = std::mem::take(&mut self.steps.groups);
            groups.reverse();
            self.steps.end_step(Given::Multicast(groups));
        }
        match first {
            None => Ok(None),
            Some(first) if first == self.rank => Ok(value),
            Some(_) => Err(self.not_yet()),
        }
    }

    /// The next step. `now`: the number of the one that this rank can take part in.
    fn stage(&mut self, now: usize) -> Result<Stage, NotYet> {
        let step = self.next;
        self.next += 1;
        match step {
            // What was done before it has been counted.
            _ if step < self.steps.given.len() => {
                self.work_ns = 0;
                Ok(Stage::Over(step))
            }
            _ if step == now && step == self.steps.given.len() => Ok(Stage::Now),
            _ => Err(self.not_yet()),
        }
    }

    fn not_yet(&mut self) -> NotYet {
        self.waits = true;
        NotYet
    }
}

fn decoded<T: Code>(bytes: &[u8]) -> T {
    T::decode_all(bytes).expect("ranks send values of one type in one step")
}

#[cfg(test)]
mod tests;
