//! What the tests of the walk share: a visitor that keeps all it gets, comparison with the oracle, and walks in a
//! process of their own. It decides nothing about what is right.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use atta_entry::{Entry, Errno, Failure, Kind, Metadata, Operation};
use atta_ops::walk::{self, Options, Outcome, Profile, Start, Tasks, ThreadReport, Visit};
use atta_runtime::{SpillReport, Threads};
use atta_testkit::oracle::{self, Record};
use atta_testkit::scratch::Scratch;
use rustix::process::{Resource, Rlimit, setrlimit};

/// A walk that takes longer hangs: it is stopped and the test fails. Far above what any of them takes.
const PATIENCE: Duration = Duration::from_secs(180);

/// The variable that marks a child process and holds its task.
const CHILD: &str = "ATTA_WALK_TEST";

/// An entry as the visitor got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) depth: u32,
    pub(crate) kind: Kind,
    pub(crate) inode: u64,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) target: Option<Vec<u8>>,
    /// The path below the root, as `root_bytes` has it.
    pub(crate) below: Vec<u8>,
    /// How often this path was handed over.
    pub(crate) times: u32,
}

/// A failure with its path as text and its error by name: what a test compares.
pub(crate) type Failed = (Operation, PathBuf, String);

/// What a walk gave.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) found: BTreeMap<Vec<u8>, Found>,
    pub(crate) failures: Vec<Failure<'static>>,
    pub(crate) threads: Vec<ThreadReport>,
    pub(crate) profile: Profile,
    pub(crate) spill: SpillReport,
    pub(crate) stopped: bool,
    /// The most threads that were wanted at a time.
    pub(crate) threads_wanted: usize,
}

impl Walked {
    /// The paths in order.
    pub(crate) fn paths(&self) -> Vec<Vec<u8>> {
        self.found.keys().cloned().collect()
    }

    /// The failures in order.
    pub(crate) fn failed(&self) -> Vec<Failed> {
        let mut failed: Vec<_> = self.failures.iter().map(failed).collect();
        failed.sort();
        failed
    }

    /// Panics unless each entry came once and nothing failed.
    pub(crate) fn assert_whole(&self) {
        assert_eq!(self.failed(), []);
        self.assert_once();
    }

    /// Panics if an entry came twice.
    pub(crate) fn assert_once(&self) {
        let twice: Vec<_> = self.found.iter().filter(|(_, found)| found.times != 1).collect();
        assert!(twice.is_empty(), "more than once: {twice:?}");
        assert_eq!(self.profile.entries, self.found.len() as u64, "{:?}", self.profile);
        assert_eq!(self.profile.failures, self.failures.len() as u64, "{:?}", self.profile);
    }

    pub(crate) fn get(&self, path: &Path) -> &Found {
        self.found.get(path.as_os_str().as_bytes()).unwrap_or_else(|| panic!("no {}", path.display()))
    }

    pub(crate) fn has(&self, path: &Path) -> bool {
        self.found.contains_key(path.as_os_str().as_bytes())
    }
}

/// A directory in memory where there is such a place: trees of thousands of entries come and go quickly there. What a
/// disk's file system does differently is the subject of `file_systems.rs`.
pub(crate) fn scratch(label: &str) -> Scratch {
    let in_memory = Scratch::below(Path::new("/dev/shm"), label);
    in_memory.or_else(|_| Scratch::new(label)).expect("a directory for the test")
}

pub(crate) fn failed(failure: &Failure<'static>) -> Failed {
    (failure.operation, path_of(&failure.path), failure.errno.label())
}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

pub(crate) fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// Keeps everything; leaves a directory out of the walk if `prune` says so.
pub(crate) struct Collect<P> {
    pub(crate) prune: P,
}

#[derive(Debug, Default)]
pub(crate) struct Collected {
    found: Vec<(Vec<u8>, Found)>,
    failures: Vec<Failure<'static>>,
}

