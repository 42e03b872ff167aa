//! A directory as a file system of its own: whatever is asked passes the [`Gate`] and is then done in the directory. What requests
//! look like and how they are answered is in `over/requests.rs`. It keeps nothing in memory but what the kernel has open.

mod requests;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{FileAttr, FileHandle, FileType, INodeNo, Request, TimeOrNow};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
    XattrFlags, openat,
};
use rustix::io::{Errno, Result, pread, pwrite};

use super::fault::Effect;
use super::kept::Kept;
use super::nodes::{Nodes, kind_of};
use super::operation::Operation;
use super::record::{Event, Record};
use super::service::{Gate, listed_before_error};
use super::unsynced::Unsynced;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Over {
    gate: Gate,
    nodes: Nodes,
    folds_case: bool,
    /// None: what is removed has no name at once.
    kept: Option<Kept>,
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
    notes: Notes,
}

/// What is noted of requests.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// None: nothing is lost.
    pub(super) unsynced: Option<Arc<Unsynced>>,
    /// The writes and syncs of the only file.
    pub(super) record: Option<Record>,
}

/// What the kernel has open.
#[derive(Clone, Debug)]
enum Open {
    File(Arc<OwnedFd>),
    Directory(Arc<Listing>),
}

impl Open {
    /// The inode of a file.
    fn inode(&self) -> Option<u64> {
        match self {
            Self::File(file) => rustix::fs::fstat(file).ok().map(|stat| stat.st_ino),
            Self::Directory(_) => None,
        }
    }
}

/// A directory as it was when it was opened.
#[derive(Debug)]
struct Listing {
    entries: Vec<Entry>,
    /// After so many entries comes this error.
    end: Option<(usize, Errno)>,
}

#[derive(Clone, Debug)]
struct Entry {
    inode: u64,
    kind: FileType,
    name: Vec<u8>,
}

impl Over {
    pub(super) fn new(directory: &Path, folds_case: bool, gate: Gate, notes: Notes) -> io::Result<Self> {
        let (open, next) = (Mutex::default(), AtomicU64::new(1));
        Ok(Self { gate, nodes: Nodes::new(directory)?, folds_case, kept: None, open, next, notes })
    }

    /// Keeps names of open files that are removed.
    pub(super) fn keeping(self, kept: Option<Kept>) -> Self {
        Self { kept, ..self }
    }

    /// Removes a name of a file.
    fn remove(&self, parent: INodeNo, name: &OsStr) -> Result<()> {
        let directory = self.nodes.get(parent)?;
        let Some(kept) = &self.kept else { return rustix::fs::unlinkat(&directory, name, AtFlags::empty()) };
        if Kept::is_kept(name) {
            return Err(Errno::BUSY);
        }
        let inode = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
        // No file is opened or closed meanwhile.
        let open = self.lock();
        match open.values().any(|open| open.inode() == Some(inode)) {
            true => kept.keep(directory, name, inode),
            false => rustix::fs::unlinkat(&directory, name, AtFlags::empty()),
        }
    }

    /// Notes that the bytes of a file have changed.
    fn note_file(&self, inode: INodeNo) -> Result<()> {
        if let Some(unsynced) = &self.notes.unsynced {
            unsynced.add_file(inode.0, self.nodes.get(inode)?);
        }
        Ok(())
    }

    /// Notes that a directory has a new name in it.
    fn note_name(&self, parent: INodeNo, name: &OsStr) -> Result<()> {
        if let Some(unsynced) = &self.notes.unsynced {
            unsynced.add_name(parent.0, self.nodes.get(parent)?, name);
        }
        Ok(())
    }

    /// Notes that a directory has lost a name.
    fn note_removed(&self, parent: INodeNo, name: &OsStr) {
        if let Some(unsynced) = &self.notes.unsynced {
            unsynced.remove_name(parent.0, name);
        }
    }

    /// Lets a request on an entry, or on a name in it, pass: what happens to its bytes, or that it fails.
    fn pass(
        &self,
        request: &Request,
        operation: Operation,
        inode: INodeNo,
        name: Option<&OsStr>,
        bytes: usize,
    ) -> Result<Option<Effect>> {
        self.gate.enter(operation);
        let effect = self.gate.meet(operation, || self.nodes.path(inode, name), bytes as u64);
        match effect {
            Some(Effect::Error(errno)) => return Err(Errno::from_raw_os_error(errno)),
            Some(Effect::Kill) => kill(request.pid()),
            Some(
                Effect::Done(_) | Effect::Delay(_) | Effect::Together(_) | Effect::Short(_) | Effect::Flip,
            )
            | Some(Effect::Lose | Effect::Twice | Effect::Size(_) | Effect::Endless)
            | None => {}
            Some(_) => self.change(effect, inode, name)?,
        }
        Ok(effect)
    }

