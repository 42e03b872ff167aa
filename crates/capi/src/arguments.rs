//! Arguments from C programs. Each type stands for a pointer and the header's requirements on it. None can be created in Rust,
//! so that only C programs can call a function that takes one. NULL is detected here, invalid memory cannot be.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use atta_aio::{Buffer, Fd, Vectors};
use atta_entry::Errno;

pub(crate) const FAULT: Errno = Errno(libc::EFAULT);

/// A path or a name: NULL, or bytes that end with NUL.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl Text {
    /// A copy, which may be empty.
    pub(crate) fn copy(self) -> Result<CString, Errno> {
        if self.0.is_null() {
            return Err(FAULT);
        }
        // SAFETY: it is not NULL, and so the header asks for bytes that end with NUL.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_owned())
    }

    /// A copy of a path. An empty one names nothing.
    pub(crate) fn path(self) -> Result<CString, Errno> {
        let path = self.copy()?;
        if path.is_empty() { Err(Errno(libc::ENOENT)) } else { Ok(path) }
    }
}

/// The target of a result: NULL, or memory that is valid until the operation has ended.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

// SAFETY: the header asks for memory that any thread may write to until the operation has ended.
unsafe impl<T: Send> Send for Out<T> {}

impl<T> Out<T> {
    /// Returns itself, or an error for NULL.
    pub(crate) fn there(self) -> Result<Self, Errno> {
        if self.0.is_null() { Err(FAULT) } else { Ok(self) }
    }

    /// Whether it is NULL.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Stores a result, unless it is NULL.
    pub(crate) fn put(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not NULL, and so the header asks for memory for a result; what was there needs no drop in C.
            unsafe { self.0.write(value) };
        }
    }

    /// Returns the stored value.
    pub(crate) fn get(self) -> Result<T, Errno>
    where
        T: Copy,
    {
        let there = self.there()?;
        // SAFETY: it is not NULL, and the header requires a value where this is called.
        Ok(unsafe { there.0.read() })
    }

    /// The address of the result.
    pub(crate) fn as_ptr(self) -> *mut T {
        self.0
    }
}

/// One or more values that are read before the call returns: NULL, or as many as another argument defines.
#[repr(transparent)]
#[derive(Debug)]
pub struct Given<T>(*const T);

impl<T> Clone for Given<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Given<T> {}

impl<T> Given<T> {
    /// Whether it is NULL.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns `count` values.
    pub(crate) fn values(&self, count: usize) -> Result<&[T], Errno> {
        if count == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(FAULT);
        }
        // SAFETY: it is not NULL, and so the header asks for that many values, which no thread changes meanwhile.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }

    /// The address of the first value.
    pub(crate) fn as_ptr(self) -> *const T {
        self.0
    }
}

/// Memory that an operation reads or writes: NULL, or valid until the operation has ended.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Lent(*const c_void);

impl Lent {
    /// Returns a buffer of `bytes` bytes of it.
    pub(crate) fn buffer(self, bytes: usize) -> Result<Buffer, Errno> {
        if isize::try_from(bytes).is_err() {
            return Err(Errno::INVAL);
        }
        if self.0.is_null() {
            return if bytes == 0 { Ok(Buffer::default()) } else { Err(FAULT) };
        }
        // SAFETY: it is not NULL, and so the header asks for memory that stays valid, and that nothing else uses, until the
        // operation has ended.
        Ok(unsafe { Buffer::foreign(self.0.cast_mut().cast(), bytes) })
    }
}

/// The kernel's maximum number of buffers for one `readv` or `writev`.
const VECTORS_MOST: usize = 1024;

/// The buffers of `readv` and `writev`.
pub(crate) fn vectors(table: Given<libc::iovec>, count: c_int) -> Result<Vectors, Errno> {
    let count = usize::try_from(count).ok().filter(|count| *count <= VECTORS_MOST).ok_or(Errno::INVAL)?;
    let values = table.values(count)?;
    let bytes = values.iter().try_fold(0_usize, |bytes, each| bytes.checked_add(each.iov_len));
    if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(Errno::INVAL);
    }
    let buffers = values.iter().map(|each| Lent(each.iov_base).buffer(each.iov_len));
    Ok(Vectors::new(buffers.collect::<Result<_, _>>()?))
}

/// The program's data for its continuation.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Data(pub(crate) *mut c_void);

// SAFETY: it is passed through and never read; the header says that another thread gets it.
unsafe impl Send for Data {}

/// A continuation: `pxfs_continuation`, which holds a `pxfs_cb` or a `pxfs_void_cb`. One type stands for both: the calling
/// conventions of C on Linux (x86-64, AArch64) pass the arguments of both alike, and the result register, which the callee may
/// change, is not read.
pub type Callback = Option<extern "C" fn(*mut c_void, c_int) -> c_int>;

/// An open file by its number. A negative number is invalid, even where it has a meaning for the kernel.
pub(crate) fn fd(fd: c_int) -> Result<Fd, Errno> {
    if fd < 0 { Err(Errno(libc::EBADF)) } else { Ok(Fd::Raw(fd)) }
}

/// An offset or a length, which must not be negative.
pub(crate) fn natural(number: i64) -> Result<u64, Errno> {
    u64::try_from(number).map_err(|_| Errno::INVAL)
}
