//! Writes a file atomically: a reader finds the old file or the new one, also after a crash.
//!
//! | state | step | if it fails |
//! | --- | --- | --- |
//! | Start | `open` the directory | returned |
//! | Opening | `open` a temporary file in it (`O_EXCL`, `O_NOFOLLOW`) | name taken: try another; else returned |
//! | Creating | `write`, repeated after a short write | returned; the temporary file is removed |
//! | Writing | `fsync` | as above |
//! | Syncing | `close` | as above |
//! | Closing | `rename` over the file | as above |
//! | Renaming | `fsync` of the directory | `EINVAL` is ignored; else returned; **the new file is there**, and may be gone after a crash |
//!
//! After the `rename` a stop is too late. The directory must be readable, because only then it can be made durable. A link with
//! that name is replaced, not followed. The mode, owner and attributes of the old file are lost.

use std::ffi::CString;

use atta_entry::Errno;

use super::names::{self, Temporary};
use super::{Held, Next, Opened, Steps};
use crate::{At, Buffer, Fd, Op, Outcome, Place, Sync, Work};

#[derive(Clone, Copy)]
enum State {
    Start,
    Opening,
    Creating(Opened),
    Writing(Opened, Opened),
    Syncing(Opened, Opened),
    Closing(Opened),
    Renaming(Opened),
    SyncingDirectory,
}

struct Write {
    state: State,
    place: Place,
    name: CString,
    mode: u32,
    temporary: Temporary,
    /// `None` while an operation has it.
    buffer: Option<Buffer>,
    /// The offset of the data in the buffer.
    first: usize,
    bytes: usize,
    written: usize,
    borrows: bool,
}

/// Creates or replaces a file with the data of a buffer.
///
/// The result is the number of bytes; an [`Op::Write`] with the buffer is returned in any case. The mode is that of a new file,
/// less the process's mask. If the name is a directory, the error is `EISDIR`.
#[must_use]
pub fn write(place: Place, mode: u32, buffer: impl Into<Buffer>) -> Work {
    super::work(steps(place, mode, buffer.into()))
}

pub(super) fn steps(place: Place, mode: u32, buffer: Buffer) -> impl Steps + 'static {
    let (first, bytes, borrows) = (buffer.start(), buffer.len(), buffer.is_foreign());
    let (state, temporary, name, written) = (State::Start, Temporary::new(), CString::default(), 0);
    Write { state, place, name, mode, temporary, buffer: Some(buffer), first, bytes, written, borrows }
}

impl Write {
    /// Opens the directory first, so that its path is resolved once.
    fn open_directory(&mut self) -> Result<Op, Errno> {
        let is_empty = self.place.path.is_empty();
        let (place, name) =
            names::split(&self.place).ok_or(if is_empty { Errno::NOENT } else { Errno(libc::EISDIR) })?;
        self.name = name;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        Ok(Op::Open { place, flags, mode: 0 })
    }

    fn create(&mut self, directory: Opened, held: &Held) -> Next {
        self.state = State::Creating(directory);
        Next::Do(names::create(self.temporary.place(held.fd(directory)), self.mode))
    }

    /// The temporary file could not be created.
    fn create_again(&mut self, errno: Errno, directory: Opened, held: &mut Held) -> Result<Next, Errno> {
        if errno.0 != libc::EEXIST {
            // A server may have created it despite the error. No other process uses this name.
            held.made(self.temporary.place(held.fd(directory)));
        }
        self.temporary.after(errno)?;
        Ok(self.create(directory, held))
    }

    /// Writes the remaining data, then makes the file durable.
    fn write(&mut self, directory: Opened, file: Opened, held: &Held) -> Next {
        if self.written < self.bytes
            && let Some(mut buffer) = self.buffer.take()
        {
            self.state = State::Writing(directory, file);
            buffer.show(self.first + self.written..self.first + self.bytes);
            return Next::Do(Op::Write { fd: held.fd(file), buffer, at: At::Offset(self.written as u64) });
        }
        self.state = State::Syncing(directory, file);
        Next::Do(Op::Sync { fd: held.fd(file), what: Sync::All })
    }

    fn rename(&self, directory: Opened, held: &Held) -> Next {
        let to = Place { dir: held.fd(directory), path: self.name.clone() };
        Next::Commit(Op::Rename { from: self.temporary.place(held.fd(directory)), to, flags: 0 })
    }
}

impl Steps for Write {
    fn step(&mut self, op: Op, outcome: Outcome, held: &mut Held) -> Result<Next, Errno> {
        self.refused(op);
        match (self.state, outcome) {
            (State::Start, _) => {
                self.state = State::Opening;
                Ok(Next::Do(self.open_directory()?))
            }
            (State::Opening, outcome) => {
                let directory = held.opened(outcome?);
                Ok(self.create(directory, held))
            }
            (State::Creating(directory), Err(errno)) => self.create_again(errno, directory, held),
            (State::Creating(directory), Ok(value)) => {
                held.made(self.temporary.place(held.fd(directory)));
                let file = held.opened_to_write(value);
                Ok(self.write(directory, file, held))
            }
            (State::Writing(directory, file), outcome) => {
                // A full device may write nothing and report success.
                let written =
                    outcome.and_then(|bytes| if bytes == 0 { Err(Errno::IO) } else { Ok(bytes) })?;
                self.written += written as usize;
                Ok(self.write(directory, file, held))
            }
            (State::Syncing(directory, file), outcome) => {
                outcome?;
                self.state = State::Closing(directory);
                Ok(Next::Close(file))
            }
            (State::Closing(directory), outcome) => {
                outcome?;
                self.state = State::Renaming(directory);
                Ok(self.rename(directory, held))
            }
            (State::Renaming(directory), outcome) => {
                outcome?;
                held.settled();
                self.state = State::SyncingDirectory;
                Ok(Next::Finish(Op::Sync { fd: held.fd(directory), what: Sync::All }))
            }
            // Some file systems cannot sync directories.
            (State::SyncingDirectory, Ok(_) | Err(Errno::INVAL)) => Ok(Next::End(self.bytes as u64)),
            (State::SyncingDirectory, Err(errno)) => Err(errno),
        }
    }

    fn refused(&mut self, op: Op) {
        if let Some(buffer) = op.into_buffer() {
            self.buffer = Some(buffer);
        }
    }

    fn give_back(self) -> Option<Op> {
        let mut buffer = self.buffer?;
        buffer.show(self.first..self.first + self.bytes);
        Some(Op::Write { fd: Fd::Raw(-1), buffer, at: At::Offset(0) })
    }

    fn borrows(&self) -> bool {
        self.borrows
    }
}
