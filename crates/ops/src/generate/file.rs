//! Makes one file of a planned tree. The file is created private and filled. Then it gets its attributes, its mode, and last its time. Any
//! thread may write a piece of a large file.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, XattrFlags, fchmod, fsetxattr, ftruncate, futimens, openat};
use rustix::io::{Errno, pwrite, retry_on_intr};

use super::make::{MakeError, Task, Thread, timestamps};
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

impl Thread<'_, '_, '_> {
    /// Makes a file, or starts a large one and returns the task that writes it.
    pub(crate) fn file(&mut self, at: &Directory, index: u64) -> Result<Option<Task>, MakeError> {
        let plan = self.make.plan;
        let node = Node::File(index);
        let name = plan.names.of(node);
        let fd =
            openat(&at.fd, name, NEW, Mode::RUSR | Mode::WUSR).map_err(MakeError::at("make file", node))?;
        let size_bytes = plan.size_bytes(index);
        if plan.spec().contents == Contents::Sparse {
            if size_bytes > 0 {
                ftruncate(&fd, size_bytes).map_err(MakeError::at("set size", node))?;
            }
        } else if size_bytes > PIECE_BYTES {
            let file = OpenFile { fd, index, size_bytes, bytes_left: AtomicU64::new(size_bytes) };
            return Ok(Some(Task::Piece(Arc::new(file), 0..size_bytes)));
        } else if size_bytes > 0 {
            self.write(&fd, index, 0..size_bytes)?;
        }
        if !self.queue.is_stopping() {
            self.finish_file(&fd, index, size_bytes)?;
        }
        Ok(None)
    }

    /// Writes a piece of a large file. A range larger than a piece is halved.
    pub(crate) fn piece(&mut self, file: &Arc<OpenFile>, range: Range<u64>) -> Result<(), MakeError> {
        let Range { start, mut end } = range;
        while end - start > PIECE_BYTES {
            // At a multiple of the piece size, so that pieces share no blocks of the file system.
            let middle = start + (end - start).div_ceil(PIECE_BYTES) / 2 * PIECE_BYTES;
            self.queue.push(Task::Piece(Arc::clone(file), middle..end));
            end = middle;
        }
        self.write(&file.fd, file.index, start..end)?;
        let is_last = file.bytes_left.fetch_sub(end - start, Ordering::AcqRel) == end - start;
        if is_last && !self.queue.is_stopping() {
            self.finish_file(&file.fd, file.index, file.size_bytes)?;
        }
        Ok(())
    }

    /// Writes a range of a file. Returns early, without an error, when the run is to end.
    fn write(&mut self, fd: &OwnedFd, index: u64, mut range: Range<u64>) -> Result<(), MakeError> {
        while !range.is_empty() && !self.queue.is_stopping() {
            let block = self.make.source.block(index, &range, &mut self.worker.buffer);
            let written = write_all(fd, block, range.start);
            written.map_err(MakeError::at("write file", Node::File(index)))?;
            range.start += block.len() as u64;
        }
        Ok(())
    }

    /// Sets the attributes, the mode and the time of a file that has all its bytes.
    fn finish_file(&mut self, fd: &OwnedFd, index: u64, size_bytes: u64) -> Result<(), MakeError> {
        let (plan, made) = (self.make.plan, &mut self.worker.made);
        let node = Node::File(index);
        for number in 0..plan.xattrs(index) {
            let (name, value) = plan.xattr(index, number);
            match fsetxattr(fd, name, &value, XattrFlags::CREATE) {
                Ok(()) => made.xattrs += 1,
                Err(Errno::NOTSUP) => made.xattrs_unsupported += 1,
                Err(errno) => return Err(MakeError::at("set extended attribute", node)(errno)),
            }
        }
        let mode = fchmod(fd, Mode::from_raw_mode(plan.mode(node)));
        mode.map_err(MakeError::at("set mode", node))?;
        let times = futimens(fd, &timestamps(plan.mtime(node)));
        times.map_err(MakeError::at("set times", node))?;
        made.files += 1;
        made.size_bytes = made.size_bytes.saturating_add(size_bytes);
        self.make.count();
        Ok(())
    }
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match retry_on_intr(|| pwrite(fd, bytes, offset))? {
            0 => return Err(Errno::IO),
            written => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
        }
    }
    Ok(())
}
