//! The ranks of a launch that go on when some of them die. A *view* is an endpoint of those that live, which a session uses as if there were no
//! others. When one of them dies, each session ends with an error, and the ranks that are left agree on the next view ([`Regroup`]). It decides
//! neither what a session does, nor how the next one goes on.
//!
//! ```text
//!   Group ── view() ──▶ View 0 of ranks 0 1 2 3   session ── rank 2 dies ──▶ RankError::Lost
//!     ▲                                                                          │
//!     └───────────────────────────── regroup(way) ◀──────────────────────────────┘
//!         then view() ──▶ View 1 of ranks 0 1 3, which are 0 1 2 in it
//! ```
//!
//! Each message begins with the number of its view. Those of an older view are dropped; those of a later one, which this rank has not entered yet,
//! are kept. On a fabric whose ranks do not survive the death of another there is one view, and messages are as they were.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use atta_engine::{Call, Rank, Regroup, Stand, Way};
use atta_entry::Code as _;
use atta_fabric::{Endpoint, FabricError, Received, Wake};

use super::error::RankError;
use super::wait::Limits;
use crate::stop::Stop;

/// The time between two looks for deaths: a probe for messages does not report all of them.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// In place of the number of a view: the message is a [`Call`].
const CALL: u32 = u32::MAX;
const HEADER_BYTES: usize = 4;
/// Intervals between two checks while the ranks regroup.
const POLL: Duration = Duration::from_micros(200);
/// Ranks that do not lead wait this many times as long after a request to end.
const OTHERS: u32 = 10;
/// How long the leader waits for the others to leave when no view follows, and others for a leader when all is over.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// What the ranks that are left have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regrouped {
    /// A new view: how it goes on.
    View(Way),
    /// No view follows, for this reason.
    Ended(Way),
}

/// The ranks of a launch. See the module documentation.
pub struct Group<'e> {
    endpoint: &'e mut dyn Endpoint,
    survives: bool,
    regroup: Regroup,
    /// The ranks of the view, by their numbers in it.
    members: Vec<u32>,
    /// Those on this host, as numbers in the view.
    neighbours: Vec<u32>,
    /// Messages of views that this rank has not entered: number, sender, bytes.
    early: VecDeque<(u32, Received)>,
    looked: Option<Instant>,
}

impl std::fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("regroup", &self.regroup).finish_non_exhaustive()
    }
}

impl<'e> Group<'e> {
    /// All ranks of a fabric are in the first view.
    pub fn new(endpoint: &'e mut dyn Endpoint) -> Self {
        let survives = endpoint.survives() && endpoint.size() > 1;
        let regroup = Regroup::new(Rank(endpoint.rank()), endpoint.size());
        let (members, neighbours) = ((0..endpoint.size()).collect(), endpoint.neighbours().to_vec());
        Self { endpoint, survives, regroup, members, neighbours, early: VecDeque::new(), looked: None }
    }

    /// Whether the ranks go on when one dies.
    #[must_use]
    pub fn survives(&self) -> bool {
        self.survives
    }

    /// The number of the view: that of the ranks that have died before it.
    fn number(&self) -> u32 {
        self.regroup.view()
    }

    /// The ranks that are known to be dead, as numbers in the launch.
    #[must_use]
    pub fn dead(&self) -> Vec<u32> {
        self.regroup.dead().map(|rank| rank.0).collect()
    }

    /// Whether this rank has the lowest number of those that live, as far as it knows.
    #[must_use]
    pub fn is_lowest(&self) -> bool {
        let here = self.endpoint.rank();
        let mut dead = self.regroup.dead().map(|rank| rank.0);
        (0..here).all(|rank| dead.next() == Some(rank))
    }

    /// The number of ranks of the view.
    #[must_use]
    pub fn ranks_left(&self) -> usize {
        self.members.len()
    }

