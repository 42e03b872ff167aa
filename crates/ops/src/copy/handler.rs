//! The copy as a handler of a walk. Directories are made before they are entered, and small files are copied where they are found.
//! `links.rs` and the files of `target/` and `commit/` do everything else, each with what its wing owns.
//!
//! ```text
//!   entry ─▶ directory: made under a temporary name ─▶ entered ─▶ its files, by one or more threads ─▶ gets its final name
//!        ├─▶ file, link, special ─▶ under its final name in a directory not yet visible, else under a temporary one
//!        └─▶ one of several names of a file ─▶ links.rs
//!   nothing left below a directory ─▶ its attributes
//! ```

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use atta_entry::{Code as _, Entry, Errno, Failure, Kind};
use atta_runtime::Rate;
use rustix::fd::AsFd;
use rustix::fs::CWD;

use crate::copy::commit::{Commit, Committer};
use crate::copy::large::LargeCopies;
use crate::copy::links::Links;
use crate::copy::links::make::Linker;
use crate::copy::links::ranks::LinkTask;
use crate::copy::options::number_of_thread;
use crate::copy::plan::repair::{Repaired, Repairer};
use crate::copy::plan::unfinished::is_unfinished;
use crate::copy::results::Results;
use crate::copy::target::mirror::{CurrentSlice, Here, Location, Mirror, Part, SourceDirectory};
use crate::copy::target::place::{Item, Made};
use crate::copy::target::{Maker, Target};
use crate::copy::thread::{Ended, Scratch, Worker};
use crate::descriptors::Needs;
use crate::file::error::{FileError, Step};
use crate::file::source::Source;
use crate::large::{Chunked as _, TaskOf};
use crate::metadata::extended::Extended;
use crate::metadata::give::Attributes;
use crate::tree::Differs;
use crate::tree::location::below;
use crate::tree::operation::{Again, Cx, Handler, Stage};
use crate::tree::progress::{Counted, Live};
use crate::tree::slice::hand_over;
use crate::tree::start::Seed;
use atta_sys as sys;

/// Rows of the manifest that a thread gathers before it reports them.
const ROWS_AT_ONCE: usize = 256;

/// A copy, as the handler of a walk: it holds the wings, and lends each hook what it needs of them and of its thread.
pub(crate) struct CopyOperation<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) commit: Commit<'a>,
    pub(crate) links: Links,
    pub(crate) large: LargeCopies,
    pub(crate) live: Live,
    /// Whether the entries come from a list of differences, which are repaired.
    pub(crate) is_repair: bool,
    /// Device and inode of a directory that is left out: that of the job.
    pub(crate) left_out: Option<(u64, u64)>,
    /// Other ranks have logs of the job, and this one has none.
    pub(crate) lacks_log: bool,
    /// How many descriptors of the target a thread keeps open.
    pub(crate) held: usize,
}

