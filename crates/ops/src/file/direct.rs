//! Copies large files past the page cache (`O_DIRECT`) if both file systems support it, in whole pages with page-aligned memory. A tail is
//! padded with zeros, which are truncated at once.

use std::ops::Range;

use atta_aio::Buffer;
use atta_entry::Errno;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::error::{FileError, Step};
use super::mover::{Mover, Way};
use atta_sys::retry;

/// Smaller files are copied through the cache.
const FILE_LEAST: u64 = 1 << 20;
/// Alignment of offsets, lengths and addresses: enough for all known file systems.
const ALIGNMENT: usize = 4096;
/// Bytes moved at a time. Large, because there is no read-ahead or write-behind.
const BLOCK: usize = 4 << 20;

/// Sets a large file and its copy to bypass the page cache, if both file systems support it. False: the file is large, and they do not.
pub(crate) fn bypass_cache(source: impl AsFd, copy: impl AsFd, bytes: u64, has_holes: bool) -> bool {
    if bytes < FILE_LEAST {
        return true;
    }
    // Data between holes may begin anywhere.
    let can = !has_holes && set(&source, true).is_ok() && set(&copy, true).is_ok();
    if !can {
        // With only one side direct, its alignment rules would still apply.
        let _ = set(&source, false);
    }
    can
}

impl Mover {
    /// Whether one of two files bypasses the cache; another thread may be turning it off for both.
    pub(crate) fn is_direct(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
        is_past_cache(from) || is_past_cache(to)
    }

    /// Moves a range that begins at a page. Returns the offset reached.
    pub(crate) fn copy_direct(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        range: Range<u64>,
        way: &mut Way<'_>,
    ) -> Result<u64, FileError> {
        let room = self.pages();
        let mut at = range.start;
        while at < range.end {
            let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(BLOCK);
            self.wait_for(wanted);
            let place = |bytes: usize| room..room + bytes;
            // At the end of the file, with the byte that must not be there.
            let bytes = wanted + way.bytes_past(at + wanted as u64);
            let mut read = self.read_into(from, at, place(bytes.next_multiple_of(ALIGNMENT)));
            if matches!(read, Err(FileError::Failed(_, Errno::INVAL))) && self.give_up([from, to]) {
                read = self.read_into(from, at, place(bytes));
            }
            if bytes > wanted && *read.as_ref().unwrap_or(&0) > wanted {
                return Err(FileError::Changed);
            }
            let read = read?.min(wanted);
            if read == 0 {
                break;
            }
            if let Some(hasher) = &mut way.hasher {
                self.show(place(read));
                hasher.update(self.shown());
            }
            let is_last = at + read as u64 == range.end;
            if !is_last && !read.is_multiple_of(ALIGNMENT) {
                // A short read: the rest does not begin at a page.
                self.give_up([from, to]);
            }
            match is_last {
                true => self.write_pages([from, to], at, room, read)?,
                false => self.write_exactly([from, to], at, room..room + read)?,
            }
            at += read as u64;
        }
        Ok(at)
    }

    /// Writes the end of a chunk, `bytes` bytes at `room`, in whole pages. A chunk that does not end at a page is the last of its file; the
    /// padding is truncated.
    fn write_pages(
        &mut self,
        files: [BorrowedFd<'_>; 2],
        at: u64,
        room: usize,
        bytes: usize,
    ) -> Result<(), FileError> {
        let [_, to] = files;
        let padded = bytes.next_multiple_of(ALIGNMENT);
        if padded == bytes || !is_past_cache(to) {
            return self.write_exactly(files, at, room..room + bytes);
        }
        self.show(room + bytes..room + padded);
        self.shown_mut().fill(0);
        self.write_exactly(files, at, room..room + padded)?;
        let cut = retry(|| rustix::fs::ftruncate(to, at + bytes as u64));
        cut.map_err(|errno| FileError::new(Step::Write, errno))
    }

    fn write_exactly(
        &mut self,
        files: [BorrowedFd<'_>; 2],
        at: u64,
        part: Range<usize>,
    ) -> Result<(), FileError> {
        match self.write_from(files[1], at, part.clone()) {
            Err(FileError::Failed(_, Errno::INVAL)) if self.give_up(files) => {
                self.write_from(files[1], at, part)
            }
            written => written,
        }
    }

    /// Makes the buffer large enough. Returns where a page begins in it.
    fn pages(&mut self) -> usize {
        self.with_buffer(|buffer| {
            buffer.show_all();
            // A page to begin at one, and one behind the end of the file.
            if buffer.len() < BLOCK + 2 * ALIGNMENT {
                *buffer = Buffer::zeroed(BLOCK + 2 * ALIGNMENT);
            }
            // If the memory cannot be aligned, the kernel refuses it, and the file goes through the cache.
            buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT)
        })
    }

    /// Makes a file and its copy use the cache after all, on all threads of this rank. Returns whether that worked.
    fn give_up(&mut self, files: [BorrowedFd<'_>; 2]) -> bool {
        self.not_direct += u64::from(files.iter().any(|fd| is_past_cache(*fd)));
        files.iter().all(|fd| set(fd, false).is_ok())
    }
}

fn is_past_cache(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
}

fn set(fd: impl AsFd, is_direct: bool) -> Result<(), Errno> {
    let flags = retry(|| fcntl_getfl(&fd))?;
    let flags = if is_direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
    retry(|| fcntl_setfl(&fd, flags))
}
