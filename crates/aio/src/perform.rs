//! Carries out an operation at once, by system calls of the calling thread: for the thread pool, and for a waiting caller.
//! Nothing is queued here.

use std::ffi::CStr;
use std::os::fd::RawFd;

use atta_entry::Errno;

use crate::op::{At, Op, Place, Sync};

/// The outcome of an operation: a number whose meaning [`Op`] defines, or the error.
pub type Outcome = Result<u64, Errno>;

/// The number that a call returned, or this thread's `errno`.
fn outcome_of(returned: i64) -> Outcome {
    u64::try_from(returned).map_err(|_| last_error())
}

fn last_error() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// The offset in the kernel's type.
fn offset(bytes: u64) -> Result<i64, Errno> {
    i64::try_from(bytes).map_err(|_| Errno::INVAL)
}

/// Carries out `op`. A call that a signal interrupts is repeated.
pub fn perform(op: &mut Op) -> Outcome {
    loop {
        match once(op) {
            // An interrupted close has closed the descriptor.
            Err(Errno(libc::EINTR)) if !matches!(op, Op::Close { .. }) => {}
            outcome => return outcome,
        }
    }
}

fn once(op: &mut Op) -> Outcome {
    match op {
        Op::Nop => Ok(0),
        Op::Open { place, flags, mode } => open(place, *flags, *mode),
        Op::Close { fd } => close(*fd),
        Op::Read { .. } | Op::Write { .. } | Op::ReadVectors { .. } | Op::WriteVectors { .. } => transfer(op),
        Op::Seek { fd, offset, whence } => {
            // SAFETY: takes only numbers.
            outcome_of(unsafe { libc::lseek(fd.raw(), *offset, *whence) })
        }
        Op::Sync { fd, what } => sync(fd.raw(), *what),
        Op::SyncRange { fd, offset: from, bytes, flags } => {
            let (from, bytes) = (offset(*from)?, offset(*bytes)?);
            // SAFETY: takes only numbers.
            outcome_of(unsafe { libc::sync_file_range(fd.raw(), from, bytes, *flags) }.into())
        }
        Op::Allocate { mode, .. } if *mode & libc::FALLOC_FL_COLLAPSE_RANGE != 0 => {
            Err(Errno(libc::EOPNOTSUPP))
        }
        Op::Allocate { fd, mode, offset: from, bytes } => {
            let (from, bytes) = (offset(*from)?, offset(*bytes)?);
            // SAFETY: takes only numbers.
            outcome_of(unsafe { libc::fallocate(fd.raw(), *mode, from, bytes) }.into())
        }
        Op::Truncate { fd, bytes } => {
            let bytes = offset(*bytes)?;
            // SAFETY: takes only numbers.
            outcome_of(unsafe { libc::ftruncate(fd.raw(), bytes) }.into())
        }
        Op::Advise { fd, offset: from, bytes, advice } => {
            let (from, bytes) = (offset(*from)?, offset(*bytes)?);
            // SAFETY: takes only numbers. The call returns its error.
            match unsafe { libc::posix_fadvise(fd.raw(), from, bytes, *advice) } {
                0 => Ok(0),
                error => Err(Errno(error)),
            }
        }
        Op::CopyRange { from, from_offset, to, to_offset, bytes } => {
            let (mut here, mut there) = (offset(*from_offset)?, offset(*to_offset)?);
            // SAFETY: both offsets live until the call returns.
            outcome_of(unsafe {
                libc::copy_file_range(from.raw(), &raw mut here, to.raw(), &raw mut there, *bytes, 0) as i64
            })
        }
        Op::ReadDirectory { fd, buffer } => {
            let (start, bytes) = (buffer.as_mut_ptr(), buffer.len());
            // SAFETY: the buffer belongs to this operation and has this length.
            outcome_of(unsafe { libc::syscall(libc::SYS_getdents64, fd.raw(), start, bytes) })
        }
        Op::Stat { .. } | Op::StatFs { .. } | Op::ReadLink { .. } | Op::Access { .. } => look(op),
        Op::GetAttribute { .. }
        | Op::SetAttribute { .. }
        | Op::ListAttributes { .. }
        | Op::RemoveAttribute { .. } => attribute(op),
        _ => change(op),
    }
}

