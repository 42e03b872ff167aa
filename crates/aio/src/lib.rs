//! Asynchronous file operations with continuations.
//!
//! ```text
//!   Service    any thread submits; a progress thread, and threads that run continuations
//!     │
//!   Proactor   one thread: a control block for each operation, a waiting queue, a bounded number that run
//!     │
//!   Driver     the kernel's ring, threads, or a simulated file system
//! ```
//!
//! This crate resolves no paths and walks no trees; `ops` does both.

#![expect(unsafe_code, reason = "system calls with pointers; buffers that the kernel uses")]

mod atomic;
mod buffer;
mod cell;
pub mod compound;
mod crew;
mod done;
pub mod driver;
mod executor;
mod files;
mod fork;
mod inbox;
mod machine;
mod op;
mod patience;
mod perform;
mod position;
mod proactor;
mod service;
mod sleep;

pub use atta_entry::Errno;
pub use buffer::{Buffer, Vectors};
pub use done::Done;
pub use files::{Calling, Files, Moved};
pub use fork::Process;
pub use machine::{Machine, Step};
pub use op::{At, Fd, Op, Place, Sync};
pub use perform::{Outcome, perform};
pub use proactor::{Handle, Limits, Proactor, Terms, Work};
pub use service::{Backend, Call, Options, Pending, Refused, Service, ServiceCounts, Tracked};
