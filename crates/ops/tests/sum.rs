//! Digests are those that a simple program finds, whatever the tree, the threads and the chunks; the signature is that of a copy.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

mod copying;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use atta_entry::{Class, Entry, Failure, Kind};
use atta_ops::copy;
use atta_ops::digest::{Element, Hash, Signature};
use atta_ops::sum::{self, Options, Outcome, Watch};
use atta_ops::walk::{self, Start};
use atta_runtime::Threads;
use atta_testkit::scratch::Scratch;
use atta_testkit::{oracle, skip, trees};

/// Keeps all that is found.
struct Keep;

/// A path with its kind, its size and its digest.
type Found = (Vec<u8>, Kind, u64, Option<Hash>);

/// What one thread found, and what failed.
#[derive(Debug, Default)]
struct Kept {
    entries: Vec<Found>,
    failures: Vec<(Class, PathBuf)>,
}

impl Watch for Keep {
    type Worker = Kept;
    type Gathered = ();

    fn worker(&self, _index: usize) -> Kept {
        Kept::default()
    }

    fn entry(&self, kept: &mut Kept, entry: &Entry<'_>, digest: Option<&Hash>) {
        let size = if entry.kind == Kind::File { entry.size() } else { 0 };
        kept.entries.push((entry.path(), entry.kind, size, digest.copied()));
    }

    fn failure(&self, kept: &mut Kept, failure: &Failure<'_>) {
        kept.failures.push((failure.class(), OsStr::from_bytes(&failure.path).into()));
    }
}

impl copy::Watch for Keep {
    fn failure(&self, failure: &Failure<'_>) {
        panic!("{failure}");
    }
}

fn walk_with(count: usize) -> walk::Options<'static> {
    let threads = Threads::Fixed(NonZeroUsize::new(count).unwrap());
    walk::Options { threads, ..walk::Options::default() }
}

fn options(count: usize, chunk: Option<u64>) -> Options<'static> {
    Options { walk: walk_with(count), chunk, ..Options::default() }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn run(root: &Path, options: &Options<'_>) -> (Outcome<Kept>, Kept) {
    let mut outcome = sum::run_alone(&Keep, vec![Start::new(bytes(root))], options, |_| {});
    let mut all = Kept::default();
    for kept in outcome.workers.drain(..) {
        all.entries.extend(kept.entries);
        all.failures.extend(kept.failures);
    }
    all.entries.sort_by(|one, other| one.0.cmp(&other.0));
    (outcome, all)
}

/// The digest of a file's bytes, read one after the other.
fn plain(path: &Path) -> Hash {
    let mut hasher = blake3::Hasher::new();
    std::io::copy(&mut File::open(path).unwrap(), &mut hasher).unwrap();
    hasher.finalize()
}

/// All that is to be found, and its signature, by the oracle and one entry after the other.
fn expected(root: &Path) -> (Vec<Found>, Hash) {
    let mut signature = Signature::default();
    let start = bytes(root).len();
    let listed: BTreeMap<_, _> = oracle::list(root).unwrap();
    let entries = listed.into_iter().map(|(path, record)| {
        let kind = Kind::ALL.into_iter().find(|kind| of_letter(*kind) == record.kind).unwrap();
        let size = if kind == Kind::File { record.size } else { 0 };
        let digest = (kind == Kind::File).then(|| plain(Path::new(OsStr::from_bytes(&path))));
        let below = path[start..].strip_prefix(b"/").unwrap_or(&path[start..]);
        let target = record.target.as_deref();
        signature.add(&Element { path: below, kind, size, digest: digest.as_ref(), target });
        (path, kind, size, digest)
    });
    let entries = entries.collect();
    (entries, signature.digest())
}

/// As `find -printf %y` has it.
fn of_letter(kind: Kind) -> char {
    match kind {
        Kind::File => 'f',
        other => other.letter(),
    }
}

