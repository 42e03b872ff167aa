//! glibc's POSIX aio as a contender, and the C structures that have no safe constructor. Its requests on one descriptor run
//! one after the other, on threads of glibc.

#![expect(unsafe_code, reason = "glibc's aio calls take pointers to control blocks")]

use std::collections::VecDeque;
use std::io::Error;
use std::os::fd::AsRawFd;

use super::BenchResult;
use super::port::{Direction, Port, Transfer};

/// Control blocks that run, oldest first. A block does not move until it has ended.
#[derive(Default)]
pub(crate) struct PosixAio {
    running: VecDeque<(Box<libc::aiocb>, Transfer)>,
}

/// A structure of zeros, to be filled by the kernel.
pub(crate) fn zeroed_statx() -> Box<libc::statx> {
    // SAFETY: all fields are numbers.
    Box::new(unsafe { std::mem::zeroed() })
}

impl Port for PosixAio {
    fn submit(&mut self, mut transfer: Transfer) -> BenchResult<()> {
        // SAFETY: zeros are what the manual asks for in fields that are not used.
        let mut block: Box<libc::aiocb> = Box::new(unsafe { std::mem::zeroed() });
        block.aio_fildes = transfer.file.as_raw_fd();
        block.aio_buf = transfer.buffer.as_mut_ptr().cast();
        block.aio_nbytes = transfer.buffer.len();
        block.aio_offset = i64::try_from(transfer.offset).map_err(|error| error.to_string())?;
        block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        let returned = match transfer.direction {
            // SAFETY: the block and the buffer stay where they are until the request has ended: see `wait` and `drop`.
            Direction::Read => unsafe { libc::aio_read(&raw mut *block) },
            // SAFETY: as above.
            Direction::Write => unsafe { libc::aio_write(&raw mut *block) },
        };
        if returned != 0 {
            return Err(format!("aio: {}", Error::last_os_error()));
        }
        self.running.push_back((block, transfer));
        Ok(())
    }

    fn wait(&mut self) -> BenchResult<Vec<u8>> {
        let (mut block, transfer) = self.running.pop_front().ok_or("nothing runs")?;
        let list = [&raw const *block];
        // SAFETY: the list has one block, which runs or has ended.
        while unsafe { libc::aio_error(&raw const *block) } == libc::EINPROGRESS {
            // SAFETY: as above.
            unsafe { libc::aio_suspend(list.as_ptr(), 1, std::ptr::null()) };
        }
        // SAFETY: it has ended, and is asked once.
        let returned = unsafe { libc::aio_return(&raw mut *block) };
        transfer.ended(u64::try_from(returned).map_err(|_| "aio_return".to_owned()))
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        while !self.running.is_empty() {
            // The result is of no use any more; the buffers may not go before.
            let _ = self.wait();
        }
    }
}
