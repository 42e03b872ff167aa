//! The copy as a handler of a walk. Directories are made before they are entered, and small files are copied where they are found.
//! `links.rs` and the files of `target/` and `commit/` do everything else.
//!
//! ```text
//!   entry ─▶ directory: made under a temporary name ─▶ entered ─▶ its files, by one or more threads ─▶ gets its final name
//!        ├─▶ file, link, special ─▶ under its final name in a directory not yet visible, else under a temporary one
//!        └─▶ one of several names of a file ─▶ links.rs
//!   nothing left below a directory ─▶ its attributes
//! ```

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atta_entry::{Code as _, Entry, Errno, Failure, Kind, Metadata, Timestamp};
use atta_runtime::Rate;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;

use crate::copy::Seat;
use crate::copy::commit::batch::{Batch, Ready};
use crate::copy::commit::checks::{Check, Checks, Expected};
use crate::copy::commit::pending::{Pending, PendingFile};
use crate::copy::commit::stores::Stores;
use crate::copy::commit::syncing::Syncing;
use crate::copy::large::LargeCopies;
use crate::copy::links::Links;
use crate::copy::options::{Fsync, Options, Watch, number_of_thread};
use crate::copy::plan::repair::Repair;
use crate::copy::plan::roots::Roots;
use crate::copy::plan::unfinished::is_unfinished;
use crate::copy::room::Room;
use crate::copy::target::grants::Grants;
use crate::copy::target::mirror::{
    CurrentSlice, Here, Location, Mirror, Part, Shared, SourceDirectory, Tasks,
};
use crate::copy::target::place::{Made, Place};
use crate::copy::target::stripe::Striping;
use crate::copy::thread::{Scratch, Worker};
use crate::copy::times::Syncs;
use crate::descriptors::{Budget, Needs};
use crate::digest::Element;
use crate::file::clone::Cloner;
use crate::file::error::{FileError, Step};
use crate::file::kernel_copy::Within;
use crate::file::mover::Mover;
use crate::file::source::Source;
use crate::jobs::Job;
use crate::large::{Chunked as _, TaskOf};
use crate::metadata::extended::Extended;
use crate::metadata::give::Attributes;
use crate::tree::Differs;
use crate::tree::location::below;
use crate::tree::operation::{Cx, Handler, Stage};
use crate::tree::progress::{Counted, Live};
use atta_sys::{self as sys, Features};

/// A copy, as the handler of a walk.
pub(crate) struct Copying<'a> {
    pub(crate) options: &'a Options<'a>,
    pub(crate) watch: &'a dyn Watch,
    pub(crate) seat: Seat,
    pub(crate) roots: Roots,
    pub(crate) shared: Arc<Shared>,
    pub(crate) links: Links,
    pub(crate) large: LargeCopies,
    pub(crate) batch: Batch,
    pub(crate) checks: Checks,
    pub(crate) room: Room,
    /// Start time, by the clock of the file system.
    pub(crate) began: Timestamp,
    /// TARGET, or the directory that TARGET is made in.
    pub(crate) top: Arc<OwnedFd>,
    /// Path of TARGET, for messages.
    pub(crate) target: Vec<u8>,
    /// The file systems that entries are written to.
    pub(crate) stores: Stores,
    /// The rights that this process can give to files there.
    pub(crate) grants: Grants,
    /// Who can copy bytes that this process need not read: servers, the kernel, or nothing.
    pub(crate) within: Within,
    /// Device and inode of TARGET, which must not be copied into itself.
    pub(crate) top_identity: (u64, u64),
    pub(crate) features: Features,
    /// Limits on open descriptors.
    pub(crate) budget: Budget,
    pub(crate) live: Live,
    pub(crate) syncs: Arc<Syncs>,
    /// Files and directories that are being synced individually.
    pub(crate) syncing: Syncing<Pending>,
    pub(crate) cloner: Cloner,
    pub(crate) striping: Striping<'a>,
    /// Whether the entries come from a list.
    pub(crate) is_listed: bool,
    /// Set if the list contains differences, which are repaired.
    pub(crate) repair: Option<Repair>,
    /// How often a directory was searched for the other spelling of a taken name.
    pub(crate) namings: AtomicU64,
    /// The private directory of the copy. Only on the first rank, if one can be made.
    pub(crate) job: Mutex<Option<Job>>,
    /// Number of directories that keep their temporary names.
    pub(crate) left_over: AtomicU64,
}

