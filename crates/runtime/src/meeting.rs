//! All ranks together, before and after a job: each brings something, the root decides, everybody hears. Along the tree of
//! ranks, so that nobody holds something for each rank. It waits, unlike everything else here: there is nothing to do
//! meanwhile.
//!
//! Ranks are not all at the same step at the same time: one may be in the meeting after a job while another still runs
//! the job, whose tree of ranks may be another one. So messages of meetings carry a tag and the number of the step, and
//! what comes too early is kept, here and in the job.

use std::collections::VecDeque;
use std::time::Duration;

use atta_engine::{Rank, Tree, WireError};
use atta_entry::Code;
use atta_fabric::{Endpoint, Received};

use crate::{RankError, Stop};

/// Children of each rank in the tree.
const WIDTH: u32 = 16;
/// Between two looks for a message.
const POLL: Duration = Duration::from_micros(100);
/// The first byte of each message of a meeting; the engine's begin with smaller ones, those of streams with larger ones.
const TAG: u8 = 0x7f;
/// Bytes before what a message holds: the tag and the step.
const HEADER_BYTES: usize = 5;
/// The step of a message that belongs to none: a rank asks all others to end early.
const STOP: u32 = u32::MAX;

/// The ranks of a job before it begins or after it has ended.
pub struct Meeting<'e> {
    pub(crate) endpoint: &'e mut dyn Endpoint,
    /// Steps that have begun, in this meeting and in those before it: the same on all ranks.
    pub(crate) step: u32,
    /// What came from ranks that are further on: messages of later steps, and of the job.
    pub(crate) early: VecDeque<Received>,
    /// The request to end early that is passed on, if one is, and whether the ranks next to this one in the tree know of it.
    pub(crate) passing: Option<(Stop, bool)>,
}

impl std::fmt::Debug for Meeting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meeting").field("rank", &self.endpoint.rank()).finish_non_exhaustive()
    }
}

/// Whether a message belongs to a meeting.
pub(crate) fn is_of_meeting(message: &[u8]) -> bool {
    message.first() == Some(&TAG)
}

/// Whether a message asks to end early.
fn is_stop(message: &[u8]) -> bool {
    is_of_meeting(message) && message.get(1..HEADER_BYTES) == Some(&STOP.to_le_bytes())
}

impl<'e> Meeting<'e> {
    /// Meets the other ranks of a fabric. All ranks then do the same steps in the same order. To meet again after a job,
    /// use [`Member::into_meeting`](crate::Member::into_meeting).
    pub fn new(endpoint: &'e mut dyn Endpoint) -> Self {
        Self { endpoint, step: 0, early: VecDeque::new(), passing: None }
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.endpoint.rank()
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.endpoint.size()
    }

    /// Ranks on this host, ascending, this one among them.
    #[must_use]
    pub fn neighbours(&self) -> &[u32] {
        self.endpoint.neighbours()
    }

    /// Brings something of each rank together; the root gets the whole. `merge` adds a part to what there is; its result
    /// must not depend on the order, nor grow with the number of ranks.
    ///
    /// # Errors
    /// The fabric fails, or another rank does another step or sends something else.
    pub fn gather<T: Code>(
        &mut self,
        own: T,
        mut merge: impl FnMut(&mut T, T),
    ) -> Result<Option<T>, RankError> {
        let tree = self.next_step();
        let mut sum = own;
        for child in tree.children() {
            let part = self.receive_from(child.0)?;
            merge(&mut sum, decoded(child, &part)?);
        }
        match tree.parent() {
            Some(parent) => self.send(parent.0, &sum.encoded()).map(|()| None),
            None => Ok(Some(sum)),
        }
    }

    /// Tells all ranks what the root says; the others give nothing.
    ///
    /// # Errors
    /// The fabric fails, or another rank does another step or sends something else; or the root gives nothing.
    pub fn tell<T: Code>(&mut self, said: Option<T>) -> Result<T, RankError> {
        let tree = self.next_step();
        let bytes = match (tree.parent(), said) {
            (Some(parent), _) => self.receive_from(parent.0)?,
            (None, Some(said)) => said.encoded(),
            (None, None) => return Err(RankError::Stuck("the first rank has nothing to tell")),
        };
        for child in tree.children() {
            self.send(child.0, &bytes)?;
        }
        // Whoever has heard may leave at once.
        while self.endpoint.unsent()? > 0 {
            std::thread::sleep(POLL);
        }
        decoded(tree.parent().unwrap_or(Rank::ROOT), &bytes)
    }

