//! A multicast of any length: the first rank of each group sends parts, and each rank passes a part on while it receives the next one. So all
//! links of a group are in use at once. Own threads make the parts and take them, so that a slow disk holds up no message of this rank until
//! the window is full. It knows nothing of files.
//!
//! ```text
//!   next() ──▶ first rank ──part──▶ rank ──part──▶ rank        a chain; a rank of a tree has several children
//!                 │  ▲───answer──────┘│▲──answer────┘│
//!                 ▼                   ▼              ▼
//!               take()              take()         take()
//! ```
//!
//! A rank answers a part when it has taken it and passed it on, and sends each child at most [`WINDOW`] parts without an answer. So a rank keeps
//! as many parts, and as many more for each child in the queue of the fabric. All messages belong to one step ([`Meeting`]):
//!
//! | first byte | meaning |
//! | --- | --- |
//! | 0 | a part: the rest of the message |
//! | 1 | the end |
//! | none | the answer to one of these |

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use atta_engine::{Rank, WireError};

use super::error::RankError;
use super::link::Link;
use super::meet::Meeting;
use super::wait::Wait;
use crate::bell::Bell;

/// Parts that a rank sends to a child without an answer.
pub(crate) const WINDOW: usize = 4;
/// Parts that the first rank makes in advance.
const AHEAD: usize = 1;
const PART: u8 = 0;
const END: u8 = 1;

/// The way that parts take through a group of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Along the tree of meetings, with 16 children for each rank: few steps, for a few bytes.
    Tree,
    /// From each rank to the next one: no link carries a byte twice, for many bytes.
    Chain,
}

impl Shape {
    /// The rank before a place in a group of so many, and those after it, as places.
    fn neighbours(self, place: usize, size: usize) -> (Option<usize>, Vec<usize>) {
        match self {
            Self::Chain => (place.checked_sub(1), (place + 1..size).take(1).collect()),
            Self::Tree => {
                let tree = Link::tree_of_group(place, size);
                let at = |rank: Rank| rank.0 as usize;
                (tree.parent().map(at), tree.children().map(at).collect())
            }
        }
    }
}

/// A part, or the end.
type Part = Option<Arc<Vec<u8>>>;

/// Where the parts of this rank come from.
enum Origin {
    /// Another rank.
    Rank(u32),
    /// The thread that makes them.
    Thread(Receiver<Arc<Vec<u8>>>),
}

/// A rank that gets the parts from this one.
struct Child {
    rank: u32,
    sent: u64,
    answered: u64,
}

/// The relay of one rank. Parts are numbered from 0; the end has the last number.
struct Relay<'t> {
    origin: Origin,
    children: Vec<Child>,
    /// Parts that are not released, and the number of the first of them.
    parts: VecDeque<Part>,
    released: u64,
    /// Parts given to the taking thread, and its input.
    given: u64,
    taker: Option<Sender<Arc<Vec<u8>>>>,
    taken: &'t AtomicU64,
    has_end: bool,
}

impl Relay<'_> {
    /// The number of the next part.
    fn count(&self) -> u64 {
        self.released + self.parts.len() as u64
    }

    /// Takes in answers, then parts, and passes them on. Returns whether anything has moved.
    fn advance(&mut self, meeting: &mut Meeting<'_>) -> Result<bool, RankError> {
        let mut moves = false;
        let step = meeting.step();
        for child in &mut self.children {
            // After the last answer, a message of the child belongs to a later step.
            while child.answered < child.sent
                && let Some(bytes) = meeting.link.step_from(child.rank, step)?
            {
                if !bytes.is_empty() {
                    return Err(wrong(child.rank));
                }
                child.answered += 1;
                moves = true;
            }
        }
        while !self.has_end && self.parts.len() < WINDOW {
            let Some(part) = self.origin.next(meeting)? else { break };
            self.has_end = part.is_none();
            self.parts.push_back(part);
            moves = true;
        }
        self.give();
        moves |= self.send(meeting)?;
        Ok(moves | self.release(meeting)?)
    }

    /// Gives parts to the taking thread.
    fn give(&mut self) {
        while let Some(part) = self.parts.get((self.given - self.released) as usize) {
            match (part, &self.taker) {
                // A thread that has panicked takes no more; that is noticed elsewhere.
                (Some(part), Some(taker)) => drop(taker.send(Arc::clone(part))),
                _ => self.taker = None,
            }
            self.given += 1;
        }
    }

    fn send(&mut self, meeting: &mut Meeting<'_>) -> Result<bool, RankError> {
        let (mut moves, count) = (false, self.count());
        for child in &mut self.children {
            while child.sent < count && child.sent - child.answered < WINDOW as u64 {
                let part = &self.parts[(child.sent - self.released) as usize];
                let (kind, bytes) = part.as_ref().map_or((END, &[][..]), |bytes| (PART, bytes.as_slice()));
                meeting.link.send_step_of(child.rank, meeting.step(), &[&[kind], bytes])?;
                child.sent += 1;
                moves = true;
            }
        }
        Ok(moves)
    }

    /// Forgets parts that are taken and passed on, and answers them.
    fn release(&mut self, meeting: &mut Meeting<'_>) -> Result<bool, RankError> {
        let taken = self.taken.load(Ordering::Acquire);
        let mut moves = false;
        while let Some(part) = self.parts.front() {
            let is_taken = part.is_none() || taken > self.released;
            let is_sent = self.children.iter().all(|child| child.sent > self.released);
            if !is_taken || !is_sent || self.given <= self.released {
                break;
            }
            if let Origin::Rank(parent) = self.origin {
                meeting.link.send_step(parent, meeting.step(), &[])?;
            }
            self.parts.pop_front();
            self.released += 1;
            moves = true;
        }
        Ok(moves)
    }

    fn is_over(&self) -> bool {
        self.has_end
            && self.parts.is_empty()
            && self.children.iter().all(|child| child.answered == child.sent)
    }

    /// The ranks that this one waits for.
    fn awaited(&self) -> Vec<u32> {
        let children = self.children.iter().filter(|child| child.answered < child.sent);
        let parent = match self.origin {
            Origin::Rank(parent) if !self.has_end && self.parts.len() < WINDOW => Some(parent),
            _ => None,
        };
        parent.into_iter().chain(children.map(|child| child.rank)).collect()
    }

    /// Whether a thread of this rank has something to do, so that others have to wait for it.
    fn is_at_work(&self) -> bool {
        let makes = matches!(self.origin, Origin::Thread(_)) && !self.has_end && self.parts.len() < WINDOW;
        let parts = self.given - u64::from(self.has_end && self.given == self.count());
        makes || self.taken.load(Ordering::Acquire) < parts
    }
}

