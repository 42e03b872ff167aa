//! Data types of a record of a file tree: the bytes of a path, a kind, metadata, the error of one entry, and the differences of two
//! records.
//!
//! Every other crate shares these types. This crate does no I/O and makes no system calls: the code that lists a directory fills in an
//! [`Entry`], and its consumers read it.
//!
//! [`Code`] (of `atta-code`) encodes its values for other processes.
//!
//! Paths are bytes everywhere. No name is assumed to be UTF-8; [`escape`] makes a name safe for a terminal or a log, in a recognizable
//! form.

mod difference;
mod entry;
mod errno;
mod escape;
mod failure;
#[cfg(test)]
mod fuzz;
mod kind;
mod metadata;
mod quote;

pub use atta_code::{Code, VERSION, choice, decode_bytes, encode_bytes, record};
pub use difference::{Change, Detail, Difference, Field, Side};
pub use entry::Entry;
pub use errno::Errno;
pub use escape::{escape, escape_into, needs_escape};
pub use failure::{Class, Failure, Operation};
pub use kind::Kind;
pub use metadata::{Metadata, Timestamp};
pub use quote::shell_quote;