    /// What each rank of this host says, in their order.
    ///
    /// # Errors
    /// The fabric fails, or another rank does another step or sends something else.
    pub fn among_neighbours<T: Code>(&mut self, own: &T) -> Result<Vec<T>, RankError> {
        self.next_step();
        let (here, neighbours, own) = (self.rank(), self.neighbours().to_vec(), own.encoded());
        for &rank in neighbours.iter().filter(|rank| **rank != here) {
            self.send(rank, &own)?;
        }
        let hear = |rank| {
            let said = if rank == here { own.clone() } else { self.receive_from(rank)? };
            decoded(Rank(rank), &said)
        };
        neighbours.into_iter().map(hear).collect()
    }

    /// From here on a request to end early that is made on one rank becomes one on all ranks, as soon as they wait for each other
    /// or [`listen`](Self::listen). All ranks call this at the same point of their steps.
    pub fn pass_on(&mut self, stop: &Stop) {
        self.passing = Some((stop.clone(), false));
        let before = self.early.len();
        self.early.retain(|early| !is_stop(&early.message));
        if self.early.len() < before {
            stop.set();
        }
    }

    /// Ends that. All ranks then go together through a step that gathers and one that tells, in which they receive what is still
    /// on its way.
    pub fn keep_to_itself(&mut self) {
        self.passing = None;
    }

    /// Looks whether another rank asks to end early, and passes on that this one does. Does not wait.
    ///
    /// # Errors
    /// The fabric fails.
    pub fn listen(&mut self) -> Result<(), RankError> {
        self.endpoint.unsent()?;
        while let Some(received) = self.endpoint.receive()? {
            self.take_in(received);
        }
        self.tell_stop()
    }

    /// Keeps what came too early, or learns that another rank asks to end.
    fn take_in(&mut self, received: Received) {
        if !is_stop(&received.message) {
            self.early.push_back(received);
        } else if let Some((stop, _)) = &self.passing {
            stop.set();
        }
    }

    /// Asks the ranks next to this one in the tree, once, to end early.
    fn tell_stop(&mut self) -> Result<(), RankError> {
        if !self.passing.as_ref().is_some_and(|(stop, is_told)| stop.is_set() && !is_told) {
            return Ok(());
        }
        self.passing.iter_mut().for_each(|(_, is_told)| *is_told = true);
        let mut message = vec![TAG];
        message.extend(STOP.to_le_bytes());
        let tree = Tree::new(Rank(self.rank()), self.size(), WIDTH);
        let near: Vec<Rank> = tree.parent().into_iter().chain(tree.children()).collect();
        near.into_iter().try_for_each(|rank| Ok(self.endpoint.send(rank.0, message.clone())?))
    }

    /// Begins the next step; gives the tree along which it goes.
    fn next_step(&mut self) -> Tree {
        self.step = self.step.wrapping_add(1);
        Tree::new(Rank(self.rank()), self.size(), WIDTH)
    }

    fn send(&mut self, to: u32, bytes: &[u8]) -> Result<(), RankError> {
        let mut message = Vec::with_capacity(HEADER_BYTES + bytes.len());
        message.push(TAG);
        message.extend(self.step.to_le_bytes());
        message.extend_from_slice(bytes);
        Ok(self.endpoint.send(to, message)?)
    }

