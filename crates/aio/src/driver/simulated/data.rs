//! Reading and writing the data of simulated files, and their length. Nothing becomes durable here.

use atta_entry::Errno;

use super::files::{Files, Kind};
use crate::{At, Buffer, Fd, Op, Outcome};

/// The number of bytes that an operation would move.
pub(super) fn bytes(op: &Op) -> usize {
    match op {
        Op::Read { buffer, .. } | Op::Write { buffer, .. } => buffer.len(),
        Op::ReadVectors { vectors, .. } | Op::WriteVectors { vectors, .. } => vectors.len(),
        Op::CopyRange { bytes, .. } => *bytes,
        _ => 0,
    }
}

/// Checks an offset as the kernel does.
fn checked(offset: u64) -> Result<u64, Errno> {
    if i64::try_from(offset).is_ok() { Ok(offset) } else { Err(Errno::INVAL) }
}

impl Files {
    pub(super) fn carry_data(&mut self, op: &mut Op, most: usize) -> Outcome {
        match op {
            Op::Read { fd, buffer, at } => {
                let bytes = buffer.len().min(most);
                self.read(fd, *at, [&mut buffer.as_mut_slice()[..bytes]].into_iter())
            }
            Op::Write { fd, buffer, at } => {
                let bytes = buffer.len().min(most);
                self.write(fd, *at, &buffer.as_slice()[..bytes])
            }
            Op::ReadVectors { fd, vectors, at } => {
                let mut left = most;
                let cut = vectors.slices_mut().map(|slice| {
                    let bytes = slice.len().min(left);
                    left -= bytes;
                    &mut slice[..bytes]
                });
                self.read(fd, *at, cut)
            }
            Op::WriteVectors { fd, vectors, at } => {
                let mut bytes: Vec<u8> =
                    vectors.buffers().iter().flat_map(Buffer::as_slice).copied().collect();
                bytes.truncate(most);
                self.write(fd, *at, &bytes)
            }
            Op::Seek { fd, offset, whence } => self.seek(fd, *offset, *whence),
            Op::Truncate { fd, bytes } => {
                let bytes = checked(*bytes)?;
                let open = self.descriptor(fd)?;
                if !open.is_writable() || self.is_directory(open.node) {
                    return Err(Errno::INVAL);
                }
                let node = open.node;
                self.resize(node, bytes)
            }
            Op::Allocate { fd, mode, offset, bytes } => self.allocate(fd, *mode, *offset, *bytes),
            Op::SyncRange { fd, offset, bytes, flags } => {
                checked(offset.saturating_add(*bytes))?;
                self.descriptor(fd)?;
                if *flags & !7 != 0 { Err(Errno::INVAL) } else { Ok(0) }
            }
            Op::Advise { fd, advice, .. } => {
                self.descriptor(fd)?;
                if (0..=5).contains(advice) { Ok(0) } else { Err(Errno::INVAL) }
            }
            Op::CopyRange { from, from_offset, to, to_offset, bytes } => {
                self.copy([(from, *from_offset), (to, *to_offset)], *bytes, most)
            }
            _ => Err(Errno(libc::ENOSYS)),
        }
    }

    /// The data of a regular file.
    pub(super) fn data(&self, node: u64) -> Result<&Vec<u8>, Errno> {
        match &self.node(node)?.kind {
            Kind::File(data) => Ok(data),
            Kind::Directory { .. } => Err(Errno(libc::EISDIR)),
            Kind::Link(_) => Err(Errno::INVAL),
        }
    }

    /// The same for writing: updates the times.
    fn data_mut(&mut self, node: u64) -> Result<&mut Vec<u8>, Errno> {
        let time = self.time();
        let node = self.node_mut(node)?;
        (node.modified, node.changed) = (time, time);
        match &mut node.kind {
            Kind::File(data) => Ok(data),
            _ => Err(Errno::INVAL),
        }
    }

