//! Copies large files past the page cache (`O_DIRECT`) if both file systems support it, in whole pages with page-aligned memory. A tail is
//! padded with zeros, which are truncated at once.

use std::ops::Range;

use atta_entry::Errno;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::error::{FileError, Step};
use super::mover::{Files, Mover, Pass};
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

impl Files<'_> {
    /// Whether one of the two bypasses the cache; another thread may be turning it off for both.
    pub(crate) fn is_direct(self) -> bool {
        is_past_cache(self.source) || is_past_cache(self.target)
    }
}

impl Mover {
    /// Moves a range that begins at a page. Returns the offset reached.
    pub(crate) fn copy_direct(
        &mut self,
        files: Files<'_>,
        pass: &mut Pass<'_>,
        range: Range<u64>,
    ) -> Result<u64, FileError> {
        let page = self.pages();
        let mut at = range.start;
        while at < range.end {
            let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(BLOCK);
            self.wait_for(wanted);
            let part = |bytes: usize| page..page + bytes;
            // At the end of the file, with the byte that must not be there.
            let bytes = wanted + pass.bytes_past(at + wanted as u64);
            let mut read = self.read_into(files.source, at, part(bytes.next_multiple_of(ALIGNMENT)));
            if matches!(read, Err(FileError::Failed(_, Errno::INVAL))) && self.give_up(files) {
                read = self.read_into(files.source, at, part(bytes));
            }
            if bytes > wanted && *read.as_ref().unwrap_or(&0) > wanted {
                return Err(FileError::Changed);
            }
            let read = read?.min(wanted);
            if read == 0 {
                break;
            }
            if let Some(hasher) = &mut pass.hasher {
                self.show(part(read));
                hasher.update(self.shown());
            }
            let is_last = at + read as u64 == range.end;
            if !is_last && !read.is_multiple_of(ALIGNMENT) {
                // A short read: the rest does not begin at a page.
                self.give_up(files);
            }
            match is_last {
                true => self.write_pages(files, at, part(read))?,
                false => self.write_exactly(files, at, part(read))?,
            }
            at += read as u64;
        }
        Ok(at)
    }

    /// Writes the end of a chunk, a part of the buffer, in whole pages. A chunk that does not end at a page is the last of its file; the
    /// padding is truncated.
    fn write_pages(&mut self, files: Files<'_>, at: u64, part: Range<usize>) -> Result<(), FileError> {
        let padded = part.start + part.len().next_multiple_of(ALIGNMENT);
        if padded == part.end || !is_past_cache(files.target) {
            return self.write_exactly(files, at, part);
        }
        self.show(part.end..padded);
        self.shown_mut().fill(0);
        self.write_exactly(files, at, part.start..padded)?;
        let cut = retry(|| rustix::fs::ftruncate(files.target, at + part.len() as u64));
        cut.map_err(|errno| FileError::new(Step::Write, errno))
    }

    fn write_exactly(&mut self, files: Files<'_>, at: u64, part: Range<usize>) -> Result<(), FileError> {
        match self.write_from(files.target, at, part.clone()) {
            Err(FileError::Failed(_, Errno::INVAL)) if self.give_up(files) => {
                self.write_from(files.target, at, part)
            }
            written => written,
        }
    }

    /// Makes the buffer large enough. Returns where a page begins in it.
    fn pages(&mut self) -> usize {
        // A page to begin at one, and one behind the end of the file.
        let buffer = self.buffer_of(BLOCK + 2 * ALIGNMENT);
        // If the memory cannot be aligned, the kernel refuses it, and the file goes through the cache.
        buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT)
    }

    /// Makes a file and its copy use the cache after all, on all threads of this rank. Returns whether that worked.
    fn give_up(&mut self, files: Files<'_>) -> bool {
        self.not_direct += u64::from(files.is_direct());
        [files.source, files.target].iter().all(|fd| set(fd, false).is_ok())
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
