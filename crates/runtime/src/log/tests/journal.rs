//! A journal without threads on a disk that fails: what counts afterwards.

use std::sync::Arc;

use atta_entry::Errno as Number;
use atta_testkit::random::Random;
use rustix::io::Errno;

use super::disk::Disk;
use super::{NAME, NEXT, key, read_all, section};
use crate::Stop;
use crate::log::file::AHEAD;
use crate::log::journal::Journal;
use crate::log::outcome::{LogCall, LogError};

fn journal<'a>(disk: &Arc<Disk>, stop: &'a Stop) -> Journal<'a> {
    Journal::new(disk.file(NAME), key(), stop)
}

fn write(journal: &mut Journal<'_>, number: u64) -> Result<(), LogError> {
    journal.write(vec![section(number)])
}

fn sync(journal: &mut Journal<'_>) -> Result<(), LogError> {
    let synced = journal.begin_sync().run();
    journal.end_sync(&synced)
}

#[test]
fn nothing_noted_is_no_frame() {
    let (disk, stop) = (Arc::default(), Stop::new());
    let mut journal = journal(&disk, &stop);
    journal.write(Vec::new()).unwrap();
    journal.write(vec![Vec::new(); 3]).unwrap();
    let written = journal.finish().unwrap();
    assert_eq!((written.frames, written.bytes, written.syncs), (0, 0, 0));
    assert_eq!(disk.files()[&NAME], []);
}

#[test]
fn sync_covers_what_was_written_before_it_began() {
    let (disk, stop) = (Arc::default(), Stop::new());
    let mut journal = journal(&disk, &stop);
    write(&mut journal, 0).unwrap();
    let syncing = journal.begin_sync();
    let covered = disk.files()[&NAME].len() as u64;
    write(&mut journal, 1).unwrap();
    let (synced, begin) = (syncing.run(), disk.files()[&NAME].len());
    journal.end_sync(&synced).unwrap();
    write(&mut journal, 2).unwrap();
    // Magic, length and sequence come before it.
    let frame = &disk.files()[&NAME][begin..];
    assert_eq!(u64::from_le_bytes(frame[16..24].try_into().unwrap()), covered);
    assert_eq!(journal.unsynced_bytes(), disk.files()[&NAME].len() as u64 - covered);
    let written = journal.finish().unwrap();
    assert_eq!((written.frames, written.syncs), (3, 2));
    assert_eq!(read_all(&disk.stored()).0, [0, 1, 2]);
}

#[test]
fn space_is_reserved_ahead_of_each_frame() {
    let (disk, stop) = (Arc::default(), Stop::new());
    let mut journal = journal(&disk, &stop);
    for number in 0..3 {
        write(&mut journal, number).unwrap();
        let end = disk.files()[&NAME].len() as u64;
        assert_eq!(disk.lock().reserved[&NAME], end + AHEAD);
    }
    // The file system cannot reserve.
    for errno in [Errno::OPNOTSUPP, Errno::NOSYS] {
        disk.set(|faults| faults.reserve = Some(errno));
        write(&mut journal, 3).unwrap();
    }
    assert!(!stop.is_set());
}

#[test]
fn full_disk_stops_the_job_and_takes_frames() {
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        let (disk, stop) = (Arc::default(), Stop::new());
        let mut journal = journal(&disk, &stop);
        write(&mut journal, 0).unwrap();
        assert!(!stop.is_set());
        disk.set(|faults| faults.reserve = Some(errno));
        write(&mut journal, 1).unwrap();
        assert!(stop.is_set());
        write(&mut journal, 2).unwrap();
        let written = journal.finish().unwrap();
        assert_eq!(written.out_of_space, Some(Number(errno.raw_os_error())));
        assert_eq!(written.replaced, None);
        assert_eq!(read_all(&disk.stored()).0, [0, 1, 2]);
    }
}

