//! The slow, obvious walk: one thread, one `lstat` for each entry, names and records as `find` has them. What the
//! program finds is compared with this, so it shares no code with it. Crosses mounts and follows no link, as `find -P`
//! does; knows no rules, no limits and no speed.
//!
//! It holds one descriptor, whatever the depth: it enters a directory by name, leaves it by `..`, and checks by device
//! and inode that it came back to where it was.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// What `lstat` and `readlink` say about one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The letter of `find -printf %y`: f, d, l, p, s, c or b; `?` where `lstat` failed, and then all numbers are 0.
    pub kind: char,
    /// The twelve bits of `%m`.
    pub mode: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// Names of the inode.
    pub nlink: u64,
    /// Bytes; as the file system likes for a directory.
    pub size: u64,
    /// Allocated blocks of 512 bytes.
    pub blocks: u64,
    /// The inode's number.
    pub ino: u64,
    /// The device that it lies on.
    pub dev: u64,
    /// The device that it is; 0 for what is none.
    pub rdev: u64,
    /// Modification time, whole seconds since 1970, rounded down.
    pub mtime_sec: i64,
    /// Modification time, nanoseconds past the second.
    pub mtime_nsec: u32,
    /// Where a symlink leads.
    pub target: Option<Vec<u8>>,
    /// The error number of a directory that could not be opened or read to its end, or of the `lstat` that failed.
    pub unread: Option<i32>,
}

/// Every entry at and below `root`, by its path as `find` prints it. The paths of a deep chain take memory with the
/// square of its depth (20,000 levels of ten bytes: 2 GB); see [`visit`] for those.
///
/// # Errors
/// When the root cannot be examined, or the tree changed under the walk.
pub fn list(root: &Path) -> io::Result<BTreeMap<Vec<u8>, Record>> {
    let mut found = BTreeMap::new();
    visit(root, &mut |path, record| {
        found.insert(path.to_vec(), record);
    })?;
    Ok(found)
}

/// Calls `see` for every entry at and below `root` and returns how many there were. A directory comes after what lies
/// below it, because only then is it known whether it could be read to its end.
///
/// # Errors
/// When the root cannot be examined, or the tree changed under the walk.
pub fn visit(root: &Path, see: &mut dyn FnMut(&[u8], Record)) -> io::Result<u64> {
    let path = root.as_os_str().as_bytes().to_vec();
    let record = record(CWD, &path)?;
    if record.kind != 'd' {
        see(&path, record);
        return Ok(1);
    }
    let here = openat(CWD, root, DIRECTORY, Mode::empty())?;
    let mut walk = Walk { frames: vec![Frame::read(record, &here, path.len())], path, here, seen: 0, see };
    while walk.step()? {}
    Ok(walk.seen)
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory that is being walked.
struct Frame {
    record: Record,
    /// Names that are still to be seen.
    names: Vec<Vec<u8>>,
    /// How much of the walk's path is this directory's.
    path_length: usize,
}

impl Frame {
    fn read(mut record: Record, directory: &OwnedFd, path_length: usize) -> Self {
        let mut names = Vec::new();
        if let Err(error) = read_names(directory, &mut names) {
            record.unread = Some(error.raw_os_error());
        }
        Self { record, names, path_length }
    }
}

struct Walk<'a> {
    frames: Vec<Frame>,
    /// The path of the last frame.
    path: Vec<u8>,
    /// The directory of the last frame.
    here: OwnedFd,
    seen: u64,
    see: &'a mut dyn FnMut(&[u8], Record),
}

impl Walk<'_> {
    /// Takes one name of the last frame, or leaves that frame; false at the end.
    fn step(&mut self) -> io::Result<bool> {
        let Some(frame) = self.frames.last_mut() else {
            return Ok(false);
        };
        let Some(name) = frame.names.pop() else {
            self.leave()?;
            return Ok(true);
        };
        if self.path.last() != Some(&b'/') {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&name);
        let record = record(&self.here, &name).unwrap_or_else(|error| Record {
            kind: '?',
            unread: error.raw_os_error(),
            ..Record::default()
        });
        if record.kind == 'd' {
            self.enter(&name, record)?;
        } else {
            self.report(record);
            self.shorten();
        }
        Ok(true)
    }

    fn enter(&mut self, name: &[u8], mut record: Record) -> io::Result<()> {
        match openat(&self.here, name, DIRECTORY, Mode::empty()) {
            Ok(directory) => {
                check_identity(&directory, &record)?;
                self.frames.push(Frame::read(record, &directory, self.path.len()));
                self.here = directory;
            }
            Err(error) => {
                record.unread = Some(error.raw_os_error());
                self.report(record);
                self.shorten();
            }
        }
        Ok(())
    }

    /// Reports the last frame's directory and goes up to the one above.
    fn leave(&mut self) -> io::Result<()> {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        self.path.truncate(frame.path_length);
        self.report(frame.record);
        if let Some(above) = self.frames.last() {
            self.here = match openat(&self.here, c"..", DIRECTORY, Mode::empty()) {
                // To look up ".." in a directory takes the right to enter it, which reading it did not.
                Err(Errno::ACCESS) => self.descend()?,
                outcome => outcome?,
            };
            check_identity(&self.here, &above.record)?;
        }
        self.shorten();
        Ok(())
    }

    /// Opens the last frame's directory from the root, a step for each frame.
    fn descend(&self) -> Result<OwnedFd, Errno> {
        let mut start = 0;
        let mut here = None;
        for frame in &self.frames {
            let name = &self.path[start..frame.path_length];
            let name = if start == 0 { name } else { name.strip_prefix(b"/").unwrap_or(name) };
            let at = here.as_ref().map_or(CWD, AsFd::as_fd);
            here = Some(openat(at, name, DIRECTORY, Mode::empty())?);
            start = frame.path_length;
        }
        here.ok_or(Errno::NOENT)
    }

    fn report(&mut self, record: Record) {
        self.seen += 1;
        (self.see)(&self.path, record);
    }

    fn shorten(&mut self) {
        let length = self.frames.last().map_or(0, |frame| frame.path_length);
        self.path.truncate(length);
    }
}

