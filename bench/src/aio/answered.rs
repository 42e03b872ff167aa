//! Writes that a server has answered: small blocks to some files with `O_DSYNC`, where a plain call waits for the server each
//! time. What is only handed to the client of a file system is measured in `sequential.rs`.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::place::Place;
use super::port::{Direction, Plain, Port, ServicePort, Transfer, by_threads, service};
use super::raw_ring::RawRing;
use super::{BenchResult, Case, MIB, Scale};
use crate::sheet::{Goal, Sheet, number};
use crate::statistics::median_ratio;
use crate::turns::{Contender, hold};

const BLOCK: usize = 64 << 10;
/// Files: writes to one take turns at its lock.
const FILES: usize = 16;
const THREADS: usize = 16;
const DEPTH: u32 = 64;
const WRITES: usize = 1024;
/// The goal, against plain calls one after the other.
const TIMES_LEAST: f64 = 2.0;
const PLAIN: &str = "plain calls";
const SERVICE: &str = "service, futures";

/// Runs the case in one place.
pub(crate) fn run(place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    (case.log)("writes that the server has answered");
    let files = (0..FILES).map(|file| {
        let name = format!("answered-{file}");
        place.file(&name, (BLOCK * WRITES.div_ceil(FILES)) as u64)?;
        let open = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open(place.root().join(&name));
        open.map(Arc::new).map_err(|error| format!("opening {name}: {error}"))
    });
    let job = Job { files: files.collect::<BenchResult<_>>()? };
    let on_ring = service(None, |options| options.limits.running = Some(DEPTH as usize))?;
    let on_threads = service(Some(THREADS), |_| {})?;
    let contenders = vec![
        Contender::new(PLAIN, || job.speed(Plain::default())),
        Contender::new("16 threads", || job.by_threads()),
        Contender::new("raw io_uring, depth 64", || job.speed(RawRing::new(DEPTH, false)?)),
        Contender::new(SERVICE, || job.speed(ServicePort::futures(&on_ring))),
        Contender::new("service on 16 threads", || job.speed(ServicePort::futures(&on_threads))),
    ];
    let outcomes = hold(scale.turns, contenders);
    let note = format!(
        "MiB/s: {WRITES} writes of 64 KiB with O_DSYNC to {FILES} files, at most {DEPTH} at a time; plain calls one after the \
         other."
    );
    let mut sheet = Sheet::comparison(format!("Writes that the server has answered, {}", place.kind), &note);
    sheet.compare(&["write, 64 KiB".to_owned()], &outcomes, PLAIN);
    case.sheets.push(sheet);
    let of =
        |name: &str| Some(outcomes.iter().find(|run| run.name == name)?.values.as_ref().ok()?[0].as_slice());
    if let (Some(service), Some(plain)) = (of(SERVICE), of(PLAIN)) {
        let times = median_ratio(service, plain);
        case.goals.push(Goal {
            goal: format!("{}: service >= 2 times plain calls, answered writes of 64 KiB", place.kind),
            measured: format!("{} times", number(times)),
            is_met: times >= TIMES_LEAST,
        });
    }
    Ok(())
}

struct Job {
    files: Vec<Arc<File>>,
}

impl Job {
    fn transfers(&self) -> impl Iterator<Item = Transfer> {
        (0..WRITES).map(|index| Transfer {
            file: Arc::clone(&self.files[index % FILES]),
            direction: Direction::Write,
            offset: (index / FILES * BLOCK) as u64,
            buffer: vec![b'w'; BLOCK],
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "some MiB")]
    fn mib_per_second(&self, start: Instant) -> Vec<f64> {
        vec![(WRITES * BLOCK) as f64 / MIB / start.elapsed().as_secs_f64()]
    }

    fn speed(&self, mut port: impl Port) -> BenchResult<Vec<f64>> {
        let transfers: Vec<_> = self.transfers().collect();
        let start = Instant::now();
        transfers.into_iter().try_for_each(|transfer| port.submit(transfer))?;
        (0..WRITES).try_for_each(|_| port.wait().map(drop))?;
        Ok(self.mib_per_second(start))
    }

    /// Threads that each take the next block and write it.
    fn by_threads(&self) -> BenchResult<Vec<f64>> {
        let transfers: Vec<_> = self.transfers().map(|transfer| Mutex::new(Some(transfer))).collect();
        let start = Instant::now();
        by_threads(THREADS, &transfers, drop)?;
        Ok(self.mib_per_second(start))
    }
}
