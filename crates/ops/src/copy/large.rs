//! Large files that several threads copy in parts. The thread that plans a file opens it on both sides and cuts it into chunks. Any
//! thread of any rank may copy some of them. On the rank that planned the file, the thread that finishes the last chunk checks that the
//! source is unchanged, and completes the copy.
//!
//! ```text
//!   entry ─▶ plan: open, create, cut ─▶ chunks, halved until one is left ─▶ the last: unchanged? attributes, name
//!                  ▲                          │ on another rank:    ▲              │
//!                  │                          └─▶ copied, durable ──┘ ended        │
//!                  └─────────────────────── changed, for the first time ───────────┘
//! ```

mod task;

use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::{Code as _, Errno, Metadata};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};

use crate::copy::commit::durable::{PendingFile, SyncRule};
use crate::copy::commit::publish::Ready;
use crate::copy::commit::reread::{Check, Expected};
use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::target::file::{Made, Place, remove};
use crate::copy::target::mirror::Mirror;
use crate::digest::{Element, HOLE_BYTES_MAX, Piece, PieceValue};
use crate::file::chunks::{Chunks, Cut, UnderWay};
use crate::file::direct::bypass_cache;
use crate::file::error::{FileError, Step};
use crate::file::holes::{self, may_have_holes};
use crate::file::mover::Way;
use crate::file::retries::{ask_close, close};
use crate::file::source::{Identity, Source, identity_of, is_same, look, open, settled};
use crate::metadata::give;
use crate::tree::directory::Directory;
use crate::tree::location::{Location, below};
use crate::tree::operation::{Here, Tasks};
use crate::tree::slice::Part;
use atta_sys::{self as sys, retry};
pub(crate) use task::Version;
use task::{Came, Stretch, Task};

/// Files that are being copied in chunks.
pub(crate) type LargeFiles = UnderWay<Large>;

/// A file that is being copied in chunks.
#[derive(Debug)]
pub(crate) struct Large {
    at: Location,
    mirror: Arc<Mirror>,
    name: CString,
    temporary: CString,
    source: OwnedFd,
    file: OwnedFd,
    before: Metadata,
    version: Version,
    identity: Identity,
    /// Whether the file gets a digest.
    is_hashed: bool,
    chunks: Chunks,
    began: std::time::Instant,
    /// How many threads are copying it.
    busy: AtomicUsize,
    /// Number of failed syncs at its start.
    since: u64,
    /// The part of the slice that the file belongs to.
    part: Mutex<Option<Part>>,
    /// Set if this is the second copy: the source changed during the first one, or the first copy may have been lost.
    is_again: bool,
}

impl Large {
    fn lock_part(&self) -> MutexGuard<'_, Option<Part>> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the part, when the file is completed or given up.
    fn take_part(&self) -> Option<Part> {
        self.lock_part().take()
    }
}

/// A copy that exists under a temporary name.
struct Begun {
    identity: Identity,
    /// Whether it shares the bytes of its source.
    is_cloned: bool,
}

