//! Runs a job's tasks on a pool of worker threads of one process.
//!
//! ```text
//!            push                      steal (oldest first)
//!   task ───────────▶ own deque ─────────────────────────────▶ another worker
//!    ▲                │ newest first        │ too much held in memory (oldest first)
//!    │                ▼                     ▼
//!    └──────────── run(task)           spill file ──▶ back when nothing else is left
//! ```
//!
//! A [`Job`] says how one task runs; running it may push more. Each worker takes the newest task of its own deque, so
//! the frontier of a tree stays small (depth first); an idle worker steals the oldest task of another, which is the
//! largest subtree. The job ends when every worker is idle and every deque is empty. Idle workers sleep.
//!
//! This crate knows nothing of the files, trees and records of an operation, has no global state, prints nothing and handles no signals. A signal
//! handler of the caller sets a [`Stop`].

mod bell;
mod cpu;
#[cfg(test)]
mod fuzz;
mod idle;
mod job;
mod log;
mod meter;
mod options;
mod pool;
mod probe;
mod queue;
mod rank;
mod rate;
mod results;
mod search;
mod spill;
mod stop;
mod threads;

pub use atta_engine::Way;
pub use atta_entry::{Code, record};
pub use cpu::{available_cores, cores, processor_time};
pub use job::Job;
pub use log::file::{LaterLog, LogFile};
pub use log::outcome::{LogCall, LogError, LogWritten};
pub use log::{Facts, Log, LogHandle, LogLimits, Logging, with_log};
pub use options::{Options, Outcome, Status, WorkerReport};
pub use pool::run;
pub use queue::Queue;
pub use rank::agree::Disagreement;
pub use rank::conformance;
pub use rank::error::{RankError, named};
pub use rank::group::{Group, Regrouped, View};
pub use rank::mirror::Mirror;
pub use rank::outbox::{Outbox, Stream};
pub use rank::relay::Shape;
pub use rank::session::{Exchanged, Ran, Seat, Session, Work, run_and_reduce};
pub use rank::wait::Limits;
pub use rate::Rate;
pub use results::{Counter, Maximum, Results, Text};
pub use spill::{SpillReport, unnamed_file};
pub use stop::Stop;
pub use threads::Threads;
