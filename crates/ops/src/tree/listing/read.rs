//! Reads directories buffer by buffer, and hands names to idle threads if there are many.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atta_entry::{Errno, Kind, Operation};
use atta_runtime::Queue;
use rustix::fd::OwnedFd;
use rustix::fs::RawDir;

use crate::tree::job::{TreeJob, Worker};
use crate::tree::listing::names::{Name, Names};
use crate::tree::operation::{DirectoryOf, Handler, Here, Stage};
use crate::tree::profile::Phase;
use crate::tree::slice::{CurrentSlice, Extent};
use crate::tree::task::Task;
use atta_sys as sys;

/// The buffer for `getdents64`. Larger ones no longer help; it holds some 8,000 short names.
const BUFFER_BYTES: usize = 256 << 10;
/// Target duration of a batch for another thread, enough to pay for handing it over.
const BATCH_NS: u64 = 2_000_000;
/// Names in a batch, at most: bounds what one batch holds in memory.
const BATCH_NAMES_MAX: usize = 4096;
/// A slow operation reads at least this many names into a slice, if there are that many.
const NAMES_AT_HAND: usize = 4096;
/// Names in a batch, at least, when threads are idle and asking is quick.
const BATCH_NAMES_WANTED: usize = 64;

/// The extent of a run of names: whether it begins with the first one, and whether more follow.
fn extent_of(is_start: bool, more: bool) -> Extent {
    match (is_start, more) {
        (true, false) => Extent::Whole,
        (true, true) => Extent::First,
        (false, _) => Extent::Later,
    }
}

