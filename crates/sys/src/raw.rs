//! System calls that rustix does not have in a safe form: modes and extended attributes by a descriptor and a name (Linux 6.6 and 6.13; an
//! older kernel answers ENOSYS), quotas (Linux 5.14), and a close that reports errors. It decides nothing; `at.rs` does.

#![expect(
    unsafe_code,
    reason = "system calls that rustix does not have; each takes memory that its caller owns"
)]

use std::ffi::CStr;

use libc::{c_int, c_long, c_uint};
use rustix::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::fs::Mode;
use rustix::io::{Errno, Result};

// The same numbers on all architectures but Alpha and MIPS, whose tables begin elsewhere. Rust has no Alpha.
const QUOTACTL_FD: c_long = 443;
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const GETXATTRAT: c_long = 464;
const LISTXATTRAT: c_long = 465;
const IS_NUMBERED_SO: bool = !cfg!(any(
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "mips32r6",
    target_arch = "mips64r6"
));

/// `struct xattr_args` of `linux/xattr.h`.
#[repr(C, align(8))]
struct XattrArgs {
    value: u64,
    size: u32,
    flags: u32,
}

impl XattrArgs {
    fn new(value: *const u8, size: usize) -> Result<Self> {
        let size = u32::try_from(size).map_err(|_too_long| Errno::TOOBIG)?;
        Ok(Self { value: value.expose_provenance() as u64, size, flags: 0 })
    }
}

/// `struct if_dqblk` of `linux/quota.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskQuota {
    /// Hard limit; 0: none.
    pub(crate) hard_blocks: u64,
    /// Soft limit; 0: none.
    pub(crate) soft_blocks: u64,
    /// Bytes in use.
    pub(crate) bytes: u64,
    pub(crate) inodes_and_times: [u64; 5],
    pub(crate) valid: u32,
}

fn result(returned: c_long) -> Result<usize> {
    let error = std::io::Error::last_os_error();
    usize::try_from(returned).map_err(|_negative| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Closes a file. Not repeated after a signal: the descriptor is closed by then.
pub(crate) fn close(file: OwnedFd) -> Result<()> {
    // SAFETY: the descriptor is owned and not used afterwards.
    let returned = unsafe { libc::close(file.into_raw_fd()) };
    result(returned.into()).map(drop)
}

/// The quota of a user or group (`libc::USRQUOTA`, `libc::GRPQUOTA`) on the file system of a descriptor. ESRCH: quotas of this kind are off.
pub(crate) fn quota(descriptor: BorrowedFd<'_>, kind: c_int, id: u32) -> Result<DiskQuota> {
    if !IS_NUMBERED_SO {
        return Err(Errno::NOSYS);
    }
    let mut found = DiskQuota::default();
    // SAFETY: `found` has the layout that the kernel writes for this command, and outlives the call.
    let returned = unsafe {
        libc::syscall(QUOTACTL_FD, descriptor.as_raw_fd(), quota_command(kind), id, &raw mut found)
    };
    result(returned).map(|_| found)
}

/// `QCMD` of `sys/quota.h`.
const fn quota_command(kind: c_int) -> c_int {
    (libc::Q_GETQUOTA << 8) | (kind & 0xff)
}

/// Sets the mode of what a descriptor refers to, an `O_PATH` one too.
pub(crate) fn set_mode(descriptor: BorrowedFd<'_>, mode: Mode) -> Result<()> {
    if !IS_NUMBERED_SO {
        return Err(Errno::NOSYS);
    }
    let mode: c_uint = mode.bits();
    // SAFETY: the path is a string of the program, and the kernel writes nowhere.
    let returned =
        unsafe { libc::syscall(FCHMODAT2, descriptor.as_raw_fd(), c"".as_ptr(), mode, libc::AT_EMPTY_PATH) };
    result(returned).map(drop)
}

/// Lists the names of the extended attributes of a name, which is not followed.
pub(crate) fn list(directory: BorrowedFd<'_>, path: &CStr, room: &mut [u8]) -> Result<usize> {
    if !IS_NUMBERED_SO {
        return Err(Errno::NOSYS);
    }
    let flags: c_int = libc::AT_SYMLINK_NOFOLLOW;
    let (start, bytes) = (room.as_mut_ptr(), room.len());
    // SAFETY: the kernel reads the path to its NUL, and writes no more than `bytes` to `start`, which is `room` alone.
    let returned =
        unsafe { libc::syscall(LISTXATTRAT, directory.as_raw_fd(), path.as_ptr(), flags, start, bytes) };
    result(returned)
}

/// Gets an extended attribute of a name, which is not followed.
pub(crate) fn get(
    directory: BorrowedFd<'_>,
    path: &CStr,
    attribute: &CStr,
    value: &mut [u8],
) -> Result<usize> {
    let arguments = XattrArgs::new(value.as_mut_ptr(), value.len())?;
    // The kernel writes to `value`, by the address in the arguments.
    call(GETXATTRAT, directory, path, attribute, &arguments)
}

/// Sets an extended attribute of a name, which is not followed.
pub(crate) fn set(directory: BorrowedFd<'_>, path: &CStr, attribute: &CStr, value: &[u8]) -> Result<()> {
    let arguments = XattrArgs::new(value.as_ptr(), value.len())?;
    call(SETXATTRAT, directory, path, attribute, &arguments).map(drop)
}

/// `arguments` hold the address and the length of memory that the caller may use as `number` does.
fn call(
    number: c_long,
    directory: BorrowedFd<'_>,
    path: &CStr,
    attribute: &CStr,
    arguments: &XattrArgs,
) -> Result<usize> {
    if !IS_NUMBERED_SO {
        return Err(Errno::NOSYS);
    }
    let (directory, path, attribute) = (directory.as_raw_fd(), path.as_ptr(), attribute.as_ptr());
    let flags: c_int = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the strings end with NUL; the kernel uses no more of the value's memory than its length, as the caller may.
    let returned = unsafe {
        libc::syscall(
            number,
            directory,
            path,
            flags,
            attribute,
            &raw const *arguments,
            size_of::<XattrArgs>(),
        )
    };
    result(returned)
}
