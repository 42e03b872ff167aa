//! Looks at a batch of names: gets their metadata, passes them to the caller's function, enters directories.
//!
//! Names are processed in blocks: first `statx` for each, then the function for each. So two clock readings per block are enough to split
//! the time, and data that the function touches does not evict the kernel's data between two calls.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atta_entry::{Entry, Errno, Kind, Metadata, Operation};
use rustix::fd::{AsFd, OwnedFd};

use crate::inject::{Point, Poison, meet, pass};
use crate::tree::directory::Directory;
use crate::tree::journal::Journal;
use crate::tree::listing::facts::Fact;
use crate::tree::listing::link;
use crate::tree::listing::names::{Name, Names};
use crate::tree::listing::read::OWN_NAMES_LEAST;
use crate::tree::mark;
use crate::tree::operation::{Cx, DirectoryOf, Handler, Here, HereOf, Stage};
use crate::tree::profile::Phase;
use crate::tree::slice::{CurrentSlice, Extent};
use crate::tree::task::Task;
use crate::tree::thread::{Failed, LEFT_OUT, Thread, failed};
use atta_sys as sys;

/// Names in a block.
const BLOCK: usize = 32;
/// A slice of names with many bytes ends with this many.
const OWN_SLICE_MOST: u64 = 1 << 30;

/// How many of these names are a slice of their own: as many as have [`OWN_SLICE_MOST`] bytes, and at least one.
fn count_of_own_slice(facts: &[Fact]) -> usize {
    let mut bytes = 0_u64;
    let is_full = |fact: &Fact| {
        bytes = bytes.saturating_add(fact.bytes());
        bytes >= OWN_SLICE_MOST
    };
    facts.iter().position(is_full).map_or(facts.len(), |last| last + 1)
}

