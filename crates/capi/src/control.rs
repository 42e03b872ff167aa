//! Start, end, counters and texts: the part of `atta.h` that neither submits nor waits.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use atta_entry::Errno;

use crate::arguments::{Given, Out};
use crate::call::{return_code, set_deadline};
use crate::face::{self, Farewell};
use crate::operation;
use crate::options::{AttaCounts, AttaOptions};

/// `ATTA_DRAIN` and `ATTA_CANCEL`.
const DRAIN: c_int = 0;
const CANCEL: c_int = 1;

/// A time in milliseconds; `None` if it is negative.
pub(crate) fn within(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// Starts the library.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_init(options: Given<AttaOptions>) -> c_int {
    return_code(|| face::start(&AttaOptions::of(options)?))
}

/// Ends pending operations, and the library's threads.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_shutdown(how: c_int, timeout_ms: c_int) -> c_int {
    return_code(|| {
        let within = match how {
            DRAIN => within(timeout_ms),
            CANCEL => Some(Duration::ZERO),
            _ => return Err(Errno::INVAL),
        };
        if operation::is_in_continuation() {
            return Err(Errno(libc::EDEADLK));
        }
        match face::stop(within)? {
            Farewell::Drained => Ok(()),
            Farewell::Cancelled => Err(Errno(libc::ETIMEDOUT)),
            Farewell::Left => Err(Errno(libc::EBUSY)),
        }
    })
}

/// Sets the time limit of operations that this thread submits from now on.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_deadline(timeout_ms: c_int) -> c_int {
    return_code(|| {
        set_deadline(within(timeout_ms));
        Ok(())
    })
}

/// Returns the event counts.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_counts(counts: Out<AttaCounts>) -> c_int {
    return_code(|| {
        counts.there()?;
        face::at_home()?;
        let read = |face: &face::Face| {
            let found = face.service.counts();
            AttaCounts {
                size: 0,
                submitted: found.submitted,
                pending: face.service.pending() as u64,
                woken: found.woken,
                run_by_waiter: found.run_by_waiter,
            }
        };
        face::with_running(read).unwrap_or_default().put(counts)
    })
}

/// Describes a status or an `errno` in words.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_error(error: c_int, text: Out<c_char>, size: usize) -> *const c_char {
    if text.is_null() || size == 0 {
        return c"".as_ptr();
    }
    return_code(|| {
        let words = words(error);
        let mut bytes = words.into_bytes();
        bytes.truncate(size - 1);
        bytes.push(0);
        // SAFETY: the header asks for room for `size` bytes, and this copies at most as many.
        unsafe { text.as_ptr().copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
        Ok(())
    });
    text.as_ptr()
}

fn words(error: c_int) -> String {
    match error {
        0 => "it went well".to_owned(),
        libc::EOWNERDEAD => {
            "this process is a copy, by fork, of the one that started the library (EOWNERDEAD)".to_owned()
        }
        libc::ESHUTDOWN => "the library has been shut down (ESHUTDOWN)".to_owned(),
        _ => Errno(error).to_string(),
    }
}

/// The version of the library.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
