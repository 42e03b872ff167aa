//! Begins a walk: takes starts from the caller's list, looks at roots and at listed names below them.

use atta_sys as sys;
use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use atta_entry::{Entry, Errno, Kind, Metadata, Operation};
use atta_runtime::Queue;

use crate::tree::directory::{Directory, State};
use crate::tree::job::{TreeJob, Worker, push_own};
use crate::tree::life::release_maker;
use crate::tree::listing::link;
use crate::tree::listing::names::Names;
use crate::tree::operation::{Cx, DirectoryOf, Handler, Here, HereOf};
use crate::tree::profile::Phase;
use crate::tree::slice::{CurrentSlice, Extent};
use crate::tree::start::{Differs, Seed, Start};
use crate::tree::task::Task;
use crate::tree::units::Life;

/// Starts taken from the caller's list at a time, so that a long list is never in memory as a whole.
const FEED_STARTS: usize = 256;

/// An entry from its directory and name, the length of its root, and its depth.
fn entry_of<'a>(
    (directory, name): (&'a [u8], &'a [u8]),
    (root_bytes, depth): (usize, u32),
    metadata: &'a Metadata,
) -> Entry<'a> {
    let (kind, inode) = (metadata.kind(), metadata.inode);
    Entry { directory, name, root_bytes, depth, kind, inode, metadata: Some(metadata), target: None }
}

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
    /// Takes more starts from the caller's list.
    pub(crate) fn feed(&self, index: usize, queue: &mut Queue<'_, Self>) {
        let starts: Vec<_> = {
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            starts.by_ref().take(FEED_STARTS).collect()
        };
        if starts.len() == FEED_STARTS {
            self.push(index, Task::Feed, queue);
        }
        for seed in starts {
            self.push(index, self.start_task(seed), queue);
        }
    }

    /// Takes all starts of the caller's list at once.
    pub(crate) fn all_starts(&self) -> Vec<Task<V::State>> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.by_ref().map(|seed| self.start_task(seed)).collect()
    }

    fn start_task(&self, Seed { start: Start { root, below }, differs }: Seed) -> Task<V::State> {
        Task::Start { root: self.roots.intern(root), below, differs }
    }

    /// Looks at a root: first the entry itself, then its contents.
    pub(crate) fn start(&self, worker: &mut Worker<V>, index: u32, queue: &mut Queue<'_, Self>) {
        let path = self.roots.get(index).path.clone();
        self.throttle(1);
        let metadata = match sys::stat_path(&path, self.options.follow) {
            Ok(metadata) => metadata,
            Err(errno) => return self.fail(worker, Operation::Stat, &path, &path, errno),
        };
        let spent = worker.watch.book(Phase::Stat, &self.counters[worker.index]);
        self.stat_ns.store(spent.max(1), Ordering::Relaxed);
        let enter = self.show_root(worker, &path, &metadata, queue);
        worker.watch.book(Phase::Callback, &self.counters[worker.index]);
        if enter && self.options.max_depth != Some(0) {
            // A root that is given twice is read twice, and each reader needs a position of its own.
            match self.open_root_anew(index, self.options.follow) {
                Ok(directory) => self.read(worker, &directory, queue),
                Err(errno) => self.fail(worker, Operation::OpenDirectory, &path, &path, errno),
            }
        }
    }

    /// Looks at one listed name below a root, without following a link on the way to it.
    pub(crate) fn start_below(
        &self,
        worker: &mut Worker<V>,
        index: u32,
        below: &[u8],
        queue: &mut Queue<'_, Self>,
    ) {
        if let Some((directory, last)) = self.listed(worker, index, below) {
            let mut names = Names::default();
            names.push(&last, Kind::Unknown, 0);
            self.look(worker, &CurrentSlice::new(&directory, Extent::Later), names, queue);
        }
    }

    /// The directory of a listed name, not opened, and the last name. None: it failed, and the failure is reported. The caller ends a slice
    /// of the directory.
    fn listed(
        &self,
        worker: &mut Worker<V>,
        index: u32,
        below: &[u8],
    ) -> Option<(Arc<DirectoryOf<V>>, CString)> {
        let path = self.roots.get(index).path.clone();
        let names: Option<Vec<CString>> = link::names(below).map(|name| CString::new(name).ok()).collect();
        let names = names.filter(|names| names.iter().all(|name| name.as_c_str() != c".."));
        let Some((last, above)) = names.as_deref().and_then(<[CString]>::split_last) else {
            let whole = [path.as_slice(), below].join(&b'/');
            self.fail(worker, Operation::Stat, &whole, &path, Errno::INVAL);
            return None;
        };
        // The operator named the root, so links in its path are followed.
        match self.open_root(index, true) {
            Ok(root) => {
                let above: Vec<_> = above.iter().map(CString::as_c_str).collect();
                Some((listed_below(&root, &above), last.clone()))
            }
            Err(errno) => {
                self.fail(worker, Operation::OpenDirectory, &path, &path, errno);
                None
            }
        }
    }

    /// Looks at a root that a list of differences names, and below it only if the handler does not prune it.
    pub(crate) fn start_differing(
        &self,
        worker: &mut Worker<V>,
        index: u32,
        differs: Differs,
        queue: &mut Queue<'_, Self>,
    ) {
        let path = self.roots.get(index).path.clone();
        self.throttle(1);
        let metadata = match sys::stat_path(&path, self.options.follow) {
            Ok(metadata) => metadata,
            Err(errno) => return self.fail(worker, Operation::Stat, &path, &path, errno),
        };
        let entry = entry_of((&[], &path), (0, 0), &metadata);
        if !self.show_differing(worker, None, &entry, differs, queue) {
            return;
        }
        match self.open_root_anew(index, self.options.follow) {
            Ok(directory) => self.read(worker, &directory, queue),
            Err(errno) => self.fail(worker, Operation::OpenDirectory, &path, &path, errno),
        }
    }

    /// As `start_differing`, for a name below a root.
    pub(crate) fn start_differing_below(
        &self,
        worker: &mut Worker<V>,
        (index, below): (u32, &[u8]),
        differs: Differs,
        queue: &mut Queue<'_, Self>,
    ) {
        let Some((parent, name)) = self.listed(worker, index, below) else { return };
        let slice = CurrentSlice::new(&parent, Extent::Later);
        self.throttle(1);
        let opened = parent.descriptor(&mut worker.held, self.features());
        let found = opened.and_then(|descriptor| {
            sys::stat_at(&descriptor, &name, self.options.birth_time).map(|metadata| (descriptor, metadata))
        });
        let (descriptor, metadata) = match found {
            Ok(found) => found,
            Err(errno) => {
                self.fail_at(worker, Operation::Stat, &parent, Some(name.as_bytes()), errno);
                return self.end_names(worker, &slice, queue);
            }
        };
        let mut path = Vec::new();
        let root_bytes = parent.path_into(&mut path);
        let entry = entry_of((&path, name.as_bytes()), (root_bytes, parent.depth() + 1), &metadata);
        let here = Here { directory: &parent, descriptor: &descriptor, slice: self.shown(&slice) };
        if self.show_differing(worker, Some(here), &entry, differs, queue) {
            worker.held.keep(&parent, self.features());
            self.push_found(worker.index, (&parent, name, None), queue);
        }
        self.end_names(worker, &slice, queue);
    }

    /// Passes a name of a list of differences to the handler. Returns whether it is a directory to enter.
    fn show_differing(
        &self,
        worker: &mut Worker<V>,
        here: Option<HereOf<'_, V>>,
        entry: &Entry<'_>,
        differs: Differs,
        queue: &mut Queue<'_, Self>,
    ) -> bool {
        let mut cx = Cx::new(&mut worker.visit, &mut worker.tasks, Ok(here));
        self.visit.differing(&mut cx, entry, differs);
        self.counters[worker.index].entries(1, if entry.kind == Kind::File { entry.size() } else { 0 });
        push_own(self, &mut worker.tasks, queue);
        let pruned = std::mem::take(&mut worker.tasks.pruned);
        worker.watch.book(Phase::Callback, &self.counters[worker.index]);
        entry.kind == Kind::Directory && !pruned
    }

    /// The directory of a root for listed names and for tasks from other ranks, opened unless it is open. A directory that was closed
    /// meanwhile must still be the same one.
    pub(crate) fn open_root(&self, index: u32, follow: bool) -> Result<Arc<DirectoryOf<V>>, Errno> {
        let root = self.roots.get(index);
        if let Some(directory) = root.directory() {
            return Ok(directory);
        }
        self.open_root_twice(index, follow).map(|[_, kept]| kept)
    }

    /// A new directory object for a root, to be read from its beginning.
    fn open_root_anew(&self, index: u32, follow: bool) -> Result<Arc<DirectoryOf<V>>, Errno> {
        self.open_root_twice(index, follow).map(|[read, _]| read)
    }

    /// Two directory objects for a root: one to read, one for all other tasks.
    fn open_root_twice(&self, index: u32, follow: bool) -> Result<[Arc<DirectoryOf<V>>; 2], Errno> {
        let root = self.roots.get(index);
        self.throttle(1);
        let descriptor = Arc::new(sys::open_directory_path(&root.path, follow)?);
        let place = sys::place_of(&descriptor, self.features())?;
        if self.options.follow {
            let _ = root.real_path.set(sys::real_path(&descriptor));
        }
        let path = CString::new(root.path.clone()).map_err(|_| Errno::INVAL)?;
        if !root.is_same(place) {
            return Err(Errno::STALE);
        }
        let kept = Directory::root_for_tasks(path.clone(), index, Arc::clone(&descriptor), place);
        let read = Directory::root(path, index, descriptor, place);
        self.visit.root(&read);
        self.visit.root(&kept);
        self.roots.keep(&root, &kept, self.budget.roots);
        Ok([read, kept])
    }
}