    fn read<'a>(&mut self, fd: &Fd, at: At, slices: impl Iterator<Item = &'a mut [u8]>) -> Outcome {
        let open = self.descriptor(fd)?;
        if !open.is_readable() {
            return Err(Errno(libc::EBADF));
        }
        let start = match at {
            At::Offset(at) => checked(at)?,
            At::Position => open.position,
        };
        let data = self.data(open.node)?;
        let mut rest = usize::try_from(start).ok().and_then(|start| data.get(start..)).unwrap_or_default();
        let mut moved = 0;
        for slice in slices {
            let bytes = slice.len().min(rest.len());
            slice[..bytes].copy_from_slice(&rest[..bytes]);
            rest = &rest[bytes..];
            moved += bytes as u64;
        }
        if at == At::Position {
            self.set_position(fd, start + moved);
        }
        Ok(moved)
    }

    fn write(&mut self, fd: &Fd, at: At, bytes: &[u8]) -> Outcome {
        let open = self.descriptor(fd)?;
        if !open.is_writable() {
            return Err(Errno(libc::EBADF));
        }
        let (node, flags) = (open.node, open.flags);
        let mut start = match at {
            At::Offset(at) => checked(at)?,
            At::Position => open.position,
        };
        if flags & libc::O_APPEND != 0 {
            start = self.data(node)?.len() as u64;
        }
        let moved = self.put(node, start, bytes)?;
        if at == At::Position {
            self.set_position(fd, start + moved);
        }
        Ok(moved)
    }

    /// Writes as many bytes as there is room for.
    fn put(&mut self, node: u64, start: u64, bytes: &[u8]) -> Outcome {
        if bytes.is_empty() {
            return Ok(0);
        }
        if start >= self.file_bytes_most {
            return Err(Errno(libc::EFBIG));
        }
        let length = self.data(node)?.len() as u64;
        // A hole before it takes room, too.
        let end_most = self.file_bytes_most.min(length + (self.room - self.used));
        let end = (start + bytes.len() as u64).min(end_most);
        if end <= start {
            return Err(Errno(libc::ENOSPC));
        }
        if end > length {
            self.grow(node, end)?;
        }
        let bytes = &bytes[..(end - start) as usize];
        self.data_mut(node)?[start as usize..end as usize].copy_from_slice(bytes);
        Ok(bytes.len() as u64)
    }

    /// Extends a file with zeros.
    fn grow(&mut self, node: u64, bytes: u64) -> Result<(), Errno> {
        let length = self.data(node)?.len() as u64;
        if bytes > self.file_bytes_most {
            return Err(Errno(libc::EFBIG));
        }
        if bytes - length > self.room - self.used {
            return Err(Errno(libc::ENOSPC));
        }
        self.used += bytes - length;
        self.data_mut(node)?.resize(bytes as usize, 0);
        Ok(())
    }

    /// Sets the length of a file.
    pub(super) fn resize(&mut self, node: u64, bytes: u64) -> Outcome {
        let length = self.data(node)?.len() as u64;
        if bytes > length {
            self.grow(node, bytes)?;
        } else {
            self.used -= length - bytes;
            self.data_mut(node)?.truncate(bytes as usize);
        }
        Ok(0)
    }

    fn allocate(&mut self, fd: &Fd, mode: i32, offset: u64, bytes: u64) -> Outcome {
        let (offset, bytes) = (checked(offset)?, checked(bytes)?);
        let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let what = mode & !libc::FALLOC_FL_KEEP_SIZE;
        if bytes == 0 {
            return Err(Errno::INVAL);
        }
        let is_hole = what == libc::FALLOC_FL_PUNCH_HOLE && keeps;
        let is_zeros = what == libc::FALLOC_FL_ZERO_RANGE;
        if what != 0 && !is_hole && !is_zeros {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let open = self.descriptor(fd)?;
        if !open.is_writable() {
            return Err(Errno(libc::EBADF));
        }
        let node = open.node;
        let length = self.data(node)?.len() as u64;
        let end = offset.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or(Errno(libc::EFBIG))?;
        if !keeps && end > length {
            self.grow(node, end)?;
        }
        if what != 0 {
            let data = self.data_mut(node)?;
            let end = end.min(data.len() as u64) as usize;
            let start = offset.min(end as u64) as usize;
            data[start..end].fill(0);
        }
        Ok(0)
    }

    fn seek(&mut self, fd: &Fd, offset: i64, whence: i32) -> Outcome {
        let open = self.descriptor(fd)?;
        let (position, node) = (open.position, open.node);
        let length = self.data(node).map_or(0, |data| data.len() as u64);
        let to = match whence {
            libc::SEEK_SET => 0_u64.checked_add_signed(offset),
            libc::SEEK_CUR => position.checked_add_signed(offset),
            libc::SEEK_END => length.checked_add_signed(offset),
            libc::SEEK_DATA | libc::SEEK_HOLE => {
                let start = u64::try_from(offset).ok().filter(|start| *start < length);
                let start = start.ok_or(Errno(libc::ENXIO))?;
                Some(if whence == libc::SEEK_DATA { start } else { length })
            }
            _ => None,
        };
        let to = checked(to.ok_or(Errno::INVAL)?)?;
        self.set_position(fd, to);
        Ok(to)
    }

    fn copy(&mut self, ends: [(&Fd, u64); 2], bytes: usize, most: usize) -> Outcome {
        let [(from, from_offset), (to, to_offset)] = ends;
        let (start, target) = (checked(from_offset)?, checked(to_offset)?);
        let (source, sink) = (self.descriptor(from)?, self.descriptor(to)?);
        let (here, there) = (source.node, sink.node);
        let data = self.data(here)?;
        self.data(there)?;
        if !source.is_readable() || !sink.is_writable() || sink.flags & libc::O_APPEND != 0 {
            return Err(Errno(libc::EBADF));
        }
        if self.node(here)?.device != self.node(there)?.device {
            return Err(Errno::XDEV);
        }
        let rest = usize::try_from(start).ok().and_then(|start| data.get(start..)).unwrap_or_default();
        let bytes = rest[..bytes.min(rest.len())].to_vec();
        let overlaps = start < target + bytes.len() as u64 && target < start + bytes.len() as u64;
        if here == there && overlaps {
            return Err(Errno::INVAL);
        }
        self.put(there, target, &bytes[..bytes.len().min(most)])
    }
}
