//! Names: creates, moves and removes them, and queries files by path.

use std::ffi::{c_int, c_uint};

use atta_aio::{Fd, Op, Place};
use atta_entry::Errno;

use crate::answer::Answer;
use crate::arguments::{Given, Lent, Out, Text, fd};
use crate::call::{Ask, calls};

/// A path from the working directory.
fn here(path: Text) -> Result<Place, Errno> {
    at(libc::AT_FDCWD, path)
}

/// A path from a directory.
pub(crate) fn at(dirfd: c_int, path: Text) -> Result<Place, Errno> {
    Ok(Place { dir: Fd::Raw(dirfd), path: path.path()? })
}

/// A path from a directory, or the open file if the path is empty and the flags permit that.
pub(crate) fn at_or_file(dirfd: c_int, path: Text, flags: c_int) -> Result<Place, Errno> {
    let path = path.copy()?;
    if path.is_empty() && flags & libc::AT_EMPTY_PATH == 0 {
        return Err(Errno(libc::ENOENT));
    }
    Ok(Place { dir: Fd::Raw(dirfd), path })
}

fn rename(from: Place, to: Place, flags: u32) -> Ask {
    Ask::new(Op::Rename { from, to, flags })
}

fn set_mode(place: Place, mode: c_uint, flags: c_int) -> Result<Ask, Errno> {
    match flags {
        0 => Ok(Ask::new(Op::SetMode { place, mode })),
        // Links have no modes on Linux.
        libc::AT_SYMLINK_NOFOLLOW => Err(Errno(libc::EOPNOTSUPP)),
        _ => Err(Errno::INVAL),
    }
}

/// Access and modification times; the current time if none are given.
fn times(given: Given<libc::timespec>) -> Result<Box<[libc::timespec; 2]>, Errno> {
    let now = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW };
    if given.is_null() {
        return Ok(Box::new([now; 2]));
    }
    Ok(Box::new([given.values(2)?[0], given.values(2)?[1]]))
}

calls! {
    "`unlink(2)`."
    fn [pxfs_unlink](path: Text) {
        Ask::new(Op::Unlink { place: here(path)?, flags: 0 })
    }

    "`rmdir(2)`."
    fn [pxfs_rmdir](path: Text) {
        Ask::new(Op::Unlink { place: here(path)?, flags: libc::AT_REMOVEDIR })
    }

    "`unlinkat(2)`."
    fn [pxfs_unlinkat](dirfd: c_int, path: Text, flags: c_int) {
        Ask::new(Op::Unlink { place: at(dirfd, path)?, flags })
    }

    "`rename(2)`."
    fn [pxfs_rename](from: Text, to: Text) {
        rename(here(from)?, here(to)?, 0)
    }

    "`renameat(2)`."
    fn [pxfs_renameat](fromfd: c_int, from: Text, tofd: c_int, to: Text) {
        rename(at(fromfd, from)?, at(tofd, to)?, 0)
    }

    "`renameat2(2)`."
    fn [pxfs_renameat2](fromfd: c_int, from: Text, tofd: c_int, to: Text, flags: c_uint) {
        rename(at(fromfd, from)?, at(tofd, to)?, flags)
    }

    "`mkdir(2)`."
    fn [pxfs_mkdir](path: Text, mode: c_uint) {
        Ask::new(Op::MakeDirectory { place: here(path)?, mode })
    }

    "`mkdirat(2)`."
    fn [pxfs_mkdirat](dirfd: c_int, path: Text, mode: c_uint) {
        Ask::new(Op::MakeDirectory { place: at(dirfd, path)?, mode })
    }

    "`symlink(2)`."
    fn [pxfs_symlink](target: Text, path: Text) {
        Ask::new(Op::Symlink { target: target.path()?, place: here(path)? })
    }

    "`symlinkat(2)`."
    fn [pxfs_symlinkat](target: Text, dirfd: c_int, path: Text) {
        Ask::new(Op::Symlink { target: target.path()?, place: at(dirfd, path)? })
    }

    "`link(2)`."
    fn [pxfs_link](from: Text, to: Text) {
        Ask::new(Op::Link { from: here(from)?, to: here(to)?, flags: 0 })
    }

    "`linkat(2)`."
    fn [pxfs_linkat](fromfd: c_int, from: Text, tofd: c_int, to: Text, flags: c_int) {
        Ask::new(Op::Link { from: at_or_file(fromfd, from, flags)?, to: at(tofd, to)?, flags })
    }

    "`readlink(2)`."
    fn [pxfs_readlink](path: Text, buf: Lent, size: usize, bcnt: Out<isize>) {
        let op = Op::ReadLink { place: here(path)?, buffer: buf.buffer(size)? };
        Ask::new(op).answer(Answer::Count(bcnt.there()?))
    }

    "`readlinkat(2)`."
    fn [pxfs_readlinkat](dirfd: c_int, path: Text, buf: Lent, size: usize, bcnt: Out<isize>) {
        let op = Op::ReadLink { place: at(dirfd, path)?, buffer: buf.buffer(size)? };
        Ask::new(op).answer(Answer::Count(bcnt.there()?))
    }

    "`chmod(2)`."
    fn [pxfs_chmod](path: Text, mode: c_uint) {
        set_mode(here(path)?, mode, 0)?
    }

    "`fchmodat(2)`."
    fn [pxfs_fchmodat](dirfd: c_int, path: Text, mode: c_uint, flags: c_int) {
        set_mode(at(dirfd, path)?, mode, flags)?
    }

    "`chown(2)`."
    fn [pxfs_chown](path: Text, owner: c_uint, group: c_uint) {
        Ask::new(Op::SetOwner { place: here(path)?, owner, group, flags: 0 })
    }

    "`lchown(2)`."
    fn [pxfs_lchown](path: Text, owner: c_uint, group: c_uint) {
        Ask::new(Op::SetOwner { place: here(path)?, owner, group, flags: libc::AT_SYMLINK_NOFOLLOW })
    }

    "`fchownat(2)`."
    fn [pxfs_fchownat](dirfd: c_int, path: Text, owner: c_uint, group: c_uint, flags: c_int) {
        Ask::new(Op::SetOwner { place: at_or_file(dirfd, path, flags)?, owner, group, flags })
    }

    "`utimensat(2)`."
    fn [pxfs_utimensat](dirfd: c_int, path: Text, given: Given<libc::timespec>, flags: c_int) {
        Ask::new(Op::SetTimes { place: at(dirfd, path)?, times: times(given)?, flags })
    }

    "`futimens(3)`."
    fn [pxfs_futimens](number: c_int, given: Given<libc::timespec>) {
        Ask::new(Op::SetTimes { place: Place::file(fd(number)?), times: times(given)?, flags: 0 })
    }

    "`access(2)`."
    fn [pxfs_access](path: Text, mode: c_int) {
        Ask::new(Op::Access { place: here(path)?, mode, flags: 0 })
    }

    "`faccessat(2)`."
    fn [pxfs_faccessat](dirfd: c_int, path: Text, mode: c_int, flags: c_int) {
        Ask::new(Op::Access { place: at_or_file(dirfd, path, flags)?, mode, flags })
    }
}
