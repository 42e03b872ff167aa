//! The threads of a log on a disk in memory: who writes when, and who waits for whom.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::disk::Disk;
use super::{NAME, NEVER, NEXT, Notes, ON_REQUEST, key, read_all};
use crate::Stop;
use crate::log::outcome::{LogCall, LogError, LogWritten};
use crate::log::{LogHandle, LogLimits, Logging, write_beside};

/// Runs `body` with a log on that disk.
fn run<T>(
    (disk, notes): (&Arc<Disk>, &Notes),
    limits: LogLimits,
    body: impl FnOnce(&LogHandle<'_>, &Stop) -> T,
) -> (T, Result<LogWritten, LogError>) {
    let stop = Stop::new();
    let logging = Logging { facts: notes, stop: &stop, limits };
    write_beside((disk.file(NAME), key()), logging, |log| body(log, &stop))
}

#[test]
fn last_frame_is_written_and_synced() {
    let (disk, notes) = (Arc::default(), Notes::default());
    let (result, written) = run((&disk, &notes), ON_REQUEST, |_, _| {
        notes.add(0);
        7
    });
    let written = written.unwrap();
    assert_eq!((result, written.frames, written.syncs), (7, 1, 1));
    assert_eq!(written.bytes, disk.stored()[&NAME].len() as u64);
    assert_eq!(read_all(&disk.stored()).0, [0]);
}

#[test]
fn frames_and_syncs_come_at_intervals() {
    let (disk, notes): (Arc<Disk>, _) = (Arc::default(), Notes::default());
    let each = Duration::from_millis(1);
    let limits = LogLimits { frame_every: each, sync_every: each, ..ON_REQUEST };
    run((&disk, &notes), limits, |_, _| {
        for number in 0..3 {
            notes.add(number);
            disk.wait(|disk| {
                let stored = disk.stored.clone();
                read_all(&stored).0.len() as u64 == number + 1
            });
        }
    })
    .1
    .unwrap();
}

#[test]
fn what_was_noted_before_is_written_now() {
    let (disk, notes): (Arc<Disk>, _) = (Arc::default(), Notes::default());
    let (_, written) = run((&disk, &notes), ON_REQUEST, |log, _| {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (disk, notes) = (&disk, &notes);
                scope.spawn(move || {
                    for number in 0..50 {
                        notes.add(thread << 32 | number);
                        log.write_now().unwrap();
                        assert!(read_all(&disk.files()).0.contains(&(thread << 32 | number)));
                    }
                });
            }
        });
    });
    assert_eq!(written.unwrap().syncs, 1);
    assert_eq!(read_all(&disk.stored()).0.len(), 200);
}

#[test]
fn sync_now_waits_until_all_is_on_storage() {
    let (disk, notes): (Arc<Disk>, _) = (Arc::default(), Notes::default());
    let (_, written) = run((&disk, &notes), ON_REQUEST, |log, _| {
        for number in 0..20 {
            notes.add(number);
            log.sync_now().unwrap();
            assert_eq!(read_all(&disk.stored()).0.len() as u64, number + 1);
        }
        // Nothing is left to be synced.
        log.sync_now().unwrap();
    });
    assert_eq!(written.unwrap().syncs, 20);
    disk.set(|faults| faults.sync = [(0, Errno::IO), (1, Errno::IO)].into());
    let (synced, written) = run((&disk, &notes), ON_REQUEST, |log, _| {
        notes.add(20);
        log.sync_now()
    });
    assert!(synced.is_err() && written.is_err());
}

#[test]
fn frames_go_on_while_a_sync_hangs() {
    let (disk, notes): (Arc<Disk>, _) = (Arc::default(), Notes::default());
    disk.set(|faults| faults.hangs = true);
    let limits = LogLimits { sync_every: Duration::ZERO, ..ON_REQUEST };
    let (during, written) = run((&disk, &notes), limits, |log, _| {
        notes.add(0);
        log.write_now().unwrap();
        disk.wait(|disk| disk.syncs_begun == 1);
        for number in 1..5 {
            notes.add(number);
            log.write_now().unwrap();
        }
        let during = (disk.files(), disk.stored(), disk.lock().syncs_begun);
        disk.set(|faults| faults.hangs = false);
        during
    });
    written.unwrap();
    let (files, stored, syncs_begun) = during;
    assert_eq!((read_all(&files).0, read_all(&stored).0, syncs_begun), (vec![0, 1, 2, 3, 4], vec![], 1));
    assert_eq!(read_all(&disk.stored()).0, [0, 1, 2, 3, 4]);
}

#[test]
fn write_fails_while_a_sync_hangs() {
    let (disk, notes): (Arc<Disk>, _) = (Arc::default(), Notes::default());
    disk.set(|faults| faults.hangs = true);
    let limits = LogLimits { sync_every: Duration::ZERO, ..ON_REQUEST };
    let (files, written) = run((&disk, &notes), limits, |log, _| {
        notes.add(0);
        log.write_now().unwrap();
        disk.wait(|disk| disk.syncs_begun == 1);
        disk.set(|faults| faults.write = [(0, Errno::IO)].into());
        notes.add(1);
        log.write_now().unwrap();
        let files = disk.files();
        disk.set(|faults| faults.hangs = false);
        files
    });
    assert_eq!(read_all(&files).0, [0, 1]);
    assert!(written.unwrap().replaced.is_some());
    assert_eq!(read_all(&disk.stored()).0, [0, 1]);
}

#[test]
fn too_many_unsynced_bytes_wait_for_a_sync() {
    for unsynced_bytes in [0, 200] {
        let (disk, notes): (Arc<Disk>, _) = (Arc::default(), Notes::default());
        let limits = LogLimits { unsynced_bytes, ..ON_REQUEST };
        let (_, written) = run((&disk, &notes), limits, |log, _| {
            for number in 0..100 {
                notes.add(number);
                log.write_now().unwrap();
            }
        });
        assert!(written.unwrap().syncs > 10);
        let frame = disk.files()[&NAME].len() / 100;
        assert!(disk.lock().most_unsynced <= unsynced_bytes as usize + frame);
    }
}

#[test]
fn failed_log_stops_the_job_and_says_so() {
    let (disk, notes): (Arc<Disk>, _) = (Arc::default(), Notes::default());
    disk.set(|faults| faults.write = [(0, Errno::IO), (1, Errno::NOSPC)].into());
    let (error, written) = run((&disk, &notes), ON_REQUEST, |log, stop| {
        notes.add(0);
        let error = log.write_now().unwrap_err();
        assert!(stop.is_set());
        notes.add(1);
        assert_eq!(log.write_now(), Err(error.clone()));
        error
    });
    assert_eq!((error.log, error.call), (NEXT, LogCall::Write));
    assert_eq!(written, Err(error));
}

#[test]
fn waiting_writer_hears_of_a_failed_sync() {
    let (disk, notes): (Arc<Disk>, _) = (Arc::default(), Notes::default());
    disk.set(|faults| faults.sync = [(0, Errno::IO), (1, Errno::IO)].into());
    let limits = LogLimits { sync_every: NEVER, unsynced_bytes: 0, ..ON_REQUEST };
    run((&disk, &notes), limits, |log, _| {
        notes.add(0);
        log.write_now().unwrap();
        notes.add(1);
        log.write_now().unwrap_err();
    })
    .1
    .unwrap_err();
}

#[test]
fn panic_of_the_job_ends_the_threads() {
    let (disk, notes): (Arc<Disk>, _) = (Arc::default(), Notes::default());
    let run = || run((&disk, &notes), ON_REQUEST, |_, _| panic!("of the job")).1;
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
}
