//! Copies that end at any moment and go on from their logs: the copy and what it comes to are those of an undisturbed run, whatever part of a log
//! is lost. The logs are in memory here. A process that is killed: see the tests of the command line.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

mod copying;
mod logs;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atta_ledger::{JobLogs, Key, LogName};
use atta_ops::copy::{Copy, Existing, Fsync, Options, Outcome, Results};
use atta_ops::walk::{self, FromLog, Journal};
use atta_runtime::{Results as _, Seat, Session, Stop, Threads};
use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use copying::Reported;
use copying::logged::{InMemory, take_over};
use copying::rsync::assert_same_by_rsync;
use logs::{Log, mix};

/// Says that it is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A job that ends early several times.
struct Job<'a> {
    source: &'a Path,
    target: PathBuf,
    key: Key,
    fsync: Fsync,
    existing: Existing,
    /// The logs of earlier runs.
    logs: Vec<(LogName, Vec<u8>)>,
    dice: u64,
    /// Bytes of the log of an undisturbed run.
    whole: u64,
    earlier_entries: u64,
    /// Somebody removes parts of the copy between its runs.
    removes: bool,
    /// How often.
    removed: usize,
    /// Runs that found something gone.
    voids: usize,
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".atta."))
}

fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// A directory and all below it, but for what has a temporary name.
fn walk_of(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::from_iter(Some(top.to_owned()).filter(|top| is_directory(top)));
    let mut at = 0;
    while at < found.len() {
        if is_directory(&found[at]) {
            let names = std::fs::read_dir(&found[at]).unwrap().map(|entry| entry.unwrap().path());
            found.extend(names.filter(|path| !is_temporary(path)));
        }
        at += 1;
    }
    found
}

fn remove(path: &Path) {
    let removed = if is_directory(path) { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed.unwrap();
}

impl Job<'_> {
    fn throw(&mut self, sides: u64) -> u64 {
        self.dice += 1;
        mix(self.dice) % sides
    }

    /// The journal of a run. Of two jobs in three, names with few bytes are slices of their own.
    fn journal(&self, run: u32) -> Journal<Results> {
        let own = if (self.dice >> 20).is_multiple_of(3) { u64::MAX } else { 1 << 12 };
        Journal::new(self.key, run, 0).with_closing().with_bytes_of_own_slices(own)
    }

    /// One run. Returns its outcome, if it came to the end of the copy.
    fn run(&mut self, is_last: bool) -> Option<Outcome> {
        let (key, run) = (self.key, self.logs.len() as u32 + 1);
        let name = LogName { run, rank: 0, part: 0 };
        let stop = Stop::default();
        let threads = Threads::Fixed([1, 3][self.throw(2) as usize].try_into().unwrap());
        let walk = walk::Options { threads, stop: stop.clone(), ..walk::Options::default() };
        let (fsync, existing) = (self.fsync, self.existing);
        let options = Options {
            walk,
            fsync,
            existing,
            digest: true,
            chunk: Some(1 << 17),
            run_of_job: Some(run),
            no_target_directory: true,
            ..Options::default()
        };
        let (sources, failures) = ([self.source.as_os_str().as_bytes().to_vec()], Reported::default());
        let seat = Seat { job: 7, ..Seat::alone() };
        let path = self.target.as_os_str().as_bytes().to_vec();
        let copy = Copy::prepare(&sources, &path, &options, &failures, seat).unwrap();
        let memory = if self.throw(3) == 0 { 1 << 12 } else { 1 << 24 };
        let are_many = self.dice.is_multiple_of(4);
        let logs = self.logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        let mut logs = JobLogs::find(&key, logs).unwrap();
        let mut journal = self.journal(run);
        let (mut sum, found) = take_over(&mut journal, &mut logs, memory, &copy);
        assert_eq!((found.changed, &found.failed), (0, &None), "{found:?}");
        if let Some(gone) = &found.lost {
            assert!(self.removed > 0, "nothing was removed: {gone:?}");
            self.voids += 1;
            (sum, journal) = (Results::default(), self.journal(run));
            let gone = if are_many { &walk::Gone::Many } else { gone };
            journal.void(&mut logs, gone).unwrap();
            let resumed = journal.resume(&mut logs, memory, &mut |found| {
                if let FromLog::Results(share) = found {
                    sum.add(&share);
                }
            });
            resumed.unwrap();
        }
        let journal = journal.with_cuts(logs.cuts());
        self.earlier_entries += sum.entries();
        let stops_at = if is_last { u64::MAX } else { self.throw(self.whole) };
        let (log, is_over) = (Mutex::new(Log::default()), AtomicBool::new(false));
        log.lock().unwrap().write(&key, name, &journal);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mut log = log.lock().unwrap();
                    log.write(&key, name, &journal);
                    if log.bytes.len() as u64 >= stops_at {
                        stop.set();
                    }
                    drop(log);
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            let mut session = Session::alone(stop.clone());
            // Also if the copy panics: the writer would wait for ever.
            let _over = Over(&is_over);
            copy.logged(&journal, &InMemory, sum).run(&mut session, |_| {}).unwrap()
        });
        assert_eq!(failures.0.into_inner().unwrap(), Vec::<String>::new());
        let mut log = log.into_inner().unwrap();
        log.write(&key, name, &journal);
        if !outcome.stopped {
            self.logs.push((name, log.bytes));
            return Some(outcome);
        }
        if self.logs.is_empty() && self.existing == Existing::Replace {
            assert_named_directories_are_whole(self.source, &self.target);
        }
        if self.throw(3) > 0 {
            let torn = self.throw(log.bytes.len() as u64 + 1) as usize;
            log.bytes.truncate(torn);
        }
        self.logs.push((name, log.bytes));
        if self.removes {
            self.remove_some();
        }
        None
    }

    /// Somebody removes a part of the copy.
    fn remove_some(&mut self) {
        let all: Vec<PathBuf> =
            walk_of(&self.target).into_iter().filter(|path| !is_temporary(path)).collect();
        if all.is_empty() {
            return;
        }
        self.removed += 1;
        let (directories, files): (Vec<_>, Vec<_>) = all.into_iter().partition(|path| is_directory(path));
        match self.throw(4) {
            // What a shell does with `TARGET/*`.
            0 => {
                for entry in std::fs::read_dir(&self.target).unwrap() {
                    let path = entry.unwrap().path();
                    if !is_temporary(&path) {
                        remove(&path);
                    }
                }
            }
            1 if !files.is_empty() => remove(&files[self.throw(files.len() as u64) as usize]),
            2 => {
                // Another one is in its place. It is made first: else it may get the same inode.
                let path = &directories[self.throw(directories.len() as u64) as usize];
                let other = self.target.with_extension("other");
                std::fs::create_dir(&other).unwrap();
                remove(path);
                std::fs::rename(&other, path).unwrap();
            }
            _ => remove(&directories[self.throw(directories.len() as u64) as usize]),
        }
    }
}