impl CopyOperation<'_> {
    /// Makes entries on a thread.
    pub(crate) fn maker<'w>(&'w self, worker: &'w mut Worker) -> Maker<'w> {
        let Worker { scratch, results, .. } = worker;
        Maker { target: &self.target, scratch, results }
    }

    /// Commits entries on a thread.
    pub(crate) fn committer<'w>(&'w self, worker: &'w mut Worker) -> Committer<'w> {
        let Worker { scratch, results, ended, .. } = worker;
        let maker = Maker { target: &self.target, scratch, results };
        Committer { commit: &self.commit, maker, live: &self.live, ended }
    }

    /// Makes hard links on a thread.
    pub(crate) fn linker<'w>(&'w self, worker: &'w mut Worker) -> Linker<'w> {
        Linker { links: &self.links, maker: self.maker(worker) }
    }

    /// Repairs entries on a thread.
    pub(crate) fn repairer<'w>(&'w self, worker: &'w mut Worker) -> Repairer<'w> {
        Repairer { links: &self.links, maker: self.maker(worker) }
    }

    /// Copies an entry, or leaves it to a task. Reports failures.
    fn copy_entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let is_large = |metadata| self.target.is_large(metadata, &self.live);
        if entry.kind == Kind::File && entry.metadata.is_some_and(is_large) {
            return self.plan_later(cx, entry.name, entry.size());
        }
        if let Err((at, error)) = self.try_copy(cx.worker, cx.here(), entry) {
            self.maker(cx.worker).fail(&at, error);
            if entry.kind == Kind::Directory {
                cx.tasks.prune();
            }
        }
    }

    fn try_copy(
        &self,
        worker: &mut Worker,
        here: Option<Here<'_>>,
        entry: &Entry<'_>,
    ) -> Result<(), (Location, FileError)> {
        let name = CString::new(entry.name).unwrap_or_default();
        let identity = entry.metadata.map(|metadata| (metadata.device, metadata.inode));
        if entry.kind == Kind::Directory && entry.depth > 0 && identity == Some(self.target.top.identity) {
            // Reached by a route that was not known beforehand, such as a bind mount.
            let at = here.map_or(Location::Root(entry.name.to_vec()), |here| {
                Location::In(Arc::clone(here.directory), name.clone())
            });
            return Err((at, FileError::new(Step::MakeDirectory, Errno::LOOP)));
        }
        let metadata = &entry.metadata.copied().unwrap_or_default();
        let Some(here) = here else {
            let at = &Location::Root(entry.name.to_vec());
            let Some(root) = self.target.roots.find(entry.name) else { return Ok(()) };
            let from = Source { directory: CWD, name: &name };
            let to = self.maker(worker).place_of(None, &root.parent, &root.name);
            let copied = to.and_then(|to| self.copy(worker, Item { at, from, to: &to, metadata }, entry));
            return copied.map_err(|error| (at.clone(), error));
        };
        let at = &Location::In(Arc::clone(here.directory), name.clone());
        let Some(mirror) = Mirror::of(here.directory) else { return Ok(()) };
        let from = Source { directory: here.descriptor.as_fd(), name: &name };
        let to = self.maker(worker).place_of(Some(here.directory), &mirror, &name);
        let copied = to.map(|to| to.within(here.slice)).and_then(|to| {
            let item = Item { at, from, to: &to, metadata };
            if entry.kind == Kind::Directory {
                self.maker(worker).refuse_endless(item)?;
            }
            self.copy(worker, item, entry)
        });
        copied.map_err(|error| (at.clone(), error))
    }

    /// Copies one entry, but not the entries below it.
    fn copy(&self, worker: &mut Worker, item: Item<'_>, entry: &Entry<'_>) -> Result<(), FileError> {
        let (options, metadata) = (self.target.options, item.metadata);
        let is_directory = metadata.kind() == Kind::Directory;
        if !is_directory && self.maker(worker).is_left(item)? {
            return self.maker(worker).note_left(item.to).map(drop);
        }
        let made = match metadata.kind() {
            Kind::Directory if self.is_known(item.at) => {
                self.maker(worker).make_known(item.to)?;
                Made::default()
            }
            Kind::Directory => {
                self.maker(worker).make_directory(item)?;
                Made::default()
            }
            _ if metadata.nlink > 1 && options.keep.links => {
                let Some(made) = self.linker(worker).linked(item)? else { return Ok(()) };
                made
            }
            _ => self.maker(worker).single(item)?,
        };
        self.maker(worker).note(item.to, entry.kind, &made)?;
        if options.digest {
            let path = entry.path();
            let root = if entry.depth > 0 { entry.root_bytes } else { path.len() };
            worker.results.signature.add(&made.element(below(&path, root), entry.kind));
        }
        if !is_directory {
            self.committer(worker).complete(item.at, item.to, made);
        }
        Ok(())
    }

    /// Whether a task of its own does a directory again, or an earlier run of the job has completed it.
    fn is_known(&self, at: &Location) -> bool {
        let (Location::In(above, name), Some(noting)) = (at, &self.commit.noting) else { return false };
        let earlier = noting.journal.earlier();
        above.again().is_some_and(|again| earlier.is_known_in(again, name.to_bytes()))
    }

    /// Sends what other ranks are to know of files with several names.
    fn send_link_tasks(&self, cx: &mut Cx<'_, Self>) {
        for (rank, task) in self.links.copying.take_out() {
            cx.tasks.push_to(rank, task.encoded());
        }
    }

    /// Repairs an entry, or copies it if nothing in the target can be kept.
    fn repair(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>, differs: Differs) {
        let here = cx.here();
        let name = CString::new(entry.name).unwrap_or_default();
        let at = match here {
            Some(here) => Location::In(Arc::clone(here.directory), name),
            None => Location::Root(entry.name.to_vec()),
        };
        match self.repairer(cx.worker).repair(here, entry, differs) {
            Ok(Repaired::Copy) => return self.copy_entry(cx, entry),
            Ok(Repaired::Done) => {}
            Ok(Repaired::Directory(directory)) => self.committer(cx.worker).close_source(&directory),
            Err(error) => self.maker(cx.worker).fail(&at, error),
        }
        cx.tasks.prune();
    }
}

