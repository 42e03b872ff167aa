//! Copies a range of a file to another one: in the kernel (`copy_file_range`), or through a buffer if the kernel cannot.
//!
//! | state | step | after it | if it fails |
//! | --- | --- | --- | --- |
//! | Asking | `copy_file_range` | repeated until all is copied | Reading, if the kernel cannot copy here; else returned |
//! | Reading | `read` | Writing; 0 bytes: the end of the source | returned |
//! | Writing | `write` | repeated after a short write, then Reading | returned |
//!
//! `copy_file_range` returns 0 at the end of the source, but also for files in `/proc`, whose length is unknown: if the first
//! call returns 0, a read decides. Data that was copied before a failure or a stop stays.

use atta_entry::Errno;

use super::{Held, Next, Steps};
use crate::{At, Buffer, Fd, Op, Outcome, Work};

/// The maximum per `copy_file_range`, which bounds the time until a stop takes effect. It is a multiple of all block sizes, so
/// that file systems that share blocks can do so.
const RANGE_BYTES: u64 = 16 << 20;
/// Bytes per read where the kernel does not copy.
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

/// Copies up to `bytes` bytes, or fewer if the source ends earlier.
///
/// The result is the number of bytes copied. If source and target are the same bytes, the copy is refused (`EINVAL`) where the
/// kernel detects it; it cannot on different mounts. A target that was opened with `O_APPEND` gets the data at its end.
#[must_use]
pub fn copy(from: Fd, from_offset: u64, to: Fd, to_offset: u64, bytes: u64) -> Work {
    super::work(Copy::new(from, from_offset, to, to_offset, bytes))
}

impl Copy {
    pub(super) fn new(from: Fd, from_offset: u64, to: Fd, to_offset: u64, bytes: u64) -> Self {
        Self { state: State::Start, from, from_offset, to, to_offset, bytes, copied: 0 }
    }

    /// Whether the kernel cannot copy here, but reading and writing may work.
    fn is_beyond_kernel(&self, errno: Errno) -> bool {
        match errno.0 {
            libc::EXDEV | libc::ENOSYS | libc::EOPNOTSUPP | libc::EBADF => true,
            // Also returned for overlapping ranges of one file, which reading and writing would corrupt.
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

    /// Writes the data that was read and not yet written.
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
                // A full device may write nothing and report success.
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
