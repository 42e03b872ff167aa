//! The slow file system from outside: what it shows, how it fails, how many requests it takes at once, and that it
//! goes away without a trace. Each test that mounts holds the lock of mounts; compares counts, never times.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use atta_testkit::lock::Lock;
use atta_testkit::oracle;
use atta_testkit::skip;
use atta_testkit::slow::{Builder, Operation, SlowFs};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

/// Mounts with the lock held, or says why the test is skipped.
fn mount(test: &str, builder: Builder) -> Option<(SlowFs, Lock)> {
    let lock = Lock::for_mounts().expect("take the lock of mounts");
    skip::unless_available(test, builder.mount()).map(|mounted| (mounted, lock))
}

fn quick() -> Builder {
    SlowFs::builder().latency(Duration::ZERO)
}

fn is_mounted(path: &Path) -> bool {
    let mounted = atta_testkit::mounts::mounted().expect("read the mount table");
    mounted.iter().any(|each| each == path)
}

fn stat_error(path: &Path) -> Option<Errno> {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).err()
}

fn open_directory(path: &Path) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Dir::new(openat(CWD, path, flags, Mode::empty())?)
}

#[test]
fn tree_is_as_counted_and_depends_on_the_seed() {
    let test = "tree_is_as_counted_and_depends_on_the_seed";
    let shape = || quick().directories(4, 3).files(7).symlinks(2);
    let mut shown = Vec::new();
    for seed in [1, 1, 2] {
        let Some((mounted, _lock)) = mount(test, shape().seed(seed)) else {
            return;
        };
        let found = oracle::list(mounted.path()).unwrap();
        assert_eq!(u64::try_from(found.len()).unwrap(), mounted.tree().entries());
        let below = mounted.path().as_os_str().len();
        let records = found.into_iter().map(|(path, mut record)| {
            record.dev = 0;
            (path[below..].to_vec(), record)
        });
        shown.push(records.collect::<Vec<_>>());
    }
    assert_eq!(shown[0], shown[1]);
    assert_ne!(shown[0], shown[2]);
}

#[test]
fn files_and_links_are_read() {
    let builder = quick().directories(1, 1).files(50).symlinks(1);
    let Some((mounted, _lock)) = mount("files_and_links_are_read", builder) else {
        return;
    };
    for number in 0..50 {
        let path = mounted.path().join(format!("d0000/f{number:07}"));
        let size = statat(CWD, &path, AtFlags::empty()).unwrap().st_size;
        assert_eq!(std::fs::read(&path).unwrap().len(), usize::try_from(size).unwrap());
    }
    let target = rustix::fs::readlinkat(CWD, mounted.path().join("d0000/l0000000"), Vec::new()).unwrap();
    assert_eq!(target.as_bytes(), b"f0000000");
    assert_eq!(stat_error(&mounted.path().join("d0001")), Some(Errno::NOENT));
    let served = mounted.finish().unwrap();
    assert_eq!((served.of(Operation::Open), served.of(Operation::Readlink)), (50, 1));
}

#[test]
fn every_statx_asks_the_server() {
    let Some((mounted, _lock)) = mount("every_statx_asks_the_server", quick()) else {
        return;
    };
    let path = mounted.path().join("d0000/f0000000");
    for _ in 0..100 {
        statat(CWD, &path, AtFlags::empty()).unwrap();
    }
    let served = mounted.finish().unwrap();
    assert!(served.of(Operation::Stat) >= 100 && served.of(Operation::Lookup) >= 200, "{served}");
}

#[test]
fn entries_fail_as_the_rules_say() {
    let builder = quick()
        .directories(3, 1)
        .files(30)
        .fail("lookup:f0000001:EACCES")
        .fail("stat:f0000002:EIO")
        .fail("open:f0000003:ESTALE")
        .fail("read:f0000004:ETIMEDOUT")
        .fail("opendir:d0001:ESTALE")
        .fail("stat:d0002:EIO");
    let Some((mounted, _lock)) = mount("entries_fail_as_the_rules_say", builder) else {
        return;
    };
    let file = |number: u64| mounted.path().join(format!("d0000/f{number:07}"));
    let open = |path: PathBuf| std::fs::File::open(path);
    let code = |error: std::io::Error| Errno::from_io_error(&error);
    assert_eq!(stat_error(&file(1)), Some(Errno::ACCESS));
    assert_eq!(stat_error(&file(2)), Some(Errno::IO));
    assert!(open(file(2)).is_ok(), "only its attributes fail");
    assert_eq!(open(file(3)).err().and_then(code), Some(Errno::STALE));
    assert_eq!(stat_error(&file(3)), None);
    let read = open(file(4)).unwrap().read(&mut [0; 10]);
    assert_eq!(read.err().and_then(code), Some(Errno::TIMEDOUT));
    assert_eq!(open_directory(&mounted.path().join("d0001")).err(), Some(Errno::STALE));
    assert_eq!(stat_error(&mounted.path().join("d0002")), Some(Errno::IO));
    assert!(open_directory(&mounted.path().join("d0002")).is_ok());
}

