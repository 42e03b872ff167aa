//! Standard output: whether it was open when the program started, a file in its place, and writing to it. This module does not interpret the bytes.
//!
//! The standard library opens `/dev/null` in place of a standard descriptor that is closed when the program starts. Output written there
//! appears to succeed and is lost. Only code that runs before the library starts can detect the closed descriptor.

#![expect(unsafe_code, reason = "only a function that runs before main sees what was closed")]

use std::fs::File;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);
/// The file that took the place of standard output.
static NAME: OnceLock<String> = OnceLock::new();
/// That file has what was in it before: it is emptied with the first bytes, as another process may be writing it until then.
static IS_UNTOUCHED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    if rustix::io::fcntl_getfd(rustix::stdio::stdout()) == Err(Errno::BADF) {
        WAS_CLOSED.store(true, Ordering::Relaxed);
    }
}

// SAFETY: the linker puts it among the functions that the C library calls once before `main`, with arguments that `look` may ignore under
// the C calling conventions. `look` allocates nothing and uses nothing of the standard library that has to be initialized.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

/// Whether standard output was closed when the program started.
pub(crate) fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// Puts a file in the place of standard output. `name` names it in messages.
///
/// # Errors
/// Those of `dup2`.
pub(crate) fn replace(file: &File, name: String) -> io::Result<()> {
    rustix::stdio::dup2_stdout(file)?;
    WAS_CLOSED.store(false, Ordering::Relaxed);
    IS_UNTOUCHED.store(true, Ordering::Relaxed);
    // A second file is not put there.
    let _ = NAME.set(name);
    Ok(())
}

/// The name of standard output in messages.
pub(crate) fn name() -> &'static str {
    NAME.get().map_or("standard output", String::as_str)
}

/// Whether standard output is a regular file.
pub(crate) fn is_file() -> bool {
    rustix::fs::fstat(rustix::stdio::stdout())
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
}

/// Empties the file that took the place of standard output, unless something was written to it. Called when a run has come to its end.
pub(crate) fn end() {
    if IS_UNTOUCHED.swap(false, Ordering::Relaxed) {
        // A pipe or a device cannot be emptied.
        let _ = rustix::fs::ftruncate(rustix::stdio::stdout(), 0);
    }
}

/// Writes all bytes and flushes them.
///
/// # Errors
/// Any error of the system; EBADF if standard output was closed at the start.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    if was_closed() && !bytes.is_empty() {
        return Err(Errno::BADF.into());
    }
    if !bytes.is_empty() {
        end();
    }
    let mut output = io::stdout().lock();
    output.write_all(bytes).and_then(|()| output.flush())
}
