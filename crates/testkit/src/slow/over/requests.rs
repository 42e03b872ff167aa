//! The requests of the kernel to a directory that is served, each with its answer. What is done for them is in `over.rs`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Result;

use super::super::nodes::Nodes;
use super::super::operation::Operation;
use super::super::record::Event;
use super::super::service::prepare;
use super::{Open, Over, answer};

/// Names and attributes are not cached: every query arrives here.
const NEVER: Duration = Duration::ZERO;
const FIRST: Generation = Generation(0);
const LIST_MOST: usize = 64 << 10;

fn code(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

fn empty(reply: ReplyEmpty, outcome: Result<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(code(errno)),
    }
}

fn entry(reply: ReplyEntry, outcome: Result<FileAttr>) {
    match outcome {
        Ok(attributes) => reply.entry(&NEVER, &attributes, FIRST),
        Err(errno) => reply.error(code(errno)),
    }
}

/// A value, or how long it is if no room is offered.
fn extended(reply: ReplyXattr, size: u32, outcome: Result<Vec<u8>>) {
    match outcome {
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(code(errno)),
    }
}

impl Over {
    /// Makes something in a directory, for who asks, and finds it.
    fn make(
        &self,
        request: &Request,
        operation: Operation,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&rustix::fd::OwnedFd) -> Result<()>,
    ) -> Result<FileAttr> {
        let effect = self.pass(request, operation, parent, Some(name), 0)?;
        make(&*self.nodes.get(parent)?)?;
        self.give(request, parent, name)?;
        self.note_name(parent, name)?;
        answer(effect)?;
        self.nodes.find(parent, name)
    }
}

