//! Row 35 and its neighbours: entries that exist in the target, made by somebody else or left by an earlier run, and what
//! `--update`, `--ignore-existing` and `--in-place` may do to them.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use atta_entry::{Class, Difference, Failure};
use atta_ops::copy::{Existing, Options, Outcome};
use atta_ops::verify;
use atta_testkit::lock::Lock;
use atta_testkit::mounts::loop_image;
use atta_testkit::scratch::Scratch;
use atta_testkit::{oracle, skip};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, mknodat, utimensat};

use crate::copying::{
    access_list, as_nobody, assert_same, bytes, copy, extended, make, set_extended, threads, try_copy,
};

const LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn set_time(path: &Path, nanoseconds: i64) {
    let time = Timespec { tv_sec: 1_000_000_001, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A file with these bytes, of this user and mode, and with the time that all such files have.
fn file(path: &Path, content: &str, user: u32, mode: u32) {
    fs::write(path, content).unwrap();
    chown(path, Some(user), Some(user)).unwrap();
    set_mode(path, mode);
    set_time(path, 123_456_789);
}

/// `cap_net_raw`, permitted and effective.
fn capability() -> Vec<u8> {
    [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat()
}

fn existing(existing: Existing) -> Options<'static> {
    Options { existing, ..threads(2) }
}

fn update(source: &Path, target: &Path) -> Outcome {
    copy(&[&source.join(".")], target, &existing(Existing::Update))
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

#[derive(Default)]
struct Differences(Mutex<Vec<String>>);

impl verify::Watch for Differences {
    fn difference(&self, difference: &Difference<'_>) {
        self.0.lock().unwrap().push(format!("{difference:?}"));
    }

    fn failure(&self, failure: &Failure<'_>) {
        self.0.lock().unwrap().push(failure.to_string());
    }
}

/// What `verify` finds, bytes of files included.
fn differences(source: &Path, target: &Path) -> Vec<String> {
    let found = Differences::default();
    let fields = verify::Fields::default().with(atta_entry::Field::Content);
    let options = verify::Options { fields, ..verify::Options::default() };
    verify::run_alone(&bytes(source), &bytes(target), &options, &found, |_| {}).unwrap();
    found.0.into_inner().unwrap()
}

/// What a set-uid program of root, a file with a capability and others are in the source, and what somebody else has put in their
/// place in his directory: of the same size and with the same time.
fn forged(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let (source, target) = (make(&scratch.join("source")), make(&scratch.join("target")));
    chown(&target, Some(1000), Some(1000)).unwrap();
    for (name, user, mode, there) in [
        ("set-uid", 0, 0o4755, 1000),
        ("set-gid", 0, 0o2755, 0),
        ("owned", 2000, 0o644, 1000),
        ("able", 0, 0o755, 0),
        ("trusted", 0, 0o644, 0),
        ("labelled", 0, 0o644, 0),
        ("group", 0, 0o2755, 0),
    ] {
        file(&source.join(name), "good", user, mode);
        file(&target.join(name), "evil", there, if name == "group" { 0o2755 } else { 0o644 });
    }
    chown(target.join("group"), None, Some(1000)).unwrap();
    set_mode(&target.join("group"), 0o2755);
    set_extended(&source.join("able"), "security.capability", &capability());
    set_extended(&source.join("trusted"), "trusted.one", b"1");
    set_extended(&source.join("labelled"), "security.label", b"high");
    (source, target)
}

// Hazard 35.
#[test]
fn update_gives_no_rights_to_bytes_of_others() {
    let test = "update_gives_no_rights_to_bytes_of_others";
    if !skip::is_root() {
        return skip::skipped(test, "it needs several users");
    }
    let scratch = Scratch::new("forged").unwrap();
    let (source, target) = forged(&scratch);
    let names: Vec<_> = fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let before: Vec<_> = names.iter().map(|name| fs::File::open(target.join(name)).unwrap()).collect();
    let was: Vec<_> = before.iter().map(|file| file.metadata().unwrap()).collect();
    let outcome = update(&source, &target);
    for (name, (file, was)) in names.iter().zip(before.iter().zip(&was)) {
        assert_eq!(fs::read_to_string(target.join(name)).unwrap(), "good", "{}", name.display());
        let now = file.metadata().unwrap();
        assert_eq!((now.uid(), now.gid(), now.mode()), (was.uid(), was.gid(), was.mode()));
    }
    assert_same(&source, &target);
    assert_eq!((outcome.totals.files, outcome.totals.skipped), (names.len() as u64, 0));
    // What this process has made itself is a copy.
    let outcome = update(&source, &target);
    assert_eq!((outcome.totals.files, outcome.totals.skipped), (0, names.len() as u64));
}

// Hazard 35.
#[test]
fn update_does_not_link_files_of_others() {
    let test = "update_does_not_link_files_of_others";
    if !skip::is_root() {
        return skip::skipped(test, "it needs several users");
    }
    let scratch = Scratch::new("forged-links").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    for tree in [&source, &target] {
        make(&tree.join("a"));
        make(&tree.join("b"));
    }
    chown(target.join("a"), Some(1000), Some(1000)).unwrap();
    file(&source.join("a/file"), "good", 0, 0o644);
    fs::hard_link(source.join("a/file"), source.join("b/file")).unwrap();
    file(&target.join("a/file"), "evil", 1000, 0o644);
    let forged = inode(&target.join("a/file"));
    update(&source, &target);
    for name in ["a/file", "b/file"] {
        assert_eq!(fs::read_to_string(target.join(name)).unwrap(), "good", "{name}");
        assert_ne!(inode(&target.join(name)), forged, "{name}");
    }
    assert_same(&source, &target);
}

/// Neither the owners of others nor capabilities are a user's to give: what a copy could not get either makes none necessary.
#[test]
fn ungivable_attributes_cause_no_copy_again() {
    let test = "ungivable_attributes_cause_no_copy_again";
    if !skip::is_root() {
        return skip::skipped(test, "it needs several users");
    }
    let scratch = Scratch::new("not-given").unwrap();
    set_mode(scratch.path(), 0o755);
    let (source, target) = (make(&scratch.join("source")), make(&scratch.join("target")));
    chown(&target, Some(65534), Some(65534)).unwrap();
    for (name, user, mode) in [("root", 0, 0o644), ("set-uid", 0, 0o4755), ("other", 2000, 0o2755)] {
        file(&source.join(name), name, user, mode);
    }
    file(&source.join("able"), "able", 0, 0o755);
    set_extended(&source.join("able"), "security.capability", &capability());
    fs::hard_link(source.join("root"), source.join("root-again")).unwrap();
    symlink("root", source.join("link")).unwrap();
    mknodat(CWD, source.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    // Of another user, who has also another mode: it can be replaced, and once is enough.
    file(&target.join("other"), "other", 2000, 0o600);
    let run = || {
        as_nobody(|| {
            let options = existing(Existing::Update);
            let (outcome, failures) = try_copy(&[&source.join(".")], &target, &options).unwrap();
            assert_eq!(failures, []);
            outcome.totals
        })
    };
    assert_eq!(run().files, 4);
    let before: Vec<_> = stamps(&target);
    let totals = run();
    assert_eq!((totals.files, totals.bytes, totals.skipped), (0, 0, 7));
    assert_eq!((totals.symlinks, totals.specials, totals.hard_links), (0, 0, 0));
    assert_eq!(stamps(&target), before);
    let not_kept = totals.not_kept;
    assert!(not_kept.owners >= 6 && not_kept.set_id_bits >= 2 && not_kept.extended >= 1, "{not_kept:?}");
}

/// Inodes of all entries, but of the tree itself, and times of change; not of files with several names: each run links them.
fn stamps(tree: &Path) -> Vec<(Vec<u8>, u64, i64, i64)> {
    let all = oracle::list(tree).unwrap().into_keys();
    let stamp = |path: Vec<u8>| {
        let found = fs::symlink_metadata(OsStr::from_bytes(&path)).unwrap();
        let is_linked = found.nlink() > 1 && !found.is_dir();
        let (seconds, nanoseconds) = if is_linked { (0, 0) } else { (found.ctime(), found.ctime_nsec()) };
        (path, found.ino(), seconds, nanoseconds)
    };
    let mut all: Vec<_> = all.filter(|path| *path != bytes(tree)).map(stamp).collect();
    all.sort();
    all
}

/// All kinds of entries, links and special files of several names too, with attributes of their own, old and of somebody else.
fn all_kinds(source: &Path) {
    make(&source.join("below/deeper"));
    for name in ["file", "below/file"] {
        file(&source.join(name), name, 1000, 0o640);
        set_extended(&source.join(name), "user.one", b"1");
    }
    fs::hard_link(source.join("file"), source.join("below/linked")).unwrap();
    symlink("nowhere", source.join("link")).unwrap();
    fs::hard_link(source.join("link"), source.join("below/link")).unwrap();
    symlink("file", source.join("below/single")).unwrap();
    set_extended(&source.join("below/single"), "trusted.link", b"link");
    mknodat(CWD, source.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::hard_link(source.join("fifo"), source.join("below/fifo")).unwrap();
    set_extended(&source.join("fifo"), LIST, &access_list(1000));
    let null = rustix::fs::makedev(1, 3);
    mknodat(CWD, source.join("device"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), null).unwrap();
    set_extended(&source.join("below"), DEFAULT_LIST, &access_list(1001));
    set_extended(&source.join("below"), "user.directory", b"1");
    for name in ["link", "below/single", "fifo", "device", "below/deeper", "below", ""] {
        rustix::fs::chownat(
            CWD,
            source.join(name),
            Some(rustix::fs::Uid::from_raw(1000)),
            None,
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
        set_time(&source.join(name), 123_456_789);
    }
}

#[test]
fn an_update_with_nothing_to_do_changes_nothing() {
    let test = "an_update_with_nothing_to_do_changes_nothing";
    if !skip::is_root() {
        return skip::skipped(test, "it needs several users");
    }
    let scratch = Scratch::new("no-op").unwrap();
    let (source, target) = (make(&scratch.join("source")), scratch.join("target"));
    all_kinds(&source);
    copy(&[&source], &target, &threads(2));
    let before = stamps(&target);
    let totals = update(&source, &target).totals;
    assert_eq!(stamps(&target), before);
    assert_eq!((totals.files, totals.symlinks, totals.specials, totals.hard_links), (0, 0, 0, 0));
    assert_eq!(totals.skipped, 9, "{totals:?}");
    assert_same(&source, &target);
    // What is not the same is replaced, and that alone.
    fs::remove_file(source.join("below/single")).unwrap();
    symlink("elsewhere", source.join("below/single")).unwrap();
    set_mode(&source.join("fifo"), 0o620);
    fs::remove_file(target.join("below/link")).unwrap();
    symlink("nowhere", target.join("below/link")).unwrap();
    let totals = update(&source, &target).totals;
    // The order in which the two names are visited is unspecified.
    assert!((1..=2).contains(&totals.symlinks), "{totals:?}");
    assert_eq!((totals.specials, totals.hard_links), (1, 2), "{totals:?}");
    assert_same(&source, &target);
    assert_eq!(differences(&source, &target), Vec::<String>::new());
    assert_eq!(inode(&target.join("below/link")), inode(&target.join("link")));
}

/// A process of another user that has mapped a file, and writes into it on request.
struct Mapping(Child);

impl Mapping {
    fn of(path: &Path, user: u32) -> Self {
        let program = format!(
            "import mmap, os, sys\nos.setuid({user})\nfile = os.open(sys.argv[1], os.O_RDWR)\n\
             mapped = mmap.mmap(file, 4)\nprint('mapped', flush=True)\nsys.stdin.readline()\n\
             mapped[0:4] = b'EVIL'\nmapped.flush()\nprint('written', flush=True)"
        );
        let mut python = Command::new("python3");
        python.args(["-c", &program]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut mapping = Self(python.spawn().unwrap());
        assert_eq!(mapping.line(), "mapped\n");
        mapping
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    fn write(mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"now\n").unwrap();
        assert_eq!(self.line(), "written\n");
        assert!(self.0.wait().unwrap().success());
    }
}

// Hazard 35.
#[test]
fn mapped_files_of_others_are_not_written_in_place() {
    let test = "mapped_files_of_others_are_not_written_in_place";
    if !skip::is_root() {
        return skip::skipped(test, "it needs several users");
    }
    let scratch = Scratch::new("mapped").unwrap();
    set_mode(scratch.path(), 0o755);
    let (source, target) = (make(&scratch.join("source")), make(&scratch.join("target")));
    let names = ["foreign", "set-uid", "able", "own", "owned"];
    for name in names {
        file(&source.join(name), "good", if name == "owned" { 1000 } else { 0 }, 0o644);
        file(&target.join(name), "old!", 0, 0o644);
    }
    chown(target.join("foreign"), Some(1000), Some(1000)).unwrap();
    chown(target.join("owned"), Some(1000), Some(1000)).unwrap();
    set_mode(&source.join("set-uid"), 0o4755);
    set_mode(&target.join("set-uid"), 0o4755);
    set_extended(&source.join("able"), "security.capability", &capability());
    set_extended(&target.join("able"), "security.capability", &capability());
    let mapping = Mapping::of(&target.join("foreign"), 1000);
    let opened = ["set-uid", "able"]
        .map(|name| fs::File::options().read(true).write(true).open(target.join(name)).unwrap());
    let before = names.map(|name| inode(&target.join(name)));
    copy(&[&source.join(".")], &target, &Options { in_place: true, ..threads(1) });
    mapping.write();
    for file in opened {
        file.write_all_at(b"EVIL", 0).unwrap();
    }
    assert_same(&source, &target);
    let kept: Vec<_> = names.iter().zip(before).map(|(name, was)| inode(&target.join(name)) == was).collect();
    assert_eq!(kept, [false, false, false, true, true], "of {names:?}");
}

/// Stale attributes and missing ones, of a file that is kept, of one that is written into, and of directories.
#[test]
fn update_and_verify_agree_on_differences() {
    let test = "update_and_verify_agree_on_differences";
    if !skip::is_root() {
        return skip::skipped(test, "trusted attributes need root");
    }
    let ways = [
        Options { existing: Existing::Update, ..threads(2) },
        Options { in_place: true, ..threads(2) },
        Options { existing: Existing::Update, in_place: true, ..threads(2) },
    ];
    for (round, options) in ways.iter().enumerate() {
        let scratch = Scratch::new("one-rule").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        for (tree, content) in [(&source, "source"), (&target, "target")] {
            make(&tree.join("directory"));
            file(&tree.join("file"), content, 0, 0o644);
        }
        for name in ["file", "directory", ""] {
            let (one, other) = (source.join(name), target.join(name));
            set_extended(&one, "user.new", b"new");
            set_extended(&one, LIST, &access_list(1000));
            set_extended(&one, "user.both", b"source");
            set_extended(&other, "user.both", b"target");
            for stale in ["user.old", "trusted.old", "security.old"] {
                set_extended(&other, stale, b"old");
            }
        }
        set_extended(&source.join("directory"), "security.new", b"new");
        set_extended(&source.join("directory"), "trusted.new", b"new");
        set_extended(&target.join("directory"), DEFAULT_LIST, &access_list(1000));
        chown(target.join("directory"), Some(1000), Some(1000)).unwrap();
        set_time(&source.join("file"), 5);
        set_time(&target.join("file"), 5);
        let was = inode(&target.join("file"));
        let outcome = copy(&[&source.join(".")], &target, options);
        assert_eq!(inode(&target.join("file")), was, "round {round}: it was kept");
        if options.existing == Existing::Update {
            // Only the content differs; size and time do not show it.
            assert_eq!(outcome.totals.skipped, 1);
            fs::write(target.join("file"), "source").unwrap();
            set_time(&target.join("file"), 5);
        }
        for name in ["file", "directory", ""] {
            assert_eq!(extended(&target.join(name)), extended(&source.join(name)), "round {round}: {name}");
        }
        assert_same(&source, &target);
        assert_eq!(differences(&source, &target), Vec::<String>::new(), "round {round}");
    }
}

/// What the system itself keeps of a file is neither taken away nor a difference.
#[test]
fn system_labels_stay_where_the_source_has_none() {
    let test = "system_labels_stay_where_the_source_has_none";
    if !skip::is_root() {
        return skip::skipped(test, "labels need root");
    }
    let scratch = Scratch::new("labels").unwrap();
    let (source, target) = (make(&scratch.join("source")), make(&scratch.join("target")));
    for tree in [&source, &target] {
        file(&tree.join("file"), "content", 0, 0o644);
    }
    let label = "security.selinux";
    for name in ["file", ""] {
        if rustix::fs::lsetxattr(target.join(name), label, b"label", rustix::fs::XattrFlags::empty()).is_err()
        {
            return skip::skipped(test, "the kernel takes no labels");
        }
    }
    let outcome = update(&source, &target);
    assert_eq!(outcome.totals.skipped, 1);
    for name in ["file", ""] {
        assert_eq!(extended(&target.join(name))[label.as_bytes()], b"label");
    }
    assert_eq!(differences(&source, &target), Vec::<String>::new());
    // The source's own is another matter.
    set_extended(&source.join("file"), label, b"other");
    assert_eq!(differences(&source, &target).len(), 1);
    assert_eq!(update(&source, &target).totals.files, 1);
    assert_eq!(differences(&source, &target), Vec::<String>::new());
}

#[test]
fn file_rewritten_within_a_microsecond_is_copied() {
    let scratch = Scratch::new("nanoseconds").unwrap();
    let (source, target) = (make(&scratch.join("source")), make(&scratch.join("target")));
    for (name, kept) in [("same", 123_456_789), ("one", 123_456_700), ("two", 123_456_000), ("three", 0)] {
        fs::write(source.join(name), "new").unwrap();
        set_time(&source.join(name), 123_456_789);
        fs::write(target.join(name), "old").unwrap();
        set_time(&target.join(name), kept);
    }
    set_time(&source, 123_456_789);
    assert_eq!(differences(&source, &target).len(), 5);
    let totals = update(&source, &target).totals;
    assert_eq!((totals.files, totals.skipped), (3, 1));
    for name in ["one", "two", "three"] {
        assert_eq!(fs::read_to_string(target.join(name)).unwrap(), "new", "{name}");
    }
}

#[test]
fn update_is_stable_where_times_are_in_seconds() {
    let test = "update_is_stable_where_times_are_in_seconds";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let Some(disk) = skip::unless_available(test, loop_image("ext4-seconds", 64)) else { return };
    let scratch = Scratch::new("seconds").unwrap();
    let (source, target) = (make(&scratch.join("source")), disk.path().join("target"));
    make(&source.join("below"));
    for name in ["file", "below/file"] {
        fs::write(source.join(name), name).unwrap();
        set_time(&source.join(name), 999_999_999);
    }
    symlink("file", source.join("link")).unwrap();
    for name in ["link", "below", ""] {
        set_time(&source.join(name), 123_456_789);
    }
    copy(&[&source], &target, &threads(2));
    assert_eq!(fs::metadata(target.join("file")).unwrap().mtime_nsec(), 0);
    let before = stamps(&target);
    let totals = update(&source, &target).totals;
    assert_eq!((totals.files, totals.symlinks, totals.skipped), (0, 0, 3));
    assert_eq!(stamps(&target), before);
    assert_eq!(differences(&source, &target), Vec::<String>::new());
    // A second later is another time.
    let later = Timespec { tv_sec: 1_000_000_002, tv_nsec: 0 };
    let times = Timestamps { last_access: later, last_modification: later };
    utimensat(CWD, source.join("file"), &times, AtFlags::empty()).unwrap();
    assert_eq!(differences(&source, &target).len(), 1);
    assert_eq!(update(&source, &target).totals.files, 1);
}

#[test]
fn what_is_of_another_type_is_reported_as_a_conflict() {
    let scratch = Scratch::new("conflict").unwrap();
    let (source, target) = (make(&scratch.join("source")), make(&scratch.join("target")));
    for name in ["over-file", "over-link", "over-fifo"] {
        make(&source.join(name));
    }
    fs::write(target.join("over-file"), "file").unwrap();
    symlink("/nowhere", target.join("over-link")).unwrap();
    mknodat(CWD, target.join("over-fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    for name in ["file", "full"] {
        fs::write(source.join(name), name).unwrap();
        make(&target.join(name));
    }
    fs::write(target.join("full/inner"), "inner").unwrap();
    symlink("nowhere", source.join("link")).unwrap();
    make(&target.join("link"));
    for options in [threads(1), existing(Existing::Update)] {
        let (_, failures) = try_copy(&[&source.join(".")], &target, &options).unwrap();
        assert_eq!(failures.len(), 6, "{failures:?}");
        for (class, path, text) in failures {
            assert_eq!(class, Class::Conflict, "{}: {text}", path.display());
        }
    }
    assert!(fs::symlink_metadata(target.join("over-fifo")).unwrap().file_type().is_fifo());
}
