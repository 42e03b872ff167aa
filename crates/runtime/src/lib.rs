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
//! What this crate does not do: it knows nothing of files, trees or records, has no global state, prints nothing and
//! handles no signals; whoever does sets a [`Stop`].

mod bell;
pub mod conformance;
mod cpu;
mod hello;
mod idle;
mod job;
mod local;
mod meeting;
mod member;
mod meter;
mod options;
mod pool;
mod probe;
mod queue;
mod rate;
mod results;
mod search;
mod spill;
mod stop;
mod stream;
mod threads;

pub use atta_entry::{Code, record};
pub use cpu::{available_cores, cores, processor_time};
pub use hello::Differs;
pub use job::Job;
pub use meeting::Meeting;
pub use member::{Member, RankError, Receiver, run_and_reduce, run_on_ranks};
pub use options::{Options, Outcome, Status, WorkerReport};
pub use pool::run;
pub use queue::Queue;
pub use rate::Rate;
pub use results::{Counter, Maximum, Results, Text};
pub use spill::{SpillReport, unnamed_file};
pub use stop::Stop;
pub use stream::{Outbox, Stream};
pub use threads::Threads;
