//! Ranks under MPI: detects that an MPI launcher started this program, opens the plug-in for the installed MPI, and returns an
//! [`Endpoint`](atta_fabric::Endpoint).
//!
//! ```text
//!   launcher(environment) ─ none ─▶ run alone, without any MPI
//!          │ some
//!          ▼
//!   open() ── dlopen ──▶ libatta_mpi.so ── linked with ──▶ libmpi.so
//!          │               (a table of C functions)
//!          ▼
//!   Plugin::begin(launcher), on the thread that communicates ──▶ Mpi, an Endpoint
//! ```
//!
//! The program links no MPI and needs none to run alone. Each MPI has its own type sizes and constants, so the calls are
//! compiled for one MPI, in a plug-in of about 200 lines of C (`atta-fabric-mpi`). This crate sees only ranks, bytes and numbers.
//!
//! This crate starts no ranks and no threads, prints nothing, and does not detect that a rank died. The only unsafe code on
//! its side of the plug-in is in `load.rs` and `shim.rs`.

mod abi;
mod error;
#[cfg(test)]
mod fake;
mod inbox;
mod launcher;
mod load;
mod mpi;
mod outbox;
mod shim;

pub use error::OpenError;
pub use launcher::{Kind, Launcher, Turn, launcher, launcher_in};
pub use load::{PLUGIN_FILE, PLUGIN_VARIABLE, Plugin, open, open_at, places};
pub use mpi::Mpi;

/// The endpoint of this rank; a job of one rank if no launcher started this program.
///
/// # Errors
/// Those of [`open`] and [`Plugin::begin`].
pub fn join() -> Result<Box<dyn atta_fabric::Endpoint>, OpenError> {
    match launcher() {
        Some(launcher) => Ok(Box::new(open()?.begin(&launcher)?)),
        None => Ok(Box::new(atta_fabric::in_process(1).remove(0))),
    }
}
