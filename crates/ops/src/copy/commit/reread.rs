//! Reads copies back and compares them with what was read from their sources: what a disk, a cable or a server has changed on the
//! way. What differs is written once more, block by block, and read back again.
//!
//! ```text
//!   complete, durable ─▶ Check: a file, or a chunk of one ─▶ out of the cache, read back, the same digest? ─▶ verified
//!                                                                 │ no
//!                        compare with the source, write what differs, sync ─▶ the same now? ─ no ─▶ removed, and told
//! ```
//!
//! Each name of a file is looked at, since each has to go if the file is not as it must be; a file that was right under one name is
//! not read once more. A copy that cannot be read back at all is told, and stays: nobody knows that anything is wrong with it. So
//! does one whose source cannot be opened any more.
//!
//! It does not know how the bytes came there. A copy that the kernel does not let out of its cache, as in memory, is read from there.

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
use crate::copy::large::Version;
use crate::copy::target::file::{Made, Place, remove};
use crate::copy::target::mirror::Mirror;
use crate::digest::{Hash, Piece, PieceValue};
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::mover::Way;
use crate::file::source::{look, open};
use crate::metadata::give::{self, Manner};
use crate::metadata::not_kept::NotKept;
use crate::tree::location::Location;
use crate::tree::slice::Part;
use atta_sys::{self as sys, retry};

/// So many may wait before those who copy do nothing else.
const WAITING_MOST: usize = 4096;
/// Small ones are asked of the disk together, of so many bytes, before the first of them is looked at.
const GROUP_BYTES: u64 = 4 << 20;
/// Of so many files with several names it is remembered that they were right; others are read once for each name.
const RIGHT_MOST: usize = 1 << 20;

/// A copy, or a part of one, that is to be read back.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) at: Location,
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) name: CString,
    /// What the source was, and which file the copy is: somebody may put another one in its place.
    pub(crate) version: Version,
    pub(crate) range: Range<u64>,
    pub(crate) expected: Expected,
    /// The copy may have other names.
    pub(crate) has_names: bool,
    /// The time of access that it was given: reading it back is no access.
    pub(crate) atime: Option<Timestamp>,
    /// Of the slice that it is in: mending needs the rights that its directory has before it is closed.
    pub(crate) part: Option<Part>,
}

/// What it must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Whole(Hash),
    Piece(PieceValue),
}

/// What waits to be read back.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    waiting: Mutex<VecDeque<Check>>,
    count: AtomicUsize,
    /// Copies with several names that were right: their inodes, and the beginning of the digest.
    right: Mutex<HashMap<u64, u64>>,
    /// Held by who mends: another thread may have to mend the same copy.
    mending: Mutex<()>,
    /// Copies of which something was told, by path, and whether they are gone: one word for all chunks.
    told: Mutex<HashMap<Vec<u8>, bool>>,
}

/// Why a copy was not found right, and whether it is known to be wrong.
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

    /// Takes some, so many at most; none: nothing waits.
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

    /// Forgets what waits to be read back, and lets go of its directories; how much it was.
    pub(crate) fn forget(&self) -> u64 {
        let forgotten = std::mem::take(&mut *self.lock());
        self.count.store(0, Ordering::Relaxed);
        forgotten.len() as u64
    }

    fn told(&self) -> MutexGuard<'_, HashMap<Vec<u8>, bool>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a copy is gone by now.
    fn is_gone(&self, check: &Check) -> bool {
        let told = self.told();
        !told.is_empty() && told.get(&check.at.root_and_path().1) == Some(&true)
    }

    /// Notes that something is wrong with a copy; whether that is new.
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

    /// Notes that a copy is right; whether that is new, as far as anybody knows.
    fn note_right(&self, check: &Check) -> bool {
        let Some(digest) = check.expected.beginning().filter(|_| check.has_names) else { return true };
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.len() >= RIGHT_MOST || right.insert(check.version.inode, digest) != Some(digest)
    }
}

