//! Reads copies back and compares them with what was read from their sources: what a disk, a cable or a server has changed on the
//! way. What differs is written once more, block by block, and read back again.
//!
//! ```text
//!   complete, durable ─▶ Check: a file, or a chunk of one ─▶ out of the cache, read back, the same digest? ─▶ verified
//!                                                                 │ no
//!                        compare with the source, write what differs, sync ─▶ the same now? ─ no ─▶ removed, and told
//! ```
//!
//! It does not know how the bytes came there. A copy that the kernel does not let out of its cache, as in memory, is read from there.

use std::collections::{HashSet, VecDeque};
use std::ffi::CString;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags};

use super::Fsync;
use super::attributes;
use super::data::Way;
use super::file::{Made, Place, look, open, remove};
use super::handler::{CopyWorker, Copying, Where};
use super::large::Version;
use super::mirror::Mirror;
use super::trouble::{Doing, Trouble};
use crate::digest::{Hash, Piece, PieceValue};
use crate::walk::kernel::{self, retry};

/// So many may wait before those who copy do nothing else.
const WAITING_MOST: usize = 4096;
/// Small ones are asked of the disk together, so many and of so many bytes, before the first of them is looked at.
const GROUP_MOST: usize = 16;
const GROUP_BYTES: u64 = 4 << 20;

/// A copy, or a part of one, that is to be read back.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) at: Where,
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) name: CString,
    /// What the source was, and which file the copy is: somebody may put another one in its place.
    pub(crate) version: Version,
    pub(crate) range: Range<u64>,
    pub(crate) expected: Expected,
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
    /// Copies of which a part was not as it must be: they are gone, and told.
    removed: Mutex<HashSet<u64>>,
}

impl Checks {
    pub(crate) fn add(&self, more: Vec<Check>) {
        if !more.is_empty() {
            let mut waiting = self.lock();
            waiting.extend(more);
            self.count.store(waiting.len(), Ordering::Relaxed);
        }
    }

