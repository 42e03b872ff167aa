//! A list that any thread adds to without a lock, and that one thread takes as a whole. It allocates nothing: each node brings
//! its own link. It does no waking: see [`Service`](crate::Service).
//!
//! # Why it is correct
//! To add a node, a thread points it to the head of the list, then replaces the head by it if the head is unchanged. The taker
//! replaces the head by null, and so owns all nodes that are reachable from the old head. A node is in one list at most: the
//! right to its link is a [`Letter`], which is created with the node, consumed when the node is added, and created again for
//! the taker. Such lists usually have the ABA problem: a node leaves and returns while a pusher holds it as the head. It is
//! harmless here: the node is the head again, and the pusher's node points to it correctly, since the pusher has not read
//! anything through the old head.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use crate::atomic::{AtomicPtr, Ordering};

/// See the head of this file.
pub(crate) struct Inbox<T> {
    head: AtomicPtr<Node<T>>,
    /// The nodes that it holds, which decide whether it may be sent.
    nodes: PhantomData<Arc<Node<T>>>,
}

/// A node of an inbox. Its content may be used while it is in the list.
pub(crate) struct Node<T> {
    content: T,
    /// The link: it belongs to the owner of the letter, then to the list, then to the taker.
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
    /// Creates a node, and the right to add it.
    pub(crate) fn new(content: T) -> (Arc<Self>, Letter<T>) {
        let letter = Self::letter(content);
        (Arc::clone(&letter.0), letter)
    }

    /// Creates a node that only the taker accesses.
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

    /// Adds a node. Returns whether the list was empty.
    pub(crate) fn push(&self, letter: Letter<T>) -> bool {
        let node = Arc::into_raw(letter.0).cast_mut();
        // Loading the head first would cost as much as the exchange, and the list is mostly empty.
        let mut below = ptr::null_mut();
        loop {
            // SAFETY: the letter was the only right to the link, and the node is not in the list yet.
            unsafe { &*node }.below.set(below);
            match self.head.compare_exchange(below, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return below.is_null(),
                Err(now) => below = now,
            }
        }
    }

    /// Whether the list is empty at present.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes all nodes, and calls `f` with each in the order in which they were added.
    pub(crate) fn take(&self, mut f: impl FnMut(Letter<T>)) {
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        // Reverse the list.
        let mut oldest: *mut Node<T> = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: the whole list was taken, so its links belong to this thread alone; the list keeps its nodes alive.
            let below = unsafe { &*newest }.below.replace(oldest);
            oldest = newest;
            newest = below;
        }
        while !oldest.is_null() {
            // SAFETY: as above.
            let next = unsafe { &*oldest }.below.get();
            // SAFETY: it came from an `Arc`, and is converted back once.
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

/// A queue of nodes that were taken from an inbox. It uses their links, and so needs no memory. One thread uses it.
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

    /// Adds a node at the end.
    pub(crate) fn push(&mut self, letter: Letter<T>) {
        let node = Arc::into_raw(letter.0).cast_mut();
        // SAFETY: the letter was the only right to the link.
        unsafe { &*node }.below.set(ptr::null_mut());
        match self.last.is_null() {
            true => self.first = node,
            // SAFETY: a node of this queue, which keeps it alive and owns its link.
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
        // SAFETY: a node of this queue, which keeps it alive and owns its link.
        self.first = unsafe { &*node }.below.replace(ptr::null_mut());
        if self.first.is_null() {
            self.last = ptr::null_mut();
        }
        self.len -= 1;
        // SAFETY: it came from an `Arc`, and is converted back once.
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
    fn items_keep_the_order_of_insertion() {
        let inbox = Inbox::new();
        assert!(inbox.is_empty() && inbox.push(Node::letter(1)));
        assert!(!inbox.push(Node::letter(2)) && !inbox.push(Node::letter(3)));
        let mut taken = Vec::new();
        inbox.take(|letter| taken.push(***letter.node()));
        assert_eq!(taken, [1, 2, 3]);
        assert!(inbox.is_empty() && inbox.push(Node::letter(4)));
    }

    #[test]
    fn items_of_many_threads_keep_each_order() {
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
