//! `atta copy` to a real parallel file system that two clients mount: GlusterFS. Whoever looks through one client sees whole files
//! alone under their names while the other one copies; what is there in the end, after two copies at once and after a killed one, is
//! compared through the client that did not make it. It shows what the file system does on one machine, not how fast, and no
//! server that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atta_testkit::lock::Lock;
use atta_testkit::oracle::{self, Record};
use atta_testkit::scratch::Scratch;
use atta_testkit::slow::SlowFs;
use atta_testkit::{skip, trees};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use rustix::process::Signal;

use crate::glusterfs::Volume;
use crate::support::{
    Ran, Running, atta, bytes_of, make_directory, make_file, make_link, parse_lines, run, scratch,
};

/// The bytes that a file may have, by its path below a tree: those of one source or another.
type Contents = BTreeMap<PathBuf, Vec<Vec<u8>>>;

const DIRECTORIES: usize = 5;
const FILES: usize = 24;
/// Updates until directories are the same through both clients.
const UPDATES_MOST: usize = 6;
/// Some chunks of 1 MiB, and a part of one.
const LARGE: usize = (5 << 20) + 12_345;

#[test]
fn other_client_sees_whole_files_or_none() {
    let test = "other_client_sees_whole_files_or_none";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let volume = match Volume::start() {
        Ok(volume) => volume,
        Err(why) => return skip::skipped(test, &why),
    };
    let (one, two) = (volume.client("one"), volume.client("two"));
    let scratch = scratch("two-clients");
    a_copy_is_whole_whenever_the_other_client_looks(&scratch, &one, &two);
    two_copies_at_once_leave_whole_files_of_either(&scratch, &one, &two);
    what_a_killed_copy_left_the_other_client_completes(test, &scratch, &one, &two);
    volume.stop();
}

fn a_copy_is_whole_whenever_the_other_client_looks(scratch: &Scratch, one: &Path, two: &Path) {
    let tree = source(&scratch.join("looked-at"), "first");
    let target = two.join("looked-at");
    for (round, name) in ["looked-at", "looked-at/."].into_iter().enumerate() {
        // The first time nothing is there; then every file is replaced, by one with other bytes.
        let mut allowed = contents(&[&tree]);
        if round == 1 {
            change_files(&tree);
            for (path, contents) in contents(&[&tree]) {
                allowed.entry(path).or_default().extend(contents);
            }
        }
        let ended = AtomicBool::new(false);
        let ran = std::thread::scope(|scope| {
            let (ended, allowed, target) = (&ended, &allowed, &target);
            let looking = scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    whole_files(target, Path::new(""), allowed, Look::Meanwhile);
                }
            });
            let _end = SetOnDrop(ended);
            let from = scratch.join(name);
            let ran = run(copy(&["--chunk", "1M", "--threads", "4"]).args([&from, &one.join("looked-at")]));
            ended.store(true, Ordering::Relaxed);
            looking.join().expect("only whole files are seen");
            ran
        });
        let summary = ran.expect_code(0).json();
        assert!(summary["signature"].is_string(), "{summary}");
        let files = contents(&[&tree]);
        let seen = whole_files(&target, Path::new(""), &files, Look::After);
        assert!(seen.iter().eq(files.keys()), "{seen:?}");
        assert_same_but_directories(&tree, &target);
        assert_same_after_updates(&tree, &[one.join("looked-at"), target.clone()]);
    }
}