impl<P: Fn(&Entry<'_>) -> bool + Sync> Visit for Collect<P> {
    type Results = ();
    type Worker = Collected;

    fn worker(&self, _index: usize) -> Collected {
        Collected::default()
    }

    fn entry(&self, worker: &mut Collected, entry: &Entry<'_>, tasks: &mut Tasks) {
        let path = entry.path();
        let root_bytes = if entry.depth == 0 { path.len() } else { entry.root_bytes };
        let below = path[root_bytes..].strip_prefix(b"/").unwrap_or(&path[root_bytes..]).to_vec();
        let found = Found {
            depth: entry.depth,
            kind: entry.kind,
            inode: entry.inode,
            metadata: entry.metadata.copied(),
            target: entry.target.map(<[u8]>::to_vec),
            below,
            times: 1,
        };
        worker.found.push((path, found));
        if (self.prune)(entry) {
            tasks.prune();
        }
    }

    fn failure(&self, worker: &mut Collected, failure: &Failure<'_>) {
        worker.failures.push(Failure {
            operation: failure.operation,
            root: failure.root.clone().into_owned().into(),
            path: failure.path.clone().into_owned().into(),
            errno: failure.errno,
            spelled: failure.spelled.clone().map(|name| name.into_owned().into()),
            at: failure.at.clone().map(|path| path.into_owned().into()),
        });
    }
}

/// Walks one root and keeps everything.
pub(crate) fn walk(root: &Path, options: &Options<'_>) -> Walked {
    walk_starts([Start::new(bytes_of(root))], options)
}

/// Walks and keeps everything.
pub(crate) fn walk_starts<'a>(
    starts: impl IntoIterator<Item = Start, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
) -> Walked {
    let visit = Collect { prune: |_: &Entry<'_>| false };
    walk_with(&visit, starts, options)
}

/// Walks with a visitor that may prune.
pub(crate) fn walk_with<'a, P: Fn(&Entry<'_>) -> bool + Sync>(
    visit: &'a Collect<P>,
    starts: impl IntoIterator<Item = Start, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
) -> Walked {
    let stop = options.stop.clone();
    let mut threads_wanted = 0;
    let outcome = walk::run(visit, starts, options, |progress| {
        threads_wanted = threads_wanted.max(progress.threads);
        if progress.elapsed > PATIENCE {
            stop.set();
        }
    });
    assert!(outcome.elapsed < PATIENCE, "the walk did not end: {:?}", outcome.profile);
    gather(outcome, threads_wanted)
}

fn gather(outcome: Outcome<Collected>, threads_wanted: usize) -> Walked {
    let mut walked = Walked {
        found: BTreeMap::new(),
        failures: Vec::new(),
        threads: outcome.threads,
        profile: outcome.profile,
        spill: outcome.spill,
        stopped: outcome.stopped,
        threads_wanted,
    };
    for worker in outcome.workers {
        walked.failures.extend(worker.failures);
        for (path, found) in worker.found {
            walked.found.entry(path).and_modify(|known| known.times += 1).or_insert(found);
        }
    }
    walked
}

pub(crate) fn threads(count: usize) -> Options<'static> {
    Options { threads: fixed(count), ..Options::default() }
}

pub(crate) fn fixed(count: usize) -> Threads {
    NonZeroUsize::new(count).map_or(Threads::Auto, Threads::Fixed)
}

/// Panics unless the walk found what the oracle finds, each entry once, with equal metadata, and nothing failed.
pub(crate) fn assert_as_oracle(root: &Path, walked: &Walked) {
    walked.assert_whole();
    assert_equal(&oracle::list(root).expect("the oracle's list"), walked);
}

/// Panics unless the walk found these records and no others.
pub(crate) fn assert_equal(expected: &BTreeMap<Vec<u8>, Record>, walked: &Walked) {
    assert_same_paths(expected.keys(), walked);
    for (path, record) in expected {
        let found = &walked.found[path];
        let metadata = found.metadata.unwrap_or_else(|| panic!("no metadata of {}", escaped(path)));
        assert_eq!(&as_oracle(found, &metadata), &comparable(record), "{}", escaped(path));
    }
}

