//! `truncate` of a path: open, truncate, close, as one operation. What went wrong first is what it ends with.

use std::ffi::CString;
use std::os::fd::RawFd;

use atta_aio::{Fd, Machine, Op, Outcome, Place, Step};
use atta_entry::Errno;

/// See the head of this file.
pub(crate) struct Truncate {
    path: Option<CString>,
    bytes: u64,
    fd: RawFd,
    truncated: Option<Outcome>,
}

impl Truncate {
    pub(crate) fn new(path: CString, bytes: u64) -> Self {
        Self { path: Some(path), bytes, fd: -1, truncated: None }
    }

    fn close(&mut self, outcome: Outcome) -> Step {
        self.truncated = Some(outcome);
        Step::Do(Op::Close { fd: self.fd })
    }
}

impl Machine for Truncate {
    fn next(&mut self, last: Option<(Op, Outcome)>, stop: Option<Errno>) -> Step {
        match (self.path.take(), last) {
            (Some(path), _) => {
                // A pipe without a reader is not to hold it up.
                let flags = libc::O_WRONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
                Step::Do(Op::Open { place: Place::path(path), flags, mode: 0 })
            }
            (None, Some((Op::Open { .. }, Ok(fd)))) => {
                self.fd = RawFd::try_from(fd).unwrap_or(-1);
                match stop {
                    Some(stop) => self.close(Err(stop)),
                    None => Step::Do(Op::Truncate { fd: Fd::Raw(self.fd), bytes: self.bytes }),
                }
            }
            // As truncate(2) says it of what is no regular file.
            (None, Some((Op::Open { .. }, Err(Errno(libc::ENXIO))))) => Step::End(Err(Errno::INVAL), None),
            (None, Some((Op::Truncate { .. }, outcome))) => self.close(stopped(outcome, stop)),
            // Cancelled before it began: the descriptor is still there.
            (None, Some((close @ Op::Close { .. }, Err(Errno(libc::ECANCELED))))) => Step::Do(close),
            (None, Some((_, outcome))) => {
                let outcome = stopped(outcome, stop);
                Step::End(self.truncated.unwrap_or(Ok(0)).and(outcome), None)
            }
            (None, None) => Step::End(Err(Errno::IO), None),
        }
    }
}

/// The error that somebody wanted, for what was cut short.
pub(crate) fn stopped(outcome: Outcome, stop: Option<Errno>) -> Outcome {
    match (outcome, stop) {
        (Err(Errno(libc::ECANCELED | libc::EINTR)), Some(stop)) => Err(stop),
        _ => outcome,
    }
}
