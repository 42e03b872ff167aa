//! Finds and gives work: requests, parcels, waiting ranks, and tasks addressed to one rank. The schedule chooses the rank to
//! ask, the split the amount to give.

use core::time::Duration;

use super::{Action, Engine, Load, Phase, Reason};
use crate::message::{Message, Tasks};
use crate::schedule::Step;
use crate::{Rank, Reduce, Share};

/// A rank that still works pauses up to this many times as long as an idle one: the ranks that it asks mostly sleep.
const PATIENCE_AT_WORK: u32 = 10;

impl<R: Reduce> Engine<R> {
    /// Answers [`Action::Take`]: gives the taken tasks to the rank that it named.
    ///
    /// # Panics
    /// No [`Action::Take`] is open.
    pub fn give(&mut self, now: Duration, tasks: Tasks) {
        let (to, answer, wait) =
            self.taking.pop_front().expect("tasks are given only when they were asked for");
        self.load.waiting = self.load.waiting.saturating_sub(u64::from(tasks.count));
        let tasks_none = tasks.count == 0;
        if !tasks_none && self.phase == Phase::Running {
            self.unregister(to);
            self.hand_over(to, answer, tasks);
        } else if answer {
            self.refuse(to, wait);
        }
        if tasks_none {
            // The threads were faster, or the waiting tasks cannot leave this rank. Registered ranks keep waiting. The driver reports
            // the load again when there is work. There was work just now, so this rank is not idle.
            self.load = Load { waiting: 0, running: self.load.running.max(1), ..self.load };
        }
        self.react(now);
    }

    /// Gives tasks to the rank that must run them, without a request. The driver has counted them as waiting until now. False:
    /// the job ends, and no rank runs them.
    pub fn address(&mut self, now: Duration, to: Rank, tasks: Tasks) -> bool {
        if self.phase != Phase::Running {
            return false;
        }
        self.hand_over(to, false, tasks);
        self.react(now);
        true
    }

    fn hand_over(&mut self, to: Rank, answer: bool, tasks: Tasks) {
        self.counts.parcels_given += 1;
        self.counts.tasks_given += u64::from(tasks.count);
        self.detector.sent(to);
        let sequence = self.parcels.give(to);
        self.send(to, Message::Parcel { sequence, answer, tasks });
    }

    fn unregister(&mut self, rank: Rank) {
        if !self.is_registered.remove(&rank) {
            return;
        }
        if self.registered.front() == Some(&rank) {
            self.registered.pop_front();
        } else {
            self.registered.retain(|other| *other != rank);
        }
    }

    /// Handles a request for work.
    pub(super) fn requested(&mut self, from: Rank, idle: bool, wait: bool) -> bool {
        // To a rank that works, give nothing that this rank would ask back: one task would travel to and fro.
        let kept = if idle { 0 } else { self.low_water() };
        if self.phase == Phase::Running && self.spare() > kept {
            self.take(from, true, wait);
        } else {
            self.refuse(from, wait);
        }
        true
    }

    /// Refuses a request, and registers the sender if it waits.
    fn refuse(&mut self, rank: Rank, wait: bool) {
        if wait && self.phase == Phase::Running && self.is_registered.insert(rank) {
            self.registered.push_back(rank);
        }
        self.send(rank, Message::Nothing);
    }

    /// A rank asks for more work when fewer tasks than this wait. A single thread that has a task needs no more: early requests
    /// mean more messages and a longer end.
    fn low_water(&self) -> u64 {
        if self.load.slots <= 1 { 0 } else { self.config.low_water }
    }

    /// The asked rank refused.
    pub(super) fn refused(&mut self, by: Rank) -> bool {
        if self.asked != Some(by) {
            return false;
        }
        self.asked = None;
        self.counts.refused += 1;
        self.schedule.refused(by);
        true
    }

