//! A list that any thread adds to without a lock, and one thread takes as a whole. It allocates nothing: what is added brings
//! its own link. Nobody waits here: see [`Service`](crate::Service) for who wakes whom.
//!
//! # Why it is right
//! A node is added by making it point to the head of the list and then putting it in the head's place, if that is still the
//! same one. The taker puts nothing in the head's place, and so owns all that the old head leads to. A node is in a list once
//! at most: the right to its link is a [`Letter`], which is made with the node, used up when it is added, and made again for
//! whoever takes it. The usual danger of such lists is a node that left and came back while a pusher held on to it as the head.
//! Here it is none: then that node is the head again, and what the pusher's node points to is right, since the pusher has not
//! read anything through the old head.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use crate::atomic::{AtomicPtr, Ordering};

/// See the head of this file.
pub(crate) struct Inbox<T> {
    head: AtomicPtr<Node<T>>,
    /// What it holds, and so what may be sent where.
    nodes: PhantomData<Arc<Node<T>>>,
}

/// What can be in an inbox, once. It may be used while it is there.
pub(crate) struct Node<T> {
    content: T,
    /// Of whoever has the letter, then of the list, then of whoever takes it.
    below: Cell<*mut Self>,
}

/// The right to add a node to an inbox or to a queue.
pub(crate) struct Letter<T>(Arc<Node<T>>);

impl<T> Letter<T> {
    /// The node.
    pub(crate) fn node(&self) -> &Arc<Node<T>> {
        &self.0
    }
}

impl<T> Node<T> {
    /// A node, and the right to add it.
    pub(crate) fn new(content: T) -> (Arc<Self>, Letter<T>) {
        let letter = Self::letter(content);
        (Arc::clone(&letter.0), letter)
    }

    /// A node that nobody asks for but the taker.
    pub(crate) fn letter(content: T) -> Letter<T> {
        Letter(Arc::new(Self { content, below: Cell::new(ptr::null_mut()) }))
    }
}

impl<T> std::ops::Deref for Node<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.content
    }
}

// SAFETY: as for its content: the link is reached by one thread at a time, see the head of this file.
unsafe impl<T: Send> Send for Node<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Node<T> {}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), nodes: PhantomData }
    }

    /// Adds a node. Whether the list was empty.
    pub(crate) fn push(&self, letter: Letter<T>) -> bool {
        let node = Arc::into_raw(letter.0).cast_mut();
        // A first look would cost as much as the exchange: mostly the list is empty.
        let mut below = ptr::null_mut();
        loop {
            // SAFETY: the letter was the one right to the link, and the node is not in the list yet.
            unsafe { &*node }.below.set(below);
            match self.head.compare_exchange(below, node, Ordering::Release, Ordering::Relaxed) {
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
    pub(crate) fn take(&self, mut f: impl FnMut(Letter<T>)) {
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        // Turn the list around.
        let mut oldest: *mut Node<T> = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: the whole list was taken, so that its links are this thread's alone; the list keeps its nodes alive.
            let below = unsafe { &*newest }.below.replace(oldest);
            oldest = newest;
            newest = below;
        }
        while !oldest.is_null() {
            // SAFETY: as above.
            let next = unsafe { &*oldest }.below.get();
            // SAFETY: it came from an `Arc`, and is turned back into it once.
            f(Letter(unsafe { Arc::from_raw(oldest) }));
            oldest = next;
        }
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        self.take(drop);
    }
}

/// Nodes that were taken from an inbox, one behind the other, by the links that they have anyway: a queue that takes no memory.
/// Of one thread.
pub(crate) struct Queue<T> {
    first: *mut Node<T>,
    last: *mut Node<T>,
    len: usize,
}

// SAFETY: it owns a reference to each of its nodes, as a list of `Arc<Node<T>>` would.
unsafe impl<T: Send + Sync> Send for Queue<T> {}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a node behind all others.
    pub(crate) fn push(&mut self, letter: Letter<T>) {
        let node = Arc::into_raw(letter.0).cast_mut();
        // SAFETY: the letter was the one right to the link.
        unsafe { &*node }.below.set(ptr::null_mut());
        match self.last.is_null() {
            true => self.first = node,
            // SAFETY: a node of this queue, which keeps it alive and has its link.
            false => unsafe { &*self.last }.below.set(node),
        }
        self.last = node;
        self.len += 1;
    }

    /// Takes the first node.
    pub(crate) fn pop(&mut self) -> Option<Letter<T>> {
        let node = self.first;
        if node.is_null() {
            return None;
        }
        // SAFETY: a node of this queue, which keeps it alive and has its link.
        self.first = unsafe { &*node }.below.replace(ptr::null_mut());
        if self.first.is_null() {
            self.last = ptr::null_mut();
        }
        self.len -= 1;
        // SAFETY: it came from an `Arc`, and is turned back into it once.
        Some(Letter(unsafe { Arc::from_raw(node) }))
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn items_come_out_in_the_order_in_which_they_were_added() {
        let inbox = Inbox::new();
        assert!(inbox.is_empty() && inbox.push(Node::letter(1)));
        assert!(!inbox.push(Node::letter(2)) && !inbox.push(Node::letter(3)));
        let mut taken = Vec::new();
        inbox.take(|letter| taken.push(***letter.node()));
        assert_eq!(taken, [1, 2, 3]);
        assert!(inbox.is_empty() && inbox.push(Node::letter(4)));
    }

    #[test]
    fn what_many_threads_add_is_taken_once_and_in_the_order_of_each() {
        let inbox = Arc::new(Inbox::new());
        let adders: Vec<_> = (0..4_u64)
            .map(|thread| {
                let inbox = Arc::clone(&inbox);
                std::thread::spawn(move || {
                    for number in 0..10_000_u64 {
                        inbox.push(Node::letter((thread, number)));
                    }
                })
            })
            .collect();
        let mut next = [0; 4];
        while next != [10_000; 4] {
            inbox.take(|letter| {
                let (thread, number) = ***letter.node();
                assert_eq!(next[thread as usize], number);
                next[thread as usize] += 1;
            });
        }
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert!(inbox.is_empty());
    }

    #[test]
    fn a_queue_gives_nodes_in_order_and_drops_the_rest() {
        let inbox = Inbox::new();
        let content = Arc::new(());
        for number in 0..5 {
            inbox.push(Node::letter((number, Arc::clone(&content))));
        }
        let mut queue = Queue::new();
        assert!(queue.pop().is_none());
        inbox.take(|letter| queue.push(letter));
        assert_eq!(queue.len(), 5);
        for number in 0..3 {
            let letter = queue.pop().unwrap();
            assert_eq!(letter.node().0, number);
            queue.push(letter);
        }
        let order: Vec<_> = (0..4).map(|_| queue.pop().unwrap().node().0).collect();
        assert_eq!((order, queue.len()), (vec![3, 4, 0, 1], 1));
        drop(queue);
        assert_eq!(Arc::strong_count(&content), 1);
    }

    #[test]
    fn what_nobody_takes_is_dropped() {
        let content = Arc::new(());
        let inbox = Inbox::new();
        for _ in 0..3 {
            inbox.push(Node::letter(Arc::clone(&content)));
        }
        let (kept, letter) = Node::new(Arc::clone(&content));
        inbox.push(letter);
        drop(inbox);
        assert_eq!(Arc::strong_count(&content), 2);
        drop(kept);
        assert_eq!(Arc::strong_count(&content), 1);
    }
}
