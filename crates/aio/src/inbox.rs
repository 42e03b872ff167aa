//! A list that any thread adds to without a lock, and one thread takes as a whole. It allocates a node for each item and
//! nothing else. Nobody waits here: see [`Service`](crate::Service) for who wakes whom.
//!
//! # Why it is right
//! An item is added by making its node point to the head of the list and then putting it in the head's place, if that is still
//! the same one. The taker puts nothing in the head's place, and so owns all that the old head leads to. A node is in the list
//! once and leaves it for good, so a head that was seen before is the same node with the same rest below it: the usual danger
//! of such lists, a node that left and came back, would need a pusher to hold on to a head that was taken and freed and
//! allocated anew. Then the new node is the head again, and what the pusher's node points to is right: the pusher has not read
//! anything through the old head.

use std::ptr;

use crate::atomic::{AtomicPtr, Ordering};

/// See the head of this file.
pub(crate) struct Inbox<T> {
    head: AtomicPtr<Node<T>>,
}

struct Node<T> {
    item: T,
    below: *mut Node<T>,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds an item. Whether the list was empty.
    pub(crate) fn push(&self, item: T) -> bool {
        let node = Box::into_raw(Box::new(Node { item, below: ptr::null_mut() }));
        let mut below = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node is this thread's until it is in the list.
            unsafe { (*node).below = below };
            match self.head.compare_exchange_weak(below, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return below.is_null(),
                Err(now) => below = now,
            }
        }
    }

    /// Whether there is nothing in it at present.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes all, and calls `f` with each in the order in which they were added.
    pub(crate) fn take(&self, mut f: impl FnMut(T)) {
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        // Turn the list around.
        let mut oldest: *mut Node<T> = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: the whole list was taken, so that its nodes are this thread's alone; each came from a box.
            let node = unsafe { &mut *newest };
            newest = std::mem::replace(&mut node.below, oldest);
            oldest = node;
        }
        while !oldest.is_null() {
            // SAFETY: as above, and each node is turned back into its box once.
            let node = unsafe { Box::from_raw(oldest) };
            oldest = node.below;
            f(node.item);
        }
    }
}

// SAFETY: items go from one thread to another, and nothing else of the list is reached by two at a time.
unsafe impl<T: Send> Send for Inbox<T> {}
// SAFETY: as above: no reference to an item is ever given out.
unsafe impl<T: Send> Sync for Inbox<T> {}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        self.take(drop);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn items_come_out_in_the_order_in_which_they_were_added() {
        let inbox = Inbox::new();
        assert!(inbox.is_empty() && inbox.push(1) && !inbox.push(2) && !inbox.push(3));
        let mut taken = Vec::new();
        inbox.take(|item| taken.push(item));
        assert_eq!(taken, [1, 2, 3]);
        assert!(inbox.is_empty() && inbox.push(4));
    }

    #[test]
    fn what_many_threads_add_is_taken_once_and_in_the_order_of_each() {
        let inbox = Arc::new(Inbox::new());
        let adders: Vec<_> = (0..4_u64)
            .map(|thread| {
                let inbox = Arc::clone(&inbox);
                std::thread::spawn(move || {
                    for number in 0..10_000_u64 {
                        inbox.push((thread, number));
                    }
                })
            })
            .collect();
        let mut next = [0; 4];
        while next != [10_000; 4] {
            inbox.take(|(thread, number)| {
                assert_eq!(next[thread as usize], number);
                next[thread as usize] += 1;
            });
        }
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert!(inbox.is_empty());
    }

    #[test]
    fn what_nobody_takes_is_dropped() {
        let item = Arc::new(());
        let inbox = Inbox::new();
        for _ in 0..3 {
            inbox.push(Arc::clone(&item));
        }
        drop(inbox);
        assert_eq!(Arc::strong_count(&item), 1);
    }
}
