//! The example `extra` as a library: sums of directories on threads, on ranks within this process, and of a slow and obvious oracle.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

#[expect(dead_code, reason = "its main function and output")]
#[path = "../examples/extra.rs"]
mod extra;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use atta_engine::{Config, ScheduleKind};
use atta_fabric::in_process_on_hosts;
use atta_runtime::{Limits, Session, Stop};
use atta_testkit::scratch::Scratch;
use extra::{Extra, extra};

/// Names and bytes by directory.
type Sums = BTreeMap<PathBuf, (u64, u64)>;

/// Two trees; the first lacks files and whole directories of the second.
fn trees(scratch: &Scratch) -> [PathBuf; 2] {
    let trees = [scratch.join("source"), scratch.join("target")];
    for (side, tree) in trees.iter().enumerate() {
        for number in 0..60_u64 {
            let directory = tree.join(format!("{}/{}/{number}", number % 3, number % 7));
            if side == 0 && number % 5 == 1 {
                continue;
            }
            fs::create_dir_all(directory.join("deep/er")).unwrap();
            for file in 0..number * 12 {
                if side == 1 || file % 9 != 4 {
                    fs::write(directory.join(format!("deep/{file}")), vec![b'x'; file as usize]).unwrap();
                }
            }
        }
    }
    trees
}

/// What the oracle finds below a directory of TARGET, with what is below it.
fn expected(source: &Path, target: &Path, sums: &mut Sums) -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in fs::read_dir(target).unwrap().map(Result::unwrap) {
        let other = source.join(entry.file_name());
        let metadata = entry.metadata().unwrap();
        if !other.exists() {
            sum = (sum.0 + 1, sum.1 + if metadata.is_file() { metadata.len() } else { 0 });
        }
        if metadata.is_dir() {
            let below = expected(&other, &entry.path(), sums);
            sum = (sum.0 + below.0, sum.1 + below.1);
        }
    }
    if sum != (0, 0) {
        sums.insert(target.to_path_buf(), sum);
    }
    sum
}

/// Runs the operation as one rank. Each directory is passed on one rank alone.
fn run(session: &mut Session<'_>, [source, target]: &[PathBuf; 2], found: &Mutex<Sums>) {
    let both = [source.as_os_str().as_bytes(), target.as_os_str().as_bytes()];
    let each = |path: &[u8], Extra { names, bytes, failed }: &Extra| {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        assert!(*failed == 0 && found.lock().unwrap().insert(path, (*names, *bytes)).is_none());
    };
    extra(session, both, &Stop::new(), each).unwrap();
}

#[test]
fn extra_names_add_up_on_threads_and_ranks() {
    let scratch = Scratch::new("extra").unwrap();
    let trees = trees(&scratch);
    let mut sums = Sums::new();
    expected(&trees[0], &trees[1], &mut sums);
    assert!(sums.len() > 50);
    let found = Mutex::default();
    run(&mut Session::alone(Stop::new()), &trees, &found);
    assert_eq!(found.into_inner().unwrap(), sums);
    for schedule in ScheduleKind::ALL {
        let found = Mutex::default();
        std::thread::scope(|scope| {
            for mut endpoint in in_process_on_hosts(&[0, 0, 1]) {
                let (found, trees) = (&found, &trees);
                scope.spawn(move || {
                    let config = Config { schedule, ..Config::default() };
                    let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                    let mut session = joined.unwrap().unwrap().with_schedule(config);
                    run(&mut session, trees, found);
                    session.close((), |(), ()| ()).unwrap();
                });
            }
        });
        assert_eq!(found.into_inner().unwrap(), sums, "{schedule}");
    }
}