/// A run that was stopped has given no directory its name before its files were complete. Large files, files with several names, and the names of
/// a large directory may come after it.
fn assert_named_directories_are_whole(source: &Path, target: &Path) {
    let names = |directory: &Path| std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    for named in walk_of(target).into_iter().filter(|path| is_directory(path)) {
        let from = source.join(named.strip_prefix(target).unwrap());
        if names(&from).count() > 1_000 {
            continue;
        }
        for path in names(&from) {
            let found = path.symlink_metadata().unwrap();
            let comes_before = found.is_file() && found.nlink() == 1 && found.len() < 1 << 17;
            let copy = named.join(path.file_name().unwrap());
            assert!(!comes_before || copy.symlink_metadata().is_ok(), "{}", copy.display());
        }
    }
}

fn tree() -> (Scratch, PathBuf) {
    let scratch = Scratch::new("resume-copy").unwrap();
    let tree = scratch.join("tree");
    std::fs::create_dir(&tree).unwrap();
    trees::random(&tree.join("random"), 5, 1200).unwrap();
    // More names than a slice has, with directories among them.
    let flat = tree.join("flat");
    trees::flat(&flat, 9_000).unwrap();
    for number in 0..200 {
        let directory = flat.join(format!("directory-{number}"));
        trees::flat(&directory, 3 + number % 7).unwrap();
        std::fs::write(directory.join("file"), vec![b'x'; 100 * number as usize]).unwrap();
        // Files with names in several directories.
        std::fs::hard_link(flat.join("f0000001"), directory.join("again")).unwrap();
        std::fs::hard_link(directory.join("file"), tree.join(format!("link-{number}"))).unwrap();
    }
    std::fs::hard_link(flat.join("f0000002"), scratch.join("outside")).unwrap();
    trees::chain(&tree.join("chain"), 60, b"level").unwrap();
    // Files that are copied in chunks.
    for number in 0..3_u64 {
        let bytes: Vec<u8> =
            (0..(3 << 17) + number).flat_map(|word| mix(word + number).to_le_bytes()).collect();
        std::fs::write(tree.join(format!("large-{number}")), bytes).unwrap();
    }
    (scratch, tree)
}

