//! How messages travel between the ranks of a job: the trait [`Endpoint`], and ranks within one process.
//!
//! ```text
//!   rank 0                                  rank 1
//!   send(1, bytes) ──▶ outgoing ─ ─ ─ ─ ─▶ incoming ──▶ receive() = (from 0, bytes)
//!                      until unsent() = 0
//! ```
//!
//! | item | is |
//! | --- | --- |
//! | [`Endpoint`] | one rank's end: send, receive, leave, abort |
//! | [`in_process`], [`InProcess`] | ranks that are threads of one process |
//! | [`Counted`] | an endpoint that counts messages and bytes for each peer |
//! | [`conformance()`] | the checks that every endpoint must pass, for tests |
//!
//! Ranks under MPI are in `atta-mpi-loader`; their endpoint is one more of these.
//!
//! This crate does not interpret messages, starts no threads, never waits, and does not detect that a rank died.

mod conformance;
mod counted;
mod deaths;
mod endpoint;
mod error;
mod in_process;

pub use conformance::conformance;
pub use counted::{Counted, Traffic};
pub use deaths::{Fate, deaths};
pub use endpoint::{Endpoint, Received, Wake};
pub use error::FabricError;
pub use in_process::{InProcess, in_process, in_process_mortal, in_process_on_hosts};
