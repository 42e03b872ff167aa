//! Reads copies back and compares them with the data read from their sources. This detects data that a disk, a cable or a server has
//! changed. Blocks that differ are written again and read back again.
//!
//! ```text
//!   complete, durable ─▶ Check: a file, or a chunk of one ─▶ out of the cache, read back, the same digest? ─▶ verified
//!                                                                 │ no
//!                        compare with the source, write blocks that differ, sync ─▶ the same now? ─ no ─▶ removed, reported
//! ```
//!
//! Each name of a file is checked, since every name has to be removed if the file is wrong. A file found right under one name is not read
//! again. A copy that cannot be read back at all is reported and stays: no fault in it is known. A copy whose source cannot be opened any
//! more stays, too.
//!
//! This module does not depend on how the data was copied. A copy that the kernel keeps in its cache, as on a file system in memory, is
//! read from the cache.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::{Errno, Timestamp};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags};

use crate::copy::Fsync;
use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::target::file::{Made, Place, remove};
use crate::copy::target::mirror::Mirror;
use crate::copy::target::mirror::{Location, Part};
use crate::digest::{Hash, Piece, PieceValue};
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::mover::Way;
use crate::file::source::{look, open};
use crate::file::version::Version;
use crate::metadata::give::{self, Manner};
use crate::metadata::not_kept::NotKept;
use atta_sys::{self as sys, retry};

/// Most checks that wait before the threads that copy do nothing but checks.
const WAITING_MOST: usize = 4096;
/// Bytes of small copies that are prefetched together before the first of them is checked.
const GROUP_BYTES: u64 = 4 << 20;
/// Most files with several names that are remembered as right; others are read once for each name.
const RIGHT_MOST: usize = 1 << 20;

/// A copy, or a part of one, that is to be read back.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) at: Location,
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) name: CString,
    /// Version of the source, and inode of the copy: another process may replace the copy.
    pub(crate) version: Version,
    pub(crate) range: Range<u64>,
    pub(crate) expected: Expected,
    /// The copy may have other names.
    pub(crate) has_names: bool,
    /// The access time that the copy was given: reading it back must not change it.
    pub(crate) atime: Option<Timestamp>,
    /// The slice that it is in: a rewrite needs the mode that the directory has before it is closed.
    pub(crate) part: Option<Part>,
}

/// The digest that a copy must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Whole(Hash),
    Piece(PieceValue),
}

/// Copies that wait to be read back.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    waiting: Mutex<VecDeque<Check>>,
    count: AtomicUsize,
    /// Copies with several names that were right: inode, and the first bytes of the digest.
    right: Mutex<HashMap<u64, u64>>,
    /// Held by the thread that rewrites: another thread may have to rewrite the same copy.
    mending: Mutex<()>,
    /// Copies with a reported failure, by path, and whether they were removed: one report for all chunks.
    told: Mutex<HashMap<Vec<u8>, bool>>,
}

/// The error of a check, and whether the copy is known to be wrong.
struct Wrong {
    error: FileError,
    is_known: bool,
}

impl Checks {
    pub(crate) fn add(&self, more: Vec<Check>) {
        if !more.is_empty() {
            let mut waiting = self.lock();
            waiting.extend(more);
            self.count.store(waiting.len(), Ordering::Relaxed);
        }
    }

    /// Takes at most `most` checks. An empty result: none waits.
    fn next(&self, most: usize) -> Vec<Check> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        if self.count.load(Ordering::Relaxed) == 0 {
            return group;
        }
        let mut waiting = self.lock();
        while group.len() < most && bytes < GROUP_BYTES {
            let Some(next) = waiting.pop_front() else { break };
            bytes = bytes.saturating_add(next.range.end - next.range.start);
            group.push(next);
        }
        self.count.store(waiting.len(), Ordering::Relaxed);
        group
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Check>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discards the waiting checks and releases their directories. Returns how many there were.
    pub(crate) fn forget(&self) -> u64 {
        let forgotten = std::mem::take(&mut *self.lock());
        self.count.store(0, Ordering::Relaxed);
        forgotten.len() as u64
    }

