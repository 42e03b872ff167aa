//! The agreement of the living on who they are, after ranks have died. It moves no tasks and knows no job: between two *views*, in which the same
//! ranks work together, every rank has ended what it did in the old one.
//!
//! ```text
//!   rank      --- Ready(dead, way) ---> lowest living rank      each rank that has ended its part of the old view
//!   lowest    --- Go(dead, way) ------> all the living          when all of them are ready
//!   lowest    --- End(way) -----------> all the living          in place of it, if no view follows
//! ```
//!
//! The number of a view is that of the ranks that are dead when it begins.
//!
//! # What it needs
//! Messages from one rank to another arrive in order. A death is reported to every rank that lives, some time, and only a dead rank is reported:
//! the fabric asks whoever has started the process. A rank that is only slow is waited for.
//!
//! # Why all agree
//! A rank is ready for one leader at a time, the lowest rank that it believes to live, and obeys only that one. A leader gives an order when all
//! that live, as far as it knows, are ready for it. Let A and B give orders, and B the later one, so that A is dead for B. A rank that is dead in
//! the order of A died before A. It cannot have been ready for B, which needs the news that A is dead; so it is dead in the order of B, too. Hence
//! the dead of A's order are some of the dead of B's order, which has A besides, and the numbers differ. So views with the same number have the
//! same leader, and the orders of one leader have ever more dead. A rank that has obeyed A, and one that has not, enter the view of B alike.
//!
//! # Why it ends
//! Each death is reported in the end, so all ranks that live have the same leader in the end, and are ready for it. A rank that hears of a death in
//! another rank's message acts as if it was reported. One that enters a view in which a rank counts that it knows to be dead is ready for the next
//! view at once.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::Rank;

/// A rule of the agreement that can be switched off, to test that the checkers notice. For tests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViewRule {
    /// A rank obeys only the rank that it is ready for.
    ObeyOneLeader,
    /// A view begins when all that live are ready.
    AwaitReady,
    /// A rank that knows a member of a new view to be dead does not stay in it.
    LeaveAtOnce,
}

impl ViewRule {
    /// All rules.
    pub const ALL: [Self; 3] = [Self::ObeyOneLeader, Self::AwaitReady, Self::LeaveAtOnce];
}

/// How what the ranks do together goes on when some have died. Of the ways of all ranks the last counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// It begins anew: nothing was done yet.
    Anew,
    /// From what these bytes say, which mean something to the caller alone.
    From(Vec<u8>),
    /// Not at all.
    Ends,
    /// It has come to its end. The bytes are for the caller.
    Over(Vec<u8>),
}

/// A message about the next view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// The sender has ended its part of the last view that it was in.
    Ready {
        /// All ranks that it knows to be dead, ascending.
        dead: Vec<u32>,
        /// How it can go on without them.
        way: Way,
    },
    /// A view begins. All ranks that are not named are in it.
    Go {
        /// All ranks that are dead, ascending.
        dead: Vec<u32>,
        /// How it goes on.
        way: Way,
    },
    /// No view follows.
    End(Way),
}

atta_code::choice!(Way {
    0 => Anew,
    1 => From(bytes),
    2 => Ends,
    3 => Over(bytes),
});

atta_code::choice!(Call {
    1 => Ready { dead, way },
    2 => Go { dead, way },
    3 => End(way),
});

/// What has become of the agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stand {
    /// This rank is in the newest view, and nobody in it is known to be dead.
    Formed,
    /// A rank of the view is dead: this rank must end its part of it, and call [`Regroup::ready`].
    Broken,
    /// This rank is ready, and waits for others.
    Waiting,
    /// No view follows.
    Ended,
    /// The others believe this rank to be dead. It must end at once, and has no part in anything.
    Excluded,
}

/// One rank's part of the agreement.
#[derive(Clone, Debug, Hash)]
pub struct Regroup {
    here: u32,
    size: u32,
    broken: Option<ViewRule>,
    /// All ranks known to be dead.
    dead: BTreeSet<u32>,
    /// Those that are not in the view.
    left_out: BTreeSet<u32>,
    stand: Stand,
    /// How it goes on: as far as this rank knows, or as was decided.
    way: Way,
    /// The rank that this one is ready for.
    leader: Option<u32>,
    /// Ranks that are ready for this one: how many dead each knows, and how it can go on.
    ready: BTreeMap<u32, (usize, Way)>,
    /// Messages to be sent.
    out: VecDeque<(Rank, Call)>,
}