    /// Does to an entry, or to a name in it, what somebody else might do just now.
    fn change(&self, effect: Option<Effect>, inode: INodeNo, name: Option<&OsStr>) -> Result<()> {
        let Some(name) = name else { return self.change_entry(effect, inode) };
        let found = self.nodes.find(inode, name)?.ino;
        let changed = self.change_entry(effect, found);
        self.nodes.forget(found, 1);
        changed
    }

    fn change_entry(&self, effect: Option<Effect>, inode: INodeNo) -> Result<()> {
        let (parent, name) = self.nodes.place(inode)?;
        let directory = self.nodes.get(parent)?;
        let private = Mode::RUSR | Mode::WUSR;
        if matches!(effect, Some(Effect::Vanish | Effect::Fifo | Effect::Directory | Effect::Link)) {
            rustix::fs::unlinkat(&directory, &name, AtFlags::empty())?;
        }
        match effect {
            Some(Effect::Vanish) => return Ok(()),
            Some(Effect::Fifo) => {
                return rustix::fs::mknodat(&directory, &name, rustix::fs::FileType::Fifo, private, 0);
            }
            Some(Effect::Directory) => return rustix::fs::mkdirat(&directory, &name, Mode::RWXU),
            Some(Effect::Link) => return rustix::fs::symlinkat("/etc/passwd", &directory, &name),
            _ => {}
        }
        let file = self.reopen(inode, OFlags::RDWR)?;
        let stat = rustix::fs::fstat(&file)?;
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        match effect {
            Some(Effect::Grow) => pwrite(&file, b"+", size).map(drop),
            Some(Effect::Cut) => rustix::fs::ftruncate(&file, size / 2),
            _ => {
                let mut byte = [0];
                pread(&file, &mut byte, 0)?;
                pwrite(&file, &[!byte[0]], 0)?;
                rustix::fs::futimens(&file, &times_of(&stat))
            }
        }
    }

    /// How a name is spelled in a directory, if case does not count there.
    fn spelled(&self, parent: INodeNo, name: &OsStr) -> OsString {
        let listing = if self.folds_case { self.list(parent, Ok(None)).ok() } else { None };
        let mut entries = listing.into_iter().flat_map(|listing| listing.entries);
        let found = entries.find(|entry| entry.name.eq_ignore_ascii_case(name.as_bytes()));
        found.map_or_else(|| name.to_owned(), |entry| OsString::from_vec(entry.name))
    }

