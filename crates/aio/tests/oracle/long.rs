//! A day's worth of operations: neither descriptors nor memory grow. It is too slow for every run, and runs alone in its
//! process, since only ignored tests run then. Other tests compare the outcomes.

use std::time::{Duration, Instant};

use atta_aio::driver::Driver;
use atta_aio::driver::simulated::{Simulated, SimulatedOptions};
use atta_aio::{Done, Limits, Proactor, Terms};
use atta_testkit::random::Random;
use atta_testkit::scratch::Scratch;

use crate::acts::{SLOTS, Site, draw};
use crate::bench::{Watched, one};
use crate::model::Act;
use crate::{faults, ring, troubled};

/// The number of operations on each driver.
const OPERATIONS: u64 = 10_000_000;
/// The permitted growth of memory after the first tenth: less than half a byte per operation.
const GROWTH_MOST: u64 = 4 << 20;

/// The memory of this process in bytes.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn descriptors() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the kernel's list of this process")]
    let list = std::fs::read_dir("/proc/self/fd");
    list.unwrap().count()
}

/// Random acts at a site, with high concurrency; some are cancelled or late.
struct Load<D: Driver> {
    proactor: Proactor<Watched<D>, u64>,
    site: Site,
    random: Random,
    /// Pending opens, by number, with their slots.
    opens: Vec<(u64, usize)>,
    next: u64,
}

impl<D: Driver> Load<D> {
    fn new(driver: D, base: &str, limits: Limits) -> Self {
        let site = Site { base: base.to_owned(), open: [None; SLOTS] };
        let proactor = Proactor::new(Watched::new(driver, &limits), limits);
        Self { proactor, site, random: Random::new(7), opens: Vec::new(), next: 0 }
    }

    fn submit(&mut self) {
        let act = draw(&mut self.random, true);
        // Directories that are moved into each other would become unreachable, and accumulate.
        if matches!(&act, Act::Rename { from, to, .. } if from.contains('/') != to.contains('/')) {
            return;
        }
        let op = self.site.op(&act);
        match act {
            // A slot is opened by one open at a time, and its close is final: its number may soon name another file.
            Act::Open { slot, .. } => {
                if self.site.open[slot].is_some() || self.opens.iter().any(|(_, open)| *open == slot) {
                    return;
                }
                self.opens.push((self.next, slot));
            }
            Act::Close { slot } => {
                let Some(fd) = self.site.open[slot].take() else { return };
                // All operations that use the number must end first.
                self.drain(0);
                assert_eq!(one(&mut self.proactor, atta_aio::Op::Close { fd }).outcome(), Ok(0));
                return;
            }
            _ => {}
        }
        let within = Duration::from_micros(self.random.below(300));
        let deadline = self.random.chance(5).then(|| self.proactor.driver().now() + within);
        let handle = self.proactor.submit(op.into(), Terms { deadline, position: None }, self.next).unwrap();
        self.next += 1;
        if self.random.chance(5) {
            self.proactor.cancel(handle);
        }
    }

    fn advance(&mut self, at_most: Option<Duration>) {
        let (opens, site) = (&mut self.opens, &mut self.site);
        self.proactor.advance(at_most, |number, done| record_end(opens, site, number, done));
    }

    /// Makes progress until `left` operations are pending; hanging ones are cancelled.
    fn drain(&mut self, left: usize) {
        let mut rounds = 0;
        while self.proactor.pending() > left {
            rounds += 1;
            if rounds > 1000 {
                self.proactor.cancel_all();
            }
            self.advance(Some(Duration::from_millis(1)));
        }
    }

    /// Runs this many operations, and checks that nothing is left open.
    fn run(&mut self, operations: u64) {
        let until = self.next + operations;
        while self.next < until {
            for _ in 0..16 {
                self.submit();
            }
            // More than run at a time, so that some wait.
            self.drain(100);
        }
        self.drain(0);
        for fd in self.site.open.iter_mut().filter_map(Option::take) {
            assert_eq!(one(&mut self.proactor, atta_aio::Op::Close { fd }).outcome(), Ok(0));
        }
        assert_eq!((self.proactor.pending(), self.opens.len()), (0, 0));
    }
}

fn record_end(opens: &mut Vec<(u64, usize)>, site: &mut Site, number: u64, done: Done) {
    let Some(at) = opens.iter().position(|(open, _)| *open == number) else { return };
    let (_, slot) = opens.swap_remove(at);
    if let (Ok(fd), _) = done.into_parts() {
        site.open[slot] = Some(fd as i32);
    }
}

/// Runs a tenth, then the rest, and compares.
fn compare<D: Driver>(name: &str, load: &mut Load<D>) {
    let started = Instant::now();
    load.run(OPERATIONS / 10);
    let (memory_before, descriptors_before) = (memory(), descriptors());
    load.run(OPERATIONS - OPERATIONS / 10);
    let grown = memory().saturating_sub(memory_before);
    eprintln!("{name}: {OPERATIONS} operations, {grown} bytes more after {:?}", started.elapsed());
    assert_eq!(descriptors(), descriptors_before, "{name}");
    assert!(grown <= GROWTH_MOST, "{name}: {grown} bytes more");
}

#[test]
#[ignore = "10^7 operations on each driver"]
fn ten_million_operations_leave_nothing_behind() {
    let limits = Limits { grace: Some(Duration::from_millis(5)), ..Limits::default() };
    let mut driver = Simulated::new(SimulatedOptions::default());
    driver.mount("site").unwrap();
    let mut faults = faults(&mut Random::new(3));
    // An operation that hangs for good would stay, and a close that fails still closes the descriptor.
    faults.retain(|fault| fault.kind != atta_aio::driver::simulated::FaultKind::HangsForGood);
    faults.iter_mut().for_each(|fault| {
        fault.names = vec!["read", "write", "readv", "writev", "rename", "stat", "fsync", "mkdir", "open"];
        fault.per_mille = 5;
    });
    driver.set_options(troubled(9, faults, true));
    let mut load = Load::new(driver, "/site", limits);
    compare("simulated", &mut load);
    assert_eq!(load.proactor.driver().driver.open_descriptors(), 0);
    drop(load);
    let Some(driver) = ring() else { return };
    let scratch = Scratch::below(std::path::Path::new("/dev/shm"), "aio-long").unwrap();
    compare(
        "ring",
        &mut Load::new(driver, scratch.path().to_str().unwrap(), Limits { grace: None, ..limits }),
    );
}