fn open(place: &Place, flags: i32, mode: u32) -> Outcome {
    // SAFETY: the path ends with NUL and lives until the call returns.
    outcome_of(unsafe { libc::openat(place.dir.raw(), place.path.as_ptr(), flags, mode) }.into())
}

pub(crate) fn close(fd: RawFd) -> Outcome {
    // SAFETY: the caller owns the descriptor.
    outcome_of(unsafe { libc::close(fd) }.into())
}

fn sync(fd: RawFd, what: Sync) -> Outcome {
    match what {
        // SAFETY: takes only a number.
        Sync::All => outcome_of(unsafe { libc::fsync(fd) }.into()),
        // SAFETY: takes only a number.
        Sync::Data => outcome_of(unsafe { libc::fdatasync(fd) }.into()),
    }
}

/// Reads and writes.
fn transfer(op: &mut Op) -> Outcome {
    match op {
        Op::Read { fd, buffer, at } => {
            let (fd, start, bytes) = (fd.raw(), buffer.as_mut_ptr().cast(), buffer.len());
            match at {
                At::Offset(at) => {
                    let at = offset(*at)?;
                    // SAFETY: the buffer belongs to this operation and has this length.
                    outcome_of(unsafe { libc::pread(fd, start, bytes, at) } as i64)
                }
                // SAFETY: as above.
                At::Position => outcome_of(unsafe { libc::read(fd, start, bytes) } as i64),
            }
        }
        Op::Write { fd, buffer, at } => {
            let (fd, start, bytes) = (fd.raw(), buffer.as_ptr().cast(), buffer.len());
            match at {
                At::Offset(at) => {
                    let at = offset(*at)?;
                    // SAFETY: the buffer belongs to this operation and has this length.
                    outcome_of(unsafe { libc::pwrite(fd, start, bytes, at) } as i64)
                }
                // SAFETY: as above.
                At::Position => outcome_of(unsafe { libc::write(fd, start, bytes) } as i64),
            }
        }
        Op::ReadVectors { fd, vectors, at } => {
            let (table, count) = (vectors.table().as_ptr(), count(vectors.table())?);
            match at {
                At::Offset(at) => {
                    let at = offset(*at)?;
                    // SAFETY: the table names only buffers of this operation.
                    outcome_of(unsafe { libc::preadv(fd.raw(), table, count, at) } as i64)
                }
                // SAFETY: as above.
                At::Position => outcome_of(unsafe { libc::readv(fd.raw(), table, count) } as i64),
            }
        }
        Op::WriteVectors { fd, vectors, at } => {
            let (table, count) = (vectors.table().as_ptr(), count(vectors.table())?);
            match at {
                At::Offset(at) => {
                    let at = offset(*at)?;
                    // SAFETY: the table names only buffers of this operation.
                    outcome_of(unsafe { libc::pwritev(fd.raw(), table, count, at) } as i64)
                }
                // SAFETY: as above.
                At::Position => outcome_of(unsafe { libc::writev(fd.raw(), table, count) } as i64),
            }
        }
        _ => Err(Errno(libc::ENOSYS)),
    }
}

fn count(table: &[libc::iovec]) -> Result<i32, Errno> {
    i32::try_from(table.len()).map_err(|_| Errno::INVAL)
}

/// Queries about files.
fn look(op: &mut Op) -> Outcome {
    match op {
        Op::Stat { place, flags, mask, out } => {
            let flags = *flags | empty(place);
            let (dir, path, out) = (place.dir.raw(), place.path.as_ptr(), &raw mut **out);
            // SAFETY: the path ends with NUL; `out` is one structure; both live until the call returns.
            outcome_of(unsafe { libc::statx(dir, path, flags, *mask, out) }.into())
        }
        Op::StatFs { place, out } => {
            let out = &raw mut **out;
            with_file(place, libc::O_PATH | libc::O_CLOEXEC, |fd| {
                // SAFETY: `out` is one structure that lives until the call returns.
                outcome_of(unsafe { libc::fstatfs(fd, out) }.into())
            })
        }
        Op::ReadLink { place, buffer } => {
            let (dir, path) = (place.dir.raw(), place.path.as_ptr());
            let (start, bytes) = (buffer.as_mut_ptr().cast(), buffer.len());
            // SAFETY: the path ends with NUL; the buffer belongs to this operation and has this length.
            outcome_of(unsafe { libc::readlinkat(dir, path, start, bytes) } as i64)
        }
        Op::Access { place, mode, flags } => {
            let (dir, path, flags) = (place.dir.raw(), place.path.as_ptr(), *flags | empty(place));
            // SAFETY: the path ends with NUL and lives until the call returns.
            outcome_of(unsafe { libc::syscall(libc::SYS_faccessat2, dir, path, *mode, flags) })
        }
        _ => Err(Errno(libc::ENOSYS)),
    }
}