    /// Opens what an entry is now, once more.
    fn reopen(&self, inode: INodeNo, flags: OFlags) -> Result<OwnedFd> {
        // It is found by the descriptor, not by its name; what must not exist does.
        let flags = flags - (OFlags::NOFOLLOW | OFlags::CREATE | OFlags::EXCL | OFlags::DIRECT);
        openat(CWD, Nodes::path_to(&*self.nodes.get(inode)?), flags | OFlags::CLOEXEC, Mode::empty())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, open: Open) -> FileHandle {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(handle, open);
        FileHandle(handle)
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<OwnedFd>> {
        match self.lock().get(&handle.0) {
            Some(Open::File(file)) => Ok(Arc::clone(file)),
            _ => Err(Errno::BADF),
        }
    }

    fn listing(&self, handle: FileHandle) -> Result<Arc<Listing>> {
        match self.lock().get(&handle.0) {
            Some(Open::Directory(listing)) => Ok(Arc::clone(listing)),
            _ => Err(Errno::BADF),
        }
    }

    fn close(&self, handle: FileHandle) {
        let mut open = self.lock();
        let closed = open.remove(&handle.0).and_then(|closed| closed.inode());
        if let (Some(kept), Some(inode)) = (&self.kept, closed)
            && !open.values().any(|open| open.inode() == Some(inode))
        {
            kept.close(inode);
        }
    }

    /// Reads a whole directory; an error that a rule has for that comes part way.
    fn list(&self, inode: INodeNo, passed: Result<Option<Effect>>) -> Result<Listing> {
        let directory = self.reopen(inode, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::new(directory)? {
            let entry = entry?;
            let (inode, kind) = (entry.ino(), kind_of(entry.file_type()));
            let times = if matches!(passed, Ok(Some(Effect::Twice))) { 2 } else { 1 };
            let name = entry.file_name().to_bytes().to_vec();
            entries.extend(std::iter::repeat_n(Entry { inode, kind, name }, times));
        }
        // The two dots first, wherever the directory has them.
        entries.sort_by_key(|entry| !matches!(entry.name.as_slice(), b"." | b".."));
        let shown = usize::try_from(listed_before_error(entries.len() as u64)).unwrap_or_default();
        Ok(Listing { entries, end: passed.err().map(|errno| (shown, errno)) })
    }

    /// Reads, as far as a rule lets it.
    fn read_at(&self, file: &OwnedFd, offset: u64, size: u32, effect: Option<Effect>) -> Result<Vec<u8>> {
        let wanted = match effect {
            Some(Effect::Short(most)) => size.min(most),
            _ => size,
        };
        let mut bytes = vec![0; wanted as usize];
        let mut read = 0;
        while read < bytes.len() {
            match pread(file, &mut bytes[read..], offset + read as u64)? {
                0 if effect == Some(Effect::Endless) => read = bytes.len(),
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        if effect == Some(Effect::Flip) {
            self.gate.faults().flip(&mut bytes, offset);
        }
        Ok(bytes)
    }

    /// Writes, as a rule has it; returns how much it says to have written.
    fn write_at(&self, file: &OwnedFd, offset: u64, bytes: &[u8], effect: Option<Effect>) -> Result<usize> {
        let mut bytes = bytes.to_vec();
        match effect {
            Some(Effect::Lose) => return Ok(bytes.len()),
            Some(Effect::Short(most)) => bytes.truncate(most as usize),
            Some(Effect::Flip) => self.gate.faults().flip(&mut bytes, offset),
            _ => {}
        }
        let write = || pwrite(file, &bytes, offset);
        let written = match &self.notes.record {
            Some(record) => record.note(write, |&written| Event::Write(offset, bytes[..written].to_vec()))?,
            None => write()?,
        };
        self.gate.faults().add_written(written as u64);
        Ok(written)
    }

    /// Makes or removes room in a file.
    fn allocate(&self, file: &OwnedFd, mode: FallocateFlags, range: (u64, u64)) -> Result<()> {
        let allocate = || rustix::fs::fallocate(file, mode, range.0, range.1);
        let clears = mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE);
        match self.notes.record.as_ref().filter(|_| clears) {
            Some(record) => record.note(allocate, |()| Event::Clear(range.0, range.1)),
            None => allocate(),
        }
    }

    /// Attributes as a rule has them.
    fn say(attributes: FileAttr, effect: Option<Effect>) -> FileAttr {
        match effect {
            Some(Effect::Size(size)) => FileAttr { size, ..attributes },
            _ => attributes,
        }
    }

    /// Gives what was made to who asked for it.
    fn give(&self, request: &Request, parent: INodeNo, name: &OsStr) -> Result<()> {
        let (uid, gid) = (Uid::from_raw(request.uid()), Gid::from_raw(request.gid()));
        if uid.is_root() && gid.is_root() {
            return Ok(());
        }
        let directory = self.nodes.get(parent)?;
        rustix::fs::chownat(&directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn set_mode(&self, inode: INodeNo, mode: u32) -> Result<()> {
        let path = Nodes::path_to(&*self.nodes.get(inode)?);
        rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())
    }

    fn set_owner(&self, inode: INodeNo, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(&self.nodes.get(inode)?, "", uid, gid, AtFlags::EMPTY_PATH)
    }

    fn set_size(&self, inode: INodeNo, size: u64) -> Result<()> {
        rustix::fs::ftruncate(self.reopen(inode, OFlags::WRONLY)?, size)?;
        self.note_file(inode)
    }

    fn set_times(&self, inode: INodeNo, atime: Option<TimeOrNow>, mtime: Option<TimeOrNow>) -> Result<()> {
        let times = Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) };
        rustix::fs::utimensat(&self.nodes.get(inode)?, "", &times, AtFlags::EMPTY_PATH)
    }

    fn set_extended(&self, inode: INodeNo, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        rustix::fs::setxattr(Nodes::path_to(&*self.nodes.get(inode)?), name, value, flags)
    }
}

/// What is answered to a request that was served.
fn answer(effect: Option<Effect>) -> Result<()> {
    match effect {
        Some(Effect::Done(errno)) => Err(Errno::from_raw_os_error(errno)),
        _ => Ok(()),
    }
}

/// The process that a request came from; one that has ended meanwhile needs no more.
fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let _ended = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
}

fn times_of(stat: &rustix::fs::Stat) -> Timestamps {
    let time = |tv_sec, nanoseconds: u64| Timespec { tv_sec, tv_nsec: nanoseconds.cast_signed() };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let time = match time {
        None => return special(UTIME_OMIT),
        Some(TimeOrNow::Now) => return special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => time,
    };
    let seconds = |since: std::time::Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(std::time::UNIX_EPOCH) {
        Ok(since) => Timespec { tv_sec: seconds(since), tv_nsec: since.subsec_nanos().into() },
        // fuser reads nanoseconds before 1970 the wrong way round, so that here they are what they were.
        Err(before) => {
            let before = before.duration();
            Timespec { tv_sec: -seconds(before), tv_nsec: before.subsec_nanos().into() }
        }
    }
}
