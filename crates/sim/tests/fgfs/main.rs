//! The figures of Ahn et al. 2013 (FGFS) over modelled ranks: their queries are those of `atta-status`, with real values and bytes; times are
//! modelled ([`atta_sim::Steps`]). docs/design/0035 has the model and the calibration.
//!
//! ```text
//!   ranks.rs       a query of `atta-status` on all ranks     fabric.rs      the same beside real sessions over the simulated fabric
//!   growth.rs      time over ranks (figures 6, 7)            classes.rs     time over the number of classes
//!   bloom.rs       estimate of 420,000 servers               break_even.rs  queries one by one, or a map
//!   paper.rs       what the paper says in numbers            servers.rs     a file server, calibrated on the small ones
//!   checksums.rs   consistency beside checksums (figure 1)   multicast.rs   STAT (figures 8, 9)
//! ```
//!
//! Large ones: `cargo test --release -p atta-sim --test fgfs -- --ignored --nocapture`.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![expect(clippy::print_stdout, reason = "tables are what the tests are for")]

mod bloom;
mod break_even;
mod checksums;
mod classes;
mod fabric;
mod growth;
mod multicast;
mod paper;
mod ranks;
mod servers;
