//! Objects that a program holds by a number: mount tables, URIs, statuses and so on. A number is never used again, so that one that was given
//! back, or that belongs to another type of object, is an error and never a wrong access. It knows no type of object.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, PoisonError, RwLock};

use atta_entry::Errno;

use crate::arguments::Out;
use crate::call::return_code;

/// Any type of object.
type Object = Arc<dyn Any + Send + Sync>;

struct Table {
    /// The last number assigned.
    last: u64,
    known: BTreeMap<u64, Object>,
}

static TABLE: RwLock<Table> = RwLock::new(Table { last: 0, known: BTreeMap::new() });

const BAD: Errno = Errno(libc::EBADF);

/// Keeps an object until its number is given back, and returns the number.
fn add(object: Object) -> u64 {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.last += 1;
    let number = table.last;
    table.known.insert(number, object);
    number
}

/// Makes an object and stores its number. Nothing is made where there is no place for the number.
pub(crate) fn give<T: Any + Send + Sync>(
    out: Out<u64>,
    make: impl FnOnce() -> Result<T, Errno>,
) -> Result<(), Errno> {
    let out = out.there()?;
    out.put(add(Arc::new(make()?)));
    Ok(())
}

/// The object of a number. EBADF: it has none of this type.
pub(crate) fn find<T: Any + Send + Sync>(number: u64) -> Result<Arc<T>, Errno> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let object = table.known.get(&number).map(Arc::clone).ok_or(BAD)?;
    object.downcast().map_err(|_| BAD)
}

/// A text of an object, which stays as long as the object. NULL with `errno`: no object of this type has the number.
pub(crate) fn text<T: Any + Send + Sync>(number: u64, of: impl FnOnce(&T) -> &CString) -> *const c_char {
    let mut found = std::ptr::null();
    return_code(|| {
        found = of(&*find::<T>(number)?).as_ptr();
        Ok(())
    });
    found
}

/// Bytes as a text. The kernel has no zero bytes in names; one in a text of another source would end it.
pub(crate) fn c_text(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_else(|error| {
        let end = error.nul_position();
        CString::new(&bytes[..end]).unwrap_or_default()
    })
}

/// Gives an object back.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_free(object: u64) -> c_int {
    return_code(|| {
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        let removed = table.known.remove(&object).ok_or(BAD)?;
        // What an object needs for its end is not done under the lock.
        drop(table);
        drop(removed);
        Ok(())
    })
}
