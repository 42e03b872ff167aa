//! Retries of transient errors, and a close that reports errors. It copies nothing.

use std::time::Duration;

use atta_entry::Errno;
use rustix::fd::OwnedFd;

use super::error::{FileError, Step};
use atta_sys::{data, retry};

/// Retries after ESTALE from a server.
const STALE_MOST: u32 = 3;
/// Retries after EAGAIN, such as for a file whose lease another process must give up first.
const AGAIN_MOST: u32 = 100;
/// Pause before each of these retries.
const AGAIN_PAUSE: Duration = Duration::from_millis(10);

/// Repeats a call while it fails with a transient error.
pub(crate) fn patiently<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let (mut stale, mut again) = (0, 0);
    loop {
        match call() {
            Err(Errno::STALE) if stale < STALE_MOST => stale += 1,
            Err(Errno::AGAIN) if again < AGAIN_MOST => {
                again += 1;
                std::thread::sleep(AGAIN_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// Pauses before a rename is repeated: the first one, doubled up to the last.
const DENIED_PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(64)];

/// Renames or links a file. Repeats while the call fails with ENOENT although the old name exists: GlusterFS returns that for a moment
/// while another client looks at a new directory.
pub(crate) fn until_found(
    is_there: impl Fn() -> bool,
    mut rename: impl FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let [mut pause, longest] = DENIED_PAUSES;
    loop {
        match rename() {
            Err(Errno::NOENT) if pause <= longest && is_there() => {
                std::thread::sleep(pause);
                pause *= 2;
            }
            outcome => return outcome,
        }
    }
}

/// Retries of a read after EIO.
const UNREADABLE_MOST: u32 = 2;

/// Repeats a read while it fails with a transient error.
pub(crate) fn read_patiently<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut unreadable = 0;
    loop {
        match patiently(&mut call) {
            Err(Errno::IO) if unreadable < UNREADABLE_MOST => unreadable += 1,
            outcome => return outcome,
        }
    }
}

/// Closes a copy. A server may report only now that it has no space or that a write failed.
pub(crate) fn close(file: OwnedFd) -> Result<(), FileError> {
    match data::close(file) {
        // It is closed all the same.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(FileError::new(Step::Close, errno)),
    }
}

/// Returns the error that closing a copy would report, and leaves it open.
pub(crate) fn ask_close(file: &OwnedFd) -> Result<(), FileError> {
    close(retry(|| rustix::io::dup(file)).map_err(|errno| FileError::new(Step::Close, errno))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_error_is_returned_after_retries() {
        for (errno, most) in [(Errno::STALE, 4), (Errno::IO, 1)] {
            let mut calls = 0;
            let call = || -> Result<(), Errno> {
                calls += 1;
                Err(errno)
            };
            assert_eq!((patiently(call), calls), (Err(errno), most));
        }
        let mut calls = 0;
        let call = || -> Result<(), Errno> {
            calls += 1;
            Err(Errno::IO)
        };
        assert_eq!((read_patiently(call), calls), (Err(Errno::IO), 3));
        let mut left = vec![Ok(7), Err(Errno::AGAIN), Err(Errno::STALE), Err(Errno::AGAIN)];
        assert_eq!(patiently(|| left.pop().unwrap()), Ok(7));
    }
}
