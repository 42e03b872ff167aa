//! Four counters on the tree of ranks (Mattern, 1987).
//!
//! # How
//! Each rank counts the parcels that it sent and those that it accepted. *First wave*, asynchronous: a rank that has been
//! idle for a while, and whose children have all reported, reports the sums of its part of the tree to its parent
//! ([`Message::Quiet`]), and again whenever they changed, but not more often than the interval. *Second wave*: when the
//! reports that have reached the root add up, sent = received, the root asks everybody once more ([`Message::Probe`]
//! down, [`Message::Census`] up). The job is over if all were idle then, too, and the sums are the same four numbers. A rank
//! that works, or that has something newer to report than it did, knows that this wave is in vain: it answers so at once
//! and asks nobody below.
//!
//! # Why that is right
//! Let t be the moment at which the root starts the second wave. Each rank was read once before t, in the first wave, and
//! once after t, in the second; both times it was idle. Counters never fall, and their sums over all ranks are the same in
//! both waves, so each counter of each rank was the same at both readings. Hence no rank accepted a parcel between its two
//! readings; an idle rank does nothing until it accepts one; so every rank was idle at t. The counters at t were those of
//! both readings, and sent = received: no parcel was under way at t. All idle and nothing under way: the job was over at t.
//!
//! # Why the end is noticed
//! Once the job is over no counter changes and all stay idle. Each rank has reported, or will when its interval has
//! passed, the sums that it has then; so the root will have the final sums, and they add up. If the root probes at that
//! time, it finds them again. If it is waiting for an earlier wave, that wave ends (nobody waits for idleness to answer),
//! and a report that came meanwhile makes it probe again. If the last report came before an earlier probe began, that
//! probe read what was final already for every rank that had reported; a rank that had not reported its final sums would
//! still report. A rank that answers in vain may have nothing new to say: to be idle is a finding of many threads, and one that
//! was woken for nothing may show for a moment after it. So whoever answers in vain forgets what it told, and so does
//! everybody on the way to the root, who waits to be told again: when all is still, each of them tells its sums once more, and
//! the root probes again.
//!
//! # Why not otherwise
//! One wave alone is not enough: a rank read early can be woken by one that was read late. A ring token of counters takes
//! as many hops as there are ranks, and this takes the height of the tree.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::Findings;
use crate::message::Census;
use crate::{Message, Rank, Rule, Rules, Tree};

#[derive(Clone, Debug, Hash)]
pub(crate) struct Counters {
    tree: Tree,
    interval: Duration,
    rules: Rules,
    sent: u64,
    received: u64,
    idle: bool,
    /// The newest report of each child.
    below: Vec<Option<Census>>,
    /// What was last reported, or probed for: it is not said twice.
    told: Option<Census>,
    /// Not before this time is anything reported.
    next_at: Duration,
    wave: u32,
    probe: Option<Probe>,
    /// Whether the job ends anyway: nothing is said any more.
    is_closed: bool,
}

/// A second wave that is under way below this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Probe {
    /// What the first wave said; only the root needs it.
    first: Census,
    so_far: Census,
    missing: usize,
}

impl Counters {
    pub(super) fn new(tree: Tree, interval: Duration, rules: Rules) -> Self {
        Self {
            tree,
            interval,
            rules,
            sent: 0,
            received: 0,
            idle: false,
            below: vec![None; tree.children().count()],
            told: None,
            next_at: Duration::ZERO,
            wave: 0,
            probe: None,
            is_closed: false,
        }
    }

