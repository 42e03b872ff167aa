//! Files so large that several threads copy parts of them. Whoever plans one opens it on both sides and cuts it into chunks; any
//! thread of any rank may take some; on the rank that planned it, the last one done looks whether the source is what it was, and
//! completes the copy.
//!
//! ```text
//!   entry ─▶ plan: open, create, cut ─▶ chunks, halved until one is left ─▶ the last: unchanged? attributes, name
//!                  ▲                          │ on another rank:    ▲              │
//!                  │                          └─▶ copied, durable ──┘ ended        │
//!                  └─────────────────────── changed, for the first time ───────────┘
//! ```

mod task;

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::{Errno, Metadata};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};

use super::Fsync;
use super::attributes;
use super::data::Way;
use super::file::{Made, Place, Source, is_same, look, open, remove, settled};
use super::handler::{CopyWorker, Copying, Where, below};
use super::mirror::Mirror;
use super::publish::Ready;
use super::trouble::{Doing, Trouble};
use crate::digest::{Element, Hash, Piece, PieceValue, merge};
use crate::walk::directory::Directory;
use crate::walk::kernel::{self, retry};
use crate::walk::visit::{Here, Tasks};
use task::{Came, Chunks, Task, Version};

/// The smallest chunk: some milliseconds of work.
const CHUNK_LEAST: u64 = 8 << 20;
const CHUNK_MOST: u64 = 1 << 30;
// There are never more than 2^20 chunks.
/// So many chunks of a file for each thread, about, so that all end at the same time.
const CHUNKS_PER_THREAD: u64 = 4;

/// Files that are being copied in chunks.
#[derive(Debug, Default)]
pub(crate) struct LargeFiles {
    known: Mutex<HashMap<u64, Arc<Large>>>,
    next: AtomicU64,
}

/// One of them.
#[derive(Debug)]
struct Large {
    at: Where,
    mirror: Arc<Mirror>,
    name: CString,
    temporary: CString,
    source: OwnedFd,
    file: OwnedFd,
    before: Metadata,
    /// Chunks that are not done.
    left: AtomicU64,
    trouble: Mutex<Option<Trouble>>,
    /// What its chunks come to, as far as they are done.
    values: Mutex<Vec<Option<PieceValue>>>,
    /// Whether it changed when it was copied the first time.
    is_again: bool,
}

