//! The atomics of the parts without locks: those of the standard library, or those of a model that tries all orders of
//! events, where this is built with `--cfg loom`.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