    /// A parcel arrived.
    pub(super) fn receive_parcel(&mut self, from: Rank, sequence: u64, answer: bool, tasks: &Tasks) -> bool {
        let is_repeated = self.parcels.is_repeated(from, sequence);
        if answer && !is_repeated && self.asked.take() != Some(from) {
            return false;
        }
        if self.acknowledges() {
            self.send(from, Message::Accepted { sequence });
        }
        if !self.parcels.is_new(from, sequence, self.config.rules) {
            return true;
        }
        self.detector.received();
        self.counts.parcels_accepted += 1;
        self.counts.tasks_accepted += u64::from(tasks.count);
        self.schedule.received(from);
        self.retry_at = None;
        // Do not return to the shortest pause at once: a rank that was refused often will soon be refused again, mostly near the end.
        self.pauses = self.pauses.saturating_sub(1);
        if self.phase == Phase::Running {
            // Valid until the driver reports its load again. Where new tasks are returned, a received task is about to run: it must
            // not be returned itself.
            let is_to_run = self.hands_in().is_some();
            let load = if is_to_run { &mut self.load.running } else { &mut self.load.waiting };
            *load += u64::from(tasks.count);
            self.actions.push_back(Action::Accept { from, tasks: tasks.clone() });
        }
        true
    }

    /// Whether each parcel is acknowledged on arrival: see "When parcels are acknowledged" in `engine.rs`.
    fn acknowledges(&self) -> bool {
        self.detector.needs_acceptance() || self.phase != Phase::Running
    }

    /// Settles, at the end of the job, the parcels that were not acknowledged one by one.
    pub(super) fn settle(&mut self, reason: Reason) {
        if self.detector.needs_acceptance() {
            return;
        }
        if reason == Reason::Done {
            self.parcels.settle();
            return;
        }
        for (from, sequence) in self.parcels.takings() {
            self.actions.push_back(Action::Send { to: from, message: Message::Accepted { sequence } });
        }
    }

    /// Tasks that no thread of this rank is about to take.
    fn spare(&self) -> u64 {
        if !self.runs_tasks() {
            return self.load.waiting;
        }
        self.load.waiting.saturating_sub(self.load.slots.saturating_sub(self.load.running))
    }

    fn take(&mut self, to: Rank, answer: bool, wait: bool) {
        let share = match self.schedule.is_single() {
            true if to == Rank::ROOT => Share::AllBut(self.schedule.hands_in().map_or(0, |(_, kept)| kept)),
            true => Share::One,
            false => self.config.split.share(&mut self.random),
        };
        self.taking.push_back((to, answer, wait));
        self.actions.push_back(Action::Take { to, share });
    }

    /// Returns new tasks to the master, where the schedule wants it.
    pub(super) fn hand_in(&mut self) {
        if let Some((to, kept)) = self.schedule.hands_in()
            && !self.alone
            && self.taking.is_empty()
            && self.load.waiting > kept
        {
            self.take(to, false, false);
        }
    }

    /// Gives spare work to the next registered rank.
    pub(super) fn serve(&mut self) {
        if self.taking.is_empty()
            && self.spare() > 0
            && let Some(to) = self.registered.front().copied()
        {
            self.take(to, false, false);
        }
    }

    pub(super) fn wants_work(&self) -> bool {
        if self.alone || !self.taking.is_empty() {
            return false;
        }
        match (self.schedule.is_single(), self.low_water()) {
            (true, _) => self.load.waiting == 0 && self.load.running < self.load.slots,
            (false, 0) => self.load.waiting == 0 && self.load.running == 0,
            (false, low_water) => self.load.waiting < low_water,
        }
    }

    /// Asks another rank if there is too little work and no request is open.
    pub(super) fn seek(&mut self, now: Duration) {
        if self.asked.is_some() || !self.wants_work() {
            return;
        }
        let idle = self.load.waiting == 0 && self.load.running == 0;
        // A pause that began at work may be long: it ends with the work.
        if self.retry_at.is_some_and(|at| now < at && !(idle && self.rests_at_work)) {
            return;
        }
        self.retry_at = None;
        match self.schedule.next(&mut self.random, idle) {
            Step::Ask { victim, wait } => {
                self.asked = Some(victim);
                self.counts.requests += 1;
                self.send(victim, Message::Request { idle, wait });
            }
            Step::Rest => {
                let pause = self.config.pause_first.saturating_mul(1_u32 << self.pauses);
                let most = self.config.pause_most.saturating_mul(if idle { 1 } else { PATIENCE_AT_WORK });
                self.retry_at = Some(now + pause.min(most));
                self.rests_at_work = !idle;
                self.pauses = (self.pauses + u32::from(pause < most)).min(20);
                self.counts.rests += 1;
            }
            Step::Sleep => {}
        }
    }
}
