//! Copies on ranks within this process that end at any moment, lose any part of their logs, and go on on other numbers of ranks: the copy and what it
//! comes to are those of an undisturbed run. The logs are in memory here. Processes that are killed: see the program's tests of ranks.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

mod copying;
mod logs;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use atta_engine::{Config, ScheduleKind};
use atta_fabric::{InProcess, in_process_on_hosts};
use atta_ledger::{JobLogs, Key, LogName};
use atta_ops::copy::{Copy, Fsync, Options, Outcome, Results, Totals};
use atta_ops::digest::Signature;
use atta_ops::walk::{self, Journal};
use atta_runtime::{Limits, Seat, Session, Stop, Threads};
use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use copying::Reported;
use copying::logged::{InMemory, take_over};
use copying::rsync::assert_same_by_rsync;
use logs::{Log, mix};

/// Ranks of a run, by the host that each is on.
const HOSTS: [&[u32]; 4] = [&[0, 0, 1], &[0], &[0, 0], &[0, 1, 0, 1]];

/// Schedules in which the first rank runs tasks: it does what earlier runs have left.
const SCHEDULES: [ScheduleKind; 4] =
    [ScheduleKind::Lifeline, ScheduleKind::Random, ScheduleKind::Proximity, ScheduleKind::Hybrid];

/// A job that ends early several times.
struct Job<'a> {
    source: &'a Path,
    target: PathBuf,
    key: Key,
    fsync: Fsync,
    dice: u64,
    runs: u32,
    /// The logs of earlier runs.
    logs: Vec<(LogName, Vec<u8>)>,
    earlier_entries: u64,
    /// Batches of names that another rank has done.
    given: u64,
}

/// One run, as all ranks see it.
struct Run<'a> {
    journals: Vec<Journal<Results>>,
    logs: Vec<Mutex<Log>>,
    /// What earlier runs came to.
    earlier: Results,
    config: Config,
    options: Options<'a>,
    source: &'a Path,
    target: &'a Path,
    failures: &'a Reported,
}

impl Run<'_> {
    fn one_rank(&self, endpoint: &mut InProcess, rank: usize) -> Outcome {
        let joined = Session::join(endpoint, "test", self.options.walk.stop.clone(), Limits::default());
        let mut session = joined.unwrap().unwrap().with_schedule(self.config);
        let (sources, target) = ([self.source.as_os_str().as_bytes().to_vec()], self.target.as_os_str());
        let seat = Seat { job: 7, ..session.seat() };
        let copy = Copy::prepare(&sources, target.as_bytes(), &self.options, self.failures, seat).unwrap();
        let earlier = if rank == 0 { self.earlier.clone() } else { Results::default() };
        let copy = copy.logged(&self.journals[rank], &InMemory, earlier);
        // All are set up before one begins.
        session.all_reduce((), |(), ()| ()).unwrap();
        let outcome = copy.run(&mut session, |_| {}).unwrap();
        session.close((), |(), ()| ()).unwrap();
        outcome
    }

    /// Writes what was noted. Returns the bytes of all logs.
    fn write(&self, key: &Key, run: u32) -> u64 {
        let write = |(rank, log): (usize, &Mutex<Log>)| {
            let mut log = log.lock().unwrap();
            log.write(key, name(run, rank), &self.journals[rank]);
            log.bytes.len() as u64
        };
        self.logs.iter().enumerate().map(write).sum()
    }
}

fn name(run: u32, rank: usize) -> LogName {
    LogName { run, rank: rank as u32, part: 0 }
}

/// What all ranks together came to.
#[derive(Debug, Default, PartialEq)]
struct Whole {
    totals: Totals,
    signature: String,
}

