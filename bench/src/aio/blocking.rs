//! How long a submission blocks the caller (figures 4.10 and 4.11 of the thesis): by block size and by number of threads.
//!
//! Each thread submits bursts of a few transfers, each submission timed by itself, and then waits for the burst. Making the
//! operation is part of the time, making its buffer is not. For plain calls the "submission" is the whole transfer.

use std::fs::File;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use atta_aio::{Options, Service};

use super::place::Place;
use super::port::{
    Direction, Plain, Port, ProactorPort, ServicePort, ThenPort, Tokio, Transfer, service, tokio_runtime,
};
use super::posix::PosixAio;
use super::raw_ring::RawRing;
use super::spinning::Spinning;
use super::{BenchResult, Case, Scale};
use crate::sheet::{Goal, Sheet, mean_and_interval, number, quantile};
use crate::turns::{Contender, hold};

const KIB: usize = 1 << 10;
const BLOCKS: [usize; 6] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB];
const THREADS: [usize; 4] = [1, 2, 4, 8];
const BURST: usize = 4;
/// The goals of the project, in ns.
const MEDIAN_MOST: f64 = 300.0;
const P99_MOST: f64 = 1000.0;

type MakePort<'run> = Box<dyn Fn(Option<&Arc<Service>>) -> BenchResult<Box<dyn Port>> + Sync + 'run>;

/// Somebody who submits.
struct Submitter<'run> {
    name: &'static str,
    /// For how long the progress thread of a service looks around before it sleeps; none: there is no service. Each round has
    /// a service of its own, so that none looks around while others are measured.
    spin: Option<Duration>,
    make: MakePort<'run>,
}

/// Runs the case in one place.
pub(crate) fn run(place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let note = "Times of single submissions in ns; the clock's own cost is in them. `awake`: the progress thread never \
                sleeps; else it sleeps after at most 100 us without work. `woken`: wake-ups (one system call each) for 1000 \
                submissions. `later`: without the first of each burst of 4, which follows a sleep of the caller. Others than the service and plain calls only from one thread.";
    let heads = [
        "what",
        "block KiB",
        "threads",
        "who",
        "median ns",
        "mean ns",
        "p99 ns",
        "p99 by round",
        "p99, later",
        "max ns",
        "woken",
    ];
    let mut sheet = Sheet::new(format!("Blocking time per submission, {}", place.kind), note, 4, &heads);
    let file_bytes = scale.pick(128 << 20, 32 << 20);
    let file = place.file("blocking", file_bytes)?;
    let mut worst = Worst::default();
    let mut curves = Vec::new();
    for direction in Direction::BOTH {
        for block in scale.some(&BLOCKS, &[4 * KIB, 64 * KIB, 1024 * KIB]) {
            for threads in scale.some(&THREADS, &[1, 2]) {
                (case.log)(&format!("blocking: {} {} KiB, {threads} threads", direction.name(), block / KIB));
                let job = Job { file: &file, file_bytes, direction, block, threads, scale };
                job.contest(&mut sheet, &mut worst, &mut curves)?;
            }
        }
    }
    case.goals.push(Goal {
        goal: format!("submission, {}: median <= 300 ns, p99 <= 1000 ns, progress thread awake", place.kind),
        measured: format!(
            "median {} ns (the highest of all sizes and threads); p99: median by round {} ns, of all rounds {} ns; from one \
             thread {} ns by round, where a channel takes {} ns",
            number(worst.median), number(worst.p99_by_round), number(worst.p99), number(worst.p99_alone), number(worst.p99_channel)
        ),
        is_met: worst.median <= MEDIAN_MOST && worst.p99 <= P99_MOST,
    });
    case.figures.extend(super::figures::blocking(&place.kind, &curves));
    case.sheets.push(sheet);
    Ok(())
}