#[test]
fn short_writes_are_continued() {
    let (disk, stop) = (Arc::default(), Stop::new());
    let mut journal = journal(&disk, &stop);
    disk.set(|faults| faults.short = Some(7));
    write(&mut journal, 0).unwrap();
    write(&mut journal, 1).unwrap();
    journal.finish().unwrap();
    assert_eq!(read_all(&disk.stored()).0, [0, 1]);
    let mut journal = self::journal(&disk, &stop);
    disk.set(|faults| faults.short = Some(0));
    write(&mut journal, 2).unwrap_err();
}

/// A journal with a frame on storage, one that may not be there, and a third one that has the disk's next fault.
fn after_a_failure(disk: &Arc<Disk>, stop: &Stop, is_write: bool) -> (Vec<u64>, LogError) {
    let mut journal = journal(disk, stop);
    write(&mut journal, 0).unwrap();
    sync(&mut journal).unwrap();
    write(&mut journal, 1).unwrap();
    if is_write {
        // A part of the frame is in the file.
        disk.set(|faults| (faults.write, faults.short) = ([(0, Errno::IO)].into(), Some(20)));
        write(&mut journal, 2).unwrap();
    } else {
        write(&mut journal, 2).unwrap();
        disk.set(|faults| faults.sync = [(0, Errno::IO)].into());
        sync(&mut journal).unwrap();
    }
    assert!(journal.is_sync_due && journal.unsynced_bytes() > 0);
    // As after a kill, and after a power cut.
    assert_eq!(read_all(&disk.files()).0, [0, 1, 2]);
    assert_eq!(read_all(&disk.stored()).0, [0]);
    write(&mut journal, 3).unwrap();
    let written = journal.finish().unwrap();
    assert!(!stop.is_set() && disk.lock().written_after_failure.is_empty());
    (read_all(&disk.stored()).0, written.replaced.unwrap())
}

#[test]
fn failed_write_goes_on_in_a_new_file() {
    let (disk, stop) = (Arc::default(), Stop::new());
    let (numbers, error) = after_a_failure(&disk, &stop, true);
    assert_eq!(numbers, [0, 1, 2, 3]);
    assert_eq!((error.log, error.call, error.errno), (NAME, LogCall::Write, Number::IO));
}

#[test]
fn failed_sync_writes_frames_again() {
    let (disk, stop) = (Arc::default(), Stop::new());
    let (numbers, error) = after_a_failure(&disk, &stop, false);
    assert_eq!(numbers, [0, 1, 2, 3]);
    assert_eq!((error.log, error.call, error.errno), (NAME, LogCall::Sync, Number::IO));
}

#[test]
fn failed_last_sync_writes_frames_again() {
    let (disk, stop) = (Arc::default(), Stop::new());
    let mut journal = journal(&disk, &stop);
    write(&mut journal, 0).unwrap();
    disk.set(|faults| faults.sync = [(0, Errno::IO)].into());
    assert_eq!(journal.finish().unwrap().syncs, 2);
    assert_eq!(read_all(&disk.stored()).0, [0]);
    assert_eq!(disk.stored()[&NAME], []);
}

#[test]
fn late_sync_of_the_part_before_says_nothing() {
    for errno in [None, Some(Errno::IO)] {
        let (disk, stop) = (Arc::default(), Stop::new());
        let mut journal = journal(&disk, &stop);
        write(&mut journal, 0).unwrap();
        let syncing = journal.begin_sync();
        disk.set(|faults| faults.write = [(0, Errno::IO)].into());
        write(&mut journal, 1).unwrap();
        let unsynced = journal.unsynced_bytes();
        disk.set(|faults| faults.sync = errno.map(|errno| (0, errno)).into_iter().collect());
        journal.end_sync(&syncing.run()).unwrap();
        assert_eq!(journal.unsynced_bytes(), unsynced);
        journal.finish().unwrap();
        assert_eq!(read_all(&disk.stored()).0, [0, 1]);
    }
}

