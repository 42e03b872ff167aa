//! A typed interface for Rust programs: typed arguments and results, as futures of any executor or for blocking waits. The
//! [`Service`] carries the operations out.
//!
//! ```
//! use atta_aio::{Options, Place, Service};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = Service::new(&Options::default())?;
//! let files = service.files();
//! let file = files.open(Place::path(c"/proc/self/comm"), libc::O_RDONLY, 0).wait()?;
//! let (read, bytes) = files.read_at(&file, vec![0; 64], 0).wait();
//! assert!(bytes.as_slice()[..read?].ends_with(b"\n"));
//! # Ok(())
//! # }
//! ```

use std::ffi::CString;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use atta_entry::Errno;

use crate::done::Done;
use crate::op::{At, Fd, Op, Place, Sync};
use crate::service::{Call, Pending, Service};
use crate::{Buffer, Outcome, Work};

/// Submits operations of a [`Service`] with common terms.
#[derive(Clone, Copy, Debug)]
pub struct Files<'s> {
    service: &'s Service,
    call: Call,
}

/// A submitted operation, or one that was refused: a future of its result. Dropping it cancels the operation.
#[derive(Debug)]
pub struct Calling<T> {
    state: State,
    convert: fn(Done) -> T,
}

#[derive(Debug)]
enum State {
    Pending(Pending),
    /// Refused; `None`: taken.
    Ended(Option<Done>),
}

impl<T> Calling<T> {
    /// Blocks until it has ended. If it has not started, this thread carries it out.
    pub fn wait(self) -> T {
        let done = match self.state {
            State::Pending(pending) => pending.wait(),
            State::Ended(done) => done.unwrap_or_else(taken),
        };
        (self.convert)(done)
    }

    /// Ends it with `ECANCELED`, if it has not ended.
    pub fn cancel(&self) {
        if let State::Pending(pending) = &self.state {
            pending.cancel();
        }
    }
}

/// The result of a poll after the end.
fn taken() -> Done {
    Done::new(Err(Errno::INVAL), None)
}

impl<T> Future for Calling<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let convert = self.convert;
        match &mut self.state {
            State::Pending(pending) => Pin::new(pending).poll(context).map(convert),
            State::Ended(done) => Poll::Ready(convert(done.take().unwrap_or_else(taken))),
        }
    }
}

fn unit(done: Done) -> Result<(), Errno> {
    done.into_parts().0.map(drop)
}

fn number(done: Done) -> Outcome {
    done.into_parts().0
}

/// The number of bytes moved, and the buffer, which is empty if the operation was given up.
pub type Moved = (Result<usize, Errno>, Buffer);

fn moved(done: Done) -> Moved {
    let (outcome, buffer) = done.into_buffer();
    // A buffer is no longer than memory.
    (outcome.map(|bytes| bytes as usize), buffer)
}

/// The bytes that were filled in.
fn filled(done: Done) -> Result<Vec<u8>, Errno> {
    let (outcome, buffer) = done.into_buffer();
    let mut bytes = buffer.into_vec();
    bytes.truncate(outcome? as usize);
    Ok(bytes)
}

fn opened(done: Done) -> Result<Arc<OwnedFd>, Errno> {
    let fd = done.into_parts().0?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::IO)?;
    // SAFETY: the kernel opened it for this operation, and nothing else owns it.
    Ok(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn looked(done: Done) -> Result<Box<libc::statx>, Errno> {
    match done.into_parts() {
        (Err(errno), _) => Err(errno),
        (Ok(_), Some(op)) => match *op {
            Op::Stat { out, .. } => Ok(out),
            _ => Err(Errno::IO),
        },
        (Ok(_), None) => Err(Errno::IO),
    }
}

impl Service {
    /// Operations without a time limit.
    #[must_use]
    pub fn files(&self) -> Files<'_> {
        Files { service: self, call: Call::default() }
    }
}

