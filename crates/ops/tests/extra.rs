//! The example `extra` as a library: sums of directories on threads, on ranks within this process, and of a slow and obvious oracle.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

#[expect(dead_code, reason = "its main function and output")]
#[path = "../examples/extra.rs"]
mod extra;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_engine::{Config, ScheduleKind};
use atta_entry::{Entry, Failure};
use atta_fabric::in_process_on_hosts;
use atta_ops::trees::{self, At, Operation};
use atta_ops::walk::Options;
use atta_runtime::{Limits, Session, Stop, Threads};
use atta_testkit::scratch::Scratch;
use extra::{Extra, extra};

/// Names and bytes by directory.
type Sums = BTreeMap<PathBuf, (u64, u64)>;

/// Two trees; the first lacks files and whole directories of the second.
fn trees(scratch: &Scratch) -> [PathBuf; 2] {
    let trees = [scratch.join("source"), scratch.join("target")];
    for (side, tree) in trees.iter().enumerate() {
        for number in 0..60_u64 {
            let directory = tree.join(format!("{}/{}/{number}", number % 3, number % 7));
            if side == 0 && number % 5 == 1 {
                continue;
            }
            fs::create_dir_all(directory.join("deep/er")).unwrap();
            for file in 0..number * 12 {
                if side == 1 || file % 9 != 4 {
                    fs::write(directory.join(format!("deep/{file}")), vec![b'x'; file as usize]).unwrap();
                }
            }
        }
    }
    trees
}

/// What the oracle finds below a directory of TARGET, with what is below it.
fn expected(source: &Path, target: &Path, sums: &mut Sums) -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in fs::read_dir(target).unwrap().map(Result::unwrap) {
        let other = source.join(entry.file_name());
        let metadata = entry.metadata().unwrap();
        if !other.exists() {
            sum = (sum.0 + 1, sum.1 + if metadata.is_file() { metadata.len() } else { 0 });
        }
        if metadata.is_dir() {
            let below = expected(&other, &entry.path(), sums);
            sum = (sum.0 + below.0, sum.1 + below.1);
        }
    }
    if sum != (0, 0) {
        sums.insert(target.to_path_buf(), sum);
    }
    sum
}

/// Runs the operation as one rank. Each directory is passed on one rank alone.
fn run(session: &mut Session<'_>, [source, target]: &[PathBuf; 2], found: &Mutex<Sums>) {
    let both = [source.as_os_str().as_bytes(), target.as_os_str().as_bytes()];
    let each = |path: &[u8], Extra { names, bytes, failed }: &Extra| {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        assert!(*failed == 0 && found.lock().unwrap().insert(path, (*names, *bytes)).is_none());
    };
    extra(session, both, &Stop::new(), each).unwrap();
}

#[test]
fn extra_names_add_up_on_threads_and_ranks() {
    let scratch = Scratch::new("extra").unwrap();
    let trees = trees(&scratch);
    let mut sums = Sums::new();
    expected(&trees[0], &trees[1], &mut sums);
    assert!(sums.len() > 50);
    let found = Mutex::default();
    run(&mut Session::alone(Stop::new()), &trees, &found);
    assert_eq!(found.into_inner().unwrap(), sums);
    for schedule in ScheduleKind::ALL {
        let found = Mutex::default();
        std::thread::scope(|scope| {
            for mut endpoint in in_process_on_hosts(&[0, 0, 1]) {
                let (found, trees) = (&found, &trees);
                scope.spawn(move || {
                    let config = Config { schedule, ..Config::default() };
                    let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                    let mut session = joined.unwrap().unwrap().with_schedule(config);
                    run(&mut session, trees, found);
                    session.close((), |(), ()| ()).unwrap();
                });
            }
        });
        assert_eq!(found.into_inner().unwrap(), sums, "{schedule}");
    }
}

/// Counts the names of each directory with all below it, and stops its rank after some entries.
struct Stopping<'a> {
    stop: &'a Stop,
    left: &'a AtomicU64,
    closed: &'a Mutex<Vec<(PathBuf, u64)>>,
}

impl Operation for Stopping<'_> {
    type Sum = Extra;

    fn entry(&self, at: &mut At<'_, Extra>, _entry: &Entry<'_>) {
        at.add(&Extra { names: 1, ..Extra::default() });
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.stop.set();
        }
    }

    fn closed(&self, path: &[u8], sum: &Extra, _is_whole: bool) {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        self.closed.lock().unwrap().push((path, sum.names));
    }

    fn failure(&self, failure: &Failure<'_>) {
        panic!("{failure}");
    }
}

/// Names of each directory with all below it, by an oracle.
fn names(directory: &Path, all: &mut BTreeMap<PathBuf, u64>) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let count = entries.map(|path| 1 + if path.is_dir() { names(&path, all) } else { 0 }).sum();
    all.insert(directory.to_path_buf(), count);
    count
}

#[test]
fn no_sum_of_a_directory_that_a_stop_cut_off() {
    let scratch = Scratch::new("extra-stop").unwrap();
    let tree = scratch.join("tree");
    // Threads share the names of a large directory: one of them finds the end, and others have not looked at all names by then.
    for (directory, count) in [("large/below", 3000), ("small/below", 10), ("small/beside", 0)] {
        let directory = tree.join(directory);
        fs::create_dir_all(&directory).unwrap();
        for file in 0..count {
            fs::write(directory.join(file.to_string()), b"").unwrap();
        }
    }
    let mut expected = BTreeMap::new();
    let all = names(&tree, &mut expected);
    let assert_whole = |closed: Mutex<Vec<(PathBuf, u64)>>, what: &str| {
        let closed = closed.into_inner().unwrap();
        for (path, names) in &closed {
            assert_eq!(expected.get(path), Some(names), "{what}: {}", path.display());
        }
        closed.len()
    };
    let (both, two) = ([tree.as_os_str().as_bytes(); 2], NonZeroUsize::new(2).unwrap());
    let mut reported = 0;
    for after in (1..all).step_by(37) {
        let (left, closed, stop) = (AtomicU64::new(after), Mutex::default(), Stop::new());
        let stopping = Stopping { stop: &stop, left: &left, closed: &closed };
        let options = Options { stop: stop.clone(), threads: Threads::Fixed(two), ..Options::default() };
        let is_whole = trees::run(&mut Session::alone(stop.clone()), &stopping, both, &options);
        assert!(!is_whole.unwrap().unwrap(), "after {after}");
        reported += assert_whole(closed, &format!("after {after}"));
        let (left, closed) = (AtomicU64::new(after), Mutex::default());
        std::thread::scope(|scope| {
            for mut endpoint in in_process_on_hosts(&[0, 0, 1]) {
                let (left, closed) = (&left, &closed);
                scope.spawn(move || {
                    let stop = Stop::new();
                    let joined = Session::join(&mut endpoint, "test", stop.clone(), Limits::default());
                    let mut session = joined.unwrap().unwrap();
                    let options =
                        Options { stop: stop.clone(), threads: Threads::Fixed(two), ..Options::default() };
                    let stopping = Stopping { stop: &stop, left, closed };
                    let is_whole = trees::run(&mut session, &stopping, both, &options);
                    assert!(!is_whole.unwrap().unwrap(), "after {after}");
                    session.close((), |(), ()| ()).unwrap();
                });
            }
        });
        assert_whole(closed, &format!("ranks, after {after}"));
    }
    assert!(reported > 0);
}
