//! Moves the bytes of one file, or only reads them, range by range, and keeps its holes. What a file is called and
//! what else it has, is not known here.

use std::ops::Range;
use std::sync::Arc;

use atta_aio::{At, Buffer, Fd, Op, perform};
use atta_entry::Errno;
use atta_runtime::{Rate, Stop};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::SeekFrom;

use super::Options;
use super::patience::{patiently, read_patiently};
use super::trouble::{Doing, Trouble};
use super::within::Within;
use crate::digest::Piece;
use crate::walk::kernel::retry;

/// Bytes that are moved at a time. More would push each other out of the caches; and the kernel looks for as much memory in one piece for
/// what is written by one call (folios), which on a virtual machine is memory that its host has taken back first of all.
const BLOCK: usize = 128 << 10;

/// What one thread moves bytes with.
#[derive(Debug)]
pub(crate) struct Mover {
    buffer: Buffer,
    /// No more bytes a second than that, until all is to end.
    pace: Option<(Arc<Rate>, Stop)>,
    /// Some files may go past the cache.
    may_be_direct: bool,
    /// Who is asked to move bytes that nobody looks at.
    pub(crate) within: Within,
    /// Another thread is at the same file: the kernel would have one of them wait while it moves bytes for the other one.
    pub(crate) is_shared: bool,
    /// Files that should have, and turned out not to be able to.
    pub(crate) not_direct: u64,
}

/// How the bytes of a file are to be moved.
pub(crate) struct Way<'a> {
    /// The file has fewer blocks than bytes: holes are looked for.
    pub(crate) has_holes: bool,
    /// Takes each byte, also those of holes.
    pub(crate) hasher: Option<&'a mut Piece>,
}

impl Default for Mover {
    fn default() -> Self {
        Self {
            buffer: Buffer::zeroed(BLOCK),
            pace: None,
            may_be_direct: false,
            within: Within::Nobody,
            is_shared: false,
            not_direct: 0,
        }
    }
}

impl Mover {
    /// Moves bytes as the options say.
    pub(crate) fn new(options: &Options<'_>, within: Within) -> Self {
        let pace = options.bandwidth.as_ref().map(|rate| (Arc::clone(rate), options.walk.stop.clone()));
        // Who waits for others does not see who is faster.
        let is_paced = pace.is_some() && within != Within::Servers;
        let within = if is_paced { Within::Nobody } else { within };
        Self { pace, may_be_direct: options.direct, within, ..Self::default() }
    }

    /// That asks those.
    #[cfg(test)]
    pub(crate) fn within(within: Within) -> Self {
        Self { within, ..Self::default() }
    }

    /// Waits until so many more bytes may be moved.
    pub(crate) fn wait_for(&self, bytes: usize) {
        if let Some((rate, stop)) = &self.pace {
            rate.acquire(bytes as u64, stop);
        }
    }

    /// Moves a range; returns how far it came: not to its end only if the source ends before.
    pub(crate) fn copy(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        range: Range<u64>,
        way: Way<'_>,
    ) -> Result<u64, Trouble> {
        self.pass(from, Some(to), range, way)
    }

    /// Reads a range, which goes nowhere but to the hasher; returns how far it came.
    pub(crate) fn hash(
        &mut self,
        from: BorrowedFd<'_>,
        range: Range<u64>,
        way: Way<'_>,
    ) -> Result<u64, Trouble> {
        self.pass(from, None, range, way)
    }

    /// Writes each block of a range that differs from the source's, or cannot be read. `has_written`: whether it came to that.
    pub(crate) fn mend(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        range: Range<u64>,
        has_written: &mut bool,
    ) -> Result<(), Trouble> {
        let mut at = range.start;
        while at < range.end {
            let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(BLOCK);
            let there = self.read(to, at, wanted).map(|_| self.buffer.as_slice().to_vec());
            let read = self.read(from, at, wanted)?;
            if read == 0 {
                return Err(Trouble::Changed);
            }
            if !there.is_ok_and(|there| there.get(..read) == Some(self.buffer.as_slice())) {
                *has_written = true;
                self.write(to, at, read)?;
            }
            at += read as u64;
        }
        Ok(())
    }

    fn pass(
        &mut self,
        from: BorrowedFd<'_>,
        to: Option<BorrowedFd<'_>>,
        range: Range<u64>,
        mut way: Way<'_>,
    ) -> Result<u64, Trouble> {
        if self.may_be_direct
            && let Some(to) = to
            && Self::is_direct(from, to)
        {
            return self.copy_direct(from, to, range, &mut way);
        }
        if !way.has_holes {
            return self.pass_data(from, to, range, &mut way);
        }
        let mut at = range.start;
        while at < range.end {
            let Some(data) = seek(from, SeekFrom::Data(at))? else { break };
            let data = data.min(range.end);
            way.hash_zeros(data - at);
            at = data;
            let hole = seek(from, SeekFrom::Hole(at))?.unwrap_or(at).min(range.end);
            if hole <= at && at < range.end {
                // There was data here a moment ago.
                return Err(Trouble::Changed);
            }
            let end = self.pass_data(from, to, at..hole, &mut way)?;
            if end < hole {
                return Ok(end);
            }
            at = end;
        }
        way.hash_zeros(range.end - at);
        Ok(range.end)
    }