impl<'s> Files<'s> {
    /// The same with a time limit for each operation; an operation that exceeds it ends with `ETIMEDOUT`.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { call: Call { within: Some(limit), ..self.call }, ..self }
    }

    /// Submits any work.
    pub fn submit<T>(self, work: impl Into<Work>, convert: fn(Done) -> T) -> Calling<T> {
        let state = match self.service.submit(work, self.call) {
            Ok(pending) => State::Pending(pending),
            Err(refused) => {
                let errno = refused.errno();
                let op = match refused.into_work() {
                    Work::Op(op) => Some(op),
                    Work::Machine(_) => None,
                };
                State::Ended(Some(Done::new(Err(errno), op)))
            }
        };
        Calling { state, convert }
    }

    fn unit(self, op: Op) -> Calling<Result<(), Errno>> {
        self.submit(op, unit)
    }

    /// Opens a file, close-on-exec.
    pub fn open(self, place: Place, flags: i32, mode: u32) -> Calling<Result<Arc<OwnedFd>, Errno>> {
        self.submit(Op::Open { place, flags: flags | libc::O_CLOEXEC, mode }, opened)
    }

    /// Closes a file, and returns the error of the close: for a written file, the last chance to learn of one. If the file is
    /// still in use elsewhere, the call fails with `EBUSY`, and the file stays open.
    pub fn close(self, file: Arc<OwnedFd>) -> Calling<Result<(), Errno>> {
        match Arc::try_unwrap(file) {
            Ok(file) => self.unit(Op::Close { fd: file.into_raw_fd() }),
            Err(_) => {
                Calling { state: State::Ended(Some(Done::new(Err(Errno(libc::EBUSY)), None))), convert: unit }
            }
        }
    }

    /// Reads at an offset.
    pub fn read_at(self, file: &Arc<OwnedFd>, buffer: impl Into<Buffer>, offset: u64) -> Calling<Moved> {
        self.submit(Op::Read { fd: file.into(), buffer: buffer.into(), at: At::Offset(offset) }, moved)
    }

    /// Writes at an offset.
    pub fn write_at(self, file: &Arc<OwnedFd>, buffer: impl Into<Buffer>, offset: u64) -> Calling<Moved> {
        self.submit(Op::Write { fd: file.into(), buffer: buffer.into(), at: At::Offset(offset) }, moved)
    }

    /// Reads at a position: see [`Service::add_position`].
    pub fn read(mut self, file: &Arc<OwnedFd>, buffer: impl Into<Buffer>, position: u64) -> Calling<Moved> {
        self.call.position = Some(position);
        self.submit(Op::Read { fd: file.into(), buffer: buffer.into(), at: At::Position }, moved)
    }

    /// Writes at a position.
    pub fn write(mut self, file: &Arc<OwnedFd>, buffer: impl Into<Buffer>, position: u64) -> Calling<Moved> {
        self.call.position = Some(position);
        self.submit(Op::Write { fd: file.into(), buffer: buffer.into(), at: At::Position }, moved)
    }

    /// Moves a position, and returns the new offset.
    pub fn seek(mut self, file: &Arc<OwnedFd>, offset: i64, whence: i32, position: u64) -> Calling<Outcome> {
        self.call.position = Some(position);
        self.submit(Op::Seek { fd: file.into(), offset, whence }, number)
    }

    /// Gets the metadata of a file; `mask` as for `statx`.
    pub fn stat(self, place: Place, flags: i32, mask: u32) -> Calling<Result<Box<libc::statx>, Errno>> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let out = Box::new(unsafe { std::mem::zeroed() });
        self.submit(Op::Stat { place, flags, mask, out }, looked)
    }

    /// Makes a file durable.
    pub fn sync(self, file: &Arc<OwnedFd>, what: Sync) -> Calling<Result<(), Errno>> {
        self.unit(Op::Sync { fd: file.into(), what })
    }

    /// Sets the length of a file.
    pub fn truncate(self, file: &Arc<OwnedFd>, bytes: u64) -> Calling<Result<(), Errno>> {
        self.unit(Op::Truncate { fd: file.into(), bytes })
    }

    /// Reserves space, or does what `mode` of `fallocate` requests; it never shortens the file.
    pub fn allocate(
        self,
        file: &Arc<OwnedFd>,
        mode: i32,
        offset: u64,
        bytes: u64,
    ) -> Calling<Result<(), Errno>> {
        self.unit(Op::Allocate { fd: file.into(), mode, offset, bytes })
    }

    /// Copies a range inside the kernel, and returns the number of bytes.
    pub fn copy_range(
        self,
        (from, from_offset): (&Arc<OwnedFd>, u64),
        (to, to_offset): (&Arc<OwnedFd>, u64),
        bytes: usize,
    ) -> Calling<Outcome> {
        let (from, to) = (Fd::from(from), Fd::from(to));
        self.submit(Op::CopyRange { from, from_offset, to, to_offset, bytes }, number)
    }

    /// Renames; `flags` as for `renameat2`.
    pub fn rename(self, from: Place, to: Place, flags: u32) -> Calling<Result<(), Errno>> {
        self.unit(Op::Rename { from, to, flags })
    }

    /// Removes a name; with `AT_REMOVEDIR` an empty directory.
    pub fn unlink(self, place: Place, flags: i32) -> Calling<Result<(), Errno>> {
        self.unit(Op::Unlink { place, flags })
    }

    /// Makes a directory.
    pub fn make_directory(self, place: Place, mode: u32) -> Calling<Result<(), Errno>> {
        self.unit(Op::MakeDirectory { place, mode })
    }

    /// Creates a symbolic link to `target`.
    pub fn symlink(self, target: CString, place: Place) -> Calling<Result<(), Errno>> {
        self.unit(Op::Symlink { target, place })
    }

    /// Adds another name to a file.
    pub fn link(self, from: Place, to: Place, flags: i32) -> Calling<Result<(), Errno>> {
        self.unit(Op::Link { from, to, flags })
    }

    /// Returns the target of a symbolic link.
    pub fn read_link(self, place: Place) -> Calling<Result<Vec<u8>, Errno>> {
        let buffer = Buffer::zeroed(libc::PATH_MAX as usize);
        self.submit(Op::ReadLink { place, buffer }, filled)
    }

    /// Reads a batch of directory entries in the format of `getdents64`; nothing at the end.
    pub fn read_directory(self, directory: &Arc<OwnedFd>, buffer: impl Into<Buffer>) -> Calling<Moved> {
        self.submit(Op::ReadDirectory { fd: directory.into(), buffer: buffer.into() }, moved)
    }
}
