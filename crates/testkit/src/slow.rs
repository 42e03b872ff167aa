//! A synthetic, read-only file system with a latency, faults and any number of files, served over FUSE by a process
//! of its own (`atta-slow-fs`): what a walk does on a server that answers late or wrongly, without such a server. The
//! tree is computed, not stored: 10^7 files cost nothing. Models time and errors; no caches, no locks, no writes.
//!
//! ```text
//!  test ── SlowFs::builder()...mount() ──> atta-slow-fs ── Service ──> 256 threads, each: take a request, sleep
//!    │                                        │                        the latency, answer from the Tree or a Fault
//!    └── drop: closes the child's stdin ──────┴─> lazy unmount, a line of counts, exit 0
//! ```

mod child;
mod counts;
mod fault;
mod options;
mod raw;
mod server;
mod tree;

pub use child::{Builder, SlowFs};
pub use counts::{Operation, Served};
pub use fault::{Fault, FaultedOperation};
pub use options::{Options, USAGE};
pub use server::Service;
pub use tree::Tree;
