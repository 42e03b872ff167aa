//! The turn of one rank in a pass: the steps that it takes, from its beginning to the first one that is not over. It knows no times; `times.rs`
//! does.

use std::fmt;

use atta_code::Code;

use crate::steps::times::Members;
use crate::steps::{Given, NotYet, Steps};

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

impl<'s> Turn<'s> {
    pub(crate) fn begin(steps: &'s mut Steps, rank: u32) -> Self {
        Self { steps, rank, next: 0, work_ns: 0, waits: false }
    }

    /// Whether it has come to a step that is not over.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

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
