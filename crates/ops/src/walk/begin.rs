//! Where a walk begins: takes starts from the caller's list, looks at roots and at listed names below them.

use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use atta_entry::{Errno, Kind, Operation};
use atta_runtime::Queue;

use super::directory::Directory;
use super::job::{WalkJob, WalkWorker};
use super::names::Names;
use super::profile::Phase;
use super::task::{self, Task};
use super::visit::Handler;
use super::{Start, kernel, link};

/// Starts that are taken from the caller's list at a time: a long list never is in memory as a whole.
const FEED_STARTS: usize = 256;

impl<V: Handler> WalkJob<'_, V> {
    /// Takes some more of what the caller wants walked.
    pub(crate) fn feed(&self, index: usize, queue: &mut Queue<'_, Self>) {
        let starts: Vec<_> = {
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            starts.by_ref().take(FEED_STARTS).collect()
        };
        if starts.len() == FEED_STARTS {
            self.push(index, Task::Feed, queue);
        }
        for Start { root, below } in starts {
            let root = self.roots.intern(root);
            self.push(index, Task::Start { root, below }, queue);
        }
    }

    /// All that the caller wants walked, at once.
    pub(crate) fn all_starts(&self) -> Vec<Task> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let start = |Start { root, below }| Task::Start { root: self.roots.intern(root), below };
        starts.by_ref().map(start).collect()
    }

    /// Looks at a root: the entry itself, then what is below it.
    pub(crate) fn start(&self, worker: &mut WalkWorker<V>, index: u32, queue: &mut Queue<'_, Self>) {
        let path = self.roots.get(index).path.clone();
        self.throttle(1);
        let metadata = match kernel::stat_path(&path, self.options.follow) {
            Ok(metadata) => metadata,
            Err(errno) => return self.fail(worker, Operation::Stat, &path, &path, errno),
        };
        let spent = worker.watch.book(Phase::Stat, &self.counters[worker.index]);
        self.stat_ns.store(spent.max(1), Ordering::Relaxed);
        let enter = self.show_root(worker, &path, &metadata, queue);
        worker.watch.book(Phase::Callback, &self.counters[worker.index]);
        if enter && self.options.max_depth != Some(0) {
            // A root that is given twice is read twice: each reading needs a position of its own.
            match self.open_root_anew(index, self.options.follow) {
                Ok(directory) => self.read(worker, &directory, queue),
                Err(errno) => self.fail(worker, Operation::OpenDirectory, &path, &path, errno),
            }
        }
    }

    /// Looks at one listed name below a root, without following a link on the way to it.
    pub(crate) fn start_below(
        &self,
        worker: &mut WalkWorker<V>,
        index: u32,
        below: &[u8],
        queue: &mut Queue<'_, Self>,
    ) {
        let path = self.roots.get(index).path.clone();
        let names: Option<Vec<CString>> = link::names(below).map(|name| CString::new(name).ok()).collect();
        let names = names.filter(|names| names.iter().all(|name| name.as_c_str() != c".."));
        let Some((last, above)) = names.as_deref().and_then(<[CString]>::split_last) else {
            let whole = [path.as_slice(), below].join(&b'/');
            return self.fail(worker, Operation::Stat, &whole, &path, Errno::INVAL);
        };
        // The operator named the root: links in its path are the operator's.
        match self.open_root(index, true) {
            Ok(root) => {
                let above: Vec<_> = above.iter().map(CString::as_c_str).collect();
                let directory = task::chain_to(&root, &above);
                let mut names = Names::default();
                names.push(last, Kind::Unknown, 0);
                self.look(worker, &directory, names, queue);
            }
            Err(errno) => self.fail(worker, Operation::OpenDirectory, &path, &path, errno),
        }
    }

    /// The directory of a root, opened unless it is open. One that was closed meanwhile must be the same again.
    pub(crate) fn open_root(&self, index: u32, follow: bool) -> Result<Arc<Directory>, Errno> {
        let root = self.roots.get(index);
        if let Some(directory) = root.directory() {
            return Ok(directory);
        }
        self.open_root_anew(index, follow)
    }

    fn open_root_anew(&self, index: u32, follow: bool) -> Result<Arc<Directory>, Errno> {
        let root = self.roots.get(index);
        self.throttle(1);
        let descriptor = Arc::new(kernel::open_directory_path(&root.path, follow)?);
        let place = kernel::place_of(&descriptor, self.features())?;
        if self.options.follow {
            let _ = root.real_path.set(kernel::real_path(&descriptor));
        }
        let path = CString::new(root.path.clone()).map_err(|_| Errno::INVAL)?;
        let directory = Directory::root(path, index, descriptor, place);
        if !root.is_same(place) {
            return Err(Errno::STALE);
        }
        self.visit.root(&directory);
        self.roots.keep(&root, &directory, self.budget.roots);
        Ok(directory)
    }
}
