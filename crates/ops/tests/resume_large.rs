//! Sums and comparisons of large files that go on from their logs: chunks that were read are not read again. The logs are in memory here.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_entry::{Difference, Entry, Failure, Field};
use atta_ledger::{Fact, Frame, JobLogs, Key, LogName, Record, Records, frame, records};
use atta_ops::digest::Hash;
use atta_ops::sum::{self, Sums};
use atta_ops::verify::{self, Findings, Trees};
use atta_ops::walk::{self, Journal, SliceResults};
use atta_runtime::{Facts as _, Session, Stop, Threads};
use atta_testkit::scratch::Scratch;

/// Bytes of a large file, and of its chunks.
const LARGE: usize = (4 << 20) + 1000;
const CHUNK: u64 = 1 << 16;
/// What a run reads beside large files.
const OTHER: u64 = 1 << 19;

/// The tests count what the process reads.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that the process has read so far.
fn bytes_read() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

fn content(seed: u32) -> Vec<u8> {
    (0..LARGE as u32 / 4).flat_map(|word| (word.wrapping_mul(2_654_435_769) ^ seed).to_le_bytes()).collect()
}

fn walk_with(threads: usize) -> walk::Options<'static> {
    let threads = Threads::Fixed(NonZeroUsize::new(threads).unwrap());
    walk::Options { threads, stop: Stop::default(), ..walk::Options::default() }
}

const KEY: [u8; 16] = [4; 16];

/// The journal of a run that goes on from this log of the first run, or of the first run.
fn journal<R: SliceResults>(log: &[u8]) -> Journal<R> {
    let key = Key::of_job(&KEY);
    if log.is_empty() {
        return Journal::new(key, 1, 0).with_closing().holding();
    }
    let name = LogName { run: 1, rank: 0, part: 0 };
    let mut logs = JobLogs::find(&key, vec![(name, log)]).unwrap();
    let mut journal = Journal::new(key, 2, 0).with_closing();
    assert!(journal.resume(&mut logs, 1 << 20, &mut |_| {}).is_ok());
    journal
}

/// What a first run leaves that is killed: no slice is done, and each fourth chunk is not.
fn log_of_killed<R: SliceResults>(journal: &Journal<R>) -> Vec<u8> {
    let (mut kept, mut chunks) = (Records::default(), 0);
    for section in journal.take() {
        assert!(records(&section, &mut |record| match record {
            Record::In(_, Fact::Chunk { index, .. }) if index % 4 == 3 => {}
            record => {
                chunks += u64::from(matches!(record, Record::In(_, Fact::Chunk { .. })));
                kept.add(record);
            }
        }));
    }
    assert!(chunks > 40, "{chunks} chunks are noted");
    let head = Frame { offset: 0, sequence: 0, synced: 0 };
    frame(&Key::of_job(&KEY), LogName { run: 1, rank: 0, part: 0 }, head, &[kept.take()]).unwrap()
}

struct Summed;

impl sum::Watch for Summed {
    type Worker = ();
    type Gathered = ();

    fn worker(&self, _index: usize) {}

