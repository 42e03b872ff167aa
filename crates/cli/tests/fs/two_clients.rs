//! `atta copy` to a parallel file system that two clients mount: GlusterFS. While one client copies, the other one sees only
//! complete files. The result of a copy, of two concurrent copies and of a killed and repeated copy is compared through both
//! clients. All servers run on this machine: the tests measure no speed and stop no server.
//!
//! Mode and modification time of directories are not compared. A GlusterFS client that looks up a new directory may complete it on
//! a brick where it is missing ("directory self-heal"). It gives that brick the mode and the time that it saw, which may be those
//! from before the copy set the final ones. From then on bricks differ, and a client may show either. Measured without tolerance:
//! a wrong time in 4 of 128 copies while the other client looked, once after a killed copy, and once after six updates; the mode
//! 0700 once. Everything else must be the same; other tests compare directories on file systems that keep what they are given.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
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
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::glusterfs::Volume;
use crate::support::{
    Ran, Running, atta, bytes_of, make_directory, make_file, make_link, parse_lines, run, scratch,
};

/// The contents that a file may have, by its path below a tree: one for each source.
type Contents = BTreeMap<PathBuf, Vec<Vec<u8>>>;

const DIRECTORIES: usize = 3;
const FILES: usize = 8;
/// Several chunks of 1 MiB, and a part of one.
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
        // In the first round the target does not exist; in the second one, every file is replaced by one with other bytes.
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
        if ran.code() != 0 {
            let seen = [one, two].map(|client| names_of_copies(&client.join("looked-at")));
            panic!("{}: {}names of the copy's own, by client: {seen:?}", ran.code(), ran.err());
        }
        let summary = ran.json();
        assert!(summary["signature"].is_string(), "{summary}");
        let files = contents(&[&tree]);
        let seen = whole_files(&target, Path::new(""), &files, Look::After);
        assert!(seen.iter().eq(files.keys()), "{seen:?}");
        assert_same(&tree, &[one.join("looked-at"), target.clone()]);
    }
}

/// Sets a flag when dropped, so that the thread that waits for it ends also when the test fails.
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
    // First both copies create the directories; then the directories exist.
    for round in 0..2 {
        let errors = ["first-errors", "second-errors"].map(|name| scratch.join(name));
        let start = |number: usize, client: &Path| {
            let mut command = copy(&["--chunk", "1M", "--threads", "2", "--errors"]);
            command.arg(&errors[number]).arg(sources[number].join(".")).arg(client.join("both"));
            Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
        };
        let running = [start(0, one), start(1, two)];
        let ran = running.map(Running::finish);
        let mut failed = Vec::new();
        for (ran, errors) in ran.iter().zip(&errors) {
            assert!([0, 3].contains(&ran.code()), "{}: {}", ran.code(), ran.err());
            let rows = parse_lines(&std::fs::read(errors).unwrap());
            assert_eq!(ran.code() == 3, !rows.is_empty(), "{}", ran.err());
            failed.extend(rows.iter().map(|row| PathBuf::from(row["path"].as_str().unwrap_or_default())));
        }
        for client in [one, two] {
            let both = client.join("both");
            whole_files(&both, Path::new(""), &allowed, Look::After);
            // A file may be missing only if it, or a directory above it, was reported as failed.
            for path in allowed.keys().filter(|path| !both.join(path).exists()) {
                let is_reported = sources.iter().any(|source| {
                    path.ancestors().any(|above| failed.contains(&source.join(".").join(above)))
                });
                assert!(is_reported, "{round}: {}: {failed:?}", path.display());
            }
        }
    }
    // A copy that runs alone completes the tree.
    run(copy(&[]).arg(sources[0].join(".")).arg(two.join("both"))).expect_code(0);
    assert_same(&sources[0], &[one.join("both"), two.join("both")]);
}

