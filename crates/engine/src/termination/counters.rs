//! Four counters on the tree of ranks (Mattern, 1987).
//!
//! # How
//! Each rank counts the parcels that it sent and those that it accepted. *First wave*, asynchronous: when a rank has been idle
//! for a while and all its children have reported, it reports the sums of its subtree to its parent ([`Message::Quiet`]). It
//! reports again when the sums change, but at most once per interval. *Second wave*: when the reports at the root add up, sent
//! = received, the root asks all ranks once more ([`Message::Probe`] down, [`Message::Census`] up). The job is over if all
//! ranks were idle in this wave too, and the sums are the same four numbers. A rank that works, or that has a newer report
//! to make, knows that this wave fails: it answers at once and does not forward the probe.
//!
//! # Why it is correct
//! Let t be the moment at which the root starts the second wave. Each rank was read once before t, in the first wave, and
//! once after t, in the second; it was idle both times. Counters never fall, and their sums over all ranks are the same in
//! both waves, so each counter of each rank was the same at both readings. Hence no rank accepted a parcel between its two
//! readings. An idle rank does nothing until it accepts a parcel, so every rank was idle at t. The counters at t were those of
//! both readings, and sent = received: no parcel was in flight at t. So the job was over at t.
//!
//! # Why the end is detected
//! Once the job is over, no counter changes and all ranks stay idle. Each rank has reported its final sums, or will report
//! them when its interval has passed. So the root receives the final sums, and they add up. If the root probes then, it finds
//! the same sums again. If it is waiting for an earlier wave, that wave ends, since no rank waits for idleness to answer. A
//! report that arrived meanwhile makes the root probe again. If the last report came before an earlier probe began, that probe
//! read final values for every rank that had reported; a rank that had not reported its final sums still will. A rank that
//! fails a probe may have nothing new to report: idleness is a finding of many threads, and a thread that wakes without work
//! may appear busy for a moment afterwards. So a rank that fails a probe forgets its last report, and so does every rank on
//! the way to the root. The root then waits for new reports. When all is still, each of these ranks reports its sums again,
//! and the root probes again.
//!
//! # Alternatives
//! One wave alone is not enough: a rank that was read early can be woken by one that was read late. A ring token of counters
//! takes as many hops as there are ranks; this method takes the height of the tree.

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
    /// The sums last reported, or probed for. They are not reported twice.
    reported: Option<Census>,
    /// The earliest time of the next report.
    next_at: Duration,
    wave: u32,
    probe: Option<Probe>,
    /// Whether the job ends anyway. No more messages are sent.
    is_closed: bool,
}

/// A second wave in progress below this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Probe {
    /// The sums of the first wave. Only the root needs them.
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
            reported: None,
            next_at: Duration::ZERO,
            wave: 0,
            probe: None,
            is_closed: false,
        }
    }

    /// The job ends, for any reason. Messages in flight between parents and children precede the last totals. No message of the
    /// detector may follow those.
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
        self.report(now, findings);
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
                self.report(now, findings);
            }
            (Message::Probe { wave }, None) if self.tree.parent() == Some(from) && self.probe.is_none() => {
                self.wave = *wave;
                if self.reported.is_some() && self.sum() == self.reported {
                    self.probe(Census::default(), findings);
                    self.answer(findings);
                } else {
                    let census = Census { idle: false, ..self.own() };
                    // This rank reported idleness but was not idle at the probe. It must report again, even the same sums.
                    self.reported = None;
                    findings.messages.push_back((from, Message::Census { wave: *wave, census }));
                }
            }
            (Message::Census { wave, census }, Some(child)) if *wave == self.wave => {
                let Some(probe) = self.probe.as_mut().filter(|probe| probe.missing > 0) else { return false };
                if !census.idle {
                    // A rank in that subtree will report again.
                    self.below[child] = None;
                }
                probe.so_far = probe.so_far.with(*census);
                probe.missing -= 1;
                self.answer(findings);
                if !findings.terminated {
                    self.report(now, findings);
                }
            }
            _ => return false,
        }
        true
    }

    fn own(&self) -> Census {
        Census { idle: self.idle, sent: self.sent, received: self.received }
    }

    /// The sums of the first wave, if the whole subtree was idle.
    fn sum(&self) -> Option<Census> {
        if !self.idle {
            return None;
        }
        self.below.iter().try_fold(self.own(), |sum, child| child.map(|child| sum.with(child)))
    }

    /// The same sums, if they were not reported yet.
    fn news(&self) -> Option<Census> {
        let sum = self.sum()?;
        let adds_up = sum.sent == sum.received || self.rules.is_broken(Rule::SumsAgree);
        let worth = self.tree.parent().is_some() || adds_up;
        (worth && self.reported != Some(sum)).then_some(sum)
    }

    fn report(&mut self, now: Duration, findings: &mut Findings) {
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
        self.reported = Some(sum);
        self.next_at = now + self.interval;
        self.answer(findings);
    }

    fn probe(&mut self, first: Census, findings: &mut Findings) {
        let wave = self.wave;
        self.probe = Some(Probe { first, so_far: self.own(), missing: self.below.len() });
        findings.messages.extend(self.tree.children().map(|child| (child, Message::Probe { wave })));
    }

    /// Ends the second wave here once all children have answered.
    fn answer(&mut self, findings: &mut Findings) {
        let Some(probe) = self.probe.filter(|probe| probe.missing == 0) else { return };
        self.probe = None;
        if !probe.so_far.idle {
            // The parent forgets this rank's report when it receives this answer. Clear it only now: a report made earlier would be lost.
            self.reported = None;
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
