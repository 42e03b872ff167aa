//! Operations by number: waits for them, and cancels them. An operation has a number only if the program requested one, so that
//! other programs pay nothing for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_aio::Tracked;
use atta_entry::Errno;

use crate::arguments::Out;
use crate::call::return_code;
use crate::control::within;
use crate::face::at_home;
use crate::operation::{self, Operation};

struct Table {
    /// The last number assigned; numbers are not reused.
    last: u64,
    known: BTreeMap<u64, Arc<Operation>>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { last: 0, known: BTreeMap::new() });

thread_local! {
    /// The operation that this thread submitted last.
    static LAST: RefCell<Option<Arc<Operation>>> = const { RefCell::new(None) };
}

/// Stores the operation that this thread has submitted.
pub(crate) fn set_last(operation: Option<Arc<Operation>>) {
    // A thread that ends does not need it.
    let _ = LAST.try_with(|last| last.replace(operation));
}

fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The operation of a number that was assigned and not released.
fn find(op: u64) -> Result<Arc<Operation>, Errno> {
    at_home()?;
    lock().known.get(&op).map(Arc::clone).ok_or(Errno::INVAL)
}

fn give_back(op: u64) -> Result<(), Errno> {
    at_home()?;
    let operation = lock().known.remove(&op).ok_or(Errno::INVAL)?;
    operation.number.store(0, Ordering::Relaxed);
    Ok(())
}

/// Returns the operation that this thread submitted last, or 0.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_last() -> u64 {
    let mut found = 0;
    return_code(|| {
        at_home()?;
        let Ok(Some(operation)) = LAST.try_with(|last| last.borrow().clone()) else { return Ok(()) };
        let mut table = lock();
        found = operation.number.load(Ordering::Relaxed);
        if found == 0 {
            table.last += 1;
            found = table.last;
            operation.number.store(found, Ordering::Relaxed);
            table.known.insert(found, operation);
        }
        Ok(())
    });
    found
}

/// Waits for an operation, and releases its number once it has ended.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_wait(op: u64, timeout_ms: c_int, status: Out<c_int>) -> c_int {
    return_code(|| {
        let found = find(op)?.wait(within(timeout_ms))?;
        status.put(found);
        // Another thread that waited for the same operation may have released it.
        let _ = give_back(op);
        Ok(())
    })
}

/// Waits until no operation is under way.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_wait_all(timeout_ms: c_int) -> c_int {
    return_code(|| {
        at_home()?;
        operation::wait_all(within(timeout_ms))
    })
}

/// Ends an operation soon.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_cancel(op: u64) -> c_int {
    return_code(|| {
        find(op)?.tracked.get().map(Tracked::cancel);
        Ok(())
    })
}

/// Releases the number of an operation, which continues.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_release(op: u64) -> c_int {
    return_code(|| give_back(op))
}
