//! A cap on operations or bytes per second, shared by all threads. It sleeps; it does not spin and does not queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Stop;

/// Unused time that may be caught up: short enough to avoid bursts, long enough that late sleepers do not lose rate.
const SLACK_NS: u64 = 20_000_000;
/// The interval at which a sleep checks for the request to stop.
const SLICE: Duration = Duration::from_millis(50);
/// Below this a sleep overshoots by more than it waits; the debt is carried on instead.
const SLEEP_MIN_NS: u64 = 200_000;

/// A cap of so many units per second over all threads (a leaky bucket that holds one atomic number).
#[derive(Debug)]
pub struct Rate {
    started: Instant,
    /// When the next unit is due, in nanoseconds after `started`.
    due_ns: AtomicU64,
    sleeps: Mutex<Sleeps>,
    per_second: u64,
}

/// Time that threads have slept, up to any moment. A sleep counts while it lasts. Otherwise an observer with an interval of a few
/// milliseconds would see a sleep of a second in one sample and none in the hundred that follow.
#[derive(Clone, Copy, Debug, Default)]
struct Sleeps {
    /// Threads that sleep.
    threads: u64,
    /// The sum of the moments at which they began.
    since_ns: u128,
    /// The total sleep of threads that are awake again.
    ended_ns: u128,
}

impl Sleeps {
    fn begin(&mut self, now_ns: u64) {
        self.threads += 1;
        self.since_ns += u128::from(now_ns);
    }

    fn end(&mut self, began_ns: u64, now_ns: u64) {
        self.threads -= 1;
        self.since_ns -= u128::from(began_ns);
        self.ended_ns += u128::from(now_ns.saturating_sub(began_ns));
    }

    /// The total up to now, in nanoseconds.
    fn total(&self, now_ns: u64) -> u64 {
        let under_way = (u128::from(self.threads) * u128::from(now_ns)).saturating_sub(self.since_ns);
        u64::try_from(self.ended_ns + under_way).unwrap_or(u64::MAX)
    }
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
            sleeps: Mutex::default(),
            per_second: units.max(1),
        }
    }

    /// The same cap, with none of it used.
    #[must_use]
    pub fn unused(&self) -> Self {
        Self::per_second(self.per_second)
    }

    /// Waits until `units` more may be done, or `stop` is set.
    pub fn acquire(&self, units: u64, stop: &Stop) {
        let now = self.now_ns();
        // Unused time is dropped, except for the slack.
        let floor = now.saturating_sub(SLACK_NS);
        self.due_ns.fetch_max(floor, Ordering::Relaxed);
        let cost = u128::from(units) * 1_000_000_000 / u128::from(self.per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX >> 1);
        let due = self.due_ns.fetch_add(cost, Ordering::Relaxed);
        let wait = due.saturating_sub(now);
        if wait > SLEEP_MIN_NS {
            let began = self.now_ns();
            self.sleeps().begin(began);
            self.sleep_until(due, stop);
            self.sleeps().end(began, self.now_ns());
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

    /// Total time that threads have been held back up to now, including those held back at present.
    #[must_use]
    pub fn throttled(&self) -> Duration {
        let sleeps = self.sleeps();
        Duration::from_nanos(sleeps.total(self.now_ns()))
    }

    fn sleeps(&self) -> MutexGuard<'_, Sleeps> {
        self.sleeps.lock().unwrap_or_else(PoisonError::into_inner)
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
        // 2000 operations take 200 ms, of which the slack is available at once and the last wait may be skipped.
        assert!(started.elapsed() >= Duration::from_millis(170));
        assert!(rate.throttled() > Duration::ZERO);
    }

    #[test]
    fn a_sleep_counts_while_it_lasts() {
        let mut sleeps = Sleeps::default();
        sleeps.begin(100);
        sleeps.begin(150);
        assert_eq!([150, 200, 1000].map(|now| sleeps.total(now)), [50, 150, 1750]);
        sleeps.end(100, 1000);
        assert_eq!([1000, 1100].map(|now| sleeps.total(now)), [1750, 1850]);
        sleeps.end(150, 1200);
        assert_eq!([1200, 9000].map(|now| sleeps.total(now)), [1950, 1950]);
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