/// Sizes around all that is cut anywhere.
const SIZES: [u64; 16] = [
    0,
    1,
    1023,
    1024,
    1025,
    2048,
    4097,
    (64 << 10) - 1,
    64 << 10,
    (64 << 10) + 1,
    (256 << 10) - 1,
    (256 << 10) + 1,
    (1 << 20) + 1,
    (3 << 20) - 1,
    (16 << 20) + 1,
    (33 << 20) - 5,
];

/// Files of these sizes: all data, all hole, and holes at either end.
fn sizes(directory: &Path) {
    fs::create_dir(directory).unwrap();
    for size in SIZES {
        let data: Vec<u8> = (0..size).map(|at| (at * 7 + size) as u8 | 1).collect();
        fs::write(directory.join(format!("data-{size}")), &data).unwrap();
        let hole = File::create(directory.join(format!("hole-{size}"))).unwrap();
        hole.set_len(size).unwrap();
        for (name, at) in [("first", 0), ("middle", size / 2), ("last", size.saturating_sub(9_000))] {
            let file = File::create(directory.join(format!("{name}-{size}"))).unwrap();
            file.set_len(size).unwrap();
            let end = (at + 9_000).min(size);
            file.write_all_at(&data[at as usize..end as usize], at).unwrap();
        }
    }
}

/// What a copy of it has as its signature.
fn copied(tree: &Path, target: &Path, chunk: Option<u64>) -> Hash {
    let options = copy::Options { walk: walk_with(2), digest: true, chunk, ..copy::Options::default() };
    let copied = copy::run(&[bytes(tree)], &bytes(target), &options, &Keep, |_| {}).unwrap();
    copied.signature.unwrap().digest()
}

#[test]
fn digests_of_hostile_trees_match_a_simple_program() {
    let scratch = Scratch::new("sum").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    trees::kinds(&tree.join("kinds"), &scratch.join("outside")).unwrap();
    trees::hostile_names(&tree.join("names")).unwrap();
    trees::random(&tree.join("random"), 11, 300).unwrap();
    trees::flat(&tree.join("flat"), 400).unwrap();
    symlink(b"\xff/\n".as_slice().as_os(), tree.join("link")).unwrap();
    fs::hard_link(tree.join("flat").join(first_name(&tree.join("flat"))), tree.join("other name")).unwrap();
    let (entries, signature) = expected(&tree);
    for count in [1, 2, 8] {
        let (outcome, kept) = run(&tree, &options(count, None));
        assert_eq!(kept.failures, []);
        assert_eq!(kept.entries, entries);
        assert_eq!(outcome.signature.unwrap().digest(), signature);
        assert_eq!(outcome.totals.entries() as usize, entries.len());
    }
    assert_eq!(copied(&tree, &scratch.join("copy"), None), signature);
    let (outcome, _) = run(&scratch.join("copy"), &options(2, None));
    assert_eq!(outcome.signature.unwrap().digest(), signature);
}

trait AsOs {
    fn as_os(&self) -> &OsStr;
}

impl AsOs for [u8] {
    fn as_os(&self) -> &OsStr {
        OsStr::from_bytes(self)
    }
}

fn first_name(directory: &Path) -> std::ffi::OsString {
    fs::read_dir(directory).unwrap().next().unwrap().unwrap().file_name()
}

#[test]
fn digests_do_not_depend_on_chunks_or_threads() {
    let scratch = Scratch::new("sum").unwrap();
    let tree = scratch.join("tree");
    sizes(&tree);
    let (entries, signature) = expected(&tree);
    for (count, chunk) in
        [(1, None), (8, None), (2, Some(1024)), (8, Some(16 << 10)), (2, Some(1 << 20)), (1, Some(16 << 20))]
    {
        let (outcome, kept) = run(&tree, &options(count, chunk));
        assert_eq!(kept.entries, entries, "{count} threads, {chunk:?}");
        assert_eq!(outcome.signature.unwrap().digest(), signature);
        assert_eq!(outcome.totals.bytes, entries.iter().map(|entry| entry.2).sum::<u64>());
    }
    assert_eq!(copied(&tree, &scratch.join("copy"), Some(1 << 20)), signature);
}

