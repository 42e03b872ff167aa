//! Schedules: which rank to ask for work, and which ranks receive work without a request. One file each, behind one trait.
//!
//! A schedule sees no tasks and sends nothing: it names ranks, and `engine.rs` does the rest. `split.rs` decides how much a
//! victim gives.

mod centralized;
mod lifeline;
mod outside;
mod proximity;
mod random;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

use crate::{Place, Random, Rank};

/// The next step of a rank without enough work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask this rank. With `wait`, it sends work later if it has none now.
    Ask {
        /// The rank to ask.
        victim: Rank,
        /// Whether the victim registers this rank.
        wait: bool,
    },
    /// All requests were refused: ask again after a pause.
    Rest,
    /// Ask no rank: work, if any, arrives without a request.
    Sleep,
}

/// Decides whom a rank asks.
pub trait Schedule: fmt::Debug + Send {
    /// The next step when there is too little work and no request is open. `idle`: there is no work at all.
    fn next(&mut self, random: &mut Random, idle: bool) -> Step;

    /// The last rank that was asked refused.
    fn refused(&mut self, _by: Rank) {}

    /// Work arrived from a rank, with or without a request.
    fn received(&mut self, _from: Rank) {}

    /// Ranks registered for work from this one at the start, without a request. The first is served first.
    fn waiting_at_start(&self) -> Vec<Rank> {
        Vec::new()
    }

    /// Whether this rank runs tasks at all.
    fn runs_tasks(&self) -> bool {
        true
    }

    /// The rank that receives all new tasks, and how many each worker keeps. None: new tasks stay here.
    fn hands_in(&self) -> Option<(Rank, u64)> {
        None
    }

    /// Whether a rank asks only when it has no work left, and receives one task at a time.
    fn is_single(&self) -> bool {
        false
    }

    /// A copy, for the state-space explorer.
    fn boxed_clone(&self) -> Box<dyn Schedule>;

    /// The state that decides its next steps, as a number. Two schedules with equal fingerprints behave the same.
    fn fingerprint(&self) -> u64;
}

impl Hash for dyn Schedule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint());
    }
}

impl Clone for Box<dyn Schedule> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// The schedules by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScheduleKind {
    /// CP: one rank holds all tasks and hands them out one by one.
    Centralized,
    /// CP with the papers' variant: the rank that expands a directory keeps one of its children.
    CentralizedKeep,
    /// DRQS: any other rank, at random.
    Random,
    /// PA-DRQS: ranks on the same host; the local root asks outside first.
    Proximity,
    /// H-DRQS: one rank per host, whose threads share one pool; asks other hosts at random.
    Hybrid,
    /// Like hybrid, and a refused rank registers with a few partners and waits until one sends work.
    #[default]
    Lifeline,
}

impl ScheduleKind {
    /// All schedules.
    pub const ALL: [Self; 6] = [
        Self::Centralized,
        Self::CentralizedKeep,
        Self::Random,
        Self::Proximity,
        Self::Hybrid,
        Self::Lifeline,
    ];

    /// The name by which it is chosen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Centralized => "centralized",
            Self::CentralizedKeep => "centralized-keep",
            Self::Random => "random",
            Self::Proximity => "proximity",
            Self::Hybrid => "hybrid",
            Self::Lifeline => "lifeline",
        }
    }

    /// The schedule of one rank.
    #[must_use]
    pub fn start(self, place: &Place) -> Box<dyn Schedule> {
        match self {
            Self::Centralized => Box::new(centralized::Centralized::new(place, 0)),
            Self::CentralizedKeep => Box::new(centralized::Centralized::new(place, 1)),
            Self::Random => Box::new(random::RandomVictim::new(place)),
            Self::Proximity => Box::new(proximity::Proximity::new(place.clone())),
            Self::Hybrid => Box::new(outside::Outside::new(place.clone())),
            Self::Lifeline => Box::new(lifeline::Lifeline::new(place.clone())),
        }
    }
}

impl fmt::Display for ScheduleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ScheduleKind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(())
    }
}
