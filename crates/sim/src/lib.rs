//! Thousands to a million engines in one process, on a virtual clock: the same protocol code that runs under threads and
//! MPI, over a model of the network, of a file system's costs, and of a tree.
//!
//! ```text
//!   Setup ──▶ World ──▶ Outcome, or Violation
//!               │
//!               ├─ events.rs    what happens next
//!               ├─ drive.rs     one rank: engine, tasks, threads (process.rs, task.rs, work.rs)
//!               ├─ traffic.rs   messages under way (network.rs)
//!               └─ check.rs     what must never happen
//! ```
//!
//! Beside it, `fabric.rs`: endpoints over the same network, for programs that run over a fabric ([`simulated`]).
//!
//! Jobs with logs of which everything is killed: `killed.rs` ([`run_killed`]), `logged.rs`.
//!
//! Reductions and broadcasts of up to a million ranks, with real values and modelled times: `steps.rs` ([`Steps`]). A file server with a queue is
//! in `file_server.rs`, and `fit.rs` fits curves to what comes out.
//!
//! Two uses. *Tests*: a [`Scenario`] draws everything from a seed, and the checkers watch. *Experiments*: a [`Setup`] defines
//! everything, and the [`Outcome`] holds times, messages and balance. The same setup always gives the same trace.
//!
//! Large jobs of which ranks die while the others go on, at any time or at kill points (`points.rs`): `deaths.rs` ([`run_mortal`]).
//!
//! Not modelled: messages are not lost, file servers do not slow down under load (but for [`FileServer`]), and links between switches are never busy.

#![forbid(unsafe_code)]

mod check;
mod cost;
mod deaths;
mod drive;
mod events;
mod fabric;
mod file_server;
mod fit;
mod killed;
mod logged;
mod network;
mod outcome;
mod points;
mod process;
mod setup;
mod steps;
mod swarm;
mod task;
mod totals;
mod traffic;
mod tree;
mod work;
mod world;

pub use check::{Violation, Wrong};
pub use cost::Costs;
pub use deaths::{Death, DeathCosts, KillPoint, Mortal, MortalOutcome, Pause, run_mortal};
pub use fabric::{Observer, Simulated, simulated, simulated_mortal};
pub use file_server::FileServer;
pub use fit::Fit;
pub use killed::{Killed, run_killed};
pub use logged::LogRule;
pub use network::{Network, Topology};
pub use outcome::{Outcome, RankStats, WorkerStats};
pub use points::{Point, Progress};
pub use setup::{Disturbance, Habits, Setup};
pub use steps::{NotYet, RankTree, StepCosts, StepTraffic, Steps, Turn};
pub use swarm::Scenario;
pub use totals::Totals;
pub use traffic::{KINDS, Volume};
pub use tree::{Listing, Node, Shape, Size, Tree, path_bytes};
pub use world::{simulate, simulate_watched};
