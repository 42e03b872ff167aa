//! Case 3 of the thesis: one transfer at a time, with computation between submission and waiting, beside the same without
//! (tables 4.2 and 4.3); and what of the transfer's time is left to be seen over the length of the computation (figure 4.9).

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atta_plots::Labels;

use super::cores::Stay;
use super::place::Place;
use super::port::{Direction, Plain, Port, ServicePort, Tokio, Transfer, service, tokio_runtime};
use super::posix::PosixAio;
use super::raw_ring::RawRing;
use super::spinning::Spinning;
use super::{BenchResult, Case, MIB, Scale, figures};
use crate::sheet::{Goal, Sheet, mean_and_interval, number, quantile};
use crate::turns::{Contender, Turns, hold};

/// The smallest block; the computation is a part of the time of a plain read or write of this size.
const SMALLEST: usize = 512 << 10;
const COMPUTATION_PART: f64 = 0.8;
/// The goal: throughput lost, in percent.
const LOSS_MOST: f64 = 1.0;
/// Bytes that are moved in each half of a pair, as in the thesis; where a server on the same machine answers, less.
const BYTES: u64 = 1 << 30;
const BYTES_REMOTE: u64 = 64 << 20;
/// Pairs that the confidence interval needs.
const PAIRS_LEAST: usize = 30;
/// Pairs of whom the goal is about, which are to show a percent: after those with all the others, and alone.
const PAIRS_ALONE: usize = 40;

/// A way to move bytes, made anew for each run.
type Way<'run> = (&'static str, Box<dyn Fn() -> BenchResult<Box<dyn Port>> + 'run>);

/// The service whose threads have one core, and the caller another, as the thesis did it.
const APART: &str = "service, cores apart";

/// The same by handing over to a thread that does nothing else: what of a loss is the machine's.
const LIMIT: &str = "a thread that spins, cores apart";

/// Runs case 3 in one place.
pub(crate) fn run(place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let bytes = scale.pick(if place.is_remote() { BYTES_REMOTE } else { BYTES }, 16 << 20);
    let file = place.file("overlap", bytes)?;
    let rounds = if scale.is_quick() { scale.turns.rounds } else { scale.turns.rounds.max(PAIRS_LEAST) };
    let alone = if scale.is_quick() || place.is_remote() { rounds } else { rounds.max(PAIRS_ALONE) };
    let note = format!(
        "MiB/s of the whole run, and the loss by computation in percent: mean of {rounds} pairs with its 95 % confidence \
         interval, and the median. The computation after each submission is {COMPUTATION_PART} of the time of a plain call \
         at 512 KiB, whatever the block size. `service, future` never lets the waiter carry out the transfer; nor does \
         `cores apart`, whose waiter blocks, on one core while the service has another, as in the thesis: the goal is its. It has \
         {alone} pairs again, beside a thread that does nothing but move the block, which takes both cores whole. Each half of a pair \
         moves {} MiB; writes are not made durable, and go to the page cache. A negative loss is no gain by computation: without \
         computation the caller sleeps while it waits and is woken late, so the baseline is slow.",
        bytes >> 20
    );
    let heads = ["what", "block KiB", "who", "without", "with", "loss %, mean", "+-", "loss %, median"];
    let mut sheet = Sheet::new(format!("Case 3: computation overlapped, {}", place.kind), &note, 3, &heads);
    let mut worst: Option<([Loss; 2], String)> = None;
    for direction in Direction::BOTH {
        let job = Job { file: &file, bytes, direction, block: SMALLEST };
        let length = Duration::from_secs_f64(job.quickest()? * COMPUTATION_PART);
        for block in scale.some(&[512 << 10, 1 << 20, 2 << 20, 4 << 20], &[512 << 10, 4 << 20]) {
            (case.log)(&format!("case 3: {} {} KiB", direction.name(), block >> 10));
            let job = Job { block, ..job };
            let mut ways = ways()?;
            job.pairs(scale, rounds, length, &ways, &mut sheet);
            ways.retain(|(name, _)| *name == APART);
            ways.push((LIMIT, Box::new(|| Ok(Box::new(spinning_apart())))));
            let lost = job.pairs(scale, alone, length, &ways, &mut sheet);
            if worst.as_ref().is_none_or(|(worst, _)| lost[0].mean.is_nan() || lost[0].mean > worst[0].mean) {
                worst = Some((lost, format!("{} {} KiB", direction.name(), block >> 10)));
            }
        }
    }
    if let Some(([loss, limit], what)) = worst {
        case.goals.push(Goal {
            goal: format!(
                "case 3, {}: loss by overlapped computation <= 1 % at every block size",
                place.kind
            ),
            measured: format!("at most {loss} ({what}; a thread that spins loses {limit})"),
            is_met: loss.mean <= LOSS_MOST,
        });
    }
    case.sheets.push(sheet);
    Ok(())
}