impl Expected {
    /// The beginning of a whole file's digest.
    fn beginning(&self) -> Option<u64> {
        let Self::Whole(digest) = self else { return None };
        digest.as_bytes().first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

impl Copying<'_> {
    /// Reads some copies back, between two tasks; more while too many wait.
    pub(crate) fn check_some(&self, worker: &mut CopyWorker) {
        while self.check_group(worker) && self.checks.count.load(Ordering::Relaxed) >= WAITING_MOST {}
    }

    /// Reads all back that waits, unless all is to end.
    pub(crate) fn check_all(&self, worker: &mut CopyWorker) {
        while !self.options.walk.stop.is_set() && self.check_group(worker) {
            self.end_parts(worker);
        }
    }

    /// Whether there was something.
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

    /// Ends what waited for checks that are done, or will not be.
    pub(crate) fn forget_checks(&self, worker: &mut CopyWorker, checks: Vec<Check>) {
        worker.ended.extend(checks.into_iter().filter_map(|check| check.part));
    }

    /// `opened`: none, if nothing is to be read.
    fn check(&self, worker: &mut CopyWorker, check: &Check, opened: Option<Result<OwnedFd, FileError>>) {
        let Some(opened) = opened.filter(|_| !self.checks.is_gone(check)) else { return };
        if self.checks.is_right(check) {
            return;
        }
        // The others of its group may have been too many.
        let opened = opened.or_else(|_| self.open_afresh(worker, check));
        let unread = |error| Wrong { error, is_known: false };
        let verified = opened.map_err(unread).and_then(|file| {
            let verified = self.verify(worker, check, &file);
            give_back_atime(worker, &file, check.atime);
            verified
        });
        match verified {
            // It was not read back; whoever asked it to end has the count.
            Err(Wrong { error: FileError::Stopped, .. }) => worker.totals.not_verified += 1,
            Ok(()) => {
                // Two threads may have met two of its names.
                if self.checks.note_right(check) {
                    let verified = check.range.end - check.range.start;
                    let totals = &mut worker.totals;
                    totals.verified_bytes = totals.verified_bytes.saturating_add(verified);
                }
            }
            Err(Wrong { error, is_known }) => {
                // Location there is nothing left to copy, a copy with a fault is better than none.
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

    /// A copy, out of the cache and on its way from the disk.
    fn open_afresh(&self, worker: &mut CopyWorker, check: &Check) -> Result<OwnedFd, FileError> {
        let to = self.place(worker, &check.mirror, &check.name)?;
        let file = self.open_copy(&to, check, OFlags::RDONLY)?;
        self.leave_cache(&file, check)?;
        let Range { start, end } = check.range;
        // What is longer comes by the kernel's own reading ahead.
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
        // What cannot be read may be right, and may be readable once it is written again.
        let mut is_known = read.is_ok();
        let _turn = self.checks.mending.lock().unwrap_or_else(PoisonError::into_inner);
        let mended = self.mend_copy(worker, file, check, &mut is_known);
        mended.map_err(|error| Wrong { error, is_known })
    }

    /// Writes once more what is not as it must be. `is_known`: whether anything is known to be wrong.
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

    /// The copy, if it is still the one that was made.
    fn open_copy(&self, to: &Place<'_>, check: &Check, how: OFlags) -> Result<OwnedFd, FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |flags| retry(|| rustix::fs::openat(&to.directory, &check.name, flags, Mode::empty()));
        let file = match open(flags | OFlags::NOATIME) {
            // Only the owner of a file, and who may do what owners may, reads it without that showing.
            Err(Errno::PERM) => open(flags),
            opened => opened,
        };
        let file = file.map_err(failed)?;
        let found = sys::stat_descriptor(&file).map_err(failed)?;
        if found.inode == check.version.inode { Ok(file) } else { Err(failed(Errno::STALE)) }
    }

    /// Lets the cache forget a copy, as far as it does.
    fn leave_cache(&self, file: &OwnedFd, check: &Check) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        if self.options.fsync == Fsync::None && !self.stores.are_volatile() {
            // Only what has been written can leave the cache.
            self.syncs.timed(|| retry(|| rustix::fs::fdatasync(file))).map_err(failed)?;
        }
        let Range { start, end } = check.range;
        let length = std::num::NonZero::new(end - start);
        // It is advice: where it is not heeded, the cache is what is read.
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

    /// Writes what differs from the source, if that is what it was. `mode`: the copy's.
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
        if !check.version.is_of(&before) {
            return Err(FileError::Changed);
        }
        worker.mover.mend(source.as_fd(), file.as_fd(), check.range.clone(), is_known)?;
        if !check.version.is_of(&look(&source)?) {
            return Err(FileError::Changed);
        }
        // Writing takes rights and capabilities away, and sets the time. What is not kept was counted the first time.
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

    /// Removes a copy that is none: a later run would take it for one.
    fn take_away(&self, worker: &mut CopyWorker, check: &Check) {
        if let Ok(to) = self.place(worker, &check.mirror, &check.name)
            && sys::stat_at(&to.directory, &check.name, false)
                .is_ok_and(|found| found.inode == check.version.inode)
        {
            remove(&to, &Made::default());
        }
    }
}

/// Sets the time of access back, where reading a copy has changed it all the same: this process does not own it, or a server keeps the
/// time. Who may not set it either counts it as not kept.
fn give_back_atime(worker: &mut CopyWorker, file: &OwnedFd, given: Option<Timestamp>) {
    let Some(given) = given else { return };
    // What cannot be looked at any more is another one's to report.
    if sys::stat_descriptor(file).map_or(given, |found| found.atime) == given {
        return;
    }
    if give::set_atime(file, given).is_err() {
        worker.totals.not_kept.modes_and_times += 1;
    }
}