impl Regroup {
    /// All ranks are in the first view, number 0.
    #[must_use]
    pub fn new(here: Rank, size: u32) -> Self {
        Self {
            here: here.0,
            size,
            broken: None,
            dead: BTreeSet::new(),
            left_out: BTreeSet::new(),
            stand: Stand::Formed,
            way: Way::Anew,
            leader: None,
            ready: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    /// The same with a rule that is switched off.
    #[must_use]
    pub fn without(self, rule: ViewRule) -> Self {
        Self { broken: Some(rule), ..self }
    }

    /// What has become of it.
    #[must_use]
    pub fn stand(&self) -> Stand {
        self.stand
    }

    /// The number of the view that this rank is in, or was in last.
    #[must_use]
    pub fn view(&self) -> u32 {
        // There are fewer than ranks.
        self.left_out.len() as u32
    }

    /// How it goes on, as was decided for this view or the end.
    #[must_use]
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// The ranks of that view, ascending.
    pub fn members(&self) -> impl Iterator<Item = Rank> {
        (0..self.size).filter(|rank| !self.left_out.contains(rank)).map(Rank)
    }

    /// The ranks that are dead, as far as this one knows.
    pub fn dead(&self) -> impl Iterator<Item = Rank> {
        self.dead.iter().copied().map(Rank)
    }

    /// The ranks that this one waits for.
    #[must_use]
    pub fn waits_for(&self) -> Vec<Rank> {
        match (self.stand, self.leader) {
            (Stand::Waiting, Some(leader)) if leader == self.here => {
                self.living().filter(|rank| !self.ready.contains_key(rank)).map(Rank).collect()
            }
            (Stand::Waiting, Some(leader)) => alloc::vec![Rank(leader)],
            _ => Vec::new(),
        }
    }

    /// The next message to be sent.
    pub fn poll_message(&mut self) -> Option<(Rank, Call)> {
        self.out.pop_front()
    }

    /// A rank has died.
    pub fn handle_lost(&mut self, rank: Rank) {
        self.note_dead(&[rank.0]);
        self.act();
    }

    /// This rank has ended its part of the view, and knows this way to go on without the dead.
    pub fn ready(&mut self, way: Way) {
        if self.stand == Stand::Broken {
            (self.stand, self.way) = (Stand::Waiting, way);
            self.act();
        }
    }

    /// Takes in a message. False: it is not valid.
    pub fn handle_call(&mut self, from: Rank, call: &Call) -> bool {
        let is_list = |dead: &[u32]| {
            dead.is_sorted_by(|one, next| one < next) && dead.last().is_none_or(|last| *last < self.size)
        };
        let valid = match call {
            Call::Ready { dead, .. } | Call::Go { dead, .. } => is_list(dead) && !dead.contains(&from.0),
            Call::End(_) => true,
        };
        if !valid || from.0 >= self.size || matches!(self.stand, Stand::Ended | Stand::Excluded) {
            return valid;
        }
        match call {
            Call::Ready { dead, way } => {
                self.note_dead(dead);
                // What a dead rank has said may arrive late.
                if !self.dead.contains(&from.0) {
                    self.ready.insert(from.0, (dead.len(), way.clone()));
                }
            }
            Call::Go { .. } | Call::End(_) if !self.obeys(from) => {}
            Call::Go { dead, way } => self.enter(dead, way),
            Call::End(way) => self.end(way),
        }
        self.act();
        true
    }

    /// Whether an order of this rank counts.
    fn obeys(&self, from: Rank) -> bool {
        let is_leader = self.leader == Some(from.0) || self.is_broken(ViewRule::ObeyOneLeader);
        self.stand == Stand::Waiting && is_leader
    }

    fn is_broken(&self, rule: ViewRule) -> bool {
        self.broken == Some(rule)
    }

    fn living(&self) -> impl Iterator<Item = u32> {
        (0..self.size).filter(|rank| !self.dead.contains(rank))
    }

    fn note_dead(&mut self, dead: &[u32]) {
        if dead.contains(&self.here) {
            self.stand = Stand::Excluded;
            return;
        }
        self.dead.extend(dead);
        self.ready.retain(|rank, _| !dead.contains(rank));
        if self.stand == Stand::Formed && self.dead.len() > self.left_out.len() {
            self.stand = Stand::Broken;
        }
    }

    /// Enters a view.
    fn enter(&mut self, dead: &[u32], way: &Way) {
        self.note_dead(dead);
        if self.stand == Stand::Excluded {
            return;
        }
        self.way = way.clone();
        self.left_out = dead.iter().copied().collect();
        (self.stand, self.leader) = (Stand::Formed, None);
        // A rank that is ready for the view after this one has sent that after its order.
        self.ready.retain(|_, (known, _)| *known > dead.len());
        // A rank of the view may have died meanwhile.
        if !self.is_broken(ViewRule::LeaveAtOnce) {
            self.note_dead(&[]);
        }
    }

    fn end(&mut self, way: &Way) {
        (self.stand, self.way) = (Stand::Ended, way.clone());
    }

    /// Does what follows from the state.
    fn act(&mut self) {
        if self.stand != Stand::Waiting {
            return;
        }
        let leader = self.living().next().unwrap_or(self.here);
        if self.leader != Some(leader) {
            self.leader = Some(leader);
            let dead: Vec<u32> = self.dead.iter().copied().collect();
            let ready = Call::Ready { dead, way: self.way.clone() };
            if leader == self.here {
                self.ready.insert(self.here, (self.dead.len(), self.way.clone()));
            } else {
                self.out.push_back((Rank(leader), ready));
            }
        }
        if leader == self.here {
            self.lead();
        }
    }

    /// Gives the order when all are ready.
    fn lead(&mut self) {
        let needs_all = !self.is_broken(ViewRule::AwaitReady);
        if needs_all && !self.living().all(|rank| self.ready.contains_key(&rank)) {
            return;
        }
        let dead: Vec<u32> = self.dead.iter().copied().collect();
        let others: Vec<u32> = self.living().filter(|rank| *rank != self.here).collect();
        let way = self.ready.values().map(|(_, way)| way).max().cloned().unwrap_or(Way::Anew);
        let goes_on = matches!(way, Way::Anew | Way::From(_));
        let order = |rank| {
            let (dead, way) = (dead.clone(), way.clone());
            (Rank(rank), if goes_on { Call::Go { dead, way } } else { Call::End(way) })
        };
        self.out.extend(others.into_iter().map(order));
        self.ready.clear();
        if goes_on { self.enter(&dead, &way) } else { self.end(&way) }
    }
}
