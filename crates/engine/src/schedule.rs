//! Who is asked for work, and who gets some unasked. One file for each schedule, behind one trait.
//!
//! A schedule sees no tasks and sends nothing: it names ranks, and `engine.rs` does the rest. How much a victim gives is
//! not its business either (`split.rs`).

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

/// What a rank without enough work does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask this rank. With `wait`, it sends work later if it has none now.
    Ask {
        /// Whom.
        victim: Rank,
        /// Whether to be remembered there.
        wait: bool,
    },
    /// Everybody was asked in vain: ask again after a pause.
    Rest,
    /// Ask nobody: work comes by itself, if there is any.
    Sleep,
}

/// Decides whom a rank asks.
pub trait Schedule: fmt::Debug + Send {
    /// What to do now that there is too little work and no request is under way. `idle`: there is none at all.
    fn next(&mut self, random: &mut Random, idle: bool) -> Step;

    /// The last rank that was asked had nothing.
    fn refused(&mut self, _by: Rank) {}

    /// Work has come from a rank, asked for or not.
    fn received(&mut self, _from: Rank) {}

    /// Ranks that wait for work from this one from the start, as if they had asked already; the first gets it first.
    fn waiting_at_start(&self) -> Vec<Rank> {
        Vec::new()
    }

    /// Whether this rank runs tasks at all.
    fn runs_tasks(&self) -> bool {
        true
    }

    /// Whom all new tasks go to, but for so many that are kept; none: they stay.
    fn hands_in(&self) -> Option<(Rank, u64)> {
        None
    }

    /// Whether work is asked for only when there is none left, and given one task at a time.
    fn is_single(&self) -> bool {
        false
    }

    /// A copy, for whoever explores all that may happen.
    fn boxed_clone(&self) -> Box<dyn Schedule>;

    /// Everything that decides what it will do, as numbers: two schedules that give the same will do the same.
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
    /// CP with the papers' variant: who expands a directory keeps one of its children.
    CentralizedKeep,
    /// DRQS: any other rank, at random.
    Random,
    /// PA-DRQS: those on the same host first; only the local root asks outside.
    Proximity,
    /// H-DRQS: one rank a host, whose threads share one pool; other hosts at random.
    Hybrid,
    /// As hybrid, and a rank that asked in vain waits with a few partners until work is sent to it.
    #[default]
    Lifeline,
}

impl ScheduleKind {
    /// All of them.
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