/// The file system of the source kills the copy at a read, so that the copy is incomplete on any machine.
fn what_a_killed_copy_left_the_other_client_completes(test: &str, scratch: &Scratch, one: &Path, two: &Path) {
    let tree = source(&scratch.join("killed"), "killed");
    let allowed = contents(&[&tree]);
    for (round, (fsync, reads)) in [("file", 10), ("batch", 30)].into_iter().enumerate() {
        let rule = format!("read:*:kill:skip={reads}:times=1");
        let builder = SlowFs::builder().latency(Duration::ZERO).over(&tree).fail(&rule);
        let Some(served) = skip::unless_available(test, builder.mount()) else { return };
        let name = format!("killed-{round}");
        let mut killed = copy(&["--chunk", "1M", "--threads", "2", "--fsync", fsync]);
        let ran = run(killed.args([served.path(), &one.join(&name)]));
        assert_eq!(ran.signal(), Some(Signal::KILL.as_raw()), "{}: {}", ran.code(), ran.err());
        let target = two.join(&name);
        // A rename of a directory could lose what is made below it at the same time.
        let home = format!(".atta.{}", rustix::process::geteuid().as_raw());
        let mut renamed = names_of_copies(&one.join(&name)).into_iter().filter(|path| {
            let name = path.file_name().unwrap_or_default();
            let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            is_directory && is_temporary(name) && *name != *home
        });
        assert_eq!(renamed.next(), None, "a directory that is to be renamed");
        let seen = whole_files(&target, Path::new(""), &allowed, Look::After).len();
        assert!(seen < allowed.len(), "{seen} files: the killed copy was complete");
        std::fs::create_dir_all(&target).unwrap();
        run(copy(&["--chunk", "1M"]).arg(tree.join(".")).arg(&target)).expect_code(0);
        // Temporary files that the killed copy left do no harm.
        assert_same(&tree, &[one.join(&name), target]);
    }
}

/// `atta copy` with these options; it prints its summary as JSON.
fn copy(options: &[&str]) -> Command {
    let mut command = atta();
    command.args(["copy", "--json"]).args(options);
    command
}

/// Small files, a large one, hard links, symbolic links, extended attributes, and a random tree with unusual names and times. `label` is
/// part of the content of each file outside the random tree.
fn source(tree: &Path, label: &str) -> PathBuf {
    let tree = make_directory(tree);
    trees::random(&tree.join("random"), 12, 30).unwrap();
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

/// GlusterFS stores no times before 1970: it turns them into 1970. Replaces them by a time after 1970.
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

/// Replaces the content of every file of [`source`] outside the random tree by other bytes of the same length.
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

/// The contents of all files of these trees.
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

/// Whether entries may vanish while they are examined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Meanwhile,
    After,
}

impl Look {
    /// The value that a call returned; none if the entry was removed or renamed meanwhile.
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

/// The files below `top/below`, without temporary ones. Checks that each has exactly one of the allowed contents. GlusterFS may list a
/// name twice that a rename has replaced, and a symbolic link as a file after two clients have renamed it.
fn whole_files(top: &Path, below: &Path, allowed: &Contents, look: Look) -> BTreeSet<PathBuf> {
    let directory = top.join(below);
    let mut files = BTreeSet::new();
    let entries = match std::fs::read_dir(&directory) {
        // The target itself may not exist.
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
            let read = read_without_following(&entry.path());
            let is_link =
                read.as_ref().is_err_and(|error| error.raw_os_error() == Some(Errno::LOOP.raw_os_error()));
            if is_link && !allowed.contains_key(&below) {
                continue;
            }
            let Some(content) = look.at(&below, read) else { continue };
            let allowed =
                allowed.get(&below).unwrap_or_else(|| panic!("{} is in no source", below.display()));
            assert!(
                allowed.contains(&content),
                "{}: its {} bytes are from no source",
                below.display(),
                content.len()
            );
            files.insert(below);
        }
    }
    files
}

/// The content of a file. Fails with ELOOP if it is a symbolic link.
fn read_without_following(path: &Path) -> std::io::Result<Vec<u8>> {
    let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let mut content = Vec::new();
    File::from(opened).read_to_end(&mut content)?;
    Ok(content)
}

/// Temporary names in a tree, and what is below them.
fn names_of_copies(tree: &Path) -> Vec<PathBuf> {
    let listed = oracle::list(tree).unwrap_or_default().into_keys();
    let paths = listed.map(|path| PathBuf::from(OsStr::from_bytes(&path)));
    paths.filter(|path| path.iter().any(is_temporary)).collect()
}

