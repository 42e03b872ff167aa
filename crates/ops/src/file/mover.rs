//! Moves or only reads the bytes of one file, range by range, and keeps its holes. It does not know names or metadata.
//!
//! A file with more bytes than its size says has changed, or its size is wrong. Detecting that costs no extra system call: the read at the
//! end of the file asks for one more byte.

use std::ops::Range;
use std::sync::Arc;

use atta_entry::Errno;
use atta_runtime::{Rate, Stop};
use rustix::fd::BorrowedFd;
use rustix::fs::SeekFrom;

use super::error::{FileError, Step};
use super::holes::seek;
use super::kernel_copy::Within;
use super::retries::{patiently, read_patiently};
use super::sizes::{SizeKnowledge, UNKNOWN_SIZE_MOST};
use crate::digest::Piece;
use atta_sys::data;

/// Bytes moved at a time. Larger blocks would evict each other from the caches. Also, the kernel allocates contiguous memory for the data
/// of one write (folios), which on a virtual machine is the memory that the host reclaims first.
const BLOCK: usize = 128 << 10;

/// The state of one thread that moves bytes.
#[derive(Debug)]
pub(crate) struct Mover {
    buffer: Vec<u8>,
    /// The part of the buffer that calls use.
    shown: Range<usize>,
    /// Limit of bytes per second, and the flag that ends waiting for it.
    pace: Option<(Arc<Rate>, Stop)>,
    /// Ends long work without reads or writes when set.
    stop: Stop,
    /// Which file sizes are reliable.
    pub(crate) sizes: SizeKnowledge,
    /// Some files may bypass the page cache.
    may_be_direct: bool,
    /// Who moves bytes that this process need not see.
    pub(crate) within: Within,
    /// Another thread works on the same file. The kernel would block one of them while it moves bytes for the other.
    pub(crate) is_shared: bool,
    /// Files that were to bypass the page cache and could not.
    pub(crate) not_direct: u64,
}

/// What one pass reads, and what gets the bytes.
pub(crate) struct Pass<'a> {
    pub(crate) source: BorrowedFd<'a>,
    /// The copy that gets the bytes. None: they are only hashed.
    pub(crate) target: Option<BorrowedFd<'a>>,
    /// The source has fewer blocks than bytes: holes are looked for.
    pub(crate) has_holes: bool,
    /// Size of the source. A range that ends there is read one byte further, where there must be no data.
    pub(crate) size: u64,
    /// Gets each byte, including those of holes.
    pub(crate) hasher: Option<&'a mut Piece>,
}

/// An open file and its open copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'a> {
    pub(crate) source: BorrowedFd<'a>,
    pub(crate) target: BorrowedFd<'a>,
}

impl Default for Mover {
    fn default() -> Self {
        Self {
            // One byte more, to detect data past the end.
            buffer: vec![0; BLOCK + 1],
            shown: 0..0,
            pace: None,
            stop: Stop::new(),
            sizes: SizeKnowledge::default(),
            may_be_direct: false,
            within: Within::Nobody,
            is_shared: false,
            not_direct: 0,
        }
    }
}

impl Mover {
    /// Moves at most `bandwidth` bytes per second, until `stop`. Bypasses the page cache if `is_direct` and possible.
    pub(crate) fn new(bandwidth: Option<&Arc<Rate>>, is_direct: bool, within: Within, stop: &Stop) -> Self {
        let pace = bandwidth.map(|rate| (Arc::clone(rate), stop.clone()));
        // A paced thread cannot measure which way is faster.
        let is_paced = pace.is_some() && within != Within::Servers;
        let within = if is_paced { Within::Nobody } else { within };
        Self { pace, stop: stop.clone(), may_be_direct: is_direct, within, ..Self::default() }
    }

    /// Reads at full speed, until `stop`.
    pub(crate) fn reading(stop: &Stop) -> Self {
        Self { stop: stop.clone(), ..Self::default() }
    }

    /// A mover with this `within`.
    #[cfg(test)]
    pub(crate) fn within(within: Within) -> Self {
        Self { within, ..Self::default() }
    }

    /// Waits until `bytes` more bytes may be moved.
    pub(crate) fn wait_for(&self, bytes: usize) {
        if let Some((rate, stop)) = &self.pace {
            rate.acquire(bytes as u64, stop);
        }
    }