#[test]
fn what_waits_in_a_file_is_hashed_all_the_same() {
    let scratch = Scratch::new("sum").unwrap();
    let tree = scratch.join("tree");
    sizes(&tree);
    trees::random(&tree.join("random"), 3, 2_000).unwrap();
    let (entries, signature) = expected(&tree);
    let mut options = options(2, Some(64 << 10));
    options.walk.memory_bytes = 4096;
    let (outcome, kept) = run(&tree, &options);
    assert_eq!(kept.entries, entries);
    assert_eq!(outcome.signature.unwrap().digest(), signature);
}

#[test]
fn root_that_is_a_file_has_its_own_signature() {
    let scratch = Scratch::new("sum").unwrap();
    let path = scratch.join("file");
    fs::write(&path, "content").unwrap();
    let (digest, size, signature) = sum::of_reader(File::open(&path).unwrap()).unwrap();
    assert_eq!((digest, size), (blake3::hash(b"content"), 7));
    for chunk in [None, Some(1024)] {
        let (outcome, kept) = run(&path, &options(2, chunk));
        assert_eq!(kept.entries, [(bytes(&path), Kind::File, 7, Some(digest))]);
        assert_eq!(outcome.signature.unwrap().digest(), signature.digest());
    }
    fs::write(&path, vec![b'x'; 100_000]).unwrap();
    let (outcome, kept) = run(&path, &options(2, Some(1024)));
    assert_eq!(kept.entries, [(bytes(&path), Kind::File, 100_000, Some(plain(&path)))]);
    let (_, _, signature) = sum::of_reader(File::open(&path).unwrap()).unwrap();
    assert_eq!(outcome.signature.unwrap().digest(), signature.digest());
}

#[test]
fn hard_linked_file_is_read_once() {
    let scratch = Scratch::new("sum").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    for file in 0..20_usize {
        let first = tree.join(format!("{file}-0"));
        fs::write(&first, vec![file as u8; 5000]).unwrap();
        (1..5).for_each(|name| fs::hard_link(&first, tree.join(format!("{file}-{name}"))).unwrap());
    }
    fs::hard_link(tree.join("7-0"), scratch.join("outside")).unwrap();
    let (entries, signature) = expected(&tree);
    for chunk in [None, Some(1024)] {
        let (outcome, kept) = run(&tree, &options(1, chunk));
        assert_eq!(kept.entries, entries);
        assert_eq!(outcome.signature.unwrap().digest(), signature);
        // In chunks other names are planned before the first one is done.
        assert!(outcome.totals.known == 80 || chunk.is_some(), "{}", outcome.totals.known);
    }
    // Nothing is remembered from run to run.
    fs::write(tree.join("3-1"), vec![99; 5000]).unwrap();
    let (entries, signature) = expected(&tree);
    let (outcome, kept) = run(&tree, &options(8, None));
    assert_eq!(kept.entries, entries);
    assert_eq!(outcome.signature.unwrap().digest(), signature);
}

#[test]
fn only_named_entries_are_summed() {
    let scratch = Scratch::new("sum").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/file"), "file").unwrap();
    let options = Options { enters: false, ..options(2, None) };
    let (_, kept) = run(&tree, &options);
    assert_eq!(kept.entries.len(), 1);
    let start = Start { root: bytes(&tree), below: Some(b"a/file".to_vec()) };
    let outcome = sum::run_alone(&Keep, vec![start], &options, |_| {});
    let kept: Vec<_> = outcome.workers.into_iter().flat_map(|kept| kept.entries).collect();
    assert_eq!(kept, [(bytes(&tree.join("a/file")), Kind::File, 4, Some(blake3::hash(b"file")))]);
}

