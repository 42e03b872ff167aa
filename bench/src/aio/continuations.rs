//! Throughput over what a continuation takes (figure 4.12 of the thesis): on the progress thread, as in the thesis, and on an
//! executor. Continuations compute, or sleep, so that also many at a time keep up on two cores.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atta_aio::Service;
use atta_plots::Labels;

use super::place::Place;
use super::port::{Direction, Transfer, service};
use super::work::Work;
use super::{BenchResult, Case, MIB, Scale, figures};
use crate::sheet::{Goal, Sheet, number, quantile};
use crate::turns::{Contender, Outcome, Turns, hold};

const BLOCK: usize = 1 << 20;
/// Threads that keep up with continuations that sleep.
const SLEEPERS: usize = 64;
const SLEEPING: &str = "executor of 64, asleep";
/// Rounds that the goal needs, since runs are short.
const ROUNDS_LEAST: usize = 30;
/// The goal: so much less at 10 ms, in percent.
const CHANGE_MOST: f64 = 5.0;

/// Runs the case in one place.
pub(crate) fn run(place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let blocks = scale.pick_usize(256, 64);
    let file = place.file("continuations", (blocks * BLOCK) as u64)?;
    let note = "MiB/s until the last operation has ended, continuations not waited for; blocks of 1 MiB, all submitted at \
                once, every one with a continuation of this length. `asleep`: it sleeps; `computing`: it computes, and so \
                takes its core from whoever moves the bytes. The ratio compares with no continuation in the same round.";
    let mut sheet =
        Sheet::comparison(format!("Throughput over the length of continuations, {}", place.kind), note);
    let lengths = [0_u64, 1, 2, 5, 10];
    let mut points = Vec::new();
    let mut goal = Vec::new();
    for direction in Direction::BOTH {
        (case.log)(&format!("continuations: {}", direction.name()));
        let job = Job { file: &file, blocks, direction };
        let ways = [
            ("progress thread, computing", service(None, |options| options.continuation_threads = 0)?, false),
            ("executor of 2, computing", service(None, |_| {})?, false),
            (SLEEPING, service(None, |options| options.continuation_threads = SLEEPERS)?, true),
        ];
        // All lengths in one contest: they are what is compared.
        for (who, service, sleeps) in &ways {
            let contenders = lengths.map(|length| {
                let (job, then) =
                    (&job, Then { length: Duration::from_millis(length), sleeps: *sleeps, work: scale.work });
                Contender::new(format!("{who}, {length} ms"), move || job.speed(service, then))
            });
            let rounds = if *who == SLEEPING && !scale.is_quick() { ROUNDS_LEAST } else { 0 };
            let turns = Turns { rounds: scale.turns.rounds.max(rounds), ..scale.turns };
            let outcomes = hold(turns, contenders.into());
            sheet.compare(&[direction.name().to_owned()], &outcomes, &format!("{who}, 0 ms"));
            let ended = lengths
                .iter()
                .zip(&outcomes)
                .filter_map(|(length, run)| Some((*length, run.values.as_ref().ok()?)));
            for (length, values) in ended {
                #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
                points.push((
                    format!("{}, {who}", direction.name()),
                    length as f64,
                    quantile(&values[0], 0.5),
                ));
            }
            if *who == SLEEPING {
                goal.extend(change(&outcomes).map(|change| (change, direction.name())));
            }
        }
    }
    if let Some((change, what)) = goal.into_iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs())) {
        case.goals.push(Goal {
            goal: format!(
                "figure 4.12, {}: continuations of 10 ms change throughput by less than 5 %",
                place.kind
            ),
            measured: format!("{} % ({what}; {SLEEPING})", number(change)),
            is_met: change.abs() < CHANGE_MOST,
        });
    }
    let labels = Labels::new(format!("Throughput over the length of continuations, {}", place.kind));
    let labels = labels.x("length of a continuation, ms").y("MiB/s");
    case.figures.extend(figures::over(&format!("{}-continuations", place.kind), &labels, &points));
    case.sheets.push(sheet);
    Ok(())
}

/// By how much the longest continuations change throughput: percent, by round.
fn change(outcomes: &[Outcome]) -> Option<f64> {
    let (none, longest) = (outcomes.first()?.values.as_ref().ok()?, outcomes.last()?.values.as_ref().ok()?);
    let changes: Vec<f64> =
        none[0].iter().zip(&longest[0]).map(|(none, longest)| 100.0 * (longest / none - 1.0)).collect();
    Some(quantile(&changes, 0.5))
}

/// What a continuation does.
#[derive(Clone, Copy)]
struct Then {
    length: Duration,
    sleeps: bool,
    work: Work,
}

impl Then {
    fn run(self) {
        match self.sleeps {
            _ if self.length.is_zero() => {}
            true => std::thread::sleep(self.length),
            false => self.work.run(self.length),
        }
    }
}

struct Job<'run> {
    file: &'run Arc<File>,
    blocks: usize,
    direction: Direction,
}

impl Job<'_> {
    fn speed(&self, service: &Service, then: Then) -> BenchResult<Vec<f64>> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let buffers: Vec<Vec<u8>> = (0..self.blocks).map(|_| vec![b'f'; BLOCK]).collect();
        let start = Instant::now();
        for (index, buffer) in buffers.into_iter().enumerate() {
            let offset = (index * BLOCK) as u64;
            let transfer =
                Transfer { file: Arc::clone(self.file), direction: self.direction, offset, buffer };
            let sender = sender.clone();
            transfer.submit_then(service, move |ended| {
                then.run();
                // With its buffer: to free it is no part of this. Nobody listens only if this run has failed.
                drop(sender.send(ended));
            })?;
        }
        while service.pending() > 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        let seconds = start.elapsed().as_secs_f64();
        for _ in 0..self.blocks {
            drop(receiver.recv().map_err(|error| error.to_string())??);
        }
        #[expect(clippy::cast_precision_loss, reason = "a short file")]
        Ok(vec![(self.blocks * BLOCK) as f64 / MIB / seconds])
    }
}
