//! Operations on an open file except reading and writing, and `truncate`.

use std::ffi::{c_int, c_uint};

use atta_aio::{Op, Place, Sync, compound};
use atta_entry::Errno;

use crate::arguments::{Text, fd, natural};
use crate::call::{Ask, calls};

calls! {
    "`ftruncate(2)`."
    fn [pxfs_ftruncate, pxfs_ftruncate64](number: c_int, length: i64) {
        Ask::new(Op::Truncate { fd: fd(number)?, bytes: natural(length)? })
    }

    "`truncate(2)`."
    fn [pxfs_truncate, pxfs_truncate64](path: Text, length: i64) {
        Ask::new(compound::truncate(Place::path(path.path()?), natural(length)?))
    }

    "`fsync(2)`."
    fn [pxfs_fsync](number: c_int) {
        Ask::new(Op::Sync { fd: fd(number)?, what: Sync::All })
    }

    "`fdatasync(2)`."
    fn [pxfs_fdatasync](number: c_int) {
        Ask::new(Op::Sync { fd: fd(number)?, what: Sync::Data })
    }

    "`sync_file_range(2)`."
    fn [pxfs_sync_file_range](number: c_int, offset: i64, nbytes: i64, flags: c_uint) {
        Ask::new(Op::SyncRange { fd: fd(number)?, offset: natural(offset)?, bytes: natural(nbytes)?, flags })
    }

    "`posix_fallocate(3)`: the file never gets shorter."
    fn [pxfs_fallocate, pxfs_fallocate64](number: c_int, offset: i64, length: i64) {
        let (offset, bytes) = (natural(offset)?, natural(length)?);
        Ask::new(Op::Allocate { fd: fd(number)?, mode: 0, offset, bytes })
    }

    "`fallocate(2)`, but for what makes a file shorter."
    fn [pxfs_fallocate_mode, pxfs_fallocate_mode64](number: c_int, mode: c_int, offset: i64, length: i64) {
        let (fd, offset, bytes) = (fd(number)?, natural(offset)?, natural(length)?);
        if mode & libc::FALLOC_FL_COLLAPSE_RANGE != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        Ask::new(Op::Allocate { fd, mode, offset, bytes })
    }

    "`posix_fadvise(3)`."
    fn [pxfs_fadvise, pxfs_fadvise64](number: c_int, offset: i64, length: i64, advice: c_int) {
        let (offset, bytes) = (natural(offset)?, natural(length)?);
        Ask::new(Op::Advise { fd: fd(number)?, offset, bytes, advice })
    }

    "`fchown(2)`."
    fn [pxfs_fchown](number: c_int, owner: c_uint, group: c_uint) {
        Ask::new(Op::SetOwner { place: Place::file(fd(number)?), owner, group, flags: 0 })
    }

    "`fchmod(2)`."
    fn [pxfs_fchmod](number: c_int, mode: c_uint) {
        Ask::new(Op::SetMode { place: Place::file(fd(number)?), mode })
    }
}