    /// The endpoint of this view.
    pub fn view<'g>(&'g mut self) -> View<'g, 'e> {
        let here = self.endpoint.rank();
        // This rank is in each view that it enters.
        let rank = self.members.binary_search(&here).map_or(0, |at| at as u32);
        View { rank, group: self }
    }

    /// Agrees with the ranks that are left on the next view, after a session has ended since a rank died. `way`: how it can go on, as far as this
    /// rank knows. `waiting` gets the ranks that it waits for, each time after [`Limits::report`].
    ///
    /// # Errors
    /// The fabric fails; the others believe that this rank is dead; or they did not answer after a request to end.
    pub fn regroup(&mut self, way: Way, stop: &Stop, limits: Limits) -> Result<Regrouped, RankError> {
        self.regroup.ready(way);
        let began = Instant::now();
        let (mut reported, mut stopped) = (began, None);
        loop {
            self.look(Duration::ZERO)?;
            while let Some(received) = self.receive_any()? {
                self.keep(received);
            }
            self.endpoint.unsent()?;
            match self.regroup.stand() {
                Stand::Formed | Stand::Broken => break,
                Stand::Ended => return Ok(Regrouped::Ended(self.regroup.way().clone())),
                Stand::Excluded => return Err(RankError::Excluded),
                Stand::Waiting => {}
            }
            let awaited = || self.regroup.waits_for().into_iter().map(|rank| rank.0).collect::<Vec<_>>();
            if reported.elapsed() >= limits.report {
                reported = Instant::now();
                (limits.waiting)(&awaited());
            }
            // The first rank gives up first, so that it can report.
            let times = if self.is_lowest() { 1 } else { OTHERS };
            if stop.is_asked() && stopped.get_or_insert_with(Instant::now).elapsed() >= limits.give_up * times
            {
                return Err(RankError::Silent { ranks: awaited() });
            }
            // All ranks have ended their part, and the leader may have left MPI, which is no death.
            if let Way::Over(_) = self.regroup.way()
                && began.elapsed() >= LEAVE_WITHIN
            {
                return Ok(Regrouped::Ended(self.regroup.way().clone()));
            }
            std::thread::sleep(POLL);
        }
        let members = self.regroup.members().map(|rank| rank.0);
        self.members = members.collect();
        let at = |rank: &u32| self.members.binary_search(rank).ok().map(|at| at as u32);
        self.neighbours = self.endpoint.neighbours().iter().filter_map(at).collect();
        Ok(Regrouped::View(self.regroup.way().clone()))
    }

    /// Waits until the other ranks have left, after the order that no view follows: what a rank has sent may be lost when its process ends.
    ///
    /// # Errors
    /// The fabric fails.
    pub fn leave_last(&mut self) -> Result<(), RankError> {
        let began = Instant::now();
        while self.regroup.dead().count() + 1 < self.endpoint.size() as usize {
            self.look(LOOK_EVERY)?;
            self.endpoint.unsent()?;
            if began.elapsed() > LEAVE_WITHIN {
                break;
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Looks for deaths, if the last look was so long ago, and sends what follows from them.
    fn look(&mut self, every: Duration) -> Result<(), FabricError> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= every) {
            self.looked = Some(Instant::now());
            for rank in self.endpoint.lost()? {
                self.regroup.handle_lost(Rank(rank));
            }
        }
        while let Some((to, call)) = self.regroup.poll_message() {
            self.endpoint.send(to.0, framed(CALL, &call.encoded()))?;
        }
        Ok(())
    }

    /// The next message of any view. Takes in calls.
    fn receive_any(&mut self) -> Result<Option<(u32, Received)>, FabricError> {
        while let Some(Received { from, mut message }) = self.endpoint.receive()? {
            let view = message.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            let invalid = || FabricError::Invalid { from };
            let view = view.ok_or_else(invalid)?;
            if view != CALL {
                message.drain(..HEADER_BYTES);
                return Ok(Some((view, Received { from, message })));
            }
            let call = Call::decode_all(&message[HEADER_BYTES..]).ok_or_else(invalid)?;
            if !self.regroup.handle_call(Rank(from), &call) {
                return Err(invalid());
            }
            self.look(LOOK_EVERY)?;
        }
        Ok(None)
    }

    /// Keeps a message of a view that this rank has not entered.
    fn keep(&mut self, (view, received): (u32, Received)) {
        let is_entered = matches!(self.regroup.stand(), Stand::Formed | Stand::Broken);
        if view > self.number() || (is_entered && view == self.number()) {
            self.early.push_back((view, received));
        }
    }

    /// The next message of this view.
    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        let number = self.number();
        self.early.retain(|(view, _)| *view >= number);
        if let Some(at) = self.early.iter().position(|(view, _)| *view == number) {
            return Ok(self.early.remove(at).and_then(|(_, received)| self.of_member(received)));
        }
        while let Some((view, received)) = self.receive_any()? {
            match view.cmp(&number) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Greater => self.early.push_back((view, received)),
                std::cmp::Ordering::Equal => match self.of_member(received) {
                    None => {}
                    received => return Ok(received),
                },
            }
        }
        Ok(None)
    }

    /// A message with the number of its sender in the view. None: the sender is not in it.
    fn of_member(&self, Received { from, message }: Received) -> Option<Received> {
        let at = self.members.binary_search(&from).ok()?;
        Some(Received { from: at as u32, message })
    }
}

/// A message of a view.
fn framed(view: u32, message: &[u8]) -> Vec<u8> {
    [&view.to_le_bytes()[..], message].concat()
}

/// The ranks of a view. See [`Group`].
#[derive(Debug)]
pub struct View<'g, 'e> {
    rank: u32,
    group: &'g mut Group<'e>,
}

impl Endpoint for View<'_, '_> {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.group.members.len() as u32
    }

    fn neighbours(&self) -> &[u32] {
        &self.group.neighbours
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        let size = self.size();
        let Some(&rank) = self.group.members.get(to as usize) else {
            return Err(FabricError::NoSuchRank { rank: to, size });
        };
        let message = if self.group.survives { framed(self.group.number(), &message) } else { message };
        self.group.endpoint.send(rank, message)
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        if self.group.survives { self.group.receive() } else { self.group.endpoint.receive() }
    }

    fn on_arrival(&mut self, wake: Wake) -> bool {
        self.group.endpoint.on_arrival(wake)
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.group.endpoint.unsent()
    }

    fn survives(&self) -> bool {
        self.group.survives
    }

    /// All ranks of the view that have died, each time.
    fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        self.group.look(LOOK_EVERY)?;
        match self.group.regroup.stand() {
            Stand::Formed => Ok(Vec::new()),
            Stand::Excluded => Err(FabricError::Excluded),
            _ => {
                let at = |rank: Rank| self.group.members.binary_search(&rank.0).ok().map(|at| at as u32);
                Ok(self.group.regroup.dead().filter_map(at).collect())
            }
        }
    }

    /// Nothing: the ranks leave the fabric itself.
    fn leave(self: Box<Self>) -> Result<(), FabricError> {
        Ok(())
    }

    fn abort(&mut self, exit_code: i32) {
        self.group.endpoint.abort(exit_code);
    }
}
