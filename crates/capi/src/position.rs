//! Maps descriptors to positions of the service. Regular files and block devices have one; pipes and sockets have no position;
//! terminals and directories use the kernel's.
//!
//! A position is created when a descriptor is first read, written or moved without an offset. It starts at the kernel's
//! position.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_aio::Service;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Positions(Mutex<HashMap<RawFd, Known>>);

/// The state of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// `None`: the kernel's position is used.
    pub(crate) position: Option<u64>,
    /// Writes go to the end of the file, regardless of the position.
    pub(crate) appends: bool,
}

impl Positions {
    fn lock(&self) -> MutexGuard<'_, HashMap<RawFd, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The position of a descriptor, created if necessary. `None` for one that is not open: the operation will return the
    /// error.
    pub(crate) fn of(&self, fd: RawFd, service: &Service) -> Option<Known> {
        let mut known = self.lock();
        if let Some(found) = known.get(&fd) {
            return Some(*found);
        }
        let made = match place_of(fd)? {
            None => Known { position: None, appends: false },
            Some((offset, appends)) => Known { position: Some(service.add_position(offset)), appends },
        };
        known.insert(fd, made);
        Some(made)
    }

    /// Removes the state of a descriptor that is about to be closed.
    pub(crate) fn take(&self, fd: RawFd) -> Option<Known> {
        self.lock().remove(&fd)
    }

    /// Restores the state of a descriptor that was not closed.
    pub(crate) fn put_back(&self, fd: RawFd, known: Known, service: &Service) {
        // A position created meanwhile for the same open file does not include earlier reads.
        let made = self.lock().insert(fd, known);
        Self::end(made, service);
    }

    /// Removes the state of a descriptor whose number belongs to a new file.
    pub(crate) fn forget(&self, fd: RawFd, service: &Service) {
        Self::end(self.take(fd), service);
    }

    /// Removes a position from the service, once its users have ended.
    pub(crate) fn end(known: Option<Known>, service: &Service) {
        if let Some(position) = known.and_then(|known| known.position) {
            service.remove_position(position);
        }
    }
}

/// The position of a file, and whether it is open for appending. `Some(None)`: it has none; `None`: it is not open.
fn place_of(fd: c_int) -> Option<Option<(u64, bool)>> {
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is one structure that lives until the call returns.
    if unsafe { libc::fstat(fd, &raw mut stat) } != 0 {
        return None;
    }
    if !matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK) {
        return Some(None);
    }
    // SAFETY: takes only numbers.
    let offset = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
    // SAFETY: takes only numbers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    let appends = flags >= 0 && flags & libc::O_APPEND != 0;
    Some(u64::try_from(offset).ok().map(|offset| (offset, appends)))
}
