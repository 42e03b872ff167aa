//! Walks that are killed at any moment and go on from their logs: each entry counts once, whatever part of a log is lost, or written when a
//! later run has begun. The logs are in memory here.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod logs;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_entry::Entry;
use atta_ledger::{JobLogs, Key, LogName};
use atta_ops::walk::{self, FromLog, Journal, Options, Start, Tasks, Visit};
use atta_runtime::{Counter, Results, Session, Stop, Threads};
use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use logs::{Log, mix};

/// The entries of some slices: how many, and the sum of the hashes of their paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    hashes: u64,
}

atta_entry::record!(Sum { count, hashes });

impl Results for Sum {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.hashes = self.hashes.wrapping_add(other.hashes);
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

impl Sum {
    fn note(&mut self, entry: &Entry<'_>) {
        // FNV-1a.
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let hashed = entry.path().iter().fold(0xcbf2_9ce4_8422_2325, hash);
        self.add(&Self { count: 1, hashes: hashed });
    }
}

/// A walk without a log.
struct Plain;

impl Visit for Plain {
    type Worker = Sum;
    type Results = Sum;

    fn worker(&self, _index: usize) -> Sum {
        Sum::default()
    }

    fn results<'w>(&self, worker: &'w mut Sum) -> Option<&'w mut Sum> {
        Some(worker)
    }

    fn entry(&self, worker: &mut Sum, entry: &Entry<'_>, _tasks: &mut Tasks) {
        worker.note(entry);
    }
}

/// A walk that writes frames to its log at random entries, and stops at one of them.
struct Logged<'a> {
    key: Key,
    name: LogName,
    journal: &'a Journal<Sum>,
    log: Mutex<Log>,
    dice: AtomicU64,
    /// One of so many entries writes a frame.
    writes: u64,
    stops_at: u64,
    seen: AtomicU64,
    stop: Stop,
}

impl Logged<'_> {
    fn write(&self) {
        self.log.lock().unwrap().write(&self.key, self.name, self.journal);
    }
}

impl Visit for Logged<'_> {
    type Worker = Sum;
    type Results = Sum;

    fn worker(&self, _index: usize) -> Sum {
        Sum::default()
    }

    fn results<'w>(&self, worker: &'w mut Sum) -> Option<&'w mut Sum> {
        Some(worker)
    }

    fn entry(&self, worker: &mut Sum, entry: &Entry<'_>, _tasks: &mut Tasks) {
        worker.note(entry);
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        if seen == self.stops_at {
            self.stop.set();
        }
        let drawn = mix(self.dice.fetch_add(1, Ordering::Relaxed));
        if drawn.is_multiple_of(self.writes) {
            self.write();
        }
    }
}

/// A job that is killed several times.
struct Job<'a> {
    roots: &'a [Vec<u8>],
    key: Key,
    /// The logs of earlier runs.
    logs: Vec<(LogName, Vec<u8>)>,
    /// What the process of the last run has not written: it was only stopped, and goes on when the next run has begun.
    late: Vec<u8>,
    dice: u64,
    expected: Sum,
    entries_again: u64,
}

impl Job<'_> {
    fn throw(&mut self, sides: u64) -> u64 {
        self.dice += 1;
        mix(self.dice) % sides
    }

    /// One run. Returns the sum of all runs, if it came to its end.
    fn run(&mut self, is_last: bool) -> Option<Sum> {
        let (key, name) = (self.key, LogName { run: self.logs.len() as u32 + 1, rank: 0, part: 0 });
        let memory = if self.throw(3) == 0 { 1 << 12 } else { 1 << 24 };
        let mut sum = Sum::default();
        let logs = self.logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        let mut earlier = JobLogs::find(&key, logs).unwrap();
        let mut journal = Journal::new(key, name.run, 0).with_cuts(earlier.cuts());
        let each = &mut |found: FromLog<'_, Sum>| {
            if let FromLog::Results(share) = found {
                sum.add(&share);
            }
        };
        journal.resume(&mut earlier, memory, each).unwrap();
        let late = std::mem::take(&mut self.late);
        if let Some((_, log)) = self.logs.last_mut() {
            log.extend(late);
        }
        let left = self.expected.count - sum.count;
        let stops_at = if is_last || self.throw(6) == 0 { u64::MAX } else { self.throw(left.max(1) + 9) };
        let stop = Stop::default();
        let logged = Logged {
            key,
            name,
            journal: &journal,
            log: Mutex::default(),
            dice: AtomicU64::new(self.throw(1 << 40)),
            writes: [3, 40, 1000, 20_000][self.throw(4) as usize],
            stops_at,
            seen: AtomicU64::new(0),
            stop: stop.clone(),
        };
        logged.write();
        let threads = Threads::Fixed([1, 3][self.throw(2) as usize].try_into().unwrap());
        let options = Options { threads, stop, ..Options::default() };
        let mut session = Session::alone(options.stop.clone());
        let both = (&logged, &journal);
        let outcome = walk::run_logged(&mut session, both, self.roots.to_vec(), &options, |_| {}).unwrap();
        assert!(outcome.workers.len() <= 3);
        logged.write();
        let mut bytes = logged.log.into_inner().unwrap().bytes;
        if !outcome.stopped {
            sum.add(&outcome.results);
            return Some(sum);
        }
        self.entries_again += outcome.results.count;
        let torn = self.throw(bytes.len() as u64 + 1) as usize;
        match self.throw(4) {
            0 => {}
            1 => bytes.truncate(torn),
            _ => self.late = bytes.split_off(torn),
        }
        self.logs.push((name, bytes));
        None
    }
}

fn tree() -> (Scratch, Vec<Vec<u8>>) {
    let scratch = Scratch::new("resume").unwrap();
    let path = |name: &str| scratch.join(name);
    for (name, seed) in [("a", 3), ("b", 4)] {
        std::fs::create_dir(path(name)).unwrap();
        trees::random(&path(name), seed, 1500).unwrap();
    }
    // More names than one buffer of `getdents64` holds, with directories among them.
    let flat = path("a").join("flat");
    trees::flat(&flat, 9_000).unwrap();
    for number in 0..300 {
        trees::flat(&flat.join(format!("directory-{number}")), number % 7).unwrap();
    }
    trees::chain(&path("b").join("chain"), 70, b"level").unwrap();
    std::fs::write(path("file"), b"a root that is a file").unwrap();
    let roots = ["a", "b", "file"].map(|name| path(name).into_os_string().into_encoded_bytes());
    (scratch, roots.to_vec())
}

#[test]
fn killed_walks_count_each_entry_once() {
    let (_scratch, roots) = tree();
    let starts = roots.iter().cloned().map(Start::new);
    let expected = walk::run(&Plain, starts, &Options::default(), |_| {}).results;
    assert!(expected.count > 12_000, "{expected:?}");
    let (mut resumed, mut again) = (0, 0);
    for seed in 0..60 {
        let key = Key::of_job(&[seed as u8; 16]);
        let (logs, late) = (Vec::new(), Vec::new());
        let mut job = Job { roots: &roots, key, logs, late, dice: seed << 20, expected, entries_again: 0 };
        let sum = (0..5).find_map(|run| job.run(run == 4)).unwrap();
        assert_eq!(sum, expected, "seed {seed}, {} runs before", job.logs.len());
        resumed += job.logs.len();
        again += job.entries_again;
    }
    assert!(resumed > 60 && again > 10_000, "{resumed} runs were resumed, {again} entries before them");
}
