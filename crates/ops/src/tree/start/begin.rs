//! Begins a walk: takes starts from the caller's list, looks at roots and at listed names below them.

use atta_sys as sys;
use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use atta_entry::{Entry, Errno, Kind, Metadata, Operation};
use atta_ledger::{Id, SliceNumber};

use crate::tree::directory::{Directory, State};
use crate::tree::job::TreeJob;
use crate::tree::journal::earlier::{NumberedNames, Redo};
use crate::tree::life::release_maker;
use crate::tree::listing::link;
use crate::tree::listing::names::Names;
use crate::tree::mark;
use crate::tree::operation::{Again, Cx, DirectoryOf, Handler, Here, HereOf, Stage};
use crate::tree::profile::Phase;
use crate::tree::slice::{CurrentSlice, Extent, Slice};
use crate::tree::start::{Differs, Seed, Start};
use crate::tree::task::Task;
use crate::tree::thread::{LEFT_OUT, Thread, failed};
use crate::tree::units::Life;

/// Starts taken from the caller's list at a time, so that a long list is never in memory as a whole.
const FEED_STARTS: usize = 256;

/// The directories from a root down to the one that holds a listed name. Each holds a unit of the one above, the last one that of a
/// slice.
fn listed_below<S: State>(root: &Arc<Directory<S>>, names: &[&CStr]) -> Arc<Directory<S>> {
    // The creator of the root keeps its units.
    root.life().add_slice();
    names.iter().fold(Arc::clone(root), |parent, name| {
        parent.life().add_child();
        let below = Directory::below(&parent, name, None).with_life(Life::of_listed());
        release_maker(&parent);
        Arc::new(below)
    })
}

impl<V: Handler> TreeJob<'_, V> {
    /// Takes all starts of the caller's list at once.
    pub(crate) fn all_starts(&self) -> Vec<Task<V::State>> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.by_ref().map(|seed| self.start_task(seed)).collect()
    }

    pub(crate) fn start_task(&self, Seed { start: Start { root, below }, differs }: Seed) -> Task<V::State> {
        Task::Start { root: self.roots.intern(root), below, differs }
    }

    /// The directory of a root for listed names, opened unless it is open. A directory that was closed meanwhile must still be the same
    /// one.
    pub(crate) fn open_root(&self, index: u32, follow: bool) -> Result<Arc<DirectoryOf<V>>, Errno> {
        match self.roots.directory(index) {
            Some(directory) => Ok(directory),
            None => self.open_root_twice(index, follow).map(|[_, kept]| kept),
        }
    }

    /// A new directory object for a root, to be read from its beginning.
    fn open_root_anew(&self, index: u32, follow: bool) -> Result<Arc<DirectoryOf<V>>, Errno> {
        self.open_root_twice(index, follow).map(|[read, _]| read)
    }

    /// Two directory objects for a root: one to read, one for all other tasks.
    fn open_root_twice(&self, index: u32, follow: bool) -> Result<[Arc<DirectoryOf<V>>; 2], Errno> {
        let root = self.roots.get(index);
        self.throttle(1);
        let path = CString::new(root.path.clone()).map_err(|_| Errno::INVAL)?;
        let (descriptor, place) = root.open(follow, self.features())?;
        let kept = Directory::root_for_tasks(path.clone(), index, Arc::clone(&descriptor), place);
        let read = Directory::root(path, index, descriptor, place);
        self.visit.root(&read);
        self.visit.root(&kept);
        self.roots.keep(&kept, self.budget.roots);
        Ok([read, kept])
    }
}

