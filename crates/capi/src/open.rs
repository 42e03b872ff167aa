//! Opening and closing files.
//!
//! `pxfs_open` and `pxfs_creat` have `...` in the header, as the programs of 2013 call them, and fixed arguments here: Rust
//! cannot define functions with `...`. In the calling conventions of the processors below, integers that a caller passes for
//! `...` are where fixed arguments would be. An argument that was not passed is a register with an arbitrary value, which is
//! not used unless `flags` requests a mode.

use std::ffi::{c_int, c_uint};

use atta_aio::{Fd, Op, Place};
use atta_entry::Errno;

use crate::answer::Answer;
use crate::arguments::{Callback, Data, Out, Text, fd};
use crate::call::{Ask, call, calls};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
compile_error!(
    "how the calling convention of this processor passes arguments for `...` has not been checked"
);

fn open(dir: c_int, path: Text, flags: c_int, mode: c_uint, out: Out<c_int>) -> Result<Ask, Errno> {
    let place = Place { dir: Fd::Raw(dir), path: path.path()? };
    // Without one of these flags the argument was not passed, and is arbitrary.
    let makes = flags & (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) != 0;
    let mode = if makes { mode & 0o7777 } else { 0 };
    Ok(Ask::new(Op::Open { place, flags, mode }).answer(Answer::Descriptor(out.there()?)))
}

macro_rules! opens {
    ($($open:ident $creat:ident)*) => {$(
        /// `open(2)`.
        // SAFETY: no other library of the program has a symbol of this name.
        #[unsafe(no_mangle)]
        pub extern "C" fn $open(
            path: Text,
            flags: c_int,
            fd: Out<c_int>,
            cb: Callback,
            cdat: Data,
            mode: c_uint,
        ) -> c_int {
            call(cb, cdat, || open(libc::AT_FDCWD, path, flags, mode, fd))
        }

        /// `creat(2)`, as in POSIX: the file may exist.
        // SAFETY: no other library of the program has a symbol of this name.
        #[unsafe(no_mangle)]
        pub extern "C" fn $creat(path: Text, mode: c_uint, fd: Out<c_int>, cb: Callback, cdat: Data) -> c_int {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
            call(cb, cdat, || open(libc::AT_FDCWD, path, flags, mode, fd))
        }
    )*};
}

opens! {
    pxfs_open pxfs_creat
    pxfs_open64 pxfs_creat64
}

calls! {
    "`openat(2)`."
    fn [pxfs_openat, pxfs_openat64](dirfd: c_int, path: Text, flags: c_int, mode: c_uint, out: Out<c_int>) {
        open(dirfd, path, flags, mode, out)?
    }

    "`close(2)`."
    fn [pxfs_close](number: c_int) {
        fd(number)?;
        Ask::new(Op::Close { fd: number }).closes(number)
    }
}
