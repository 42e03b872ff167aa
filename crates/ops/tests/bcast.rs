//! One file to many nodes, which are threads of this process: each has a mount table of its own, and TARGET in a directory of its own.

#![expect(clippy::disallowed_methods, reason = "a test looks at trees that it made itself")]
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use atta_fabric::{Endpoint as _, in_process};
use atta_mounts::{Host, MountTable, Silent};
use atta_ops::bcast::{self, Options, Outcome};
use atta_runtime::{Limits, Session, Stop};
use atta_testkit::scratch::Scratch;

/// The mounts of ranks, and their paths.
struct Setup {
    scratch: Scratch,
    /// The host of each rank.
    hosts: Vec<u32>,
    /// What is mounted at `source` and `target` on all of them, if anything is: type, source and options.
    mounts: [Option<&'static str>; 2],
}

const EXPORT: Option<&str> = Some("nfs4 10.0.0.5:/e rw");
/// Its port and directory are not in the mount table.
const UNKNOWN: Option<&str> = Some("fuse.sshfs me@10.0.0.5: rw");

impl Setup {
    /// FILE is on one server, TARGET on each host.
    fn new(hosts: &[u32]) -> Self {
        let scratch = Scratch::new("bcast").unwrap();
        fs::create_dir(scratch.join("source")).unwrap();
        hosts.iter().for_each(|host| fs::create_dir_all(scratch.join(format!("target{host}"))).unwrap());
        let file = scratch.join("source/f");
        fs::write(&file, bytes()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o4750)).unwrap();
        fs::File::open(&file)
            .unwrap()
            .set_modified(UNIX_EPOCH + Duration::new(1_000_000, 123_456_789))
            .unwrap();
        Self { scratch, hosts: hosts.to_vec(), mounts: [EXPORT, None] }
    }

    fn with(self, mounts: [Option<&'static str>; 2]) -> Self {
        Self { mounts, ..self }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.scratch.path()).unwrap().join(name)
    }

    fn target(&self, host: u32) -> PathBuf {
        self.path(&format!("target{host}"))
    }

    fn table(&self, host: u32) -> MountTable {
        let mut text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n".to_owned();
        let points = [self.path("source"), self.target(host)];
        for (number, (mount, point)) in self.mounts.iter().zip(points).enumerate() {
            if let Some(mount) = mount {
                text += &format!("{} 1 0:{} / {} rw - {mount}\n", number + 2, number + 40, point.display());
            }
        }
        let (boot, name) = (format!("boot-{host}"), format!("node{host}"));
        let host = Host::new(boot.as_bytes(), name.as_bytes());
        MountTable::from_bytes(text.as_bytes(), &Silent::on(host)).unwrap()
    }

    /// Runs it on all ranks, each with its own paths. All get the same.
    fn run(&self, force: bool, paths: impl Fn(u32) -> (PathBuf, PathBuf) + Sync) -> Result<Outcome, String> {
        let mut results = std::thread::scope(|scope| {
            let one = |(mut endpoint, host): (atta_fabric::InProcess, &u32)| {
                let (paths, host) = (&paths, *host);
                scope.spawn(move || {
                    let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                    let mut session = joined.unwrap().unwrap();
                    let table = self.table(host);
                    let options = Options { force, syncs: true };
                    let (file, target) = paths(host);
                    let paths = (file.as_os_str().as_encoded_bytes(), target.as_os_str().as_encoded_bytes());
                    let ended = bcast::run_with(&mut session, paths, options, &table).unwrap();
                    session.close((), |(), ()| ()).unwrap();
                    Box::new(endpoint).leave().unwrap();
                    ended.map_err(|refused| format!("{}; {}", refused.what, refused.hint))
                })
            };
            let ranks = u32::try_from(self.hosts.len()).unwrap();
            let threads: Vec<_> = in_process(ranks).into_iter().zip(&self.hosts).map(one).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        // A refusal names the paths of each.
        let of = |result: &Result<Outcome, String>| result.clone().map_err(|_| ());
        assert!(results.windows(2).all(|pair| of(&pair[0]) == of(&pair[1])), "{results:?}");
        results.remove(0)
    }

    /// The same FILE for all, and each host's own directory.
    fn send(&self, force: bool) -> Result<Outcome, String> {
        self.run(force, |host| (self.path("source/f"), self.target(host).join("copy")))
    }
}

/// More than some parts, with a part of zeros.
fn bytes() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..5_000_003_u32).map(|at| (at % 241) as u8 + 1).collect();
    bytes[1 << 20..3 << 20].fill(0);
    bytes
}