impl Copying<'_> {
    /// Whether a file is copied in chunks.
    pub(crate) fn is_large(&self, metadata: &Metadata) -> bool {
        metadata.nlink == 1 && metadata.size >= 2 * self.chunk_least()
    }

    fn chunk_least(&self) -> u64 {
        self.options.chunk.unwrap_or(CHUNK_LEAST)
    }

    /// Bytes in a chunk of a file: a power of two.
    fn chunk_of(&self, bytes: u64) -> u64 {
        let threads =
            self.options.walk.threads.max(self.options.walk.cores) as u64 * u64::from(self.seat.ranks);
        let auto = (bytes / (CHUNKS_PER_THREAD * threads.max(1))).next_power_of_two();
        let chunk = self.options.chunk.unwrap_or(auto.clamp(CHUNK_LEAST, CHUNK_MOST));
        // A file may have any size, and hardly any bytes.
        chunk.max((bytes >> 20).next_power_of_two())
    }

    /// Leaves a large file to whoever has nothing else to do.
    pub(crate) fn plan_later(&self, here: Option<Here<'_>>, name: &[u8], tasks: &mut Tasks) {
        let name = CString::new(name).unwrap_or_default();
        push(here.map(|here| here.directory), &Task::Plan { name, is_again: false }, tasks);
    }

    /// Does a task of a large file.
    pub(crate) fn large_task(
        &self,
        worker: &mut CopyWorker,
        here: Result<Option<Here<'_>>, Errno>,
        task: &[u8],
        tasks: &mut Tasks,
    ) {
        match Task::decode(task) {
            Some(Task::Plan { name, is_again }) => {
                let (at, here) = match here {
                    Ok(None) => (Where::Root(name.as_bytes().to_vec()), None),
                    Ok(Some(here)) => (Where::In(Arc::clone(here.directory), name.clone()), Some(here)),
                    // It is told by its name alone: its directory is out of reach.
                    Err(errno) => {
                        let at = Where::Root(name.as_bytes().to_vec());
                        return self.fail(worker, &at, Trouble::new(Doing::Open, errno));
                    }
                };
                if let Err(trouble) = self.plan(worker, &at, here, &name, is_again, tasks) {
                    self.fail(worker, &at, trouble);
                }
            }
            Some(Task::Chunks(chunks)) => self.chunks(worker, here, chunks, tasks),
            Some(Task::Ended { file, chunk, came }) => self.ended(worker, file, chunk, came, tasks),
            None => {}
        }
    }

    /// Opens a file on both sides and cuts it.
    fn plan(
        &self,
        worker: &mut CopyWorker,
        at: &Where,
        here: Option<Here<'_>>,
        name: &CString,
        is_again: bool,
        tasks: &mut Tasks,
    ) -> Result<(), Trouble> {
        let (from, mirror, own) = self.both_sides(here, name)?;
        let source = open(from)?;
        let before = settled(&source)?;
        if before.kind() != atta_entry::Kind::File {
            return Err(Trouble::Changed);
        }
        let to = self.place(worker, &mirror, &own)?;
        let chunk = self.chunk_of(before.size);
        if before.size <= chunk {
            // It is not large any more.
            let made = self.file(worker, from, &to)?;
            if self.options.digest {
                let (root, path) = at.told();
                let path = below(&path, root.len());
                self.sign(worker, path, atta_entry::Kind::File, before.size, &made);
            }
            self.complete(worker, at, &to, atta_entry::Kind::File, made);
            return Ok(());
        }
        let (file, temporary) = self.create_temporary(worker, &to)?;
        let made = Made::temporary(temporary.clone());
        if before.allocated_bytes() < before.size
            && let Err(errno) = retry(|| rustix::fs::ftruncate(&file, before.size))
        {
            remove(&to, &made);
            return Err(Trouble::new(Doing::Write, errno));
        }
        let copy = kernel::stat_descriptor(&file).map_err(|errno| Trouble::new(Doing::Create, errno));
        let copy = copy.inspect_err(|_| remove(&to, &made))?;
        let chunks = before.size.div_ceil(chunk).max(1);
        let number = self.large.next.fetch_add(1, Ordering::Relaxed);
        let all = Chunks {
            rank: self.seat.rank,
            file: number,
            first: 0,
            count: chunks,
            bytes: chunk,
            version: Version::new(&before, copy.inode),
            name: name.clone(),
            temporary: temporary.clone(),
        };
        let large = Large {
            at: at.clone(),
            mirror: Arc::clone(&mirror),
            name: own.clone(),
            temporary,
            source,
            file,
            before,
            left: AtomicU64::new(chunks),
            trouble: Mutex::default(),
            values: Mutex::new(vec![None; usize::try_from(chunks).unwrap_or(usize::MAX)]),
            is_again,
        };
        self.large.lock().insert(number, Arc::new(large));
        push(here.map(|here| here.directory), &Task::Chunks(all), tasks);
        Ok(())
    }

    /// A file's source, where its copy goes, and the name that it gets there.
    fn both_sides<'h>(
        &self,
        here: Option<Here<'h>>,
        name: &'h CString,
    ) -> Result<(Source<'h>, Arc<Mirror>, CString), Trouble> {
        let unknown = Trouble::new(Doing::Create, Errno::STALE);
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

    /// Copies one chunk, and leaves the others to whoever is next.
    fn chunks(
        &self,
        worker: &mut CopyWorker,
        here: Result<Option<Here<'_>>, Errno>,
        mut chunks: Chunks,
        tasks: &mut Tasks,
    ) {
        let directory = here.ok().flatten().map(|here| here.directory);
        while let Some(rest) = chunks.split() {
            // The newest is done first: the one that follows the chunk at hand.
            push(directory, &Task::Chunks(rest), tasks);
        }
        let (file, chunk) = (chunks.file, chunks.first);
        if chunks.rank != self.seat.rank {
            let came = here
                .map_err(|errno| Trouble::new(Doing::Open, errno))
                .and_then(|here| self.chunk_for_another(worker, here, &chunks));
            return tasks.push_to(chunks.rank, Task::Ended { file, chunk, came }.encode());
        }
        let Some(large) = self.large.lock().get(&file).cloned() else { return };
        let came = match large.trouble() {
            Some(trouble) => Err(trouble),
            None => self.move_chunk(worker, large.source.as_fd(), large.file.as_fd(), &chunks),
        };
        self.ended(worker, file, chunk, came, tasks);
    }

    /// Copies a chunk of a file that another rank has planned. It is durable when that rank hears of it, whose own sync would
    /// not reach it.
    fn chunk_for_another(&self, worker: &mut CopyWorker, here: Option<Here<'_>>, chunks: &Chunks) -> Came {
        let (from, mirror, own) = self.both_sides(here, &chunks.name)?;
        let source = open(from)?;
        if !chunks.version.is_of(&look(&source)?) {
            return Err(Trouble::Changed);
        }
        let to = self.place(worker, &mirror, &own)?;
        let failed = |errno| Trouble::new(Doing::Write, errno);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = retry(|| rustix::fs::openat(&to.directory, &chunks.temporary, flags, Mode::empty()));
        let file = file.map_err(failed)?;
        if kernel::stat_descriptor(&file).map_err(failed)?.inode != chunks.version.inode {
            return Err(failed(Errno::STALE));
        }
        let value = self.move_chunk(worker, source.as_fd(), file.as_fd(), chunks)?;
        if self.options.fsync != Fsync::None && !self.is_volatile {
            retry(|| rustix::fs::fdatasync(&file)).map_err(|errno| Trouble::new(Doing::Sync, errno))?;
        }
        Ok(value)
    }

    fn move_chunk(
        &self,
        worker: &mut CopyWorker,
        source: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        chunks: &Chunks,
    ) -> Came {
        let range = chunks.range();
        let (start, end) = (range.start, range.end);
        let mut piece = self.options.digest.then(|| Piece::at(start));
        let way = Way { has_holes: chunks.version.has_holes, hasher: piece.as_mut().map(Piece::hasher) };
        let came = worker.mover.copy(source, file, range, way)?;
        self.live.bytes.fetch_add(came - start, Ordering::Relaxed);
        if came < end {
            return Err(Trouble::Changed);
        }
        Ok(piece.and_then(|piece| piece.value()))
    }

    /// A chunk of a file of this rank has ended; the last one completes the copy.
    fn ended(&self, worker: &mut CopyWorker, file: u64, chunk: u64, came: Came, tasks: &mut Tasks) {
        let Some(large) = self.large.lock().get(&file).cloned() else { return };
        match came {
            Ok(value) => large.set_value(chunk, value),
            Err(trouble) => large.set_trouble(trouble),
        }
        if large.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        self.large.lock().remove(&file);
        match self.complete_large(worker, &large) {
            Ok(()) => {}
            Err(Trouble::Changed) if !large.is_again => {
                let (directory, name) = match &large.at {
                    Where::Root(path) => (None, CString::new(path.as_slice()).unwrap_or_default()),
                    Where::In(directory, name) => (Some(directory), name.clone()),
                    Where::Itself(_) => return,
                };
                push(directory, &Task::Plan { name, is_again: true }, tasks);
            }
            Err(trouble) => self.fail(worker, &large.at, trouble),
        }
    }

    /// All chunks are done: looks whether it is a copy, and publishes it.
    fn complete_large(&self, worker: &mut CopyWorker, large: &Large) -> Result<(), Trouble> {
        let to = self.place(worker, &large.mirror, &large.name)?;
        let complete = self.check_and_give(worker, large, &to);
        if let Err(trouble) = complete {
            remove(&to, &Made::temporary(large.temporary.clone()));
            return Err(trouble);
        }
        worker.totals.files += 1;
        worker.totals.bytes += large.before.size;
        self.live.files.fetch_add(1, Ordering::Relaxed);
        if self.options.digest {
            let (root, path) = large.at.told();
            let digest = large.digest().ok_or(Trouble::Changed)?;
            let element = Element {
                path: below(&path, root.len()),
                kind: atta_entry::Kind::File,
                size: large.before.size,
                digest: Some(&digest),
                target: None,
            };
            worker.signature.add(&element);
        }
        let names = Some((large.temporary.clone(), large.name.clone()));
        let (origin, mirror) = (large.at.clone(), Arc::clone(&large.mirror));
        self.publish(worker, Ready { origin, mirror, names, bytes: large.before.size });
        Ok(())
    }

    fn check_and_give(&self, worker: &mut CopyWorker, large: &Large, to: &Place<'_>) -> Result<(), Trouble> {
        if let Some(trouble) = large.trouble() {
            return Err(trouble);
        }
        let extended = self.extended(worker, &large.source)?;
        if !is_same(&large.before, &look(&large.source)?) {
            return Err(Trouble::Changed);
        }
        let not_kept = &mut worker.totals.not_kept;
        attributes::give(&large.file, &large.before, &extended, self.inherits(to), not_kept)?;
        if self.syncs_each() {
            retry(|| rustix::fs::fsync(&large.file)).map_err(|errno| Trouble::new(Doing::Sync, errno))?;
        }
        Ok(())
    }
}

