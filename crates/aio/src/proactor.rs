//! Control blocks, a waiting queue, a bounded number of running operations, and the delivery of results. One thread uses it,
//! without locks. The driver carries operations out.
//!
//! ```text
//!   submit ──▶ waiting ──▶ running (driver) ──▶ ended ──▶ the caller's function
//!                 │  bounded on request   │
//!                 └── cancel, deadline ───┘  an uninterruptible operation is given up after a grace period
//! ```
//!
//! The states of a block: `Waiting` (in the queue), `Parked` (waits for a position), `Running` (in the driver), free. A
//! compound operation returns to `Waiting` between two steps, at the front of the queue.

mod ends;
mod life;
mod turns;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::num::NonZero;
use std::time::Duration;

use atta_entry::Errno;

use crate::Op;
use crate::done::Done;
use crate::driver::{Driver, Ended};
use crate::machine::{Machine, Step};
use crate::perform::perform;
use crate::position::Position;

/// Identifies a submitted operation. Handles are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

impl Handle {
    fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    fn of(token: u64) -> Self {
        Self { slot: token as u32, generation: (token >> 32) as u32 }
    }
}

/// The work to carry out.
pub enum Work {
    /// One operation.
    Op(Box<Op>),
    /// Several operations that look like one.
    Machine(Box<dyn Machine>),
}

impl From<Op> for Work {
    fn from(op: Op) -> Self {
        Self::Op(Box::new(op))
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Op(op) => op.fmt(f),
            Self::Machine(_) => f.write_str("Machine"),
        }
    }
}

/// The terms of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The deadline on the driver's clock. An operation that must be cut short for it ends with `ETIMEDOUT`.
    pub deadline: Option<Duration>,
    /// The file position that it reads, writes or moves: see [`Proactor::add_position`]. A compound operation keeps it until
    /// its last operation has ended.
    pub position: Option<u64>,
}

/// Bounds of a proactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of running operations; `None`: the driver's choice.
    pub running: Option<usize>,
    /// The maximum number of waiting operations; `None`: unlimited.
    pub waiting: Option<usize>,
    /// The grace period after a cancellation or a deadline; then the operation ends without its buffers. `None`: it ends when
    /// the kernel has ended it. An operation that uses lent memory is never given up.
    pub grace: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { running: None, waiting: None, grace: Some(Duration::from_secs(1)) }
    }
}

/// The control block of one operation; `C` is the caller's data.
struct Block<C> {
    /// The number of operations that have used this slot: a part of the handle.
    generation: u32,
    state: State,
    machine: Option<Box<dyn Machine>>,
    /// `None`: the result was delivered, and only the cleanup remains.
    claim: Option<C>,
    /// The reason why the operation is to end, which selects its error.
    stop: Option<Stop>,
    position: Option<NonZero<u64>>,
    /// The running operation uses memory that a caller lent.
    borrows: bool,
    /// The waiting or running operation is a [`Step::Finish`]: it is not cut short.
    is_finishing: bool,
}

/// Why an operation ends early.
#[derive(Clone, Copy)]
enum Stop {
    Cancelled,
    Late,
}

impl Stop {
    fn errno(self) -> Errno {
        match self {
            Self::Cancelled => Errno(libc::ECANCELED),
            Self::Late => Errno(libc::ETIMEDOUT),
        }
    }
}

enum State {
    Free,
    Waiting(Box<Op>),
    /// Parked until a position is free.
    Parked(Box<Op>),
    Running,
}

/// The action at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Late,
    GiveUp,
}

/// See the head of this file. On drop it first ends compound operations, so that they leave nothing half done; the driver ends
/// the others.
pub struct Proactor<D: Driver, C> {
    driver: D,
    limits: Limits,
    blocks: Vec<Block<C>>,
    free: Vec<u32>,
    waiting: VecDeque<Handle>,
    /// Blocks that wait, in the queue or for a position. The queue may also hold handles of cancelled operations.
    waits: usize,
    running: usize,
    /// Blocks that are not free.
    held: usize,
    /// Blocks that were given up: the driver still has the operation, and no caller waits for it.
    given_up: usize,
    alarms: BinaryHeap<Reverse<(Duration, Alarm, Handle)>>,
    positions: HashMap<u64, Position>,
    next_position: u64,
    /// Results to deliver.
    results: VecDeque<(Handle, C, Done)>,
    ended: Vec<Ended>,
}