/// The highest of all settings, in ns.
#[derive(Default)]
struct Worst {
    median: f64,
    /// Over all submissions of a setting.
    p99: f64,
    /// The median of the rounds' 99th percentiles.
    p99_by_round: f64,
    /// The same, from one thread.
    p99_alone: f64,
    /// The same of a channel.
    p99_channel: f64,
}

/// One setting.
struct Job<'run> {
    file: &'run Arc<File>,
    file_bytes: u64,
    direction: Direction,
    block: usize,
    threads: usize,
    scale: &'run Scale,
}

impl Job<'_> {
    fn contest(
        &self,
        sheet: &mut Sheet,
        worst: &mut Worst,
        curves: &mut Vec<(Direction, &'static str, f64, f64)>,
    ) -> BenchResult<()> {
        let submitters = submitters(self.threads)?;
        let contenders = submitters.iter().map(|submitter| {
            Contender::new(submitter.name, || {
                let service =
                    submitter.spin.map(|spin| service(None, |options| options.spin = spin)).transpose()?;
                let mut times = self.times(&|| (submitter.make)(service.as_ref()))?;
                let woken = service.map_or(0, |service| service.counts().woken);
                #[expect(clippy::cast_precision_loss, reason = "a count of a short run")]
                times.insert(0, woken as f64);
                Ok(times)
            })
        });
        let outcomes = hold(self.scale.turns, contenders.collect());
        sheet.note_left_out(&outcomes);
        for outcome in &outcomes {
            let Ok(values) = &outcome.values else { continue };
            // By round first: the wake-ups; then one list for each submission of a round.
            let times: Vec<f64> = values[1..].iter().flatten().copied().collect();
            let by_round = |part| -> Vec<f64> {
                let of = |round| values[1..].iter().map(|list| list[round]).collect::<Vec<_>>();
                (0..values[0].len()).map(|round| quantile(&of(round), part)).collect()
            };
            let (medians, p99s) = (by_round(0.5), by_round(0.99));
            // The first of a burst follows a sleep and transfers that emptied the caches.
            let later = values[1..].iter().enumerate().filter(|(index, _)| index % BURST != 0);
            let later: Vec<f64> = later.flat_map(|(_, list)| list).copied().collect();
            let p99_later = quantile(&later, 0.99);
            let (median, p99, p99_by_round) =
                (quantile(&times, 0.5), quantile(&times, 0.99), quantile(&p99s, 0.5));
            if outcome.name == AWAKE {
                worst.median = worst.median.max(median);
                worst.p99 = worst.p99.max(p99);
                worst.p99_by_round = worst.p99_by_round.max(p99_by_round);
                if self.threads == 1 {
                    worst.p99_alone = worst.p99_alone.max(p99_by_round);
                }
            }
            if outcome.name == CHANNEL {
                worst.p99_channel = worst.p99_channel.max(p99_by_round);
            }
            #[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
            let (woken, kib) =
                (1000.0 * values[0].iter().sum::<f64>() / times.len() as f64, (self.block / KIB) as f64);
            if self.threads == 1
                && let Some(submitter) = submitters.iter().find(|s| s.name == outcome.name)
            {
                curves.push((self.direction, submitter.name, kib, median));
            }
            let who = &outcome.name;
            let what = format!("{} {} KiB, {} threads", self.direction.name(), kib, self.threads);
            let words =
                [self.direction.name().to_owned(), kib.to_string(), self.threads.to_string(), who.clone()];
            let mean = mean_and_interval(&times).0;
            let numbers = [median, mean, p99, p99_by_round, p99_later, quantile(&times, 1.0)].map(number);
            let woken = if who.starts_with("service") { number(woken) } else { "-".into() };
            sheet.push(words.into_iter().chain(numbers).chain([woken]).collect());
            sheet.keep(&format!("{what}, medians"), who, medians);
            sheet.keep(&format!("{what}, p99"), who, p99s);
        }
        Ok(())
    }

    /// The times of all submissions of one round, in ns.
    fn times(&self, make: &(dyn Fn() -> BenchResult<Box<dyn Port>> + Sync)) -> BenchResult<Vec<f64>> {
        let barrier = Barrier::new(self.threads);
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let barrier = &barrier;
                    scope.spawn(move || self.submit_bursts(thread, make, barrier))
                })
                .collect();
            let mut all = Vec::new();
            for thread in started {
                all.extend(thread.join().map_err(|_| "a thread panicked".to_owned())??);
            }
            Ok(all)
        })
    }

    fn submit_bursts(
        &self,
        thread: usize,
        make: &(dyn Fn() -> BenchResult<Box<dyn Port>> + Sync),
        barrier: &Barrier,
    ) -> BenchResult<Vec<f64>> {
        let port = make();
        barrier.wait();
        let mut port = port?;
        let bursts = self.scale.pick_usize(256 << 20, 64 << 20) / (self.block * BURST * self.threads);
        let bursts = bursts.clamp(4, self.scale.pick_usize(500, 150));
        let mut buffers: Vec<Vec<u8>> = (0..BURST).map(|_| vec![b'b'; self.block]).collect();
        let mut times = Vec::with_capacity(bursts * BURST);
        let blocks = self.file_bytes / self.block as u64;
        let mut next = thread as u64 * blocks / self.threads as u64;
        // The first burst is not counted: the thread's memory is fresh.
        for burst in 0..=bursts {
            for buffer in buffers.drain(..) {
                let file = Arc::clone(self.file);
                let offset = next % blocks * self.block as u64;
                next += 1;
                let transfer = Transfer { file, direction: self.direction, offset, buffer };
                let start = Instant::now();
                port.submit(transfer)?;
                let nanoseconds = start.elapsed().as_secs_f64() * 1e9;
                if burst > 0 {
                    times.push(nanoseconds);
                }
            }
            for _ in 0..BURST {
                buffers.push(port.wait()?);
            }
        }
        Ok(times)
    }
}

