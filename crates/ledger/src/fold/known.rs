//! The first readings: which directories are known, and which of them are not complete. No I/O.
//!
//! A directory stays in memory until it is complete, the directory above is done and none below it stays. Then no later fact makes it one that is left: what
//! names it again would be a second reading of the directory above, which comes only before that is done. Facts of an earlier run come first.
//!
//! All that grows is counted with the memory that it takes. A reading that would take more than it may stops adding, and all is read again
//! in more parts. What is left in the end is in memory whole: whoever takes it needs as much.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use atta_code::Code;

use crate::fold::again::Reopened;
use crate::fold::together::{self, OpenAs, OpenDirectories};
use crate::fold::walk::{Here, Read, Steps};
use crate::fold::{Fold, FrameAt, Logs};
use crate::frame::sections;
use crate::id::Id;
use crate::record::{Fact, SliceNumber};

/// It was read to its end.
const READ: u8 = 1;
const CLOSED: u8 = 2;
/// The directory above is done, or there is none.
const ABOVE_DONE: u8 = 4;
/// It has slices of its own.
const SLICED: u8 = 8;
/// It was closed, maybe before something of it was done.
const WAS_CLOSED: u8 = 16;
/// It stays in memory.
const KEPT: u8 = 32;

/// Bytes of memory for each directory: tables are between half and fully used, and grow while the old one is still there.
const DIRECTORY_BYTES: usize = 100;
/// More for a directory that has slices: the entry of its table, and the least size of that.
const SLICED_BYTES: usize = 300;
const SLICE_BYTES: usize = 60;
const ANSWER_BYTES: usize = 60;
/// Bytes for a closing that is read before its directory is known: the list grows by doubling.
const CLOSED_BYTES: usize = 3 * size_of::<(Id, u32)>();

/// Bytes that are kept at least before the first look for directories that can be forgotten.
const KEPT_LEAST: usize = 1024 * DIRECTORY_BYTES;

/// A frame may take so much when all is read at once, even if the fold may not: parts forget nothing, and take many readings.
const FRAME_BYTES: usize = 16 << 20;

/// The most parts. With so many, none is too large.
const PARTS_MOST: u32 = 1 << 12;

/// Identities are hashes.
#[derive(Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_ne_bytes(*first);
        }
    }

    /// The length of the array.
    fn write_usize(&mut self, _: usize) {}
}

pub(super) type Map<V> = HashMap<Id, V, BuildHasherDefault<AsIs>>;

struct Directory {
    above: Id,
    flags: Cell<u8>,
    /// The run that closed it last.
    closed_by: Cell<u32>,
}

/// The slices of a directory.
#[derive(Default)]
pub(super) struct Slices {
    /// True if done.
    numbers: HashMap<SliceNumber, bool>,
    /// How many are done. Counted, since each child asks.
    done: usize,
}

impl Slices {
    fn are_done(&self) -> bool {
        self.done == self.numbers.len()
    }

    pub(super) fn is_done(&self, slice: &SliceNumber) -> bool {
        self.numbers.get(slice).is_some_and(|is_done| *is_done)
    }

    fn bytes(&self) -> usize {
        SLICED_BYTES + SLICE_BYTES * self.numbers.len()
    }

    fn note(&mut self, slice: SliceNumber, is_done: bool) {
        let was_done = self.numbers.entry(slice).or_default();
        if is_done && !std::mem::replace(was_done, true) {
            self.done += 1;
        }
    }

    fn open(self) -> impl Iterator<Item = SliceNumber> {
        self.numbers.into_iter().filter(|(_, is_done)| !is_done).map(|(slice, _)| slice)
    }
}

/// A directory that is not complete.
pub(super) struct Incomplete {
    pub(super) is_read: bool,
    pub(super) is_done: bool,
    pub(super) was_closed: bool,
    /// It was handed over.
    pub(super) is_over: bool,
}

/// What the first readings found.
#[derive(Default)]
pub(super) struct Known {
    pub(super) incomplete: Map<Incomplete>,
    /// Slices that are not done, with their directories. True: it was handed over.
    pub(super) open: HashMap<(Id, SliceNumber), bool>,
    /// Of each entry that failed last: the number of that record.
    pub(super) failed: Map<u64>,
}

