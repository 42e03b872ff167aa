//! Queries about files and file systems.

use std::ffi::{c_int, c_uint};

use atta_aio::{Op, Place};
use atta_entry::Errno;

use crate::answer::Answer;
use crate::arguments::{Out, Text, fd};
use crate::call::{Ask, calls};
use crate::name::{at, at_or_file};

/// All fields of `struct stat`.
const BASIC: u32 = libc::STATX_BASIC_STATS;

fn stat(place: Place, flags: c_int, out: Out<libc::stat>) -> Result<Ask, Errno> {
    // As stat(2): do not trigger automounts.
    let flags = flags | libc::AT_NO_AUTOMOUNT;
    Ok(Ask::new(op(place, flags, BASIC)).answer(Answer::Stat(out.there()?)))
}

fn op(place: Place, flags: c_int, mask: u32) -> Op {
    // SAFETY: a structure of numbers, for which zero is a value.
    let out = Box::new(unsafe { std::mem::zeroed() });
    Op::Stat { place, flags, mask, out }
}

fn stat_fs(place: Place, out: Out<libc::statfs>) -> Result<Ask, Errno> {
    let answer = Answer::StatFs(out.there()?);
    // SAFETY: a structure of numbers, for which zero is a value.
    let out = Box::new(unsafe { std::mem::zeroed() });
    Ok(Ask::new(Op::StatFs { place, out }).answer(answer))
}

calls! {
    "`stat(2)`."
    fn [pxfs_stat, pxfs_stat64](path: Text, buf: Out<libc::stat>) {
        stat(at(libc::AT_FDCWD, path)?, 0, buf)?
    }

    "`lstat(2)`."
    fn [pxfs_lstat, pxfs_lstat64](path: Text, buf: Out<libc::stat>) {
        stat(at(libc::AT_FDCWD, path)?, libc::AT_SYMLINK_NOFOLLOW, buf)?
    }

    "`fstat(2)`."
    fn [pxfs_fstat, pxfs_fstat64](number: c_int, buf: Out<libc::stat>) {
        stat(Place::file(fd(number)?), 0, buf)?
    }

    "`fstatat(2)`."
    fn [pxfs_fstatat, pxfs_fstatat64](dirfd: c_int, path: Text, buf: Out<libc::stat>, flags: c_int) {
        stat(at_or_file(dirfd, path, flags)?, flags, buf)?
    }

    "`statx(2)`."
    fn [pxfs_statx](dirfd: c_int, path: Text, flags: c_int, mask: c_uint, buf: Out<libc::statx>) {
        let place = at_or_file(dirfd, path, flags)?;
        Ask::new(op(place, flags, mask)).answer(Answer::Statx(buf.there()?))
    }

    "`statfs(2)`."
    fn [pxfs_statfs, pxfs_statfs64](path: Text, buf: Out<libc::statfs>) {
        stat_fs(at(libc::AT_FDCWD, path)?, buf)?
    }

    "`fstatfs(2)`."
    fn [pxfs_fstatfs, pxfs_fstatfs64](number: c_int, buf: Out<libc::statfs>) {
        stat_fs(Place::file(fd(number)?), buf)?
    }
}