impl Job<'_> {
    fn throw(&mut self, sides: u64) -> u64 {
        self.dice += 1;
        mix(self.dice) % sides
    }

    /// The journal of a rank. Of two jobs in three, names with few bytes are slices of their own.
    fn journal(&self, rank: u32) -> Journal<Results> {
        let own = if (self.dice >> 20).is_multiple_of(3) { u64::MAX } else { 1 << 12 };
        Journal::new(self.key, self.runs, rank).with_closing().with_bytes_of_own_slices(own)
    }

    /// What the logs of earlier runs say, and the journals of the ranks of this one.
    fn begin(
        &mut self,
        copy: &Options<'_>,
        failures: &Reported,
        ranks: usize,
    ) -> (Vec<Journal<Results>>, Results) {
        let key = self.key;
        let sources = [self.source.as_os_str().as_bytes().to_vec()];
        let seat = Seat { job: 7, ..Seat::alone() };
        let copy = Copy::prepare(&sources, self.target.as_os_str().as_bytes(), copy, failures, seat).unwrap();
        let memory = if self.throw(3) == 0 { 1 << 12 } else { 1 << 24 };
        let logs = self.logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        let mut logs = JobLogs::find(&key, logs).unwrap();
        let mut first = self.journal(0);
        let (sum, found) = take_over(&mut first, &mut logs, memory, &copy);
        assert!((found.changed, &found.failed, &found.lost) == (0, &None, &None), "{found:?}");
        let mut journals = vec![first.with_cuts(logs.cuts())];
        journals.extend((1..ranks).map(|rank| self.journal(rank as u32)));
        (journals, sum)
    }

    /// One run. Returns what it came to, if it came to the end of the copy.
    fn run(&mut self, hosts: &[u32], is_last: bool) -> Option<Whole> {
        self.runs += 1;
        let (stop, failures) = (Stop::default(), Reported::default());
        let threads = Threads::Fixed([1, 2][self.throw(2) as usize].try_into().unwrap());
        let options = Options {
            walk: walk::Options { threads, stop: stop.clone(), ..walk::Options::default() },
            fsync: self.fsync,
            digest: true,
            chunk: Some(1 << 17),
            run_of_job: Some(self.runs),
            no_target_directory: true,
            ..Options::default()
        };
        let (journals, earlier) = self.begin(&options, &failures, hosts.len());
        self.earlier_entries += earlier.entries();
        let schedule = SCHEDULES[self.throw(SCHEDULES.len() as u64) as usize];
        let config = Config { schedule, seed: self.dice, ..Config::default() };
        let stops_at = if is_last { u64::MAX } else { self.throw(250_000) };
        let (source, target) = (self.source, self.target.clone());
        let logs = hosts.iter().map(|_| Mutex::default()).collect();
        let (failures, target) = (&failures, &target);
        let run = Run { journals, logs, earlier, config, options, source, target, failures };
        let (key, number, left) = (self.key, self.runs, AtomicUsize::new(hosts.len()));
        run.logs[0].lock().unwrap().write(&key, name(number, 0), &run.journals[0]);
        let first_frame = run.logs[0].lock().unwrap().bytes.len();
        let accepted = AtomicU64::new(0);
        let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
            let (run, left, accepted) = (&run, &left, &accepted);
            let begin = |(rank, mut endpoint): (usize, InProcess)| {
                scope.spawn(move || {
                    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        run.one_rank(&mut endpoint, rank)
                    }));
                    left.fetch_sub(1, Ordering::Relaxed);
                    let outcome = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    accepted.fetch_add(outcome.exchanged.counts.tasks_accepted, Ordering::Relaxed);
                    outcome
                })
            };
            let ranks: Vec<_> = in_process_on_hosts(hosts).into_iter().enumerate().map(begin).collect();
            while left.load(Ordering::Relaxed) > 0 {
                if run.write(&key, number) >= stops_at {
                    stop.set();
                }
                std::thread::sleep(Duration::from_micros(300));
            }
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert_eq!(*failures.0.lock().unwrap(), Vec::<String>::new());
        run.write(&key, number);
        self.given += accepted.into_inner();
        if outcomes.iter().all(|outcome| !outcome.stopped) {
            return Some(whole(&outcomes));
        }
        for (rank, log) in run.logs.into_iter().enumerate() {
            let mut bytes = log.into_inner().unwrap().bytes;
            if self.throw(3) > 0 {
                // The first frame of rank 0 is on storage before another rank writes.
                let least = if rank == 0 { first_frame } else { 0 };
                let most = self.throw((bytes.len() - least) as u64 + 1);
                // Names are listed early.
                let torn = if self.throw(2) == 0 { most } else { self.throw(most + 1) };
                bytes.truncate(least + torn as usize);
            }
            self.logs.push((name(number, rank), bytes));
        }
        None
    }
}