impl<V: Handler> TreeJob<'_, V> {
    /// Reads a directory that is open.
    pub(crate) fn read(
        &self,
        worker: &mut Worker<V>,
        directory: &Arc<DirectoryOf<V>>,
        queue: &mut Queue<'_, Self>,
    ) {
        self.counters[worker.index].directory();
        match directory.descriptor(&mut worker.held, self.features()) {
            Ok(descriptor) => {
                let here = Here { directory, descriptor: &descriptor, slice: None };
                self.visit.entered(&mut worker.visit, here);
                self.read_from(worker, directory, &descriptor, true, queue);
            }
            Err(errno) => {
                self.fail_at(worker, Operation::OpenDirectory, directory, None, errno);
                self.end_empty(worker, directory, queue);
            }
        }
    }

    /// Reads a directory from the position of its descriptor, until its end or until it is large enough to share.
    pub(crate) fn read_on(
        &self,
        worker: &mut Worker<V>,
        directory: &Arc<DirectoryOf<V>>,
        descriptor: &Arc<OwnedFd>,
        queue: &mut Queue<'_, Self>,
    ) {
        self.read_from(worker, directory, descriptor, false, queue);
    }

    fn read_from(
        &self,
        worker: &mut Worker<V>,
        directory: &Arc<DirectoryOf<V>>,
        descriptor: &Arc<OwnedFd>,
        mut is_start: bool,
        queue: &mut Queue<'_, Self>,
    ) {
        let mut buffer = std::mem::take(&mut worker.buffer);
        let mut more = true;
        while more && !queue.is_stopping() {
            self.throttle(1);
            let mut names = std::mem::take(&mut worker.names);
            names.clear();
            more = self.fill(worker, directory, descriptor, &mut buffer, &mut names);
            // A slow operation gets all names of a small directory in one slice.
            while V::IS_SLOW && more && names.len() < NAMES_AT_HAND {
                more = self.fill(worker, directory, descriptor, &mut buffer, &mut names);
            }
            worker.watch.book(Phase::Readdir, &self.counters[worker.index]);
            let batch = self.batch_names(names.len(), queue);
            let parts = if names.len() > 2 * batch { names.len().div_ceil(batch) } else { 1 };
            let slice = CurrentSlice::new(directory, extent_of(std::mem::take(&mut is_start), more));
            if more && V::STAGE > Stage::Slices {
                // The next reader holds the unit that becomes the last slice's.
                directory.life().add_slice();
            }
            if parts > 1 {
                if more && self.reading.fetch_add(1, Ordering::Relaxed) < self.budget.reading {
                    // Pushed before the names, so it is older: the next idle thread reads on.
                    let (directory, descriptor) = (Arc::clone(directory), Arc::clone(descriptor));
                    self.push(worker.index, Task::ReadOn { directory, descriptor }, queue);
                    more = false;
                } else if more {
                    self.reading.fetch_sub(1, Ordering::Relaxed);
                }
                self.hand_out(worker, &slice, &mut names, batch, queue);
            }
            worker.names = self.look(worker, &slice, names, queue);
        }
        worker.buffer = buffer;
    }

    /// The current number of names in a batch.
    fn batch_names(&self, count: usize, queue: &Queue<'_, Self>) -> usize {
        let by_time = BATCH_NS / self.stat_ns.load(Ordering::Relaxed).max(1);
        let batch = usize::try_from(by_time).unwrap_or(BATCH_NAMES_MAX).clamp(1, BATCH_NAMES_MAX);
        if queue.is_wanted() { batch.min(BATCH_NAMES_WANTED.max(count / 8)) } else { batch }
    }

    /// Queues all names but one batch for idle threads.
    fn hand_out(
        &self,
        worker: &mut Worker<V>,
        slice: &CurrentSlice<'_, V::State>,
        names: &mut Names,
        batch: usize,
        queue: &mut Queue<'_, Self>,
    ) {
        for names in names.cut(batch) {
            self.push(worker.index, Task::Look { slice: slice.batch(), names }, queue);
        }
        worker.watch.book(Phase::Callback, &self.counters[worker.index]);
    }

    /// Fills `names` from one `getdents64`. Returns false at the end or on failure.
    fn fill(
        &self,
        worker: &mut Worker<V>,
        directory: &Arc<DirectoryOf<V>>,
        descriptor: &Arc<OwnedFd>,
        buffer: &mut Vec<MaybeUninit<u8>>,
        names: &mut Names,
    ) -> bool {
        if buffer.is_empty() {
            buffer.resize(BUFFER_BYTES, MaybeUninit::uninit());
        }
        worker.path.set(directory);
        let mut reader = RawDir::new(descriptor, buffer);
        loop {
            match reader.next() {
                // A directory that was removed while it was read has no more names.
                None | Some(Err(rustix::io::Errno::NOENT)) => return false,
                Some(Err(rustix::io::Errno::INTR)) => continue,
                Some(Err(error)) => {
                    let errno = Errno(error.raw_os_error());
                    self.fail_at(worker, Operation::ReadDirectory, directory, None, errno);
                    return false;
                }
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    if name != c"." && name != c".." {
                        let name = Name { name, kind: sys::kind_of(entry.file_type()), inode: entry.ino() };
                        self.take_name(worker, directory, name, names);
                    }
                }
            }
            if reader.is_buffer_empty() {
                return true;
            }
        }
    }

    /// Adds a name to a batch, unless it is invalid or the rules exclude it.
    fn take_name(
        &self,
        worker: &mut Worker<V>,
        directory: &Arc<DirectoryOf<V>>,
        name: Name<'_>,
        names: &mut Names,
    ) {
        let bytes = name.name.to_bytes();
        if bytes.contains(&b'/') || bytes.is_empty() {
            // A damaged or hostile file system: such a name would lead elsewhere.
            return self.fail_at(worker, Operation::ReadDirectory, directory, None, Errno::IO);
        }
        // If the directory does not report the kind, the rules are applied once it is known.
        if let (Some(rules), true) = (&self.options.rules, name.kind != Kind::Unknown)
            && worker.path.is_excluded(rules, bytes, name.kind)
        {
            return self.counters[worker.index].excluded();
        }
        names.push(name.name, name.kind, name.inode);
    }
}