    /// What a rank says in this step. Messages of a rank keep their order, so its first one of a meeting is the one.
    fn receive_from(&mut self, from: u32) -> Result<Vec<u8>, RankError> {
        let is_wanted = |Received { from: sender, message }: &Received| {
            *sender == from && is_of_meeting(message) && !is_stop(message)
        };
        if let Some(early) = self.early.iter().position(is_wanted).and_then(|at| self.early.remove(at)) {
            return self.open(early);
        }
        loop {
            self.tell_stop()?;
            self.endpoint.unsent()?;
            match self.endpoint.receive()? {
                Some(received) if is_wanted(&received) => return self.open(received),
                Some(received) => self.take_in(received),
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// What a message of this step holds.
    fn open(&self, Received { from, mut message }: Received) -> Result<Vec<u8>, RankError> {
        let step = message.get(1..HEADER_BYTES).and_then(|step| step.try_into().ok());
        let error = match step.map(u32::from_le_bytes) {
            None => WireError::Length,
            Some(step) if step != self.step => WireError::Value,
            Some(_) => return Ok(message.split_off(HEADER_BYTES)),
        };
        Err(RankError::Wire { from: Rank(from), error })
    }
}

/// What a rank sent.
fn decoded<T: Code>(from: Rank, bytes: &[u8]) -> Result<T, RankError> {
    T::decode_all(bytes).ok_or(RankError::Wire { from, error: WireError::Value })
}

#[cfg(test)]
mod tests {
    use atta_engine::Message;
    use atta_fabric::in_process;

    use super::*;
    use crate::stream;

    #[test]
    fn messages_of_meetings_are_neither_the_engine_s_nor_of_a_stream() {
        assert_eq!(Message::decode(&[TAG, 0, 0, 0, 0]), Err(WireError::Tag(TAG)));
        assert!(stream::open(&[TAG]).is_none());
    }

    #[test]
    fn message_of_another_step_is_an_error() {
        for message in [vec![TAG, 2, 0, 0, 0], vec![TAG, 1, 0, 0]] {
            let mut ranks = in_process(2);
            ranks[1].send(0, message).unwrap();
            let error = Meeting::new(&mut ranks[0]).gather((), |(), ()| ()).unwrap_err();
            assert!(matches!(error, RankError::Wire { from: Rank(1), .. }), "{error}");
        }
    }

    #[test]
    fn what_is_no_value_of_the_step_is_an_error() {
        let mut ranks = in_process(2);
        ranks[1].send(0, vec![TAG, 1, 0, 0, 0, 0x80]).unwrap();
        let error = Meeting::new(&mut ranks[0]).gather(1_u64, |sum, more| *sum += more).unwrap_err();
        assert!(matches!(error, RankError::Wire { from: Rank(1), .. }), "{error}");
    }

    #[test]
    fn a_request_to_end_on_one_rank_reaches_all_that_wait_or_listen() {
        let stops: Vec<Stop> = (0..40).map(|_| Stop::new()).collect();
        stops[23].set();
        std::thread::scope(|scope| {
            for (mut endpoint, stop) in in_process(40).into_iter().zip(&stops) {
                scope.spawn(move || {
                    let mut meeting = Meeting::new(&mut endpoint);
                    meeting.pass_on(stop);
                    // Some have something to do, which takes until they hear of it.
                    let mut looks = 0;
                    while meeting.rank().is_multiple_of(5) && !stop.is_set() && looks < 600_000 {
                        meeting.listen().unwrap();
                        looks += 1;
                        std::thread::sleep(POLL);
                    }
                    assert!(
                        !meeting.rank().is_multiple_of(5) || stop.is_set(),
                        "rank {} heard of nothing",
                        meeting.rank()
                    );
                    let all = meeting.gather((), |(), ()| ()).unwrap();
                    meeting.tell(all).unwrap();
                    meeting.keep_to_itself();
                    // What is still on its way disturbs no later step.
                    let ranks = meeting.gather(1_u32, |sum, more| *sum += more).unwrap();
                    assert_eq!(meeting.tell(ranks).unwrap(), 40);
                });
            }
        });
    }

    #[test]
    fn all_hear_what_the_root_makes_of_what_all_bring() {
        let hosts: Vec<u32> = (0..40).map(|rank| rank / 3).collect();
        std::thread::scope(|scope| {
            for mut endpoint in atta_fabric::in_process_on_hosts(&hosts) {
                scope.spawn(move || {
                    let mut meeting = Meeting::new(&mut endpoint);
                    for round in 0..3 {
                        let own = meeting.rank() + round;
                        let most = meeting.gather(own, |most, other| *most = other.max(*most)).unwrap();
                        assert_eq!(most.is_some(), meeting.rank() == 0);
                        assert_eq!(meeting.tell(most).unwrap(), 39 + round);
                        let near = meeting.among_neighbours(&meeting.rank()).unwrap();
                        assert_eq!(near, meeting.neighbours());
                    }
                });
            }
        });
    }
}