fn whole(outcomes: &[Outcome]) -> Whole {
    let (mut totals, mut signature) = (Totals::default(), Signature::default());
    for outcome in outcomes {
        totals += &outcome.totals;
        signature.merge(outcome.signature.as_ref().unwrap());
    }
    Whole { totals, signature: signature.digest().to_string() }
}

fn tree() -> (Scratch, PathBuf) {
    let scratch = Scratch::new("resume-copy-ranks").unwrap();
    let tree = scratch.join("tree");
    std::fs::create_dir(&tree).unwrap();
    trees::random(&tree.join("random"), 6, 500).unwrap();
    // More names than a slice has, with directories among them, and as many as one has.
    let flat = tree.join("flat");
    trees::flat(&flat, 6_000).unwrap();
    for number in 0..6 {
        trees::flat(&tree.join(format!("one-slice-{number}")), 800).unwrap();
    }
    for number in 0..100 {
        let directory = flat.join(format!("directory-{number}"));
        trees::flat(&directory, 3 + number % 7).unwrap();
        std::fs::write(directory.join("file"), vec![b'x'; 100 * number as usize]).unwrap();
        std::fs::hard_link(directory.join("file"), tree.join(format!("link-{number}"))).unwrap();
    }
    let bytes: Vec<u8> = (0..(3 << 17)).flat_map(|word: u64| mix(word).to_le_bytes()).collect();
    std::fs::write(flat.join("large"), bytes).unwrap();
    (scratch, tree)
}

/// Plays jobs, and compares each with an undisturbed copy. Returns how many runs were resumed, and how many entries were not copied again.
fn play(seeds: impl IntoIterator<Item = u64>) -> (usize, u64) {
    let (scratch, source) = tree();
    let flat = source.join("flat");
    // Of some jobs, SOURCE itself has many names.
    let job = |dice: u64, target: &str| Job {
        source: if dice.is_multiple_of(2) { &flat } else { &source },
        target: scratch.join(target),
        key: Key::of_job(&[dice as u8; 16]),
        fsync: if dice.is_multiple_of(3) { Fsync::Batch } else { Fsync::None },
        dice: dice << 20,
        runs: 0,
        logs: Vec::new(),
        earlier_entries: 0,
        given: 0,
    };
    let plain = [0, 1].map(|dice| job(dice, &format!("plain-{dice}")).run(&[0], true).unwrap());
    let (mut runs, mut kept, mut given) = (0, 0, 0);
    for seed in seeds {
        let mut job = job(seed, "target");
        let hosts = |run: usize| HOSTS[(seed as usize + run) % HOSTS.len()];
        let outcome = (0..5).find_map(|run| job.run(hosts(run), run == 4)).unwrap();
        assert_eq!(outcome, plain[(seed % 2) as usize], "seed {seed}, {} runs", job.runs);
        assert_same_by_rsync(&format!("seed {seed}, {} runs", job.runs), job.source, &job.target);
        std::fs::remove_dir_all(&job.target).unwrap();
        (runs, kept, given) = (runs + job.runs as usize - 1, kept + job.earlier_entries, given + job.given);
    }
    assert!(given > 0, "ranks share the work");
    (runs, kept)
}

#[test]
fn copies_on_ranks_go_on_to_the_same_copy() {
    let (runs, kept) = play((1..=4).chain([6, 8, 34]));
    assert!(runs > 6 && kept > 2_000, "{runs} runs were resumed, {kept} entries were kept");
}

#[test]
#[ignore = "takes minutes"]
fn copies_on_ranks_go_on_to_the_same_copy_long() {
    play((9..=150).chain([5, 7]));
}
