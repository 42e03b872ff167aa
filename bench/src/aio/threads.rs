//! Case 1 of the thesis: threads that read and write random blocks of 512 KiB, each waiting for its own transfer before the
//! next. The data rate of each thread is reported for reads and for writes (figures 4.1 and 4.2).

use std::fs::File;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use super::place::Place;
use super::port::{
    Direction, Plain, Port, ProactorPort, ServicePort, ThenPort, Tokio, Transfer, service, tokio_runtime,
};
use super::posix::PosixAio;
use super::raw_ring::RawRing;
use super::{BenchResult, Case, MIB, Scale};
use crate::sheet::Sheet;
use crate::turns::{Contender, hold};

const BLOCK: usize = 512 << 10;
const FILES: usize = 4;
const PLAIN: &str = "plain calls";

/// Runs the case in one place.
pub(crate) fn run(place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let bytes = scale.pick(128 << 20, 32 << 20);
    let files: Vec<Arc<File>> = (0..FILES)
        .map(|number| place.file(&format!("random-{number}"), bytes))
        .collect::<BenchResult<_>>()?;
    let note = "MiB/s that one thread sees while it reads or writes: bytes over the time in its own transfers. Warm page \
                cache; each operation is a read or a write with the same chance. Continuations: as the thesis's program, \
                each result comes by a continuation.";
    let mut sheet = Sheet::comparison(format!("Case 1: random blocks of 512 KiB, {}", place.kind), note);
    for threads in scale.some(&[1_usize, 2, 4, 8, 16], &[1, 4]) {
        (case.log)(&format!("case 1: {threads} threads"));
        let job = Job { files: &files, blocks: bytes / BLOCK as u64, threads, scale };
        let what = [format!("read, {threads} threads"), format!("write, {threads} threads")];
        sheet.compare(&what, &job.contest()?, PLAIN);
    }
    case.sheets.push(sheet);
    Ok(())
}

struct Job<'run> {
    files: &'run [Arc<File>],
    blocks: u64,
    threads: usize,
    scale: &'run Scale,
}

impl Job<'_> {
    fn contest(&self) -> BenchResult<Vec<crate::turns::Outcome>> {
        let (on_ring, on_threads) = (service(None, |_| {})?, service(Some(16), |_| {})?);
        let runtime = tokio_runtime()?;
        let contenders = vec![
            Contender::new(PLAIN, || self.speeds(|| Ok(Plain::default()))),
            Contender::new("service, future", || self.speeds(|| Ok(ServicePort::futures(&on_ring)))),
            Contender::new("service, wait", || self.speeds(|| Ok(ServicePort::helping(&on_ring)))),
            Contender::new("service, continuation", || self.speeds(|| Ok(ThenPort::new(&on_ring, false)))),
            Contender::new("service on 16 threads", || self.speeds(|| Ok(ServicePort::futures(&on_threads)))),
            Contender::new("proactor of each thread", || self.speeds(|| ProactorPort::new(false))),
            Contender::new("raw io_uring of each", || self.speeds(|| RawRing::new(4, false))),
            Contender::new("POSIX aio", || self.speeds(|| Ok(PosixAio::default()))),
            Contender::new("tokio", || self.speeds(|| Ok(Tokio::new(&runtime)))),
        ];
        Ok(hold(self.scale.turns, contenders))
    }

    /// MiB/s of one thread, reading and writing.
    fn speeds<P: Port>(&self, make: impl Fn() -> BenchResult<P> + Sync) -> BenchResult<Vec<f64>> {
        let barrier = Barrier::new(self.threads);
        let (barrier, make) = (&barrier, &make);
        let mut sums = [(0.0, 0.0); 2];
        std::thread::scope(|scope| {
            let work = |thread| scope.spawn(move || self.transfers(thread, make, barrier));
            let started: Vec<_> = (0..self.threads).map(work).collect();
            for thread in started {
                let times = thread.join().map_err(|_| "a thread panicked".to_owned())??;
                for (sum, (count, seconds)) in sums.iter_mut().zip(times) {
                    *sum = (sum.0 + count, sum.1 + seconds);
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "a block is small")]
            Ok(sums.iter().map(|(count, seconds)| count * BLOCK as f64 / MIB / seconds).collect())
        })
    }

    /// Counts and seconds of one thread's reads and writes.
    fn transfers<P: Port>(
        &self,
        thread: usize,
        make: impl Fn() -> BenchResult<P>,
        barrier: &Barrier,
    ) -> BenchResult<[(f64, f64); 2]> {
        let port = make();
        let mut buffer = vec![b'c'; BLOCK];
        barrier.wait();
        let mut port = port?;
        let mut sums = [(0.0, 0.0); 2];
        // The same choices for everybody: a generator of pseudo-random numbers (Knuth's MMIX).
        let mut state = thread as u64 + 1;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..self.scale.pick_usize(512, 128) / self.threads.min(8) {
            let file = Arc::clone(&self.files[usize::try_from(random(FILES as u64)).unwrap_or(0)]);
            let (which, offset) = (usize::from(random(2) == 1), random(self.blocks) * BLOCK as u64);
            let transfer = Transfer { file, direction: Direction::BOTH[which], offset, buffer };
            let start = Instant::now();
            port.submit(transfer)?;
            buffer = port.wait()?;
            sums[which] = (sums[which].0 + 1.0, sums[which].1 + start.elapsed().as_secs_f64());
        }
        Ok(sums)
    }
}
