//! Decides who must wake a thread that takes from an [`Inbox`](crate::inbox::Inbox). It neither sleeps nor wakes; it returns
//! the action to take.
//!
//! # Why no wake-up is lost
//! The sleeper sets its flag, then (sequentially consistent fence) checks the inbox once more. An adder adds its item, then
//! (fence) checks the flag. Whichever fence is first in the single order of fences, the other side sees the stores before it:
//! either the adder sees the flag, or the sleeper sees the item. Of several adders one clears the flag, and only that one wakes
//! the sleeper.
//!
//! The end works in the same way: the sleeper marks itself as gone, then (fence) takes the remaining items. An adder adds, then
//! (fence) checks whether the sleeper is gone; if so, it takes the remaining items itself.

use crate::atomic::{AtomicBool, Ordering, fence};

/// See the head of this file.
pub(crate) struct Sleep {
    is_asleep: AtomicBool,
    is_gone: AtomicBool,
}

/// What a thread must do after it added an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Nothing: the sleeper is awake, or another thread wakes it.
    None,
    /// Wake the sleeper.
    Wake,
    /// Take the items of the inbox, since no other thread will.
    Take,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self { is_asleep: AtomicBool::new(false), is_gone: AtomicBool::new(false) }
    }

    /// Returns the duty after an item was added.
    pub(crate) fn duty(&self) -> Duty {
        fence(Ordering::SeqCst);
        if self.is_gone.load(Ordering::Relaxed) {
            return Duty::Take;
        }
        match self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            true => Duty::Wake,
            false => Duty::None,
        }
    }

    /// Announces that the sleeper sleeps. It must check the inbox once more before it does.
    pub(crate) fn lie_down(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that it is awake.
    pub(crate) fn get_up(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Announces that it will never check again. It must take the items of the inbox after this.
    pub(crate) fn go(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// All orders of events, as far as the model goes: `RUSTFLAGS="--cfg loom" cargo test -p atta-aio --lib --release loom`.
#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use crate::inbox::{Inbox, Node};
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn loom_no_item_is_left_while_the_sleeper_sleeps() {
        // Three preemptions: without a bound it takes minutes.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((Inbox::new(), Sleep::new()));
            let adders: Vec<_> = (0..2)
                .map(|number| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        shared.0.push(Node::letter(number));
                        u32::from(shared.1.duty() == Duty::Wake)
                    })
                })
                .collect();
            let mut taken = 0;
            shared.0.take(|_| taken += 1);
            shared.1.lie_down();
            let sleeps = shared.0.is_empty();
            if !sleeps {
                shared.1.get_up();
            }
            let woken: u32 = adders.into_iter().map(|adder| adder.join().unwrap()).sum();
            let mut left = 0;
            shared.0.take(|_| left += 1);
            assert_eq!(taken + left, 2);
            // It stays asleep only if there are no items, and at most one adder wakes it. A wake-up may be for an item taken
            // earlier.
            assert!(woken <= 1 && (!sleeps || left == 0 || woken == 1), "{sleeps} {woken} {left}");
        });
    }

    #[test]
    fn loom_work_after_the_end_is_taken_by_its_sender() {
        loom::model(|| {
            let shared = Arc::new((Inbox::new(), Sleep::new()));
            let adder = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.0.push(Node::letter(1));
                    let mut taken = 0;
                    if shared.1.duty() == Duty::Take {
                        shared.0.take(|_| taken += 1);
                    }
                    taken
                })
            };
            let mut taken = 0;
            shared.1.go();
            shared.0.take(|_| taken += 1);
            assert_eq!(adder.join().unwrap() + taken, 1);
            assert!(shared.0.is_empty());
        });
    }
}
