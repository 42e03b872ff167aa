//! Contenders within this process, run in turns: A B C, then from the next one, every other round backwards.
//!
//! As `contest` does it for programs. One round warms up and is dropped. Who fails is left out from then on, with the
//! reason. Nothing here knows what is measured.

use std::time::{Duration, Instant};

use crate::contest::order;

/// A result, or the reason why there is none.
pub(crate) type BenchResult<T> = Result<T, String>;

/// Somebody who competes: each run gives one number for each thing that is measured.
pub(crate) struct Contender<'run> {
    /// The name in tables.
    pub(crate) name: String,
    /// One run.
    pub(crate) run: Box<dyn FnMut() -> BenchResult<Vec<f64>> + 'run>,
}

impl<'run> Contender<'run> {
    /// Somebody by name.
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut() -> BenchResult<Vec<f64>> + 'run) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// A contender after all rounds.
pub(crate) struct Outcome {
    /// Who.
    pub(crate) name: String,
    /// For each thing that is measured the numbers by round; or why it was left out.
    pub(crate) values: BenchResult<Vec<Vec<f64>>>,
}

/// How often, and how patiently.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    /// Rounds that count.
    pub(crate) rounds: usize,
    /// How long a round waits at most for a moment in which others leave the cores alone.
    pub(crate) patience: Duration,
}

/// Runs all in turns.
pub(crate) fn hold(turns: Turns, contenders: Vec<Contender<'_>>) -> Vec<Outcome> {
    let mut contenders = contenders;
    let names = contenders.iter().map(|contender| contender.name.clone());
    let mut outcomes: Vec<_> = names.map(|name| Outcome { name, values: Ok(Vec::new()) }).collect();
    for round in 0..=turns.rounds {
        await_quiet(turns.patience);
        for index in order(round, contenders.len()) {
            let Ok(values) = &mut outcomes[index].values else { continue };
            match (contenders[index].run)() {
                Ok(_) if round == 0 => {}
                Ok(run) => {
                    values.resize(run.len(), Vec::new());
                    values.iter_mut().zip(run).for_each(|(values, value)| values.push(value));
                }
                Err(reason) => outcomes[index].values = Err(reason),
            }
        }
    }
    outcomes
}

/// Waits until the cores are idle for four fifths, at most so long.
fn await_quiet(patience: Duration) {
    let start = Instant::now();
    while start.elapsed() < patience {
        let before = ticks();
        std::thread::sleep(Duration::from_millis(60));
        let after = ticks();
        let (idle, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        if idle * 5 >= all * 4 {
            return;
        }
    }
}

/// How much of the cores is left idle from when this is made.
pub(crate) struct Idle((u64, u64));

impl Idle {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self(ticks())
    }

    /// Up to now, from 0 to 1. Ticks are a hundredth of a second: not for short times.
    #[expect(clippy::cast_precision_loss, reason = "ticks of a run")]
    pub(crate) fn share(&self) -> f64 {
        let now = ticks();
        (now.0 - self.0.0) as f64 / now.1.saturating_sub(self.0.1).max(1) as f64
    }
}

/// Ticks of all cores since the start of the machine, idle and in total: see proc_stat(5).
fn ticks() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers.get(3).copied().unwrap_or(0), numbers.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_round_and_failing_contenders_are_dropped() {
        let mut runs = 0.0;
        let counts = Contender::new("counts", || {
            runs += 1.0;
            Ok(vec![runs, -runs])
        });
        let fails = Contender::new("fails", || Err("no".to_owned()));
        let turns = Turns { rounds: 3, patience: Duration::ZERO };
        let outcomes = hold(turns, vec![counts, fails]);
        assert_eq!(outcomes[0].values, Ok(vec![vec![2.0, 3.0, 4.0], vec![-2.0, -3.0, -4.0]]));
        assert_eq!(outcomes[1].values, Err("no".to_owned()));
    }
}
