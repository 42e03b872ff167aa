//! How the end is noticed: one file for each way, behind one type. It sees parcels and idleness; it does not end anything.
//!
//! A rank is *idle* when no task waits or runs on it. Only a parcel makes an idle rank work again. The job is over when all
//! ranks are idle and no parcel is under way; both ways are proven from these three sentences, each in its file. The token
//! also needs to know whether every parcel that the rank gave has been accepted.

mod counters;
mod token;

use alloc::collections::VecDeque;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::{Message, Place, Rank, Rules, Tree};

/// The ways by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Termination {
    /// Mattern's four counters, on the tree of ranks.
    #[default]
    Counters,
    /// The papers' coloured token, on a ring (Dijkstra, Feijen, van Gasteren).
    Token,
}

impl Termination {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Counters, Self::Token];

    /// The name by which it is chosen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::Token => "token",
        }
    }
}

impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Termination {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(())
    }
}

/// What a detector has to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Findings {
    pub(crate) messages: VecDeque<(Rank, Message)>,
    /// Only the root finds this.
    pub(crate) terminated: bool,
}

/// How much a rank is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Idleness {
    /// No task waits or runs here.
    pub(crate) no_tasks: bool,
    /// Every parcel that was given has been accepted.
    pub(crate) settled: bool,
}

/// Watches one rank and, with its like on the others, notices the end.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Detector {
    Counters(counters::Counters),
    Token(token::Token),
}

impl Detector {
    /// `interval`: how long a rank is idle before it says so, and between two times that it does.
    pub(crate) fn new(
        kind: Termination,
        place: &Place,
        tree: Tree,
        interval: Duration,
        rules: Rules,
    ) -> Self {
        match kind {
            Termination::Counters => Self::Counters(counters::Counters::new(tree, interval, rules)),
            Termination::Token => Self::Token(token::Token::new(place, interval, rules)),
        }
    }

    /// A parcel leaves for `to`.
    pub(crate) fn sent(&mut self, to: Rank) {
        match self {
            Self::Counters(counters) => counters.sent(),
            Self::Token(token) => token.sent(to),
        }
    }

    /// A parcel has been accepted.
    pub(crate) fn received(&mut self) {
        if let Self::Counters(counters) = self {
            counters.received();
        }
    }

    /// Whether the rank is idle now.
    pub(crate) fn set_idle(&mut self, now: Duration, idle: Idleness, findings: &mut Findings) {
        match self {
            Self::Counters(counters) => counters.set_idle(now, idle.no_tasks, findings),
            Self::Token(token) => token.set_idle(now, idle.no_tasks && idle.settled, findings),
        }
    }

    /// The job ends, noticed or wanted: nothing new is begun.
    pub(crate) fn close(&mut self, now: Duration, findings: &mut Findings) {
        match self {
            Self::Counters(counters) => counters.close(),
            Self::Token(token) => token.close(now, findings),
        }
    }

    /// Whether a rank must know that each parcel it gave has been accepted, before the job is over.
    pub(crate) fn needs_acceptance(&self) -> bool {
        matches!(self, Self::Token(_))
    }

    /// Whether nothing of the detector's is under way that could reach a rank after it has left.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Counters(_) => true,
            Self::Token(token) => token.is_settled(),
        }
    }

    /// A message of the detector's has come. False: it makes no sense here.
    pub(crate) fn handle(
        &mut self,
        now: Duration,
        from: Rank,
        message: &Message,
        findings: &mut Findings,
    ) -> bool {
        match self {
            Self::Counters(counters) => counters.handle(now, from, message, findings),
            Self::Token(token) => token.handle(now, from, message, findings),
        }
    }

    /// When to call [`set_idle`](Self::set_idle) again though nothing has happened.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Counters(counters) => counters.timeout(),
            Self::Token(token) => token.timeout(),
        }
    }
}
