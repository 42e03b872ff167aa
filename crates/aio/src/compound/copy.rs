//! A range of a file copied to another one: by the kernel (`copy_file_range`), or where it cannot, through a buffer.
//!
//! | state | step | after it | if it fails |
//! | --- | --- | --- | --- |
//! | Asking | `copy_file_range` | again, until all is there | Reading, if the kernel cannot do it here; else told |
//! | Reading | `read` | Writing; nothing: the end of the source | told |
//! | Writing | `write` | again after a short one, then Reading | told |
//!
//! The kernel says that it copied nothing at the end of the source, but also of files in `/proc`, whose length nobody knows: if
//! that is its first word, a read decides. What was copied before a failure or a stop stays where it is.

use atta_entry::Errno;

use super::{Held, Next, Steps};
use crate::{At, Buffer, Fd, Op, Outcome, Work};

/// A step of the kernel copies no more: a stop waits for that at most. A multiple of all sizes of blocks, so that file systems
/// that share blocks can do so.
const RANGE_BYTES: u64 = 16 << 20;
/// Bytes read at a time where the kernel does not copy.
const BUFFER_BYTES: usize = 256 << 10;

enum State {
    Start,
    Asking,
    Reading,
    Writing { read: usize, written: usize },
}

pub(super) struct Copy {
    state: State,
    from: Fd,
    from_offset: u64,
    to: Fd,
    to_offset: u64,
    bytes: u64,
    copied: u64,
}

/// Copies so many bytes, or fewer if the source ends before: how many. A source that shares its bytes with the target is
/// refused (`EINVAL`) if the kernel notices; it cannot if they are on different mounts. A target that was opened to append gets the
/// bytes at its end.
#[must_use]
pub fn copy(from: Fd, from_offset: u64, to: Fd, to_offset: u64, bytes: u64) -> Work {
    super::work(Copy::new(from, from_offset, to, to_offset, bytes))
}

impl Copy {
    pub(super) fn new(from: Fd, from_offset: u64, to: Fd, to_offset: u64, bytes: u64) -> Self {
        Self { state: State::Start, from, from_offset, to, to_offset, bytes, copied: 0 }
    }

    /// Whether the kernel may not do this here, though reading and writing will.
    fn is_beyond_kernel(&self, errno: Errno) -> bool {
        match errno.0 {
            libc::EXDEV | libc::ENOSYS | libc::EOPNOTSUPP | libc::EBADF => true,
            // Also said of two ranges of one file that overlap: reading and writing would garble them.
            libc::EINVAL => self.from.raw() != self.to.raw(),
            _ => false,
        }
    }

    fn left(&self) -> u64 {
        self.bytes - self.copied
    }

    fn ask(&mut self) -> Next {
        if self.left() == 0 {
            return Next::End(self.copied);
        }
        self.state = State::Asking;
        Next::Do(Op::CopyRange {
            from: self.from.clone(),
            from_offset: self.from_offset.saturating_add(self.copied),
            to: self.to.clone(),
            to_offset: self.to_offset.saturating_add(self.copied),
            bytes: self.left().min(RANGE_BYTES) as usize,
        })
    }

    fn read(&mut self, buffer: Option<Buffer>) -> Next {
        let bytes = self.left().min(BUFFER_BYTES as u64) as usize;
        if bytes == 0 {
            return Next::End(self.copied);
        }
        self.state = State::Reading;
        let mut buffer = buffer.unwrap_or_else(|| Buffer::zeroed(bytes));
        buffer.show(0..bytes);
        let at = At::Offset(self.from_offset.saturating_add(self.copied));
        Next::Do(Op::Read { fd: self.from.clone(), buffer, at })
    }

    /// Writes what was read and has not been written.
    fn write(&mut self, mut buffer: Buffer, read: usize, written: usize) -> Next {
        self.state = State::Writing { read, written };
        buffer.show(written..read);
        let at = At::Offset(self.to_offset.saturating_add(self.copied));
        Next::Do(Op::Write { fd: self.to.clone(), buffer, at })
    }
}

impl Steps for Copy {
    fn step(&mut self, op: Op, outcome: Outcome, _: &mut Held) -> Result<Next, Errno> {
        match self.state {
            State::Start => Ok(self.ask()),
            State::Asking => match outcome {
                Ok(0) if self.copied > 0 => Ok(Next::End(self.copied)),
                Ok(0) => Ok(self.read(None)),
                Ok(bytes) => {
                    self.copied += bytes;
                    Ok(self.ask())
                }
                Err(errno) if self.is_beyond_kernel(errno) => Ok(self.read(None)),
                Err(errno) => Err(errno),
            },
            State::Reading => match (outcome?, op.into_buffer()) {
                (0, _) | (_, None) => Ok(Next::End(self.copied)),
                (read, Some(buffer)) => Ok(self.write(buffer, read as usize, 0)),
            },
            State::Writing { read, written } => {
                // A device that is full may write nothing and call it a success.
                let bytes = outcome.and_then(|bytes| if bytes == 0 { Err(Errno::IO) } else { Ok(bytes) })?;
                self.copied += bytes;
                let written = written + bytes as usize;
                match op.into_buffer() {
                    Some(buffer) if written < read => Ok(self.write(buffer, read, written)),
                    buffer => Ok(self.read(buffer)),
                }
            }
        }
    }
}
