//! Random sequences of operations, from seeds, against a model of files: on the simulated driver with all faults, and on the
//! real drivers. `ATTA_AIO_SEED=NUMBER` repeats the sequences of one seed.

#![expect(unsafe_code, reason = "structures of the C library")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "parts of a test")]
#![expect(unreachable_pub, reason = "modules of a test")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use atta_aio::driver::Driver;
use atta_aio::driver::ring::{Ring, RingOptions};
use atta_aio::driver::simulated::{Fault, FaultKind, Simulated, SimulatedOptions};
use atta_aio::driver::threads::Threads;
use atta_aio::{At, Buffer, Limits, Op, Place, Proactor};
use atta_entry::Errno;
use atta_testkit::random::{Random, asked};
use atta_testkit::scratch::Scratch;

use crate::acts::listed;
use crate::bench::{Plan, Run, Trace, Watched, one};

mod acts;
mod bench;
mod long;
mod model;
mod positions;

/// Calls `body` with each seed, or with the requested one, and prints how to repeat one that fails.
fn seeds(test: &str, seeds: Range<u64>, body: impl Fn(u64)) {
    let asked = asked("ATTA_AIO_SEED");
    for seed in asked.map_or(seeds, |seed| seed..seed + 1) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(seed))) {
            eprintln!("repeat: ATTA_AIO_SEED={seed} cargo test -p atta-aio --test oracle {test}");
            resume_unwind(panic);
        }
    }
}

/// A plan with limits.
fn plan(seed: u64, sites: usize, acts: usize) -> Plan {
    let mut random = Random::new(seed ^ 0xfeed);
    let limits = Limits {
        running: random.chance(50).then(|| 1 + random.index(4)),
        waiting: random.chance(50).then(|| 1 + random.index(4)),
        grace: Some(Duration::from_millis(5)),
    };
    Plan {
        seed,
        sites,
        acts,
        cancelled: *random.pick(&[0, 0, 5, 20]),
        late: *random.pick(&[0, 0, 10, 50]),
        limits,
        injected: vec![libc::ECANCELED, libc::ETIMEDOUT],
        may_be_short: false,
        extended: true,
    }
}

/// Faults of all kinds, or none.
fn faults(random: &mut Random) -> Vec<Fault> {
    let troubles = [
        FaultKind::Fails(Errno::IO),
        FaultKind::FailsAfter(Errno::IO),
        FaultKind::Fails(Errno(libc::ENOSPC)),
        FaultKind::Hangs,
        FaultKind::HangsForGood,
    ];
    let mut fault = |kind| Fault { names: Vec::new(), per_mille: *random.pick(&[0, 0, 10, 50]), kind };
    troubles.into_iter().map(&mut fault).collect()
}

fn troubled(seed: u64, faults: Vec<Fault>, is_short: bool) -> SimulatedOptions {
    let short_per_mille = if is_short { 300 } else { 0 };
    SimulatedOptions { seed, faults, short_per_mille, ..SimulatedOptions::default() }
}

/// One sequence on the simulated driver.
fn simulate(seed: u64, sites: usize, acts: usize) -> Trace {
    let mut random = Random::new(seed);
    let mut plan = plan(seed, sites, acts);
    plan.injected.extend([libc::EIO, libc::ENOSPC]);
    plan.may_be_short = random.chance(50);
    let mut driver = Simulated::new(SimulatedOptions::default());
    for number in 0..sites {
        driver.mount(&format!("site{number}")).unwrap();
    }
    driver.set_options(troubled(seed, faults(&mut random), plan.may_be_short));
    let mut run = Run::new(driver, "", &plan, true);
    run.finish();
    run.proactor.driver_mut().driver.heal();
    // The driver keeps operations that hang for good, and they occupy running slots.
    let hung = run.proactor.driver().driver.running();
    if plan.limits.running.is_none_or(|most| hung < most) {
        run.check(tree);
        assert_eq!(run.proactor.driver().driver.open_descriptors(), 0);
    }
    assert_eq!(run.proactor.pending(), 0);
    run.trace
}

/// All names below a directory with their content, by operations.
fn tree<D: Driver>(proactor: &mut Proactor<Watched<D>, u64>, base: &str) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut left = vec![String::new()];
    while let Some(directory) = left.pop() {
        for name in list(proactor, &format!("{base}{directory}")) {
            let path = format!("{directory}/{name}");
            lines.push((path.clone(), describe(proactor, &format!("{base}{path}"))));
            left.push(path);
        }
    }
    lines.sort();
    lines
}

fn place(path: &str) -> Place {
    Place::path(std::ffi::CString::new(path).unwrap())
}