/// Runs the case of figure 4.9 in one place.
pub(crate) fn apparent(place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let bytes = scale.pick(64 << 20, 16 << 20);
    let file = place.file("apparent", bytes)?;
    let job = Job { file: &file, bytes, direction: Direction::Read, block: 4 << 20 };
    let base = job.quickest()?;
    let note = "Microseconds for each read of 4 MiB that the caller sees: the time of the whole less the computation. The \
                computation is given in parts of the time of a plain read.";
    let mut sheet =
        Sheet::comparison(format!("Apparent I/O time over computation time, {}", place.kind), note);
    let mut points = Vec::new();
    for part in scale.some(&[0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0], &[0.0, 0.5, 1.0, 2.0]) {
        (case.log)(&format!("apparent: computation of {part}"));
        let length = Duration::from_secs_f64(base * part);
        let ways = ways()?;
        let contenders = ways.iter().map(|(name, make)| {
            let (job, work) = (&job, scale.work);
            Contender::new(*name, move || {
                let _first = (*name == APART).then(Stay::on_first);
                // The computation alone, in the same round: on a busy machine it is longer than it should be.
                let start = Instant::now();
                (0..job.blocks()).for_each(|_| work.run(length));
                let alone = start.elapsed().as_secs_f64() / job.blocks_f64();
                let whole = job.seconds_per_block(&mut *make()?, &mut || work.run(length))?;
                Ok(vec![(whole - alone).max(0.0) * 1e6])
            })
        });
        let outcomes = hold(scale.turns, contenders.collect());
        sheet.compare(&[format!("computation {part}")], &outcomes, "plain calls");
        let ended = outcomes.iter().filter_map(|outcome| Some((outcome, outcome.values.as_ref().ok()?)));
        points.extend(ended.map(|(outcome, values)| (outcome.name.clone(), part, quantile(&values[0], 0.5))));
    }
    let labels = Labels::new(format!("Apparent time of a read of 4 MiB, {}", place.kind));
    let labels = labels.x("computation, in times of a plain read").y("us");
    case.figures.extend(figures::over(&format!("{}-apparent", place.kind), &labels, &points));
    case.sheets.push(sheet);
    Ok(())
}

/// Throughput lost, in percent: mean of all pairs, half of its interval, median.
#[derive(Clone, Copy)]
struct Loss {
    mean: f64,
    half: f64,
    median: f64,
}

impl Loss {
    /// Who failed has no number, and meets no goal.
    const UNKNOWN: Self = Self { mean: f64::NAN, half: f64::NAN, median: f64::NAN };
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [mean, half, median] = [self.mean, self.half, self.median].map(number);
        write!(f, "{mean} +- {half} %, median {median} %")
    }
}

/// The limit, with its thread on a core of its own.
fn spinning_apart() -> Spinning {
    let _last = Stay::on_last();
    Spinning::new()
}

fn ways<'run>() -> BenchResult<Vec<Way<'run>>> {
    let (on_ring, on_threads) = (service(None, |_| {})?, service(Some(4), |_| {})?);
    let apart = {
        let _last = Stay::on_last();
        service(None, |_| {})?
    };
    let helping = Arc::clone(&on_ring);
    let runtime = tokio_runtime()?;
    Ok(vec![
        ("plain calls", Box::new(|| Ok(Box::new(Plain::default())))),
        ("service, future", Box::new(move || Ok(Box::new(ServicePort::futures(&on_ring))))),
        (APART, Box::new(move || Ok(Box::new(ServicePort::leaving(&apart))))),
        ("service, wait", Box::new(move || Ok(Box::new(ServicePort::helping(&helping))))),
        ("service on 4 threads", Box::new(move || Ok(Box::new(ServicePort::futures(&on_threads))))),
        ("raw io_uring", Box::new(|| Ok(Box::new(RawRing::new(4, true)?)))),
        ("POSIX aio", Box::new(|| Ok(Box::new(PosixAio::default())))),
        ("tokio", Box::new(move || Ok(Box::new(Tokio::new(&runtime))))),
    ])
}

