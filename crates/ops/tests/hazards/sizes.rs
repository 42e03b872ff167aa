//! Files with a wrong reported size, and sparse files that are too large to hash.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use atta_entry::{Class, Difference, Entry, Failure, Field, Kind};
use atta_ops::copy::{self, Existing, Fsync, Options, Reflink};
use atta_ops::digest::{Element, Hash, Signature};
use atta_ops::verify::{self, Fields};
use atta_ops::walk::Start;
use atta_ops::{sum, walk};
use atta_testkit::lock::Lock;
use atta_testkit::mounts::Mount;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;

use crate::copying::{Failures, bytes, copy, threads, try_copy};
use crate::served::{assert_no_leftovers, copy_with, names, serve, small};

/// Files that the kernel makes while they are read: of procfs, whose sizes are 0, and of sysfs, whose sizes are 4096.
const OF_THE_KERNEL: [&str; 4] =
    ["/proc/version", "/proc/cpuinfo", "/sys/kernel/address_bits", "/sys/kernel/cpu_byteorder"];

/// Gathers digests and failures.
#[derive(Default)]
struct Sums(Mutex<Found>);

/// A path with the bytes that it has and their digest.
type Summed = (PathBuf, u64, Hash);

/// What was summed up, and what failed and why.
type Found = (Vec<Summed>, Vec<(PathBuf, String)>);

impl sum::Watch for Sums {
    type Worker = ();
    type Gathered = ();

    fn worker(&self, _index: usize) {}

    fn entry(&self, _worker: &mut (), entry: &Entry<'_>, digest: Option<&Hash>) {
        if let Some(digest) = digest {
            let path = OsStr::from_bytes(&entry.path()).into();
            self.0.lock().unwrap().0.push((path, entry.size(), *digest));
        }
    }

    fn failure(&self, _worker: &mut (), failure: &Failure<'_>) {
        let path = OsStr::from_bytes(&failure.path).into();
        self.0.lock().unwrap().1.push((path, failure.to_string()));
    }
}

/// Digests of a tree, and what failed.
fn sum(root: &Path, options: &sum::Options<'_>) -> (sum::Outcome<()>, Sums) {
    let sums = Sums::default();
    (sum::run_alone(&sums, vec![Start::new(bytes(root))], options, |_| {}), sums)
}

/// Gathers differences and failures, as text.
#[derive(Default)]
struct Reported(Mutex<Vec<String>>);

impl verify::Watch for Reported {
    fn difference(&self, difference: &Difference<'_>) {
        let Difference { path, change, .. } = difference;
        self.0.lock().unwrap().push(format!("{} {change:?}", path.escape_ascii()));
    }

    fn failure(&self, failure: &Failure<'_>) {
        self.0.lock().unwrap().push(failure.to_string());
    }
}

fn verify(source: &Path, target: &Path, fields: &[Field]) -> Vec<String> {
    let reports = Reported::default();
    let fields: Fields = fields.iter().copied().collect();
    let options = verify::Options { walk: threads(2).walk, fields, ..verify::Options::default() };
    verify::run_alone(&bytes(source), &bytes(target), &options, &reports, |_| {}).unwrap();
    reports.0.into_inner().unwrap()
}

fn hashing(count: usize) -> Options<'static> {
    Options { digest: true, ..threads(count) }
}

fn signature_of(content: &[u8]) -> Hash {
    let (digest, size) = (blake3::hash(content), content.len() as u64);
    let mut signature = Signature::default();
    signature.add(&Element { path: b"", kind: Kind::File, size, digest: Some(&digest), target: None });
    signature.digest()
}

