//! A file system that keeps a name of a file that is removed while it is open, as an NFS client does: copies, resumed copies and `atta clean`
//! leave nothing of their own there. The data itself is compared elsewhere.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use atta_testkit::lock::Lock;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use atta_testkit::slow::SlowFs;
use rustix::process::Signal;

use crate::support::{Ran, atta, make_directory, make_file, run, scratch};

/// A tree with files of several names, and where it is copied to.
struct Setting {
    scratch: Scratch,
    served: SlowFs,
    _lock: Lock,
}

fn setting(test: &str) -> Option<Setting> {
    let lock = Lock::for_own_mount().expect("take the lock of mounts");
    let scratch = scratch(test);
    let tree = make_directory(scratch.join("tree"));
    for number in 0..20 {
        let directory = make_directory(tree.join(number.to_string()));
        make_file(directory.join("file"), b"one");
        std::fs::hard_link(directory.join("file"), tree.join(format!("name of {number}"))).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, directory.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    }
    make_file(tree.join("large"), &vec![b'x'; 3 << 20]);
    let behind = make_directory(scratch.join("behind"));
    let builder = SlowFs::builder().latency(Duration::ZERO).over(&behind).keep_open_names();
    let served = skip::unless_available(test, builder.mount())?;
    Some(Setting { scratch, served, _lock: lock })
}

impl Setting {
    /// A directory on that file system.
    fn target(&self, name: &str) -> PathBuf {
        make_directory(self.served.path().join(name))
    }

    fn copy(&self, options: &[&str], target: &Path) -> Command {
        let mut command = atta();
        command.args(["copy", "--chunk", "1M", "--threads", "3"]).args(options);
        command.args([&self.scratch.join("tree"), target]);
        command
    }

    /// Leaves a copy into this directory incomplete: its source kills it, after the first second, from which on copies have logs. Returns
    /// the source, which does so once.
    fn kill_copy(&self, options: &[&str], target: &Path) -> SlowFs {
        let builder = SlowFs::builder().latency(Duration::ZERO).over(&self.scratch.join("tree"));
        let builder = builder.fail("read:large:delay=2500:times=1").fail("read:large:kill:times=1");
        let slow = builder.mount().unwrap();
        let mut command = atta();
        command.args(["copy", "--chunk", "1M", "--threads", "3"]).args(options);
        let ran = run(command.args([slow.path(), target]));
        assert_eq!(ran.signal(), Some(Signal::KILL.as_raw()), "{}: {}", ran.code(), ran.err());
        slow
    }
}

/// Names in a directory and below it that are neither the user's nor files of a copy.
fn own_names(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let found = entries.flat_map(|entry| {
        let name = entry.file_name();
        let is_own =
            [&b".atta"[..], b".nfs"].iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix));
        let below = entry.file_type().unwrap().is_dir().then(|| own_names(&entry.path()));
        below.into_iter().flatten().chain(is_own.then(|| entry.path()))
    });
    found.collect()
}

#[track_caller]
fn ends_clean(ran: Ran, directory: &Path) {
    let ran = ran.expect_code(0);
    let left = own_names(directory);
    assert!(left.is_empty(), "{left:?}: {}", ran.err());
}

#[test]
fn copies_leave_no_names_of_open_files() {
    let Some(setting) = setting("copies_leave_no_names_of_open_files") else { return };
    for (number, options) in [&[][..], &["--verify"], &["--fsync", "none"]].into_iter().enumerate() {
        let target = setting.target(&format!("copy-{number}"));
        ends_clean(run(&mut setting.copy(options, &target)), &target);
        ends_clean(run(&mut setting.copy(&["--update"], &target)), &target);
        // A name that goes late would change the time of its directory.
        run(atta().arg("verify").args([&setting.scratch.join("tree"), &target.join("tree")])).expect_code(0);
    }
}

#[test]
fn resumed_copies_leave_no_names_of_open_files() {
    let Some(setting) = setting("resumed_copies_leave_no_names_of_open_files") else { return };
    for (number, options) in [&[][..], &["--verify"]].into_iter().enumerate() {
        let target = setting.target(&format!("resumed-{number}"));
        let _source = setting.kill_copy(options, &target);
        assert!(!own_names(&target).is_empty());
        ends_clean(run(atta().arg("resume").arg(&target)), &target);
        run(atta().arg("verify").args([&setting.scratch.join("tree"), &target.join("mount")])).expect_code(0);
    }
}

#[test]
fn resumed_catalogs_leave_no_names_of_open_files() {
    let Some(setting) = setting("resumed_catalogs_leave_no_names_of_open_files") else { return };
    let target = setting.target("catalogs");
    let builder = SlowFs::builder().latency(Duration::ZERO).over(&setting.scratch.join("tree"));
    let builder = builder.fail("opendir:1*:delay=2500:times=1").fail("opendir:*:kill:skip=5:times=1");
    let source = builder.mount().unwrap();
    let catalog = target.join("scan.catalog");
    let mut walk = atta();
    walk.args(["walk", "-q", "-j", "1", "--output"]).args([&catalog, source.path()]);
    let ran = run(&mut walk);
    assert_eq!(ran.signal(), Some(Signal::KILL.as_raw()), "{}: {}", ran.code(), ran.err());
    assert!(!own_names(&target).is_empty());
    ends_clean(run(atta().arg("resume").arg(&catalog)), &target);
}

#[test]
fn cleaned_copies_leave_no_names_of_open_files() {
    let Some(setting) = setting("cleaned_copies_leave_no_names_of_open_files") else { return };
    let target = setting.target("cleaned");
    drop(setting.kill_copy(&[], &target));
    assert!(!own_names(&target).is_empty());
    ends_clean(run(atta().args(["clean", "--yes"]).arg(&target)), &target);
    let without_job = setting.target("without-job");
    drop(setting.kill_copy(&["--no-job"], &without_job));
    ends_clean(run(&mut setting.copy(&["--no-job"], &without_job)), &without_job);
}