impl Handler for CopyOperation<'_> {
    type Worker = Worker;
    type State = Arc<Mirror>;

    const IS_SLOW: bool = true;
    const STAGE: Stage = Stage::Closed;
    const NEEDS: Needs = Needs::COPY;
    const MARKS: bool = false;

    fn reads_files(&self) -> bool {
        true
    }

    fn worker(&self, index: usize) -> Worker {
        let index = number_of_thread(self.target.seat, index);
        Worker::new(Scratch::new(index, self.held, self.target.data.mover()))
    }

    fn root(&self, directory: &Arc<SourceDirectory>) {
        self.target.roots.set_state(directory);
    }

    fn entered(&self, worker: &mut Worker, here: Here<'_>) {
        let mut maker = self.maker(worker);
        if let Err(error) = maker.enter(here) {
            maker.fail(&Location::Itself(Arc::clone(here.directory)), error);
        }
        self.committer(worker).hold_if_needed();
    }

    fn again(&self, worker: &mut Worker, here: Here<'_>, again: &Again<'_>) {
        let mut maker = self.maker(worker);
        if let Err(error) = maker.begin_again(here, again) {
            maker.fail(&Location::Itself(Arc::clone(here.directory)), error);
        }
    }

    fn gone(&self, worker: &mut Worker, at: (u32, &[u8])) {
        self.maker(worker).forget_gone(at);
    }

    fn noting(&self, directory: &Arc<SourceDirectory>) {
        if let Some(noting) = &self.commit.noting {
            noting.note(directory);
        }
    }

    fn not_entered(&self, worker: &mut Worker, parent: Option<Here<'_>>, directory: &Arc<SourceDirectory>) {
        let (Some(parent), Some(mirror)) = (parent, Mirror::of(directory)) else { return };
        // The entry may have been replaced meanwhile.
        if let Ok(metadata) = sys::stat_at(parent.descriptor, directory.name(), false)
            && metadata.kind() == Kind::Directory
        {
            let opened = self.maker(worker).open_made(&mirror);
            if mirror.is_foreign() {
                let at = Location::Itself(Arc::clone(directory));
                return self.maker(worker).fail(&at, FileError::new(Step::OpenDirectory, Errno::STALE));
            }
            let is_old = opened.is_ok() && mirror.target.alias().is_none();
            mirror.will_have(Attributes { metadata, extended: Extended::default(), is_old });
        }
    }

    fn looked(&self, worker: &mut Worker, slice: &CurrentSlice<'_>) {
        // Of a directory that an earlier run has begun, the first slice may be done.
        let is_again = self.target.is_resumed() && slice.directory().again().is_some();
        // Another rank has entered it.
        let is_sent = self.commit.noting.is_some() && slice.directory().life().is_sent();
        if is_again || is_sent {
            self.maker(worker).see(slice.directory());
        }
        if is_sent {
            self.committer(worker).hold_if_needed();
        }
        // The slice that waits for the name must not be done before: another rank notes the end of one that has left.
        if slice.is_first() || is_again && !slice.has_left() {
            self.committer(worker).name_directory(slice);
        }
    }

    fn closed(&self, worker: &mut Worker, directory: &Arc<SourceDirectory>) {
        self.committer(worker).close_source(directory);
    }

    fn ended(&self, worker: &mut Worker, results: &mut Results) -> Vec<Part> {
        if worker.ended.is_empty() {
            return Vec::new();
        }
        let Ended { parts, results: own } = std::mem::take(&mut worker.ended);
        own.into_iter().for_each(|mut own| hand_over(&mut *own, results));
        parts
    }

    fn results<'w>(&self, worker: &'w mut Worker) -> Option<&'w mut Results> {
        Some(&mut worker.results)
    }

    fn handed_over(&self, _worker: &mut Worker, results: &mut Results) {
        if results.rows.len() >= ROWS_AT_ONCE {
            self.target.failures.watch.rows(std::mem::take(&mut results.rows));
        }
    }

    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let here = cx.here();
        let place = || entry.metadata.map(|metadata| (metadata.device, metadata.inode));
        if self.left_out.is_some() && entry.kind == Kind::Directory && place() == self.left_out {
            return cx.tasks.prune();
        }
        let Worker { scratch, results, .. } = &mut *cx.worker;
        let is_unfinished = |here| is_unfinished(here, entry.name, &mut scratch.held, self.target.features);
        if here.is_some_and(is_unfinished) {
            results.totals.unfinished += 1;
            return cx.tasks.prune();
        }
        if self.is_repair {
            // The entry is below a directory that was missing.
            let differs = Differs { is_missing: true, ..Differs::default() };
            return self.repair(cx, entry, differs);
        }
        self.copy_entry(cx, entry);
        self.send_link_tasks(cx);
    }

    fn differing(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>, differs: Differs) {
        self.repair(cx, entry, differs);
    }

    fn is_task(&self, task: &[u8], in_directory: bool) -> bool {
        // Tasks about links belong to no directory.
        match LinkTask::decode_all(task).filter(|_| !in_directory) {
            Some(LinkTask::Wait { from, .. }) => from < self.target.seat.ranks,
            Some(LinkTask::Ended { .. }) => true,
            None => self.is_large_task(task, in_directory),
        }
    }

    fn file_of(&self, task: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
        self.large_file_of(task)
    }

    fn task(&self, cx: &mut Cx<'_, Self>, task: &[u8]) {
        match LinkTask::decode_all(task) {
            Some(LinkTask::Wait { key, from }) => self.links.copying.wait(key, from),
            Some(LinkTask::Ended { key }) => self.links.note_ended(&key),
            None => {
                if let Some(task) = TaskOf::<Self>::decode_all(task) {
                    self.large_task(cx, task);
                }
            }
        }
        self.send_link_tasks(cx);
    }

    fn failure(&self, worker: &mut Worker, failure: &Failure<'_>) {
        self.target.failures.report(&mut worker.results.totals, failure);
    }

    fn waits(&self) -> bool {
        self.has_waiting()
    }

    fn settle(&self, worker: &mut Worker) -> bool {
        self.end_waiting(worker)
    }

    fn more(&self, worker: &mut Worker) -> Vec<Seed> {
        CopyOperation::more(self, worker)
    }

    fn help(&self, worker: &mut Worker) -> bool {
        self.committer(worker).check_next()
    }

    fn between(&self, worker: &mut Worker) {
        let mut committer = self.committer(worker);
        committer.finish_some();
        committer.check_some();
        committer.publish_if_due();
        self.make_some_links(worker);
    }

    fn finish(&self, worker: &mut Worker) {
        worker.finish();
    }

    fn counted(&self) -> Counted {
        let Live { files, bytes, large_found, large_done, .. } = &self.live;
        [files, bytes, large_found, large_done].map(|count| count.load(Ordering::Relaxed))
    }

    fn throttled(&self) -> Duration {
        self.target.options.bandwidth.as_deref().map_or(Duration::ZERO, Rate::throttled)
    }

    fn progress(&self) -> u64 {
        // A MiB counts as much as a file.
        self.live.bytes.load(Ordering::Relaxed) >> 20
    }
}