impl Copying<'_> {
    /// Whether a file is copied in chunks.
    pub(crate) fn is_large(&self, metadata: &Metadata) -> bool {
        let is_alone = metadata.nlink == 1 || !self.options.keep.links;
        // Only one thread writes into an existing file.
        is_alone && !self.options.in_place && self.cut().is_large(metadata.size)
    }

    fn cut(&self) -> Cut {
        Cut::new(self.options.chunk, &self.options.walk, self.seat.ranks).at_rate(self.live.rate())
    }

    /// Leaves a large file to the next idle thread.
    pub(crate) fn plan_later(&self, here: Option<Here<'_>>, name: &[u8], bytes: u64, tasks: &mut Tasks) {
        let name = CString::new(name).unwrap_or_default();
        self.live.large_found.fetch_add(bytes, Ordering::Relaxed);
        let task = Task::Plan { name, is_again: false, bytes }.encoded();
        match here {
            Some(here) => tasks.push_part(here.directory, here.part(), task),
            None => tasks.push(task),
        }
    }

    /// Runs a task of a large file.
    pub(crate) fn large_task(
        &self,
        worker: &mut CopyWorker,
        here: Result<Option<Here<'_>>, Errno>,
        task: &[u8],
        tasks: &mut Tasks,
    ) {
        match Task::decode_all(task) {
            Some(Task::Plan { name, is_again, bytes }) => {
                self.plan_or_tell(worker, here, &name, is_again, tasks);
                // From here on its chunks count the remaining bytes.
                self.live.large_done.fetch_add(bytes, Ordering::Relaxed);
            }
            Some(Task::Stretch(stretch)) => self.stretch(worker, here, stretch, tasks),
            Some(Task::Ended { file, chunk, came }) => self.ended(worker, file, chunk, came, tasks),
            None => {}
        }
    }

    fn plan_or_tell(
        &self,
        worker: &mut CopyWorker,
        here: Result<Option<Here<'_>>, Errno>,
        name: &CString,
        is_again: bool,
        tasks: &mut Tasks,
    ) {
        let (at, here) = match here {
            Ok(None) => (Location::Root(name.as_bytes().to_vec()), None),
            Ok(Some(here)) => (Location::In(Arc::clone(here.directory), name.clone()), Some(here)),
            // The directory cannot be reached, so the failure is reported by name only.
            Err(errno) => {
                let at = Location::Root(name.as_bytes().to_vec());
                return self.fail(worker, &at, FileError::new(Step::Open, errno));
            }
        };
        if let Err(error) = self.plan(worker, &at, here, name, is_again, tasks) {
            self.fail(worker, &at, error);
        }
    }

    /// Opens a file on both sides and cuts it into chunks.
    fn plan(
        &self,
        worker: &mut CopyWorker,
        at: &Location,
        here: Option<Here<'_>>,
        name: &CString,
        is_again: bool,
        tasks: &mut Tasks,
    ) -> Result<(), FileError> {
        let (from, mirror, own) = self.both_sides(here, name)?;
        let source = open(from)?;
        let before = settled(&source)?;
        if before.kind() != atta_entry::Kind::File {
            return Err(FileError::Changed);
        }
        let directory = here.map(|here| here.directory);
        let to = self.place_of(worker, directory, &mirror, &own)?;
        let to = to.within(here.and_then(|here| here.slice));
        if self.is_left(worker, from, &to, &before)? {
            return Ok(());
        }
        // If the stated size is not reliable, the end of a chunk is unknown.
        let is_stated = worker.mover.sizes.is_stated(&source, &before);
        let is_hashed = is_stated && self.is_hashed(&source, &before)?;
        let chunk = if is_stated { self.chunk_of(&source, &before, is_hashed)? } else { before.size };
        if before.size <= chunk || !self.large.has_room() {
            return self.copy_whole(worker, at, from, &to);
        }
        let layout = self.layout_of(&source, &before);
        let since = self.batch.failures();
        let (file, temporary) = self.create_temporary(worker, &to, layout.as_deref())?;
        let begun = self.begin(worker, &source, &file, &before);
        let Begun { identity, is_cloned } =
            begun.inspect_err(|_| remove(&to, &Made::temporary(temporary.clone())))?;
        // A cloned file is one chunk that needs no further work.
        let chunks = Chunks::new(before.size, if is_cloned { before.size } else { chunk });
        let version = Version::new(&before, identity.1);
        let mut all = Stretch {
            rank: self.seat.rank,
            file: 0,
            first: 0,
            count: chunks.count(),
            bytes: chunk,
            is_hashed,
            version,
            name: name.clone(),
            temporary: temporary.clone(),
        };
        let (at, mirror) = (at.clone(), Arc::clone(&mirror));
        let (name, began) = (own.clone(), std::time::Instant::now());
        let large = Large {
            at,
            mirror,
            name,
            temporary,
            source,
            file,
            before,
            version,
            identity,
            is_hashed,
            chunks,
            began,
            busy: AtomicUsize::new(0),
            since,
            part: Mutex::new(to.part()),
            is_again,
        };
        self.live.large_found.fetch_add(before.size, Ordering::Relaxed);
        all.file = self.large.insert(large);
        if is_cloned {
            self.live.bytes.fetch_add(before.size, Ordering::Relaxed);
            self.ended(worker, all.file, 0, Ok(None), tasks);
        } else {
            push(directory, &Task::Stretch(all), tasks);
        }
        Ok(())
    }

    /// Chunk size of an open file, in bytes. Holes that are not hashed do not count as work.
    fn chunk_of(&self, source: &OwnedFd, before: &Metadata, is_hashed: bool) -> Result<u64, FileError> {
        let (cut, stop) = (self.cut(), &self.options.walk.stop);
        Ok(match is_hashed || !holes::exceed(source, before, HOLE_BYTES_MAX, stop)? {
            true => cut.chunk_of(before.size),
            false => cut.chunk_of_sparse(before.size, before.allocated_bytes()),
        })
    }

    /// Copies a file as a whole: one that is no longer large, is too small for its transfer rate, or exceeds the number of large files.
    fn copy_whole(
        &self,
        worker: &mut CopyWorker,
        at: &Location,
        from: Source<'_>,
        to: &Place<'_>,
    ) -> Result<(), FileError> {
        let made = self.file(worker, from, to)?;
        if self.options.digest {
            let (root, path) = at.root_and_path();
            let path = below(&path, root.len());
            self.sign(worker, path, atta_entry::Kind::File, &made);
        }
        self.complete(worker, at, to, atta_entry::Kind::File, made);
        Ok(())
    }

    /// Prepares a new file for its chunks, or clones it as a whole where it can share the bytes of its source.
    fn begin(
        &self,
        worker: &mut CopyWorker,
        source: &OwnedFd,
        file: &OwnedFd,
        before: &Metadata,
    ) -> Result<Begun, FileError> {
        let is_cloned = self.clone_bytes(worker, source, file, before)?;
        let has_holes = may_have_holes(before);
        if !is_cloned && self.options.direct && !bypass_cache(source, file, before.size, has_holes) {
            worker.totals.not_direct += 1;
        }
        // A default ACL of the directory may deny write access to the owner, and other ranks open the file by its name.
        let _ = retry(|| rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR));
        if has_holes {
            let cut = retry(|| rustix::fs::ftruncate(file, before.size));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        let found = sys::stat_descriptor(file).map_err(|errno| FileError::new(Step::Create, errno))?;
        Ok(Begun { identity: identity_of(&found), is_cloned })
    }

    /// A file's source, the mirror that its copy goes to, and its name there.
    fn both_sides<'h>(
        &self,
        here: Option<Here<'h>>,
        name: &'h CString,
    ) -> Result<(Source<'h>, Arc<Mirror>, CString), FileError> {
        let unknown = FileError::new(Step::Create, Errno::STALE);
        match here {
            Some(here) => {
                let mirror = Mirror::of(here.directory).ok_or(unknown)?;
                Ok((Source { directory: here.descriptor.as_fd(), name }, mirror, name.clone()))
            }
            None => {
                let root = self.roots.find(name.as_bytes()).ok_or(unknown)?;
                Ok((Source { directory: CWD, name }, Arc::clone(&root.parent), root.name.clone()))
            }
        }
    }

    /// Copies one chunk, and leaves the other chunks to other threads.
    fn stretch(
        &self,
        worker: &mut CopyWorker,
        here: Result<Option<Here<'_>>, Errno>,
        mut stretch: Stretch,
        tasks: &mut Tasks,
    ) {
        let directory = here.ok().flatten().map(|here| here.directory);
        while let Some(rest) = stretch.split() {
            // The newest task runs first: the chunk after the current one.
            push(directory, &Task::Stretch(rest), tasks);
        }
        let (file, chunk) = (stretch.file, stretch.first);
        if stretch.rank != self.seat.rank {
            let came = here
                .map_err(|errno| FileError::new(Step::Open, errno))
                .and_then(|here| self.chunk_for_another(worker, here, &stretch));
            return tasks.push_to(stretch.rank, Task::Ended { file, chunk, came }.encoded());
        }
        let Some(large) = self.large.find(file) else { return };
        let came = match large.chunks.error() {
            Some(error) => Err(error),
            None => {
                worker.mover.is_shared = large.busy.fetch_add(1, Ordering::Relaxed) > 0;
                let came = self.move_chunk(worker, large.source.as_fd(), large.file.as_fd(), &stretch);
                large.busy.fetch_sub(1, Ordering::Relaxed);
                worker.mover.is_shared = false;
                came
            }
        };
        self.ended(worker, file, chunk, came, tasks);
    }

    /// Copies a chunk of a file that another rank planned.
    ///
    /// The chunk is durable before that rank is notified, because that rank's sync would not cover it.
    fn chunk_for_another(&self, worker: &mut CopyWorker, here: Option<Here<'_>>, stretch: &Stretch) -> Came {
        let (from, mirror, own) = self.both_sides(here, &stretch.name)?;
        let source = open(from)?;
        if !stretch.version.is_of(&look(&source)?) {
            return Err(FileError::Changed);
        }
        let to = self.place(worker, &mirror, &own)?;
        let failed = |errno| FileError::new(Step::Write, errno);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = retry(|| rustix::fs::openat(&to.directory, &stretch.temporary, flags, Mode::empty()));
        let file = file.map_err(failed)?;
        if sys::stat_descriptor(&file).map_err(failed)?.inode != stretch.version.inode {
            return Err(failed(Errno::STALE));
        }
        // If the cache cannot be bypassed, the planning rank has counted that already.
        if self.options.direct {
            let _ = bypass_cache(&source, &file, stretch.version.size, stretch.version.has_holes);
        }
        let value = self.move_chunk(worker, source.as_fd(), file.as_fd(), stretch)?;
        if self.sync_rule(to.mirror) != SyncRule::Never {
            let synced = self.syncs.timed(|| retry(|| rustix::fs::fdatasync(&file)));
            synced.map_err(|errno| FileError::new(Step::Sync, errno))?;
        }
        close(file)?;
        Ok(value)
    }

    fn move_chunk(
        &self,
        worker: &mut CopyWorker,
        source: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        stretch: &Stretch,
    ) -> Came {
        let range = stretch.range();
        let (start, end) = (range.start, range.end);
        let mut piece = stretch.is_hashed.then(|| Piece::at(start));
        let Version { has_holes, size, .. } = stretch.version;
        let way = Way { has_holes, size, hasher: piece.as_mut() };
        let came = worker.mover.copy(source, file, range, way)?;
        self.live.bytes.fetch_add(came - start, Ordering::Relaxed);
        if came < end {
            return Err(FileError::Changed);
        }
        Ok(piece.and_then(|piece| piece.value()))
    }

    /// Records the end of a chunk of a file of this rank. The last chunk completes the copy.
    fn ended(&self, worker: &mut CopyWorker, file: u64, chunk: u64, came: Came, tasks: &mut Tasks) {
        let Some(large) = self.large.find(file) else { return };
        self.live.large_done.fetch_add(large.chunks.bytes_of(chunk), Ordering::Relaxed);
        if !large.chunks.end(chunk, came) {
            return;
        }
        self.large.remove(file);
        match self.complete_large(worker, &large) {
            Ok(()) => {}
            Err(error) if error.is_worth_another_copy() && !large.is_again => {
                let (directory, name) = match &large.at {
                    Location::Root(path) => (None, CString::new(path.as_slice()).unwrap_or_default()),
                    Location::In(directory, name) => (Some(directory), name.clone()),
                    Location::Itself(_) => return,
                };
                let bytes = large.before.size;
                self.live.large_found.fetch_add(bytes, Ordering::Relaxed);
                let task = Task::Plan { name, is_again: true, bytes }.encoded();
                match directory {
                    Some(directory) => tasks.push_part(directory, large.take_part(), task),
                    None => tasks.push(task),
                }
            }
            Err(error) => self.fail(worker, &large.at, error),
        }
        worker.ended.extend(large.take_part());
    }

    /// Checks that the source is unchanged once all chunks are done, and publishes the copy.
    fn complete_large(&self, worker: &mut CopyWorker, large: &Large) -> Result<(), FileError> {
        let to = self.place(worker, &large.mirror, &large.name)?;
        let complete = self.check_and_give(worker, large);
        if let Err(error) = complete {
            remove(&to, &Made::temporary(large.temporary.clone()));
            return Err(error);
        }
        if self.options.digest && !large.is_hashed {
            self.count_not_hashed(worker);
        }
        if large.is_hashed {
            let (root, path) = large.at.root_and_path();
            let digest = large.chunks.digest().ok_or(FileError::Changed)?;
            let element = Element {
                path: below(&path, root.len()),
                kind: atta_entry::Kind::File,
                size: large.before.size,
                digest: Some(&digest),
                target: None,
            };
            worker.signature.add(&element);
        }
        let (bytes, elapsed) = (large.before.size, large.began.elapsed());
        if self.syncs_each_in(&large.mirror) {
            let file =
                retry(|| rustix::io::dup(&large.file)).map_err(|errno| FileError::new(Step::Sync, errno));
            let file = file.inspect_err(|_| remove(&to, &Made::temporary(large.temporary.clone())))?;
            let (at, mirror, name) = (large.at.clone(), Arc::clone(&large.mirror), large.name.clone());
            let temporary = Some(large.temporary.clone());
            let (identity, version) = (Some(large.identity), large.version);
            let (checks, part) = (self.checks_of(large), large.take_part());
            let pending =
                PendingFile { at, mirror, name, temporary, bytes, elapsed, checks, identity, version, part };
            self.sync_file(worker, file, pending);
            return Ok(());
        }
        self.room.find();
        self.count_file(worker, &large.at, bytes, elapsed);
        let names = Some((large.temporary.clone(), large.name.clone()));
        let (origin, mirror) = (large.at.clone(), Arc::clone(&large.mirror));
        let checks = self.checks_of(large);
        let (since, identity, part) = (large.since, Some(large.identity), large.take_part());
        let ready = Ready { origin, mirror, names, bytes, since, identity, part };
        self.publish(worker, ready, checks);
        Ok(())
    }

    /// The read-back checks, one per chunk, so that several threads can do them.
    fn checks_of(&self, large: &Large) -> Vec<Check> {
        if !self.options.verify {
            return Vec::new();
        }
        let values = large.chunks.values().into_iter().enumerate();
        let atime = sys::stat_descriptor(&large.file).ok().map(|copy| copy.atime);
        let check = |(index, value): (usize, Option<PieceValue>)| {
            Some(Check {
                at: large.at.clone(),
                mirror: Arc::clone(&large.mirror),
                name: large.name.clone(),
                version: large.version,
                range: large.chunks.range(index as u64),
                expected: Expected::Piece(value?),
                has_names: false,
                atime,
                part: large.lock_part().as_ref().map(Part::again),
            })
        };
        values.filter_map(check).collect()
    }

    fn check_and_give(&self, worker: &mut CopyWorker, large: &Large) -> Result<(), FileError> {
        if let Some(error) = large.chunks.error() {
            return Err(error);
        }
        let extended = self.extended(worker, &large.source)?;
        if !is_same(&large.before, &look(&large.source)?) {
            return Err(FileError::Changed);
        }
        let not_kept = &mut worker.totals.not_kept;
        give::give(&large.file, &large.before, &extended, self.manner(), not_kept)?;
        // A file that is synced individually is closed after the sync.
        if self.syncs_each_in(&large.mirror) { Ok(()) } else { ask_close(&large.file) }
    }
}

impl Copying<'_> {
    /// Removes the copies that will not be completed.
    pub(crate) fn forget_large(&self, worker: &mut CopyWorker) {
        for large in self.large.take_all() {
            if let Ok(to) = self.place(worker, &large.mirror, &large.name) {
                remove(&to, &Made::temporary(large.temporary.clone()));
            }
        }
    }
}

fn push(directory: Option<&Arc<Directory>>, task: &Task, tasks: &mut Tasks) {
    match directory {
        Some(directory) => tasks.push_in(directory, task.encoded()),
        None => tasks.push(task.encoded()),
    }
}
