//! Detects that the target has no space left. The copy then starts nothing new, because everything else would fail, too. One large file
//! that does not fit is no proof: small files may still fit.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Number of failures for lack of space, without a successful file between them, after which the target counts as full.
pub(crate) const MISSES_MOST: u32 = 128;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Space {
    misses: AtomicU32,
    is_full: AtomicBool,
}

impl Space {
    /// Records a failure for lack of space. Returns whether the target is full.
    pub(crate) fn miss(&self) -> bool {
        if self.misses.fetch_add(1, Ordering::Relaxed) + 1 >= MISSES_MOST {
            self.is_full.store(true, Ordering::Relaxed);
        }
        self.is_full()
    }

    /// Records a file that found space.
    pub(crate) fn find(&self) {
        if self.misses.load(Ordering::Relaxed) > 0 {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the target is full.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_gone_when_nothing_finds_any_for_a_while() {
        let space = Space::default();
        let last = |space: &Space| (1..MISSES_MOST).any(|_| space.miss());
        assert!(!last(&space));
        space.find();
        assert!(!last(&space) && !space.is_full());
        assert!(space.miss() && space.is_full());
        space.find();
        assert!(space.is_full(), "it does not come back");
    }
}
