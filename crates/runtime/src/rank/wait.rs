//! Waits for other ranks. A wait ends when the message arrives, when a rank reports that it cannot continue, or when there is no
//! sign of life for some time after a request to end. Long waits are reported. The caller defines the event.

use std::time::{Duration, Instant};

use super::error::RankError;
use super::link::Link;

/// On a fabric that does not report arrivals, a wait only yields to other threads for as long: an answer mostly comes in less time than a sleep
/// takes.
const YIELDS_FOR: Duration = Duration::from_micros(2_500);
/// Intervals between two checks on such a fabric after that, first and later.
const POLL_FIRST: Duration = Duration::from_micros(100);
const POLL_LATER: Duration = Duration::from_millis(5);
/// A pause is this fraction of the time that has passed: a wait costs few checks and still ends soon.
const PAUSE_PART: u32 = 50;
/// The longest pause on a fabric that reports arrivals: a signal does not ring.
const PAUSE: Duration = Duration::from_millis(25);
/// Other ranks wait this many times as long before they give up, so that the first one can write its report.
const OTHERS: u32 = 10;

/// How long ranks wait for each other.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The interval between two reports of a wait.
    pub report: Duration,
    /// The longest silence after a request to end. Then the first rank gives up; the others wait ten times as long.
    pub give_up: Duration,
    /// The first rank's callback for a report. It gets the awaited ranks, at most 8.
    pub waiting: fn(&[u32]),
}

impl Default for Limits {
    /// Reports after 60 s, to a callback that does nothing. Gives up 10 s after a request to end.
    fn default() -> Self {
        Self { report: Duration::from_secs(60), give_up: Duration::from_secs(10), waiting: |_| {} }
    }
}

/// The number of times that a rank reports its missing ranks before the first one gives up.
const WORDS: u32 = 8;

impl Limits {
    /// The interval between two such reports of a rank after a request to end.
    pub(crate) fn period(&self) -> Duration {
        self.give_up / WORDS
    }
}

/// One wait.
#[derive(Debug)]
pub(crate) struct Wait {
    limits: Limits,
    /// The time of the last sign of life.
    last_sign: Instant,
    /// The number of messages and signs of life at that time.
    signs: (u64, u64),
    /// The time of the last report.
    reported: Instant,
    /// The time of this rank's last message about missing ranks.
    notified: Instant,
    stopped: Option<Instant>,
}

impl Wait {
    pub(crate) fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Self { limits, last_sign: now, signs: (u64::MAX, 0), reported: now, notified: now, stopped: None }
    }

    /// Checks whether to continue to wait for these ranks, and reports the wait periodically. Every arrival from another rank restarts
    /// the wait.
    ///
    /// # Errors
    /// The wait is over: a rank failed, or the limit was reached.
    pub(crate) fn check(&mut self, link: &mut Link<'_>, awaited: &[u32]) -> Result<(), RankError> {
        if let Some(failed) = link.failure() {
            return Err(failed);
        }
        if self.signs.0 != link.messages {
            self.last_sign = Instant::now();
            (self.reported, self.notified) = (self.last_sign, self.last_sign);
        }
        if self.signs != (link.messages, link.alive) {
            self.signs = (link.messages, link.alive);
            self.stopped = None;
        }
        link.send_alive(false, self.limits.period())?;
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
            self.notify(link, awaited)?;
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

    /// Reports to the parent which ranks this one waits for, unless that is the parent or the first rank.
    fn notify(&mut self, link: &mut Link<'_>, awaited: &[u32]) -> Result<(), RankError> {
        let soon = self.limits.period().min(self.limits.report);
        let period = if link.stop.is_set() { soon } else { self.limits.report };
        let is_above =
            |rank: &u32| *rank == 0 || link.tree().parent().is_some_and(|parent| parent.0 == *rank);
        if self.notified.elapsed() < period || awaited.iter().any(is_above) {
            return Ok(());
        }
        self.notified = Instant::now();
        let missing = link.missing(awaited);
        if missing.is_empty() { Ok(()) } else { link.send_waiting(&missing) }
    }

    /// Notes that something was done here, so that the next check comes soon.
    pub(crate) fn note_progress(&mut self) {
        self.last_sign = Instant::now();
    }

    /// Waits for what the next check may find.
    pub(crate) fn rest(&self, link: &Link<'_>) {
        match link.is_polled && self.yields() {
            true => std::thread::yield_now(),
            false => link.wait(self.pause(link.is_polled)),
        }
    }

    /// Waits until messages may have gone, which no fabric reports.
    pub(crate) fn rest_while_sending(&self) {
        if self.yields() {
            std::thread::yield_now();
        } else {
            std::thread::sleep(POLL_FIRST);
        }
    }

    fn yields(&self) -> bool {
        self.last_sign.elapsed() < YIELDS_FOR
    }

    /// The time until the next check.
    fn pause(&self, is_polled: bool) -> Duration {
        if !is_polled {
            return PAUSE;
        }
        (self.last_sign.elapsed() / PAUSE_PART).clamp(POLL_FIRST, POLL_LATER)
    }
}
