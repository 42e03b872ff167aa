//! Files so large that several threads copy parts of them. Whoever plans one opens it on both sides and cuts it into chunks; any
//! thread may take one; the last one done looks whether the source is what it was, and completes the copy.
//!
//! ```text
//!   entry ─▶ plan: open, create, cut ─▶ chunk, chunk, chunk ... ─▶ the last one: unchanged? attributes, name
//!                  ▲                                                    │ changed, for the first time
//!                  └────────────────────────────────────────────────────┘
//! ```

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::{Errno, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;

use super::attributes;
use super::data::Way;
use super::file::{Made, Place, Source, is_same, look, open, remove, settled};
use super::handler::{CopyWorker, Copying, Where, below};
use super::mirror::Mirror;
use super::publish::Ready;
use super::trouble::{Doing, Trouble};
use crate::digest::{Element, Hash, Piece, PieceValue, merge};
use crate::walk::kernel::retry;
use crate::walk::visit::{Here, Tasks};

/// The smallest chunk: some milliseconds of work.
const CHUNK_LEAST: u64 = 8 << 20;
const CHUNK_MOST: u64 = 1 << 30;
// There are never more than 2^20 chunks.
/// So many chunks of a file for each thread, about, so that all end at the same time.
const CHUNKS_PER_THREAD: u64 = 4;
/// What a task is, in its first byte.
const PLAN: u8 = b'P';
const CHUNK: u8 = b'C';

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
    chunk: u64,
    began: std::time::Instant,
    /// Chunks that are not done.
    left: AtomicU64,
    trouble: Mutex<Option<Trouble>>,
    /// What its chunks come to, as far as they are done.
    values: Mutex<Vec<Option<PieceValue>>>,
    /// Whether it changed when it was copied the first time.
    is_again: bool,
    /// It shares the bytes of its source.
    is_cloned: bool,
}

/// A task, as bytes.
struct Task;

impl Task {
    /// A file of a directory, or a root, by its whole path.
    fn plan(name: &[u8], is_again: bool) -> Vec<u8> {
        [&[PLAN, u8::from(is_again)], name].concat()
    }

    fn chunk(file: u64, index: u64) -> Vec<u8> {
        [&[CHUNK][..], &file.to_le_bytes(), &index.to_le_bytes()].concat()
    }
}

