//! Structures that begin with their size, so that programs that were compiled with an older or a newer header work.

use std::ffi::c_void;

use atta_entry::Errno;

use crate::arguments::{Given, Out};

/// The maximum size of a structure of a program: a greater size means that the field was not set.
const SIZE_MOST: usize = 4096;

/// A structure of a header.
///
/// # Safety
/// It is `repr(C)`, its first field is its size as a `usize`, and any bytes are valid values of the other fields.
pub(crate) unsafe trait Plain: Copy {}

/// Copies a structure of a program.
///
/// # Errors
/// EFAULT: NULL. EINVAL: the size is too small. E2BIG: a newer program sets something that is unknown here.
pub(crate) fn read<T: Plain>(given: Given<T>) -> Result<T, Errno> {
    if given.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let from = given.as_ptr();
    // SAFETY: it is not NULL, and so the header asks for a structure that begins with its size.
    let size = unsafe { from.cast::<usize>().read() };
    if size < size_of::<T>() {
        return Err(Errno::INVAL);
    }
    if size > SIZE_MOST {
        return Err(Errno(libc::E2BIG));
    }
    // SAFETY: the header asks for as many bytes as the size says, and it is at least that of this structure.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
    if bytes[size_of::<T>()..].iter().any(|byte| *byte != 0) {
        return Err(Errno(libc::E2BIG));
    }
    // SAFETY: as above; all values of the fields are allowed.
    Ok(unsafe { from.read_unaligned() })
}

/// Copies as much of a structure as the program has room for. The program's size stays.
///
/// # Errors
/// EFAULT: NULL. EINVAL: the size is too small.
pub(crate) fn write<T: Plain>(out: Out<T>, value: T) -> Result<(), Errno> {
    const FIRST: usize = size_of::<usize>();
    let to = out.there()?.as_ptr();
    // SAFETY: the header asks for a structure that begins with its size.
    let size = unsafe { to.cast::<usize>().read() };
    if size < FIRST {
        return Err(Errno::INVAL);
    }
    let bytes = size.min(size_of::<T>()) - FIRST;
    // SAFETY: the structure has at least its size in it.
    let from = unsafe { (&raw const value).cast::<u8>().add(FIRST) };
    // SAFETY: the header asks for as many bytes as the size says, which is at least that of the first field.
    let to = unsafe { to.cast::<u8>().add(FIRST) };
    // SAFETY: both have so many bytes after the first field; both structures are plain numbers.
    unsafe { libc::memcpy(to.cast::<c_void>(), from.cast(), bytes) };
    Ok(())
}