impl<V: Handler> Thread<'_, '_, '_, V> {
    /// Takes more starts from the caller's list.
    pub(crate) fn feed(&mut self) {
        let starts: Vec<_> = {
            let mut starts = self.job.starts.lock().unwrap_or_else(PoisonError::into_inner);
            starts.by_ref().take(FEED_STARTS).collect()
        };
        let left =
            self.job.journal.map(|journal| journal.earlier().take_left(FEED_STARTS)).unwrap_or_default();
        if starts.len().max(left.len()) == FEED_STARTS {
            self.push(Task::Feed);
        }
        left.into_iter().for_each(|redo| self.push(Task::Redo(Box::new(redo))));
        for seed in starts {
            self.push(self.job.start_task(seed));
        }
    }

    /// Looks at a root: first the entry itself, then its contents.
    pub(crate) fn start(&mut self, index: u32) {
        let job = self.job;
        let path = job.roots.get(index).path.clone();
        let Some(metadata) = self.stat_root(&path) else { return };
        let counters = &job.counters[self.worker.index];
        let spent = self.worker.watch.book(Phase::Stat, counters);
        job.stat_ns.store(spent.max(1), Ordering::Relaxed);
        let enter = self.show_root(&path, &metadata);
        // What a root comes to belongs to none of its slices.
        job.closer(self.worker).end_rest();
        self.worker.watch.book(Phase::Callback, counters);
        if enter && job.options.max_depth != Some(0) {
            self.read_root(index, &path);
        }
    }

    /// The metadata of a root. None: it failed, and the failure is reported.
    fn stat_root(&mut self, path: &[u8]) -> Option<Metadata> {
        self.job.throttle(1);
        match sys::stat_path(path, self.job.options.follow) {
            Ok(metadata) => Some(metadata),
            Err(errno) => {
                self.fail(path, path, failed(Operation::Stat)(errno));
                None
            }
        }
    }

    /// Reads a root. A root that is given twice is read twice, and each reader needs a position of its own.
    fn read_root(&mut self, index: u32, path: &[u8]) {
        let again = self.job.journal.map(|journal| (journal, journal.earlier().id(index, b"")));
        if again.is_some_and(|(journal, id)| journal.earlier().is_known(id)) {
            return;
        }
        if self.job.is_root_left_out(self.worker, index) {
            return self.fail(path, path, LEFT_OUT);
        }
        match self.job.open_root_anew(index, self.job.options.follow) {
            Ok(directory) => {
                if let Some((journal, id)) = again {
                    directory.set_again(id);
                    self.note_mark(&directory);
                    if journal.run() > 1 {
                        self.show_again(&directory, id, (false, false));
                    }
                }
                self.read(&directory);
                if let Some((journal, id)) = again {
                    let slices = journal.earlier().take_slices_of_root(index);
                    self.redo_slices((index, b""), id, slices);
                }
            }
            Err(errno) => self.fail(path, path, failed(Operation::OpenDirectory)(errno)),
        }
    }

    /// Looks at one listed name below a root, without following a link on the way to it.
    pub(crate) fn start_below(&mut self, index: u32, below: &[u8]) {
        if let Some((directory, last)) = self.listed(index, below) {
            let mut names = Names::default();
            names.push(&last, Kind::Unknown, 0);
            self.look(&CurrentSlice::new(&directory, Extent::Later), names);
        }
    }

    /// The directory of a listed name, not opened, and the last name. None: it failed, and the failure is reported. The caller ends a slice
    /// of the directory.
    fn listed(&mut self, index: u32, below: &[u8]) -> Option<(Arc<DirectoryOf<V>>, CString)> {
        let path = self.job.roots.get(index).path.clone();
        let names: Option<Vec<CString>> = link::names(below).map(|name| CString::new(name).ok()).collect();
        let names = names.filter(|names| names.iter().all(|name| name.as_c_str() != c".."));
        let Some((last, above)) = names.as_deref().and_then(<[CString]>::split_last) else {
            let whole = [path.as_slice(), below].join(&b'/');
            self.fail(&path, &whole, failed(Operation::Stat)(Errno::INVAL));
            return None;
        };
        // The operator named the root, so links in its path are followed. A job's root was a directory when it was looked at first.
        let follow = self.job.journal.is_none() || self.job.options.follow;
        match self.job.open_root(index, follow) {
            Ok(root) => {
                let above: Vec<_> = above.iter().map(CString::as_c_str).collect();
                Some((listed_below(&root, &above), last.clone()))
            }
            Err(errno) => {
                self.fail(&path, &path, failed(Operation::OpenDirectory)(errno));
                None
            }
        }
    }

    /// Does again what an earlier run of the job has not done of a directory.
    pub(crate) fn redo(&mut self, redo: Redo) {
        let Some(journal) = self.job.journal else { return };
        let id = journal.earlier().id(redo.root, &redo.path);
        let needs_directory = V::STAGE >= Stage::Closed || !redo.is_read;
        if needs_directory && !self.redo_directory(&redo, id) {
            return;
        }
        self.redo_slices((redo.root, &redo.path), id, redo.slices);
    }

    /// Adds tasks for slices of a directory, which the operation has seen.
    fn redo_slices(&mut self, (root, path): (u32, &[u8]), id: Id, slices: Vec<NumberedNames>) {
        if slices.is_empty() {
            return;
        }
        // As if a name in the directory was listed, which is not looked at.
        let Some((directory, _)) = self.listed(root, &[path, b"/name"].concat()) else { return };
        directory.set_again(id);
        // Other threads and ranks may take some, but not the first: an operation may hold it until the directory has its name.
        for (number, slice) in slices.into_iter().enumerate() {
            self.redo_slice(&directory, slice, number > 0);
        }
        self.job.closer(self.worker).end_reading(&directory);
    }

    /// Opens a directory of which something is done again. Reads it, without names that are in slices of their own, if it was not read to its
    /// end. Returns whether its slices can be done again.
    fn redo_directory(&mut self, redo: &Redo, id: Id) -> bool {
        let Redo { root, path, is_read, .. } = redo;
        let how_far = (*is_read, redo.was_closed);
        if path.is_empty() {
            return self.redo_root(*root, id, redo.was_closed);
        }
        let Some((parent, name)) = self.listed(*root, path) else { return false };
        // It holds a unit of the directory above, as one that was found there.
        parent.life().add_child();
        release_maker(&parent);
        self.job.throttle(1);
        let is_left_out = self.job.is_left_out(self.worker, &parent, &name);
        let opened = match is_left_out {
            true => Err(LEFT_OUT),
            false => {
                self.job.open(self.worker, &parent, &name, None).map_err(failed(Operation::OpenDirectory))
            }
        };
        let why = match opened {
            Ok(Some(directory)) => {
                directory.set_again(id);
                if !is_read {
                    self.note_mark(&directory);
                }
                self.show_again(&directory, id, how_far);
                // If only its closing is left, that is the operation's part.
                if !is_read {
                    self.read(&directory);
                }
                return true;
            }
            // Another file system, which is not entered.
            Ok(None) => {
                self.job.end_unopened(self.worker, (&parent, &name), self.queue);
                return false;
            }
            Err(why) => why,
        };
        let is_gone = why.errno().is_of_vanished();
        if V::STAGE < Stage::Closed || !is_gone {
            self.fail_name(&parent, name.as_bytes(), why);
        }
        if V::STAGE >= Stage::Closed && !is_read {
            self.job.end_unopened(self.worker, (&parent, &name), self.queue);
        }
        if is_gone {
            self.job.visit.gone(&mut self.worker.visit, (*root, path));
            let directory = Arc::new(Directory::below(&parent, &name, None));
            let slices: Vec<_> = redo.slices.iter().map(|(number, _)| *number).collect();
            self.note_gone(&directory, &slices);
        }
        false
    }

    /// Notes that a directory of which something is done again is gone, with the failure that was reported of it: no later run looks for it.
    fn note_gone(&mut self, directory: &Arc<DirectoryOf<V>>, slices: &[SliceNumber]) {
        let (job, worker) = (self.job, &mut *self.worker);
        if V::STAGE >= Stage::Closed {
            return worker.noter.gone(directory, slices, None);
        }
        job.visit.slice_ended(&mut worker.visit, None, true);
        let results = job.visit.results(&mut worker.visit);
        worker.noter.gone(directory, slices, results.as_deref());
        job.closer(worker).end_rest();
    }

    /// Opens a root of which slices or its closing are left. It was looked at, and is not read again.
    fn redo_root(&mut self, root: u32, id: Id, was_closed: bool) -> bool {
        let opened = match self.job.is_root_left_out(self.worker, root) {
            true => Err(LEFT_OUT),
            false => {
                let opened = self.job.open_root_anew(root, self.job.options.follow);
                opened.map_err(failed(Operation::OpenDirectory))
            }
        };
        match opened {
            Ok(directory) => {
                self.show_again(&directory, id, (true, was_closed));
                true
            }
            Err(why) => {
                let path = self.job.roots.get(root).path.clone();
                self.fail(&path, &path, why);
                false
            }
        }
    }

    /// Notes what is seen of a directory that is about to be read, unless that was noted where its name was read, or when an earlier run has begun to
    /// read it: names that this run leaves out are from then.
    fn note_mark(&mut self, directory: &Arc<DirectoryOf<V>>) {
        let (job, worker) = (self.job, &mut *self.worker);
        let is_parted = |id: &Id| job.journal.is_some_and(|journal| journal.earlier().is_parted(*id));
        if !V::MARKS || directory.again().as_ref().is_some_and(is_parted) {
            return;
        }
        // If it cannot be opened, reading it reports that.
        let Ok(descriptor) = directory.descriptor(&mut worker.held, job.features()) else { return };
        if let Ok(metadata) = sys::stat_descriptor(&descriptor) {
            let here = Here { directory, descriptor: &descriptor, slice: None };
            let beside = job.visit.beside(&mut worker.visit, here);
            worker.noter.marked(directory, mark::both(mark::of(&metadata), beside));
        }
    }

    /// Passes a directory of which something is done again to the operation: it was read to its end, and it was closed once.
    fn show_again(&mut self, directory: &Arc<DirectoryOf<V>>, id: Id, (is_read, was_closed): (bool, bool)) {
        let (job, worker) = (self.job, &mut *self.worker);
        let Some(journal) = job.journal else { return };
        match directory.descriptor(&mut worker.held, job.features()) {
            Ok(descriptor) => {
                let is_given = |name: &[u8]| journal.earlier().is_given(id, name);
                let plans = journal.earlier().plans_in(id);
                let again = Again { is_read, was_closed, plans, is_given: &is_given };
                let here = Here { directory, descriptor: &descriptor, slice: None };
                job.visit.again(&mut worker.visit, here, &again);
            }
            Err(errno) => self.fail_directory(directory, failed(Operation::OpenDirectory)(errno)),
        }
    }

    /// Adds a task for the names of a slice. `may_leave`: also for another rank.
    fn redo_slice(
        &mut self,
        directory: &Arc<DirectoryOf<V>>,
        (number, names): NumberedNames,
        may_leave: bool,
    ) {
        let mut listed = Names::default();
        for name in names.into_iter().filter_map(|name| CString::new(name).ok()) {
            listed.push(&name, Kind::Unknown, 0);
        }
        let slice = Slice::of_numbered(Arc::clone(directory), number, 0);
        if !may_leave {
            slice.stay();
        }
        self.push(Task::Look { slice, names: listed });
    }

    /// Looks at a root that a list of differences names, and below it only if the handler does not prune it.
    pub(crate) fn start_differing(&mut self, index: u32, differs: Differs) {
        let path = self.job.roots.get(index).path.clone();
        let Some(metadata) = self.stat_root(&path) else { return };
        let entry = Entry { name: &path, ..entry_of(&metadata) };
        if self.show_differing(None, &entry, differs) {
            self.read_root(index, &path);
        }
    }

    /// As `start_differing`, for a name below a root.
    pub(crate) fn start_differing_below(&mut self, index: u32, below: &[u8], differs: Differs) {
        let Some((parent, name)) = self.listed(index, below) else { return };
        let job = self.job;
        let slice = CurrentSlice::new(&parent, Extent::Later);
        job.throttle(1);
        let opened = parent.descriptor(&mut self.worker.held, job.features());
        let found = opened.and_then(|descriptor| {
            sys::stat_at(&descriptor, &name, job.options.birth_time).map(|metadata| (descriptor, metadata))
        });
        let (descriptor, metadata) = match found {
            Ok(found) => found,
            Err(errno) => {
                self.fail_name(&parent, name.as_bytes(), failed(Operation::Stat)(errno));
                return job.end_names(self.worker, &slice, self.queue);
            }
        };
        let mut path = Vec::new();
        let (root_bytes, depth) = (parent.path_into(&mut path), parent.depth() + 1);
        let entry =
            Entry { directory: &path, name: name.as_bytes(), root_bytes, depth, ..entry_of(&metadata) };
        let here = Here { directory: &parent, descriptor: &descriptor, slice: Some(&slice) };
        if self.show_differing(Some(here), &entry, differs) {
            self.worker.held.keep(&parent, job.features());
            job.push_found(self.worker.index, (&parent, name, None), self.queue);
        }
        job.end_names(self.worker, &slice, self.queue);
    }

    /// Passes a name of a list of differences to the handler. Returns whether it is a directory to enter.
    fn show_differing(&mut self, here: Option<HereOf<'_, V>>, entry: &Entry<'_>, differs: Differs) -> bool {
        let (job, worker) = (self.job, &mut *self.worker);
        let mut cx = Cx::new(&mut worker.visit, &mut worker.tasks, Ok(here));
        job.visit.differing(&mut cx, entry, differs);
        let counters = &job.counters[worker.index];
        counters.entries(1, if entry.kind == Kind::File { entry.size() } else { 0 });
        let pruned = self.take_tasks();
        self.worker.watch.book(Phase::Callback, counters);
        entry.kind == Kind::Directory && !pruned
    }
}

/// An entry with this metadata, and without a name.
fn entry_of(metadata: &Metadata) -> Entry<'_> {
    let (kind, inode, metadata) = (metadata.kind(), metadata.inode, Some(metadata));
    Entry { directory: b"", name: b"", root_bytes: 0, depth: 0, kind, inode, metadata, target: None }
}