impl Copying<'_> {
    /// Takes back what will not be completed.
    pub(crate) fn forget_large(&self, worker: &mut CopyWorker) {
        let unfinished = std::mem::take(&mut *self.large.lock());
        for large in unfinished.into_values() {
            if let Ok(to) = self.place(worker, &large.mirror, &large.name) {
                remove(&to, &Made::temporary(large.temporary.clone()));
            }
        }
    }
}

impl LargeFiles {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Large>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Large {
    fn trouble(&self) -> Option<Trouble> {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_value(&self, index: u64, value: Option<PieceValue>) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = usize::try_from(index).ok().and_then(|index| values.get_mut(index)) {
            *place = value;
        }
    }

    /// Of all its bytes; none: some chunk has none.
    fn digest(&self) -> Option<Hash> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let values: Option<Vec<PieceValue>> = values.iter().copied().collect();
        values.filter(|values| values.len() > 1).map(|values| merge(&values))
    }

    /// The first one counts.
    fn set_trouble(&self, trouble: Trouble) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trouble);
    }
}

fn push(directory: Option<&Arc<Directory>>, task: &Task, tasks: &mut Tasks) {
    match directory {
        Some(directory) => tasks.push_in(directory, task.encode()),
        None => tasks.push(task.encode()),
    }
}
