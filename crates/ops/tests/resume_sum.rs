//! Sums that are stopped and go on from their logs, in directories whose files take long: what was read of such a directory is not read again.
//! The logs are in memory here.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of tests")]

mod logs;

use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_entry::{Entry, Failure};
use atta_ledger::{JobLogs, Key, LogName};
use atta_ops::digest::Hash;
use atta_ops::sum::{self, Options, Sums, Watch};
use atta_ops::walk::{self, FromLog, Journal, Waiting};
use atta_runtime::{Results as _, Session, Stop, Threads};
use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use logs::{Log, mix};

/// Counts files. At one of them all is as if the run was killed: nothing is written to its log from then on.
struct Counting<'a> {
    files: AtomicU64,
    stops_at: u64,
    stop: Stop,
    failures: &'a Mutex<Vec<String>>,
    key: Key,
    name: LogName,
    journal: &'a Journal<Sums<()>>,
    log: Mutex<Log>,
}

impl Watch for Counting<'_> {
    type Worker = ();
    type Gathered = ();

    fn worker(&self, _index: usize) {}

    fn entry(&self, (): &mut (), _entry: &Entry<'_>, digest: Option<&Hash>) {
        if digest.is_some() && self.files.fetch_add(1, Ordering::Relaxed) + 1 == self.stops_at {
            self.log.lock().unwrap().write(&self.key, self.name, self.journal);
            self.stop.set();
        }
    }

    /// As a catalog does it when a part of it is on storage.
    fn keep_noted(&self, (): &mut (), waiting: Waiting<'_, Sums<()>>, _is_last: bool) {
        self.journal.confirm(waiting.take());
    }

    fn failure(&self, (): &mut (), failure: &Failure<'_>) {
        self.failures.lock().unwrap().push(failure.to_string());
    }
}

/// What all runs of a job came to.
struct Played {
    /// Totals and signature.
    whole: (sum::Totals, String),
    /// Files that each run has read.
    read: Vec<u64>,
}

/// Plays a job whose runs stop at these files, and then one that does not stop.
fn play(tree: &Path, threads: usize, stops: &[u64]) -> Played {
    let (key, root, failures) = (Key::of_job(&[3; 16]), tree.as_os_str().as_bytes(), Mutex::default());
    let (mut logs, mut read) = (Vec::<(LogName, Vec<u8>)>::new(), Vec::new());
    for (run, stops_at) in (1..).zip(stops.iter().copied().chain([u64::MAX])) {
        let name = LogName { run, rank: 0, part: 0 };
        let bytes = logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        let mut earlier_logs = JobLogs::find(&key, bytes).unwrap();
        let (mut journal, mut earlier) =
            (Journal::new(key, run, 0).with_bytes_of_own_slices(OWN_SLICES), Sums::default());
        let resumed = journal.resume(&mut earlier_logs, 1 << 20, &mut |found| {
            if let FromLog::Results(share) = found {
                earlier.add(&share);
            }
        });
        resumed.unwrap();
        let (journal, stop) = (journal.holding().with_cuts(earlier_logs.cuts()), Stop::default());
        let threads = Threads::Fixed(NonZeroUsize::new(threads).unwrap());
        let walk = walk::Options { threads, stop: stop.clone(), ..walk::Options::default() };
        let options = Options { walk, ..Options::default() };
        let (log, files) = (Mutex::new(Log::default()), AtomicU64::new(0));
        // What counts of the earlier logs.
        log.lock().unwrap().write(&key, name, &journal);
        let (journal, stop_of_watch, failures) = (&journal, stop.clone(), &failures);
        let watch = Counting { files, stops_at, stop: stop_of_watch, failures, key, name, journal, log };
        let mut session = Session::alone(stop);
        let logged = (journal, &earlier);
        let outcome =
            sum::run_logged(&mut session, (&watch, &options), logged, vec![root.to_vec()], |_| {}).unwrap();
        logs.push((name, watch.log.into_inner().unwrap().bytes));
        read.push(watch.files.into_inner());
        if !outcome.stopped {
            assert_eq!(*failures.lock().unwrap(), Vec::<String>::new());
            let signature = outcome.signature.map(|signature| signature.digest().to_string());
            return Played { whole: (outcome.totals, signature.unwrap()), read };
        }
    }
    unreachable!("the last run does not stop")
}

/// Names that were looked up together, with so many bytes, are slices of their own.
const OWN_SLICES: u64 = 1 << 14;

/// A directory of few names, and one of more than a slice has, whose files have 1 KiB; and one of which most names looked up together have too few bytes.
fn tree() -> Scratch {
    let scratch = Scratch::new("resume-sum").unwrap();
    std::fs::create_dir(scratch.join("tree")).unwrap();
    for (name, files, bytes) in [("few", 300, 1000), ("many", 5_000, 1000), ("mixed", 2_000, 20)] {
        let directory = scratch.join("tree").join(name);
        trees::flat(&directory, files).unwrap();
        for (number, entry) in std::fs::read_dir(&directory).unwrap().enumerate() {
            let bytes = if name == "mixed" && number % 100 == 0 { OWN_SLICES as usize } else { bytes };
            std::fs::write(entry.unwrap().path(), mix(number as u64).to_string().repeat(bytes / 20 + 1))
                .unwrap();
        }
    }
    scratch
}

#[test]
fn large_files_are_not_all_read_again() {
    let scratch = tree();
    for (name, files) in [("few", 300), ("many", 5_000)] {
        let directory = scratch.join("tree").join(name);
        let plain = play(&directory, 1, &[]);
        let played = play(&directory, 1, &[files * 3 / 4]);
        assert_eq!(played.whole, plain.whole, "{name}");
        let again: u64 = played.read.iter().sum::<u64>() - files;
        assert!(again <= 128, "{name}: {again} of {files} files were read again");
    }
}

#[test]
fn stopped_sums_go_on_to_the_same_sum() {
    let (scratch, mut runs) = (tree(), 0);
    let plain = play(&scratch.join("tree"), 2, &[]);
    for seed in 1..=12 {
        let stops: Vec<u64> = (0..4).map(|run| 1 + mix(seed << 8 | run) % 5_000).collect();
        let played = play(&scratch.join("tree"), 1 + (seed % 3) as usize, &stops);
        assert_eq!(played.whole, plain.whole, "seed {seed}: {:?}", played.read);
        runs += played.read.len();
    }
    assert!(runs > 30, "{runs} runs");
}