impl Origin {
    /// The next part, if it is there.
    fn next(&self, meeting: &mut Meeting<'_>) -> Result<Option<Part>, RankError> {
        match self {
            Self::Thread(made) => Ok(match made.try_recv() {
                Ok(part) => Some(Some(part)),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(None),
            }),
            Self::Rank(parent) => {
                let Some(mut bytes) = meeting.link.step_from(*parent, meeting.step())? else {
                    return Ok(None);
                };
                match bytes.first() {
                    Some(&PART) => {
                        bytes.drain(..1);
                        Ok(Some(Some(Arc::new(bytes))))
                    }
                    Some(&END) if bytes.len() == 1 => Ok(Some(None)),
                    _ => Err(wrong(*parent)),
                }
            }
        }
    }
}

fn wrong(from: u32) -> RankError {
    RankError::Wire { from: Rank(from), error: WireError::Value }
}

/// Makes parts on a thread of its own, as fast as they are wanted.
fn make<'s>(
    scope: &'s Scope<'s, '_>,
    bell: Bell,
    mut next: impl FnMut() -> Option<Vec<u8>> + Send + 's,
) -> (Receiver<Arc<Vec<u8>>>, ScopedJoinHandle<'s, ()>) {
    let (sender, receiver) = sync_channel(AHEAD);
    let thread = scope.spawn(move || {
        // After the sender is gone, so that the end is seen.
        let _rings = Rings(bell.clone());
        let sender = sender;
        while let Some(part) = next() {
            if sender.send(Arc::new(part)).is_err() {
                break;
            }
            bell.ring();
        }
    });
    (receiver, thread)
}

/// Rings when it is dropped.
struct Rings(Bell);

impl Drop for Rings {
    fn drop(&mut self) {
        self.0.ring();
    }
}

impl Meeting<'_> {
    /// Sends parts from the first rank of each group to all of it. See [`Session::multicast_parts`](crate::Session::multicast_parts).
    pub(crate) fn relay(
        &mut self,
        (members, shape): (&[u32], Shape),
        next: impl FnMut() -> Option<Vec<u8>> + Send,
        mut take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), RankError> {
        self.begin_step()?;
        let here = self.link.rank();
        let Some(place) = members.iter().position(|rank| *rank == here) else { return Ok(()) };
        let (parent, children) = shape.neighbours(place, members.len());
        let children = children.into_iter().map(|at| Child { rank: members[at], sent: 0, answered: 0 });
        let (taken, bell) = (AtomicU64::new(0), self.link.bell.clone());
        std::thread::scope(|scope| {
            let (origin, maker) = match parent {
                Some(parent) => (Origin::Rank(members[parent]), None),
                None => {
                    let (made, thread) = make(scope, bell.clone(), next);
                    (Origin::Thread(made), Some(thread))
                }
            };
            let (input, parts) = channel::<Arc<Vec<u8>>>();
            let counted = &taken;
            let taker = scope.spawn(move || {
                let _rings = Rings(bell.clone());
                for part in parts {
                    take(&part);
                    counted.fetch_add(1, Ordering::Release);
                    bell.ring();
                }
            });
            let mut relay = Relay {
                origin,
                children: children.collect(),
                parts: VecDeque::new(),
                released: 0,
                given: 0,
                taker: Some(input),
                taken: &taken,
                has_end: false,
            };
            let ended = self.carry(&mut relay, &taker);
            // The threads end when nobody gives or wants parts.
            drop(relay);
            let panicked = maker.into_iter().chain([taker]).find_map(|thread| thread.join().err());
            panicked.map_or(ended, |panic| std::panic::resume_unwind(panic))
        })
    }

    /// Carries all parts.
    fn carry(&mut self, relay: &mut Relay<'_>, taker: &ScopedJoinHandle<'_, ()>) -> Result<(), RankError> {
        let mut wait = Wait::new(self.limits);
        self.link.forget_alive();
        while !relay.is_over() {
            // Looked at first: what the thread has done before it ended counts.
            let takes_no_more = taker.is_finished();
            if relay.is_at_work() {
                self.listen()?;
            } else {
                self.exchange()?;
            }
            if relay.advance(self)? {
                wait.note_progress();
                continue;
            }
            let awaited = relay.awaited();
            match relay.is_at_work() {
                // It has panicked: it ends when all parts are taken.
                true if takes_no_more => return Ok(()),
                true => {}
                false => wait.check(&mut self.link, &awaited)?,
            }
            wait.rest(&self.link);
        }
        let parent = match relay.origin {
            Origin::Rank(parent) => vec![parent],
            Origin::Thread(_) => Vec::new(),
        };
        self.send_all(&parent)
    }
}

#[cfg(test)]
mod tests;