impl<D: Driver, C> Proactor<D, C> {
    /// Runs operations on a driver.
    #[must_use]
    pub fn new(driver: D, limits: Limits) -> Self {
        Self {
            driver,
            limits,
            blocks: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            waits: 0,
            running: 0,
            held: 0,
            given_up: 0,
            alarms: BinaryHeap::new(),
            positions: HashMap::new(),
            next_position: 0,
            results: VecDeque::new(),
            ended: Vec::new(),
        }
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The driver, for changes to it.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// The number of operations whose end has not been delivered.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.held - self.given_up + self.results.len()
    }

    /// Whether it has enough operations: as many wait as can run, so that it does not idle until it gets more.
    pub(crate) fn is_full(&self) -> bool {
        self.running + self.waits >= 2 * self.most_running()
    }

    /// The number of running operations.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// Adds an operation. `claim` is returned with the result.
    ///
    /// # Errors
    /// The limit of waiting operations is reached (`EAGAIN`): the work and the claim are returned.
    pub fn submit(&mut self, work: Work, terms: Terms, claim: C) -> Result<Handle, (Work, C)> {
        if self.limits.waiting.is_some_and(|most| self.waits >= most) {
            self.fill();
            if self.limits.waiting.is_some_and(|most| self.waits >= most) {
                return Err((work, claim));
            }
        }
        Ok(self.submit_unbounded(work, terms, claim))
    }

    /// Adds an operation, regardless of the limit of waiting operations.
    pub(crate) fn submit_unbounded(&mut self, work: Work, terms: Terms, claim: C) -> Handle {
        let mut is_finishing = false;
        let (op, machine, ended) = match work {
            Work::Op(op) => (Some(op), None, None),
            Work::Machine(mut machine) => match machine.next(None, None) {
                Step::Do(op) => (Some(Box::new(op)), Some(machine), None),
                Step::Finish(op) => {
                    is_finishing = true;
                    (Some(Box::new(op)), Some(machine), None)
                }
                Step::End(outcome, op) => (None, None, Some(Done::new(outcome, op.map(Box::new)))),
            },
        };
        let (state, position, ended) = match (op, terms.position) {
            (Some(op), None) => (State::Waiting(op), None, ended),
            (Some(op), Some(id)) => match self.positions.get_mut(&id).is_some_and(Position::enter) {
                true => (State::Waiting(op), NonZero::new(id), ended),
                false => (State::Running, None, Some(Done::new(Err(Errno(libc::EBADF)), Some(op)))),
            },
            (None, _) => (State::Running, None, ended),
        };
        let (generation, claim, stop, borrows) = (0, Some(claim), None, false);
        let block = Block { generation, state, machine, claim, stop, position, borrows, is_finishing };
        let handle = self.insert(block);
        if let Some(done) = ended {
            self.deliver(handle, done);
            return handle;
        }
        self.waiting.push_back(handle);
        self.waits += 1;
        if let Some(deadline) = terms.deadline {
            self.set_alarm(deadline, Alarm::Late, handle);
        }
        handle
    }

    /// Ends an operation with `ECANCELED`, if it has not ended: at once if it waits, soon if it runs. Its result is delivered
    /// in any case. Returns false if it has ended.
    pub fn cancel(&mut self, handle: Handle) -> bool {
        self.stop(handle, Stop::Cancelled)
    }

    /// Ends all operations with `ECANCELED`.
    pub fn cancel_all(&mut self) {
        let held = (0_u32..).zip(&self.blocks).filter(|(_, block)| block.claim.is_some());
        let handle = |(slot, block): (u32, &Block<C>)| Handle { slot, generation: block.generation };
        let held: Vec<_> = held.map(handle).collect();
        for handle in held {
            self.cancel(handle);
        }
    }

