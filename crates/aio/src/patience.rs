//! Whether it is worth looking around before sleeping: only where what is waited for has lately come soon. To fall asleep and to
//! wake takes microseconds, on virtual machines tens of them. It knows no clock of its own.

use std::time::{Duration, Instant};

/// Looks around for a while after there was something to do, if the pauses before that were short.
pub(crate) struct Patience {
    /// For how long at most.
    most: Duration,
    /// How long pauses are, by the last ones: each counts a quarter.
    usual: Duration,
    /// When there was something to do last.
    since: Instant,
}

/// A pause counts as so many times what may be waited at most: after a long one, some short ones are enough.
const LONGEST: u32 = 3;

impl Patience {
    /// A pause begins, after some that were so long.
    pub(crate) fn new(most: Duration, usual: Duration, now: Instant) -> Self {
        Self { most, usual, since: now }
    }

    /// There was something to do, which ended the pause and has been done by `now`: it may itself have taken long. How long
    /// pauses are.
    pub(crate) fn was_busy(&mut self, began: Instant, now: Instant) -> Duration {
        let pause = began.saturating_duration_since(self.since).min(self.most.saturating_mul(LONGEST));
        self.usual = (self.usual.saturating_mul(3).saturating_add(pause)) / 4;
        self.since = now;
        self.usual
    }

    /// Whether to go on looking around.
    pub(crate) fn is_left(&self, now: Instant) -> bool {
        self.usual <= self.most && now.saturating_duration_since(self.since) < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(50);

    /// A patience after pauses of so many microseconds, and the time.
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
    fn it_looks_around_for_as_long_as_it_may_while_pauses_are_short() {
        let (patience, now) = after([1, 30, 5, 20]);
        assert!(patience.is_left(now + Duration::from_micros(49)));
        assert!(!patience.is_left(now + MOST));
    }

    #[test]
    fn it_does_not_where_pauses_are_long_until_some_are_short_again() {
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
