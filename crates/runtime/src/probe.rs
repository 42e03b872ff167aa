//! Measurements for tuning the number of threads. `threads.rs` decides.

use std::time::{Duration, Instant};

use crate::job::Job;
use crate::pool::shared::Shared;
use crate::rate::Rate;
use crate::threads::Sample;

/// The maximum of threads checked in each tick: a sample is enough.
const WATCHED: usize = 8;

/// What the supervisor measured at the last tick.
pub(crate) struct Probe<'a> {
    at: Instant,
    progress: u64,
    rate: Option<&'a Rate>,
    throttled: Duration,
    /// Where the next look at the threads starts.
    next: usize,
}

impl<'a> Probe<'a> {
    pub(crate) fn new(rate: Option<&'a Rate>) -> Self {
        Self { at: Instant::now(), progress: 0, rate, throttled: Duration::ZERO, next: 0 }
    }

    pub(crate) fn sample<J: Job>(&mut self, shared: &Shared<'_, J>, threads: usize) -> Sample {
        let now = Instant::now();
        let elapsed = now.duration_since(std::mem::replace(&mut self.at, now));
        let progress = shared.job.progress();
        let made = progress.saturating_sub(std::mem::replace(&mut self.progress, progress));
        let throttled = self.rate.map_or(Duration::ZERO, Rate::throttled) + shared.job.throttled();
        let slept = throttled.saturating_sub(std::mem::replace(&mut self.throttled, throttled));
        let held_back = share(slept, elapsed, threads);
        let work_waits = shared.idle.sleepers() == 0 && !shared.is_empty();
        let blocked = blocked_elsewhere(self.blocked(shared, threads), held_back);
        Sample { elapsed, blocked, held_back, work_waits, progress: made }
    }

    /// The share of the threads checked this time that are blocked in the kernel.
    fn blocked<J: Job>(&mut self, shared: &Shared<'_, J>, threads: usize) -> f64 {
        let looked = threads.min(WATCHED);
        let states: Vec<bool> = (0..looked)
            .map(|offset| (self.next + offset) % threads.max(1))
            .filter_map(|index| shared.meter(index).watch.get()?.as_ref()?.is_blocked())
            .collect();
        self.next = (self.next + looked) % threads.max(1);
        let blocked = states.iter().filter(|&&blocked| blocked).count();
        blocked as f64 / states.len().max(1) as f64
    }
}

/// The share of their time that this many threads have slept.
fn share(slept: Duration, elapsed: Duration, threads: usize) -> f64 {
    let whole = elapsed.as_secs_f64() * threads.max(1) as f64;
    if whole > 0.0 { (slept.as_secs_f64() / whole).min(1.0) } else { 0.0 }
}

/// The blocked threads that do not sleep for the cap: to the kernel both look the same.
fn blocked_elsewhere(blocked: f64, held_back: f64) -> f64 {
    (blocked - held_back).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_asleep_for_a_cap_are_not_blocked() {
        let tick = Duration::from_millis(25);
        assert!((share(tick, tick, 2) - 0.5).abs() < 1e-9);
        assert!((share(3 * tick, tick, 2) - 1.0).abs() < 1e-9);
        assert!(share(tick, Duration::ZERO, 2).abs() < 1e-9);
        assert!(blocked_elsewhere(1.0, 1.0).abs() < 1e-9 && blocked_elsewhere(0.5, 0.8).abs() < 1e-9);
        assert!((blocked_elsewhere(1.0, 0.25) - 0.75).abs() < 1e-9);
    }
}
