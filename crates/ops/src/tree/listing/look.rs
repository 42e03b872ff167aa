//! Looks at a batch of names: gets their metadata, passes them to the caller's function, enters directories.
//!
//! Names are processed in blocks: first `statx` for each, then the function for each. So two clock readings per block are enough to split
//! the time, and data that the function touches does not evict the kernel's data between two calls.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atta_entry::{Entry, Errno, Kind, Metadata, Operation};
use atta_runtime::Queue;
use rustix::fd::{AsFd, OwnedFd};

use crate::tree::directory::Directory;
use crate::tree::job::{TreeJob, Worker, push_own};
use crate::tree::listing::facts::Fact;
use crate::tree::listing::link;
use crate::tree::listing::names::{Name, Names};
use crate::tree::listing::path::join;
use crate::tree::operation::{Cx, DirectoryOf, Handler, Here, HereOf};
use crate::tree::profile::Phase;
use crate::tree::slice::CurrentSlice;
use crate::tree::task::Task;
use atta_sys as sys;

/// Names in a block.
const BLOCK: usize = 32;

impl<V: Handler> TreeJob<'_, V> {
    /// Looks at all names of a batch. Returns the batch so that its memory is reused.
    pub(crate) fn look(
        &self,
        worker: &mut Worker<V>,
        slice: &CurrentSlice<'_, V::State>,
        names: Names,
        queue: &mut Queue<'_, Self>,
    ) -> Names {
        let directory = slice.directory();
        let mut descriptor = match directory.descriptor(&mut worker.held, self.features()) {
            Ok(descriptor) => descriptor,
            Err(errno) => {
                self.fail_all(worker, directory, &names, errno);
                self.end_names(worker, slice, queue);
                return names;
            }
        };
        worker.path.set(directory);
        let mut facts = std::mem::take(&mut worker.facts);
        facts.resize(BLOCK, Fact::default());
        let mut rest = names.iter();
        let mut block = [Name::NONE; BLOCK];
        while !queue.is_stopping() {
            let count = rest.fill(&mut block);
            if count == 0 {
                break;
            }
            if self.ask(worker, directory, &descriptor, &block[..count], &mut facts)
                && let Ok(anew) = directory.descriptor(&mut worker.held, self.features())
            {
                descriptor = anew;
            }
            let here = Here { directory, descriptor: &descriptor, slice: self.shown(slice) };
            self.show(worker, here, &block[..count], &mut facts, queue);
            if V::IS_SLOW && queue.is_wanted() && !rest.is_empty() {
                // An idle thread takes the remaining names.
                let task = Task::Look { slice: slice.batch(), names: rest.into_names() };
                self.push(worker.index, task, queue);
                break;
            }
        }
        worker.facts = facts;
        self.end_names(worker, slice, queue);
        names
    }

    /// Gets the metadata of a block. Returns whether the directory's descriptor may be stale.
    fn ask(
        &self,
        worker: &mut Worker<V>,
        directory: &Arc<DirectoryOf<V>>,
        descriptor: &OwnedFd,
        block: &[Name<'_>],
        facts: &mut [Fact],
    ) -> bool {
        let (mut asked, mut is_stale, mut is_gone) = (0, false, false);
        for (&name, fact) in block.iter().zip(facts) {
            // Names that need no `statx` count too. Otherwise, if none needs one, the root's time alone would set the average.
            asked += 1;
            let (follow, lite) = (self.options.follow, self.options.lite);
            if lite && name.kind != Kind::Unknown && !(follow && name.kind == Kind::Symlink) {
                fact.set(name.kind, None);
            } else {
                self.throttle(1);
                let stat = |within: &OwnedFd| sys::stat_at(within, name.name, self.options.birth_time);
                let mut found = stat(descriptor);
                if found == Err(Errno::STALE) && !is_gone {
                    is_stale = true;
                    found = directory.try_anew(&mut worker.held, self.features(), |anew| stat(anew));
                    is_gone = found == Err(Errno::STALE);
                }
                match found {
                    Ok(metadata) => {
                        fact.set(metadata.kind(), Some(metadata));
                    }
                    Err(errno) => {
                        fact.kind = None;
                        self.fail_name(worker, directory, Operation::Stat, name, errno);
                    }
                }
            }
            if fact.kind == Some(Kind::Symlink) && (follow || self.options.targets) {
                self.ask_link(worker, directory, descriptor, name, fact);
            }
        }
        let spent = worker.watch.book(Phase::Stat, &self.counters[worker.index]);
        if let Some(each) = spent.checked_div(asked) {
            // A moving average: one slow call must not reduce all batches to single names.
            let before = self.stat_ns.load(Ordering::Relaxed);
            self.stat_ns.store((before * 7 + each) / 8, Ordering::Relaxed);
        }
        is_stale
    }

    /// Reads and follows a link, as the options ask.
    fn ask_link(
        &self,
        worker: &mut Worker<V>,
        directory: &Arc<DirectoryOf<V>>,
        descriptor: &OwnedFd,
        name: Name<'_>,
        fact: &mut Fact,
    ) {
        if self.options.targets {
            self.throttle(1);
            match sys::read_link_at(descriptor, name.name) {
                Ok(target) => fact.link = Some(target),
                Err(errno) => self.fail_name(worker, directory, Operation::ReadLink, name, errno),
            }
        }
        if self.options.follow {
            match self.follow(worker, directory, name) {
                Ok(found) => {
                    fact.kind = Some(found.metadata.kind());
                    if found.metadata.kind() == Kind::Directory {
                        fact.target = Some(found.target);
                    }
                    fact.metadata = Some(found.metadata);
                }
                Err(errno) => self.fail_name(worker, directory, Operation::FollowLink, name, errno),
            }
        }
    }

    /// Resolves a link if it leads below the root and not to a directory above the link.
    fn follow(
        &self,
        worker: &mut Worker<V>,
        directory: &Arc<DirectoryOf<V>>,
        name: Name<'_>,
    ) -> Result<link::Found, Errno> {
        let root = self.roots.get(directory.root_index());
        let top =
            self.open_root(directory.root_index(), true)?.descriptor(&mut worker.held, self.features())?;
        let real_path = root.real_path.get().and_then(Option::as_deref);
        let found =
            link::resolve(top.as_fd(), real_path, directory.names_below_root(), name.name.to_bytes())?;
        let (device, inode) = (found.metadata.device, found.metadata.inode);
        let is_above = |place: sys::Place| (place.device, place.inode) == (device, inode);
        if directory.lineage().filter_map(Directory::known_place).any(is_above) {
            return Err(Errno::LOOP);
        }
        Ok(found)
    }

    /// Passes a block to the caller's function and adds tasks to enter its directories.
    fn show(
        &self,
        worker: &mut Worker<V>,
        here: HereOf<'_, V>,
        block: &[Name<'_>],
        facts: &mut [Fact],
        queue: &mut Queue<'_, Self>,
    ) {
        let directory = here.directory;
        let depth = directory.depth() + 1;
        let descend = self.options.max_depth.is_none_or(|most| depth < most);
        let (mut entries, mut bytes) = (0, 0);
        for (&name, fact) in block.iter().zip(facts) {
            let Some(kind) = fact.kind else { continue };
            if let (Kind::Unknown, Some(rules)) = (name.kind, &self.options.rules)
                && worker.path.is_excluded(rules, name.name.to_bytes(), kind)
            {
                self.counters[worker.index].excluded();
                continue;
            }
            let entry = Entry {
                directory: worker.path.bytes(),
                name: name.name.to_bytes(),
                root_bytes: worker.path.root_bytes(),
                depth,
                kind,
                inode: fact.metadata.as_ref().map_or(name.inode, |metadata| metadata.inode),
                metadata: fact.metadata.as_ref(),
                target: fact.link.as_deref(),
            };
            self.visit.entry(&mut Cx::new(&mut worker.visit, &mut worker.tasks, Ok(Some(here))), &entry);
            entries += 1;
            bytes = u64::saturating_add(bytes, if kind == Kind::File { entry.size() } else { 0 });
            push_own(self, &mut worker.tasks, queue);
            let pruned = std::mem::take(&mut worker.tasks.pruned);
            if kind == Kind::Directory && descend && !pruned {
                let found = (directory, CString::from(name.name), fact.target.take());
                self.push_found(worker.index, found, queue);
            }
        }
        self.counters[worker.index].entries(entries, bytes);
        worker.watch.book(Phase::Callback, &self.counters[worker.index]);
    }

    /// Passes a root to the caller's function. Returns whether it is a directory to enter.
    pub(crate) fn show_root(
        &self,
        worker: &mut Worker<V>,
        path: &[u8],
        metadata: &Metadata,
        queue: &mut Queue<'_, Self>,
    ) -> bool {
        let kind = metadata.kind();
        let target = (kind == Kind::Symlink && self.options.targets)
            .then(|| sys::read_link_at(rustix::fs::CWD, &CString::new(path).unwrap_or_default()).ok())
            .flatten();
        let entry = Entry {
            directory: b"",
            name: path,
            root_bytes: 0,
            depth: 0,
            kind,
            inode: metadata.inode,
            metadata: Some(metadata),
            target: target.as_deref(),
        };
        self.visit.entry(&mut Cx::new(&mut worker.visit, &mut worker.tasks, Ok(None)), &entry);
        self.counters[worker.index].entries(1, if kind == Kind::File { metadata.size } else { 0 });
        push_own(self, &mut worker.tasks, queue);
        let pruned = std::mem::take(&mut worker.tasks.pruned);
        kind == Kind::Directory && !pruned
    }

    fn fail_name(
        &self,
        worker: &mut Worker<V>,
        directory: &DirectoryOf<V>,
        operation: Operation,
        name: Name<'_>,
        errno: Errno,
    ) {
        let mut path = Vec::new();
        directory.path_into(&mut path);
        join(&mut path, name.name.to_bytes());
        let root = self.roots.get(directory.root_index());
        self.fail(worker, operation, &path, &root.path, errno);
    }

    /// Reports a failure for each name of a batch whose directory can no longer be reached.
    fn fail_all(&self, worker: &mut Worker<V>, directory: &DirectoryOf<V>, names: &Names, errno: Errno) {
        for name in names.iter() {
            self.fail_name(worker, directory, Operation::Stat, name, errno);
        }
    }
}
