//! Detects that the target has no space left. The copy then starts nothing new, because everything else would fail, too. One large file
//! that does not fit is no proof: small files may still fit.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Number of failures for lack of space, without a successful file between them, after which the target counts as full.
pub(crate) const MISSES_MOST: u32 = 128;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Room {
    misses: AtomicU32,
    is_gone: AtomicBool,
}

impl Room {
    /// Records a failure for lack of space. Returns whether the target is full.
    pub(crate) fn miss(&self) -> bool {
        if self.misses.fetch_add(1, Ordering::Relaxed) + 1 >= MISSES_MOST {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        self.is_gone()
    }

    /// Records a file that found space.
    pub(crate) fn find(&self) {
        if self.misses.load(Ordering::Relaxed) > 0 {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the target is full.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_gone_when_nothing_finds_any_for_a_while() {
        let room = Room::default();
        let last = |room: &Room| (1..MISSES_MOST).any(|_| room.miss());
        assert!(!last(&room));
        room.find();
        assert!(!last(&room) && !room.is_gone());
        assert!(room.miss() && room.is_gone());
        room.find();
        assert!(room.is_gone(), "it does not come back");
    }
}