    /// Reads a range, and hashes and writes it as the pass asks. Returns the offset reached, which is less than the end only if the source
    /// ends early.
    pub(crate) fn pass(&mut self, mut pass: Pass<'_>, range: Range<u64>) -> Result<u64, FileError> {
        let pass = &mut pass;
        if self.may_be_direct
            && let Some(files) = pass.files()
            && files.is_direct()
        {
            return self.copy_direct(files, pass, range);
        }
        if !pass.has_holes {
            return self.pass_data(pass, range);
        }
        let mut at = range.start;
        while at < range.end {
            let Some(data) = seek(pass.source, SeekFrom::Data(at))? else { break };
            if data >= range.end {
                if range.end == pass.size {
                    // The range should reach the end of the file.
                    return Err(FileError::Changed);
                }
                break;
            }
            self.hash_zeros(pass, data - at)?;
            at = data;
            let hole = seek(pass.source, SeekFrom::Hole(at))?.unwrap_or(at).min(range.end);
            if hole <= at && at < range.end {
                // There was data here a moment ago.
                return Err(FileError::Changed);
            }
            let end = self.pass_data(pass, at..hole)?;
            if end < hole {
                return Ok(end);
            }
            at = end;
        }
        self.hash_zeros(pass, range.end - at)?;
        Ok(range.end)
    }

    /// Reads a file of unknown size from beginning to end, and writes it to the copy, if any. Returns its length. Fails past
    /// [`UNKNOWN_SIZE_MOST`].
    pub(crate) fn pass_to_end(
        &mut self,
        from: BorrowedFd<'_>,
        to: Option<BorrowedFd<'_>>,
        mut hasher: Option<&mut Piece>,
    ) -> Result<u64, FileError> {
        let mut at = 0;
        loop {
            let read = self.read_on(from)?;
            if read == 0 {
                return Ok(at);
            }
            self.wait_for(read);
            if at + read as u64 > UNKNOWN_SIZE_MOST {
                return Err(FileError::new(Step::ReadToEnd, Errno::FBIG));
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(self.shown());
            }
            if let Some(to) = to {
                self.write(to, at, read)?;
            }
            at += read as u64;
        }
    }

    /// Whether a file of unknown size has the same bytes as another, from beginning to end.
    pub(crate) fn is_same_to_end(
        &mut self,
        from: BorrowedFd<'_>,
        other: BorrowedFd<'_>,
    ) -> Result<bool, FileError> {
        let mut at = 0;
        while at <= UNKNOWN_SIZE_MOST {
            let read = self.read_on(from)?;
            let bytes = self.shown().to_vec();
            // At the end of one, the other must end too.
            let mut found = 0;
            while found < read.max(1) {
                match self.read(other, at + found as u64, read.max(1) - found)? {
                    0 => break,
                    more if bytes.get(found..found + more) == Some(self.shown()) => found += more,
                    _ => return Ok(false),
                }
            }
            if read == 0 || found < read {
                return Ok(found == read);
            }
            at += read as u64;
        }
        Err(FileError::new(Step::ReadToEnd, Errno::FBIG))
    }

    /// Fails if a file has more bytes than its size says. For bytes that were moved without being read here.
    pub(crate) fn check_end(&mut self, from: BorrowedFd<'_>, size: u64) -> Result<(), FileError> {
        if size < OFFSET_MOST && self.read(from, size, 1)? > 0 {
            return Err(FileError::Changed);
        }
        Ok(())
    }

    /// Rewrites each block of a range that differs from the source or cannot be read. Sets `has_written` if it writes any.
    pub(crate) fn mend(
        &mut self,
        files: Files<'_>,
        range: Range<u64>,
        has_written: &mut bool,
    ) -> Result<(), FileError> {
        let mut at = range.start;
        while at < range.end {
            let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(BLOCK);
            let there = self.read(files.target, at, wanted).map(|_| self.shown().to_vec());
            let read = self.read(files.source, at, wanted)?;
            if read == 0 {
                return Err(FileError::Changed);
            }
            self.go_on()?;
            if !there.is_ok_and(|there| there.get(..read) == Some(self.shown())) {
                *has_written = true;
                self.write(files.target, at, read)?;
            }
            at += read as u64;
        }
        Ok(())
    }

    /// Hashes zeros of a hole. No reads are needed, but hashing takes long, so it ends soon after `stop`.
    fn hash_zeros(&self, pass: &mut Pass<'_>, bytes: u64) -> Result<(), FileError> {
        let Some(hasher) = &mut pass.hasher else { return Ok(()) };
        match hasher.zeros_while(bytes, || !self.stop.is_set()) {
            true => Ok(()),
            false => Err(FileError::Stopped),
        }
    }

    fn go_on(&self) -> Result<(), FileError> {
        if self.stop.is_set() { Err(FileError::Stopped) } else { Ok(()) }
    }

