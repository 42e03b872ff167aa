//! A cap on operations or bytes per second, shared by all threads. It sleeps; it does not spin and does not queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Stop;

/// Unused time that may be made up for: short enough not to burst, long enough that late sleepers do not lose rate.
const SLACK_NS: u64 = 20_000_000;
/// A sleep looks at the request to stop this often.
const SLICE: Duration = Duration::from_millis(50);
/// Below this a sleep overshoots by more than it waits; the debt is carried on instead.
const SLEEP_MIN_NS: u64 = 200_000;

/// A cap of so many units per second over all threads (a leaky bucket that holds one atomic number).
#[derive(Debug)]
pub struct Rate {
    started: Instant,
    /// When the next unit is due, in nanoseconds after `started`.
    due_ns: AtomicU64,
    throttled_ns: AtomicU64,
    per_second: u64,
}

impl Rate {
    /// A cap of `operations_per_second`, at least 1.
    #[must_use]
    pub fn new(operations_per_second: u32) -> Self {
        Self::per_second(operations_per_second.into())
    }

    /// A cap of so many units a second, as bytes are, at least 1.
    #[must_use]
    pub fn per_second(units: u64) -> Self {
        Self {
            started: Instant::now(),
            due_ns: AtomicU64::new(0),
            throttled_ns: AtomicU64::new(0),
            per_second: units.max(1),
        }
    }

    /// Waits until `units` more may be done, or `stop` is set.
    pub fn acquire(&self, units: u64, stop: &Stop) {
        let now = self.now_ns();
        // Time that nobody used is given up but for the slack.
        let floor = now.saturating_sub(SLACK_NS);
        self.due_ns.fetch_max(floor, Ordering::Relaxed);
        let cost = u128::from(units) * 1_000_000_000 / u128::from(self.per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX >> 1);
        let due = self.due_ns.fetch_add(cost, Ordering::Relaxed);
        let wait = due.saturating_sub(now);
        if wait > SLEEP_MIN_NS {
            self.throttled_ns.fetch_add(wait, Ordering::Relaxed);
            self.sleep_until(due, stop);
        }
    }

    fn sleep_until(&self, due: u64, stop: &Stop) {
        while !stop.is_set() {
            match due.checked_sub(self.now_ns()) {
                None | Some(0) => return,
                Some(left) => std::thread::sleep(Duration::from_nanos(left).min(SLICE)),
            }
        }
    }

    /// How long threads have been held back so far, all of them together.
    #[must_use]
    pub fn throttled(&self) -> Duration {
        Duration::from_nanos(self.throttled_ns.load(Ordering::Relaxed))
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_faster_than_asked() {
        let rate = Rate::new(10_000);
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| rate.acquire(5, &Stop::new())));
            }
        });
        // 2000 operations are 200 ms, of which the slack may be had at once and the last wait may be skipped.
        assert!(started.elapsed() >= Duration::from_millis(170));
        assert!(rate.throttled() > Duration::ZERO);
    }

    #[test]
    fn a_unit_may_take_less_than_a_nanosecond() {
        let rate = Rate::per_second(5_000_000_000);
        let started = Instant::now();
        (0..100).for_each(|_| rate.acquire(10_000_000, &Stop::new()));
        // 10^9 units are 200 ms.
        assert!(started.elapsed() >= Duration::from_millis(170));
    }
}
