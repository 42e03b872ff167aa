//! The C interface of `atta-aio`, as declared in `include/pxfs.h` and `include/atta.h`, and that of `atta-mounts` and `atta-status`
//! (`status.rs`), as declared in `include/atta_status.h`. The headers are written by hand, and a test compares them with the
//! exported functions.
//!
//! ```text
//!   pxfs_NAME ──▶ call ──▶ operation ──▶ Service (atta-aio)
//!   (open, data, file, name, stat, attribute)   │
//!                                               ▼ has ended
//!                             answer: result pointers, then the continuation, then waiting threads
//!
//!   atta_NAME of atta_status.h ──▶ status ──▶ MountTable (atta-mounts), Status (atta-status)
//!                                    ▲             │ messages between ranks
//!                                    └── links ◀───┘ ──▶ functions of the program, such as those of atta_status_mpi.h
//! ```
//!
//! Every `pxfs_` function works in the same way: its arguments become one [`Ask`](call::Ask), and [`call`] submits it. Nothing is
//! carried out here, and nothing here is for Rust callers.

#![expect(unsafe_code, reason = "pointers of C programs; symbols that C programs link with")]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("the headers are those of 64-bit Linux");

mod answer;
mod append;
pub mod arguments;
pub mod attribute;
mod call;
pub mod control;
pub mod data;
mod face;
pub mod file;
#[cfg(test)]
mod fuzz;
pub mod name;
pub mod open;
mod operation;
pub mod options;
mod position;
mod sized;
pub mod stat;
pub mod status;
pub mod wait;
