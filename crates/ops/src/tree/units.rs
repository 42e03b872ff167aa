//! Counts of what keeps a slice or a directory open. What happens when the last unit is released is in `life.rs`. No I/O.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use crate::tree::debts::Owed;

/// Units that keep something open.
#[derive(Debug)]
pub(crate) struct Count(AtomicU32);

impl Count {
    pub(crate) fn new(units: u32) -> Self {
        Self(AtomicU32::new(units))
    }

    /// Adds a unit. The caller must hold one.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many units there are. Exact only for the holder of all of them.
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Releases a unit. Returns whether it was the last one; if so, the writes of all holders are visible.
    pub(crate) fn release(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::Release);
        assert!(before > 0, "a unit was released that was not held");
        if before > 1 {
            return false;
        }
        fence(Ordering::Acquire);
        true
    }
}

/// The counts of one directory: see the head of `life.rs`.
#[derive(Debug)]
pub(crate) struct Life {
    own: Count,
    below: Count,
    origin: Origin,
    /// What it owes to the rank that lent its tasks.
    owed: Option<Box<Owed>>,
    /// Something in it or below it failed.
    has_failed: AtomicBool,
}

/// Where a directory comes from: how much of it is done here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// This process has found it. It is done and closed here.
    Found,
    /// It is on the way to a listed name, which is all that is done in it.
    Listed,
    /// Work that another rank has sent; it does not count in the directories above.
    Sent,
}

impl Life {
    fn new(origin: Origin) -> Self {
        let (own, below) = (Count::new(1), Count::new(1));
        Self { own, below, origin, owed: None, has_failed: AtomicBool::new(false) }
    }

    /// For a directory that is done and closed here.
    pub(crate) fn of_found() -> Self {
        Self::new(Origin::Found)
    }

    /// For a directory on the way to a listed name.
    pub(crate) fn of_listed() -> Self {
        Self::new(Origin::Listed)
    }

    /// For a directory of tasks that were encoded. It counts only them.
    pub(crate) fn of_sent() -> Self {
        Self::new(Origin::Sent)
    }

    /// As `of_sent`, for tasks that another rank has lent.
    pub(crate) fn of_lent() -> Self {
        Self { owed: Some(Box::default()), ..Self::of_sent() }
    }

    /// What it owes to another rank.
    pub(crate) fn owed(&self) -> Option<&Owed> {
        self.owed.as_deref()
    }

    /// Notes that something in it or below it failed. The caller holds a unit.
    pub(crate) fn note_failure(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Whether something in it or below it failed. When it is closed, this is known of all ranks.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Releases the unit of a slice, or of the thread that reads the names. Returns whether it was the last one.
    pub(crate) fn release_own(&self) -> bool {
        self.own.release()
    }

    /// Releases the unit of a child, or of all slices. Returns whether it was the last one.
    pub(crate) fn release_below(&self) -> bool {
        self.below.release()
    }

    /// Whether it is done and closed here.
    pub(crate) fn is_found(&self) -> bool {
        self.origin == Origin::Found
    }

    /// Whether another rank has sent work in it.
    pub(crate) fn is_sent(&self) -> bool {
        self.origin == Origin::Sent
    }

    /// Adds a slice. The thread that reads the names holds a unit.
    pub(crate) fn add_slice(&self) {
        self.own.add();
    }

    /// Adds a child. The thread that looks at names holds a unit.
    pub(crate) fn add_child(&self) {
        self.below.add();
    }
}
