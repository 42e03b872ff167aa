//! Termination detection: one file per method, behind one type. A detector sees parcels and idleness; it does not end the job.
//!
//! A rank is *idle* when no task waits or runs on it. Only a parcel makes an idle rank work again. The job is over when all
//! ranks are idle and no parcel is in flight. Each file proves its method from these three sentences. The token also needs to
//! know whether every parcel that the rank gave has been accepted.

mod counters;
mod token;

use alloc::collections::VecDeque;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::{Message, Place, Rank, Rules, Tree};

/// The methods of termination detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Termination {
    /// Mattern's four counters, on the tree of ranks.
    #[default]
    Counters,
    /// The papers' coloured token, on a ring (Dijkstra, Feijen, van Gasteren).
    Token,
}

impl Termination {
    /// All methods.
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

/// The output of a detector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Findings {
    pub(crate) messages: VecDeque<(Rank, Message)>,
    /// Set on the root only.
    pub(crate) terminated: bool,
}

/// The conditions under which a rank is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Idleness {
    /// No task waits or runs here.
    pub(crate) no_tasks: bool,
    /// Every parcel given has been accepted.
    pub(crate) settled: bool,
}

/// Watches one rank and, together with the detectors of the others, detects termination.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Detector {
    Counters(counters::Counters),
    Token(token::Token),
}

impl Detector {
    /// `interval`: how long a rank is idle before it reports so, and the minimum interval between two reports.
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

    /// Sets whether the rank is idle now.
    pub(crate) fn set_idle(&mut self, now: Duration, idle: Idleness, findings: &mut Findings) {
        match self {
            Self::Counters(counters) => counters.set_idle(now, idle.no_tasks, findings),
            Self::Token(token) => token.set_idle(now, idle.no_tasks && idle.settled, findings),
        }
    }

    /// The job ends, by detection or by request: start nothing new.
    pub(crate) fn close(&mut self, now: Duration, findings: &mut Findings) {
        match self {
            Self::Counters(counters) => counters.close(),
            Self::Token(token) => token.close(now, findings),
        }
    }

    /// Whether every parcel must be acknowledged before the job is over.
    pub(crate) fn needs_acceptance(&self) -> bool {
        matches!(self, Self::Token(_))
    }

    /// Whether no message of the detector is in flight that could reach a rank after it has left.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Counters(_) => true,
            Self::Token(token) => token.is_settled(),
        }
    }

    /// Handles a message of the detector. False: it is not valid in the current state.
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

    /// When to call [`set_idle`](Self::set_idle) again without an event.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Counters(counters) => counters.timeout(),
            Self::Token(token) => token.timeout(),
        }
    }
}