impl<V: Handler> Thread<'_, '_, '_, V> {
    /// Looks at all names of a batch. Returns the batch so that its memory is reused.
    pub(crate) fn look(&mut self, slice: &CurrentSlice<'_, V::State>, names: Names) -> Names {
        let (job, directory) = (self.job, slice.directory());
        let mut descriptor = match directory.descriptor(&mut self.worker.held, job.features()) {
            Ok(descriptor) => descriptor,
            Err(errno) => {
                self.fail_all(directory, &names, failed(Operation::Stat)(errno));
                job.end_names(self.worker, slice, self.queue);
                return names;
            }
        };
        self.worker.noter.path.set(directory);
        let mut facts = std::mem::take(&mut self.worker.facts);
        facts.resize(BLOCK, Fact::default());
        let mut rest = names.iter();
        let mut block = [Name::NONE; BLOCK];
        let noted = job.noted(self.worker, directory);
        let most = if noted.is_some_and(|noted| noted.is_suspected) { 1 } else { BLOCK };
        while !self.queue.is_stopping() {
            let count = rest.fill(&mut block[..most]);
            if count == 0 {
                break;
            }
            if let Some(noted) = noted {
                if most == 1 && noted.leaves_out(block[0].bytes()) {
                    self.fail_name(directory, block[0].bytes(), LEFT_OUT);
                    job.visit.name_left_out(directory, block[0].name);
                    continue;
                }
                noted.note(&mut self.worker.slot, &block[..count]);
            }
            pass(Point::Consumption);
            let here = Here { directory, descriptor: &descriptor, slice: Some(slice) };
            if self.stat(here, &block[..count], &mut facts)
                && let Ok(anew) = directory.descriptor(&mut self.worker.held, job.features())
            {
                descriptor = anew;
            }
            self.show_block((slice, &descriptor), &block[..count], &mut facts[..count]);
            if V::IS_SLOW && self.queue.is_wanted() && !rest.is_empty() {
                // An idle thread takes the remaining names.
                let mut names = rest.into_names();
                let most = if job.leaves_by_few() { OWN_NAMES_LEAST } else { usize::MAX };
                let others: Vec<_> = names.cut(most).collect();
                for names in others.into_iter().chain([names]) {
                    self.push(Task::Look { slice: slice.batch(), names });
                }
                break;
            }
        }
        self.worker.facts = facts;
        job.note_nothing(self.worker);
        job.end_names(self.worker, slice, self.queue);
        names
    }

    /// Gets the metadata of a block. Returns whether the directory's descriptor may be stale.
    fn stat(&mut self, here: HereOf<'_, V>, block: &[Name<'_>], facts: &mut [Fact]) -> bool {
        let job = self.job;
        let (mut asked, mut is_stale, mut is_gone) = (0, false, false);
        for (&name, fact) in block.iter().zip(facts) {
            meet(Poison::Entry, name.bytes());
            // Names that need no `statx` count too. Otherwise, if none needs one, the root's time alone would set the average.
            asked += 1;
            let (follow, lite) = (job.options.follow, job.options.lite);
            if lite && name.kind != Kind::Unknown && !(follow && name.kind == Kind::Symlink) {
                fact.set(name.kind, None);
            } else {
                job.throttle(1);
                let stat = |within: &OwnedFd| sys::stat_at(within, name.name, job.options.birth_time);
                let mut found = stat(here.descriptor);
                if found == Err(Errno::STALE) && !is_gone {
                    is_stale = true;
                    let held = &mut self.worker.held;
                    found = here.directory.try_anew(held, job.features(), |anew| stat(anew));
                    is_gone = found == Err(Errno::STALE);
                }
                match found {
                    Ok(metadata) => {
                        fact.set(metadata.kind(), Some(metadata));
                    }
                    // An earlier run has listed it, and it is no more there.
                    Err(errno) if errno.is_of_vanished() && self.is_of_earlier_run(here) => fact.kind = None,
                    Err(errno) => {
                        fact.kind = None;
                        self.fail_name(here.directory, name.bytes(), failed(Operation::Stat)(errno));
                    }
                }
            }
            if fact.kind == Some(Kind::Symlink) && (follow || job.options.targets) {
                self.read_link(here, name, fact);
            }
        }
        let spent = self.worker.watch.book(Phase::Stat, &job.counters[self.worker.index]);
        if let Some(each) = spent.checked_div(asked) {
            // A moving average: one slow call must not reduce all batches to single names. It is written only when it is wrong by half: a number that
            // all threads write is slow to read.
            let before = job.stat_ns.load(Ordering::Relaxed);
            if each.abs_diff(before) > before / 2 {
                job.stat_ns.store((before * 7 + each) / 8, Ordering::Relaxed);
            }
        }
        is_stale
    }

    /// Whether the names of a slice come from the log of an earlier run, for an operation that follows directories.
    fn is_of_earlier_run(&self, here: HereOf<'_, V>) -> bool {
        let number = here.slice.and_then(CurrentSlice::number);
        let run = self.job.journal.map_or(0, Journal::run);
        V::STAGE >= Stage::Closed && number.is_some_and(|number| number.run < run)
    }

    /// Reads and follows a link, as the options ask.
    fn read_link(&mut self, here: HereOf<'_, V>, name: Name<'_>, fact: &mut Fact) {
        let job = self.job;
        if job.options.targets {
            job.throttle(1);
            match sys::read_link_at(here.descriptor, name.name) {
                Ok(target) => fact.link = Some(target),
                Err(errno) => {
                    self.fail_name(here.directory, name.bytes(), failed(Operation::ReadLink)(errno));
                }
            }
        }
        if job.options.follow {
            match self.follow(here.directory, name) {
                Ok(found) => {
                    fact.kind = Some(found.metadata.kind());
                    if found.metadata.kind() == Kind::Directory {
                        fact.target = Some(found.target);
                    }
                    fact.metadata = Some(found.metadata);
                }
                Err(errno) => {
                    self.fail_name(here.directory, name.bytes(), failed(Operation::FollowLink)(errno));
                }
            }
        }
    }

    /// Resolves a link if it leads below the root and not to a directory above the link.
    fn follow(&mut self, directory: &Arc<DirectoryOf<V>>, name: Name<'_>) -> Result<link::Found, Errno> {
        let (job, held) = (self.job, &mut self.worker.held);
        let root = job.roots.get(directory.root_index());
        let top = job.open_root(directory.root_index(), true)?.descriptor(held, job.features())?;
        let real_path = root.real_path(&top);
        let found = link::resolve(top.as_fd(), real_path, directory.names_below_root(), name.bytes())?;
        let (device, inode) = (found.metadata.device, found.metadata.inode);
        let is_above = |place: sys::Place| (place.device, place.inode) == (device, inode);
        if directory.lineage().filter_map(Directory::known_place).any(is_above) {
            return Err(Errno::LOOP);
        }
        Ok(found)
    }

    /// Passes a block to the caller's function. With a log, names with many bytes are slices of their own: what is done of them is not done
    /// again if the run is killed before all names of the directory are done.
    fn show_block(
        &mut self,
        (slice, descriptor): (&CurrentSlice<'_, V::State>, &Arc<OwnedFd>),
        block: &[Name<'_>],
        facts: &mut [Fact],
    ) {
        let (job, directory) = (self.job, slice.directory());
        // The log has the names of a slice with a number: none can leave it.
        let journal = job.journal_of_files().filter(|_| slice.number().is_none());
        let bytes = facts.iter().map(Fact::bytes).fold(0, u64::saturating_add);
        let Some(journal) = journal.filter(|journal| bytes >= journal.bytes_of_own_slices()) else {
            return self.show(Here { directory, descriptor, slice: Some(slice) }, block, facts);
        };
        // What this thread has gathered is of the names before.
        job.closer(self.worker).gather(slice.share());
        let (mut names, mut facts) = (block, facts);
        while !names.is_empty() && !self.queue.is_stopping() {
            let count = count_of_own_slice(facts);
            let (own, others) = names.split_at(count);
            let (known, unknown) = facts.split_at_mut(count);
            // A name that failed is left to the other slice, which is not done.
            let found = own.iter().zip(&*known).filter(|(_, fact)| fact.kind.is_some());
            let number = self.worker.noter.listed(journal, directory, found.map(|(name, _)| name.bytes()));
            if V::STAGE > Stage::Slices {
                directory.life().add_slice();
            }
            let slice = CurrentSlice::new(directory, Extent::Later).with_number(Some(number));
            self.show(Here { directory, descriptor, slice: Some(&slice) }, own, known);
            job.end_names(self.worker, &slice, self.queue);
            // The task may take long.
            job.between(self.worker, self.queue);
            (names, facts) = (others, unknown);
        }
        self.worker.noter.path.set(directory);
    }

    /// Passes a block to the caller's function and adds tasks to enter its directories.
    fn show(&mut self, here: HereOf<'_, V>, block: &[Name<'_>], facts: &mut [Fact]) {
        let (job, directory) = (self.job, here.directory);
        let depth = directory.depth() + 1;
        let descend = job.options.max_depth.is_none_or(|most| depth < most);
        let (mut entries, mut bytes) = (0, 0);
        for (&name, fact) in block.iter().zip(facts) {
            let Some(kind) = fact.kind else { continue };
            let worker = &mut *self.worker;
            if let (Kind::Unknown, Some(rules)) = (name.kind, &job.options.rules)
                && worker.noter.path.is_excluded(rules, name.bytes(), kind)
            {
                job.counters[worker.index].excluded();
                job.visit.excluded(&mut worker.visit, 1);
                continue;
            }
            let entry = Entry {
                directory: worker.noter.path.bytes(),
                name: name.bytes(),
                root_bytes: worker.noter.path.root_bytes(),
                depth,
                kind,
                inode: fact.metadata.as_ref().map_or(name.inode, |metadata| metadata.inode),
                metadata: fact.metadata.as_ref(),
                target: fact.link.as_deref(),
            };
            job.visit.entry(&mut Cx::new(&mut worker.visit, &mut worker.tasks, Ok(Some(here))), &entry);
            entries += 1;
            bytes = u64::saturating_add(bytes, if kind == Kind::File { entry.size() } else { 0 });
            let beside = std::mem::take(&mut self.worker.tasks.beside);
            let pruned = self.take_tasks();
            if kind == Kind::Directory && descend && !pruned && !self.is_known(directory, name.bytes()) {
                let found = (directory, CString::from(name.name), fact.target.take());
                let mark = fact.metadata.as_ref().filter(|_| V::MARKS && job.journal.is_some());
                let mark = mark.map_or(mark::NONE, |metadata| mark::both(mark::of(metadata), beside));
                self.worker.noter.found(directory, name.bytes(), mark);
                job.push_found(self.worker.index, found, self.queue);
            }
        }
        job.counters[self.worker.index].entries(entries, bytes);
        self.worker.watch.book(Phase::Callback, &job.counters[self.worker.index]);
    }

    /// Whether a subdirectory is left out, since it was done in an earlier run, or a task of its own does it.
    fn is_known(&self, directory: &DirectoryOf<V>, name: &[u8]) -> bool {
        self.job
            .journal
            .zip(directory.again())
            .is_some_and(|(journal, again)| journal.earlier().is_known_in(again, name))
    }

    /// Passes a root to the caller's function. Returns whether it is a directory to enter.
    pub(crate) fn show_root(&mut self, path: &[u8], metadata: &Metadata) -> bool {
        let (job, worker) = (self.job, &mut *self.worker);
        let kind = metadata.kind();
        let target = (kind == Kind::Symlink && job.options.targets)
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
        job.visit.entry(&mut Cx::new(&mut worker.visit, &mut worker.tasks, Ok(None)), &entry);
        job.counters[worker.index].entries(1, if kind == Kind::File { metadata.size } else { 0 });
        let pruned = self.take_tasks();
        kind == Kind::Directory && !pruned
    }

    /// Reports a failure for each name of a batch whose directory can no longer be reached.
    fn fail_all(&mut self, directory: &DirectoryOf<V>, names: &Names, failed: Failed) {
        for name in names.iter() {
            self.fail_name(directory, name.bytes(), failed);
        }
    }
}
