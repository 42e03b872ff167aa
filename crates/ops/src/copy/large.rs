//! Files so large that several threads copy parts of them. Whoever plans one opens it on both sides and cuts it into chunks; any
//! thread may take one; the last one done looks whether the source is what it was, and completes the copy. How is in
//! `chunks.rs`.

use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
use crate::chunks::{Chunks, Cut, LargeTask, UnderWay};
use crate::digest::{Element, Piece};
use crate::walk::kernel::retry;
use crate::walk::visit::{Here, Tasks};

/// Files that are being copied in chunks.
pub(crate) type LargeFiles = UnderWay<Large>;

/// One of them.
#[derive(Debug)]
pub(crate) struct Large {
    at: Where,
    mirror: Arc<Mirror>,
    name: CString,
    temporary: CString,
    source: OwnedFd,
    file: OwnedFd,
    before: Metadata,
    chunks: Chunks,
    /// Whether it changed when it was copied the first time.
    is_again: bool,
}

impl Copying<'_> {
    /// Whether a file is copied in chunks.
    pub(crate) fn is_large(&self, metadata: &Metadata) -> bool {
        metadata.nlink == 1 && self.cut().is_large(metadata.size)
    }

    fn cut(&self) -> Cut {
        Cut::new(self.options.chunk, &self.options.walk)
    }

    /// Leaves a large file to whoever has nothing else to do.
    pub(crate) fn plan_later(&self, here: Option<Here<'_>>, name: &[u8], tasks: &mut Tasks) {
        LargeTask::Plan { name, is_again: false }.push(here, tasks);
    }

    /// Does a task of a large file.
    pub(crate) fn large_task(
        &self,
        worker: &mut CopyWorker,
        here: Result<Option<Here<'_>>, Errno>,
        task: &[u8],
        tasks: &mut Tasks,
    ) {
        match LargeTask::parse(task) {
            Some(LargeTask::Plan { name, is_again }) => {
                let name = CString::new(name).unwrap_or_default();
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
            Some(LargeTask::Chunk { file, index }) => self.chunk(worker, file, index, here, tasks),
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
        let chunk = self.cut().chunk_of(before.size);
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
        let chunks = Chunks::new(before.size, chunk);
        let count = chunks.count();
        let large = Large {
            at: at.clone(),
            mirror: Arc::clone(&mirror),
            name: own.clone(),
            temporary,
            source,
            file,
            before,
            chunks,
            is_again,
        };
        self.large.add(large, count, here, tasks);
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
        let Some(large) = self.large.find(number) else { return };
        if !large.chunks.run(|| self.move_chunk(worker, &large, index)) {
            return;
        }
        self.large.remove(number);
        match self.complete_large(worker, &large) {
            Ok(()) => {}
            Err(Trouble::Changed) if !large.is_again => {
                let name = match &large.at {
                    Where::Root(path) => path.as_slice(),
                    Where::In(_, name) => name.as_bytes(),
                    Where::Itself(_) => return,
                };
                LargeTask::Plan { name, is_again: true }.push(here.ok().flatten(), tasks);
            }
            Err(trouble) => self.fail(worker, &large.at, trouble),
        }
    }

    fn move_chunk(&self, worker: &mut CopyWorker, large: &Large, index: u64) -> Result<(), Trouble> {
        let Range { start, end } = large.chunks.range(index);
        let has_holes = large.before.allocated_bytes() < large.before.size;
        let mut piece = self.options.digest.then(|| Piece::at(start));
        let way = Way { has_holes, hasher: piece.as_mut() };
        let came = worker.mover.copy(large.source.as_fd(), large.file.as_fd(), start..end, way)?;
        self.live.bytes.fetch_add(came - start, Ordering::Relaxed);
        if came < end {
            return Err(Trouble::Changed);
        }
        if let Some(piece) = piece {
            large.chunks.set_value(index, piece.value());
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
        self.live.files.fetch_add(1, Ordering::Relaxed);
        if self.options.digest {
            let (root, path) = large.at.told();
            let digest = large.chunks.digest().ok_or(Trouble::Changed)?;
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
        if let Some(trouble) = large.chunks.trouble() {
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
        for large in self.large.take_all() {
            if let Ok(to) = self.place(worker, &large.mirror, &large.name) {
                remove(&to, &Made::temporary(large.temporary.clone()));
            }
        }
    }
}