    fn pass_data(&mut self, pass: &mut Pass<'_>, range: Range<u64>) -> Result<u64, FileError> {
        match (pass.files(), &pass.hasher) {
            (Some(files), None) => self.copy_unseen(files, &range, pass.size),
            _ => self.pass_through(pass, range),
        }
    }

    /// Reads and writes a range.
    pub(crate) fn copy_by_buffer(
        &mut self,
        files: Files<'_>,
        range: &Range<u64>,
        size: u64,
    ) -> Result<u64, FileError> {
        let Files { source, target } = files;
        let mut pass = Pass { source, target: Some(target), has_holes: false, size, hasher: None };
        self.pass_through(&mut pass, range.clone())
    }

    /// Reads data, hashes it and writes it, as the pass asks.
    fn pass_through(&mut self, pass: &mut Pass<'_>, range: Range<u64>) -> Result<u64, FileError> {
        let mut at = range.start;
        while at < range.end {
            let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(BLOCK);
            self.wait_for(wanted);
            let read = self.read(pass.source, at, wanted + pass.bytes_past(at + wanted as u64))?;
            if read == 0 {
                break;
            }
            if read > wanted {
                return Err(FileError::Changed);
            }
            if let Some(hasher) = &mut pass.hasher {
                hasher.update(self.shown());
            }
            if let Some(to) = pass.target {
                self.write(to, at, read)?;
            }
            at += read as u64;
        }
        Ok(at)
    }

    /// Reads up to `bytes` bytes; the buffer shows them.
    fn read(&mut self, from: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<usize, FileError> {
        let read = self.read_into(from, offset, 0..bytes)?;
        self.show(0..read);
        Ok(read)
    }

    /// Reads the next bytes of a file of unknown size; 0: the end.
    fn read_on(&mut self, from: BorrowedFd<'_>) -> Result<usize, FileError> {
        self.go_on()?;
        self.show(0..BLOCK);
        let read = read_patiently(|| data::read(from, self.shown_mut()));
        let read = read.map_err(|errno| FileError::new(Step::Read, errno))?;
        self.show(0..read);
        Ok(read)
    }

    /// Reads into a part of the buffer. Returns how many bytes.
    pub(crate) fn read_into(
        &mut self,
        from: BorrowedFd<'_>,
        offset: u64,
        part: Range<usize>,
    ) -> Result<usize, FileError> {
        self.show(part);
        let read = read_patiently(|| data::read_at(from, self.shown_mut(), offset));
        read.map_err(|errno| FileError::new(Step::Read, errno))
    }

    /// Writes the first so many bytes of the buffer, all of them.
    fn write(&mut self, to: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<(), FileError> {
        self.write_from(to, offset, 0..bytes)
    }

    /// Writes a part of the buffer, all of it.
    pub(crate) fn write_from(
        &mut self,
        to: BorrowedFd<'_>,
        offset: u64,
        part: Range<usize>,
    ) -> Result<(), FileError> {
        let mut done = 0;
        while part.start + done < part.end {
            self.show(part.start + done..part.end);
            let written = patiently(|| data::write_at(to, self.shown(), offset + done as u64));
            match written.map_err(|errno| FileError::new(Step::Write, errno))? {
                // A write of 0 bytes would repeat forever.
                0 => return Err(FileError::new(Step::Write, Errno::IO)),
                written => done += written,
            }
        }
        Ok(())
    }

    /// Shows only a part of the buffer.
    pub(crate) fn show(&mut self, part: Range<usize>) {
        self.shown = part;
    }

    /// The part that is shown.
    pub(crate) fn shown(&self) -> &[u8] {
        &self.buffer[self.shown.clone()]
    }

    /// The part that is shown, mutable.
    pub(crate) fn shown_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.shown.clone()]
    }

    /// The whole buffer, which has at least so many bytes.
    pub(crate) fn buffer_of(&mut self, bytes_least: usize) -> &[u8] {
        if self.buffer.len() < bytes_least {
            self.buffer = vec![0; bytes_least];
        }
        &self.buffer
    }
}

impl<'a> Pass<'a> {
    /// The source and its copy, if the bytes are copied.
    fn files(&self) -> Option<Files<'a>> {
        self.target.map(|target| Files { source: self.source, target })
    }

    /// How many bytes to request past an offset: one at the end of the file.
    pub(crate) fn bytes_past(&self, offset: u64) -> usize {
        usize::from(offset == self.size && offset < OFFSET_MOST)
    }
}

/// The largest offset at which a file can have a byte.
pub(crate) const OFFSET_MOST: u64 = i64::MAX as u64 - 1;