/// Panics unless the walk found these paths and no others.
pub(crate) fn assert_same_paths<'p>(expected: impl Iterator<Item = &'p Vec<u8>> + Clone, walked: &Walked) {
    let missing: Vec<_> =
        expected.clone().filter(|path| !walked.found.contains_key(*path)).map(|path| escaped(path)).collect();
    assert!(missing.is_empty(), "not found: {missing:?}");
    let expected: std::collections::BTreeSet<_> = expected.collect();
    let surplus: Vec<_> =
        walked.found.keys().filter(|path| !expected.contains(path)).map(|path| escaped(path)).collect();
    assert!(surplus.is_empty(), "found but not there: {surplus:?}");
}

pub(crate) fn escaped(path: &[u8]) -> String {
    atta_entry::escape(path).to_string()
}

/// The letter of `find -printf %y`.
pub(crate) fn letter(kind: Kind) -> char {
    match kind {
        Kind::File => 'f',
        other => other.letter(),
    }
}

fn as_oracle(found: &Found, metadata: &Metadata) -> Record {
    Record {
        kind: letter(found.kind),
        mode: metadata.mode & 0o7777,
        uid: metadata.uid,
        gid: metadata.gid,
        nlink: u64::from(metadata.nlink),
        size: metadata.size,
        blocks: metadata.blocks,
        ino: metadata.inode,
        dev: metadata.device,
        rdev: 0,
        mtime_sec: metadata.mtime.seconds,
        mtime_nsec: metadata.mtime.nanoseconds,
        target: found.target.clone(),
        unread: None,
    }
}

/// The record with the device number as the walk reports it, and without the fields that a walk does not report.
fn comparable(record: &Record) -> Record {
    let dev = u64::from(rustix::fs::major(record.dev)) << 32 | u64::from(rustix::fs::minor(record.dev));
    Record { dev, rdev: 0, ..record.clone() }
}

/// Options with which targets are read: the oracle has them, too.
pub(crate) fn with_targets() -> Options<'static> {
    Options { targets: true, ..Options::default() }
}

/// Runs the ignored test `name` of this program in a process of its own and returns what it printed.
///
/// # Panics
/// When it fails.
pub(crate) fn in_child(name: &str, argument: &OsStr) -> String {
    let output: Output = child(name, argument).output().expect("run a child process");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}:\n{said}\n{complaint}", output.status);
    assert!(said.contains("1 passed"), "{name} did not run:\n{said}");
    said
}

/// A process that runs one ignored test of this program.
pub(crate) fn child(name: &str, argument: &OsStr) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]).env(CHILD, argument);
    command
}

/// The same without `/proc`: in a separate mount namespace, so other processes are not affected.
pub(crate) fn child_without_proc(name: &str, argument: &OsStr) -> Command {
    let plain = child(name, argument);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", "mount -t tmpfs none /proc; exec \"$@\"", "sh"]);
    command.arg(plain.get_program()).args(plain.get_args()).env(CHILD, argument);
    command
}

/// What the parent gave to this process; none if it is no child.
pub(crate) fn child_argument() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Lowers this process's limit of open descriptors for good. Only for a child process.
pub(crate) fn limit_descriptors(count: u64) {
    assert!(child_argument().is_some(), "other tests need their descriptors");
    let limit = Rlimit { current: Some(count), maximum: Some(count) };
    setrlimit(Resource::Nofile, limit).expect("lower the limit of descriptors");
}

/// How many descriptors this process has open.
pub(crate) fn open_descriptors() -> usize {
    use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
    let directory = openat(CWD, "/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
    // When there is no descriptor left to count with, all are open.
    directory.ok().and_then(|directory| Dir::new(directory).ok()).map_or(usize::MAX, Iterator::count)
}

/// The number behind `key` in what a child printed.
pub(crate) fn number(said: &str, key: &str) -> u64 {
    let value = said.lines().find_map(|line| line.split_once(key)?.1.split_whitespace().next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {key} in:\n{said}"))
}

/// The most memory that this process ever held, in kilobytes.
pub(crate) fn peak_memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    number(&status, "VmHWM:")
}

pub(crate) fn is(failure: &Failure<'_>, operation: Operation, errno: Errno) -> bool {
    (failure.operation, failure.errno) == (operation, errno)
}
