//! The atomics of the lock-free parts: those of the standard library, or with `--cfg loom` those of a model that tries all
//! orders of events.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