    fn entry(&self, (): &mut (), _entry: &Entry<'_>, _digest: Option<&Hash>) {}

    fn failure(&self, (): &mut (), failure: &Failure<'_>) {
        panic!("{failure}");
    }
}

/// Totals and signature, what was read, and the log of a run that is killed at its end.
fn sum(roots: &[&Path], (threads, chunk): (usize, u64), log: &[u8]) -> ((sum::Totals, String), u64, Vec<u8>) {
    let journal = journal::<Sums<()>>(log);
    let options = sum::Options { walk: walk_with(threads), chunk: Some(chunk), ..sum::Options::default() };
    let mut session = Session::alone(options.walk.stop.clone());
    let (roots, before) =
        (roots.iter().map(|root| root.as_os_str().as_bytes().to_vec()).collect(), bytes_read());
    let outcome =
        sum::run_logged(&mut session, (&Summed, &options), (&journal, &Sums::default()), roots, |_| {})
            .unwrap();
    let signature = outcome.signature.unwrap().digest().to_string();
    let read = bytes_read() - before;
    ((outcome.totals, signature), read, if log.is_empty() { log_of_killed(&journal) } else { Vec::new() })
}

/// In a directory, and as a root of its own.
#[test]
fn chunks_of_a_killed_sum_are_not_read_again() {
    let (_alone, scratch) = (alone(), Scratch::new("resume-large").unwrap());
    let (tree, root) = (scratch.join("tree"), scratch.join("root"));
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("d/large"), content(1)).unwrap();
    fs::write(tree.join("d/small"), "small").unwrap();
    fs::write(&root, content(2)).unwrap();
    let roots = [tree.as_path(), root.as_path()];
    let (whole, read, log) = sum(&roots, (2, CHUNK), &[]);
    assert!(read >= 2 * LARGE as u64, "{read}");
    // Also if the file would be cut in another way now.
    for cut in [(2, CHUNK), (1, 2 * CHUNK), (3, CHUNK / 4)] {
        let (again, read, _) = sum(&roots, cut, &log);
        assert_eq!(again, whole);
        assert!(read < 2 * LARGE as u64 / 4 + OTHER, "{cut:?}: {read} bytes were read");
    }
    fs::write(tree.join("d/large"), content(3)).unwrap();
    let (again, read, _) = sum(&roots, (2, CHUNK), &log);
    assert!(again.1 != whole.1 && read > LARGE as u64, "the file has changed");
    assert_eq!(again, sum(&roots, (2, CHUNK), &[]).0);
}

/// Keeps the differences.
#[derive(Default)]
struct Keep(Mutex<Vec<String>>);

impl verify::Watch for Keep {
    fn difference(&self, difference: &Difference<'_>) {
        self.0.lock().unwrap().push(format!("{difference:?}"));
    }

    fn failure(&self, failure: &Failure<'_>) {
        panic!("{failure}");
    }
}

/// Differences, bytes compared, what was read, and the log of a run that is killed at its end.
fn compare(scratch: &Scratch, chunk: u64, log: &[u8]) -> ((Vec<String>, u64), u64, Vec<u8>) {
    let journal = journal::<Findings>(log);
    let fields = [Field::Size, Field::Content].into_iter().collect();
    let options =
        verify::Options { walk: walk_with(1), chunk: Some(chunk), fields, ..verify::Options::default() };
    let sides = ["source", "target"].map(|side| scratch.join(side).as_os_str().as_bytes().to_vec());
    let (trees, keep) = (Trees::open(&sides[0], &sides[1], &options).unwrap(), Keep::default());
    let (mut session, before) = (Session::alone(options.walk.stop.clone()), bytes_read());
    let outcome = verify::run_logged(&mut session, &trees, &options, (&keep, &journal), |_| {}).unwrap();
    let found = (keep.0.into_inner().unwrap(), outcome.totals.bytes);
    let read = bytes_read() - before;
    (found, read, if log.is_empty() { log_of_killed(&journal) } else { Vec::new() })
}

#[test]
fn chunks_of_a_killed_comparison_are_not_read_again() {
    let (_alone, scratch) = (alone(), Scratch::new("resume-large").unwrap());
    for side in ["source", "target"] {
        fs::create_dir_all(scratch.join(side).join("d")).unwrap();
        fs::write(scratch.join(side).join("d/large"), content(1)).unwrap();
    }
    let target = scratch.join("target/d/large");
    let (same, read, log) = compare(&scratch, CHUNK, &[]);
    assert!(
        same == (Vec::new(), LARGE as u64) && read >= 2 * LARGE as u64,
        "{same:?}, {read} bytes were read"
    );
    for chunk in [CHUNK, CHUNK / 4] {
        let (again, read, _) = compare(&scratch, chunk, &log);
        assert_eq!(again, same);
        assert!(read < 2 * LARGE as u64 / 4 + OTHER, "{read} bytes were read");
    }
    // In a chunk that the log has, and in one that it has not.
    for chunk in [60, 59] {
        let mut other = content(1);
        other[chunk * CHUNK as usize + 7] ^= 1;
        fs::write(&target, other).unwrap();
        let (differs, _, log) = compare(&scratch, CHUNK, &[]);
        assert_eq!(differs.0.len(), 1, "{differs:?}");
        let (again, read, _) = compare(&scratch, CHUNK, &log);
        assert_eq!(again.0, differs.0);
        assert!(read < 2 * LARGE as u64 / 4 + OTHER, "{read} bytes were read");
    }
}