#[derive(Clone, Copy)]
struct Job<'run> {
    file: &'run Arc<File>,
    bytes: u64,
    direction: Direction,
    block: usize,
}

impl Job<'_> {
    fn blocks(&self) -> u64 {
        self.bytes / self.block as u64
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of blocks")]
    fn blocks_f64(&self) -> f64 {
        self.blocks() as f64
    }

    /// What a block takes by plain calls when nobody disturbs.
    fn quickest(&self) -> BenchResult<f64> {
        let part = Self { bytes: self.bytes.min(64 << 20), ..*self };
        let times = (0..20).map(|_| part.seconds_per_block(&mut Plain::default(), &mut || ()));
        Ok(times.collect::<BenchResult<Vec<f64>>>()?.into_iter().fold(f64::INFINITY, f64::min))
    }

    /// Moves the whole file, one block after the other.
    fn seconds_per_block(&self, port: &mut dyn Port, meanwhile: &mut dyn FnMut()) -> BenchResult<f64> {
        let mut buffer = vec![b'e'; self.block];
        let start = Instant::now();
        for index in 0..self.blocks() {
            let (file, offset) = (Arc::clone(self.file), index * self.block as u64);
            port.submit(Transfer { file, direction: self.direction, offset, buffer })?;
            meanwhile();
            buffer = port.wait()?;
        }
        Ok(start.elapsed().as_secs_f64() / self.blocks_f64())
    }

    /// All of these with and without computation; what the service with cores apart loses, and what the limit does.
    fn pairs(
        &self,
        scale: &Scale,
        rounds: usize,
        length: Duration,
        ways: &[Way<'_>],
        sheet: &mut Sheet,
    ) -> [Loss; 2] {
        let is_limited = ways.iter().any(|(name, _)| *name == LIMIT);
        let alone = if is_limited { ", again" } else { "" };
        let mut turn = false;
        let contenders = ways.iter().map(|(name, make)| {
            Contender::new(*name, move || {
                let _first = (*name == APART || *name == LIMIT).then(Stay::on_first);
                let speed = |is_busy: bool| -> BenchResult<f64> {
                    let mut meanwhile = || {
                        if is_busy {
                            scale.work.run(length);
                        }
                    };
                    let seconds = self.seconds_per_block(&mut *make()?, &mut meanwhile)?;
                    #[expect(clippy::cast_precision_loss, reason = "a block is small")]
                    Ok(self.block as f64 / MIB / seconds)
                };
                // Now the one first, now the other.
                turn = !turn;
                let first = speed(turn)?;
                let second = speed(!turn)?;
                Ok(if turn { vec![second, first] } else { vec![first, second] })
            })
        });
        let outcomes = hold(Turns { rounds, ..scale.turns }, contenders.collect());
        sheet.note_left_out(&outcomes);
        let mut lost = [Loss::UNKNOWN; 2];
        for outcome in &outcomes {
            let Ok(values) = &outcome.values else { continue };
            let losses: Vec<f64> = values[0]
                .iter()
                .zip(&values[1])
                .map(|(without, with)| 100.0 * (1.0 - with / without))
                .collect();
            let (mean, half) = mean_and_interval(&losses);
            let median = quantile(&losses, 0.5);
            for (lost, name) in lost.iter_mut().zip([APART, LIMIT]) {
                if outcome.name == name {
                    *lost = Loss { mean, half, median };
                }
            }
            let kib = (self.block >> 10).to_string();
            let numbers =
                [quantile(&values[0], 0.5), quantile(&values[1], 0.5), mean, half, median].map(number);
            let words = [self.direction.name().to_owned(), kib.clone(), format!("{}{alone}", outcome.name)];
            sheet.push(words.into_iter().chain(numbers).collect());
            for (with, values) in ["without", "with"].iter().zip(values) {
                sheet.keep(
                    &format!("{} {kib} KiB, {with}", self.direction.name()),
                    &format!("{}{alone}", outcome.name),
                    values.clone(),
                );
            }
        }
        lost
    }
}