/// `AT_EMPTY_PATH` if the place is an open file.
pub(crate) fn empty(place: &Place) -> i32 {
    if place.is_file() { libc::AT_EMPTY_PATH } else { 0 }
}

/// Calls `f` with the file of a place, and opens it for the call if necessary.
fn with_file(place: &Place, flags: i32, f: impl FnOnce(RawFd) -> Outcome) -> Outcome {
    if place.is_file() {
        return f(place.dir.raw());
    }
    let fd = RawFd::try_from(open(place, flags, 0)?).map_err(|_| Errno::IO)?;
    let outcome = f(fd);
    // Nothing was written: errors of closing are ignored.
    let _ = close(fd);
    outcome
}

/// Changes of names and attributes.
fn change(op: &mut Op) -> Outcome {
    match op {
        Op::Rename { from, to, flags } => {
            let (here, there) = (from.dir.raw(), to.dir.raw());
            // SAFETY: both paths end with NUL and live until the call returns.
            outcome_of(
                unsafe { libc::renameat2(here, from.path.as_ptr(), there, to.path.as_ptr(), *flags) }.into(),
            )
        }
        Op::Unlink { place, flags } => {
            // SAFETY: the path ends with NUL and lives until the call returns.
            outcome_of(unsafe { libc::unlinkat(place.dir.raw(), place.path.as_ptr(), *flags) }.into())
        }
        Op::MakeDirectory { place, mode } => {
            // SAFETY: the path ends with NUL and lives until the call returns.
            outcome_of(unsafe { libc::mkdirat(place.dir.raw(), place.path.as_ptr(), *mode) }.into())
        }
        Op::Symlink { target, place } => {
            // SAFETY: both paths end with NUL and live until the call returns.
            outcome_of(
                unsafe { libc::symlinkat(target.as_ptr(), place.dir.raw(), place.path.as_ptr()) }.into(),
            )
        }
        Op::Link { from, to, flags } => {
            let (here, there, flags) = (from.dir.raw(), to.dir.raw(), *flags | empty(from));
            // SAFETY: both paths end with NUL and live until the call returns.
            outcome_of(
                unsafe { libc::linkat(here, from.path.as_ptr(), there, to.path.as_ptr(), flags) }.into(),
            )
        }
        Op::SetMode { place, mode } if place.is_file() => {
            // SAFETY: takes only numbers.
            outcome_of(unsafe { libc::fchmod(place.dir.raw(), *mode) }.into())
        }
        Op::SetMode { place, mode } => {
            // SAFETY: the path ends with NUL and lives until the call returns.
            outcome_of(unsafe { libc::fchmodat(place.dir.raw(), place.path.as_ptr(), *mode, 0) }.into())
        }
        Op::SetOwner { place, owner, group, flags } => {
            let (dir, path, flags) = (place.dir.raw(), place.path.as_ptr(), *flags | empty(place));
            // SAFETY: the path ends with NUL and lives until the call returns.
            outcome_of(unsafe { libc::fchownat(dir, path, *owner, *group, flags) }.into())
        }
        Op::SetTimes { place, times, flags } => {
            let path = if place.is_file() { std::ptr::null() } else { place.path.as_ptr() };
            let (dir, flags) = (place.dir.raw(), if place.is_file() { 0 } else { *flags });
            // SAFETY: the path ends with NUL, or is null and means the open file; there are two times; both live until the call
            // returns. The C library rejects a null path, the kernel does not.
            outcome_of(unsafe { libc::syscall(libc::SYS_utimensat, dir, path, times.as_ptr(), flags) })
        }
        _ => Err(Errno(libc::ENOSYS)),
    }
}