/// More than fits in memory.
struct TooMany;

impl Known {
    pub(super) fn read<L: Logs>(fold: &Fold, reopened: &Reopened, logs: &mut L) -> Result<Self, L::Error> {
        let mut parts = 1;
        loop {
            if let Some(known) = Self::read_in((fold, reopened), logs, parts)? {
                return Ok(known);
            }
            parts *= 4;
        }
    }

    /// Reads the logs once for each part of all directories. None: a part is too large.
    fn read_in<L: Logs>(
        (fold, reopened): (&Fold, &Reopened),
        logs: &mut L,
        parts: u32,
    ) -> Result<Option<Self>, L::Error> {
        let mut known = Self::default();
        for part in 0..parts {
            let mut finding = Finding::new((fold, reopened), (part, parts));
            finding.read(logs)?;
            if let Err(TooMany) = finding.end(&mut known) {
                return Ok(None);
            }
        }
        // The part of a directory may have no open slice of it: it has taken it for complete.
        let (was_closed, is_over) = (fold.closes, false);
        for (id, _) in known.open.keys() {
            let read = Incomplete { is_read: true, is_done: false, was_closed, is_over };
            known.incomplete.entry(*id).or_insert(read).is_done = false;
        }
        Ok(Some(known))
    }
}

/// One reading.
pub(super) struct Finding<'f> {
    fold: &'f Fold,
    reopened: &'f Reopened,
    /// Which part of all directories, slices and answers it is for, and how many parts there are.
    part: (u32, u32),
    directories: Map<Directory>,
    slices: Map<Slices>,
    /// Of each entry that failed once: the number of the last record of it; 0: that says that it did not fail.
    answers: Map<u64>,
    /// The number of the record.
    record: u64,
    /// Bytes of memory that are taken, about.
    held: usize,
    /// The most of them.
    most: usize,
    /// When to look for directories that can be forgotten.
    limit: usize,
    is_too_much: bool,
    /// Directories that a frame says are closed, and the run, if that is read before they are known.
    closed: Vec<(Id, u32)>,
}

impl<'f> Finding<'f> {
    pub(super) fn new((fold, reopened): (&'f Fold, &'f Reopened), part: (u32, u32)) -> Self {
        let (directories, slices, answers) = (Map::default(), Map::default(), Map::default());
        let limit = KEPT_LEAST.min(fold.memory / 4);
        let most = match part.1 {
            1 => fold.memory.max(FRAME_BYTES),
            PARTS_MOST => usize::MAX,
            _ => fold.memory,
        };
        Self {
            fold,
            reopened,
            part,
            directories,
            slices,
            answers,
            record: 0,
            held: 0,
            most,
            limit,
            is_too_much: false,
            closed: Vec::new(),
        }
    }

    pub(super) fn read<L: Logs>(&mut self, logs: &mut L) -> Result<(), L::Error> {
        let fold = self.fold;
        let mut steps = Steps::new(&fold.key);
        let forgets = !logs.leave_out_facts();
        logs.each(&mut |at, frame| {
            // What is too much is read to the end all the same: a log that is not valid is refused first.
            let is_valid = sections(frame, &mut |section| {
                steps.read(section, &mut |read| {
                    if let Read::Fact(here, fact) = read {
                        self.note(at, here, fact);
                    }
                })
            });
            // One thread may have noted the closing, another one what was done before. A directory that is not known by now was
            // forgotten, or is closed again.
            let closed = std::mem::take(&mut self.closed);
            self.held -= CLOSED_BYTES * closed.len();
            closed.into_iter().for_each(|(id, run)| self.close(id, run));
            // Not between sections: one may hold the slices of a directory, and another one that they are done.
            if forgets {
                self.forget();
            }
            is_valid
        })
    }

    fn is_here(&self, id: Id) -> bool {
        self.is_all() || id.part(self.part.1) == self.part.0
    }

    /// There is one part.
    fn is_all(&self) -> bool {
        self.part.1 == 1
    }

    /// Something more is in memory.
    fn hold(&mut self, bytes: usize) {
        self.held += bytes;
        // A frame may be large, and nothing is forgotten before its end.
        self.is_too_much |= self.held > self.most;
    }

