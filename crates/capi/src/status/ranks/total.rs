//! A value while it is reduced: that of this rank, and of all ranks whose messages were merged. A program that reduces by itself gets it as
//! `struct atta_value`.

use std::ffi::{c_int, c_void};

use atta_code::Code;
use atta_entry::Errno;

use crate::arguments::{Given, Out};
use crate::call::return_code;
use crate::status::ranks::message::{PROTOCOL, message, value_of};

/// A value of any type with a way to merge two.
pub(crate) trait Merge {
    /// The value as bytes.
    fn bytes(&self) -> Vec<u8>;

    /// Merges another one. False: the bytes are none.
    fn merge(&mut self, bytes: &[u8]) -> bool;
}

/// The same with its type.
pub(crate) struct Typed<T, F> {
    pub(crate) value: T,
    pub(crate) merge: F,
}

impl<T: Code, F: FnMut(&mut T, T)> Merge for Typed<T, F> {
    fn bytes(&self) -> Vec<u8> {
        self.value.encoded()
    }

    fn merge(&mut self, bytes: &[u8]) -> bool {
        let other = T::decode_all(bytes);
        other.map(|other| (self.merge)(&mut self.value, other)).is_some()
    }
}

/// A value that is reduced, or the first error.
pub struct Total<'a> {
    value: &'a mut dyn Merge,
    question: u32,
    error: Option<Errno>,
    /// What the program was given last.
    shown: Vec<u8>,
}

impl std::fmt::Debug for Total<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Total").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<'a> Total<'a> {
    pub(crate) fn new(question: u32, value: &'a mut dyn Merge) -> Self {
        Self { value, question, error: None, shown: Vec::new() }
    }

    /// The message for the rank above.
    pub(crate) fn message(&self) -> Vec<u8> {
        match self.error {
            None => message(self.question, Ok(&self.value.bytes())),
            Some(error) => message(self.question, Err(error)),
        }
    }

    /// Takes in a message of a rank below. An error stays in the value, so that the first rank learns of it.
    pub(crate) fn take(&mut self, message: &[u8]) -> Result<(), Errno> {
        let taken = value_of(self.question, message);
        let taken = taken.and_then(|bytes| if self.value.merge(bytes) { Ok(()) } else { Err(PROTOCOL) });
        taken.inspect_err(|error| self.fail(*error))
    }

    pub(crate) fn fail(&mut self, error: Errno) {
        self.error.get_or_insert(error);
    }

    /// The first error.
    pub(crate) fn result(&self) -> Result<(), Errno> {
        self.error.map_or(Ok(()), Err)
    }
}

/// The `struct atta_value` of a program.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Value(*mut Total<'static>);

impl Value {
    /// A value for a callback. It must not be used after that.
    pub(crate) fn of(total: &mut Total<'_>) -> Self {
        Self((&raw mut *total).cast())
    }

    /// Calls `f` with the value.
    fn with<T>(self, f: impl FnOnce(&mut Total<'_>) -> Result<T, Errno>) -> Result<T, Errno> {
        // SAFETY: the header allows NULL, or the pointer that a callback was given, until it returns, for one thread at a time.
        let total = unsafe { self.0.as_mut() };
        f(total.ok_or(Errno(libc::EFAULT))?)
    }
}

/// Gives the bytes of a value as it is now.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_value_bytes(value: Value, bytes: Out<*const c_void>, count: Out<usize>) -> c_int {
    return_code(|| {
        let (bytes, count) = (bytes.there()?, count.there()?);
        value.with(|total| {
            total.shown = total.message();
            bytes.put(total.shown.as_ptr().cast());
            count.put(total.shown.len());
            Ok(())
        })
    })
}

/// Merges the bytes of another rank's value.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_value_merge(value: Value, bytes: Given<u8>, count: usize) -> c_int {
    return_code(|| {
        if isize::try_from(count).is_err() {
            return Err(Errno::INVAL);
        }
        let bytes = bytes.values(count)?;
        value.with(|total| total.take(bytes))
    })
}
