//! Positions in files: despite failures, deadlines and cancellations, reads get each byte once and in the order of submission,
//! and writes follow each other. The library keeps these positions; the simulated descriptors have their own.

use std::collections::HashMap;
use std::time::Duration;

use atta_aio::driver::Driver;
use atta_aio::driver::simulated::{Fault, FaultKind, Simulated, SimulatedOptions};
use atta_aio::{At, Buffer, Fd, Handle, Limits, Op, Proactor, Terms};
use atta_entry::Errno;
use atta_testkit::random::Random;

use crate::bench::{Watched, one};
use crate::{open, seeds};

const FILES: usize = 2;

/// A file that is read or written at a position.
struct File {
    fd: i32,
    position: u64,
    /// The content of the file, or the bytes written.
    bytes: Vec<u8>,
    /// The offset of the next read.
    next: usize,
    is_read: bool,
    /// The last operation that moved it.
    last: u64,
}

type Bench = Proactor<Watched<Simulated>, u64>;

fn troubles(random: &mut Random) -> Vec<Fault> {
    let all = [
        FaultKind::Fails(Errno::IO),
        FaultKind::FailsAfter(Errno::IO),
        FaultKind::Hangs,
        FaultKind::HangsForGood,
    ];
    let mut fault = |kind| Fault { names: Vec::new(), per_mille: *random.pick(&[0, 0, 0, 30]), kind };
    all.into_iter().map(&mut fault).collect()
}

fn bench(seed: u64, limits: Limits) -> Bench {
    let driver = Simulated::new(SimulatedOptions { seed, ..SimulatedOptions::default() });
    Proactor::new(Watched::new(driver, &limits), limits)
}

fn file(proactor: &mut Bench, random: &mut Random, number: usize) -> File {
    let fd = open(proactor, &format!("/{number}"), libc::O_CREAT | libc::O_RDWR).unwrap();
    let is_read = random.chance(60);
    let bytes: Vec<u8> = (0..if is_read { 4000 } else { 0 }).map(|_| random.draw() as u8).collect();
    let write = Op::Write { fd: Fd::Raw(fd), buffer: bytes.clone().into(), at: At::Offset(0) };
    assert_eq!(one(proactor, write).outcome(), Ok(bytes.len() as u64));
    let position = proactor.add_position(0);
    File { fd, position, bytes, next: 0, is_read, last: 0 }
}

fn op(file: &File, random: &mut Random) -> Op {
    let (fd, at) = (Fd::Raw(file.fd), At::Position);
    let length = 1 + random.index(120);
    match file.is_read {
        true => Op::Read { fd, buffer: Buffer::zeroed(length), at },
        false => {
            let bytes: Vec<u8> = (0..length).map(|_| random.draw() as u8).collect();
            Op::Write { fd, buffer: bytes.into(), at }
        }
    }
}

impl File {
    /// Records the end of an operation.
    fn record_end(&mut self, number: u64, done: atta_aio::Done) {
        let (outcome, buffer) = done.into_buffer();
        let Ok(bytes) = outcome else { return };
        assert!(number >= self.last, "{number} went before {}", self.last);
        self.last = number;
        let bytes = &buffer.as_slice()[..bytes as usize];
        if self.is_read {
            assert_eq!(bytes, &self.bytes[self.next..self.next + bytes.len()], "other bytes than the next");
            assert!(!bytes.is_empty() || self.next == self.bytes.len());
            self.next += bytes.len();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let limits = Limits {
        running: random.chance(50).then(|| 1 + random.index(3)),
        waiting: None,
        grace: Some(Duration::from_millis(2)),
    };
    let mut proactor = bench(seed, limits);
    let mut files: Vec<File> = (0..FILES).map(|number| file(&mut proactor, &mut random, number)).collect();
    let options = SimulatedOptions {
        seed,
        short_per_mille: 200,
        faults: troubles(&mut random),
        // Few different times, so that events coincide.
        latency: [Duration::from_micros(1); 2],
        ..SimulatedOptions::default()
    };
    proactor.driver_mut().driver.set_options(options);
    let mut pending: HashMap<u64, (usize, Handle)> = HashMap::new();
    let (mut next, mut idle) = (0, 0);
    while next < 60 || !pending.is_empty() {
        for _ in 0..if next < 60 { random.below(6) } else { 0 } {
            let which = random.index(FILES);
            let within = Duration::from_micros(random.below(12));
            let deadline = random.chance(30).then(|| proactor.driver().now() + within);
            let terms = Terms { deadline, position: Some(files[which].position) };
            let handle = proactor.submit(op(&files[which], &mut random).into(), terms, next).unwrap();
            pending.insert(next, (which, handle));
            next += 1;
        }
        let mut numbers: Vec<u64> = pending.keys().copied().collect();
        numbers.sort_unstable();
        if random.chance(15) && !numbers.is_empty() {
            proactor.cancel(pending[random.pick(&numbers)].1);
        }
        let mut results = Vec::new();
        proactor.advance(Some(Duration::from_micros(1)), |number, done| results.push((number, done)));
        idle = if results.is_empty() { idle + 1 } else { 0 };
        for (number, done) in results {
            files[pending.remove(&number).unwrap().0].record_end(number, done);
        }
        if idle > 20 {
            proactor.cancel_all();
        }
    }
    assert_eq!(proactor.pending(), 0);
    check(&mut proactor, files);
}

/// Checks that files have the written content, and that no descriptor and no position is left.
fn check(proactor: &mut Bench, files: Vec<File>) {
    proactor.driver_mut().driver.heal();
    let hung = proactor.driver().driver.running();
    for file in files {
        proactor.remove_position(file.position);
        // Operations that hang for good may occupy all slots.
        if hung > 0 {
            continue;
        }
        let read = Op::Read { fd: Fd::Raw(file.fd), buffer: Buffer::zeroed(8000), at: At::Offset(0) };
        let (outcome, buffer) = one(proactor, read).into_buffer();
        // One that failed after it had written may have left more.
        assert_eq!(&buffer.as_slice()[..outcome.unwrap() as usize][..file.bytes.len()], file.bytes);
        assert_eq!(one(proactor, Op::Close { fd: file.fd }).outcome(), Ok(0));
    }
    assert!(hung > 0 || proactor.driver().driver.open_descriptors() == 0);
}

#[test]
fn positions_give_each_byte_once_and_in_order() {
    seeds("positions_give_each_byte_once_and_in_order", 500_000..504_000, run);
}

/// An operation that waits for its position counts as waiting.
#[test]
fn what_waits_for_a_position_is_bounded_as_well() {
    let limits = Limits { running: Some(2), waiting: Some(3), ..Limits::default() };
    let mut proactor = bench(1, limits);
    let position = proactor.add_position(0);
    let terms = Terms { deadline: None, position: Some(position) };
    let mut accepted = 0;
    for _ in 0..100 {
        let read = Op::Read { fd: Fd::Raw(0), buffer: Buffer::zeroed(1), at: At::Position };
        accepted += usize::from(proactor.submit(read.into(), terms, 0).is_ok());
        proactor.advance(Some(Duration::ZERO), |_, _| {});
    }
    assert_eq!(accepted, 4);
    proactor.advance(None, |_, _| {});
}