fn read_names(directory: &OwnedFd, names: &mut Vec<Vec<u8>>) -> Result<(), Errno> {
    // A copy of the descriptor, because opening "." takes the right to enter the directory, and find needs none.
    for entry in Dir::new(fcntl_dupfd_cloexec(directory, 0)?)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(())
}

/// An oracle that walks another tree than it says is worse than none.
fn check_identity(directory: &OwnedFd, record: &Record) -> io::Result<()> {
    let stat = fstat(directory)?;
    if (stat.st_dev, stat.st_ino) == (record.dev, record.ino) {
        return Ok(());
    }
    Err(io::Error::other("the tree changed while the oracle walked it"))
}

fn record<Fd: AsFd>(at: Fd, name: &[u8]) -> io::Result<Record> {
    let stat = statat(&at, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)?;
    let kind = kind(&stat);
    let target = match kind {
        'l' => Some(readlinkat(&at, name, Vec::new())?.into_bytes()),
        _ => None,
    };
    Ok(Record {
        kind,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        nlink: stat.st_nlink,
        size: u64::try_from(stat.st_size).map_err(io::Error::other)?,
        blocks: u64::try_from(stat.st_blocks).map_err(io::Error::other)?,
        ino: stat.st_ino,
        dev: stat.st_dev,
        rdev: stat.st_rdev,
        mtime_sec: stat.st_mtime,
        mtime_nsec: u32::try_from(stat.st_mtime_nsec).map_err(io::Error::other)?,
        target,
        unread: None,
    })
}

fn kind(stat: &Stat) -> char {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => 'f',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::CharacterDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Unknown => '?',
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{scratch::Scratch, skip, trees};

    /// Path, then type, mode, owner, group, links, size, blocks, inode, device and target, as find prints them.
    const FORMAT: &str = r"%p\0%y %m %U %G %n %s %b %i %D\0%l\0";

    /// By path: what the format has between its NUL bytes.
    type Printed = BTreeMap<Vec<u8>, (String, Vec<u8>)>;

    fn as_find_prints(found: &BTreeMap<Vec<u8>, Record>) -> Printed {
        let line = |record: &Record| {
            let Record { kind, mode, uid, gid, nlink, size, blocks, ino, dev, .. } = record;
            format!("{kind} {mode:o} {uid} {gid} {nlink} {size} {blocks} {ino} {dev}")
        };
        let pairs = found.iter();
        pairs
            .map(|(path, record)| (path.clone(), (line(record), record.target.clone().unwrap_or_default())))
            .collect()
    }

    fn find(root: &Path) -> Option<Printed> {
        let output = Command::new("find").arg(root).args(["-printf", FORMAT]).output();
        let Ok(output) = output else {
            skip::skipped("oracle against find", "find is not installed");
            return None;
        };
        let mut fields = output.stdout.split(|&byte| byte == 0);
        let mut found = BTreeMap::new();
        while let (Some(path), Some(line), Some(target)) = (fields.next(), fields.next(), fields.next()) {
            let line = String::from_utf8_lossy(line).into_owned();
            found.insert(path.to_vec(), (line, target.to_vec()));
        }
        Some(found)
    }

    #[test]
    fn agrees_with_find() {
        let scratch = Scratch::new("oracle").unwrap();
        trees::hostile_names(&scratch.join("names")).unwrap();
        trees::kinds(&scratch.join("kinds"), &scratch.join("outside")).unwrap();
        trees::times(&scratch.join("times")).unwrap();
        trees::chain(&scratch.join("chain"), 1000, b"level").unwrap();
        trees::random(&scratch.join("random"), 5, 300).unwrap();
        let slash = scratch.join("random/");
        for root in [scratch.path(), &slash, &scratch.join("kinds/fifo")] {
            let Some(expected) = find(root) else { return };
            assert_eq!(as_find_prints(&list(root).unwrap()), expected, "{}", root.display());
        }
    }

    #[test]
    fn link_as_root_is_not_followed() {
        let scratch = Scratch::new("root").unwrap();
        rustix::fs::symlinkat("/", CWD, scratch.join("link")).unwrap();
        let found = list(&scratch.join("link")).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found.values().next().unwrap().target.as_deref(), Some(b"/".as_slice()));
    }

    #[test]
    fn missing_root_is_an_error() {
        let scratch = Scratch::new("missing").unwrap();
        let error = list(&scratch.join("nothing")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
