//! Which errors are none the next time, and a close that tells its own. It copies nothing.

use std::time::Duration;

use atta_aio::{Op, perform};
use atta_entry::Errno;
use rustix::fd::{IntoRawFd, OwnedFd};

use super::error::{FileError, Step};
use atta_sys::retry;

/// How often a server is asked for a file that it has just lost sight of.
const STALE_MOST: u32 = 3;
/// How often something is asked for that is there in a moment, as a file whose lease somebody has to give up first.
const AGAIN_MOST: u32 = 100;
/// And how long after each time.
const AGAIN_PAUSE: Duration = Duration::from_millis(10);

/// Makes a call until it says something that lasts.
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

/// Pauses before a rename is repeated: the first, which is doubled up to the last.
const DENIED_PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(64)];

/// Renames something, or makes a link of it. Repeats that while the answer is ENOENT although the old name is there: GlusterFS gives that answer for a
/// moment while another client looks at a directory that is new.
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

/// How often a disk is asked again for what it could not read.
const UNREADABLE_MOST: u32 = 2;

/// Makes a call that reads until it says something that lasts.
pub(crate) fn read_patiently<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut unreadable = 0;
    loop {
        match patiently(&mut call) {
            Err(Errno::IO) if unreadable < UNREADABLE_MOST => unreadable += 1,
            outcome => return outcome,
        }
    }
}

/// Closes a copy. A server may tell only now that there was no room for it, or that it could not be written.
pub(crate) fn close(file: OwnedFd) -> Result<(), FileError> {
    match perform(&mut Op::Close { fd: file.into_raw_fd() }) {
        // It is closed all the same.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(FileError::new(Step::Close, errno)),
    }
}

/// Asks what closing a copy would tell, and leaves it open.
pub(crate) fn ask_close(file: &OwnedFd) -> Result<(), FileError> {
    close(retry(|| rustix::io::dup(file)).map_err(|errno| FileError::new(Step::Close, errno))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_told() {
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
