//! Waiting for other ranks. A wait ends when the message comes, when a rank reports that it cannot go on, or when no sign has come for some time
//! after a request to end. Long waits are reported. It does not know what is waited for.

use std::time::{Duration, Instant};

use super::error::RankError;
use super::link::Link;

/// Between two looks on a fabric that does not report arrivals, at first and later.
const POLL_FIRST: Duration = Duration::from_micros(100);
const POLL_LATER: Duration = Duration::from_millis(5);
/// A pause is such a part of the time that has passed: waiting costs few looks, and ends soon all the same.
const PAUSE_PART: u32 = 50;
/// The longest pause on a fabric that reports arrivals: a signal does not ring.
const PAUSE: Duration = Duration::from_millis(25);
/// Other ranks than the first wait so many times as long before they give up: the first one is to write its report.
const OTHERS: u32 = 10;

/// How long ranks wait for each other.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Between two reports of a wait.
    pub report: Duration,
    /// Without a sign from the others after the session was asked to end: then the first rank gives up, and the others when they have waited ten times as long.
    pub give_up: Duration,
    /// What the first rank does with a report: it gets the ranks that are waited for, 8 at most.
    pub waiting: fn(&[u32]),
}

impl Default for Limits {
    /// Reports after 60 s, which nobody hears; gives up 10 s after the session was asked to end.
    fn default() -> Self {
        Self { report: Duration::from_secs(60), give_up: Duration::from_secs(10), waiting: |_| {} }
    }
}

/// Times that a rank says whom it waits for until the first one gives up.
const WORDS: u32 = 8;

impl Limits {
    /// Between two words of one rank after the session was asked to end.
    pub(crate) fn period(&self) -> Duration {
        self.give_up / WORDS
    }
}

/// One wait.
#[derive(Debug)]
pub(crate) struct Wait {
    limits: Limits,
    /// When the last sign came that the others go on.
    heard_at: Instant,
    /// How many messages and signs of life had come then.
    heard: (u64, u64),
    /// When it was reported last.
    reported: Instant,
    /// When a rank said last whom it waits for.
    said: Instant,
    stopped: Option<Instant>,
}

impl Wait {
    pub(crate) fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Self { limits, heard_at: now, heard: (u64::MAX, 0), reported: now, said: now, stopped: None }
    }

    /// Looks whether to go on waiting for these ranks, and reports it from time to time. Whatever comes from other ranks begins the wait
    /// anew.
    ///
    /// # Errors
    /// Not to go on.
    pub(crate) fn check(&mut self, link: &mut Link<'_>, awaited: &[u32]) -> Result<(), RankError> {
        if let Some(failed) = link.failure() {
            return Err(failed);
        }
        if self.heard.0 != link.heard {
            self.heard_at = Instant::now();
            (self.reported, self.said) = (self.heard_at, self.heard_at);
        }
        if self.heard != (link.heard, link.alive) {
            self.heard = (link.heard, link.alive);
            self.stopped = None;
        }
        link.say_alive(false, self.limits.period())?;
        if link.stop.is_set() {
            let times = if link.rank() == 0 { 1 } else { OTHERS };
            let since = *self.stopped.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.limits.give_up * times {
                return Err(RankError::Silent { ranks: link.missing(awaited) });
            }
        }
        if link.rank() == 0 {
            self.report(link, awaited);
        } else {
            self.say(link, awaited)?;
        }
        Ok(())
    }

    /// Reports a long wait, on the first rank.
    fn report(&mut self, link: &Link<'_>, awaited: &[u32]) {
        if self.reported.elapsed() < self.limits.report {
            return;
        }
        self.reported = Instant::now();
        let missing = link.missing(awaited);
        if !missing.is_empty() {
            (self.limits.waiting)(&missing);
        }
    }

    /// Sends to the parent which ranks this one waits for, unless that is the parent itself or the first rank: these know.
    fn say(&mut self, link: &mut Link<'_>, awaited: &[u32]) -> Result<(), RankError> {
        let soon = self.limits.period().min(self.limits.report);
        let period = if link.stop.is_set() { soon } else { self.limits.report };
        let is_above =
            |rank: &u32| *rank == 0 || link.tree().parent().is_some_and(|parent| parent.0 == *rank);
        if self.said.elapsed() < period || awaited.iter().any(is_above) {
            return Ok(());
        }
        self.said = Instant::now();
        let missing = link.missing(awaited);
        if missing.is_empty() { Ok(()) } else { link.say_waiting(&missing) }
    }

    /// How long to wait until the next look.
    pub(crate) fn pause(&self, is_polled: bool) -> Duration {
        if !is_polled {
            return PAUSE;
        }
        (self.heard_at.elapsed() / PAUSE_PART).clamp(POLL_FIRST, POLL_LATER)
    }
}
