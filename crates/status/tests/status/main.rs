//! Queries over ranks that are threads of this process. Each has a mount table from text, as if it were on a host of its own.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod alone;
mod consistency;
mod counts;
mod damage;
mod inspection;
mod map;
mod oracle;
mod places;
mod queries;
mod ranks;
mod real;
mod same;
mod saved;
mod spread;
mod suitable;
mod traps;