    fn note(&mut self, frame: FrameAt, here: Here<'_>, fact: &Fact<'_>) {
        self.record += 1;
        if self.is_too_much {
            return;
        }
        let id = here.id();
        match fact {
            Fact::Found { name, .. } => {
                self.touch(&here);
                let found = here.named(name);
                if self.is_here(found) {
                    self.directory(found, Some(id));
                }
            }
            Fact::Listed { slice, .. } => {
                self.touch(&here);
                self.slice(id, *slice, false);
            }
            // It is done again.
            Fact::Done { .. } | Fact::Closed if frame.voided_by.is_some() => self.touch(&here),
            Fact::Done { slice, .. } => {
                self.touch(&here);
                self.reopen(id, frame.log.run);
                match slice {
                    Some(slice) => self.slice(id, *slice, true),
                    None => self.set(id, READ),
                }
            }
            // A directory that is closed again may have been forgotten.
            Fact::Closed => {
                let run = if self.reopened.is_closed(id, frame) { frame.log.run } else { 0 };
                if self.directories.contains_key(&id) {
                    self.close(id, run);
                } else if self.is_here(id) {
                    self.closed.push((id, run));
                    self.hold(CLOSED_BYTES);
                }
            }
            Fact::Failed { name, .. } => self.answer(here.named(name), self.record),
            Fact::Mended { name } => self.answer(here.named(name), 0),
            // It comes before the file is done, and so before its directory is.
            Fact::Planned { .. } | Fact::Marked { .. } => self.touch(&here),
            // The rank that copied a chunk may say so after the directory is complete, and forgotten.
            Fact::Chunk { .. } => {}
        }
    }

    /// Makes a directory known, and those above it: a fact about it says that they were entered.
    fn touch(&mut self, here: &Here<'_>) {
        for (id, above) in here.up() {
            if !self.is_here(id) || self.is_too_much {
                continue;
            }
            if self.is_all() && self.directories.contains_key(&id) {
                return;
            }
            self.directory(id, above);
        }
    }

    fn directory(&mut self, id: Id, above: Option<Id>) {
        if let Entry::Vacant(entry) = self.directories.entry(id) {
            let flags = if above.is_none() { ABOVE_DONE } else { 0 };
            let (above, flags, closed_by) = (above.unwrap_or(id), Cell::new(flags), Cell::new(0));
            entry.insert(Directory { above, flags, closed_by });
            self.hold(DIRECTORY_BYTES);
        }
    }

    fn set(&self, id: Id, flag: u8) {
        if let Some(directory) = self.directories.get(&id) {
            directory.flags.update(|flags| flags | flag);
        }
    }

    /// A run has closed a directory; 0: that does not count, as what was done in it is done again.
    fn close(&self, id: Id, run: u32) {
        let flags = if run > 0 { CLOSED | WAS_CLOSED } else { WAS_CLOSED };
        self.set(id, flags);
        if let Some(directory) = self.directories.get(&id).filter(|_| run > 0) {
            directory.closed_by.set(run);
        }
    }

    /// A run has done something in a directory. If an earlier run had closed it, that has changed it. A run closes what it has done last, although that may
    /// be read first: threads note both, or ranks.
    fn reopen(&self, id: Id, run: u32) {
        if let Some(directory) = self.directories.get(&id).filter(|directory| directory.closed_by.get() < run)
        {
            directory.flags.update(|flags| flags & !CLOSED);
        }
    }

    /// Of a part, it knows only the slices that are in it: one directory may have more than fit in memory.
    fn slice(&mut self, id: Id, slice: SliceNumber, is_done: bool) {
        if !self.is_all() && !self.is_here(self.fold.key.below(id, &slice.encoded())) {
            return;
        }
        self.set(id, SLICED);
        let before = self.slices.get(&id).map_or(0, Slices::bytes);
        let slices = self.slices.entry(id).or_default();
        slices.note(slice, is_done);
        let more = slices.bytes() - before;
        self.hold(more);
    }

    fn answer(&mut self, id: Id, record: u64) {
        if self.is_here(id) && self.answers.insert(id, record).is_none() {
            self.hold(ANSWER_BYTES);
        }
    }

