//! Copies that wait to be read back, and what is known of them. No I/O.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::Timestamp;

use crate::copy::target::mirror::{Location, Mirror, Part};
use crate::copy::target::place::{Made, Place};
use crate::digest::{Hash, PieceValue};
use crate::file::error::FileError;
use crate::file::version::Version;

/// Bytes of small copies that are prefetched together before the first of them is checked.
pub(crate) const GROUP_BYTES: u64 = 4 << 20;
/// Most files with several names that are remembered as right; others are read once for each name.
pub(crate) const RIGHT_MOST: usize = 1 << 20;

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
    pub(crate) waiting: Mutex<VecDeque<Check>>,
    pub(crate) count: AtomicUsize,
    /// Copies with several names that were right: inode, and the first bytes of the digest.
    pub(crate) right: Mutex<HashMap<u64, u64>>,
    /// DescriptorCache by the thread that rewrites: another thread may have to rewrite the same copy.
    pub(crate) mending: Mutex<()>,
    /// Large copies with a reported failure, by path, and whether they were removed: one report for all chunks. A copy that is checked as a whole is
    /// checked once.
    reported: Mutex<HashMap<Vec<u8>, bool>>,
}

/// The error of a check, and whether the copy is known to be wrong.
pub(crate) struct Wrong {
    pub(crate) error: FileError,
    pub(crate) is_known: bool,
}

impl Check {
    /// The read-back check of a new copy, if read-back is wanted.
    pub(crate) fn of(at: &Location, to: &Place<'_>, made: &Made) -> Option<Self> {
        let (version, digest) = (made.version?, made.digest?);
        Some(Self {
            at: at.clone(),
            mirror: Arc::clone(to.mirror),
            name: to.name.to_owned(),
            version,
            range: 0..made.bytes,
            expected: Expected::Whole(digest),
            // Only on TARGET's own file system: copies on other file systems have no links.
            has_names: !to.mirror.is_mounted()
                && (made.is_link || made.file.is_some() && made.in_place.is_none()),
            atime: made.atime,
            part: to.part(),
        })
    }
}

impl Check {
    /// Whether other checks are for the same copy.
    fn is_part(&self) -> bool {
        matches!(self.expected, Expected::Piece(_))
    }
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
    pub(crate) fn next(&self, most: usize) -> Vec<Check> {
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

    pub(crate) fn lock(&self) -> MutexGuard<'_, VecDeque<Check>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discards the waiting checks and releases their directories. Returns how many there were.
    pub(crate) fn forget(&self) -> u64 {
        let forgotten = std::mem::take(&mut *self.lock());
        self.count.store(0, Ordering::Relaxed);
        forgotten.len() as u64
    }

    fn reported(&self) -> MutexGuard<'_, HashMap<Vec<u8>, bool>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a copy was removed.
    pub(crate) fn is_gone(&self, check: &Check) -> bool {
        let reported = self.reported();
        check.is_part() && !reported.is_empty() && reported.get(&check.at.root_and_path().1) == Some(&true)
    }

    /// Notes a failure of a copy. Returns whether it is to be reported.
    pub(crate) fn note(&self, check: &Check, is_gone: bool) -> bool {
        if !check.is_part() {
            return true;
        }
        let path = check.at.root_and_path().1;
        let mut reported = self.reported();
        let before = reported.get(&path).copied();
        reported.insert(path, is_gone || before == Some(true));
        before.is_none_or(|was_gone| is_gone && !was_gone)
    }

    /// Whether a copy was found right under another name.
    pub(crate) fn is_right(&self, check: &Check) -> bool {
        let right = || self.right.lock().unwrap_or_else(PoisonError::into_inner);
        check.has_names
            && check
                .expected
                .beginning()
                .is_some_and(|digest| right().get(&check.version.inode) == Some(&digest))
    }

    /// Notes that a copy is right. Returns whether that is new, as far as is remembered.
    pub(crate) fn note_right(&self, check: &Check) -> bool {
        let Some(digest) = check.expected.beginning().filter(|_| check.has_names) else { return true };
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.len() >= RIGHT_MOST || right.insert(check.version.inode, digest) != Some(digest)
    }
}

impl Expected {
    /// The first bytes of a whole file's digest.
    pub(crate) fn beginning(&self) -> Option<u64> {
        let Self::Whole(digest) = self else { return None };
        digest.as_bytes().first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}