/// Sets a flag even where a test fails: a thread that waits for it must end.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn two_copies_at_once_leave_whole_files_of_either(scratch: &Scratch, one: &Path, two: &Path) {
    let sources = ["first", "second"].map(|name| source(&scratch.join(name), name));
    let allowed = contents(&[&sources[0], &sources[1]]);
    make_directory(one.join("both"));
    // New directories, which both make; then those that are there.
    for round in 0..2 {
        let errors = ["first-errors", "second-errors"].map(|name| scratch.join(name));
        let start = |number: usize, client: &Path| {
            let mut command = copy(&["--chunk", "1M", "--threads", "2", "--errors"]);
            command.arg(&errors[number]).arg(sources[number].join(".")).arg(client.join("both"));
            Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
        };
        let running = [start(0, one), start(1, two)];
        let ran = running.map(Running::finish);
        let mut told = Vec::new();
        for (ran, errors) in ran.iter().zip(&errors) {
            assert!([0, 3].contains(&ran.code()), "{}: {}", ran.code(), ran.err());
            let rows = parse_lines(&std::fs::read(errors).unwrap());
            assert_eq!(ran.code() == 3, !rows.is_empty(), "{}", ran.err());
            told.extend(rows.iter().map(|row| PathBuf::from(row["path"].as_str().unwrap_or_default())));
        }
        for client in [one, two] {
            let both = client.join("both");
            whole_files(&both, Path::new(""), &allowed, Look::After);
            // Nothing is missing but what was told, or is below it.
            for path in allowed.keys().filter(|path| !both.join(path).exists()) {
                let is_told = sources
                    .iter()
                    .any(|source| path.ancestors().any(|above| told.contains(&source.join(".").join(above))));
                assert!(is_told, "{round}: {}: {told:?}", path.display());
            }
        }
    }
    // Whoever copies alone completes it.
    run(copy(&[]).arg(sources[0].join(".")).arg(two.join("both"))).expect_code(0);
    assert_same(&sources[0], &one.join("both"));
}

/// The copy is killed by the file system that its source is on, at a read: on any machine it is under way then.
fn what_a_killed_copy_left_the_other_client_completes(test: &str, scratch: &Scratch, one: &Path, two: &Path) {
    let tree = source(&scratch.join("killed"), "killed");
    let allowed = contents(&[&tree]);
    for (round, (fsync, reads)) in [("file", 20), ("batch", 60), ("file", 100)].into_iter().enumerate() {
        let rule = format!("read:*:kill:skip={reads}:times=1");
        let builder = SlowFs::builder().latency(Duration::ZERO).over(&tree).fail(&rule);
        let Some(served) = skip::unless_available(test, builder.mount()) else { return };
        let name = format!("killed-{round}");
        let mut killed = copy(&["--chunk", "1M", "--threads", "2", "--fsync", fsync]);
        let ran = run(killed.args([served.path(), &one.join(&name)]));
        assert_eq!(ran.signal(), Some(Signal::KILL.as_raw()), "{}: {}", ran.code(), ran.err());
        let target = two.join(&name);
        let seen = whole_files(&target, Path::new(""), &allowed, Look::After).len();
        assert!(seen < allowed.len(), "{seen} files: it was complete");
        std::fs::create_dir_all(&target).unwrap();
        run(copy(&["--chunk", "1M"]).arg(tree.join(".")).arg(&target)).expect_code(0);
        // What the killed one left is in nobody's way.
        assert_same_but_directories(&tree, &one.join(&name));
        assert_same_after_updates(&tree, &[target, one.join(&name)]);
    }
}

/// `atta copy` with these options, and a summary as JSON.
fn copy(options: &[&str]) -> Command {
    let mut command = atta();
    command.args(["copy", "--json"]).args(options);
    command
}

/// Many small files, a large one, files with several names, links, attributes, and whatever else is odd. `label` is in the bytes of
/// each file.
fn source(tree: &Path, label: &str) -> PathBuf {
    let tree = make_directory(tree);
    trees::random(&tree.join("random"), 12, 80).unwrap();
    keep_times_that_can_be_kept(&tree.join("random"));
    for number in 0..DIRECTORIES {
        let directory = make_directory(tree.join(number.to_string()));
        for file in 0..FILES {
            let content = format!("{label} {number}/{file}\n").repeat(1 + file * file);
            make_file(directory.join(file.to_string()), content.as_bytes());
        }
        make_link(format!("../{number}/0"), directory.join("link"));
        make_link("nowhere", directory.join("dangling"));
        let linked = directory.join("0");
        std::fs::hard_link(&linked, directory.join("another name")).unwrap();
        std::fs::hard_link(&linked, tree.join(format!("name of {number}"))).unwrap();
        for path in [&linked, &directory] {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::lsetxattr(path, "user.label", label.as_bytes(), flags).unwrap();
        }
    }
    let content: Vec<u8> = format!("{label} ").bytes().cycle().take(LARGE).collect();
    make_file(tree.join("large"), &content);
    tree
}