    fn is_done(&self, id: Id, directory: &Directory) -> bool {
        let flags = directory.flags.get();
        flags & READ != 0 && (flags & SLICED == 0 || self.slices.get(&id).is_none_or(Slices::are_done))
    }

    fn is_complete(&self, id: Id, directory: &Directory) -> bool {
        self.is_done(id, directory) && (!self.fold.closes || directory.flags.get() & CLOSED != 0)
    }

    /// Forgets what is complete in directories that are done, from time to time. Of a part, those above are rarely known.
    fn forget(&mut self) {
        if self.held < self.limit || self.is_too_much || !self.is_all() {
            return;
        }
        self.forget_complete();
        // The next look comes when much was added, and leaves room for a frame.
        self.is_too_much = self.held > self.fold.memory / 2;
        self.limit = self.limit.max(2 * self.held).min(self.fold.memory / 4 * 3);
    }

    fn forget_complete(&mut self) {
        for directory in self.directories.values() {
            let above = self.directories.get(&directory.above);
            if above.is_some_and(|above| self.is_done(directory.above, above)) {
                directory.flags.update(|flags| flags | ABOVE_DONE);
            }
        }
        self.mark_kept();
        let mut directories = std::mem::take(&mut self.directories);
        directories.retain(|id, directory| {
            let is_kept = directory.flags.get() & KEPT != 0;
            if !is_kept {
                let slices = if directory.flags.get() & SLICED == 0 { None } else { self.slices.remove(id) };
                self.held -= DIRECTORY_BYTES + slices.as_ref().map_or(0, Slices::bytes);
            }
            is_kept
        });
        self.directories = directories;
    }

    /// Marks what stays: roots, what is not complete, or may be found again, and all above it.
    fn mark_kept(&self) {
        for directory in self.directories.values() {
            directory.flags.update(|flags| flags & !KEPT);
        }
        for (id, directory) in &self.directories {
            let is_root = directory.above == *id;
            if !is_root && directory.flags.get() & ABOVE_DONE != 0 && self.is_complete(*id, directory) {
                continue;
            }
            let mut next = Some(directory);
            while let Some(kept) = next.filter(|kept| kept.flags.get() & KEPT == 0) {
                kept.flags.update(|flags| flags | KEPT);
                next = self.directories.get(&kept.above);
            }
        }
    }

    /// The directories that stay, as [`Open`](crate::Open) has them, and all slices. None: it was too much.
    pub(super) fn into_open(mut self) -> Option<(OpenDirectories, Map<Slices>)> {
        if self.is_too_much {
            return None;
        }
        self.forget_complete();
        let open = self.directories.iter().map(|(id, directory)| (*id, self.open_as(*id, directory)));
        Some((open.collect(), self.slices))
    }

    fn open_as(&self, id: Id, directory: &Directory) -> OpenAs {
        let of = directory.flags.get();
        let mut flags = if of & READ != 0 { together::READ } else { 0 };
        if !self.slices.get(&id).is_none_or(Slices::are_done) {
            flags |= together::SLICES_LEFT;
        }
        if self.is_complete(id, directory) {
            flags |= together::COMPLETE;
        } else if of & (READ | SLICED | CLOSED | WAS_CLOSED) != 0 {
            flags |= together::PARTIAL;
        }
        OpenAs { above: directory.above, flags }
    }

    /// Hands over what is not complete.
    fn end(self, known: &mut Known) -> Result<(), TooMany> {
        if self.is_too_much {
            return Err(TooMany);
        }
        for (id, directory) in &self.directories {
            if !self.is_complete(*id, directory) {
                let is_done = self.is_done(*id, directory);
                let has = |flag| directory.flags.get() & flag != 0;
                let (is_read, was_closed) = (has(READ), has(WAS_CLOSED));
                known.incomplete.insert(*id, Incomplete { is_read, is_done, was_closed, is_over: false });
            }
        }
        for (id, slices) in self.slices {
            known.open.extend(slices.open().map(|slice| ((id, slice), false)));
        }
        known.failed.extend(self.answers.into_iter().filter(|(_, record)| *record > 0));
        Ok(())
    }
}