impl Copying<'_> {
    /// Whether a file is copied in chunks.
    pub(crate) fn is_large(&self, metadata: &Metadata) -> bool {
        let is_alone = metadata.nlink == 1 || !self.options.keep.links;
        // What is written into the place of another one, one thread writes.
        is_alone && !self.options.in_place && metadata.size >= 2 * self.chunk_least()
    }

    fn chunk_least(&self) -> u64 {
        self.options.chunk.unwrap_or(CHUNK_LEAST)
    }

    /// Bytes in a chunk of a file: a power of two.
    fn chunk_of(&self, bytes: u64) -> u64 {
        let threads = self.options.walk.threads.max(self.options.walk.cores) as u64;
        let auto = (bytes / (CHUNKS_PER_THREAD * threads.max(1))).next_power_of_two();
        let chunk = self.options.chunk.unwrap_or(auto.clamp(CHUNK_LEAST, CHUNK_MOST));
        // A file may have any size, and hardly any bytes.
        chunk.max((bytes >> 20).next_power_of_two())
    }

    /// Leaves a large file to whoever has nothing else to do.
    pub(crate) fn plan_later(&self, here: Option<Here<'_>>, name: &[u8], tasks: &mut Tasks) {
        push(here, Task::plan(name, false), tasks);
    }

    /// Does a task of a large file.
    pub(crate) fn large_task(
        &self,
        worker: &mut CopyWorker,
        here: Result<Option<Here<'_>>, Errno>,
        task: &[u8],
        tasks: &mut Tasks,
    ) {
        match task.split_first() {
            Some((&PLAN, rest)) => {
                let Some((is_again, name)) = rest.split_first() else { return };
                let (name, is_again) = (CString::new(name).unwrap_or_default(), *is_again != 0);
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
            Some((&CHUNK, rest)) => {
                let (numbers, _) = rest.as_chunks::<8>();
                let &[file, index] = numbers else { return };
                self.chunk(worker, u64::from_le_bytes(file), u64::from_le_bytes(index), here, tasks);
            }
            _ => {}
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
        let (from, mirror, own) = match here {
            Some(here) => {
                let mirror = Mirror::of(here.directory).ok_or(Trouble::new(Doing::Create, Errno::STALE))?;
                (Source { directory: here.descriptor.as_fd(), name }, mirror, name.clone())
            }
            None => {
                let root = self.roots.find(name.as_bytes());
                let root = root.ok_or(Trouble::new(Doing::Create, Errno::STALE))?;
                (Source { directory: CWD, name }, Arc::clone(&root.parent), root.name.clone())
            }
        };
        let source = open(from)?;
        let before = settled(&source)?;
        if before.kind() != atta_entry::Kind::File {
            return Err(Trouble::Changed);
        }
        let to = self.place(worker, &mirror, &own)?;
        if self.is_left(worker, from, &to, &before)? {
            return Ok(());
        }
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
        let layout = self.layout_of(&source, &before);
        let (file, temporary) = self.create_temporary(worker, &to, layout.as_deref())?;
        let made = Made::temporary(temporary.clone());
        let is_cloned =
            self.clone_bytes(worker, &source, &file, &before).inspect_err(|_| remove(&to, &made))?;
        if !is_cloned {
            self.go_direct(worker, &source, &file, &before);
        }
        if before.allocated_bytes() < before.size
            && let Err(errno) = retry(|| rustix::fs::ftruncate(&file, before.size))
        {
            remove(&to, &made);
            return Err(Trouble::new(Doing::Write, errno));
        }
        // What is there already is one chunk, of which nothing is left to do.
        let chunks = if is_cloned { 1 } else { before.size.div_ceil(chunk).max(1) };
        let large = Large {
            at: at.clone(),
            mirror: Arc::clone(&mirror),
            name: own.clone(),
            temporary,
            source,
            file,
            before,
            chunk,
            began: std::time::Instant::now(),
            left: AtomicU64::new(chunks),
            trouble: Mutex::default(),
            values: Mutex::new(vec![None; usize::try_from(chunks).unwrap_or(usize::MAX)]),
            is_again,
            is_cloned,
        };
        let number = self.large.next.fetch_add(1, Ordering::Relaxed);
        self.large.lock().insert(number, Arc::new(large));
        // The newest is done first.
        (0..chunks).rev().for_each(|index| push(here, Task::chunk(number, index), tasks));
        Ok(())
    }

    fn chunk(
        &self,
        worker: &mut CopyWorker,
        number: u64,
        index: u64,
        here: Result<Option<Here<'_>>, Errno>,
        tasks: &mut Tasks,
    ) {
        let Some(large) = self.large.lock().get(&number).cloned() else { return };
        if large.trouble().is_none()
            && let Err(trouble) = self.move_chunk(worker, &large, index)
        {
            large.set_trouble(trouble);
        }
        if large.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        self.large.lock().remove(&number);
        match self.complete_large(worker, &large) {
            Ok(()) => {}
            Err(Trouble::Changed) if !large.is_again => {
                let name = match &large.at {
                    Where::Root(path) => path.as_slice(),
                    Where::In(_, name) => name.as_bytes(),
                    Where::Itself(_) => return,
                };
                push(here.ok().flatten(), Task::plan(name, true), tasks);
            }
            Err(trouble) => self.fail(worker, &large.at, trouble),
        }
    }

    fn move_chunk(&self, worker: &mut CopyWorker, large: &Large, index: u64) -> Result<(), Trouble> {
        if large.is_cloned {
            self.live.bytes.fetch_add(large.before.size, Ordering::Relaxed);
            return Ok(());
        }
        let start = index * large.chunk;
        let end = (start + large.chunk).min(large.before.size);
        let has_holes = large.before.allocated_bytes() < large.before.size;
        let mut piece = self.options.digest.then(|| Piece::at(start));
        let way = Way { has_holes, hasher: piece.as_mut().map(Piece::hasher) };
        let came = worker.mover.copy(large.source.as_fd(), large.file.as_fd(), start..end, way)?;
        self.live.bytes.fetch_add(came - start, Ordering::Relaxed);
        if came < end {
            return Err(Trouble::Changed);
        }
        if let Some(piece) = piece {
            large.set_value(index, piece.value());
        }
        Ok(())
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
        worker.report.note(large.before.size, large.began.elapsed(), || large.at.told().1);
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
        attributes::give(&large.file, &large.before, &extended, self.manner(to), not_kept)?;
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

fn push(here: Option<Here<'_>>, task: Vec<u8>, tasks: &mut Tasks) {
    match here {
        Some(here) => tasks.push_in(here.directory, task),
        None => tasks.push(task),
    }
}