    /// Takes some; none: nothing waits.
    fn next(&self) -> Vec<Check> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        if self.count.load(Ordering::Relaxed) == 0 {
            return group;
        }
        let mut waiting = self.lock();
        while group.len() < GROUP_MOST && bytes < GROUP_BYTES {
            let Some(next) = waiting.pop_front() else { break };
            bytes += next.range.end - next.range.start;
            group.push(next);
        }
        self.count.store(waiting.len(), Ordering::Relaxed);
        group
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Check>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn removed(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Copying<'_> {
    /// Reads some copies back, between two tasks; more while too many wait.
    pub(crate) fn check_some(&self, worker: &mut CopyWorker) {
        while self.check_group(worker) && self.checks.count.load(Ordering::Relaxed) >= WAITING_MOST {}
    }

    /// Reads all back that waits.
    pub(crate) fn check_all(&self, worker: &mut CopyWorker) {
        while self.check_group(worker) {}
    }

    /// Whether there was something.
    fn check_group(&self, worker: &mut CopyWorker) -> bool {
        let group = self.checks.next();
        // What cannot be opened is told when its turn comes.
        let opened: Vec<_> = group.iter().map(|check| self.open_afresh(worker, check).ok()).collect();
        for (check, file) in group.iter().zip(opened) {
            self.check(worker, check, file);
        }
        !group.is_empty()
    }

    fn check(&self, worker: &mut CopyWorker, check: &Check, opened: Option<OwnedFd>) {
        let bytes = check.range.end - check.range.start;
        if self.checks.removed().contains(&check.version.inode) {
            return;
        }
        match self.verify(worker, check, opened) {
            Ok(()) => worker.totals.verified_bytes += bytes,
            Err(trouble) => {
                // Of its chunks one is told.
                if self.checks.removed().insert(check.version.inode) {
                    self.take_away(worker, check);
                    self.fail(worker, &check.at, trouble);
                }
            }
        }
    }

    /// A copy, out of the cache and on its way from the disk.
    fn open_afresh(&self, worker: &mut CopyWorker, check: &Check) -> Result<OwnedFd, Trouble> {
        let to = self.place(worker, &check.mirror, &check.name)?;
        let file = self.open_copy(&to, check, OFlags::RDONLY)?;
        self.leave_cache(&file, check)?;
        let Range { start, end } = check.range;
        // What is longer comes by the kernel's own reading ahead.
        let length = std::num::NonZero::new((end - start).min(GROUP_BYTES));
        let _ = rustix::fs::fadvise(&file, start, length, Advice::WillNeed);
        Ok(file)
    }

    fn verify(&self, worker: &mut CopyWorker, check: &Check, opened: Option<OwnedFd>) -> Result<(), Trouble> {
        let file = opened.map_or_else(|| self.open_afresh(worker, check), Ok)?;
        // What cannot be read may be readable once it is written again.
        if self.is_as_expected(worker, &file, check).unwrap_or(false) {
            return Ok(());
        }
        drop(file);
        let to = self.place(worker, &check.mirror, &check.name)?;
        let file = self.open_copy(&to, check, OFlags::RDWR)?;
        self.rewrite(worker, &file, check)?;
        worker.totals.mended += 1;
        self.leave_cache(&file, check)?;
        match self.is_as_expected(worker, &file, check)? {
            true => Ok(()),
            false => Err(Trouble::new(Doing::Verify, Errno::IO)),
        }
    }

    /// The copy, if it is still the one that was made.
    fn open_copy(&self, to: &Place<'_>, check: &Check, how: OFlags) -> Result<OwnedFd, Trouble> {
        let failed = |errno| Trouble::new(Doing::Verify, errno);
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = retry(|| rustix::fs::openat(&to.directory, &check.name, flags, Mode::empty()));
        let file = file.map_err(failed)?;
        let found = kernel::stat_descriptor(&file).map_err(failed)?;
        if found.inode == check.version.inode { Ok(file) } else { Err(failed(Errno::STALE)) }
    }

    /// Lets the cache forget a copy, as far as it does.
    fn leave_cache(&self, file: &OwnedFd, check: &Check) -> Result<(), Trouble> {
        let failed = |errno| Trouble::new(Doing::Verify, errno);
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
    ) -> Result<bool, Trouble> {
        let failed = |errno| Trouble::new(Doing::Verify, errno);
        let Range { start, end } = check.range;
        let mut piece = Piece::at(start);
        let found = kernel::stat_descriptor(file).map_err(failed)?;
        let has_holes = found.allocated_bytes() < found.size;
        let came =
            worker.mover.hash(file.as_fd(), start..end, Way { has_holes, hasher: Some(&mut piece) })?;
        Ok(came == end
            && match check.expected {
                Expected::Whole(digest) => found.size == end && piece.digest() == digest,
                Expected::Piece(value) => piece.value() == Some(value),
            })
    }

    /// Writes what differs from the source, if that is what it was.
    fn rewrite(&self, worker: &mut CopyWorker, file: &OwnedFd, check: &Check) -> Result<(), Trouble> {
        let failed = |errno| Trouble::new(Doing::Verify, errno);
        let source = self.with_source(worker, &check.at, |_, from| open(from))?;
        let has_changed = |source: &OwnedFd| Ok(!check.version.is_of(&look(source)?));
        let times = attributes::times(&kernel::stat_descriptor(file).map_err(failed)?);
        if has_changed(&source)? {
            return Err(Trouble::Changed);
        }
        worker.mover.mend(source.as_fd(), file.as_fd(), check.range.clone())?;
        if has_changed(&source)? {
            return Err(Trouble::Changed);
        }
        retry(|| rustix::fs::futimens(file, &times)).map_err(failed)?;
        self.syncs.timed(|| retry(|| rustix::fs::fsync(file))).map_err(failed)
    }

    /// Removes a copy that is none: a later run would take it for one.
    fn take_away(&self, worker: &mut CopyWorker, check: &Check) {
        if let Ok(to) = self.place(worker, &check.mirror, &check.name)
            && kernel::stat_at(&to.directory, &check.name, false)
                .is_ok_and(|found| found.inode == check.version.inode)
        {
            remove(&to, &Made::default());
        }
    }
}
