//! The papers' coloured token on a ring (Dijkstra, Feijen, van Gasteren, 1983), with acknowledged parcels.
//!
//! # How
//! Ranks and the token are white or black. When idle, the root sends a white token to rank 1. An idle rank passes it on, from
//! the last rank back to the root. A rank that gives work to a lower rank turns black. A black rank that passes the token on
//! makes it black and turns white. When a white token returns to an idle white root, the job is over; otherwise the root
//! sends another.
//!
//! # Why it is correct
//! The original assumes that a message takes no time. Here a giver does not count as idle until its parcel has been accepted,
//! so it cannot pass the token on while a parcel is in flight. The transfer can be regarded as happening at the moment of
//! acceptance, when the giver is not idle, and is black if it must be. Suppose that a white token has returned to an idle white
//! root, and that some rank works. That rank was idle when the token left it. So it accepted a parcel later, from a rank that
//! the token had not left yet, or from one that was woken in the same way. Follow these givers back to the first such
//! transfer. Its giver had not passed the token on, so it is a higher rank, or the root, which is idle and gave nothing to a
//! lower one. The giver turned black by this transfer and made the token black when it passed it on: a contradiction.
//!
//! # Cost
//! Each round takes as many hops as there are ranks, and at least one round follows the last task. For the papers' experiments.

use core::time::Duration;

use super::Findings;
use crate::{Message, Place, Rank, Rule, Rules};

#[derive(Clone, Debug, Hash)]
pub(crate) struct Token {
    here: u32,
    size: u32,
    interval: Duration,
    rules: Rules,
    black: bool,
    idle: bool,
    /// The token, while it is here; true if it is black. The root has no token until it is idle for the first time.
    held: Option<bool>,
    /// Whether the root waits for its token.
    is_out: bool,
    next_at: Duration,
    /// Whether the job ends anyway: every rank passes the token on at once.
    is_closed: bool,
}

impl Token {
    pub(super) fn new(place: &Place, interval: Duration, rules: Rules) -> Self {
        Self {
            here: place.here().0,
            size: place.size(),
            interval,
            rules,
            black: false,
            idle: false,
            held: None,
            is_out: false,
            next_at: Duration::ZERO,
            is_closed: false,
        }
    }

    /// The job ends, for any reason. A token in flight must return first: it could reach a rank that has left.
    pub(super) fn close(&mut self, now: Duration, findings: &mut Findings) {
        self.is_closed = true;
        self.pass(now, findings);
    }

    /// Whether the root's token is at home.
    pub(super) fn is_settled(&self) -> bool {
        !self.is_out
    }

    pub(super) fn sent(&mut self, to: Rank) {
        if to.0 < self.here && !self.rules.is_broken(Rule::Blacken) {
            self.black = true;
        }
    }

    pub(super) fn set_idle(&mut self, now: Duration, idle: bool, findings: &mut Findings) {
        self.idle = idle;
        self.pass(now, findings);
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        (self.here == Rank::ROOT.0 && self.idle && !self.is_out).then_some(self.next_at)
    }

    pub(super) fn handle(
        &mut self,
        now: Duration,
        from: Rank,
        message: &Message,
        findings: &mut Findings,
    ) -> bool {
        let before = if self.here == 0 { self.size - 1 } else { self.here - 1 };
        let Message::Token { black } = message else { return false };
        if from.0 != before || self.held.is_some() || (self.here == 0 && !self.is_out) {
            return false;
        }
        self.held = Some(*black);
        self.is_out = false;
        self.pass(now, findings);
        true
    }

    fn pass(&mut self, now: Duration, findings: &mut Findings) {
        if !self.idle && !self.is_closed {
            return;
        }
        if self.here == Rank::ROOT.0 {
            if !self.is_closed {
                self.decide(now, findings);
            }
        } else if let Some(black) = self.held.take() {
            let black = core::mem::take(&mut self.black) || black;
            findings.messages.push_back((Rank((self.here + 1) % self.size), Message::Token { black }));
        }
    }

    /// The root's part: ends the job, or starts a round.
    fn decide(&mut self, now: Duration, findings: &mut Findings) {
        if self.size == 1 || (self.held.take() == Some(false) && !self.black) {
            findings.terminated = true;
            return;
        }
        if !self.is_out && now >= self.next_at {
            self.is_out = true;
            self.black = false;
            self.next_at = now + self.interval;
            findings.messages.push_back((Rank(1), Message::Token { black: false }));
        }
    }
}