/// GlusterFS has no times before 1970: they become 1970.
fn keep_times_that_can_be_kept(tree: &Path) {
    for (path, record) in oracle::list(tree).unwrap() {
        if record.mtime_sec < 0 {
            let time = Timespec { tv_sec: 1_234_567_890, tv_nsec: record.mtime_nsec.into() };
            let times = Timestamps { last_access: time, last_modification: time };
            let path = OsStr::from_bytes(&path);
            rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        }
    }
}

/// Gives every file of `source`'s own other bytes, as many.
fn change_files(tree: &Path) {
    for directory in 0..DIRECTORIES {
        for file in 0..FILES {
            let path = tree.join(format!("{directory}/{file}"));
            let changed = std::fs::read(&path).unwrap().to_ascii_uppercase();
            std::fs::write(&path, changed).unwrap();
        }
    }
    let large = tree.join("large");
    std::fs::write(&large, std::fs::read(&large).unwrap().to_ascii_uppercase()).unwrap();
}

/// What the files of these trees say.
fn contents(trees: &[&Path]) -> Contents {
    let mut contents = Contents::new();
    for tree in trees {
        for (path, record) in oracle::list(tree).unwrap() {
            if record.kind == 'f' {
                let path = PathBuf::from(OsStr::from_bytes(&path));
                let below = path.strip_prefix(tree).unwrap().to_path_buf();
                contents.entry(below).or_default().push(std::fs::read(&path).unwrap());
            }
        }
    }
    contents
}

/// Whether what is looked at may go away at any moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Meanwhile,
    After,
}

impl Look {
    /// What a call gave; none: it went away, or got another name.
    #[track_caller]
    fn at<T>(self, path: &Path, outcome: std::io::Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                let is_gone =
                    [ErrorKind::NotFound, ErrorKind::StaleNetworkFileHandle].contains(&error.kind());
                assert!(is_gone && self == Self::Meanwhile, "{}: {error}", path.display());
                None
            }
        }
    }
}

/// The files that are under names of their own in `top/below`; each has all bytes of one that may be there, and no others. GlusterFS may
/// list a name twice that has got its file by a rename.
fn whole_files(top: &Path, below: &Path, allowed: &Contents, look: Look) -> BTreeSet<PathBuf> {
    let directory = top.join(below);
    let mut files = BTreeSet::new();
    let entries = match std::fs::read_dir(&directory) {
        // The target itself may not be there at all.
        Err(error) if error.kind() == ErrorKind::NotFound && below == Path::new("") => return files,
        entries => look.at(&directory, entries),
    };
    for entry in entries.into_iter().flatten() {
        let Some(entry) = look.at(&directory, entry) else { break };
        if is_temporary(&entry.file_name()) {
            continue;
        }
        let below = below.join(entry.file_name());
        let Some(kind) = look.at(&below, entry.file_type()) else { continue };
        if kind.is_dir() {
            files.extend(whole_files(top, &below, allowed, look));
        } else if kind.is_file() {
            let Some(content) = look.at(&below, std::fs::read(entry.path())) else { continue };
            let allowed =
                allowed.get(&below).unwrap_or_else(|| panic!("{} is of no source", below.display()));
            assert!(allowed.contains(&content), "{}: {} bytes of no source", below.display(), content.len());
            files.insert(below);
        }
    }
    files
}

fn is_temporary(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".atta.")
}

/// A tree on the file system has all that its source has: as `atta verify` says, and as `lstat`, `read` and `lgetxattr` do. What
/// copies that did not end well left there is not looked at.
#[track_caller]
fn assert_same(source: &Path, target: &Path) {
    verify(source, target).expect_code(0);
    assert_same_facts(&facts(source), &facts(target));
}

