//! What the supervisor looks at to tune the number of threads. It measures; `threads.rs` decides.

use std::time::{Duration, Instant};

use crate::pool::Shared;
use crate::threads::Sample;
use crate::{Job, Rate};

/// Threads that are looked at in each tick, at most: a sample is enough.
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
        let held_back = throttled.saturating_sub(std::mem::replace(&mut self.throttled, throttled));
        let work_waits = shared.idle.sleepers() == 0
            && !shared.is_empty()
            && held_back < elapsed.mul_f64(0.1 * threads as f64);
        Sample { elapsed, blocked: self.blocked(shared, threads), work_waits, progress: made }
    }

    /// Share of the threads that are blocked in the kernel, of those that are looked at this time.
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
