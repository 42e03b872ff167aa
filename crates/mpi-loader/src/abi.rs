//! The plug-in's function table as the program sees it: `atta_mpi.h` of `fabric-mpi`, field by field. Change both together, and
//! increase [`VERSION`]. No calls here.

use std::ffi::{c_char, c_void};

/// The version of the table that this program requires.
pub(crate) const VERSION: u32 = 3;

/// The code of a message whose other rank has died.
pub(crate) const LOST: i32 = -4;

/// The name of the plug-in's function, with the NUL that the dynamic linker requires.
pub(crate) const SYMBOL: &[u8] = b"atta_mpi_table\0";

/// The plug-in's function.
pub(crate) type TableOf = extern "C" fn() -> *const Header;

/// The start of the table, the same in every version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) bytes: u32,
    pub(crate) built: u32,
    pub(crate) reserved: u32,
}

/// The whole table of a plug-in that was built with an MPI. The header file documents each function.
#[repr(C)]
pub(crate) struct Table {
    pub(crate) header: Header,
    pub(crate) library_version: unsafe extern "C" fn(text: *mut c_char, capacity: u32) -> i32,
    pub(crate) begin: unsafe extern "C" fn(
        rank: *mut u32,
        size: *mut u32,
        neighbours: *mut u32,
        at: *mut c_char,
        at_capacity: u32,
    ) -> i32,
    pub(crate) neighbours: unsafe extern "C" fn(ranks: *mut u32, count: u32) -> i32,
    pub(crate) send: unsafe extern "C" fn(to: u32, message: *const c_void, bytes: u64, ticket: u64) -> i32,
    pub(crate) sent:
        unsafe extern "C" fn(tickets: *mut u64, codes: *mut i32, capacity: u32, count: *mut u32) -> i32,
    pub(crate) matched: unsafe extern "C" fn(found: *mut i32, from: *mut u32, bytes: *mut u64) -> i32,
    pub(crate) take: unsafe extern "C" fn(place: *mut c_void, bytes: u64, ticket: u64) -> i32,
    pub(crate) taken:
        unsafe extern "C" fn(tickets: *mut u64, codes: *mut i32, capacity: u32, count: *mut u32) -> i32,
    pub(crate) survives: unsafe extern "C" fn() -> i32,
    pub(crate) lost: unsafe extern "C" fn(ranks: *mut u32, capacity: u32, count: *mut u32) -> i32,
    pub(crate) leave: unsafe extern "C" fn() -> i32,
    pub(crate) abort: unsafe extern "C" fn(exit_code: i32),
    pub(crate) error_text: unsafe extern "C" fn(code: i32, text: *mut c_char, capacity: u32),
}
