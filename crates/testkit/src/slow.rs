//! File systems that are slow, lie or fail, served over FUSE by a process of its own (`atta-slow-fs`): what a walk or a copy does
//! on a server that answers late or wrongly, without such a server. Either a synthetic, read-only tree of any size, which is
//! computed, not stored: 10^7 files cost nothing; or any directory, with all that can be done in it. No caches.
//!
//! ```text
//!  test ── SlowFs::builder()...mount() ──> atta-slow-fs ── Service ──> 256 threads, each: take a request, pass the Gate
//!    │                                        │                        (count, latency, rules), answer from the Tree
//!    │                                        │                        or from a directory (Over)
//!    └── drop: closes the child's stdin ──────┴─> lazy unmount, a line of counts, exit 0
//! ```

mod child;
mod counts;
mod fault;
mod faults;
pub(crate) mod glob;
mod kept;
mod nodes;
mod operation;
mod options;
mod over;
mod raw;
pub(crate) mod record;
mod server;
mod service;
mod tree;
mod unsynced;

pub use child::{Builder, SlowFs};
pub use counts::Served;
pub use fault::{Effect, Fault};
pub use operation::Operation;
pub use options::{Options, USAGE};
pub use service::Service;
pub use tree::Tree;
