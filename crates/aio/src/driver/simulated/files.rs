//! The state of a simulated file system: nodes, names, descriptors, a clock. The modules beside this one define the operations;
//! the driver defines when they happen.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;
use std::time::Duration;

use atta_entry::Errno;

use crate::{Fd, Outcome};

/// The number of the root directory.
pub(super) const ROOT: u64 = 1;
/// The first descriptor: far above the kernel's, so that a mix-up of both is an error.
const DESCRIPTOR_FIRST: RawFd = 1_000_000;
/// The maximum number of open descriptors (`EMFILE`).
const DESCRIPTORS_MOST: usize = 1 << 16;
/// The start of the clock, in seconds since 1970.
pub(super) const EPOCH: i64 = 1_000_000_000;

/// Seconds since 1970, and nanoseconds.
pub(super) type Time = (i64, u32);

/// The bytes of a name.
pub(super) type Name = Vec<u8>;

/// An entry of a directory.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) node: u64,
    /// The position in the reading order of the directory. It never changes and is not reused.
    pub(super) place: u64,
}

/// The type of a node, with its content.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    File(Vec<u8>),
    Directory { names: BTreeMap<Name, Entry>, parent: u64, next_place: u64 },
    Link(Vec<u8>),
}

/// A file, directory or symlink.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) device: u32,
    pub(super) mode: u32,
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) accessed: Time,
    pub(super) modified: Time,
    pub(super) changed: Time,
    pub(super) created: Time,
    pub(super) attributes: BTreeMap<Name, Vec<u8>>,
}

/// A node with its reference counts.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) now: Node,
    /// The node after a loss of power, if its name survives.
    pub(super) durable: Node,
    pub(super) links: u32,
    pub(super) durable_links: u32,
    pub(super) opens: u32,
}

/// An open file.
#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    pub(super) node: u64,
    pub(super) flags: i32,
    pub(super) position: u64,
}

impl Descriptor {
    fn is_path(&self) -> bool {
        self.flags & libc::O_PATH != 0
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.is_path() && self.flags & libc::O_ACCMODE != libc::O_WRONLY
    }

    pub(super) fn is_writable(&self) -> bool {
        !self.is_path() && self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) now: Duration,
    nodes: BTreeMap<u64, Kept>,
    next_node: u64,
    next_device: u32,
    descriptors: BTreeMap<RawFd, Descriptor>,
    free: BTreeSet<RawFd>,
    pub(super) room: u64,
    pub(super) used: u64,
    pub(super) file_bytes_most: u64,
}

impl Files {
    pub(super) fn new(room: u64, file_bytes_most: u64) -> Self {
        let mut files = Self {
            now: Duration::ZERO,
            nodes: BTreeMap::new(),
            next_node: ROOT,
            next_device: 1,
            descriptors: BTreeMap::new(),
            free: BTreeSet::new(),
            room,
            used: 0,
            file_bytes_most,
        };
        let root = files.add(directory(ROOT), 0o755, 1);
        files.nodes.entry(root).and_modify(|kept| (kept.links, kept.durable_links) = (1, 1));
        files
    }

    /// Creates a directory that is a file system of its own; it is durable.
    pub(super) fn mount(&mut self, name: &[u8]) -> Result<(), Errno> {
        if name.is_empty() || name.contains(&b'/') || self.child(ROOT, name)?.is_some() {
            return Err(Errno(libc::EEXIST));
        }
        self.next_device += 1;
        let node = self.add(directory(ROOT), 0o755, self.next_device);
        self.add_name(ROOT, name, node)?;
        self.sync_names(ROOT)
    }

    /// The current time for files.
    pub(super) fn time(&self) -> Time {
        (EPOCH + self.now.as_secs() as i64, self.now.subsec_nanos())
    }

    /// Adds a node without a name.
    pub(super) fn add(&mut self, kind: Kind, mode: u32, device: u32) -> u64 {
        let (number, time) = (self.next_node, self.time());
        self.next_node += 1;
        let now = Node {
            kind,
            device,
            mode: mode & 0o7777,
            owner: 0,
            group: 0,
            accessed: time,
            modified: time,
            changed: time,
            created: time,
            attributes: BTreeMap::new(),
        };
        let durable = now.clone();
        self.nodes.insert(number, Kept { now, durable, links: 0, durable_links: 0, opens: 0 });
        number
    }

    pub(super) fn kept(&self, node: u64) -> Result<&Kept, Errno> {
        self.nodes.get(&node).ok_or(Errno::STALE)
    }

    pub(super) fn kept_mut(&mut self, node: u64) -> Result<&mut Kept, Errno> {
        self.nodes.get_mut(&node).ok_or(Errno::STALE)
    }

    pub(super) fn node(&self, node: u64) -> Result<&Node, Errno> {
        self.kept(node).map(|kept| &kept.now)
    }

