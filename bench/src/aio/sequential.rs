//! Case 2 of the thesis: a file is read or written block by block, all submitted at once where that is possible (figures 4.3
//! and 4.4). Each block has memory of its own, for everybody.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use atta_aio::ServiceCounts;
use rustix::fs::Advice;

use super::place::Place;
use super::port::{
    Direction, Plain, Port, ProactorPort, ServicePort, ThenPort, Tokio, Transfer, by_threads, service,
    tokio_runtime,
};
use super::posix::PosixAio;
use super::raw_ring::RawRing;
use super::{BenchResult, Case, MIB, Scale};
use crate::sheet::{Goal, Sheet, number, quantile};
use crate::statistics::median_ratio;
use crate::turns::{Contender, Idle, Outcome, hold};

/// The goal: so much of the better of raw io_uring and threads.
const SHARE_LEAST: f64 = 0.95;
const THREADS: usize = 16;
const PLAIN: &str = "plain calls";
const RAW: &str = "raw io_uring";
const POOL: &str = "16 threads";
const SERVICE: &str = "service, futures";

/// Where a server answers, writes of this size at depth are to be so many times as quick as one after the other.
const SMALL: usize = 64 << 10;
const TIMES_LEAST: f64 = 2.0;

/// What the page cache holds, before each run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cache {
    Warm,
    Cold,
}

/// Memory for every block of the file: kept, so that nobody pays for fresh pages.
type Buffers = Mutex<Vec<Vec<u8>>>;

/// Runs the case in one place.
pub(crate) fn run(place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let bytes = match (place.is_remote(), place.in_memory()) {
        (true, _) => 32 << 20,
        (_, true) => scale.pick(1 << 30, 128 << 20),
        // Cold, it takes a disk seconds each time.
        _ => scale.pick(512 << 20, 128 << 20),
    };
    let file = place.file("sequential", bytes)?;
    let note = "MiB/s. All blocks are submitted before the first is waited for; plain calls move one after the other. \
                Every block has its own memory, used before. Cold: the file's pages are dropped before each run. Writes go \
                over what is there and are not made durable.";
    let mut sheet =
        Sheet::comparison(format!("Case 2: {} MiB in sequence, {}", bytes >> 20, place.kind), note);
    let (mut goals, mut submitted) = (Vec::new(), (0, 0));
    let mut blocks = scale.some(&[512 << 10, 1 << 20, 2 << 20, 4 << 20], &[512 << 10, 4 << 20]);
    if place.is_remote() {
        blocks.insert(0, SMALL);
    }
    for block in blocks {
        let count = usize::try_from(bytes / block as u64).map_err(|error| error.to_string())?;
        let buffers: Buffers = Mutex::new((0..count).map(|_| vec![b'd'; block]).collect());
        for (direction, cache) in
            [(Direction::Read, Cache::Warm), (Direction::Read, Cache::Cold), (Direction::Write, Cache::Warm)]
        {
            if cache == Cache::Cold && place.in_memory() {
                continue;
            }
            let cold = if cache == Cache::Cold { ", cold" } else { "" };
            let what = format!("{}{cold}, {} KiB", direction.name(), block >> 10);
            (case.log)(&format!("case 2: {what}"));
            let job = Job { file: &file, block, direction, cache, buffers: &buffers, bytes };
            let (outcomes, counts) = job.contest(scale)?;
            submitted = (submitted.0 + counts.submitted, submitted.1 + counts.woken);
            sheet.compare(std::slice::from_ref(&what), &outcomes, PLAIN);
            if (direction, block) == (Direction::Write, SMALL) {
                case.goals.extend(remote_goal(place, &outcomes));
            }
            if block == SMALL {
                continue;
            }
            goals.extend(goal(&outcomes).map(|(share, who)| (share, format!("{what} against {who}"))));
        }
    }
    if let Some((share, what)) = goals.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)) {
        case.goals.push(Goal {
            goal: format!(
                "case 2, {}: service >= 0.95 of the better of raw io_uring and threads",
                place.kind
            ),
            measured: format!("{} at least ({what})", number(share)),
            is_met: share >= SHARE_LEAST,
        });
    }
    sheet.remark(&format!(
        "Of {} submissions to the service on the ring, {} had to wake its progress thread.",
        submitted.0, submitted.1
    ));
    case.sheets.push(sheet);
    Ok(())
}

