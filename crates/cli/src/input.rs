//! Standard input that a signal ends: a list or a record may come from a program that writes slowly or never ends.
//!
//! A blocking read is restarted after a signal and would not return. So each read polls for input, and checks the stop request meanwhile.
//! This module does not interpret the bytes.

use std::io::{self, Read};
use std::os::fd::AsFd;

use atta_runtime::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Interval between checks of the stop request while no input arrives.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Standard input up to its end or to a stop request, which looks like end of file.
#[derive(Debug)]
pub(crate) struct Input {
    stop: Stop,
}

impl Input {
    /// Creates the reader. No other code may read standard input.
    pub(crate) fn new(stop: Stop) -> Self {
        Self { stop }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let input = io::stdin();
        while !self.stop.is_set() {
            match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(input.as_fd(), buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }
}