#[test]
fn directory_breaks_off_part_way() {
    let builder = quick().directories(2, 1).files(30).fail("readdir:d0001:EIO");
    let Some((mounted, _lock)) = mount("directory_breaks_off_part_way", builder) else {
        return;
    };
    let mut names = 0;
    let mut failed = None;
    for entry in open_directory(&mounted.path().join("d0001")).unwrap() {
        match entry {
            Ok(_) => names += 1,
            Err(error) => failed = Some(error),
        }
    }
    assert_eq!((names, failed), (12, Some(Errno::IO)));
    let found = oracle::list(mounted.path()).unwrap();
    let broken = &found[mounted.path().join("d0001").as_os_str().as_bytes()];
    assert_eq!(broken.unread, Some(Errno::IO.raw_os_error()));
    assert_eq!(found.len(), 3 + 30 + 10);
}

#[test]
fn types_are_reported_or_hidden() {
    let shape = || quick().directories(2, 1).files(500).symlinks(1);
    for (builder, expected) in [
        (shape(), [FileType::RegularFile, FileType::Symlink].as_slice()),
        (shape().readdirplus(), [FileType::RegularFile, FileType::Symlink].as_slice()),
        (shape().unknown_types(), [FileType::Unknown].as_slice()),
    ] {
        let Some((mounted, _lock)) = mount("types_are_reported_or_hidden", builder) else {
            return;
        };
        let mut names = BTreeSet::new();
        for entry in open_directory(&mounted.path().join("d0001")).unwrap() {
            let entry = entry.unwrap();
            if !entry.file_name().to_bytes().starts_with(b".") {
                assert!(expected.contains(&entry.file_type()), "{:?}", entry.file_type());
                names.insert(entry.file_name().to_owned());
            }
        }
        assert_eq!(names.len(), 501);
        assert_eq!(oracle::visit(mounted.path(), &mut |_, _| {}).unwrap(), 1 + 2 + 1002);
    }
}

#[test]
fn requests_are_in_flight_together() {
    let builder = SlowFs::builder().latency(Duration::from_millis(50)).directories(1, 1).files(64);
    let Some((mounted, _lock)) = mount("requests_are_in_flight_together", builder) else {
        return;
    };
    let path = mounted.path();
    std::thread::scope(|scope| {
        for number in 0..64 {
            scope.spawn(move || {
                for _ in 0..3 {
                    let path = path.join(format!("d0000/f{number:07}"));
                    assert_eq!(stat_error(&path), None);
                }
            });
        }
    });
    let served = mounted.finish().unwrap();
    assert!(served.peak > 48, "{served}");
    assert!(served.peak <= 64, "{served}");
}

#[test]
fn huge_directory_costs_nothing_until_it_is_read() {
    let test = "huge_directory_costs_nothing_until_it_is_read";
    let Some((mounted, _lock)) = mount(test, quick().flat(100_000_000)) else {
        return;
    };
    assert_eq!(mounted.tree().entries(), 100_000_001);
    assert_eq!(stat_error(&mounted.path().join("f99999999")), None);
    assert_eq!(stat_error(&mounted.path().join("f100000000")), Some(Errno::NOENT));
    let names = open_directory(mounted.path()).unwrap().take(100_000);
    assert_eq!(names.filter(Result::is_ok).count(), 100_000);
}

#[test]
fn nothing_is_left_when_it_is_dropped() {
    let Some((mounted, _lock)) = mount("nothing_is_left_when_it_is_dropped", quick()) else {
        return;
    };
    let path = mounted.path().to_path_buf();
    assert!(is_mounted(&path));
    let busy = open_directory(&path).unwrap();
    drop(mounted);
    assert!(!is_mounted(&path) && !path.exists());
    drop(busy);
}

#[test]
fn nothing_is_left_when_the_server_is_killed() {
    let test = "nothing_is_left_when_the_server_is_killed";
    for (signal, is_clean) in [("-KILL", false), ("-TERM", true), ("-INT", true)] {
        let Some((mounted, _lock)) = mount(test, quick()) else {
            return;
        };
        let path = mounted.path().to_path_buf();
        let sent = Command::new("kill").args([signal, &mounted.process().to_string()]).status();
        assert!(sent.unwrap().success());
        assert_eq!(mounted.finish().is_ok(), is_clean, "{signal}");
        assert!(!is_mounted(&path), "{signal}");
        assert!(!path.exists(), "{signal}");
    }
}

#[test]
fn server_ends_when_somebody_else_unmounts() {
    let test = "server_ends_when_somebody_else_unmounts";
    let Some((mounted, _lock)) = mount(test, quick()) else {
        return;
    };
    let status = Command::new("umount").arg(mounted.path()).status().unwrap();
    assert!(status.success());
    mounted.finish().unwrap();
}

#[test]
fn wrong_options_differ_from_missing_fuse() {
    let run = |program: &mut Command| program.output().map(|output| output.status.code());
    let binary = env!("CARGO_BIN_EXE_atta-slow-fs");
    assert_eq!(run(&mut Command::new(binary)).unwrap(), Some(2));
    assert_eq!(run(Command::new(binary).arg("/no such directory")).unwrap(), Some(2));
    assert_eq!(run(Command::new(binary).arg("--help")).unwrap(), Some(0));
    let test = "wrong_options_differ_from_missing_fuse";
    if !skip::is_root() {
        return skip::skipped(test, "hiding /dev/fuse needs root");
    }
    // A mount namespace of its own, in which /dev is empty.
    let script = "mount -t tmpfs none /dev && exec \"$0\" /tmp";
    let arguments = ["-m", "sh", "-c", script, binary].map(OsStr::new);
    let output = Command::new("unshare").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("cannot mount over FUSE"), "{said}");
}