    fn told(&self) -> MutexGuard<'_, HashMap<Vec<u8>, bool>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a copy was removed.
    fn is_gone(&self, check: &Check) -> bool {
        let told = self.told();
        !told.is_empty() && told.get(&check.at.root_and_path().1) == Some(&true)
    }

    /// Notes a failure of a copy. Returns whether it is to be reported.
    fn note(&self, check: &Check, is_gone: bool) -> bool {
        let mut told = self.told();
        let before = told.get(&check.at.root_and_path().1).copied();
        told.insert(check.at.root_and_path().1, is_gone || before == Some(true));
        before.is_none_or(|was_gone| is_gone && !was_gone)
    }

    /// Whether a copy was found right under another name.
    fn is_right(&self, check: &Check) -> bool {
        let right = || self.right.lock().unwrap_or_else(PoisonError::into_inner);
        check.has_names
            && check
                .expected
                .beginning()
                .is_some_and(|digest| right().get(&check.version.inode) == Some(&digest))
    }

    /// Notes that a copy is right. Returns whether that is new, as far as is remembered.
    fn note_right(&self, check: &Check) -> bool {
        let Some(digest) = check.expected.beginning().filter(|_| check.has_names) else { return true };
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.len() >= RIGHT_MOST || right.insert(check.version.inode, digest) != Some(digest)
    }
}

