//! Global file status, as declared in `include/atta_status.h`: mount tables, URIs, and queries over ranks. Ranks communicate by functions of
//! the program. Nothing is decided here: `atta-mounts` and `atta-status` do that.
//!
//! ```text
//!   objects.rs     numbers of objects: what a program holds       values.rs        answers and structures of the header
//!   mounts.rs      mount tables, mounts, URIs                     distribution.rs  what is known of a path, without a message
//!   functions.rs   the table of function pointers                 message.rs       messages between ranks
//!   links.rs       ranks over such a table, as a `Collective`     total.rs         a value that is reduced
//!   join.rs        a status: one rank of a set of ranks           query.rs         what ranks ask together
//! ```

pub mod distribution;
pub mod functions;
pub mod join;
mod links;
pub(crate) mod message;
pub mod mounts;
pub mod objects;
pub mod query;
pub mod total;
pub mod values;