    fn pass_data(
        &mut self,
        from: BorrowedFd<'_>,
        to: Option<BorrowedFd<'_>>,
        range: Range<u64>,
        way: &mut Way<'_>,
    ) -> Result<u64, Trouble> {
        match (to, &way.hasher) {
            (Some(to), None) => self.pass_unseen(from, to, &range),
            _ => self.pass_through(from, to, range, way),
        }
    }

    /// Reads and writes a range.
    pub(crate) fn pass_plainly(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        range: &Range<u64>,
    ) -> Result<u64, Trouble> {
        self.pass_through(from, Some(to), range.clone(), &mut Way { has_holes: false, hasher: None })
    }

    /// Reads a range, and does with it what is wanted.
    fn pass_through(
        &mut self,
        from: BorrowedFd<'_>,
        to: Option<BorrowedFd<'_>>,
        range: Range<u64>,
        way: &mut Way<'_>,
    ) -> Result<u64, Trouble> {
        let mut at = range.start;
        while at < range.end {
            let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(BLOCK);
            self.wait_for(wanted);
            let read = self.read(from, at, wanted)?;
            if read == 0 {
                break;
            }
            if let Some(hasher) = &mut way.hasher {
                hasher.update(self.buffer.as_slice());
            }
            if let Some(to) = to {
                self.write(to, at, read)?;
            }
            at += read as u64;
        }
        Ok(at)
    }

    /// Reads so many bytes, or fewer; the buffer shows them.
    fn read(&mut self, from: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<usize, Trouble> {
        let read = self.read_into(from, offset, 0..bytes)?;
        self.show(0..read);
        Ok(read)
    }

    /// Reads into a part of the buffer; how many bytes.
    pub(crate) fn read_into(
        &mut self,
        from: BorrowedFd<'_>,
        offset: u64,
        part: Range<usize>,
    ) -> Result<usize, Trouble> {
        self.show(part);
        let at = At::Offset(offset);
        let read = read_patiently(|| self.perform(|buffer| Op::Read { fd: raw(from), buffer, at }));
        read.map_err(|errno| Trouble::new(Doing::Read, errno))
    }

    /// Writes the first so many bytes of the buffer, all of them.
    fn write(&mut self, to: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<(), Trouble> {
        self.write_from(to, offset, 0..bytes)
    }

    /// Writes a part of the buffer, all of it.
    pub(crate) fn write_from(
        &mut self,
        to: BorrowedFd<'_>,
        offset: u64,
        part: Range<usize>,
    ) -> Result<(), Trouble> {
        let mut done = 0;
        while part.start + done < part.end {
            self.show(part.start + done..part.end);
            let at = At::Offset(offset + done as u64);
            let written = patiently(|| self.perform(|buffer| Op::Write { fd: raw(to), buffer, at }));
            match written.map_err(|errno| Trouble::new(Doing::Write, errno))? {
                // No file system says so and goes on.
                0 => return Err(Trouble::new(Doing::Write, Errno::IO)),
                written => done += written,
            }
        }
        Ok(())
    }

    /// Shows a part of the buffer alone.
    pub(crate) fn show(&mut self, part: Range<usize>) {
        self.buffer.show(part);
    }

    /// The part that is shown.
    pub(crate) fn shown(&self) -> &[u8] {
        self.buffer.as_slice()
    }

    /// The same, to be changed.
    pub(crate) fn shown_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut_slice()
    }

    /// Does something with the buffer itself.
    pub(crate) fn with_buffer<T>(&mut self, with: impl FnOnce(&mut Buffer) -> T) -> T {
        with(&mut self.buffer)
    }

    fn perform(&mut self, op: impl FnOnce(Buffer) -> Op) -> Result<usize, Errno> {
        let mut op = op(std::mem::take(&mut self.buffer));
        let outcome = perform(&mut op);
        self.buffer = op.into_buffer().unwrap_or_default();
        outcome.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

impl Way<'_> {
    fn hash_zeros(&mut self, bytes: u64) {
        if let Some(hasher) = &mut self.hasher {
            hasher.zeros(bytes);
        }
    }
}

fn raw(fd: BorrowedFd<'_>) -> Fd {
    Fd::Raw(fd.as_raw_fd())
}

/// Where the next data or hole begins; none: there is no more data.
pub(crate) fn seek(fd: impl AsFd, to: SeekFrom) -> Result<Option<u64>, Trouble> {
    match retry(|| rustix::fs::seek(&fd, to)) {
        Ok(at) => Ok(Some(at)),
        // ENXIO
        Err(Errno(6)) => Ok(None),
        Err(errno) => Err(Trouble::new(Doing::Read, errno)),
    }
}