const AWAKE: &str = "service, awake";
/// The standard library's channel to a thread that does nothing but look into it: a simple way to hand over.
const CHANNEL: &str = "a channel to a thread that spins";

fn submitters<'run>(threads: usize) -> BenchResult<Vec<Submitter<'run>>> {
    let awake = Some(Duration::from_secs(3600));
    let mut all = vec![
        Submitter { name: AWAKE, spin: awake, make: by_service(ServicePort::futures) },
        Submitter {
            name: "service",
            spin: Some(Options::default().spin),
            make: by_service(ServicePort::futures),
        },
        Submitter { name: "plain calls", spin: None, make: Box::new(|_| Ok(Box::new(Plain::default()))) },
    ];
    if threads == 1 {
        let make = by_service(|service| ThenPort::new(service, false));
        all.push(Submitter { name: "continuations, awake", spin: awake, make });
        let runtime = tokio_runtime()?;
        let others: [(&'static str, MakePort<'run>); 5] = [
            (CHANNEL, Box::new(|_| Ok(Box::new(Spinning::new())))),
            ("proactor, handed over at once", Box::new(|_| Ok(Box::new(ProactorPort::new(true)?)))),
            ("raw io_uring, entered at once", Box::new(|_| Ok(Box::new(RawRing::new(64, true)?)))),
            ("POSIX aio", Box::new(|_| Ok(Box::new(PosixAio::default())))),
            ("tokio", Box::new(move |_| Ok(Box::new(Tokio::new(&runtime))))),
        ];
        all.extend(others.map(|(name, make)| Submitter { name, spin: None, make }));
    }
    Ok(all)
}

fn by_service<'run, P: Port + 'static>(make: impl Fn(&Arc<Service>) -> P + Sync + 'run) -> MakePort<'run> {
    Box::new(move |service| Ok(Box::new(make(service.ok_or("there is no service")?))))
}