#[test]
fn the_metadata_is_that_of_the_file_that_was_read() {
    struct Look;
    impl Watch for Look {
        type Worker = Vec<(u64, u64, u64, bool)>;
        type Gathered = ();
        fn worker(&self, _index: usize) -> Self::Worker {
            Vec::new()
        }
        fn entry(&self, seen: &mut Self::Worker, entry: &Entry<'_>, _digest: Option<&Hash>) {
            let found = entry.metadata.unwrap();
            seen.push((found.inode, found.size, u64::from(found.nlink), found.btime.is_some()));
        }
        fn failure(&self, _seen: &mut Self::Worker, failure: &Failure<'_>) {
            panic!("{failure}");
        }
    }
    let scratch = Scratch::new("sum").unwrap();
    let path = scratch.join("file");
    fs::write(&path, vec![1; 5000]).unwrap();
    fs::hard_link(&path, scratch.join("other")).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let has_btime = fs::metadata(&path).unwrap().created().is_ok();
    for chunk in [None, Some(1024)] {
        let outcome = sum::run_alone(&Look, vec![Start::new(bytes(&path))], &options(1, chunk), |_| {});
        assert_eq!(outcome.workers.concat(), [(inode, 5000, 2, has_btime)]);
    }
}

#[test]
fn changing_file_is_reported_and_has_no_digest() {
    let scratch = Scratch::new("sum").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("still"), "still").unwrap();
    for (name, chunk) in [("whole", Some(1 << 30)), ("chunks", Some(1024))] {
        let path = tree.join(name);
        fs::write(&path, vec![0; 40 << 20]).unwrap();
        let end = AtomicBool::new(false);
        let began = std::sync::Barrier::new(2);
        let (outcome, kept) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::options().write(true).open(&path).unwrap();
                let mut round = 0_u64;
                while !end.load(Ordering::Relaxed) {
                    round += 1;
                    // The size as well: the clock of file times may stand still between two of them.
                    file.set_len((40 << 20) + round % 1000).unwrap();
                    if round == 1 {
                        began.wait();
                    }
                }
            });
            began.wait();
            let ran = run(&path, &options(2, chunk));
            end.store(true, Ordering::Relaxed);
            ran
        });
        assert_eq!(kept.failures, [(Class::Changed, path.clone())]);
        assert_eq!((kept.entries.len(), outcome.totals.changed), (0, 1));
        assert!(outcome.signature.is_none());
        let (outcome, kept) = run(&tree, &options(2, chunk));
        assert_eq!((kept.failures.len(), outcome.totals.changed), (0, 0));
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn unreadable_entry_is_reported_and_pipes_not_opened() {
    let scratch = Scratch::new("sum").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    symlink("nowhere", tree.join("link")).unwrap();
    let (outcome, kept) = run(&tree, &options(2, None));
    assert_eq!((kept.failures.len(), outcome.totals.specials, outcome.totals.symlinks), (0, 2, 1));
    assert!(kept.entries.iter().all(|entry| entry.3.is_none()));
    // What is not there at all.
    let (outcome, kept) = run(&tree.join("none"), &options(2, None));
    assert_eq!(kept.failures, [(Class::Vanished, tree.join("none"))]);
    assert!(outcome.signature.is_none());
    fs::write(tree.join("secret"), "secret").unwrap();
    rustix::fs::chmod(tree.join("secret"), rustix::fs::Mode::empty()).unwrap();
    // Root can read files regardless of their modes; other users skip this.
    if skip::is_root() {
        std::os::unix::fs::chown(scratch.join(""), Some(65534), None).unwrap();
    }
    let read = || run(&tree, &options(2, None));
    let (outcome, kept) = if skip::is_root() { copying::as_nobody(read) } else { read() };
    assert_eq!(kept.failures, [(Class::Permission, tree.join("secret"))]);
    assert!(outcome.signature.is_none());
}

#[test]
fn remembered_holes_belong_to_their_file_and_place() {
    let scratch = Scratch::new("sum").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    let size = 200 << 20;
    for number in 0..3_u64 {
        let file = File::create(tree.join(number.to_string())).unwrap();
        file.set_len(size + number).unwrap();
        file.write_all_at(&[7; 4096], number * (33 << 20)).unwrap();
    }
    let (entries, signature) = expected(&tree);
    for chunk in [None, Some(64 << 20), Some(128 << 20)] {
        let (outcome, kept) = run(&tree, &options(2, chunk));
        assert_eq!(kept.entries, entries);
        assert_eq!(outcome.signature.unwrap().digest(), signature);
    }
}
