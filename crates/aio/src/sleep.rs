//! Who has to wake a thread that takes from an [`Inbox`](crate::inbox::Inbox). It neither sleeps nor wakes: it only says what
//! is to be done.
//!
//! # Why no wake-up is lost
//! The sleeper says that it sleeps, then (sequentially consistent fence) looks at the inbox once more. Whoever adds an item
//! adds it, then (fence) looks whether the sleeper sleeps. Whichever fence is first in the single order of fences, the other
//! side sees what was stored before it: either the adder sees a sleeper, or the sleeper sees the item. Of several adders one
//! takes the word back, and it alone wakes.
//!
//! The same for the end: the sleeper says that it is gone, then (fence) takes what is left; an adder adds, then (fence) looks
//! whether it is gone, and then takes what is left itself.

use crate::atomic::{AtomicBool, Ordering, fence};

/// See the head of this file.
pub(crate) struct Sleep {
    is_asleep: AtomicBool,
    is_gone: AtomicBool,
}

/// What whoever added an item has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Nothing: it is awake, or somebody else wakes it.
    None,
    /// Wake it.
    Wake,
    /// Take what is in the inbox, since nobody else will.
    Take,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self { is_asleep: AtomicBool::new(false), is_gone: AtomicBool::new(false) }
    }

    /// To be called after an item was added.
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

    /// Says that the sleeper sleeps. It must look at the inbox once more before it does.
    pub(crate) fn lie_down(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that it is awake.
    pub(crate) fn get_up(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Says that it will never look again. It must take what is in the inbox after this.
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
            // It sleeps on only if there is nothing for it, and one wakes it at most. It may be woken for what it took before.
            assert!(woken <= 1 && (!sleeps || left == 0 || woken == 1), "{sleeps} {woken} {left}");
        });
    }

    #[test]
    fn loom_what_comes_after_the_end_is_taken_by_who_brings_it() {
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
