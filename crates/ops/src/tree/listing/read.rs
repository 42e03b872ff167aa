//! Reads directories buffer by buffer, and hands names to idle threads if there are many.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atta_entry::{Errno, Kind, Operation};
use atta_ledger::SliceNumber;
use rustix::fd::OwnedFd;
use rustix::fs::RawDir;

use crate::inject::{Point, Poison, meet, pass};
use crate::tree::listing::names::{Name, Names};
use crate::tree::listing::reading::Reading;
use crate::tree::operation::{DirectoryOf, Handler, Here, HereOf, Stage};
use crate::tree::profile::Phase;
use crate::tree::slice::{CurrentSlice, Extent, Slice};
use crate::tree::task::Task;
use crate::tree::thread::{Thread, failed};
use atta_sys as sys;

/// The buffer for `getdents64`. Larger ones no longer help; it holds some 8,000 short names.
const BUFFER_BYTES: usize = 256 << 10;
/// Target duration of a batch for another thread, enough to pay for handing it over.
const BATCH_NS: u64 = 2_000_000;
/// Names in a batch, at most: bounds what one batch holds in memory.
const BATCH_NAMES_MAX: usize = 4096;
/// At least this many names are read into a slice, if there are that many.
const SLICE_NAMES_LEAST: usize = 4096;
/// Names in a slice of a large directory that one task has, at least: it has some 40 bytes in the log besides its names.
pub(super) const OWN_NAMES_LEAST: usize = 128;
/// Names in a batch, at least, when threads are idle and `statx` is quick.
const BATCH_NAMES_WANTED: usize = 64;

/// The extent of a run of names: whether it begins with the first one, and whether more follow.
fn extent_of(is_start: bool, more: bool) -> Extent {
    match (is_start, more) {
        (true, false) => Extent::Whole,
        (true, true) => Extent::First,
        (false, _) => Extent::Later,
    }
}