fn assert_copy(path: &Path) {
    assert!(fs::read(path).unwrap() == bytes(), "{}", path.display());
    let found = fs::metadata(path).unwrap();
    assert_eq!((found.mode() & 0o7777, found.mtime(), found.mtime_nsec()), (0o750, 1_000_000, 123_456_789));
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn each_node_gets_one_copy_of_what_is_read_once() {
    let setup = Setup::new(&[0, 0, 1, 1, 2, 2, 2, 3]);
    let outcome = setup.send(false).unwrap();
    assert_eq!((outcome.written, &outcome.readers[..], &outcome.failed[..]), (4, &[0][..], &[][..]));
    assert_eq!((outcome.size, outcome.digest), (5_000_003, Some(*blake3::hash(&bytes()).as_bytes())));
    for host in 0..4 {
        assert_copy(&setup.target(host).join("copy"));
        assert_eq!(names(&setup.target(host)), ["copy"], "nothing is left");
    }
}

#[test]
fn each_source_is_read_once() {
    // FILE is on each host.
    let setup = Setup::new(&[0, 0, 1, 2]).with([None, None]);
    let outcome = setup.send(false).unwrap();
    assert_eq!((outcome.written, &outcome.readers[..]), (3, &[0, 2, 3][..]));
    assert_copy(&setup.target(2).join("copy"));
}

#[test]
fn file_of_one_host_goes_to_all() {
    let setup = Setup::new(&[0, 1, 1, 2]).with([None, None]);
    let outcome = setup.run(false, |host| {
        let file = if host == 1 { "source/f" } else { "source/none" };
        (setup.path(file), setup.target(host).join("copy"))
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.written, &outcome.readers[..]), (3, &[1][..]));
    (0..3).for_each(|host| assert_copy(&setup.target(host).join("copy")));
}

#[test]
fn file_may_be_sent_to_its_own_path() {
    let setup = Setup::new(&[0, 1]).with([None, None]);
    fs::rename(setup.path("source/f"), setup.target(0).join("copy")).unwrap();
    let outcome =
        setup.run(false, |host| (setup.target(host).join("copy"), setup.target(host).join("copy"))).unwrap();
    assert_eq!((outcome.written, outcome.unchanged, &outcome.readers[..]), (1, 1, &[0][..]));
    assert_copy(&setup.target(1).join("copy"));
    fs::set_permissions(setup.target(0).join("copy"), fs::Permissions::from_mode(0o750)).unwrap();
    assert_copy(&setup.target(0).join("copy"));
}

#[test]
fn existing_target_is_replaced_only_by_force() {
    let setup = Setup::new(&[0, 1, 2]);
    let there = setup.target(1).join("copy");
    fs::write(&there, "old").unwrap();
    let refused = setup.send(false).unwrap_err();
    assert!(
        refused.starts_with("TARGET exists: ") && refused.ends_with("; --force replaces it"),
        "{refused}"
    );
    assert!(refused.contains("target1/copy on "), "{refused}");
    for (host, left) in [(0, &[][..]), (1, &["copy"]), (2, &[])] {
        assert_eq!(names(&setup.target(host)), left, "nothing is written");
    }
    assert_eq!(setup.send(true).unwrap().written, 3);
    (0..3).for_each(|host| assert_copy(&setup.target(host).join("copy")));
    // A link is replaced, not what it leads to.
    fs::remove_file(&there).unwrap();
    fs::write(setup.path("other"), "other").unwrap();
    symlink(setup.path("other"), &there).unwrap();
    assert!(setup.send(false).is_err());
    assert_eq!(setup.send(true).unwrap().written, 3);
    assert!(fs::symlink_metadata(&there).unwrap().is_file());
    assert_eq!(fs::read(setup.path("other")).unwrap(), b"other");
}

#[test]
fn node_that_cannot_write_is_named_and_others_finish() {
    let setup = Setup::new(&[0, 1, 1, 2]);
    fs::remove_dir(setup.target(1)).unwrap();
    fs::create_dir_all(setup.target(2).join("copy/f")).unwrap();
    let outcome = setup.send(true).unwrap();
    assert_eq!(outcome.written, 1);
    let failed: Vec<_> = outcome.failed.iter().map(|failed| (failed.rank, &failed.reason[..])).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(
        failed[0].0 == 1 && failed[0].1.starts_with("the directory of TARGET does not exist: "),
        "{failed:?}"
    );
    assert!(failed[1].0 == 3 && failed[1].1.starts_with("TARGET is a directory: "), "{failed:?}");
    assert_copy(&setup.target(0).join("copy"));
    assert_eq!(names(&setup.target(2).join("copy")), ["f"]);
}

#[test]
fn directories_that_turn_out_to_be_one_get_one_copy() {
    // Names do not tell; all see the directory of host 0, but host 3.
    let setup = Setup::new(&[0, 1, 2, 3]).with([EXPORT, UNKNOWN]);
    for host in [1, 2] {
        fs::remove_dir(setup.target(host)).unwrap();
        symlink(setup.target(0), setup.target(host)).unwrap();
    }
    // Mount points are not links: the table of a rank has what its path is resolved to.
    let outcome = setup.run(false, |host| (setup.path("source/f"), setup.target(host).join("copy"))).unwrap();
    assert_eq!((outcome.written, outcome.shared), (2, 2));
    for host in [0, 3] {
        assert_copy(&setup.target(host).join("copy"));
        assert_eq!(names(&setup.target(host)), ["copy"]);
    }
}

#[test]
fn directory_on_one_server_gets_one_copy() {
    let setup = Setup::new(&[0, 1, 2]).with([EXPORT, EXPORT]);
    let outcome = setup.run(false, |_| (setup.path("source/f"), setup.target(0).join("copy")));
    // Hosts 1 and 2 have the directory of host 0 below their local root, which a server may export.
    let outcome = outcome.unwrap();
    assert_eq!((outcome.written, outcome.shared, outcome.failed.len()), (1, 2, 0));
    let one = Setup::new(&[0, 0, 0]).with([EXPORT, EXPORT]);
    let outcome = one.send(false).unwrap();
    assert_eq!((outcome.written, outcome.shared), (1, 0));
    assert_copy(&one.target(0).join("copy"));
}

#[test]
fn files_that_differ_are_refused() {
    let setup = Setup::new(&[0, 1]).with([None, None]);
    fs::write(setup.path("source/g"), b"shorter").unwrap();
    let mut other = bytes();
    other[4_000_000] ^= 1;
    fs::write(setup.path("source/h"), other).unwrap();
    for (name, why) in [
        ("g", "has 5000003 bytes on rank 0, 7 on rank 1"),
        ("h", "has another digest on rank 1 than on rank 0"),
    ] {
        let paths =
            |host| if host == 0 { setup.path("source/f") } else { setup.path(&format!("source/{name}")) };
        let refused = setup.run(false, |host| (paths(host), setup.target(host).join("copy"))).unwrap_err();
        assert!(refused.contains(why), "{refused}");
        (0..2).for_each(|host| assert!(names(&setup.target(host)).is_empty()));
    }
}

#[test]
fn process_alone_copies() {
    let setup = Setup::new(&[0]);
    let run = |file: &str, target: &str| setup.run(false, |_| (setup.path(file), setup.path(target)));
    assert_eq!(run("source/f", "target0").unwrap().written, 1);
    assert_copy(&setup.target(0).join("f"));
    for (file, target, why) in [
        ("source", "target0/x", "FILE is a directory: "),
        ("source/none", "target0/x", "cannot read FILE: "),
        ("source/f", "target0", "TARGET exists: "),
    ] {
        let refused = run(file, target).unwrap_err();
        assert!(refused.starts_with(why), "{refused}");
    }
    let failed = run("source/f", "none/x").unwrap().failed;
    assert!(failed[0].reason.starts_with("the directory of TARGET does not exist: "), "{failed:?}");
    fs::write(setup.path("source/empty"), b"").unwrap();
    assert_eq!(run("source/empty", "target0").unwrap().size, 0);
    assert_eq!(names(&setup.target(0)), ["empty", "f"]);
}

/// A thread writes the file while it is sent.
#[test]
fn file_that_changes_is_not_sent() {
    let setup = Setup::new(&[0, 1]);
    let file = fs::OpenOptions::new().write(true).open(setup.path("source/f")).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                std::os::unix::fs::FileExt::write_all_at(&file, b"x", 5).unwrap();
            }
        });
        // Times have the steps of the kernel's clock.
        let failed = (0..1000).find_map(|_| {
            let outcome = setup.send(true).unwrap();
            (!outcome.failed.is_empty()).then_some(outcome)
        });
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        failed.unwrap()
    });
    assert_eq!((failed.failed.len(), failed.written), (2, 0));
    assert!(failed.failed[0].reason.ends_with("the file changes while rank 0 reads it"), "{failed:?}");
    assert!((0..2).all(|host| names(&setup.target(host)).iter().all(|name| name == "copy")));
}
