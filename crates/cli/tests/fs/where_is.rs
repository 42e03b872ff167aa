//! `atta where` and file systems that do not answer, or are mounted when they are used.

use std::fs;

use atta_testkit::automounts::Automounts;
use atta_testkit::lock::Lock;
use atta_testkit::skip::unless_available;
use atta_testkit::slow::SlowFs;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Ran, atta, make_directory, make_link, run, scratch};

fn where_is(arguments: &[&str]) -> Ran {
    run(atta().arg("where").args(arguments))
}

// SIGKILL does not end a call to such a file system: the process that makes it is left behind.
#[test]
fn file_system_that_hangs_is_left_behind() {
    let test = "file_system_that_hangs_is_left_behind";
    let _lock = Lock::for_own_mount().expect("take the lock of mounts");
    let scratch = scratch("where-hangs");
    let tree = make_directory(scratch.join("tree"));
    let Some(hanging) = unless_available(test, SlowFs::builder().over(&tree).mount()) else { return };
    let path = hanging.path().to_str().unwrap();
    let _ = where_is(&[path]).expect_code(0);
    let server = Pid::from_raw(i32::try_from(hanging.process()).unwrap()).unwrap();
    kill_process(server, Signal::STOP).unwrap();
    let ended = std::panic::catch_unwind(|| {
        let below = format!("{path}/below");
        where_is(&["--deadline", "0.5", &below, "/"])
    });
    kill_process(server, Signal::CONT).unwrap();
    let ran = ended.unwrap().expect_code(3);
    assert!(ran.err().contains("below: no answer within 0.5 s"), "{}", ran.err());
    let rows: Vec<_> = ran.out().lines().map(str::to_owned).collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows[2].starts_with("/ "), "{rows:?}");
}

#[test]
fn automounter_is_not_triggered() {
    let test = "automounter_is_not_triggered";
    let _lock = Lock::for_own_mount().expect("take the lock of mounts");
    let scratch = scratch("where-autofs");
    let path = make_directory(scratch.join("auto"));
    let Some(_automounts) = unless_available(test, Automounts::on(&path, &["home"])) else { return };
    make_link("auto/home/file", scratch.join("link"));
    let below = path.join("home").to_str().unwrap().to_owned();
    for path in [&below, scratch.join("link").to_str().unwrap()] {
        let ran = where_is(&[path]).expect_code(0);
        assert!(ran.err().contains("an automounter mounts it when it is used"), "{}", ran.err());
    }
    let mounted = || fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&below);
    assert!(!mounted());
    fs::read_dir(&below).unwrap();
    assert!(mounted(), "the automounter works");
    let ran = where_is(&[&below]).expect_code(0);
    assert!(ran.err().is_empty() && ran.out().contains("tmpfs"), "{}", ran.out());
}