fn is_temporary(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".atta.")
}

/// Checks that a tree, through each of the clients that show it in these places, has the names, types, contents, hard links and
/// attributes of its source: by `lstat`, `read` and `lgetxattr`, then, after an update through each client, by `atta verify`.
/// Temporary files are not compared, nor mode and time of directories (see the top of this file).
#[track_caller]
fn assert_same(source: &Path, places: &[PathBuf]) {
    let expected = facts(source);
    for place in places {
        let found = facts(place);
        if names(&found) != names(&expected) {
            // Which client shows it, for how long, and under which name: a copy of atta and GlusterFS may both be at fault.
            let seen = || {
                places
                    .iter()
                    .map(|place| (place, missing(&expected, place), names_of_copies(place)))
                    .collect::<Vec<_>>()
            };
            let first = seen();
            std::thread::sleep(Duration::from_secs(2));
            panic!(
                "{}: {:#?} is missing; all clients: {first:#?}; 2 s later: {:#?}",
                place.display(),
                difference(&expected, &found),
                seen()
            );
        }
        assert_same_facts(&expected, &found);
    }
    for place in places {
        run(copy(&["--update"]).arg(source.join(".")).arg(place)).expect_code(0);
    }
    for place in places {
        assert_verified(source, place);
    }
}

/// Checks that `atta verify` reports no difference, or only modes and times of directories.
#[track_caller]
fn assert_verified(source: &Path, target: &Path) {
    let verify = || {
        let mut verify = atta();
        verify.args(["verify", "--content", "--format", "ndjson", "--exclude", ".atta.*"]);
        run(verify.args([source, target]))
    };
    // After the update two bricks may disagree for a while about when a file was changed.
    let is_settled = |ran: &Ran| !ran.err().contains("it changed each time it was compared");
    let ran = (0..60).map(|_| verify()).find(is_settled).expect("a file that nobody writes to has settled");
    let rows = parse_lines(&ran.stdout);
    assert_eq!(ran.code(), i32::from(!rows.is_empty()), "{}{}", ran.out(), ran.err());
    for row in rows {
        let fields = row["fields"].as_object().unwrap_or_else(|| panic!("{row}"));
        let is_tolerated = fields.keys().all(|field| ["mode", "mtime"].contains(&field.as_str()));
        assert!(row["change"] == "different" && row["kind"] == "directory" && is_tolerated, "{row}");
    }
}

#[track_caller]
fn assert_same_facts(expected: &BTreeMap<Vec<u8>, Facts>, found: &BTreeMap<Vec<u8>, Facts>) {
    assert_eq!(names(found), names(expected));
    for (name, facts) in expected {
        assert_eq!(&found[name], facts, "{}", String::from_utf8_lossy(name));
    }
}

fn names(facts: &BTreeMap<Vec<u8>, Facts>) -> Vec<String> {
    facts.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn missing(expected: &BTreeMap<Vec<u8>, Facts>, place: &Path) -> Vec<String> {
    difference(expected, &facts(place))
}

fn difference(expected: &BTreeMap<Vec<u8>, Facts>, found: &BTreeMap<Vec<u8>, Facts>) -> Vec<String> {
    let found = names(found);
    names(expected).into_iter().filter(|name| !found.contains(name)).collect()
}

/// What a copy preserves of an entry, on GlusterFS.
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
        let label = match record.kind {
            'f' | 'd' => rustix::fs::lgetxattr(path, "user.label", &mut value[..]).ok(),
            _ => None,
        };
        let label = label.map(|length| value[..length].to_vec());
        // The file system chooses these itself. Hard links are compared by `first`: GlusterFS may report a link count that is one too
        // low, from another brick than the one that lists the names.
        let mut record = Record { ino: 0, dev: 0, blocks: 0, nlink: 0, ..record };
        if record.kind == 'd' {
            record = Record { size: 0, mode: 0, mtime_sec: 0, mtime_nsec: 0, ..record };
        }
        (below, Facts { record, first, content, label })
    });
    facts.collect()
}
