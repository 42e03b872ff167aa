//! Reading, writing, and positions.

use std::ffi::c_int;

use atta_aio::{At, Op};

use crate::answer::Answer;
use crate::arguments::{Given, Lent, Out, fd, natural, vectors};
use crate::call::{Ask, calls};

calls! {
    "`read(2)`, at the library's position."
    fn [pxfs_read](number: c_int, buf: Lent, count: usize, bcnt: Out<isize>) {
        let op = Op::Read { fd: fd(number)?, buffer: buf.buffer(count)?, at: At::Position };
        Ask::new(op).positioned(number).answer(Answer::Count(bcnt.there()?))
    }

    "`pread(2)`."
    fn [pxfs_pread, pxfs_pread64](number: c_int, buf: Lent, count: usize, offset: i64, bcnt: Out<isize>) {
        let at = At::Offset(natural(offset)?);
        let op = Op::Read { fd: fd(number)?, buffer: buf.buffer(count)?, at };
        Ask::new(op).answer(Answer::Count(bcnt.there()?))
    }

    "`readv(2)`, at the library's position."
    fn [pxfs_readv](number: c_int, iov: Given<libc::iovec>, iovcnt: c_int, bcnt: Out<isize>) {
        let op = Op::ReadVectors { fd: fd(number)?, vectors: vectors(iov, iovcnt)?, at: At::Position };
        Ask::new(op).positioned(number).answer(Answer::Count(bcnt.there()?))
    }

    "`preadv(2)`."
    fn [pxfs_preadv, pxfs_preadv64](
        number: c_int, iov: Given<libc::iovec>, iovcnt: c_int, offset: i64, bcnt: Out<isize>
    ) {
        let at = At::Offset(natural(offset)?);
        let op = Op::ReadVectors { fd: fd(number)?, vectors: vectors(iov, iovcnt)?, at };
        Ask::new(op).answer(Answer::Count(bcnt.there()?))
    }

    "`write(2)`, at the library's position."
    fn [pxfs_write](number: c_int, buf: Lent, count: usize, bcnt: Out<isize>) {
        let op = Op::Write { fd: fd(number)?, buffer: buf.buffer(count)?, at: At::Position };
        Ask::new(op).positioned(number).answer(Answer::Count(bcnt.there()?))
    }

    "`pwrite(2)`."
    fn [pxfs_pwrite, pxfs_pwrite64](number: c_int, buf: Lent, count: usize, offset: i64, bcnt: Out<isize>) {
        let at = At::Offset(natural(offset)?);
        let op = Op::Write { fd: fd(number)?, buffer: buf.buffer(count)?, at };
        Ask::new(op).answer(Answer::Count(bcnt.there()?))
    }

    "`writev(2)`, at the library's position."
    fn [pxfs_writev](number: c_int, iov: Given<libc::iovec>, iovcnt: c_int, bcnt: Out<isize>) {
        let op = Op::WriteVectors { fd: fd(number)?, vectors: vectors(iov, iovcnt)?, at: At::Position };
        Ask::new(op).positioned(number).answer(Answer::Count(bcnt.there()?))
    }

    "`pwritev(2)`."
    fn [pxfs_pwritev, pxfs_pwritev64](
        number: c_int, iov: Given<libc::iovec>, iovcnt: c_int, offset: i64, bcnt: Out<isize>
    ) {
        let at = At::Offset(natural(offset)?);
        let op = Op::WriteVectors { fd: fd(number)?, vectors: vectors(iov, iovcnt)?, at };
        Ask::new(op).answer(Answer::Count(bcnt.there()?))
    }

    "`lseek(2)`, of the library's position."
    fn [pxfs_lseek, pxfs_lseek64](number: c_int, offset: i64, whence: c_int, offset_out: Out<i64>) {
        let op = Op::Seek { fd: fd(number)?, offset, whence };
        Ask::new(op).positioned(number).answer(Answer::Offset(offset_out.there()?))
    }

    "`copy_file_range(2)`, at given offsets."
    fn [pxfs_copy_file_range](
        fd_in: c_int, off_in: Out<i64>, fd_out: c_int, off_out: Out<i64>, len: usize, flags: u32, copied: Out<isize>
    ) {
        let (from, to) = (fd(fd_in)?, fd(fd_out)?);
        let (here, there) = (off_in.get()?, off_out.get()?);
        if flags != 0 {
            return Err(atta_entry::Errno::INVAL);
        }
        let (from_offset, to_offset) = (natural(here)?, natural(there)?);
        let op = Op::CopyRange { from, from_offset, to, to_offset, bytes: len };
        Ask::new(op).answer(Answer::Copied(copied.there()?, [(off_in, here), (off_out, there)]))
    }

    "`getdents64(2)`: entries of a directory, as many as there is room for."
    fn [pxfs_getdents](number: c_int, buf: Lent, count: usize, bcnt: Out<isize>) {
        let op = Op::ReadDirectory { fd: fd(number)?, buffer: buf.buffer(count)? };
        Ask::new(op).answer(Answer::Count(bcnt.there()?))
    }
}
