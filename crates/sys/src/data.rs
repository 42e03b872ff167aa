//! Bytes of open files: reads and writes of a range, moves within the kernel, and a close that reports errors. Calls that a signal interrupted
//! are repeated. A call may do less than it was asked for; the caller goes on.

use atta_entry::Errno;
use rustix::fd::{AsFd, OwnedFd};

use crate::raw;
use crate::retry::{errno, retry_interrupted};

/// Reads at the position of a file. 0: the end.
pub fn read(file: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    retry_interrupted(|| rustix::io::read(&file, &mut *buffer))
}

/// Reads at an offset. 0: the end.
pub fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    retry_interrupted(|| rustix::io::pread(&file, &mut *buffer, offset))
}

/// Writes at an offset.
pub fn write_at(file: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    retry_interrupted(|| rustix::io::pwrite(&file, bytes, offset))
}

/// Reads at an offset until the buffer is full or the file ends. Returns how many bytes there are.
pub fn read_full_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read_at(&file, &mut buffer[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Writes all bytes at an offset.
pub fn write_all_at(file: impl AsFd, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        written += write_at(&file, &bytes[written..], offset + written as u64)?;
    }
    Ok(())
}

/// Lets the kernel copy a range to the same offset of another file (`copy_file_range`). 0: the end.
pub fn copy_range(from: impl AsFd, to: impl AsFd, offset: u64, bytes: usize) -> Result<usize, Errno> {
    retry_interrupted(|| {
        let (mut here, mut there) = (offset, offset);
        rustix::fs::copy_file_range(&from, Some(&mut here), &to, Some(&mut there), bytes)
    })
}

/// Closes a file. It is closed also after an error, such as one that a server reports only now.
pub fn close(file: OwnedFd) -> Result<(), Errno> {
    raw::close(file).map_err(errno)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use atta_testkit::scratch::Scratch;

    use super::*;

    #[test]
    fn bytes_go_where_they_are_to_go() {
        let scratch = Scratch::new("data").unwrap();
        let (from, to) = (scratch.join("from"), scratch.join("to"));
        std::fs::write(&from, b"0123456789").unwrap();
        let (from, copy) = (File::open(&from).unwrap(), File::create_new(&to).unwrap());
        let mut buffer = [0; 4];
        assert_eq!((read_at(&from, &mut buffer, 8), &buffer[..2]), (Ok(2), &b"89"[..]));
        assert_eq!(read_at(&from, &mut buffer, u64::MAX), Err(Errno::INVAL));
        assert_eq!((read(&from, &mut buffer), &buffer), (Ok(4), b"0123"));
        assert_eq!((read(&from, &mut buffer), &buffer), (Ok(4), b"4567"));
        assert_eq!(write_at(&copy, b"ab", 3), Ok(2));
        assert_eq!(write_at(&from, b"ab", 3), Err(Errno(libc::EBADF)));
        assert_eq!(copy_range(&from, &copy, 6, 100), Ok(4));
        assert_eq!(std::fs::read(&to).unwrap(), b"\0\0\0ab\x006789");
        assert_eq!(close(copy.into()), Ok(()));
    }
}