    pub(super) fn node_mut(&mut self, node: u64) -> Result<&mut Node, Errno> {
        self.kept_mut(node).map(|kept| &mut kept.now)
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> &BTreeMap<u64, Kept> {
        &self.nodes
    }

    /// The same files with other nodes, and without open descriptors.
    pub(super) fn with_nodes(&self, nodes: BTreeMap<u64, Kept>, used: u64) -> Self {
        let (descriptors, free) = (BTreeMap::new(), BTreeSet::new());
        Self { nodes, used, descriptors, free, ..self.clone() }
    }

    /// The names in a directory.
    pub(super) fn names(&self, directory: u64) -> Result<&BTreeMap<Name, Entry>, Errno> {
        match &self.node(directory)?.kind {
            Kind::Directory { names, .. } => Ok(names),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// The node of a name in a directory.
    pub(super) fn child(&self, directory: u64, name: &[u8]) -> Result<Option<u64>, Errno> {
        Ok(self.names(directory)?.get(name).map(|entry| entry.node))
    }

    pub(super) fn is_directory(&self, node: u64) -> bool {
        self.names(node).is_ok()
    }

    /// Gives a node a free name.
    pub(super) fn add_name(&mut self, directory: u64, name: &[u8], node: u64) -> Result<(), Errno> {
        let time = self.time();
        // Nothing can be created in a removed directory.
        if self.kept(directory)?.links == 0 {
            return Err(Errno::NOENT);
        }
        let holder = self.node_mut(directory)?;
        let Kind::Directory { names, next_place, .. } = &mut holder.kind else { return Err(Errno::NOTDIR) };
        names.insert(name.to_vec(), Entry { node, place: *next_place });
        *next_place += 1;
        (holder.modified, holder.changed) = (time, time);
        let kept = self.kept_mut(node)?;
        kept.links += 1;
        kept.now.changed = time;
        if let Kind::Directory { parent, .. } = &mut kept.now.kind {
            *parent = directory;
        }
        Ok(())
    }

    /// Removes a name. The node is kept.
    pub(super) fn remove_name(&mut self, directory: u64, name: &[u8]) -> Result<u64, Errno> {
        let time = self.time();
        let holder = self.node_mut(directory)?;
        let Kind::Directory { names, .. } = &mut holder.kind else { return Err(Errno::NOTDIR) };
        let entry = names.remove(name).ok_or(Errno::NOENT)?;
        (holder.modified, holder.changed) = (time, time);
        let kept = self.kept_mut(entry.node)?;
        kept.links -= 1;
        kept.now.changed = time;
        Ok(entry.node)
    }

    /// Frees a node without links and open descriptors.
    pub(super) fn forget(&mut self, node: u64) {
        let Some(kept) = self.nodes.get_mut(&node) else { return };
        if kept.links > 0 || kept.opens > 0 {
            return;
        }
        let bytes = match &mut kept.now.kind {
            Kind::File(data) => std::mem::take(data).len() as u64,
            _ => 0,
        };
        self.used -= bytes;
        if kept.durable_links == 0 {
            self.nodes.remove(&node);
        }
    }

    /// Opens a node.
    pub(super) fn open(&mut self, node: u64, flags: i32) -> Outcome {
        if self.descriptors.len() >= DESCRIPTORS_MOST {
            return Err(Errno(libc::EMFILE));
        }
        let next = DESCRIPTOR_FIRST + self.descriptors.len() as RawFd;
        let fd = self.free.pop_first().unwrap_or(next);
        self.kept_mut(node)?.opens += 1;
        self.descriptors.insert(fd, Descriptor { node, flags, position: 0 });
        Ok(fd as u64)
    }

    pub(super) fn close(&mut self, fd: RawFd) -> Outcome {
        let descriptor = self.descriptors.remove(&fd).ok_or(Errno(libc::EBADF))?;
        self.free.insert(fd);
        self.kept_mut(descriptor.node)?.opens -= 1;
        self.forget(descriptor.node);
        Ok(0)
    }

    /// The number of open descriptors.
    pub(super) fn descriptors(&self) -> usize {
        self.descriptors.len()
    }

    /// An open file, which may be opened with `O_PATH`.
    pub(super) fn any_descriptor(&self, fd: &Fd) -> Result<&Descriptor, Errno> {
        self.descriptors.get(&fd.raw()).ok_or(Errno(libc::EBADF))
    }

    /// An open file, not opened with `O_PATH`.
    pub(super) fn descriptor(&self, fd: &Fd) -> Result<&Descriptor, Errno> {
        self.any_descriptor(fd)
            .and_then(|open| if open.is_path() { Err(Errno(libc::EBADF)) } else { Ok(open) })
    }

    /// Sets the position of an open file.
    pub(super) fn set_position(&mut self, fd: &Fd, to: u64) {
        if let Some(open) = self.descriptors.get_mut(&fd.raw()) {
            open.position = to;
        }
    }
}

/// An empty directory.
pub(super) fn directory(parent: u64) -> Kind {
    // The first two positions are those of `.` and `..`.
    Kind::Directory { names: BTreeMap::new(), parent, next_place: 2 }
}
