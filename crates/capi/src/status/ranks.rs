//! Ranks of a program: how its functions carry the queries of `atta-status`. It knows no query.
//!
//! ```text
//!   functions.rs   the table of function pointers     links.rs   ranks over such a table, as a `Collective`
//!   message.rs     messages between ranks             total.rs   a value that is reduced
//! ```

pub mod functions;
pub(crate) mod links;
pub(crate) mod message;
pub mod total;