    /// The job ends, for whatever reason. What is under way between parents and children goes before their last totals;
    /// nothing must follow these.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn sent(&mut self) {
        self.sent += 1;
    }

    pub(super) fn received(&mut self) {
        self.received += 1;
    }

    pub(super) fn set_idle(&mut self, now: Duration, idle: bool, findings: &mut Findings) {
        if idle && !self.idle {
            self.next_at = self.next_at.max(now + self.interval);
        }
        self.idle = idle;
        self.tell(now, findings);
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        (self.probe.is_none() && self.news().is_some()).then_some(self.next_at)
    }

    pub(super) fn handle(
        &mut self,
        now: Duration,
        from: Rank,
        message: &Message,
        findings: &mut Findings,
    ) -> bool {
        let child = self.tree.child_index(from);
        if self.is_closed {
            return matches!((message, child), (Message::Quiet(_) | Message::Census { .. }, Some(_)));
        }
        match (message, child) {
            (Message::Quiet(census), Some(child)) => {
                self.below[child] = Some(*census);
                self.tell(now, findings);
            }
            (Message::Probe { wave }, None) if self.tree.parent() == Some(from) && self.probe.is_none() => {
                self.wave = *wave;
                if self.told.is_some() && self.sum() == self.told {
                    self.probe(Census::default(), findings);
                    self.answer(findings);
                } else {
                    let census = Census { idle: false, ..self.own() };
                    // It told that it was idle and was not when it was asked: it tells again, even the same sums.
                    self.told = None;
                    findings.messages.push_back((from, Message::Census { wave: *wave, census }));
                }
            }
            (Message::Census { wave, census }, Some(child)) if *wave == self.wave => {
                let Some(probe) = self.probe.as_mut().filter(|probe| probe.missing > 0) else { return false };
                if !census.idle {
                    // Somebody there will tell again.
                    self.below[child] = None;
                }
                probe.so_far = probe.so_far.with(*census);
                probe.missing -= 1;
                self.answer(findings);
                if !findings.terminated {
                    self.tell(now, findings);
                }
            }
            _ => return false,
        }
        true
    }

    fn own(&self) -> Census {
        Census { idle: self.idle, sent: self.sent, received: self.received }
    }

    /// The first wave's sums, if all of this part of the tree was idle.
    fn sum(&self) -> Option<Census> {
        if !self.idle {
            return None;
        }
        self.below.iter().try_fold(self.own(), |sum, child| child.map(|child| sum.with(child)))
    }

    /// The same, if they were not told yet.
    fn news(&self) -> Option<Census> {
        let sum = self.sum()?;
        let adds_up = sum.sent == sum.received || self.rules.is_broken(Rule::SumsAgree);
        let worth = self.tree.parent().is_some() || adds_up;
        (worth && self.told != Some(sum)).then_some(sum)
    }

    fn tell(&mut self, now: Duration, findings: &mut Findings) {
        let Some(sum) = self.news().filter(|_| now >= self.next_at) else { return };
        if let Some(parent) = self.tree.parent() {
            findings.messages.push_back((parent, Message::Quiet(sum)));
        } else if self.rules.is_broken(Rule::SecondWave) {
            findings.terminated = true;
        } else if self.probe.is_none() {
            self.wave += 1;
            self.probe(sum, findings);
        } else {
            return;
        }
        self.told = Some(sum);
        self.next_at = now + self.interval;
        self.answer(findings);
    }

    fn probe(&mut self, first: Census, findings: &mut Findings) {
        let wave = self.wave;
        self.probe = Some(Probe { first, so_far: self.own(), missing: self.below.len() });
        findings.messages.extend(self.tree.children().map(|child| (child, Message::Probe { wave })));
    }

    /// Ends the second wave here if nobody below is missing.
    fn answer(&mut self, findings: &mut Findings) {
        let Some(probe) = self.probe.filter(|probe| probe.missing == 0) else { return };
        self.probe = None;
        if !probe.so_far.idle {
            // Whoever is told so forgets what this rank told. Not before: what was told meanwhile would be forgotten, too.
            self.told = None;
        }
        match self.tree.parent() {
            Some(parent) => {
                let answer = Message::Census { wave: self.wave, census: probe.so_far };
                findings.messages.push_back((parent, answer));
            }
            None => findings.terminated |= probe.so_far == probe.first,
        }
    }
}