#[test]
fn second_failure_stops_the_job() {
    for (call, errno) in
        [(LogCall::Create, Errno::NOSPC), (LogCall::Write, Errno::IO), (LogCall::Sync, Errno::IO)]
    {
        let (disk, stop) = (Arc::default(), Stop::new());
        let mut journal = journal(&disk, &stop);
        disk.set(|faults| match call {
            LogCall::Create => (faults.write, faults.create) = ([(0, Errno::IO)].into(), Some(errno)),
            LogCall::Write => faults.write = [(0, Errno::IO), (1, errno)].into(),
            _ => faults.sync = [(0, Errno::IO), (1, errno)].into(),
        });
        let first =
            write(&mut journal, 0).and_then(|()| sync(&mut journal)).and_then(|()| sync(&mut journal));
        let first = first.unwrap_err();
        assert_eq!((first.log, first.call, first.errno), (NEXT, call, Number(errno.raw_os_error())));
        assert!(stop.is_set() && journal.is_failed());
        let (files, syncs) = (disk.files(), disk.lock().syncs_begun);
        assert_eq!(write(&mut journal, 1), Err(first.clone()));
        assert_eq!(journal.finish(), Err(first));
        assert_eq!((disk.files(), disk.lock().syncs_begun), (files, syncs));
        assert!(disk.lock().written_after_failure.is_empty());
    }
}

#[test]
fn frame_that_is_too_large_is_an_error() {
    let (disk, stop) = (Arc::default(), Stop::new());
    let mut journal = journal(&disk, &stop);
    let error = journal.write(vec![vec![0; atta_ledger::FRAME_MAX as usize]]).unwrap_err();
    assert_eq!((error.call, error.errno), (LogCall::Write, Number::FBIG));
    assert!(stop.is_set());
}

#[test]
fn error_names_file_and_reason() {
    let before = LogError::new(NAME, LogCall::Sync, Errno::IO);
    let error =
        LogError { before: Some(Box::new(before)), ..LogError::new(NEXT, LogCall::Create, Errno::NOSPC) };
    assert_eq!(
        error.to_string(),
        "cannot create log 1.0.1: no space left on device (ENOSPC); before: cannot sync log 1.0: input/output error (EIO)"
    );
}

/// Whatever fails: after a kill each frame that was written counts once, after a power cut each that was synced, and no gap.
#[test]
fn random_failures_lose_no_frame_and_double_none() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let (disk, stop) = (Arc::default(), Stop::new());
        let mut journal = journal(&disk, &stop);
        let (mut written, mut stored, mut begun) = (0, 0, None);
        for _ in 0..random.below(30) {
            match random.below(8) {
                0 if begun.is_none() => begun = Some((journal.begin_sync(), written)),
                1 | 2 => {
                    let Some((syncing, until)) = begun.take() else { continue };
                    let synced = syncing.run();
                    let is_same = journal.end_sync(&synced).is_ok() && disk.lock().faults.sync.is_empty();
                    stored = if is_same && disk.files().len() == 1 { until } else { stored };
                }
                3 if random.below(3) == 0 => {
                    let (part, short) = (random.below(3) as u32, random.index(60));
                    disk.set(|faults| {
                        (faults.write, faults.short) = ([(part, Errno::IO)].into(), Some(1 + short));
                    });
                }
                4 if random.below(3) == 0 => {
                    let part = random.below(3) as u32;
                    disk.set(|faults| faults.sync = [(part, Errno::IO)].into());
                }
                _ if write(&mut journal, written).is_ok() => written += 1,
                _ => {}
            }
            if journal.is_failed() {
                break;
            }
            assert_eq!(read_all(&disk.files()).0, (0..written).collect::<Vec<_>>(), "seed {seed}");
        }
        let left = read_all(&disk.stored()).0;
        assert_eq!(left, (0..left.len() as u64).collect::<Vec<_>>(), "seed {seed}");
        assert!(left.len() as u64 >= stored, "seed {seed}: {left:?}, {stored} were stored");
        if journal.finish().is_ok() {
            assert_eq!(read_all(&disk.stored()).0, (0..written).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
