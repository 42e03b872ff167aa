//! The protocol of one rank: requests for work, transfers of tasks, termination, and the reduction of totals.
//!
//! ```text
//!                    handle_message, handle_load, handle_timeout, give, report, finish
//!   driver  ────────────────────────────────────────────────────────────────────────▶  Engine
//!   (threads, MPI,  ◀────────────────────────────────────────────────────────────────  one per rank
//!    simulator)              poll_action, poll_timeout
//! ```
//!
//! Sans-IO: no clock, threads, files, sockets, MPI or randomness of its own. Time, seed and bytes are arguments, so the
//! same code runs under threads, MPI and the simulator, and one seed gives one trace.
//!
//! The engine never sees a task that stays on its rank. Workers push and pop on their own deques. The driver reports how many
//! tasks wait ([`Load`]), and the engine asks the driver for tasks only when another rank is to receive them.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod engine;
#[cfg(test)]
mod fuzz;
mod message;
mod parcels;
mod place;
mod random;
mod rank;
mod reduction;
mod regroup;
mod rules;
mod schedule;
mod split;
mod termination;

pub use engine::{Action, Config, Counts, Engine, Load, ProtocolError, Reason};
pub use message::{Census, Message, Tasks, WireError};
pub use place::Place;
pub use random::Random;
pub use rank::{Rank, Tree};
pub use reduction::Reduce;
pub use regroup::{Call, Regroup, Stand, ViewRule, Way};
pub use rules::{Rule, Rules};
pub use schedule::{Schedule, ScheduleKind, Step};
pub use split::{Share, Split};
pub use termination::Termination;