    /// Adds a file position. Operations with this position run one after the other, in the order of submission; no two of them
    /// read or write the same bytes.
    pub fn add_position(&mut self, offset: u64) -> u64 {
        self.next_position += 1;
        self.put_position(self.next_position, offset);
        self.next_position
    }

    /// Adds a position under a given number.
    pub(crate) fn put_position(&mut self, position: u64, offset: u64) {
        self.positions.insert(position, Position::new(offset));
    }

    /// Removes a position: operations that were submitted with it still use it, later ones end with `EBADF`.
    pub fn remove_position(&mut self, position: u64) {
        if let Some(known) = self.positions.get_mut(&position) {
            known.close();
            self.forget_position(position);
        }
    }

    /// Makes progress, and calls `deliver` for each operation that has ended. Returns when at least one has ended, after
    /// `at_most`, or when the driver was woken.
    pub fn advance(&mut self, at_most: Option<Duration>, mut deliver: impl FnMut(C, Done)) {
        self.step(at_most);
        while let Some((_, claim, done)) = self.results.pop_front() {
            deliver(claim, done);
        }
    }

    /// Makes progress until this operation has ended, and returns its result.
    ///
    /// Other operations that end meanwhile are passed to `deliver` as by [`advance`](Self::advance). If the operation has not
    /// started, uses no position and is not compound, and the driver is the kernel's, this thread carries it out, which is as
    /// fast as the system call. Returns `None` if the result was delivered before.
    pub fn wait_for(&mut self, handle: Handle, mut deliver: impl FnMut(C, Done)) -> Option<(C, Done)> {
        if let Some(ended) = self.run_here(handle) {
            return Some(ended);
        }
        loop {
            let is_pending = self.block(handle).is_some_and(|block| block.claim.is_some());
            if !is_pending && !self.results.iter().any(|(ended, ..)| *ended == handle) {
                return None;
            }
            self.step(None);
            let mut found = None;
            while let Some((ended, claim, done)) = self.results.pop_front() {
                match ended == handle {
                    true => found = Some((claim, done)),
                    false => deliver(claim, done),
                }
            }
            if found.is_some() {
                return found;
            }
        }
    }

    /// Makes progress until there is a result to deliver, or for this time.
    fn step(&mut self, at_most: Option<Duration>) {
        self.expire();
        self.fill();
        let at_most = if self.results.is_empty() { at_most } else { Some(Duration::ZERO) };
        let next = self.alarms.peek().map(|Reverse((at, ..))| at.saturating_sub(self.driver.now()));
        let at_most = match (at_most, next) {
            (Some(at_most), Some(next)) => Some(at_most.min(next)),
            (at_most, next) => at_most.or(next),
        };
        let mut ended = std::mem::take(&mut self.ended);
        self.driver.wait(at_most, &mut ended);
        for Ended { token, done } in ended.drain(..) {
            self.running -= 1;
            self.after_driver(Handle::of(token), done);
        }
        self.ended = ended;
        self.expire();
        // Start the next operations before delivering results, so that the driver does not idle meanwhile.
        self.fill();
    }

    /// Carries out a waiting operation on this thread, unless it uses a position or is compound.
    fn run_here(&mut self, handle: Handle) -> Option<(C, Done)> {
        if !self.driver.is_kernel() {
            return None;
        }
        let block = self.block(handle)?;
        if block.position.is_some() || block.machine.is_some() {
            return None;
        }
        let State::Waiting(op) = &mut block.state else { return None };
        let mut op = std::mem::replace(op, Box::new(Op::Nop));
        self.waits -= 1;
        let claim = self.release(handle)?;
        let outcome = perform(&mut op);
        Some((claim, Done::new(outcome, Some(op))))
    }
}

impl<D: Driver, C> Drop for Proactor<D, C> {
    fn drop(&mut self) {
        self.end_machines();
    }
}

impl<D: Driver + std::fmt::Debug, C> std::fmt::Debug for Proactor<D, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = (self.waits, self.running);
        f.debug_struct("Proactor")
            .field("driver", &self.driver)
            .field("waiting_running", &counts)
            .finish_non_exhaustive()
    }
}