// Hazard 34.
#[test]
fn kernel_files_are_read_to_their_end() {
    let test = "kernel_files_are_read_to_their_end";
    let scratch = Scratch::new("kernel-files").unwrap();
    for (number, path) in OF_THE_KERNEL.map(Path::new).into_iter().enumerate() {
        let Some(content) = skip::unless_available(test, fs::read(path)) else { continue };
        assert_ne!(fs::metadata(path).unwrap().len(), content.len() as u64, "{}", path.display());
        for (kind, options) in [
            ("plain", threads(1)),
            ("verified", Options { verify: true, ..hashing(1) }),
            ("direct", Options { direct: true, reflink: Reflink::Always, ..threads(1) }),
        ] {
            let target = scratch.join(format!("{number}-{kind}"));
            let outcome = copy(&[path], &target, &options);
            assert!(fs::read(&target).unwrap() == content, "{} {kind}", path.display());
            assert_eq!(outcome.totals.bytes, content.len() as u64);
            let signature = outcome.signature.map(|signature| signature.digest());
            assert_eq!(signature, options.digest.then(|| signature_of(&content)), "{}", path.display());
            let fields: &[Field] = &[Field::Size, Field::Content];
            for fields in [fields, &[Field::Size]] {
                assert_eq!(verify(path, &target, fields), Vec::<String>::new());
            }
            fs::set_permissions(&target, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            fs::write(&target, "").unwrap();
            assert_eq!(verify(path, &target, fields).len(), 1, "it is not empty");
            fs::write(&target, [&content[..content.len() - 1], b"?"].concat()).unwrap();
            assert_eq!(verify(path, &target, fields).len(), 1, "its last byte is another one");
        }
        let (outcome, sums) = sum(path, &sum::Options::default());
        let (found, failed) = sums.0.into_inner().unwrap();
        assert_eq!(failed, []);
        assert_eq!(found, [(path.to_path_buf(), content.len() as u64, blake3::hash(&content))]);
        assert_eq!(outcome.signature.unwrap().digest(), signature_of(&content));
    }
}

// Hazard 34.
#[test]
fn a_file_that_says_it_is_empty_is_read_to_its_end() {
    let test = "a_file_that_says_it_is_empty_is_read_to_its_end";
    let fill = |directory: &Path| {
        let source = directory.join("source");
        small(&source);
        fs::hard_link(source.join("victim"), source.join("victim-too")).unwrap();
    };
    let Some(served) = serve(test, fill, &["lookup,stat:victim*:size=0"]) else { return };
    let (source, target) = (served.at("source"), served.scratch.join("target"));
    let content = fs::read(served.beneath("source/victim")).unwrap();
    let is_copied = || {
        for name in ["victim", "victim-too"] {
            assert!(fs::read(target.join(name)).unwrap() == content, "{name}");
        }
    };
    let verifying = || Options { verify: true, ..hashing(1) };
    let (outcome, failures) = copy_with(&source, &target, &verifying());
    assert_eq!((failures, outcome.totals.hard_links), (vec![], 1));
    assert_eq!(outcome.totals.verified_bytes, outcome.totals.bytes);
    is_copied();
    let (summed, _) = sum(&served.beneath("source"), &sum::Options::default());
    assert_eq!(outcome.signature.unwrap().digest(), summed.signature.unwrap().digest());
    assert_eq!(verify(&source, &target, &[Field::Size, Field::Content]), Vec::<String>::new());
    // What has its bytes is up to date, and what has not is none, though it is as empty and as old as the source says.
    fs::remove_file(served.beneath("source/victim-too")).unwrap();
    fs::remove_file(target.join("victim-too")).unwrap();
    let updating = Options { existing: Existing::Update, ..hashing(1) };
    let (outcome, failures) = copy_with(&source, &target, &updating);
    assert_eq!((failures, outcome.totals.files, outcome.totals.skipped), (vec![], 0, 4));
    let modified = fs::metadata(target.join("victim")).unwrap().modified().unwrap();
    let file = fs::File::create(target.join("victim")).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
    let (outcome, failures) = copy_with(&source, &target, &updating);
    assert_eq!((failures, outcome.totals.files, outcome.totals.skipped), (vec![], 1, 3));
    assert!(fs::read(target.join("victim")).unwrap() == content);
}

// Hazard 34.
#[test]
fn file_longer_than_its_size_has_changed() {
    let test = "file_longer_than_its_size_has_changed";
    let options = || {
        [
            threads(1),
            hashing(1),
            Options { chunk: Some(1 << 20), ..hashing(2) },
            Options { direct: true, ..threads(1) },
        ]
    };
    for (name, size) in
        [("victim", 10), ("victim", 1000), ("large", (5 << 20) - 1), ("large", 4 << 20), ("large", 1)]
    {
        let fill = |directory: &Path| {
            small(&directory.join("source"));
            fs::write(directory.join("source/large"), vec![b'x'; 5 << 20]).unwrap();
        };
        let rule = format!("lookup,stat:{name}:size={size}");
        let Some(served) = serve(test, fill, &[&rule]) else { return };
        for (number, options) in options().into_iter().enumerate() {
            let target = served.scratch.join(format!("{name}-{number}"));
            let (outcome, failures) = copy_with(&served.at("source"), &target, &options);
            assert_eq!(names(&failures), [name], "{rule}, {number}: {failures:?}");
            assert_eq!((failures[0].0, outcome.signature), (Class::Changed, None), "{rule}, {number}");
            assert!(!target.join(name).exists(), "{rule}, {number}");
            assert_no_leftovers(&target);
        }
        let (_, sums) = sum(&served.at("source"), &sum::Options::default());
        assert_eq!(sums.0.lock().unwrap().1.len(), 1, "{rule}");
        let failures = verify(&served.at("source"), &served.at("source"), &[Field::Content]);
        assert_eq!(failures.len(), 1, "{rule}: {failures:?}");
        assert!(failures[0].contains("EAGAIN"), "{rule}: {failures:?}");
    }
}

// Hazard 34.
#[test]
fn endless_file_is_reported_and_the_rest_copied() {
    let test = "endless_file_is_reported_and_the_rest_copied";
    let rules = ["lookup,stat:victim:size=0", "read:victim:endless"];
    let Some(served) = serve(test, |directory| small(&directory.join("source")), &rules) else { return };
    let (source, target) = (served.at("source"), served.scratch.join("target"));
    let expected = "cannot read to the end within 64 MiB: ";
    for options in [hashing(1), Options { fsync: Fsync::None, ..threads(2) }] {
        let (outcome, failures) = copy_with(&source, &target, &options);
        assert_eq!((names(&failures), outcome.totals.files), (vec!["victim".to_owned()], 3));
        assert!(failures[0].2.starts_with(expected) && failures[0].2.ends_with("(EFBIG)"), "{failures:?}");
        assert!(!target.join("victim").exists());
        assert_no_leftovers(&target);
    }
    let (outcome, sums) = sum(&source, &sum::Options::default());
    let (found, failed) = sums.0.into_inner().unwrap();
    assert_eq!((found.len(), failed.len()), (3, 1));
    assert!(failed[0].1.starts_with(expected) && outcome.signature.is_none(), "{failed:?}");
    let failures = verify(&source, &source, &[Field::Content]);
    assert!(failures.len() == 1 && failures[0].starts_with(expected), "{failures:?}");
    // The kernel's memory, which says that it has as many bytes as there are addresses.
    if fs::File::open("/proc/kcore").is_ok() {
        let core = Path::new("/proc/kcore");
        let (_, failures) = try_copy(&[core], &served.scratch.join("core"), &hashing(2)).unwrap();
        assert!(failures.len() == 1 && failures[0].2.starts_with(expected), "{failures:?}");
        assert!(!served.scratch.join("core").exists());
    }
}

// Hazard 34.
#[test]
fn file_that_would_block_is_reported() {
    let test = "file_that_would_block_is_reported";
    let log = Path::new("/proc/kmsg");
    if skip::unless_available(test, fs::File::open(log)).is_none() {
        return;
    }
    let scratch = Scratch::new("waiting").unwrap();
    let (_, failures) = try_copy(&[log], &scratch.join("log"), &hashing(1)).unwrap();
    assert!(failures.len() == 1 && failures[0].2.ends_with("(EAGAIN)"), "{failures:?}");
    assert!(!scratch.join("log").exists());
}

/// A file of so many bytes on tmpfs, with some data in it.
fn sparse(path: &Path, bytes: u64, data_at: &[u64]) {
    let file = fs::File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    data_at.iter().for_each(|at| file.write_all_at(b"data", *at).unwrap());
}

fn tmpfs(test: &str) -> Option<(Lock, Scratch, Mount)> {
    let lock = Lock::for_own_mount().expect("take the lock of mounts");
    let scratch = Scratch::new("sparse").unwrap();
    let room = skip::unless_available(test, Mount::tmpfs(scratch.path(), 64 << 20))?;
    Some((lock, scratch, room))
}

#[test]
fn file_with_too_many_holes_gets_no_digest() {
    let test = "file_with_too_many_holes_gets_no_digest";
    let Some((_lock, _scratch, room)) = tmpfs(test) else { return };
    let source = room.path().join("source");
    fs::create_dir(&source).unwrap();
    let (huge, end) = (7 << 60, (7 << 60) - 4);
    fs::write(source.join("small"), "small").unwrap();
    sparse(&source.join("holes"), huge, &[]);
    sparse(&source.join("data"), huge, &[0, 1 << 50, end]);
    sparse(&source.join("linked"), huge, &[5]);
    fs::hard_link(source.join("linked"), source.join("too")).unwrap();
    sparse(&source.join("few"), 64 << 20, &[1 << 20]);
    let targets = ["none", "one", "four"].map(|name| room.path().join(name));
    let all =
        [threads(2), Options { verify: true, ..hashing(1) }, Options { chunk: Some(1 << 20), ..hashing(4) }];
    for (target, options) in targets.iter().zip(all) {
        // More bytes in all than a number has room for: they are only counted up to that.
        let outcome = copy(&[&source], target, &options);
        let (unhashed, unread) = (3 * u64::from(options.digest), 3 * u64::from(options.verify));
        assert_eq!((outcome.totals.not_hashed, outcome.totals.not_verified), (unhashed, unread));
        assert_eq!(outcome.totals.bytes, u64::MAX);
        assert_eq!((outcome.totals.files, outcome.signature), (5, None), "it would not cover all of them");
        for name in ["holes", "data", "linked", "few"] {
            let [from, to] = [&source, target].map(|root| fs::metadata(root.join(name)).unwrap());
            assert_eq!((from.len(), from.blocks()), (to.len(), to.blocks()), "{name}");
        }
        let fields = [Field::Size, Field::Content, Field::Links];
        assert_eq!(verify(&source, target, &fields), Vec::<String>::new());
        let file = fs::File::options().write(true).open(target.join("data")).unwrap();
        file.write_all_at(b"dat!", end).unwrap();
        assert_eq!(verify(&source, target, &fields), [format!("data Different([Content({})])", end + 3)]);
        fs::remove_dir_all(target).unwrap();
    }
    let (outcome, sums) = sum(&source, &sum::Options { walk: threads(2).walk, ..sum::Options::default() });
    let (found, failed) = sums.0.into_inner().unwrap();
    assert_eq!((found.len(), failed.len(), outcome.signature), (2, 4, None));
    for (path, text) in failed {
        assert!(text.starts_with("cannot hash all holes (see --max-holes): "), "{}: {text}", path.display());
    }
}

#[test]
fn holes_are_hashed_up_to_what_is_asked_for() {
    let scratch = Scratch::new("some-holes").unwrap();
    let source = scratch.join("source");
    sparse(&source, 40 << 20, &[1 << 20]);
    let found = fs::metadata(&source).unwrap();
    let holes = found.len() - found.blocks() * 512;
    for (most, unhashed) in [(holes - 1, 1), (holes, 0)] {
        for chunk in [None, Some(1 << 20)] {
            let options = Options { hole_bytes_max: Some(most), chunk, ..hashing(2) };
            let outcome = copy(&[&source], &scratch.join("target"), &options);
            assert_eq!((outcome.totals.not_hashed, outcome.signature.is_some()), (unhashed, unhashed == 0));
            let options = sum::Options { hole_bytes_max: Some(most), chunk, ..sum::Options::default() };
            assert_eq!(sum(&source, &options).0.totals.failed(), unhashed);
        }
    }
}

/// Without that the zeros of a hole would be hashed for years.
#[test]
fn hashing_holes_ends_when_the_run_is_to_end() {
    let test = "hashing_holes_ends_when_the_run_is_to_end";
    let Some((_lock, _scratch, room)) = tmpfs(test) else { return };
    let (source, target) = (room.path().join("source"), room.path().join("target"));
    fs::create_dir(&source).unwrap();
    sparse(&source.join("holes"), 7 << 60, &[]);
    sparse(&source.join("linked"), 7 << 60, &[]);
    fs::hard_link(source.join("linked"), source.join("too")).unwrap();
    // Long after it has begun: it would not end in years.
    let stop_soon = |stop: &atta_runtime::Stop, walk: &walk::Progress| {
        if walk.elapsed.as_millis() > 300 {
            stop.set();
        }
    };
    for count in [1, 2] {
        let options = Options { hole_bytes_max: Some(u64::MAX), ..hashing(count) };
        let stop = options.walk.stop.clone();
        let failures = Failures::default();
        let observe = |progress: &copy::Progress| stop_soon(&stop, &progress.walk);
        let outcome = copy::run(&[bytes(&source)], &bytes(&target), &options, &failures, observe).unwrap();
        assert!(outcome.stopped && outcome.signature.is_none());
        assert_eq!((failures.0.into_inner().unwrap(), outcome.totals.files), (vec![], 0));
        let sums = Sums::default();
        let options = sum::Options {
            walk: threads(count).walk,
            hole_bytes_max: Some(u64::MAX),
            ..sum::Options::default()
        };
        let stop = options.walk.stop.clone();
        let observe = |progress: &sum::Progress| stop_soon(&stop, &progress.walk);
        let outcome = sum::run_alone(&sums, vec![Start::new(bytes(&source))], &options, observe);
        assert!(outcome.stopped && outcome.signature.is_none());
        assert_eq!(sums.0.into_inner().unwrap(), (vec![], vec![]));
    }
}

#[test]
fn verify_of_copies_keeps_access_times() {
    let test = "verify_of_copies_keeps_access_times";
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let fill = |source: &Path| {
        small(source);
        fs::write(source.join("large"), vec![b'x'; 3 << 20]).unwrap();
        fs::write(source.join("linked"), "linked").unwrap();
        fs::hard_link(source.join("linked"), source.join("too")).unwrap();
    };
    let names = ["a", "victim", "z", "sub/inner", "large", "linked", "too"];
    // As its owner; where that is not taken; and where what is read back is written once more.
    for rules in [&[][..], &["open:victim:EPERM:times=1"], &["write:victim:flip:times=1"]] {
        let Some(served) = serve(test, |_| {}, rules) else { return };
        let source = served.scratch.join("source");
        fill(&source);
        for name in names {
            let times = fs::FileTimes::new().set_accessed(old);
            fs::File::open(source.join(name)).unwrap().set_times(times).unwrap();
        }
        let target = served.at("target");
        let options = Options { verify: true, chunk: Some(1 << 20), ..hashing(2) };
        let (outcome, failures) = copy_with(&source, &target, &options);
        assert_eq!(failures, []);
        assert_eq!(outcome.totals.verified_bytes, outcome.totals.bytes);
        for name in names {
            let accessed = fs::metadata(served.beneath("target").join(name)).unwrap().accessed().unwrap();
            assert_eq!(accessed, old, "{name}, {rules:?}");
        }
    }
}
