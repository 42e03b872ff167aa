//! Decides whether to poll before sleeping: only if recent waits were short. Sleeping and waking takes microseconds, on virtual
//! machines tens of them. The caller passes the time.

use std::time::{Duration, Instant};

/// Polls for a while after each work item, if the pauses before it were short.
pub(crate) struct Patience {
    /// The longest time to poll.
    most: Duration,
    /// The usual length of a pause: a moving average in which the last one counts a quarter.
    usual: Duration,
    /// The end of the last work.
    since: Instant,
}

/// A pause counts as at most this many times the longest time to poll, so that after a long one a few short ones are enough.
const LONGEST: u32 = 3;

impl Patience {
    /// Starts with a pause, and the usual length of earlier ones.
    pub(crate) fn new(most: Duration, usual: Duration, now: Instant) -> Self {
        Self { most, usual, since: now }
    }

    /// Records work that ended the pause at `began` and was done at `now`; its own duration does not count. Returns the usual
    /// length of a pause.
    pub(crate) fn was_busy(&mut self, began: Instant, now: Instant) -> Duration {
        let pause = began.saturating_duration_since(self.since).min(self.most.saturating_mul(LONGEST));
        self.usual = (self.usual.saturating_mul(3).saturating_add(pause)) / 4;
        self.since = now;
        self.usual
    }

    /// Whether to continue polling.
    pub(crate) fn is_left(&self, now: Instant) -> bool {
        self.usual <= self.most && now.saturating_duration_since(self.since) < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(50);

    /// A `Patience` after pauses of these lengths in microseconds, and the time.
    fn after(pauses: impl IntoIterator<Item = u64>) -> (Patience, Instant) {
        let mut now = Instant::now();
        let mut patience = Patience::new(MOST, Duration::ZERO, now);
        for pause in pauses {
            now += Duration::from_micros(pause);
            patience.was_busy(now, now);
        }
        (patience, now)
    }

    #[test]
    fn polling_goes_on_while_pauses_are_short() {
        let (patience, now) = after([1, 30, 5, 20]);
        assert!(patience.is_left(now + Duration::from_micros(49)));
        assert!(!patience.is_left(now + MOST));
    }

    #[test]
    fn polling_stops_while_pauses_are_long() {
        let (mut patience, mut now) = after([1_000_000; 10]);
        assert!(!patience.is_left(now));
        for _ in 0..6 {
            now += Duration::from_micros(2);
            patience.was_busy(now, now);
        }
        assert!(patience.is_left(now));
    }

    #[test]
    fn one_long_pause_among_short_ones_changes_nothing() {
        let (patience, now) = after([2, 2, 2, 2, 100_000]);
        assert!(patience.is_left(now));
    }

    #[test]
    fn what_is_done_is_no_pause() {
        let (mut patience, mut now) = after([]);
        for _ in 0..10 {
            let began = now + Duration::from_micros(3);
            now = began + Duration::from_millis(5);
            patience.was_busy(began, now);
        }
        assert!(patience.is_left(now));
    }

    #[test]
    fn without_an_end_it_never_sleeps() {
        let start = Instant::now();
        let mut patience = Patience::new(Duration::MAX, Duration::ZERO, start);
        let later = start + Duration::from_secs(100_000);
        patience.was_busy(later, later);
        assert!(patience.is_left(start + Duration::from_secs(300_000)));
    }
}
