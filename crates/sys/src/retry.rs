//! Repeats calls after a signal, and when no descriptor was left.

use atta_entry::Errno;

use crate::descriptors;

/// Repeats a call that a signal interrupted (file systems in user space and NFS may return so), and one that found no descriptor.
#[inline]
pub fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => return retry_later(call),
            other => return other.map_err(errno),
        }
    }
}

/// Out of line: no call of a hot loop comes here.
#[cold]
#[inline(never)]
fn retry_later<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, Errno> {
    descriptors::wait_for(&mut || retry_interrupted(&mut call))
}

/// Repeats a call that a signal interrupted. For calls that open nothing.
#[inline]
pub(crate) fn retry_interrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(errno),
        }
    }
}

/// The error number of a call.
pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}