/// The same, after a copy that another client looked at, or to where a copy through another client was killed: GlusterFS has whoever
/// looks at a new directory complete it on all bricks, with the time and the mode that it had before the copy gave it those of its
/// source (the time in 4 of 128 copies, where one brick kept the right one; the mode, which is 0700 until then, has been seen once;
/// the time after a killed copy, once).
#[track_caller]
fn assert_same_but_directories(source: &Path, target: &Path) {
    let [mut expected, mut found] = [source, target].map(|tree| {
        let mut facts = facts(tree);
        for facts in facts.values_mut().filter(|facts| facts.record.kind == 'd') {
            (facts.record.mtime_sec, facts.record.mtime_nsec) = (0, 0);
        }
        facts
    });
    for (name, found) in &mut found {
        if let Some(expected) = expected.get_mut(name)
            && (found.record.kind, found.record.mode) == ('d', 0o700)
        {
            expected.record.mode = 0o700;
        }
    }
    assert_same_facts(&expected, &found);
}

/// Updates a copy until it is the same through all clients. One of them may see the right time of a directory on one brick while the other one
/// sees the wrong time on another brick: then the update through that one sets it. `atta verify` and `lstat` are asked at different moments, and may be
/// answered by different bricks (seen once: the mode).
#[track_caller]
fn assert_same_after_updates(source: &Path, clients: &[PathBuf]) {
    let expected = facts(source);
    let is_same = |target: &PathBuf| verify(source, target).code() == 0 && facts(target) == expected;
    for target in clients.iter().cycle().take(UPDATES_MOST) {
        run(copy(&["--update"]).arg(source.join(".")).arg(target)).expect_code(0);
        if clients.iter().all(is_same) {
            break;
        }
    }
    clients.iter().for_each(|target| assert_same(source, target));
}

#[track_caller]
fn assert_same_facts(expected: &BTreeMap<Vec<u8>, Facts>, found: &BTreeMap<Vec<u8>, Facts>) {
    let names = |facts: &BTreeMap<Vec<u8>, Facts>| {
        facts.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(found), names(expected));
    for (name, facts) in expected {
        assert_eq!(&found[name], facts, "{}", String::from_utf8_lossy(name));
    }
}

fn verify(source: &Path, target: &Path) -> Ran {
    run(atta().args(["verify", "--content", "--exclude", ".atta.*"]).args([source, target]))
}

/// What a copy keeps of an entry.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    record: Record,
    /// The first name of the same file.
    first: Vec<u8>,
    content: Option<Vec<u8>>,
    label: Option<Vec<u8>>,
}

fn facts(root: &Path) -> BTreeMap<Vec<u8>, Facts> {
    let mut firsts = BTreeMap::new();
    let start = bytes_of(root).len();
    let listed = oracle::list(root).unwrap().into_iter();
    let has_own_names =
        |path: &[u8]| !path.split(|byte| *byte == b'/').any(|name| is_temporary(OsStr::from_bytes(name)));
    let facts = listed.filter(|(path, _)| has_own_names(path)).map(|(path, record)| {
        let below = path[start..].to_vec();
        let first = firsts.entry(record.ino).or_insert_with(|| below.clone()).clone();
        let path = Path::new(OsStr::from_bytes(&path));
        let content = (record.kind == 'f').then(|| std::fs::read(path).unwrap());
        let mut value = [0; 64];
        let label = rustix::fs::lgetxattr(path, "user.label", &mut value[..]).ok();
        let label = label.map(|length| value[..length].to_vec());
        // What a file system gives as it likes; a directory's size, too. The names of a file are compared by `first`: GlusterFS may give
        // it one name fewer than it has, by another brick than the one that lists them.
        let mut record = Record { ino: 0, dev: 0, blocks: 0, nlink: 0, ..record };
        if record.kind == 'd' {
            record.size = 0;
        }
        (below, Facts { record, first, content, label })
    });
    facts.collect()
}
