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

use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use atta_entry::{Errno, Timestamp};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags};

use crate::copy::commit::Committer;
use crate::copy::commit::checks::{Check, Expected, GROUP_BYTES, Wrong};
use crate::copy::options::Fsync;
use crate::copy::results::totals::Totals;
use crate::copy::target::place::{Made, Place, remove};
use crate::digest::Piece;
use crate::file::error::{FileError, Step};
use crate::file::holes::may_have_holes;
use crate::file::mover::{Files, Pass};
use crate::file::source::{look, open};
use crate::metadata::give::{self, Manner, SourceAttributes};
use crate::metadata::not_kept::NotKept;
use atta_sys::{self as sys, retry};

/// Most checks that wait before the threads that copy do nothing but checks.
const WAITING_MOST: usize = 4096;
impl Committer<'_> {
    /// Reads some copies back, between two tasks. Reads more while too many wait.
    pub(crate) fn check_some(&mut self) {
        while self.check_group() && self.commit.checks.count.load(Ordering::Relaxed) >= WAITING_MOST {}
    }

    /// Reads back the next group of waiting copies, unless the run is stopped. Returns whether any waited.
    pub(crate) fn check_next(&mut self) -> bool {
        !self.maker.target.options.walk.stop.is_set() && self.check_group()
    }

    /// Reads back one group. Returns whether any check waited.
    fn check_group(&mut self) -> bool {
        let group = self.commit.checks.next(self.commit.group);
        let mut open = |check: &Check| (!self.commit.checks.is_right(check)).then(|| self.open_afresh(check));
        let opened: Vec<_> = group.iter().map(&mut open).collect();
        let is_any = !group.is_empty();
        for (mut check, file) in group.into_iter().zip(opened) {
            self.apart(check.part.take(), |committer| committer.check(&check, file));
        }
        is_any
    }

    /// Ends the slices of checks that are done or dropped.
    pub(crate) fn forget_checks(&mut self, checks: Vec<Check>) {
        self.ended.parts.extend(checks.into_iter().filter_map(|check| check.part));
    }

    /// Checks one copy. `opened`: `None` if it is not to be read.
    fn check(&mut self, check: &Check, opened: Option<Result<OwnedFd, FileError>>) {
        let Some(opened) = opened.filter(|_| !self.commit.checks.is_gone(check)) else { return };
        if self.commit.checks.is_right(check) {
            return;
        }
        // The open files of its group may have exceeded the limit.
        let opened = opened.or_else(|_| self.open_afresh(check));
        let unread = |error| Wrong { error, is_known: false };
        let verified = opened.map_err(unread).and_then(|file| {
            let verified = self.verify(check, &file);
            give_back_atime(&mut self.maker.results.totals, &file, check.atime);
            verified
        });
        match verified {
            // The run was stopped before the copy was read back; it is counted.
            Err(Wrong { error: FileError::Stopped, .. }) => self.maker.results.totals.not_verified += 1,
            Ok(()) => {
                // Two threads may have checked two names of the file.
                if self.commit.checks.note_right(check) {
                    let verified = check.range.end - check.range.start;
                    let totals = &mut self.maker.results.totals;
                    totals.verified_bytes = totals.verified_bytes.saturating_add(verified);
                }
            }
            Err(Wrong { error, is_known }) => {
                // If the source is gone, a copy with a fault is better than none.
                let goes = is_known && self.maker.with_source(&check.at, |_, from| open(from)).is_ok();
                if goes {
                    self.take_away(check);
                }
                if self.commit.checks.note(check, goes) {
                    self.maker.fail(&check.at, error);
                }
            }
        }
    }

    /// Opens a copy, drops it from the cache and starts reading it ahead.
    fn open_afresh(&mut self, check: &Check) -> Result<OwnedFd, FileError> {
        let to = self.maker.place(&check.mirror, &check.name)?;
        let file = self.open_copy(&to, check, OFlags::RDONLY)?;
        self.leave_cache(&file, check)?;
        let Range { start, end } = check.range;
        // The kernel's read-ahead fetches the rest.
        let length = std::num::NonZero::new((end - start).min(GROUP_BYTES));
        let _ = rustix::fs::fadvise(&file, start, length, Advice::WillNeed);
        Ok(file)
    }

    fn verify(&mut self, check: &Check, file: &OwnedFd) -> Result<(), Wrong> {
        let read = self.is_as_expected(file, check);
        match read {
            Ok(true) => return Ok(()),
            Err(FileError::Stopped) => return Err(Wrong { error: FileError::Stopped, is_known: false }),
            Ok(false) | Err(_) => {}
        }
        // A copy that cannot be read may be right, and may be readable once it is written again.
        let mut is_known = read.is_ok();
        let _turn = self.commit.checks.mending.lock().unwrap_or_else(PoisonError::into_inner);
        let mended = self.mend_copy(file, check, &mut is_known);
        mended.map_err(|error| Wrong { error, is_known })
    }

    /// Rewrites the blocks of a copy that are wrong. `is_known`: whether the copy is known to be wrong.
    fn mend_copy(&mut self, wrong: &OwnedFd, check: &Check, is_known: &mut bool) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        let to = self.maker.place(&check.mirror, &check.name)?;
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
        self.rewrite((&file, mode), check, is_known)?;
        self.maker.results.totals.mended += 1;
        self.leave_cache(&file, check)?;
        match self.is_as_expected(&file, check)? {
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
        if self.maker.target.options.fsync == Fsync::None && !self.stores().are_volatile() {
            // Only clean pages can leave the cache.
            self.stores().sync_data(file).map_err(failed)?;
        }
        let Range { start, end } = check.range;
        let length = std::num::NonZero::new(end - start);
        // This is advice: if the kernel ignores it, the read comes from the cache.
        let _ = rustix::fs::fadvise(file, start, length, Advice::DontNeed);
        Ok(())
    }

    fn is_as_expected(&mut self, file: &OwnedFd, check: &Check) -> Result<bool, FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        let Range { start, end } = check.range;
        let mut piece = Piece::at(start);
        let found = sys::stat_descriptor(file).map_err(failed)?;
        let (has_holes, hasher) = (may_have_holes(&found), Some(&mut piece));
        let pass = Pass { source: file.as_fd(), target: None, has_holes, size: found.size, hasher };
        let read = self.maker.scratch.mover.pass(pass, start..end)?;
        Ok(read == end
            && match check.expected {
                Expected::Whole(digest) => found.size == end && piece.digest() == digest,
                Expected::Piece(value) => piece.value() == Some(value),
            })
    }

    /// Writes the blocks that differ from the source, if the source is unchanged. `mode`: the mode of the copy.
    fn rewrite(
        &mut self,
        (file, mode): (&OwnedFd, u32),
        check: &Check,
        is_known: &mut bool,
    ) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::Verify, errno);
        let source = self.maker.with_source(&check.at, |_, from| open(from))?;
        let before = look(&source)?;
        if !check.version.is_of_source(&before) {
            return Err(FileError::Changed);
        }
        let files = Files { source: source.as_fd(), target: file.as_fd() };
        self.maker.scratch.mover.mend(files, check.range.clone(), is_known)?;
        if !check.version.is_of_source(&look(&source)?) {
            return Err(FileError::Changed);
        }
        // Writing clears set-id bits and capabilities, and sets the modification time. Attributes that are not kept were counted the
        // first time.
        let not_kept = self.maker.results.totals.not_kept;
        let extended = self.maker.extended(&source)?;
        self.maker.results.totals.not_kept = not_kept;
        let keep = &self.maker.target.options.keep;
        let manner = Manner { keep, is_old: !keep.mode };
        let attributes = SourceAttributes { metadata: &before, extended: &extended };
        let has_list = give::give(file, attributes, manner, &mut NotKept::default())?;
        if !keep.mode && !has_list {
            retry(|| rustix::fs::fchmod(file, Mode::from_raw_mode(mode))).map_err(failed)?;
        }
        self.stores().sync_file(file).map_err(failed)
    }

    /// Removes a wrong copy: a later run would accept it.
    fn take_away(&mut self, check: &Check) {
        if let Ok(to) = self.maker.place(&check.mirror, &check.name)
            && sys::stat_at(&to.directory, &check.name, false)
                .is_ok_and(|found| found.inode == check.version.inode)
        {
            remove(&to, &Made::default());
        }
    }
}

/// Restores the access time if reading the copy changed it although `O_NOATIME` was requested: this process does not own the file, or a
/// server sets the time. If it cannot be set, it is counted as not kept.
fn give_back_atime(totals: &mut Totals, file: &OwnedFd, given: Option<Timestamp>) {
    let Some(given) = given else { return };
    // If `stat` fails, another step reports the failure.
    if sys::stat_descriptor(file).map_or(given, |found| found.atime) == given {
        return;
    }
    if give::set_atime(file, given).is_err() {
        totals.not_kept.modes_and_times += 1;
    }
}
