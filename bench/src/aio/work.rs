//! Computation of a given length, and what the clock itself costs. It measures no file system.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::sheet::quantile;

/// Computation that touches no memory: so many turns of a loop. It is counted in turns, not timed, so that it is the same
/// work whether or not somebody else takes the core meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    turns_per_second: f64,
}

impl Work {
    /// Measures how quick this machine is.
    pub(crate) fn calibrated() -> Self {
        const TURNS: u64 = 200_000;
        let times = (0..15).map(|_| {
            let start = Instant::now();
            turn(TURNS);
            start.elapsed().as_secs_f64()
        });
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let quickest = TURNS as f64 / times.fold(f64::INFINITY, f64::min);
        Self { turns_per_second: quickest }
    }

    /// Computes for so long, on a core that is this thread's alone.
    pub(crate) fn run(&self, length: Duration) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and small"
        )]
        turn((length.as_secs_f64() * self.turns_per_second) as u64);
    }
}

fn turn(turns: u64) {
    let mut value = 1_u64;
    for _ in 0..turns {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// What two readings of the clock, one right after the other, are apart: median and 99th percentile in ns.
pub(crate) fn clock_cost_ns() -> (f64, f64) {
    let times: Vec<f64> = (0..20_000)
        .map(|_| {
            let start = Instant::now();
            start.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    (quantile(&times, 0.5), quantile(&times, 0.99))
}
