//! Queries over ranks that are threads of this process. Each has a mount table from text, as if it were on a host of its own.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod consistency;
mod counts;
mod map;
mod oracle;
mod queries;
mod ranks;
mod spread;
mod traps;