fn open<D: Driver>(proactor: &mut Proactor<Watched<D>, u64>, path: &str, flags: i32) -> Result<i32, Errno> {
    let flags = flags | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    let (outcome, _) = one(proactor, Op::Open { place: place(path), flags, mode: 0 }).into_parts();
    outcome.map(|fd| fd as i32)
}

/// The names in a directory; none if it is not a directory.
fn list<D: Driver>(proactor: &mut Proactor<Watched<D>, u64>, path: &str) -> Vec<String> {
    let Ok(fd) = open(proactor, path, libc::O_DIRECTORY) else { return Vec::new() };
    let mut names = Vec::new();
    loop {
        // A small buffer, so that several reads are needed.
        let op = Op::ReadDirectory { fd: atta_aio::Fd::Raw(fd), buffer: Buffer::zeroed(80) };
        let (outcome, buffer) = one(proactor, op).into_buffer();
        match outcome.unwrap() as usize {
            0 => break,
            bytes => names.extend(listed(&buffer.as_slice()[..bytes])),
        }
    }
    assert_eq!(one(proactor, Op::Close { fd }).outcome(), Ok(0));
    names
}

fn describe<D: Driver>(proactor: &mut Proactor<Watched<D>, u64>, path: &str) -> String {
    let link = Op::ReadLink { place: place(path), buffer: Buffer::zeroed(100) };
    let (outcome, buffer) = one(proactor, link).into_buffer();
    if let Ok(bytes) = outcome {
        let target = String::from_utf8(buffer.as_slice()[..bytes as usize].to_vec()).unwrap();
        return format!("Link({target:?})");
    }
    if let Ok(fd) = open(proactor, path, libc::O_DIRECTORY) {
        assert_eq!(one(proactor, Op::Close { fd }).outcome(), Ok(0));
        return "Directory".to_owned();
    }
    let fd = open(proactor, path, libc::O_RDONLY).unwrap();
    let read = Op::Read { fd: atta_aio::Fd::Raw(fd), buffer: Buffer::zeroed(1 << 16), at: At::Offset(0) };
    let (outcome, buffer) = one(proactor, read).into_buffer();
    assert_eq!(one(proactor, Op::Close { fd }).outcome(), Ok(0));
    format!("File({:?})", &buffer.as_slice()[..outcome.unwrap() as usize])
}

#[test]
fn short_sequences_lead_where_the_model_says() {
    seeds("short_sequences_lead_where_the_model_says", 0..10_000, |seed| {
        simulate(seed, 1, 20);
    });
}

#[test]
fn independent_files_lead_where_the_model_says() {
    seeds("independent_files_lead_where_the_model_says", 100_000..101_000, |seed| {
        simulate(seed, 2 + seed as usize % 5, 40);
    });
}

#[test]
fn a_seed_gives_the_same_trace_each_time() {
    seeds("a_seed_gives_the_same_trace_each_time", 200_000..200_300, |seed| {
        let (one, other) = (simulate(seed, 3, 30), simulate(seed, 3, 30));
        assert!(one.len() >= 90 && one == other);
    });
}

/// Sequences on a real driver, below a directory that it removes.
fn realise(make: fn() -> Option<Box<dyn Driver>>, test: &str, range: Range<u64>) {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    seeds(test, range, |seed| {
        let Some(driver) = make() else { return };
        let scratch = Scratch::new("aio-oracle").unwrap();
        let sites = 1 + seed as usize % 4;
        let mut plan = plan(seed, sites, 25);
        // Wait for a thread in a system call: the model could not include later effects.
        plan.limits.grace = None;
        plan.extended = has_attributes(&scratch);
        let base = scratch.path().to_str().unwrap().to_owned();
        for number in 0..sites {
            rustix::fs::mkdir(format!("{base}/site{number}"), rustix::fs::Mode::RWXU).unwrap();
        }
        let mut run = Run::new(driver, &base, &plan, false);
        run.finish();
        run.check(tree);
    });
}

fn has_attributes(scratch: &Scratch) -> bool {
    rustix::fs::setxattr(scratch.path(), "user.atta", b"", rustix::fs::XattrFlags::empty()).is_ok()
}

fn ring() -> Option<Box<dyn Driver>> {
    match Ring::new(&RingOptions { depth: 8, threads: 2, ..RingOptions::default() }) {
        Ok(ring) => Some(Box::new(ring)),
        Err(error) => {
            atta_testkit::skip::skipped("sequences_on_the_ring", &format!("no ring: {error}"));
            None
        }
    }
}

#[test]
fn sequences_on_threads_lead_where_the_model_says() {
    let make = || Some(Box::new(Threads::new(3)) as Box<dyn Driver>);
    realise(make, "sequences_on_threads_lead_where_the_model_says", 300_000..300_200);
}

#[test]
fn sequences_on_the_ring_lead_where_the_model_says() {
    realise(ring, "sequences_on_the_ring_lead_where_the_model_says", 400_000..400_300);
}
