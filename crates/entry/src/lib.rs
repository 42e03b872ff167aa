//! What a record of a file tree is: the bytes of a path, a kind, metadata, the error of one entry, and
//! how two of them differ.
//!
//! This crate is the vocabulary that every other crate shares. It does no I/O and knows no system call: whoever
//! lists a directory fills an [`Entry`] in, whoever wants to know reads it.
//!
//! [`Code`] is how its values, and those of others, are sent to other processes.
//!
//! Paths are bytes everywhere. Nothing here assumes that a name is UTF-8; [`escape`] makes a name harmless for a
//! terminal or a log, and says so by its form.

mod code;
mod difference;
mod entry;
mod errno;
mod escape;
mod failure;
mod kind;
mod metadata;
mod quote;

pub use code::{Code, VERSION};
pub use difference::{Change, Detail, Difference, Field, Side};
pub use entry::Entry;
pub use errno::Errno;
pub use escape::{escape, escape_into, needs_escape};
pub use failure::{Class, Failure, Operation};
pub use kind::Kind;
pub use metadata::{Metadata, Timestamp};
pub use quote::shell_quote;