impl Copying<'_> {
    /// Whether some files are synced individually.
    ///
    /// This is so if the user requested it, or if a sync of the whole file system is not known to reach storage.
    pub(crate) fn syncs_each(&self) -> bool {
        let is_wanted = self.options.fsync == Fsync::File;
        let is_needed = self.stores.have_each() && self.options.fsync == Fsync::Batch;
        !self.stores.are_volatile() && (is_wanted || is_needed)
    }

    pub(crate) fn fail(&self, worker: &mut Worker, at: &Location, error: FileError) {
        if error == FileError::Stopped {
            return;
        }
        let (operation, errno) = error.described();
        let (root, path) = at.root_and_path();
        if error == FileError::Changed {
            worker.results.totals.changed += 1;
        }
        if error.is_for_want_of_room() && self.room.miss() {
            self.options.walk.stop.set();
        }
        let other = if error.is_taken() { self.other_spelling(worker, at) } else { None };
        let spelled = other.as_ref().map(|name| name.as_bytes().into());
        let at = if error.is_of_target() { self.target_path(at) } else { None };
        let (root, path, at) = (root.into(), path.into(), at.map(Into::into));
        self.tell(worker, &Failure { operation, root, path, errno, spelled, at });
    }

    /// The target path of a source entry.
    fn target_path(&self, at: &Location) -> Option<Vec<u8>> {
        match at {
            Location::Root(path) => self.roots.find(path).map(|root| root.parent.path_of(&root.name)),
            Location::In(directory, name) => Mirror::of(directory).map(|mirror| mirror.path_of(name)),
            Location::Itself(_) | Location::Target(_) => None,
        }
    }

    fn tell(&self, worker: &mut Worker, failure: &Failure<'_>) {
        *worker.results.totals.failures.entry(failure.errno).or_default() += 1;
        self.watch.failure(failure);
    }

    /// Opens the target directory that a name goes to.
    pub(crate) fn place<'a>(
        &self,
        worker: &mut Worker,
        mirror: &'a Arc<Mirror>,
        name: &'a CStr,
    ) -> Result<Place<'a>, FileError> {
        let directory = mirror.target.descriptor(&mut worker.scratch.held, self.features);
        let directory = directory.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        if mirror.is_foreign() {
            return Err(FileError::new(Step::OpenDirectory, Errno::STALE));
        }
        mirror.store.get_or_init(|| self.stores.note(&directory));
        Ok(Place { mirror, directory, name, slice: None })
    }

    /// Calls `act` with a source entry, by its name in its directory.
    pub(crate) fn with_source<T>(
        &self,
        worker: &mut Worker,
        at: &Location,
        act: impl FnOnce(&mut Worker, Source<'_>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let failed = |errno| FileError::new(Step::Open, errno);
        match at {
            Location::In(directory, name) => {
                let opened = directory.descriptor(&mut worker.scratch.held, self.features).map_err(failed)?;
                act(worker, Source { directory: opened.as_fd(), name })
            }
            Location::Root(path) => {
                let name = CString::new(path.as_slice()).unwrap_or_default();
                act(worker, Source { directory: CWD, name: &name })
            }
            Location::Itself(_) | Location::Target(_) => Err(failed(Errno::STALE)),
        }
    }

    /// Copies one entry, but not the entries below it.
    fn copy(
        &self,
        worker: &mut Worker,
        at: &Location,
        from: Source<'_>,
        to: &Place<'_>,
        entry: &Entry<'_>,
    ) -> Result<(), FileError> {
        let metadata = &entry.metadata.copied().unwrap_or_default();
        if metadata.kind() != Kind::Directory && self.is_left(worker, from, to, metadata)? {
            return Ok(());
        }
        let made = match metadata.kind() {
            Kind::Directory => {
                self.make_directory(worker, from, to, metadata)?;
                if self.options.digest {
                    let path = entry.path();
                    let root = if entry.depth > 0 { entry.root_bytes } else { path.len() };
                    self.sign(worker, below(&path, root), entry.kind, &Made::default());
                }
                return Ok(());
            }
            _ if metadata.nlink > 1 && self.options.keep.links => {
                let Some(made) = self.linked(worker, at, from, to, metadata)? else { return Ok(()) };
                made
            }
            _ => self.single(worker, from, to, metadata)?,
        };
        if self.options.digest {
            let path = entry.path();
            let root = if entry.depth > 0 { entry.root_bytes } else { path.len() };
            self.sign(worker, below(&path, root), entry.kind, &made);
        }
        self.complete(worker, at, to, metadata.kind(), made);
        Ok(())
    }

    /// Makes a copy that has only one name.
    pub(crate) fn single(
        &self,
        worker: &mut Worker,
        from: Source<'_>,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<Made, FileError> {
        match metadata.kind() {
            Kind::File => self.file(worker, from, to),
            _ => self.named(worker, from, to, metadata, None),
        }
    }

    /// Counts a new entry, and gives it its final name when that is allowed.
    pub(crate) fn complete(
        &self,
        worker: &mut Worker,
        at: &Location,
        to: &Place<'_>,
        kind: Kind,
        mut made: Made,
    ) {
        let checks = check_of(at, to, &made).into_iter().collect();
        if kind == Kind::File && !made.is_link {
            self.live.bytes.fetch_add(made.bytes, Ordering::Relaxed);
            if self.options.digest && made.digest.is_none() {
                self.count_not_hashed(worker);
            }
        }
        if let Some((file, version)) = made.unsynced.take() {
            let (at, mirror, name) = (at.clone(), Arc::clone(to.mirror), to.name.to_owned());
            let Made { temporary, bytes, elapsed, identity, .. } = made;
            // A new directory gets its final name only after its files are durable.
            let part = if temporary.is_some() { to.part() } else { to.part_of_names() };
            let pending =
                PendingFile { at, mirror, name, temporary, bytes, elapsed, checks, identity, version, part };
            return self.sync_file(worker, file, pending);
        }
        self.room.find();
        if kind == Kind::File && !made.is_link {
            self.count_file(worker, at, made.bytes, made.elapsed);
        }
        let written = if made.is_link { 0 } else { made.bytes };
        match made.temporary {
            None => self.add_bytes(worker, to.mirror, written, checks),
            Some(temporary) => {
                let (origin, mirror) = (at.clone(), Arc::clone(to.mirror));
                let names = Some((temporary, to.name.to_owned()));
                let Made { since, identity, .. } = made;
                let ready = Ready { origin, mirror, names, bytes: written, since, identity, part: to.part() };
                self.publish(worker, ready, checks);
            }
        }
    }

    /// Counts a complete file.
    pub(crate) fn count_file(&self, worker: &mut Worker, at: &Location, bytes: u64, elapsed: Duration) {
        worker.results.totals.files += 1;
        worker.results.totals.bytes = worker.results.totals.bytes.saturating_add(bytes);
        worker.results.report.note(bytes, elapsed, || at.root_and_path().1);
        self.live.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a file that was copied without a digest because it has too many holes.
    pub(crate) fn count_not_hashed(&self, worker: &mut Worker) {
        worker.results.totals.not_hashed += 1;
        // Without a digest there is nothing to compare the copy with.
        worker.results.totals.not_verified += u64::from(self.options.verify);
    }

    /// Adds an entry to the signature. `path` is relative to its root.
    pub(crate) fn sign(&self, worker: &mut Worker, path: &[u8], kind: Kind, made: &Made) {
        let size = if kind == Kind::File { made.bytes } else { 0 };
        let (digest, target) = (made.digest.as_ref(), made.target.as_deref());
        worker.results.signature.add(&Element { path, kind, size, digest, target });
    }

    /// Copies an entry, or leaves it to a task. Reports failures.
    pub(crate) fn copy_entry(
        &self,
        worker: &mut Worker,
        here: Option<Here<'_>>,
        entry: &Entry<'_>,
        tasks: &mut Tasks,
    ) {
        if entry.kind == Kind::File && entry.metadata.is_some_and(|metadata| self.is_large(metadata)) {
            return self.plan_later(here, entry.name, entry.size(), tasks);
        }
        if let Err((at, error)) = self.handle(worker, here, entry) {
            self.fail(worker, &at, error);
            if entry.kind == Kind::Directory {
                tasks.prune();
            }
        }
    }

    fn handle(
        &self,
        worker: &mut Worker,
        here: Option<Here<'_>>,
        entry: &Entry<'_>,
    ) -> Result<(), (Location, FileError)> {
        let name = CString::new(entry.name).unwrap_or_default();
        let identity = entry.metadata.map(|metadata| (metadata.device, metadata.inode));
        if entry.kind == Kind::Directory && entry.depth > 0 && identity == Some(self.top_identity) {
            // Reached by a route that was not known beforehand, such as a bind mount.
            let at = here.map_or(Location::Root(entry.name.to_vec()), |here| {
                Location::In(Arc::clone(here.directory), name.clone())
            });
            return Err((at, FileError::new(Step::MakeDirectory, Errno::LOOP)));
        }
        let Some(here) = here else {
            let at = Location::Root(entry.name.to_vec());
            let Some(root) = self.roots.find(entry.name) else { return Ok(()) };
            let from = Source { directory: CWD, name: &name };
            let to = self.place_of(worker, None, &root.parent, &root.name);
            let copied = to.and_then(|to| self.copy(worker, &at, from, &to, entry));
            return copied.map_err(|error| (at, error));
        };
        let at = Location::In(Arc::clone(here.directory), name.clone());
        let Some(mirror) = Mirror::of(here.directory) else { return Ok(()) };
        let from = Source { directory: here.descriptor.as_fd(), name: &name };
        let to = self.place_of(worker, Some(here.directory), &mirror, &name);
        let copied = to.map(|to| to.within(here.slice)).and_then(|to| {
            if entry.kind == Kind::Directory {
                self.refuse_endless(worker, from, &to)?;
            }
            self.copy(worker, &at, from, &to, entry)
        });
        copied.map_err(|error| (at, error))
    }
}

/// The read-back check of a new copy, if read-back is wanted.
fn check_of(at: &Location, to: &Place<'_>, made: &Made) -> Option<Check> {
    let (version, digest) = (made.version?, made.digest?);
    Some(Check {
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

impl Handler for Copying<'_> {
    type Worker = Worker;
    type State = Arc<Mirror>;

    const IS_SLOW: bool = true;
    const STAGE: Stage = Stage::Closed;
    const NEEDS: Needs = Needs::COPY;

    fn worker(&self, index: usize) -> Worker {
        let Options { bandwidth, direct, walk, .. } = self.options;
        let mover = Mover::new(bandwidth.as_ref(), *direct, self.within, &walk.stop);
        let index = number_of_thread(self.seat, index);
        Worker::new(Scratch::new(index, self.budget.held_in_target, mover))
    }

    fn root(&self, directory: &Arc<SourceDirectory>) {
        if let Some(root) = self.roots.find(directory.name().to_bytes()) {
            directory.set_state(Arc::clone(&root.mirror));
        }
    }

    fn entered(&self, worker: &mut Worker, here: Here<'_>) {
        if let Err(error) = self.enter(worker, here) {
            self.fail(worker, &Location::Itself(Arc::clone(here.directory)), error);
        }
    }

    fn not_entered(&self, worker: &mut Worker, parent: Option<Here<'_>>, directory: &Arc<SourceDirectory>) {
        let (Some(parent), Some(mirror)) = (parent, Mirror::of(directory)) else { return };
        // The entry may have been replaced meanwhile.
        if let Ok(metadata) = sys::stat_at(parent.descriptor, directory.name(), false)
            && metadata.kind() == Kind::Directory
        {
            let opened = self.open_made(worker, &mirror);
            if mirror.is_foreign() {
                let at = Location::Itself(Arc::clone(directory));
                return self.fail(worker, &at, FileError::new(Step::OpenDirectory, Errno::STALE));
            }
            let is_old = opened.is_ok() && mirror.target.alias().is_none();
            mirror.will_have(Attributes { metadata, extended: Extended::default(), is_old });
        }
    }

    fn looked(&self, worker: &mut Worker, slice: &CurrentSlice<'_>) {
        if slice.is_first() {
            self.name_directory(worker, slice);
        }
    }

    fn closed(&self, worker: &mut Worker, directory: &Arc<SourceDirectory>) {
        self.close_source(worker, directory);
    }

    fn ended(&self, worker: &mut Worker) -> Vec<Part> {
        std::mem::take(&mut worker.ended)
    }

    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let here = cx.here();
        let Cx { worker, tasks, .. } = cx;
        if here.is_some_and(|here| is_unfinished(here, entry.name, &mut worker.scratch.held, self.features)) {
            worker.results.totals.unfinished += 1;
            return tasks.prune();
        }
        if self.repair.is_some() {
            // The entry is below a directory that was missing.
            let differs = Differs { is_missing: true, ..Differs::default() };
            return self.repair(worker, here, entry, differs, tasks);
        }
        self.copy_entry(worker, here, entry, tasks);
    }

    fn differing(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>, differs: Differs) {
        self.repair(cx.worker, cx.here(), entry, differs, cx.tasks);
    }

    fn task(&self, cx: &mut Cx<'_, Self>, task: &[u8]) {
        if let Some(task) = TaskOf::<Self>::decode_all(task) {
            self.large_task(cx, task);
        }
    }

    fn failure(&self, worker: &mut Worker, failure: &Failure<'_>) {
        self.tell(worker, failure);
    }

    fn between(&self, worker: &mut Worker) {
        self.finish_some(worker);
        self.check_some(worker);
    }

    fn finish(&self, worker: &mut Worker) {
        worker.finish();
    }

    fn counted(&self) -> Counted {
        self.counted_so_far()
    }

    fn throttled(&self) -> Duration {
        self.options.bandwidth.as_deref().map_or(Duration::ZERO, Rate::throttled)
    }

    fn progress(&self) -> u64 {
        // A MiB counts as much as a file.
        self.live.bytes.load(Ordering::Relaxed) >> 20
    }
}
