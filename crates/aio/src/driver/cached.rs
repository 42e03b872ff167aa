//! Whether data of a file is in the page cache, as far as the kernel reports it. It starts no reads.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// The number of `cachestat` (Linux 6.5), on every architecture.
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// The counts of pages that the kernel returns.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    written_back: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How far beyond a read the file must be cached, too. If it is not, readahead is still loading it.
const AHEAD: u64 = 4 << 20;
/// The distance of the sampled pages. Sampling all takes some 10 ns per page, a thirtieth of the time to copy them.
const STEP: usize = 512 << 10;

/// The last range found in the cache, so that sequential reads need one query for many. The range may be evicted since, or the
/// descriptor may name another file: both are harmless, since threads carry out such reads.
#[derive(Default)]
pub(super) struct Cached {
    fd: RawFd,
    from: u64,
    until: u64,
}

impl Cached {
    /// Whether these bytes and the following ones are cached, by samples. It also returns false if the kernel does not support
    /// the query or refuses it, as for files that the caller neither owns nor may write.
    pub(super) fn has(&mut self, fd: RawFd, offset: u64, bytes: usize) -> bool {
        let end = offset.saturating_add(bytes as u64);
        if self.fd == fd && self.from <= offset && end <= self.until {
            return true;
        }
        let Some(length) = length(fd) else { return false };
        let (end, far) = (end.min(length), end.saturating_add(AHEAD).min(length));
        // Pages that are being read from the disk count as cached, but cannot be read at once.
        let are_there = offset < end
            && (offset..far).step_by(STEP).all(|at| is_there(fd, at))
            && is_there(fd, far - 1)
            && can_be_read_at_once(fd, end - 1)
            && can_be_read_at_once(fd, far - 1);
        if are_there {
            *self = Self { fd, from: offset, until: far };
        }
        are_there
    }
}

fn length(fd: RawFd) -> Option<u64> {
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the call fills the structure.
    let status = unsafe { libc::fstat(fd, found.as_mut_ptr()) };
    // SAFETY: any bits are a valid value, and these are zero or were written by the call.
    let found = unsafe { found.assume_init() };
    if status == 0 { u64::try_from(found.st_size).ok() } else { None }
}

/// Whether the page of this byte is cached.
fn is_there(fd: RawFd, offset: u64) -> bool {
    let range = Range { offset, bytes: 1 };
    let mut counts = Counts::default();
    // SAFETY: both structures belong to this function, and have the kernel's layout.
    let status = unsafe { libc::syscall(CACHESTAT, fd, &raw const range, &raw mut counts, 0) };
    status == 0 && counts.cached > 0
}

/// Whether a byte can be read without waiting for the disk. File systems without this query, such as those in memory or on a
/// server, are assumed to have the data of each cached page.
fn can_be_read_at_once(fd: RawFd, offset: u64) -> bool {
    let mut byte = [0_u8; 1];
    let vector = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let Ok(offset) = i64::try_from(offset) else { return false };
    // SAFETY: the vector is one byte of this function.
    let read = unsafe { libc::preadv2(fd, &raw const vector, 1, offset, libc::RWF_NOWAIT) };
    read == 1 || read == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn written_pages_are_resident() {
        // SAFETY: takes a name and a number.
        let fd = unsafe { libc::memfd_create(c"atta-cached".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: the descriptor is new, and nothing else owns it.
        let mut file = unsafe { <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(fd) };
        file.write_all(&vec![1; 1 << 20]).unwrap();
        let fd = file.as_raw_fd();
        let is_cached = |fd, offset, bytes| Cached::default().has(fd, offset, bytes);
        if !is_cached(fd, 0, 1 << 20) {
            // SAFETY: a call with null pointers, from which the kernel copies nothing.
            let status = unsafe { libc::syscall(CACHESTAT, fd, 0, 0, 0) };
            let errno = std::io::Error::last_os_error().raw_os_error();
            assert!(status == -1 && errno == Some(libc::ENOSYS), "{errno:?}");
            return;
        }
        // The rest of a file may be short.
        assert!(is_cached(fd, (1 << 20) - 10, 1 << 20));
        assert!(!is_cached(fd, 1 << 20, 1 << 20) && !is_cached(fd, u64::MAX >> 1, 1 << 20));
        assert!(!is_cached(-1, 0, 1 << 20));
    }

    #[test]
    fn holes_found_before_are_remembered() {
        // SAFETY: takes a name and a number.
        let fd = unsafe { libc::memfd_create(c"atta-ahead".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: the descriptor is new, and nothing else owns it.
        let mut file = unsafe { <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(fd) };
        file.write_all(&vec![1; 6 << 20]).unwrap();
        let fd = file.as_raw_fd();
        let mut cached = Cached::default();
        if !cached.has(fd, 0, 1 << 20) {
            return;
        }
        // The first query covered 4 MiB more, which are not queried again, even after a change.
        file.set_len(0).unwrap();
        assert!(cached.has(fd, 3 << 20, 1 << 20) && !cached.has(fd, 5 << 20, 1 << 20));
        // Holes within the read, and beyond it.
        for hole in [1 << 20, 4 << 20] {
            file.set_len(0).unwrap();
            file.set_len(8 << 20).unwrap();
            for at in (0..8 << 20).step_by(1 << 20).filter(|at| *at != hole) {
                std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; 1 << 20], at).unwrap();
            }
            assert!(!Cached::default().has(fd, 0, 2 << 20), "{hole}");
        }
    }
}
