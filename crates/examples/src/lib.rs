//! What the three example programs share: SCR, SPINDLE and STAT, the uses of global file status in Ahn et al. 2013 (FGFS). The programs are in
//! `examples/`, each to be read from top to bottom; start there. This is no library for other programs, and the tree of servers is a
//! model: it survives no failed rank.
//!
//! ```text
//!   job.rs     ranks: threads of this process, or those of mpirun     lanes.rs   two kinds of messages on one endpoint
//!   hosts.rs   mount tables of emulated hosts, a scratch directory    reader.rs  opens files, and counts by source
//!   routes.rs  who reads a path for whom                              cache.rs   what a server of the tree knows
//!   server.rs  a server: requests up the tree, files down             table.rs   results for a terminal
//! ```

#![forbid(unsafe_code)]

mod cache;
#[cfg(test)]
mod fuzz;
mod hosts;
mod job;
mod lanes;
mod reader;
mod routes;
mod server;
mod table;

pub use cache::{Cache, File, Step};
pub use hosts::{Site, host_table};
pub use job::{Fabric, Failure, expect, join, shared};
pub use lanes::{Lane, lanes};
pub use reader::{Counts, Opens, Reader};
pub use routes::{Route, Routes};
pub use server::{Server, Traffic};
pub use table::Table;
