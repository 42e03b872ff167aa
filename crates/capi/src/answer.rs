//! Stores the result of an operation in the program's memory, in the form of the POSIX call.

use std::ffi::c_int;
use std::os::fd::RawFd;

use atta_aio::Op;
use atta_entry::Errno;

use crate::arguments::Out;
use crate::face;
use crate::position::Known;

/// The result to store for the program when its operation has succeeded. After an error nothing is stored.
pub(crate) enum Answer {
    Nothing,
    /// A new descriptor.
    Descriptor(Out<c_int>),
    /// A number of bytes.
    Count(Out<isize>),
    /// A position in a file.
    Offset(Out<i64>),
    Stat(Out<libc::stat>),
    Statx(Out<libc::statx>),
    StatFs(Out<libc::statfs>),
    /// The number of bytes that were copied; both offsets advance by it.
    Copied(Out<isize>, [(Out<i64>, i64); 2]),
    /// Nothing, but the position of the descriptor is removed.
    Closed(RawFd, Known),
}

impl Answer {
    /// Stores the result of an operation.
    pub(crate) fn store(&self, number: u64, op: Option<&Op>) -> Result<(), Errno> {
        let count = isize::try_from(number).map_err(|_| Errno(libc::EOVERFLOW));
        match self {
            Self::Nothing => {}
            Self::Closed(_, known) => face::end_position(*known),
            Self::Descriptor(out) => {
                let fd = c_int::try_from(number).map_err(|_| Errno::IO)?;
                // The number may have belonged to a file that was closed without this library.
                face::forget_position(fd);
                out.put(fd);
            }
            Self::Count(out) => out.put(count?),
            Self::Offset(out) => out.put(i64::try_from(number).map_err(|_| Errno(libc::EOVERFLOW))?),
            Self::Copied(out, offsets) => {
                let count = count?;
                offsets.iter().for_each(|(out, offset)| out.put(offset + count as i64));
                out.put(count);
            }
            Self::Stat(_) | Self::Statx(_) | Self::StatFs(_) => self.store_status(op.ok_or(Errno::IO)?)?,
        }
        Ok(())
    }

    /// Handles an operation that failed: nothing is stored. One that was given up has no operation any more.
    pub(crate) fn failed(&self, was_cut: bool) {
        match self {
            // The close did not start: the file is still open, at its position.
            Self::Closed(fd, known) if was_cut => face::keep_position(*fd, *known),
            Self::Closed(_, known) => face::end_position(*known),
            _ => {}
        }
    }

    fn store_status(&self, op: &Op) -> Result<(), Errno> {
        match (self, op) {
            (Self::Stat(out), Op::Stat { out: found, .. }) => out.put(stat_of(found)),
            (Self::Statx(out), Op::Stat { out: found, .. }) => out.put(**found),
            (Self::StatFs(out), Op::StatFs { out: found, .. }) => out.put(**found),
            _ => return Err(Errno::IO),
        }
        Ok(())
    }
}

/// Converts the result of `statx` to the older structure.
fn stat_of(found: &libc::statx) -> libc::stat {
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    stat.st_dev = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
    stat.st_ino = found.stx_ino;
    stat.st_nlink = found.stx_nlink.into();
    stat.st_mode = found.stx_mode.into();
    stat.st_uid = found.stx_uid;
    stat.st_gid = found.stx_gid;
    stat.st_rdev = libc::makedev(found.stx_rdev_major, found.stx_rdev_minor);
    stat.st_size = found.stx_size as _;
    stat.st_blksize = found.stx_blksize.into();
    stat.st_blocks = found.stx_blocks as _;
    (stat.st_atime, stat.st_atime_nsec) = time_of(found.stx_atime);
    (stat.st_mtime, stat.st_mtime_nsec) = time_of(found.stx_mtime);
    (stat.st_ctime, stat.st_ctime_nsec) = time_of(found.stx_ctime);
    stat
}

fn time_of(time: libc::statx_timestamp) -> (i64, i64) {
    (time.tv_sec, time.tv_nsec.into())
}

/// `stat64` is the same structure here: the 64-bit forms share their code with the others.
const _: () = assert!(size_of::<libc::stat>() == size_of::<libc::stat64>());
const _: () = assert!(size_of::<libc::statfs>() == size_of::<libc::statfs64>());
const _: () = assert!(size_of::<libc::statx>() == 256);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_stat_is_where_it_belongs() {
        // SAFETY: a structure of numbers.
        let mut found: libc::statx = unsafe { std::mem::zeroed() };
        (found.stx_dev_major, found.stx_dev_minor) = (259, 3);
        (found.stx_rdev_major, found.stx_rdev_minor) = (8, 300);
        (found.stx_ino, found.stx_nlink, found.stx_mode) = (1 << 40, 7, 0o100_640);
        (found.stx_uid, found.stx_gid) = (u32::MAX - 1, 5);
        (found.stx_size, found.stx_blksize, found.stx_blocks) = (1 << 33, 4096, 11);
        (found.stx_atime.tv_sec, found.stx_atime.tv_nsec) = (-1, 1);
        (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec) = (2, 3);
        (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec) = (4, 999_999_999);
        let stat = stat_of(&found);
        assert_eq!((libc::major(stat.st_dev), libc::minor(stat.st_dev)), (259, 3));
        assert_eq!((libc::major(stat.st_rdev), libc::minor(stat.st_rdev)), (8, 300));
        assert_eq!((stat.st_ino, stat.st_nlink, stat.st_mode), (1 << 40, 7, 0o100_640));
        assert_eq!((stat.st_uid, stat.st_gid), (u32::MAX - 1, 5));
        assert_eq!((stat.st_size, stat.st_blksize, stat.st_blocks), (1 << 33, 4096, 11));
        assert_eq!((stat.st_atime, stat.st_atime_nsec), (-1, 1));
        assert_eq!((stat.st_mtime, stat.st_mtime_nsec), (2, 3));
        assert_eq!((stat.st_ctime, stat.st_ctime_nsec), (4, 999_999_999));
    }
}