impl Expected {
    /// The first bytes of a whole file's digest.
    fn beginning(&self) -> Option<u64> {
        let Self::Whole(digest) = self else { return None };
        digest.as_bytes().first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

impl Copying<'_> {
    /// Reads some copies back, between two tasks. Reads more while too many wait.
    pub(crate) fn check_some(&self, worker: &mut CopyWorker) {
        while self.check_group(worker) && self.checks.count.load(Ordering::Relaxed) >= WAITING_MOST {}
    }

    /// Reads back all waiting copies, unless the run is stopped.
    pub(crate) fn check_all(&self, worker: &mut CopyWorker) {
        while !self.options.walk.stop.is_set() && self.check_group(worker) {
            self.end_parts(worker);
        }
    }

    /// Reads back one group. Returns whether any check waited.
    fn check_group(&self, worker: &mut CopyWorker) -> bool {
        let group = self.checks.next(self.budget.group);
        let mut open =
            |check: &Check| (!self.checks.is_right(check)).then(|| self.open_afresh(worker, check));
        let opened: Vec<_> = group.iter().map(&mut open).collect();
        for (check, file) in group.iter().zip(opened) {
            self.check(worker, check, file);
        }
        let is_any = !group.is_empty();
        self.forget_checks(worker, group);
        is_any
    }

    /// Ends the slices of checks that are done or dropped.
    pub(crate) fn forget_checks(&self, worker: &mut CopyWorker, checks: Vec<Check>) {
        worker.ended.extend(checks.into_iter().filter_map(|check| check.part));
    }

    /// Checks one copy. `opened`: `None` if it is not to be read.
    fn check(&self, worker: &mut CopyWorker, check: &Check, opened: Option<Result<OwnedFd, FileError>>) {
        let Some(opened) = opened.filter(|_| !self.checks.is_gone(check)) else { return };
        if self.checks.is_right(check) {
            return;
        }
        // The open files of its group may have exceeded the limit.
        let opened = opened.or_else(|_| self.open_afresh(worker, check));
        let unread = |error| Wrong { error, is_known: false };
        let verified = opened.map_err(unread).and_then(|file| {
            let verified = self.verify(worker, check, &file);
            give_back_atime(worker, &file, check.atime);
            verified
        });
        match verified {
            // The run was stopped before the copy was read back; it is counted.
            Err(Wrong { error: FileError::Stopped, .. }) => worker.totals.not_verified += 1,
            Ok(()) => {
                // Two threads may have checked two names of the file.
                if self.checks.note_right(check) {
                    let verified = check.range.end - check.range.start;
                    let totals = &mut worker.totals;
                    totals.verified_bytes = totals.verified_bytes.saturating_add(verified);
                }
            }
            Err(Wrong { error, is_known }) => {
                // If the source is gone, a copy with a fault is better than none.
                let goes = is_known && self.with_source(worker, &check.at, |_, from| open(from)).is_ok();
                if goes {
                    self.take_away(worker, check);
                }
                if self.checks.note(check, goes) {
                    self.fail(worker, &check.at, error);
                }
            }
        }
    }

    /// Opens a copy, drops it from the cache and starts reading it ahead.
    fn open_afresh(&self, worker: &mut CopyWorker, check: &Check) -> Result<OwnedFd, FileError> {
        let to = self.place(worker, &check.mirror, &check.name)?;
        let file = self.open_copy(&to, check, OFlags::RDONLY)?;
        self.leave_cache(&file, check)?;
        let Range { start, end } = check.range;
        // The kernel's read-ahead fetches the rest.
        let length = std::num::NonZero::new((end - start).min(GROUP_BYTES));
        let _ = rustix::fs::fadvise(&file, start, length, Advice::WillNeed);
        Ok(file)
    }

    fn verify(&self, worker: &mut CopyWorker, check: &Check, file: &OwnedFd) -> Result<(), Wrong> {
        let read = self.is_as_expected(worker, file, check);
        match read {
            Ok(true) => return Ok(()),
            Err(FileError::Stopped) => return Err(Wrong { error: FileError::Stopped, is_known: false }),
            Ok(false) | Err(_) => {}
        }
        // A copy that cannot be read may be right, and may be readable once it is written again.
        let mut is_known = read.is_ok();
        let _turn = self.checks.mending.lock().unwrap_or_else(PoisonError::into_inner);
        let mended = self.mend_copy(worker, file, check, &mut is_known);
        mended.map_err(|error| Wrong { error, is_known })
    }

    /// Rewrites the blocks of a copy that are wrong. `is_known`: whether the copy is known to be wrong.
    fn mend_copy(
        &self,
        worker: &mut CopyWorker,
        wrong: &OwnedFd,
        check: &Check,
        is_known: &mut bool,
    ) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        let to = self.place(worker, &check.mirror, &check.name)?;
        let mode = sys::stat_descriptor(wrong).map_err(failed)?.mode & 0o7777;
        let file = match self.open_copy(&to, check, OFlags::RDWR) {
            Err(FileError::Failed(_, Errno::ACCES)) => {
                retry(|| rustix::fs::fchmod(wrong, Mode::RUSR | Mode::WUSR)).map_err(failed)?;
                self.open_copy(&to, check, OFlags::RDWR).inspect_err(|_| {
                    let _ = rustix::fs::fchmod(wrong, Mode::from_raw_mode(mode));
                })?
            }
            opened => opened?,
        };
        self.rewrite(worker, &file, check, mode, is_known)?;
        worker.totals.mended += 1;
        self.leave_cache(&file, check)?;
        match self.is_as_expected(worker, &file, check)? {
            true => Ok(()),
            false => Err(failed(Errno::IO)),
        }
    }

    /// Opens the copy, if it is still the file that was made.
    fn open_copy(&self, to: &Place<'_>, check: &Check, how: OFlags) -> Result<OwnedFd, FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |flags| retry(|| rustix::fs::openat(&to.directory, &check.name, flags, Mode::empty()));
        let file = match open(flags | OFlags::NOATIME) {
            // Only the owner, or a process with the owner's rights, may use `O_NOATIME`.
            Err(Errno::PERM) => open(flags),
            opened => opened,
        };
        let file = file.map_err(failed)?;
        let found = sys::stat_descriptor(&file).map_err(failed)?;
        if found.inode == check.version.inode { Ok(file) } else { Err(failed(Errno::STALE)) }
    }