impl Filesystem for Over {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        prepare(config, InitFlags::empty())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = &*self.spelled(parent, name);
        let passed = self.pass(request, Operation::Lookup, parent, Some(name), 0);
        let found = passed.and_then(|effect| Ok(Self::say(self.nodes.find(parent, name)?, effect)));
        entry(reply, found);
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.nodes.forget(inode, lookups);
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let passed = self.pass(request, Operation::Stat, inode, None, 0);
        match passed.and_then(|effect| Ok(Self::say(self.nodes.attributes(inode)?, effect))) {
            Ok(attributes) => reply.attr(&NEVER, &attributes),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = || {
            let pass = |operation| self.pass(request, operation, inode, None, 0);
            if let Some(size) = size {
                pass(Operation::Truncate)?;
                self.set_size(inode, size)?;
            }
            if uid.is_some() || gid.is_some() {
                pass(Operation::Chown)?;
                self.set_owner(inode, uid, gid)?;
            }
            if let Some(mode) = mode {
                pass(Operation::Chmod)?;
                self.set_mode(inode, mode)?;
            }
            if atime.is_some() || mtime.is_some() {
                pass(Operation::Utimes)?;
                self.set_times(inode, atime, mtime)?;
            }
            self.nodes.attributes(inode)
        };
        match set() {
            Ok(attributes) => reply.attr(&NEVER, &attributes),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        let read = || {
            self.pass(request, Operation::Readlink, inode, None, 0)?;
            rustix::fs::readlinkat(&self.nodes.get(inode)?, "", Vec::new())
        };
        match read() {
            Ok(target) => reply.data(target.as_bytes()),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let (kind, rights) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode));
        let name = &*self.spelled(parent, name);
        let made = self.make(request, Operation::Mknod, parent, name, |directory| {
            rustix::fs::mknodat(directory, name, kind, rights, device.into())
        });
        entry(reply, made);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let rights = Mode::from_raw_mode(mode);
        let name = &*self.spelled(parent, name);
        let made = self.make(request, Operation::Mkdir, parent, name, |directory| {
            rustix::fs::mkdirat(directory, name, rights)
        });
        entry(reply, made);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = &*self.spelled(parent, name);
        let unlink = || {
            let effect = self.pass(request, Operation::Unlink, parent, Some(name), 0)?;
            self.remove(parent, name)?;
            self.note_removed(parent, name);
            answer(effect)
        };
        empty(reply, unlink());
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = &*self.spelled(parent, name);
        let remove = || {
            let effect = self.pass(request, Operation::Rmdir, parent, Some(name), 0)?;
            rustix::fs::unlinkat(&self.nodes.get(parent)?, name, AtFlags::REMOVEDIR)?;
            self.note_removed(parent, name);
            answer(effect)
        };
        empty(reply, remove());
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let name = &*self.spelled(parent, name);
        let made = self.make(request, Operation::Symlink, parent, name, |directory| {
            rustix::fs::symlinkat(target, directory, name)
        });
        entry(reply, made);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, new_name) = (&*self.spelled(parent, name), &*self.spelled(new_parent, new_name));
        let rename = || {
            let effect = self.pass(request, Operation::Rename, new_parent, Some(new_name), 0)?;
            let (from, to) = (self.nodes.get(parent)?, self.nodes.get(new_parent)?);
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            rustix::fs::renameat_with(&from, name, &to, new_name, flags)?;
            self.nodes.rename(&to, new_parent, new_name)?;
            if flags.contains(rustix::fs::RenameFlags::EXCHANGE) {
                self.nodes.rename(&from, parent, name)?;
            } else {
                self.note_removed(parent, name);
            }
            self.note_name(new_parent, new_name)?;
            answer(effect)
        };
        empty(reply, rename());
    }

    fn link(&self, request: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = &*self.spelled(parent, name);
        let link = || {
            let effect = self.pass(request, Operation::Link, parent, Some(name), 0)?;
            let path = Nodes::path_to(&*self.nodes.get(inode)?);
            rustix::fs::linkat(CWD, path, &self.nodes.get(parent)?, name, AtFlags::SYMLINK_FOLLOW)?;
            self.note_name(parent, name)?;
            answer(effect)?;
            self.nodes.find(parent, name)
        };
        entry(reply, link());
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let passed = self.pass(request, Operation::Open, inode, None, 0);
        let flags = OFlags::from_bits_retain(flags.0.cast_unsigned());
        match passed.and_then(|_| self.reopen(inode, flags)) {
            // The page cache would turn every error of a read into EIO.
            Ok(file) => reply.opened(self.keep(Open::File(file.into())), FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let name = &*self.spelled(parent, name);
        let create = || {
            let effect = self.pass(request, Operation::Create, parent, Some(name), 0)?;
            let flags = OFlags::from_bits_retain(flags.cast_unsigned()) - OFlags::DIRECT;
            let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(mode);
            let file = rustix::fs::openat(&self.nodes.get(parent)?, name, flags, mode)?;
            self.give(request, parent, name)?;
            self.note_name(parent, name)?;
            answer(effect)?;
            Ok((file, self.nodes.find(parent, name)?))
        };
        match create() {
            Ok((file, attributes)) => {
                let handle = self.keep(Open::File(file.into()));
                reply.created(&NEVER, &attributes, FIRST, handle, FopenFlags::FOPEN_DIRECT_IO);
            }
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn read(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let passed = self.pass(request, Operation::Read, inode, None, 0);
        let read = passed.and_then(|effect| self.read_at(&*self.file(handle)?, offset, size, effect));
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let passed = self.pass(request, Operation::Write, inode, None, bytes.len());
        let written = passed.and_then(|effect| {
            self.note_file(inode)?;
            self.write_at(&*self.file(handle)?, offset, bytes, effect)
        });
        match written {
            Ok(written) => reply.written(u32::try_from(written).unwrap_or(u32::MAX)),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn flush(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.pass(request, Operation::Flush, inode, None, 0).map(drop));
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.close(handle);
        reply.ok();
    }

    fn fsync(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        let sync = || {
            self.pass(request, Operation::Fsync, inode, None, 0)?;
            // What is written from here on is not synced.
            self.notes.record.as_ref().map_or(Ok(()), |record| record.add(Event::Sync))?;
            self.notes.unsynced.iter().for_each(|unsynced| unsynced.sync_file(inode.0));
            rustix::fs::fsync(&self.file(handle)?)
        };
        empty(reply, sync());
    }

    fn opendir(&self, request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let passed = self.pass(request, Operation::Opendir, inode, None, 0);
        // The names are read now; an error is returned by the first read of the directory.
        let listed =
            passed.and_then(|_| self.list(inode, self.pass(request, Operation::Readdir, inode, None, 0)));
        match listed {
            Ok(listing) => {
                let handle = self.keep(Open::Directory(listing.into()));
                reply.opened(handle, FopenFlags::empty());
            }
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listing = match self.listing(handle) {
            Ok(listing) => listing,
            Err(errno) => return reply.error(code(errno)),
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = match listing.end {
            Some((end, errno)) if start >= end => return reply.error(code(errno)),
            Some((end, _)) => end.min(listing.entries.len()),
            None => listing.entries.len(),
        };
        for (next, entry) in (1..).zip(&listing.entries).take(end).skip(start) {
            if reply.add(INodeNo(entry.inode), next, entry.kind, OsStr::from_bytes(&entry.name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.close(handle);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        let sync = || {
            self.pass(request, Operation::Fsync, inode, None, 0)?;
            self.notes.unsynced.iter().for_each(|unsynced| unsynced.sync_directory(inode.0));
            rustix::fs::fsync(self.reopen(inode, OFlags::RDONLY | OFlags::DIRECTORY)?)
        };
        empty(reply, sync());
    }

    fn statfs(&self, request: &Request, inode: INodeNo, reply: ReplyStatfs) {
        let asked = || {
            self.pass(request, Operation::Statfs, inode, None, 0)?;
            rustix::fs::fstatfs(&self.nodes.get(inode)?)
        };
        let small = |number: i64| u32::try_from(number).unwrap_or_default();
        match asked() {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                small(found.f_bsize),
                small(found.f_namelen),
                small(found.f_frsize),
            ),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let passed = self.pass(request, Operation::Setxattr, inode, None, 0);
        empty(reply, passed.and_then(|_| self.set_extended(inode, name, value, flags)));
    }

    fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let get = || {
            self.pass(request, Operation::Getxattr, inode, None, 0)?;
            let mut value = vec![0; LIST_MOST];
            let path = Nodes::path_to(&*self.nodes.get(inode)?);
            let length = rustix::fs::getxattr(path, name, &mut value[..])?;
            value.truncate(length);
            Ok(value)
        };
        extended(reply, size, get());
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let list = || {
            self.pass(request, Operation::Listxattr, inode, None, 0)?;
            let mut names = vec![0; LIST_MOST];
            let path = Nodes::path_to(&*self.nodes.get(inode)?);
            let length = rustix::fs::listxattr(path, &mut names[..])?;
            names.truncate(length);
            Ok(names)
        };
        extended(reply, size, list());
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || {
            self.pass(request, Operation::Removexattr, inode, None, 0)?;
            rustix::fs::removexattr(Nodes::path_to(&*self.nodes.get(inode)?), name)
        };
        empty(reply, remove());
    }

    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let passed = self.pass(request, Operation::Fallocate, inode, None, 0);
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let allocated = passed.and_then(|_| self.allocate(&*self.file(handle)?, mode, (offset, length)));
        empty(reply, allocated.and_then(|()| self.note_file(inode)));
    }

    fn lseek(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let seek = || {
            self.pass(request, Operation::Lseek, inode, None, 0)?;
            let from = u64::try_from(offset).map_err(|_| rustix::io::Errno::INVAL)?;
            let to = match whence {
                DATA => SeekFrom::Data(from),
                HOLE => SeekFrom::Hole(from),
                _ => return Err(rustix::io::Errno::INVAL),
            };
            rustix::fs::seek(&self.file(handle)?, to)
        };
        match seek() {
            Ok(at) => reply.offset(at.cast_signed()),
            Err(errno) => reply.error(code(errno)),
        }
    }
}

/// `SEEK_DATA` and `SEEK_HOLE`: all that the kernel does not know by itself.
const DATA: i32 = 3;
const HOLE: i32 = 4;