#[test]
fn copies_that_end_early_go_on_to_the_same_copy() {
    let played = play("copies_that_end_early_go_on_to_the_same_copy", 1..=8, false);
    let Played { runs, kept, .. } = played;
    assert!(runs > 8 && kept > 4_000, "{runs} runs were resumed, {kept} entries were kept");
}

#[test]
#[ignore = "takes minutes"]
fn copies_that_end_early_go_on_to_the_same_copy_long() {
    play("copies_that_end_early_go_on_to_the_same_copy_long", 9..=60, false);
}

#[test]
fn what_is_removed_between_runs_is_copied_again() {
    // The last ones have failed before.
    let seeds = (21..=22).chain([31, 49, 53, 63, 98]);
    let played = play("what_is_removed_between_runs_is_copied_again", seeds, true);
    assert!(played.voids > 2, "{} runs found something gone", played.voids);
}

#[test]
#[ignore = "takes minutes"]
fn what_is_removed_between_runs_is_copied_again_long() {
    play("what_is_removed_between_runs_is_copied_again_long", 23..=130, true);
}

#[derive(Default)]
struct Played {
    /// Runs that did not come to the end.
    runs: usize,
    /// Entries that a later run did not copy again.
    kept: u64,
    /// Runs that found something gone.
    voids: usize,
}

/// Plays jobs, and compares each with an undisturbed copy. `removes`: somebody removes parts of the copy between its runs.
fn play(test: &str, seeds: impl IntoIterator<Item = u64>, removes: bool) -> Played {
    let (scratch, source) = tree();
    let job = |dice: u64, target: &str| Job {
        source: &source,
        target: scratch.join(target),
        key: Key::of_job(&[dice as u8; 16]),
        fsync: if dice.is_multiple_of(4) { Fsync::Batch } else { Fsync::None },
        existing: [Existing::Replace, Existing::Update][(dice % 2) as usize],
        logs: Vec::new(),
        dice: dice << 20,
        whole: 200_000,
        earlier_entries: 0,
        removes,
        removed: 0,
        voids: 0,
    };
    let plain = job(0, "plain").run(true).unwrap();
    assert_same_by_rsync(test, &source, &scratch.join("plain"));
    let mut played = Played::default();
    for seed in seeds {
        let mut job = job(seed, "target");
        let outcome = (0..5).find_map(|run| job.run(run == 4)).unwrap();
        let what = format!("seed {seed}, {} runs", job.logs.len());
        let signature =
            |outcome: &Outcome| outcome.signature.as_ref().map(|found| found.digest().to_string());
        assert_same_by_rsync(&what, &source, &job.target);
        if job.existing == Existing::Replace {
            assert_eq!(outcome.totals, plain.totals, "{what}");
            assert_eq!(signature(&outcome), signature(&plain), "{what}");
        }
        let entries = job.earlier_entries;
        // It was killed before it could say that it is complete.
        let again = job.run(true).unwrap();
        assert_same_by_rsync(&what, &source, &job.target);
        assert_eq!(signature(&again), signature(&outcome), "{what}, again");
        assert_eq!(again.totals, outcome.totals, "{what}, again");
        for number in 0..3 {
            let read = |tree: &Path| std::fs::read(tree.join(format!("large-{number}"))).unwrap();
            assert!(read(&source) == read(&job.target), "{what}: large-{number}");
        }
        assert_eq!(left_in(&job.target), Vec::<PathBuf>::new(), "{what}");
        std::fs::remove_dir_all(&job.target).unwrap();
        played.runs += job.logs.len() - 2;
        played.kept += entries;
        played.voids += job.voids;
    }
    played
}

/// Temporary names at and below a directory, and beside it.
fn left_in(target: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![target.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                directories.push(path.clone());
            }
            found.extend(Some(path).filter(|path| is_temporary(path)));
        }
    }
    let beside = std::fs::read_dir(target.parent().unwrap()).unwrap();
    found.extend(beside.map(|entry| entry.unwrap().path()).filter(|path| is_temporary(path)));
    found
}
