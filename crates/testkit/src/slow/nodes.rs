//! What the kernel knows of a directory that is served: each entry as a descriptor that opens nothing, under the number of its
//! inode. Finds, forgets and renames; answers no requests.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, openat, statat};
use rustix::io::{Errno, Result};

/// Every entry that the kernel has a number of.
#[derive(Debug)]
pub(super) struct Nodes {
    known: Mutex<HashMap<u64, Node>>,
    /// The inode that the root has in its own file system; to the kernel it is 1.
    root: u64,
}

#[derive(Debug)]
struct Node {
    descriptor: Arc<OwnedFd>,
    /// Where it was found last: for rules.
    parent: u64,
    name: Vec<u8>,
    /// Number of lookups of it that the kernel holds.
    lookups: u64,
}

const ROOT: u64 = 1;

impl Nodes {
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, directory, flags, Mode::empty())?;
        let root = rustix::fs::fstat(&descriptor)?.st_ino;
        let node = Node { descriptor: Arc::new(descriptor), parent: ROOT, name: b".".to_vec(), lookups: 1 };
        Ok(Self { known: Mutex::new(HashMap::from([(ROOT, node)])), root })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Node>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The descriptor of an entry.
    pub(super) fn get(&self, inode: INodeNo) -> Result<Arc<OwnedFd>> {
        self.lock().get(&inode.0).map(|node| Arc::clone(&node.descriptor)).ok_or(Errno::STALE)
    }

    /// The path by which the kernel finds what the descriptor refers to, whatever it is called.
    pub(super) fn path_to(descriptor: &OwnedFd) -> String {
        format!("/proc/self/fd/{}", descriptor.as_raw_fd())
    }

    /// The path below the root of an entry, or of a name in it.
    pub(super) fn path(&self, inode: INodeNo, name: Option<&OsStr>) -> Vec<u8> {
        let known = self.lock();
        let mut names: Vec<&[u8]> = name.map(OsStr::as_bytes).into_iter().collect();
        let mut at = inode.0;
        while at != ROOT
            && let Some(node) = known.get(&at)
        {
            names.push(&node.name);
            at = node.parent;
        }
        names.reverse();
        if names.is_empty() { b".".to_vec() } else { names.join(&b'/') }
    }

    /// Finds a name in a directory, and keeps it until the kernel forgets it.
    pub(super) fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let directory = self.get(parent)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = openat(&directory, name, flags, Mode::empty())?;
        let attributes = self.attributes_of(&descriptor)?;
        let mut known = self.lock();
        let node = known.entry(attributes.ino.0).or_insert_with(|| Node {
            descriptor: Arc::new(descriptor),
            parent: parent.0,
            name: Vec::new(),
            lookups: 0,
        });
        (node.parent, node.name) = (parent.0, name.as_bytes().to_vec());
        node.lookups += 1;
        Ok(attributes)
    }

    /// In which directory an entry was found last, and by which name.
    pub(super) fn place(&self, inode: INodeNo) -> Result<(INodeNo, Vec<u8>)> {
        let known = self.lock();
        let node = known.get(&inode.0).ok_or(Errno::STALE)?;
        Ok((INodeNo(node.parent), node.name.clone()))
    }

    /// Notes that what is called so now was called otherwise.
    pub(super) fn rename(&self, directory: &OwnedFd, parent: INodeNo, name: &OsStr) -> Result<()> {
        let inode = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
        if let Some(node) = self.lock().get_mut(&inode) {
            (node.parent, node.name) = (parent.0, name.as_bytes().to_vec());
        }
        Ok(())
    }

    /// The kernel has dropped so many of its lookups.
    pub(super) fn forget(&self, inode: INodeNo, lookups: u64) {
        let mut known = self.lock();
        if let Some(node) = known.get_mut(&inode.0) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 {
                known.remove(&inode.0);
            }
        }
    }

    /// What an entry is.
    pub(super) fn attributes(&self, inode: INodeNo) -> Result<FileAttr> {
        self.attributes_of(&*self.get(inode)?)
    }

    fn attributes_of(&self, descriptor: &OwnedFd) -> Result<FileAttr> {
        let stat = statat(descriptor, "", AtFlags::EMPTY_PATH)?;
        let mut attributes = attributes_of(&stat);
        if attributes.ino.0 == self.root {
            attributes.ino.0 = ROOT;
        }
        Ok(attributes)
    }
}

fn attributes_of(stat: &Stat) -> FileAttr {
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    FileAttr {
        ino: INodeNo(stat.st_ino),
        size: number(stat.st_size),
        blocks: number(stat.st_blocks),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind_of(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: u16::try_from(stat.st_mode & 0o7777).unwrap_or_default(),
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: u32::try_from(stat.st_rdev).unwrap_or_default(),
        blksize: 4096,
        flags: 0,
    }
}

pub(super) fn kind_of(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Kind;
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let since = Duration::from_secs(seconds.unsigned_abs());
    let start = if seconds < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since };
    start + Duration::from_nanos(nanoseconds)
}
