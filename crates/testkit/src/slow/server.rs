//! Serves a [`Tree`] over FUSE: every request waits, may fail by a rule, and is answered from arithmetic. One thread
//! for each request in flight, because a thread that sleeps costs nothing here. Nothing is cached by the kernel:
//! names and attributes are valid for no time, so that every `statx` asks.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{
    BackgroundSession, Config, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEntry, ReplyOpen, Request, Session, SessionACL,
};
use rustix::mount::{UnmountFlags, unmount};

use super::counts::{Counts, Operation, Served};
use super::fault::{Fault, FaultedOperation};
use super::options::Options;
use super::raw::Listing;
use super::tree::{Node, Tree};

/// Requests that the kernel sends on its own account (reading ahead); the default of 12 would hide concurrency.
const BACKGROUND: u16 = 1024;

/// A mounted file system that is being served by threads of this process.
#[derive(Debug)]
pub struct Service {
    counts: Arc<Counts>,
    mountpoint: PathBuf,
    session: Option<BackgroundSession>,
}

impl Service {
    /// Mounts and serves; returns when the kernel has taken the file system.
    ///
    /// # Errors
    /// When there is no `/dev/fuse`, no right to mount, no such directory, or the tree is too large.
    pub fn start(options: &Options) -> io::Result<Self> {
        let counts = Arc::new(Counts::default());
        let device = Arc::new(OnceLock::new());
        let server = Server {
            tree: Tree::new(options)?,
            latency: options.latency,
            faults: options.faults.clone(),
            raw_device: options.has_unknown_types.then(|| Arc::clone(&device)),
            has_readdirplus: options.has_readdirplus,
            counts: Arc::clone(&counts),
        };
        let mountpoint = std::path::absolute(&options.mountpoint)?;
        let session = Session::new(server, &mountpoint, &config(options))?;
        // Nothing is asked before the session runs, so nothing finds this empty.
        device.get_or_init(|| session.as_fd().try_clone_to_owned());
        Ok(Self { counts, mountpoint, session: Some(session.spawn()?) })
    }

    /// Takes what [`Session::join`] waits for; ends when somebody else unmounts the file system.
    ///
    /// [`Session::join`]: BackgroundSession::join
    pub fn take_session(&mut self) -> Option<BackgroundSession> {
        self.session.take()
    }

    /// What was served so far.
    #[must_use]
    pub fn served(&self) -> Served {
        self.counts.served()
    }

    /// Unmounts although files may be open; who holds them gets errors once this process ends.
    ///
    /// # Errors
    /// When neither the system call nor `fusermount3` could do it.
    pub fn detach(&self) -> io::Result<()> {
        detach(&self.mountpoint)
    }
}

fn detach(mountpoint: &Path) -> io::Result<()> {
    match unmount(mountpoint, UnmountFlags::DETACH) {
        // EINVAL: somebody else unmounted it a moment ago.
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(rustix::io::Errno::PERM) => {
            let status = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(mountpoint).status()?;
            if status.success() {
                return Ok(());
            }
            Err(io::Error::other(format!("fusermount3: {status}")))
        }
        Err(error) => Err(error.into()),
    }
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::FSName("atta-slow-fs".to_owned()),
        MountOption::Subtype("atta-slow-fs".to_owned()),
    ];
    // Only root may show a file system to others without a line in /etc/fuse.conf.
    if crate::skip::is_root() {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(options.threads);
    // An answer that is written past fuser must go out where the request came in.
    config.clone_fd = !options.has_unknown_types;
    config
}

struct Server {
    tree: Tree,
    latency: Duration,
    faults: Vec<Fault>,
    /// Where listings without types are written to; none where fuser writes them.
    raw_device: Option<Arc<OnceLock<io::Result<OwnedFd>>>>,
    has_readdirplus: bool,
    counts: Arc<Counts>,
}

impl Server {
    /// Counts a request and lets it wait.
    fn delay(&self, operation: Operation) {
        let _in_flight = self.counts.enter(operation);
        if !self.latency.is_zero() {
            std::thread::sleep(self.latency);
        }
    }

    /// The node of an inode, unless a rule makes the operation fail on it.
    fn check(&self, operation: FaultedOperation, inode: u64) -> Result<Node, Errno> {
        let node = self.tree.node(inode).ok_or(Errno::ESTALE)?;
        if !self.faults.is_empty() {
            let name = self.tree.name(inode);
            if let Some(fault) = self.faults.iter().find(|fault| fault.hits(operation, &name)) {
                return Err(Errno::from_i32(fault.errno));
            }
        }
        Ok(node)
    }

    fn find(&self, parent: u64, name: &OsStr) -> Result<(u64, Node), Errno> {
        let Some(Node::Directory { number }) = self.tree.node(parent) else {
            return Err(Errno::ENOTDIR);
        };
        let inode = name.to_str().and_then(|name| self.tree.lookup(number, name));
        let inode = inode.ok_or(Errno::ENOENT)?;
        Ok((inode, self.check(FaultedOperation::Lookup, inode)?))
    }

    fn bytes(&self, inode: u64, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let node = self.check(FaultedOperation::Read, inode)?;
        let length = self.tree.attributes(inode, node).size;
        Ok(self.tree.content(inode, length, offset, u64::from(size)))
    }

    fn target(&self, inode: u64) -> Result<String, Errno> {
        let node = self.check(FaultedOperation::Read, inode)?;
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
        if let Err(error) = self.check(FaultedOperation::Read, inode) {
            // A server that breaks off has told something before: half of it, ten entries at most.
            end = 2 + (self.tree.length(number) / 2).min(10);
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
        let refused = |nearest| io::Error::other(format!("the kernel's limit is {nearest}"));
        config.set_max_background(BACKGROUND).map_err(refused)?;
        config.set_congestion_threshold(BACKGROUND).map_err(refused)?;
        // Without this the kernel lets one request into a directory at a time.
        let mut wanted = InitFlags::FUSE_PARALLEL_DIROPS;
        if self.has_readdirplus {
            wanted |= InitFlags::FUSE_DO_READDIRPLUS;
        }
        let lacking = |flags| io::Error::other(format!("the kernel lacks {flags:?}"));
        config.add_capabilities(wanted).map_err(lacking)
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.delay(Operation::Lookup);
        match self.find(parent.0, name) {
            Ok((inode, node)) => {
                let attributes = self.tree.attributes(inode, node);
                reply.entry(&Duration::ZERO, &attributes, Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.delay(Operation::Getattr);
        match self.check(FaultedOperation::Stat, inode.0) {
            Ok(node) => reply.attr(&Duration::ZERO, &self.tree.attributes(inode.0, node)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        self.delay(Operation::Readlink);
        match self.target(inode.0) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.delay(Operation::Open);
        match self.check(FaultedOperation::Open, inode.0) {
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
        self.delay(Operation::Read);
        match self.bytes(inode.0, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn opendir(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.delay(Operation::Opendir);
        match self.check(FaultedOperation::Open, inode.0) {
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
        self.delay(Operation::Readdir);
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
        self.delay(Operation::Readdir);
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