impl<V: Handler> Thread<'_, '_, '_, V> {
    /// Reads a directory that is open.
    pub(crate) fn read(&mut self, directory: &Arc<DirectoryOf<V>>) {
        let job = self.job;
        job.counters[self.worker.index].directory();
        match directory.descriptor(&mut self.worker.held, job.features()) {
            Ok(descriptor) => {
                let here = Here { directory, descriptor: &descriptor, slice: None };
                job.visit.entered(&mut self.worker.visit, here);
                pass(Point::Traversal);
                self.read_from(here, true, Reading::default());
            }
            Err(errno) => {
                self.fail_directory(directory, failed(Operation::OpenDirectory)(errno));
                job.end_empty(self.worker, directory, self.queue);
            }
        }
    }

    /// Reads a directory from the position of its descriptor, until its end or until it is large enough to share.
    pub(crate) fn read_on(
        &mut self,
        directory: &Arc<DirectoryOf<V>>,
        descriptor: &Arc<OwnedFd>,
        reading: Reading,
    ) {
        self.read_from(Here { directory, descriptor, slice: None }, false, reading);
    }

    fn read_from(&mut self, here: HereOf<'_, V>, mut is_start: bool, mut reading: Reading) {
        let (job, directory) = (self.job, here.directory);
        let mut more = true;
        while more && !self.queue.is_stopping() {
            if let Some(journal) = job.journal {
                journal.wait_for_room(|| self.queue.is_stopping());
            }
            job.throttle(1);
            job.note_reading(self.worker, directory, reading.turn);
            reading.turn += 1;
            let mut names = std::mem::take(&mut self.worker.names);
            names.clear();
            meet(Poison::Directory, directory.name().to_bytes());
            more = self.fill(here, &mut names);
            // All names of a small directory are one slice, of which a log needs no names. The last reading finds the end and no names, so it would be a slice of none.
            while more && names.len() < SLICE_NAMES_LEAST && !self.queue.is_stopping() {
                job.throttle(1);
                more = self.fill(here, &mut names);
            }
            self.worker.watch.book(Phase::Readdir, &job.counters[self.worker.index]);
            let mut batch = self.batch_names(names.len());
            if job.leaves_by_few() {
                batch = batch.min(OWN_NAMES_LEAST);
            }
            let parts = if names.len() > 2 * batch { names.len().div_ceil(batch) } else { 1 };
            let extent = extent_of(std::mem::take(&mut is_start), more);
            reading.excluded += std::mem::take(&mut self.worker.excluded);
            reading.has_failed |= self.worker.noter.has_failed();
            let own = self.cut_slices((directory, extent), &mut names, (batch, parts));
            let number = self.note_names(directory, (&names, extent), (more, &mut reading));
            let slice = CurrentSlice::new(directory, extent).with_number(number);
            pass(Point::Production);
            if more && V::STAGE > Stage::Slices {
                // The next reader holds the unit that becomes the last slice's.
                directory.life().add_slice();
            }
            if parts > 1 || !own.is_empty() {
                if more && job.reading.fetch_add(1, Ordering::Relaxed) < job.budget.reading {
                    // Pushed before the names, so it is older: the next idle thread reads on.
                    let (directory, descriptor) = (Arc::clone(directory), Arc::clone(here.descriptor));
                    self.push(Task::ReadOn { directory, descriptor, reading });
                    more = false;
                } else if more {
                    job.reading.fetch_sub(1, Ordering::Relaxed);
                }
                self.hand_out(&slice, &mut names, batch);
                own.into_iter().for_each(|task| self.push(task));
            }
            self.worker.names = self.look(&slice, names);
            if more {
                // A large directory is read in one task, which may take long.
                job.between(self.worker, self.queue);
            }
        }
    }

    /// With a log: makes slices of all names of a large directory but one batch. On several ranks they may leave for another one. If files are read, a slice
    /// has few names: what was done of it is lost if the run is killed.
    fn cut_slices(
        &mut self,
        (directory, extent): (&Arc<DirectoryOf<V>>, Extent),
        names: &mut Names,
        (batch, parts): (usize, usize),
    ) -> Vec<Task<V::State>> {
        let Some(journal) = self.job.journal.filter(|_| extent != Extent::Whole) else { return Vec::new() };
        let count = match self.job.visit.reads_files() {
            true => OWN_NAMES_LEAST,
            false if self.job.ranks > 1 && parts > 1 => batch.max(OWN_NAMES_LEAST),
            false => return Vec::new(),
        };
        let noter = &mut self.worker.noter;
        let slices = names.cut(count).map(|names| {
            let number = noter.listed(journal, directory, names.iter().map(Name::bytes));
            Task::Look { slice: Slice::of_numbered(Arc::clone(directory), number, 0), names }
        });
        slices.collect()
    }

    /// Counts excluded names. With a log, notes a slice of a directory that has several, and the end of the directory, with which all of its
    /// excluded names count. Returns the number of the slice.
    fn note_names(
        &mut self,
        directory: &Arc<DirectoryOf<V>>,
        (names, extent): (&Names, Extent),
        (more, reading): (bool, &mut Reading),
    ) -> Option<SliceNumber> {
        let (visit, worker) = (self.job.visit, &mut *self.worker);
        let journal = self.job.journal.filter(|_| extent != Extent::Whole);
        let Some(journal) = journal else {
            visit.excluded(&mut worker.visit, std::mem::take(&mut reading.excluded));
            return None;
        };
        let number = worker.noter.listed(journal, directory, names.iter().map(Name::bytes));
        if !more {
            visit.excluded(&mut worker.visit, std::mem::take(&mut reading.excluded));
            visit.noting(directory);
            let results = visit.results(&mut worker.visit);
            let is_whole = worker.noter.is_whole(results.as_deref(), reading.has_failed);
            worker.noter.done(directory, None, results.as_deref(), is_whole);
            self.job.closer(worker).end_rest();
        }
        Some(number)
    }

    /// The current number of names in a batch.
    fn batch_names(&self, count: usize) -> usize {
        let by_time = BATCH_NS / self.job.stat_ns.load(Ordering::Relaxed).max(1);
        let batch = usize::try_from(by_time).unwrap_or(BATCH_NAMES_MAX).clamp(1, BATCH_NAMES_MAX);
        if self.queue.is_wanted() { batch.min(BATCH_NAMES_WANTED.max(count / 8)) } else { batch }
    }

    /// Queues all names but one batch for idle threads.
    fn hand_out(&mut self, slice: &CurrentSlice<'_, V::State>, names: &mut Names, batch: usize) {
        for names in names.cut(batch) {
            self.push(Task::Look { slice: slice.batch(), names });
        }
        self.worker.watch.book(Phase::Callback, &self.job.counters[self.worker.index]);
    }

    /// Fills `names` from one `getdents64`. Returns false at the end or on failure.
    fn fill(&mut self, here: HereOf<'_, V>, names: &mut Names) -> bool {
        let mut buffer = std::mem::take(&mut self.worker.buffer);
        if buffer.is_empty() {
            buffer.resize(BUFFER_BYTES, MaybeUninit::uninit());
        }
        self.worker.noter.path.set(here.directory);
        let more = self.take_names(here.directory, RawDir::new(here.descriptor, &mut buffer), names);
        self.worker.buffer = buffer;
        more
    }

    /// Adds the names of one buffer to a batch. Returns false at the end or on failure.
    fn take_names(
        &mut self,
        directory: &Arc<DirectoryOf<V>>,
        mut reader: RawDir<'_, &Arc<OwnedFd>>,
        names: &mut Names,
    ) -> bool {
        loop {
            match reader.next() {
                // A directory that was removed while it was read has no more names.
                None | Some(Err(rustix::io::Errno::NOENT)) => return false,
                Some(Err(rustix::io::Errno::INTR)) => continue,
                Some(Err(error)) => {
                    let errno = Errno(error.raw_os_error());
                    self.fail_directory(directory, failed(Operation::ReadDirectory)(errno));
                    return false;
                }
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    if name != c"." && name != c".." {
                        let name = Name { name, kind: sys::kind_of(entry.file_type()), inode: entry.ino() };
                        self.take_name(directory, name, names);
                    }
                }
            }
            if reader.is_buffer_empty() {
                return true;
            }
        }
    }

    /// Adds a name to a batch, unless it is invalid or the rules exclude it.
    fn take_name(&mut self, directory: &Arc<DirectoryOf<V>>, name: Name<'_>, names: &mut Names) {
        let bytes = name.bytes();
        if bytes.contains(&b'/') || bytes.is_empty() {
            // A damaged or hostile file system: such a name would lead elsewhere.
            return self.fail_directory(directory, failed(Operation::ReadDirectory)(Errno::IO));
        }
        // If the directory does not report the kind, the rules are applied once it is known.
        if let (Some(rules), true) = (&self.job.options.rules, name.kind != Kind::Unknown)
            && self.worker.noter.path.is_excluded(rules, bytes, name.kind)
        {
            self.worker.excluded += 1;
            return self.job.counters[self.worker.index].excluded();
        }
        if let (Some(journal), Some(again)) = (self.job.journal, directory.again())
            && journal.earlier().is_given(again, bytes)
        {
            return;
        }
        names.push(name.name, name.kind, name.inode);
    }
}
