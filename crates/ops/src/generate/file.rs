//! Makes one file of a planned tree. The file is created private and filled. Then it gets its attributes, its mode, and last its time. Any
//! thread may write a piece of a large file.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_runtime::Queue;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, XattrFlags, fchmod, fsetxattr, ftruncate, futimens, openat};
use rustix::io::Errno;

use super::make::{Make, MakeError, Task, Worker, timestamps};
use super::names::Node;
use super::open::Directory;
use super::spec::Contents;

/// Files above this size are written as pieces of at most this size, some 50 ms of work each.
const PIECE_BYTES: u64 = 64 << 20;

const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A large file that is being written.
#[derive(Debug)]
pub(crate) struct OpenFile {
    fd: OwnedFd,
    index: u64,
    size_bytes: u64,
    /// Bytes not yet written. The thread that writes the last ones finishes the file.
    bytes_left: AtomicU64,
}

impl Make<'_> {
    /// Makes a file, or starts a large one and returns the task that writes it.
    pub(crate) fn file(
        &self,
        worker: &mut Worker,
        at: &Directory,
        index: u64,
        queue: &Queue<'_, Self>,
    ) -> Result<Option<Task>, MakeError> {
        let node = Node::File(index);
        let name = self.plan.names.of(node);
        let fd =
            openat(&at.fd, name, NEW, Mode::RUSR | Mode::WUSR).map_err(MakeError::at("make file", node))?;
        let size_bytes = self.plan.size_bytes(index);
        if self.plan.spec().contents == Contents::Sparse {
            if size_bytes > 0 {
                ftruncate(&fd, size_bytes).map_err(MakeError::at("set size", node))?;
            }
        } else if size_bytes > PIECE_BYTES {
            let file = OpenFile { fd, index, size_bytes, bytes_left: AtomicU64::new(size_bytes) };
            return Ok(Some(Task::Piece(Arc::new(file), 0..size_bytes)));
        } else if size_bytes > 0 {
            self.write(worker, &fd, index, 0..size_bytes, queue)?;
        }
        if !queue.is_stopping() {
            self.finish_file(worker, &fd, index, size_bytes)?;
        }
        Ok(None)
    }

    /// Writes a piece of a large file. A range larger than a piece is halved.
    pub(crate) fn piece(
        &self,
        worker: &mut Worker,
        file: &Arc<OpenFile>,
        range: Range<u64>,
        queue: &mut Queue<'_, Self>,
    ) -> Result<(), MakeError> {
        let Range { start, mut end } = range;
        while end - start > PIECE_BYTES {
            // At a multiple of the piece size, so that pieces share no blocks of the file system.
            let middle = start + (end - start).div_ceil(PIECE_BYTES) / 2 * PIECE_BYTES;
            queue.push(Task::Piece(Arc::clone(file), middle..end));
            end = middle;
        }
        self.write(worker, &file.fd, file.index, start..end, queue)?;
        let is_last = file.bytes_left.fetch_sub(end - start, Ordering::AcqRel) == end - start;
        if is_last && !queue.is_stopping() {
            self.finish_file(worker, &file.fd, file.index, file.size_bytes)?;
        }
        Ok(())
    }

    fn write(
        &self,
        worker: &mut Worker,
        fd: &OwnedFd,
        index: u64,
        range: Range<u64>,
        queue: &Queue<'_, Self>,
    ) -> Result<(), MakeError> {
        let range = (range.start, range.end);
        let written = self.source.write(fd.as_fd(), index, range, &mut worker.buffer, || queue.is_stopping());
        written.map_err(MakeError::at("write file", Node::File(index)))
    }

    fn finish_file(
        &self,
        worker: &mut Worker,
        fd: &OwnedFd,
        index: u64,
        size_bytes: u64,
    ) -> Result<(), MakeError> {
        let node = Node::File(index);
        for number in 0..self.plan.xattrs(index) {
            let (name, value) = self.plan.xattr(index, number);
            match fsetxattr(fd, name, &value, XattrFlags::CREATE) {
                Ok(()) => worker.made.xattrs += 1,
                Err(Errno::NOTSUP) => worker.made.xattrs_unsupported += 1,
                Err(errno) => return Err(MakeError::at("set extended attribute", node)(errno)),
            }
        }
        let mode = fchmod(fd, Mode::from_raw_mode(self.plan.mode(node)));
        mode.map_err(MakeError::at("set mode", node))?;
        let times = futimens(fd, &timestamps(self.plan.mtime(node)));
        times.map_err(MakeError::at("set times", node))?;
        worker.made.files += 1;
        worker.made.size_bytes = worker.made.size_bytes.saturating_add(size_bytes);
        self.count();
        Ok(())
    }
}
