//! A rank's output to the first one beside the engine's messages: rows, failures, and all else that only the first rank can
//! write. It arrives in order and whole, with a bound on the bytes in flight.
//!
//! ```text
//!   workers ── push ──▶ Outbox ── up to WINDOW messages ──▶ first rank: its writing thread
//!              (waits while much is queued)  ◀── 1 byte for each that was written ──
//! ```
//!
//! Its state does not grow with the number of ranks. About 64 MiB are in flight from all ranks, plus one push of each rank.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::bell::Bell;

/// Bytes that may wait on a rank before its workers are blocked.
const QUEUE_BYTES: usize = 4 << 20;
/// Approximate bytes of a message, where few ranks send.
const MESSAGE_BYTES: usize = 64 << 10;
/// Approximate minimum of bytes in a message. A push is never split.
const MESSAGE_BYTES_LEAST: usize = 4 << 10;
/// Messages in flight from one rank to the first one, where few ranks send.
const WINDOW: usize = 4;
/// Approximate bytes in flight from all ranks together: the first rank may have to keep them.
const UNDER_WAY_BYTES: usize = 64 << 20;
/// The first byte of such a message, plus the stream's number. Messages of the engine and of meetings begin with smaller ones.
const TAG: u8 = 0x80;
/// The answer to one.
pub(crate) const TAKEN: u8 = 0xff;

/// The number of a stream, 0 to 126. The program defines its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub u8);

/// Sends to the root. Clones are the same one; any thread may push.
#[derive(Clone, Debug)]
pub struct Outbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    room: Condvar,
    bell: Bell,
    message_bytes: usize,
    window: usize,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    queued_bytes: usize,
    under_way: usize,
    /// Nothing is sent any more.
    closed: bool,
    /// Whether a push blocks while much is queued. The sending thread must not block.
    is_bounded: bool,
}

impl Outbox {
    /// An outbox for a session of `ranks` ranks.
    pub(crate) fn new(bell: Bell, ranks: u32) -> Self {
        let share = UNDER_WAY_BYTES / (ranks as usize).max(1);
        let message_bytes = share.clamp(MESSAGE_BYTES_LEAST, MESSAGE_BYTES);
        let window = (share / message_bytes).clamp(1, WINDOW);
        Self(Arc::new(Inner { state: Mutex::default(), room: Condvar::new(), bell, message_bytes, window }))
    }

    /// Sends bytes on a stream. They arrive in the order of the pushes, joined or not, never split. During a job it blocks while
    /// much is queued. After the session failed, pushes are discarded.
    pub fn push(&self, stream: Stream, bytes: &[u8]) {
        let tag = TAG | (stream.0 & 0x7f);
        let mut state = self.lock();
        while state.is_bounded && state.queued_bytes > QUEUE_BYTES && !state.closed {
            state = self.0.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return;
        }
        state.queued_bytes += bytes.len();
        match state
            .queue
            .back_mut()
            .filter(|last| last.first() == Some(&tag) && last.len() < self.0.message_bytes)
        {
            Some(last) => last.extend_from_slice(bytes),
            None => {
                let mut message = Vec::with_capacity(bytes.len() + 1);
                message.push(tag);
                message.extend_from_slice(bytes);
                state.queue.push_back(message);
            }
        }
        let ring = state.under_way < self.0.window;
        drop(state);
        if ring {
            self.0.bell.ring();
        }
    }

    /// Sets whether a push blocks while much is queued: during a job, whose workers push, but not for the sending thread.
    pub(crate) fn set_bounded(&self, is_bounded: bool) {
        self.lock().is_bounded = is_bounded;
        self.0.room.notify_all();
    }

    /// The next message to send, if the window allows one.
    pub(crate) fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        if state.under_way >= self.0.window {
            return None;
        }
        let message = state.queue.pop_front()?;
        state.under_way += 1;
        state.queued_bytes -= message.len() - 1;
        self.0.room.notify_all();
        Some(message)
    }

    /// The root has taken a message. False: none was in flight.
    pub(crate) fn taken(&self) -> bool {
        let mut state = self.lock();
        let was = state.under_way;
        state.under_way = was.saturating_sub(1);
        was > 0
    }

    /// Whether all that was pushed has been taken.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.queue.is_empty() && state.under_way == 0
    }

    /// Releases all waiting threads.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queue.clear();
        self.0.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stream and contents of a message. None: it belongs to the engine.
pub(crate) fn open(message: &[u8]) -> Option<(Stream, &[u8])> {
    let (&tag, bytes) = message.split_first()?;
    (tag >= TAG && tag != TAKEN).then_some((Stream(tag & 0x7f), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_joined_in_order_and_streams_kept_apart() {
        let outbox = Outbox::new(Bell::default(), 2);
        for (stream, bytes) in [(1, "one "), (1, "two"), (0, "rows"), (1, "three")] {
            outbox.push(Stream(stream), bytes.as_bytes());
        }
        let sent: Vec<_> = std::iter::from_fn(|| outbox.next()).collect();
        let opened: Vec<_> = sent.iter().filter_map(|message| open(message)).collect();
        let expected = [(Stream(1), &b"one two"[..]), (Stream(0), b"rows"), (Stream(1), b"three")];
        assert_eq!(opened, expected);
        assert!(!outbox.is_empty());
        assert!((0..3).all(|_| outbox.taken()) && !outbox.taken() && outbox.is_empty());
    }

    #[test]
    fn only_so_many_are_under_way() {
        let outbox = Outbox::new(Bell::default(), 2);
        for at in 0..20_u8 {
            outbox.push(Stream(at), b"x");
        }
        assert_eq!(std::iter::from_fn(|| outbox.next()).count(), WINDOW);
        assert!(outbox.taken());
        assert_eq!(std::iter::from_fn(|| outbox.next()).count(), 1);
    }

    #[test]
    fn what_is_under_way_from_all_ranks_is_bounded() {
        for ranks in [2, 200, 1000, 5000, 10_000] {
            let outbox = Outbox::new(Bell::default(), ranks);
            (0..200_000).for_each(|_| outbox.push(Stream(0), b"a short row"));
            let bytes: usize = std::iter::from_fn(|| outbox.next()).map(|message| message.len()).sum();
            let most = (66 << 20) / ranks as usize;
            assert!(bytes <= most.max(5 << 10), "{ranks} ranks: {bytes}");
        }
    }

    #[test]
    fn who_sends_does_not_wait_for_room() {
        let outbox = Outbox::new(Bell::default(), 2);
        let large = vec![0; QUEUE_BYTES + 1];
        (0..2).for_each(|_| outbox.push(Stream(0), &large));
        outbox.set_bounded(true);
        let other = outbox.clone();
        let thread = std::thread::spawn(move || other.push(Stream(0), &[1]));
        outbox.set_bounded(false);
        thread.join().unwrap();
        assert_eq!(
            std::iter::from_fn(|| outbox.next()).map(|sent| sent.len()).sum::<usize>(),
            2 * large.len() + 1 + 3
        );
    }

    #[test]
    fn waiter_is_woken_before_a_dependent_callback() {
        let outbox = Outbox::new(Bell::default(), 2);
        outbox.set_bounded(true);
        let large = vec![0; QUEUE_BYTES + 1];
        for close in [false, true] {
            outbox.push(Stream(0), &large);
            let other = outbox.clone();
            let thread = std::thread::spawn(move || other.push(Stream(1), b"next"));
            if close {
                outbox.close();
            } else {
                assert!(outbox.next().is_some() && outbox.taken());
            }
            thread.join().unwrap();
            while outbox.next().is_some() {
                assert!(outbox.taken());
            }
        }
    }
}
