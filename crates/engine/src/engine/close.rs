//! Totals, and the end of a job: who notifies whom, and when a rank may leave. `engine.rs` explains why that is safe.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Action, Engine, Phase, Reason};
use crate::message::Message;
use crate::{Rank, Reduce, Rule};

impl<R: Reduce> Engine<R> {
    /// Answers [`Action::Report`] with the totals of this rank so far.
    pub fn report(&mut self, now: Duration, totals: R) {
        if self.phase != Phase::Running || self.totals_under_way {
            return;
        }
        self.reduction.set_own(totals, false);
        if let Some(sum) = self.reduction.sum() {
            match self.tree.parent() {
                Some(parent) => {
                    self.totals_under_way = true;
                    self.send_totals(parent, &sum, false);
                }
                None => self.actions.push_back(Action::Progress(sum)),
            }
        }
        self.react(now);
    }

    /// Answers [`Action::Finish`]: no task runs any more, and `totals` are the last of this rank.
    pub fn finish(&mut self, now: Duration, totals: R) {
        self.reduction.set_own(totals, true);
        self.react(now);
    }

    /// Asks for an early end of the job, on all ranks.
    pub fn stop(&mut self, now: Duration, reason: Reason) {
        let _ = self.stop_wanted(now, reason);
        self.react(now);
    }

    /// The ranks that this one waits for at the end of a job: the rank that it asked, else the children whose last totals are
    /// missing, else its parent. For error messages of a driver that gives up; no decision depends on it.
    #[must_use]
    pub fn waits_for(&self) -> Vec<Rank> {
        if let (Some(asked), Phase::Finishing(_)) = (self.asked, self.phase) {
            return alloc::vec![asked];
        }
        if matches!(self.phase, Phase::Finishing(_)) && !self.reduction.are_children_last() {
            let missing = self.reduction.children_not_last();
            return missing.filter_map(|child| self.tree.children().nth(child)).collect();
        }
        if self.phase == Phase::Ended { Vec::new() } else { self.tree.parent().into_iter().collect() }
    }

    /// Handles a stop request from this rank or its subtree. The root decides, so that the order is sent once.
    pub(super) fn stop_wanted(&mut self, now: Duration, reason: Reason) -> bool {
        if self.phase == Phase::Running && !self.has_asked_to_stop {
            self.has_asked_to_stop = true;
            match self.tree.parent() {
                Some(parent) => self.send(parent, Message::Stop(reason)),
                None => return self.finish_all(now, reason),
            }
        }
        true
    }

    /// Ends the job: notifies the children and the driver.
    pub(super) fn finish_all(&mut self, now: Duration, reason: Reason) -> bool {
        if self.phase != Phase::Running {
            return false;
        }
        self.phase = Phase::Finishing(reason);
        for child in self.tree.children() {
            self.send(child, Message::Finish(reason));
        }
        self.settle(reason);
        self.actions.push_back(Action::Finish(reason));
        self.detect(now, |detector, findings| {
            detector.close(now, findings);
            true
        })
    }

    pub(super) fn totals(&mut self, from: Rank, last: bool, value: &[u8]) -> bool {
        let (Some(child), Some(value)) = (self.tree.child_index(from), R::decode_all(value)) else {
            return false;
        };
        let accepted = self.reduction.set_child(child, value, last);
        if accepted && !last {
            self.send(from, Message::TotalsTaken);
        }
        accepted
    }

    /// False: no totals were in flight.
    pub(super) fn totals_taken(&mut self) -> bool {
        core::mem::take(&mut self.totals_under_way)
    }

    pub(super) fn farewell(&mut self) -> bool {
        if self.phase != Phase::Waiting {
            return false;
        }
        self.leave();
        true
    }

    pub(super) fn ask_for_report(&mut self, now: Duration) {
        if let Some(interval) = self.config.progress_interval
            && now >= self.progress_at
            && !self.totals_under_way
        {
            self.progress_at = now + interval;
            self.actions.push_back(Action::Report);
        }
    }

    /// Sends the last totals up once nothing of this rank is in flight.
    pub(super) fn close(&mut self) {
        let rules = self.config.rules;
        let answered = self.asked.is_none() || rules.is_broken(Rule::AwaitAnswer);
        let complete = self.reduction.are_children_last() || rules.is_broken(Rule::AwaitChildren);
        let settled = self.parcels.is_settled()
            && self.taking.is_empty()
            && self.detector.is_settled()
            && !self.totals_under_way;
        let ready = self.reduction.is_own_last() && answered && complete && settled;
        if !(ready && matches!(self.phase, Phase::Finishing(_))) {
            return;
        }
        self.phase = Phase::Waiting;
        let Some(sum) = self.reduction.sum() else { return };
        match self.tree.parent() {
            Some(parent) => self.send_totals(parent, &sum, true),
            None => {
                self.actions.push_back(Action::Result(sum));
                self.leave();
            }
        }
    }

    fn leave(&mut self) {
        for child in self.tree.children() {
            self.send(child, Message::Farewell);
        }
        self.phase = Phase::Ended;
        self.actions.push_back(Action::Leave);
    }

    fn send_totals(&mut self, parent: Rank, sum: &R, last: bool) {
        let mut value = Vec::new();
        sum.encode(&mut value);
        self.send(parent, Message::Totals { last, value });
    }
}
