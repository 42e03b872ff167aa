//! An allocator that counts what a thread holds, to bound the memory that a function takes. It serves tests of one thread: what another
//! thread frees stays counted.
//!
//! A test program names it as its `#[global_allocator]`; `fuzz_tests!` does.

#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, with a count for each thread.
#[derive(Debug)]
pub struct Counting;

// SAFETY: it is the system's allocator, with a counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(before: usize, after: usize) {
    let held = HELD.get() + after.cast_signed() - before.cast_signed();
    HELD.set(held);
    MOST.set(MOST.get().max(held));
}

/// Calls a function. Returns its result, and the most bytes that this thread held meanwhile beyond those that it held before.
pub fn most_held<T>(call: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = call();
    (result, usize::try_from(MOST.get() - before).unwrap_or(0))
}
