//! Serves a [`Tree`] over FUSE: every request waits, may fail by a rule, and is answered from arithmetic. Of what rules can do
//! it knows errors and delays alone: there is nothing to change. Nothing is cached by the kernel: names and attributes are
//! valid for no time, so that every `statx` asks.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry, ReplyOpen, Request,
};

use super::fault::Effect;
use super::operation::Operation;
use super::options::Options;
use super::raw::Listing;
use super::service::{Gate, listed_before_error, prepare};
use super::tree::{Node, Tree};

/// Where answers can be written to past fuser, once there is a session.
type Device = Arc<OnceLock<io::Result<OwnedFd>>>;

pub(super) struct Server {
    tree: Tree,
    gate: Gate,
    /// Where listings without types are written to; none where fuser writes them.
    raw_device: Option<Device>,
    has_readdirplus: bool,
}

impl Server {
    pub(super) fn new(options: &Options, gate: Gate, device: &Device) -> io::Result<Self> {
        Ok(Self {
            tree: Tree::new(options)?,
            gate,
            raw_device: options.has_unknown_types.then(|| Arc::clone(device)),
            has_readdirplus: options.has_readdirplus,
        })
    }

    /// The node of an inode, unless a rule makes the operation fail on it.
    fn check(&self, operation: Operation, inode: u64) -> Result<Node, Errno> {
        let node = self.tree.node(inode).ok_or(Errno::ESTALE)?;
        match self.gate.meet(operation, || self.tree.name(inode).into_bytes(), 0) {
            Some(Effect::Error(errno)) => Err(Errno::from_i32(errno)),
            _ => Ok(node),
        }
    }

    fn find(&self, parent: u64, name: &OsStr) -> Result<(u64, Node), Errno> {
        let Some(Node::Directory { number }) = self.tree.node(parent) else {
            return Err(Errno::ENOTDIR);
        };
        let inode = name.to_str().and_then(|name| self.tree.lookup(number, name));
        let inode = inode.ok_or(Errno::ENOENT)?;
        Ok((inode, self.check(Operation::Lookup, inode)?))
    }

    fn bytes(&self, inode: u64, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let node = self.check(Operation::Read, inode)?;
        let length = self.tree.attributes(inode, node).size;
        Ok(self.tree.content(inode, length, offset, u64::from(size)))
    }

    fn target(&self, inode: u64) -> Result<String, Errno> {
        let node = self.check(Operation::Readlink, inode)?;
        self.tree.target(node).ok_or(Errno::EINVAL)
    }

    /// Hands the entries of a directory from `offset` on to `add`, until that says that it is full.
    fn list(&self, inode: u64, offset: u64, add: &mut dyn FnMut(Entry<'_>) -> bool) -> Result<(), Errno> {
        let node = self.tree.node(inode).ok_or(Errno::ESTALE)?;
        let Node::Directory { number } = node else {
            return Err(Errno::ENOTDIR);
        };
        // The two dots come first.
        let mut end = self.tree.length(number) + 2;
        if let Err(error) = self.check(Operation::Readdir, inode) {
            // A server that breaks off has reported an error before.
            end = listed_before_error(self.tree.length(number));
            if offset >= end {
                return Err(error);
            }
        }
        for place in offset..end {
            let (entry, name) = match place {
                0 => (inode, ".".to_owned()),
                1 => (self.tree.parent(node), "..".to_owned()),
                _ => {
                    let child = self.tree.child(number, place - 2);
                    (child, self.tree.name(child))
                }
            };
            let next = place + 1;
            if !add(Entry { inode: entry, next, name: &name }) {
                break;
            }
        }
        Ok(())
    }
}

/// An entry of a listing.
struct Entry<'a> {
    inode: u64,
    /// The offset that the entry after it is asked for with.
    next: u64,
    name: &'a str,
}

impl Filesystem for Server {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let more = if self.has_readdirplus { InitFlags::FUSE_DO_READDIRPLUS } else { InitFlags::empty() };
        prepare(config, more)
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.gate.enter(Operation::Lookup);
        match self.find(parent.0, name) {
            Ok((inode, node)) => {
                let attributes = self.tree.attributes(inode, node);
                reply.entry(&Duration::ZERO, &attributes, Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.gate.enter(Operation::Stat);
        match self.check(Operation::Stat, inode.0) {
            Ok(node) => reply.attr(&Duration::ZERO, &self.tree.attributes(inode.0, node)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        self.gate.enter(Operation::Readlink);
        match self.target(inode.0) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.gate.enter(Operation::Open);
        match self.check(Operation::Open, inode.0) {
            // The page cache would turn every error of a read into EIO.
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.gate.enter(Operation::Read);
        match self.bytes(inode.0, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn opendir(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.gate.enter(Operation::Opendir);
        match self.check(Operation::Opendir, inode.0) {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.gate.enter(Operation::Readdir);
        if let Some(device) = &self.raw_device {
            return self.readdir_without_types(device, request, inode.0, offset, reply);
        }
        let outcome = self.list(inode.0, offset, &mut |entry| {
            let node = self.tree.node(entry.inode);
            let kind = node.map_or(fuser::FileType::Directory, |node| self.tree.kind(node));
            !reply.add(INodeNo(entry.inode), entry.next, kind, entry.name)
        });
        match outcome {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.gate.enter(Operation::Readdir);
        let outcome = self.list(inode.0, offset, &mut |entry| {
            let Some(node) = self.tree.node(entry.inode) else {
                return false;
            };
            let attributes = self.tree.attributes(entry.inode, node);
            let number = INodeNo(entry.inode);
            !reply.add(number, entry.next, entry.name, &Duration::ZERO, &attributes, Generation(0))
        });
        match outcome {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}

impl Server {
    fn readdir_without_types(
        &self,
        device: &OnceLock<io::Result<OwnedFd>>,
        request: &Request,
        inode: u64,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let mut listing = Listing::new();
        let add = &mut |entry: Entry<'_>| listing.add(entry.inode, entry.next, entry.name);
        if let Err(error) = self.list(inode, offset, add) {
            return reply.error(error);
        }
        match device.get() {
            Some(Ok(device)) if listing.send(device, request.unique().0).is_ok() => {
                // The request is answered; the kernel no longer knows it and drops this second answer, which fuser
                // insists on.
                reply.ok();
            }
            _ => reply.error(Errno::EIO),
        }
    }
}