/// A path in `/proc` of an open file, for calls that take only a path.
struct Proc([u8; 40]);

impl Proc {
    fn new(fd: RawFd) -> Self {
        let mut bytes = [0; 40];
        let text = format!("/proc/self/fd/{fd}\0");
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self(bytes)
    }

    fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// How the calls on extended attributes identify a file.
enum Target<'a> {
    File(RawFd),
    Path(&'a CStr),
    Link(&'a CStr),
}

/// Calls `f` with the file that has the attributes.
fn with_target(place: &Place, flags: i32, f: impl FnOnce(Target<'_>) -> Outcome) -> Outcome {
    let is_link = flags & libc::AT_SYMLINK_NOFOLLOW != 0;
    if place.is_file() {
        return f(Target::File(place.dir.raw()));
    }
    if place.dir.raw() == libc::AT_FDCWD || place.path.as_bytes().starts_with(b"/") {
        return f(if is_link { Target::Link(&place.path) } else { Target::Path(&place.path) });
    }
    // Not all kernels in use have calls for a path below a directory.
    let no_follow = if is_link { libc::O_NOFOLLOW } else { 0 };
    with_file(place, libc::O_PATH | libc::O_CLOEXEC | no_follow, |fd| f(Target::Path(Proc::new(fd).path())))
}

/// Extended attributes.
fn attribute(op: &mut Op) -> Outcome {
    match op {
        Op::GetAttribute { place, name, buffer, flags } => {
            let (name, start, bytes) = (name.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len());
            with_target(place, *flags, |target| {
                outcome_of(match target {
                    // SAFETY: names end with NUL; the buffer belongs to this operation and has this length.
                    Target::File(fd) => unsafe { libc::fgetxattr(fd, name, start, bytes) },
                    // SAFETY: as above.
                    Target::Path(path) => unsafe { libc::getxattr(path.as_ptr(), name, start, bytes) },
                    // SAFETY: as above.
                    Target::Link(path) => unsafe { libc::lgetxattr(path.as_ptr(), name, start, bytes) },
                } as i64)
            })
        }
        Op::SetAttribute { place, name, value, create, flags } => {
            let (name, start, bytes) = (name.as_ptr(), value.as_ptr().cast(), value.len());
            with_target(place, *flags, |target| {
                outcome_of(i64::from(match target {
                    // SAFETY: names end with NUL; the buffer belongs to this operation and has this length.
                    Target::File(fd) => unsafe { libc::fsetxattr(fd, name, start, bytes, *create) },
                    // SAFETY: as above.
                    Target::Path(path) => unsafe {
                        libc::setxattr(path.as_ptr(), name, start, bytes, *create)
                    },
                    // SAFETY: as above.
                    Target::Link(path) => unsafe {
                        libc::lsetxattr(path.as_ptr(), name, start, bytes, *create)
                    },
                }))
            })
        }
        Op::ListAttributes { place, buffer, flags } => {
            let (start, bytes) = (buffer.as_mut_ptr().cast(), buffer.len());
            with_target(place, *flags, |target| {
                outcome_of(match target {
                    // SAFETY: the buffer belongs to this operation and has this length.
                    Target::File(fd) => unsafe { libc::flistxattr(fd, start, bytes) },
                    // SAFETY: as above, and the path ends with NUL.
                    Target::Path(path) => unsafe { libc::listxattr(path.as_ptr(), start, bytes) },
                    // SAFETY: as above.
                    Target::Link(path) => unsafe { libc::llistxattr(path.as_ptr(), start, bytes) },
                } as i64)
            })
        }
        Op::RemoveAttribute { place, name, flags } => {
            let name = name.as_ptr();
            with_target(place, *flags, |target| {
                outcome_of(i64::from(match target {
                    // SAFETY: names end with NUL and live until the call returns.
                    Target::File(fd) => unsafe { libc::fremovexattr(fd, name) },
                    // SAFETY: as above.
                    Target::Path(path) => unsafe { libc::removexattr(path.as_ptr(), name) },
                    // SAFETY: as above.
                    Target::Link(path) => unsafe { libc::lremovexattr(path.as_ptr(), name) },
                }))
            })
        }
        _ => Err(Errno(libc::ENOSYS)),
    }
}
