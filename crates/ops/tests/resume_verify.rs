//! Comparisons that go on from logs which only several ranks leave. Those of processes that are killed: see the program's tests.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

use atta_entry::{Difference, Failure};
use atta_ledger::{At, Fact, Frame, JobLogs, Key, LogName, Records, SliceNumber, frame};
use atta_ops::verify::{self, Options, Trees, Watch};
use atta_ops::walk::Journal;
use atta_runtime::Session;
use atta_testkit::scratch::Scratch;

/// Keeps the paths that differ.
#[derive(Default)]
struct Keep(Mutex<Vec<String>>);

impl Watch for Keep {
    fn difference(&self, difference: &Difference<'_>) {
        self.0.lock().unwrap().push(String::from_utf8_lossy(&difference.path).into_owned());
    }

    fn failure(&self, failure: &Failure<'_>) {
        panic!("{failure}");
    }
}

/// What another rank did in a directory is lost, but its closing is in the log, with what only TARGET has in it.
#[test]
fn what_a_closing_found_is_not_found_again() {
    let scratch = Scratch::new("resume-verify").unwrap();
    for (side, files) in [("source", &["x"][..]), ("target", &["x", "extra"])] {
        let directory = scratch.join(side).join("d");
        fs::create_dir_all(&directory).unwrap();
        files.iter().for_each(|file| fs::write(directory.join(file), "same").unwrap());
    }
    let (key, name) = (Key::of_job(&[1; 16]), LogName { run: 1, rank: 0, part: 0 });
    for was_closed in [false, true] {
        let (mut records, d) = (Records::default(), At { root: 0, path: b"d" });
        records.add_fact(At { root: 0, path: b"" }, &Fact::Found { name: b"d", mark: 0 });
        let slice = SliceNumber { run: 1, rank: 0, number: 0 };
        records.add_fact(d, &Fact::Listed { slice, names: vec![b"x"] });
        records.add_fact(d, &Fact::Done { slice: None, seen: None });
        if was_closed {
            records.add_fact(d, &Fact::Closed);
        }
        let head = Frame { offset: 0, sequence: 0, synced: 0 };
        let log = frame(&key, name, head, &[records.take()]).unwrap();
        let mut logs = JobLogs::find(&key, vec![(name, log.as_slice())]).unwrap();
        let mut journal = Journal::new(key, 2, 0).with_closing();
        journal.resume(&mut logs, 1 << 20, &mut |_| {}).unwrap();
        let (options, keep) = (Options::default(), Keep::default());
        let sides = ["source", "target"].map(|side| scratch.join(side).as_os_str().as_bytes().to_vec());
        let trees = Trees::open(&sides[0], &sides[1], &options).unwrap();
        let mut session = Session::alone(options.walk.stop.clone());
        verify::run_logged(&mut session, &trees, &options, (&keep, &journal), |_| {}).unwrap();
        let found = keep.0.into_inner().unwrap();
        let extras = found.iter().filter(|path| path.ends_with("d/extra")).count();
        assert_eq!(extras, usize::from(!was_closed), "{found:?}");
    }
}
