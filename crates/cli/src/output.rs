//! Standard output: whether it was there when the program started, and writing to it. It does not know what the bytes mean.
//!
//! The standard library opens `/dev/null` in the place of a standard descriptor that is closed when the program starts, so whatever is
//! written there seems to be well and is lost. Only before the library starts can it be seen that there was none.

#![expect(unsafe_code, reason = "only a function that runs before main sees what was closed")]

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    if rustix::io::fcntl_getfd(rustix::stdio::stdout()) == Err(Errno::BADF) {
        WAS_CLOSED.store(true, Ordering::Relaxed);
    }
}

// SAFETY: the linker puts it among the functions that the C library calls once before `main`, with arguments that `look` may ignore by the
// calling conventions of C. `look` allocates nothing and uses nothing of the standard library that has to be set up.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

/// Whether standard output was closed when the program started.
pub(crate) fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// Writes all of it now.
///
/// # Errors
/// As of the system; EBADF where standard output was closed from the start.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    if was_closed() && !bytes.is_empty() {
        return Err(Errno::BADF.into());
    }
    let mut output = io::stdout().lock();
    output.write_all(bytes).and_then(|()| output.flush())
}