    /// Drops a copy from the cache, as far as the kernel allows.
    fn leave_cache(&self, file: &OwnedFd, check: &Check) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        if self.options.fsync == Fsync::None && !self.stores.are_volatile() {
            // Only clean pages can leave the cache.
            self.syncs.timed(|| retry(|| rustix::fs::fdatasync(file))).map_err(failed)?;
        }
        let Range { start, end } = check.range;
        let length = std::num::NonZero::new(end - start);
        // This is advice: if the kernel ignores it, the read comes from the cache.
        let _ = rustix::fs::fadvise(file, start, length, Advice::DontNeed);
        Ok(())
    }

    fn is_as_expected(
        &self,
        worker: &mut CopyWorker,
        file: &OwnedFd,
        check: &Check,
    ) -> Result<bool, FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        let Range { start, end } = check.range;
        let mut piece = Piece::at(start);
        let found = sys::stat_descriptor(file).map_err(failed)?;
        let way = Way { has_holes: may_have_holes(&found), size: found.size, hasher: Some(&mut piece) };
        let came = worker.mover.hash(file.as_fd(), start..end, way)?;
        Ok(came == end
            && match check.expected {
                Expected::Whole(digest) => found.size == end && piece.digest() == digest,
                Expected::Piece(value) => piece.value() == Some(value),
            })
    }

    /// Writes the blocks that differ from the source, if the source is unchanged. `mode`: the mode of the copy.
    fn rewrite(
        &self,
        worker: &mut CopyWorker,
        file: &OwnedFd,
        check: &Check,
        mode: u32,
        is_known: &mut bool,
    ) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        let source = self.with_source(worker, &check.at, |_, from| open(from))?;
        let before = look(&source)?;
        if !check.version.is_of_source(&before) {
            return Err(FileError::Changed);
        }
        worker.mover.mend(source.as_fd(), file.as_fd(), check.range.clone(), is_known)?;
        if !check.version.is_of_source(&look(&source)?) {
            return Err(FileError::Changed);
        }
        // Writing clears set-id bits and capabilities, and sets the modification time. Attributes that are not kept were counted the
        // first time.
        let not_kept = worker.totals.not_kept;
        let extended = self.extended(worker, &source)?;
        worker.totals.not_kept = not_kept;
        let keep = &self.options.keep;
        let manner = Manner { keep, is_old: !keep.mode };
        let has_list = give::give(file, &before, &extended, manner, &mut NotKept::default())?;
        if !keep.mode && !has_list {
            retry(|| rustix::fs::fchmod(file, Mode::from_raw_mode(mode))).map_err(failed)?;
        }
        self.syncs.timed(|| retry(|| rustix::fs::fsync(file))).map_err(failed)
    }

    /// Removes a wrong copy: a later run would accept it.
    fn take_away(&self, worker: &mut CopyWorker, check: &Check) {
        if let Ok(to) = self.place(worker, &check.mirror, &check.name)
            && sys::stat_at(&to.directory, &check.name, false)
                .is_ok_and(|found| found.inode == check.version.inode)
        {
            remove(&to, &Made::default());
        }
    }
}

/// Restores the access time if reading the copy changed it although `O_NOATIME` was requested: this process does not own the file, or a
/// server sets the time. If it cannot be set, it is counted as not kept.
fn give_back_atime(worker: &mut CopyWorker, file: &OwnedFd, given: Option<Timestamp>) {
    let Some(given) = given else { return };
    // If `stat` fails, another step reports the failure.
    if sys::stat_descriptor(file).map_or(given, |found| found.atime) == given {
        return;
    }
    if give::set_atime(file, given).is_err() {
        worker.totals.not_kept.modes_and_times += 1;
    }
}
