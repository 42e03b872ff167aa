//! The plug-in `libatta_mpi.so`: a table of functions, in C, that call MPI (`shim.c`), or that say that there is no
//! MPI (`stub.c`). `build.rs` chooses. The program opens it through `atta-mpi-loader` and links neither it nor an MPI.
//!
//! This file does one thing: it gives the C table a symbol that a Rust library exports.
#![expect(
    unsafe_code,
    reason = "the table is C, and a symbol without a mangled name must be promised to be unique"
)]

use std::ffi::c_void;

// SAFETY: `atta_mpi.h` declares it so; it takes nothing and returns the address of a constant.
unsafe extern "C" {
    safe fn atta_mpi_shim() -> *const c_void;
}

/// The table of `atta_mpi.h`. It lives as long as the plug-in is loaded.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_mpi_table() -> *const c_void {
    atta_mpi_shim()
}
