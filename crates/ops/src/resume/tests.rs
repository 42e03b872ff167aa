//! Job directories: begun, resumed, complete, held, and what is refused.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::Path;

use atta_ledger::{Frame, FrameAt, Key, LogName, Logs, Record as Noted, Records};
use atta_testkit::scratch::Scratch;

use rustix::fs::FlockOperation;

use super::*;

fn request(agrees: &[&str]) -> Request {
    let agrees = agrees.iter().map(|one| one.as_bytes().to_vec()).collect();
    Request { directory: b"/".to_vec(), arguments: vec![b"walk".to_vec()], agrees }
}

fn place(path: &Path) -> JobPlace {
    JobPlace::from(path)
}

fn refused(path: &Path, asks: &Request) -> String {
    LoggedJob::begin(&place(path), asks).unwrap_err().describe(Path::new("DIR"))
}

#[test]
fn job_is_begun_resumed_and_completed() {
    let scratch = Scratch::new("resume-directory").unwrap();
    let (path, asks) = (scratch.join("job"), request(&["/data", "--max-depth 3"]));
    let job = LoggedJob::begin(&place(&path), &asks).unwrap();
    let (key, began) = (format!("{:?}", job.key()), job.header.began);
    assert_eq!((job.run(), job.logs.len()), (1, 0));
    let holder = format!("the job in DIR is running: pid {} on ", std::process::id());
    assert!(refused(&path, &asks).starts_with(&holder), "{}", refused(&path, &asks));
    drop(job);
    fs::write(path.join("1.0"), "").unwrap();
    fs::write(path.join("10.2.1"), "").unwrap();
    fs::write(path.join("2.0"), "").unwrap();
    let job = LoggedJob::resume(&place(&path)).unwrap();
    assert_eq!((format!("{:?}", job.key()), job.header.began, job.run()), (key, began, 11));
    assert_eq!(job.logs.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1.0", "2.0", "10.2.1"]);
    assert_eq!(LoggedJob::request_of(&place(&path)).unwrap(), asks);
    job.complete(b"done").unwrap();
    assert!(
        matches!(LoggedJob::begin(&place(&path), &asks), Err(NotBegun::Complete(summary)) if summary == b"done")
    );
    assert!(!path.join("1.0").exists() && path.join("end").exists());
}

/// It may have written to the target.
#[test]
fn job_without_a_log_has_had_a_run() {
    let scratch = Scratch::new("resume-no-log").unwrap();
    let (path, asks) = (scratch.join("job"), request(&["/data"]));
    assert_eq!(LoggedJob::begin(&place(&path), &asks).unwrap().run(), 1);
    assert_eq!(LoggedJob::begin(&place(&path), &asks).unwrap().run(), 2);
    assert_eq!(LoggedJob::begin_anew(&place(&path), &asks).unwrap().run(), 1);
    // Removed while it is held, as the process before does that ends.
    let held = LoggedJob::begin(&place(&path), &asks).unwrap();
    fs::remove_file(path.join("holder")).unwrap();
    assert_eq!(LoggedJob::begin(&place(&path), &asks).unwrap().run(), 2);
    drop(held);
    // Somebody has begun to forget it: what is left is no job.
    fs::write(path.join("1.0"), "").unwrap();
    fs::remove_file(path.join("job")).unwrap();
    assert!(matches!(LoggedJob::resume(&place(&path)), Err(NotBegun::NotAJob)));
    let job = LoggedJob::begin(&place(&path), &asks).unwrap();
    assert_eq!((job.run(), job.logs.len()), (1, 0));
    assert!(!path.join("1.0").exists());
}

#[test]
fn job_is_begun_anew_on_request() {
    let scratch = Scratch::new("resume-anew").unwrap();
    let path = scratch.join("job");
    let first = LoggedJob::begin(&place(&path), &request(&["/data"])).unwrap();
    let number = first.number();
    assert!(matches!(LoggedJob::begin_anew(&place(&path), &request(&["/data"])), Err(NotBegun::Runs(_))));
    drop(first);
    fs::write(path.join("1.0"), "").unwrap();
    let same = LoggedJob::begin_anew(&place(&path), &request(&["/data"])).unwrap();
    assert!(same.number() != number && same.run() == 1);
    same.complete(b"done").unwrap();
    let other = LoggedJob::begin_anew(&place(&path), &request(&["/other"])).unwrap();
    assert_eq!(LoggedJob::request_of(&place(&path)).unwrap(), request(&["/other"]));
    drop(other);
    fs::write(path.join("data"), "of somebody").unwrap();
    assert!(matches!(LoggedJob::begin_anew(&place(&path), &request(&["/data"])), Err(NotBegun::NotAJob)));
    assert!(path.join("job").exists());
}

#[test]
fn log_that_is_still_written_is_not_read() {
    let scratch = Scratch::new("resume-writer").unwrap();
    let path = scratch.join("job");
    drop(LoggedJob::begin(&place(&path), &request(&["/data"])).unwrap());
    let log = fs::File::create(path.join("1.3")).unwrap();
    rustix::fs::flock(&log, FlockOperation::NonBlockingLockExclusive).unwrap();
    for begin in [LoggedJob::begin, LoggedJob::begin_anew] {
        let refused = begin(&place(&path), &request(&["/data"])).unwrap_err();
        assert!(matches!(refused, NotBegun::Writes(name) if name.to_string() == "1.3"), "{refused:?}");
    }
    drop(log);
    assert_eq!(LoggedJob::begin(&place(&path), &request(&["/data"])).unwrap().run(), 2);
}

#[test]
fn other_job_is_refused_with_the_difference() {
    let scratch = Scratch::new("resume-other").unwrap();
    let path = scratch.join("job");
    drop(LoggedJob::begin(&place(&path), &request(&["/data", "--max-depth 3"])).unwrap());
    let other = "DIR is the directory of another job: ";
    assert_eq!(
        refused(&path, &request(&["/other", "--max-depth 3"])),
        format!("{other}it has /data, not /other")
    );
    assert_eq!(refused(&path, &request(&["/data"])), format!("{other}it has --max-depth 3"));
}

#[test]
fn directory_that_is_not_a_private_job_is_refused() {
    let asks = request(&["/data"]);
    for (what, said) in [
        ("open", "the job directory DIR is not private, or belongs to somebody else"),
        ("data", "DIR holds no job"),
        ("link", "cannot open the job directory DIR: "),
        ("file", "cannot open the job directory DIR: "),
        ("linked header", "cannot read the job directory DIR: "),
        ("second name", "cannot read the job directory DIR: operation not permitted (EPERM)"),
        ("damaged header", "DIR/job is not valid, or of another version"),
        ("missing above", "cannot make the job directory DIR: no such file or directory (ENOENT)"),
    ] {
        let scratch = Scratch::new("resume-refused").unwrap();
        let path = scratch.join("job");
        let private = || fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        match what {
            "open" => {
                private();
                give_mode(&path, 0o750);
            }
            "data" => {
                private();
                fs::write(path.join("data"), "of somebody").unwrap();
            }
            "link" => symlink("/tmp", &path).unwrap(),
            "file" => fs::write(&path, "data").unwrap(),
            "missing above" => {}
            _ => drop(LoggedJob::begin(&place(&path), &asks).unwrap()),
        }
        let header = path.join("job");
        match what {
            "linked header" => {
                fs::rename(&header, scratch.join("elsewhere")).unwrap();
                symlink(scratch.join("elsewhere"), &header).unwrap();
            }
            "second name" => fs::hard_link(&header, scratch.join("second")).unwrap(),
            "damaged header" => fs::write(&header, "atta log 2\nend\n").unwrap(),
            _ => {}
        }
        let path = if what == "missing above" { scratch.join("none").join("job") } else { path };
        let found = refused(&path, &asks);
        assert!(found.starts_with(said), "{what}: {found}");
    }
}

#[test]
fn damaged_log_is_named() {
    let scratch = Scratch::new("resume-damaged").unwrap();
    let path = scratch.join("job");
    let job = LoggedJob::begin(&place(&path), &request(&["/data"])).unwrap();
    let first = frame(&job.key(), 1, (0, 0), &[data()]);
    let mut bytes = [first.clone(), frame(&job.key(), 1, (first.len(), 1), &[data()])].concat();
    bytes[40] ^= 1;
    write_log(&path.join("1.0"), &bytes);
    drop(job);
    let job = LoggedJob::resume(&place(&path)).unwrap();
    assert_eq!(job.earlier().unwrap_err().to_string(), "the log 1.0 is damaged at byte 0");
}

#[test]
fn what_an_earlier_run_writes_late_does_not_count() {
    let scratch = Scratch::new("resume-late").unwrap();
    let path = scratch.join("job");
    let key = LoggedJob::begin(&place(&path), &request(&["/data"])).unwrap().key();
    let first = frame(&key, 1, (0, 0), &[data()]);
    write_log(&path.join("1.0"), &first);
    let job = LoggedJob::resume(&place(&path)).unwrap();
    let cuts: Vec<_> = job.earlier().unwrap().cuts().collect();
    assert_eq!(counted(&job), [("1.0".to_owned(), first.len())]);
    // The process of run 1 was only stopped.
    let late = [first.clone(), frame(&key, 1, (first.len(), 1), &[data()])].concat();
    write_log(&path.join("1.0"), &late);
    let second = frame(&key, 2, (0, 0), &cuts);
    write_log(&path.join("2.0"), &second);
    drop(job);
    let job = LoggedJob::resume(&place(&path)).unwrap();
    let expected = [("1.0".to_owned(), first.len()), ("2.0".to_owned(), second.len())];
    assert_eq!(counted(&job), expected);
    let mut frames = 0;
    let mut each = |_: FrameAt, _: &[u8]| {
        frames += 1;
        true
    };
    job.earlier().unwrap().each(&mut each).unwrap();
    assert_eq!(frames, 2);
}

fn data() -> Noted<'static> {
    Noted::Part(&[1; 100])
}

/// A frame of the log of a run, at an offset, with its number. All before it is on storage.
fn frame(key: &Key, run: u32, (offset, sequence): (usize, u64), of: &[Noted<'_>]) -> Vec<u8> {
    let mut records = Records::default();
    of.iter().for_each(|record| records.add(record));
    let head = Frame { offset: offset as u64, sequence, synced: offset as u64 };
    atta_ledger::frame(key, LogName { run, rank: 0, part: 0 }, head, &[records.take()]).unwrap()
}

fn write_log(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    give_mode(path, 0o600);
}

/// The logs of earlier runs, and the bytes that count of each.
fn counted(job: &LoggedJob) -> Vec<(String, usize)> {
    let found = job.earlier().unwrap();
    let numbers = found.cuts().map(|cut| match cut {
        Noted::Cut { log, bytes } => (log.to_string(), bytes as usize),
        other => panic!("{other:?}"),
    });
    numbers.collect()
}

fn give_mode(path: &Path, mode: u32) {
    fs::File::open(path).unwrap().set_permissions(fs::Permissions::from_mode(mode)).unwrap();
}
