//! Global file status, as declared in `include/atta_status.h`: mount tables, URIs, and queries over ranks. Ranks communicate by functions of
//! the program. Nothing is decided here: `atta-mounts` and `atta-status` do that.
//!
//! ```text
//!   objects.rs   numbers of objects: what a program holds    values.rs        answers and structures of the header
//!   mounts.rs    mount tables, mounts, URIs                  distribution.rs  what is known of a path, without a message
//!   ranks/       functions of the program as a `Collective`  join.rs          a status: one rank of a set of ranks
//!   query.rs     what ranks ask together                     saved.rs         maps in files
//!   places.rs    which file systems suit                     speeds.rs        measured speeds
//! ```

pub mod distribution;
pub mod join;
pub mod mounts;
pub mod objects;
pub mod places;
pub mod query;
pub mod ranks;
pub mod saved;
pub mod speeds;
pub mod values;
