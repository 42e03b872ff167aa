//! In how many parts the names of a directory are looked at, and which part is the last: for whoever does something then.

use std::sync::atomic::{AtomicUsize, Ordering};

/// See the head of this file. At first none are known.
#[derive(Debug, Default)]
pub(crate) struct Parts(AtomicUsize);

impl Parts {
    /// Says that there are so many.
    pub(crate) fn set(&self, parts: usize) {
        self.0.store(parts, Ordering::Release);
    }

    /// One more, besides those that are there. Whether there are any.
    pub(crate) fn add(&self) -> bool {
        let more = |parts: usize| (parts > 0).then_some(parts + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// One less. Whether it was the last one.
    pub(crate) fn end(&self) -> bool {
        let less = |parts: usize| parts.checked_sub(1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) == Ok(1)
    }

    /// Forgets them: the last one will not be known. Whether there were any.
    pub(crate) fn forget(&self) -> bool {
        self.0.swap(0, Ordering::AcqRel) > 0
    }

    /// Whether some are not done.
    pub(crate) fn are_left(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}
