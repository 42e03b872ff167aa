//! Logs on real file systems.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use atta_ledger::LogName;
use atta_testkit::lock::Lock;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use rustix::fs::FlockOperation::{NonBlockingLockExclusive, Unlock};
use rustix::io::Errno;

use super::{NAME, NEXT, Notes, ON_REQUEST, key, read_all, section};
use crate::log::file::{AHEAD, Calls, LaterLog, LogFile};
use crate::log::journal::Journal;
use crate::log::{Logging, with_log};
use crate::{LogLimits, Stop};

fn open(directory: &Path) -> OwnedFd {
    std::fs::File::open(directory).unwrap().into()
}

fn logs(directory: &Path) -> BTreeMap<LogName, Vec<u8>> {
    [(NAME, std::fs::read(directory.join("1.0")).unwrap())].into()
}

#[test]
fn log_is_read_back_from_its_file() {
    let scratch = Scratch::new("log").unwrap();
    let (notes, stop) = (Notes::default(), Stop::new());
    let file = LogFile::create(&open(scratch.path()), key(), NAME).unwrap();
    let logging = Logging { facts: &notes, stop: &stop, limits: LogLimits::default() };
    let (_, written) = with_log(file, logging, |log| {
        for number in 0..9 {
            notes.add(number);
            log.write_now().unwrap();
        }
        notes.add(9);
    });
    let written = written.unwrap();
    let (numbers, contents) = read_all(&logs(scratch.path()));
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    assert!(written.syncs > 0 && !stop.is_set() && written.out_of_space.is_none());
    assert_eq!((written.frames, written.bytes), (contents[&NAME].frames, contents[&NAME].bytes));
    assert!(!contents[&NAME].is_torn);
    assert_eq!(std::fs::File::open(scratch.join("1.0")).unwrap().metadata().unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn file_is_new_and_locked_while_it_is_open() {
    let scratch = Scratch::new("log").unwrap();
    let directory = open(scratch.path());
    let file = LogFile::create(&directory, key(), NAME).unwrap();
    let second = LogFile::create(&directory, key(), NAME).unwrap_err();
    assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
    let other = std::fs::File::open(scratch.join("1.0")).unwrap();
    let taken = || rustix::fs::flock(&other, NonBlockingLockExclusive);
    assert_eq!(taken(), Err(Errno::AGAIN));
    let (notes, stop) = (Notes::default(), Stop::new());
    let logging = Logging { facts: &notes, stop: &stop, limits: ON_REQUEST };
    let (locked, _) = with_log(file, logging, |_| taken());
    assert_eq!(locked, Err(Errno::AGAIN));
    taken().unwrap();
    rustix::fs::flock(&other, Unlock).unwrap();
}

#[test]
fn later_log_is_created_by_its_first_frame() {
    for (writes, stops, is_there) in [(false, false, false), (true, false, true), (false, true, true)] {
        let scratch = Scratch::new("log-later").unwrap();
        let directory = open(scratch.path());
        let create = move || LogFile::create_small(&directory, key(), NAME).ok();
        let later = LaterLog::new(key(), NAME, create, |_| {});
        let (notes, stop) = (Notes::default(), Stop::new());
        let logging = Logging { facts: &notes, stop: &stop, limits: ON_REQUEST };
        let (_, written) = with_log(later, logging, |log| {
            if !stops {
                notes.add(1);
            }
            assert!(!scratch.join("1.0").exists());
            if writes {
                log.write_now().unwrap();
            }
            if stops {
                stop.set();
            }
        });
        assert!(written.is_ok());
        assert_eq!(scratch.join("1.0").exists(), is_there, "{writes} {stops}");
        if is_there {
            let expected: &[u64] = if stops { &[] } else { &[1] };
            assert_eq!(
                read_all(&logs(scratch.path())).0,
                expected,
                "after a stop it is there, also with no notes"
            );
        }
    }
}

/// Its creation failed: what is written is dropped, and the job goes on.
#[test]
fn log_that_cannot_be_created_stops_nothing() {
    let (notes, stop) = (Notes::default(), Stop::new());
    let logging = Logging { facts: &notes, stop: &stop, limits: ON_REQUEST };
    let (_, written) = with_log(LaterLog::new(key(), NAME, || None, |_| {}), logging, |log| {
        assert!(!log.is_kept());
        notes.add(1);
        log.write_now().unwrap();
        notes.add(2);
        log.sync_now().unwrap();
    });
    assert!(written.is_ok() && !stop.is_set());
}

/// A file of which each sync fails.
#[derive(Debug)]
struct Unsyncable(LogFile);

impl Calls for Unsyncable {
    fn name(&self) -> LogName {
        self.0.name()
    }

    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        self.0.reserve(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        self.0.write(offset, bytes)
    }

    fn sync(&self) -> Result<(), Errno> {
        Err(Errno::IO)
    }

    fn next(&self) -> Result<Arc<dyn Calls>, Errno> {
        self.0.next()
    }
}

#[test]
fn next_part_is_a_file_beside_the_first() {
    let scratch = Scratch::new("log").unwrap();
    let stop = Stop::new();
    let file = Unsyncable(LogFile::create(&open(scratch.path()), key(), NAME).unwrap());
    let mut journal = Journal::new(Arc::new(file), key(), &stop);
    journal.write(vec![section(0)]).unwrap();
    journal.write(vec![section(1)]).unwrap();
    assert!(journal.finish().unwrap().replaced.is_some());
    let mut logs = logs(scratch.path());
    assert_eq!(read_all(&logs).0, [0, 1]);
    logs.insert(NEXT, std::fs::read(scratch.join("1.0.1")).unwrap());
    let (numbers, contents) = read_all(&logs);
    assert_eq!((numbers, contents[&NAME].frames, contents[&NEXT].frames), (vec![0, 1], 0, 2));
}

#[test]
fn link_is_not_followed() {
    let scratch = Scratch::new("log").unwrap();
    std::os::unix::fs::symlink(scratch.join("elsewhere"), scratch.join("1.0")).unwrap();
    LogFile::create(&open(scratch.path()), key(), NAME).unwrap_err();
    assert!(!scratch.join("elsewhere").exists());
}

#[test]
fn full_file_system_takes_what_is_reserved() {
    let _lock = Lock::for_mounts().unwrap();
    let test = "full_file_system_takes_what_is_reserved";
    let Some(scratch) = skip::unless_available(test, Scratch::on_tmpfs(3 << 20)) else { return };
    let (notes, stop) = (Notes::default(), Stop::new());
    let file = LogFile::create(&open(scratch.path()), key(), NAME).unwrap();
    let logging = Logging { facts: &notes, stop: &stop, limits: ON_REQUEST };
    let (_, written) = with_log(file, logging, |log| {
        notes.add(0);
        log.write_now().unwrap();
        let filled = std::fs::write(scratch.join("other"), vec![1; 3 << 20]).unwrap_err();
        assert_eq!(filled.kind(), io::ErrorKind::StorageFull);
        assert!(!stop.is_set());
        // Less than what is reserved.
        for number in 1..10_000 {
            notes.add(number);
            log.write_now().unwrap();
        }
    });
    let written = written.unwrap();
    assert!(stop.is_set() && written.bytes < AHEAD);
    assert_eq!((written.out_of_space, written.replaced), (Some(atta_entry::Errno::NOSPC), None));
    assert_eq!(read_all(&logs(scratch.path())).0, (0..10_000).collect::<Vec<_>>());
}

#[test]
fn log_without_space_is_not_created() {
    let _lock = Lock::for_mounts().unwrap();
    let test = "log_without_space_is_not_created";
    let Some(scratch) = skip::unless_available(test, Scratch::on_tmpfs(AHEAD / 2)) else { return };
    let error = LogFile::create(&open(scratch.path()), key(), NAME).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(!scratch.join("1.0").exists());
}