/// The service's throughput by round over that of the better of the two.
fn goal(outcomes: &[Outcome]) -> Option<(f64, String)> {
    let of =
        |name: &str| Some(outcomes.iter().find(|run| run.name == name)?.values.as_ref().ok()?[0].as_slice());
    let service = of(SERVICE)?;
    let shares =
        [RAW, POOL].into_iter().filter_map(|name| Some((median_ratio(service, of(name)?), name.to_owned())));
    shares.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The service's writes of small blocks over plain calls, and the upper bound that the cores permit.
fn remote_goal(place: &Place, outcomes: &[Outcome]) -> Option<Goal> {
    let of = |name: &str| outcomes.iter().find(|run| run.name == name)?.values.as_ref().ok();
    let (service, plain) = (of(SERVICE)?, of(PLAIN)?);
    let times = median_ratio(&service[0], &plain[0]);
    let idle = quantile(&plain[1], 0.5);
    Some(Goal {
        goal: format!("{}: service >= 2 times plain calls, writes of 64 KiB", place.kind),
        measured: format!(
            "{} times; plain calls leave {} of the cores idle, which allows {} times",
            number(times),
            number(idle),
            number(1.0 / (1.0 - idle))
        ),
        is_met: times >= TIMES_LEAST,
    })
}

struct Job<'run> {
    file: &'run Arc<File>,
    block: usize,
    direction: Direction,
    cache: Cache,
    buffers: &'run Buffers,
    bytes: u64,
}

impl Job<'_> {
    fn contest(&self, scale: &Scale) -> BenchResult<(Vec<Outcome>, ServiceCounts)> {
        let (on_ring, on_threads) = (service(None, |_| {})?, service(Some(THREADS), |_| {})?);
        let runtime = tokio_runtime()?;
        let contenders = vec![
            Contender::new(PLAIN, || {
                let idle = Idle::start();
                let mut speed = self.speed(Ok(Plain::default()))?;
                speed.push(idle.share());
                Ok(speed)
            }),
            Contender::new(POOL, || self.by_threads()),
            Contender::new(RAW, || self.speed(RawRing::new(64, false))),
            Contender::new(SERVICE, || self.speed(Ok(ServicePort::futures(&on_ring)))),
            Contender::new("service, continuations", || self.speed(Ok(ThenPort::new(&on_ring, false)))),
            Contender::new("service on 16 threads", || self.speed(Ok(ServicePort::futures(&on_threads)))),
            Contender::new("proactor", || self.speed(ProactorPort::new(false))),
            Contender::new("POSIX aio", || self.speed(Ok(PosixAio::default()))),
            Contender::new("tokio", || self.speed(Ok(Tokio::new(&runtime)))),
        ];
        let outcomes = hold(scale.turns, contenders);
        Ok((outcomes, on_ring.counts()))
    }

    fn transfers(&self) -> BenchResult<Vec<Transfer>> {
        if self.cache == Cache::Cold {
            // What is not written back stays.
            self.file.sync_data().map_err(|error| format!("syncing: {error}"))?;
            let dropped = rustix::fs::fadvise(self.file, 0, None, Advice::DontNeed);
            dropped.map_err(|error| format!("dropping pages: {error}"))?;
        }
        let buffers = std::mem::take(&mut *self.buffers.lock().unwrap_or_else(PoisonError::into_inner));
        let transfer = |(index, buffer): (usize, Vec<u8>)| {
            let offset = index as u64 * self.block as u64;
            Transfer { file: Arc::clone(self.file), direction: self.direction, offset, buffer }
        };
        Ok(buffers.into_iter().enumerate().map(transfer).collect())
    }

    fn give_back(&self, buffer: Vec<u8>) {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }

    #[expect(clippy::cast_precision_loss, reason = "a file of a GiB")]
    fn mib_per_second(&self, start: Instant) -> Vec<f64> {
        vec![self.bytes as f64 / MIB / start.elapsed().as_secs_f64()]
    }

    fn speed(&self, port: BenchResult<impl Port>) -> BenchResult<Vec<f64>> {
        let (mut port, transfers) = (port?, self.transfers()?);
        let (start, count) = (Instant::now(), transfers.len());
        for transfer in transfers {
            port.submit(transfer)?;
        }
        for _ in 0..count {
            self.give_back(port.wait()?);
        }
        Ok(self.mib_per_second(start))
    }

    /// Threads that each take the next block and move it.
    fn by_threads(&self) -> BenchResult<Vec<f64>> {
        let transfers: Vec<_> =
            self.transfers()?.into_iter().map(|transfer| Mutex::new(Some(transfer))).collect();
        let start = Instant::now();
        by_threads(THREADS, &transfers, |buffer| self.give_back(buffer))?;
        Ok(self.mib_per_second(start))
    }
}
