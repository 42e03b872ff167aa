//! The list that `copy-limit` copies by: every directory and file of a tree with what `stat` says of it, sorted, in memory
//! or as bytes in a file. It knows directories and files alone, and refuses a tree with anything else in it.

use std::ffi::{CStr, CString};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};

/// One directory or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Below the root; the root itself is `.`.
    pub(crate) path: CString,
    /// Type and permissions.
    pub(crate) mode: u32,
    /// The owner's number.
    pub(crate) uid: u32,
    /// The group's number.
    pub(crate) gid: u32,
    /// Bytes.
    pub(crate) size: u64,
    /// Seconds and nanoseconds of the access time.
    pub(crate) accessed: (i64, i64),
    /// The same of the modification time.
    pub(crate) modified: (i64, i64),
}

/// A tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    /// Each after the one that it lies in; the root is the first.
    pub(crate) directories: Vec<Entry>,
    /// By path.
    pub(crate) files: Vec<Entry>,
}

impl List {
    /// The list of a tree.
    ///
    /// # Errors
    ///
    /// What the file system says, and `Unsupported` for an entry that is neither a directory nor a file.
    pub(crate) fn of(root: &Path) -> io::Result<Self> {
        let mut list = Self::default();
        let root = openat(CWD, root, directory_flags(), Mode::empty())?;
        list.directories.push(Entry::new(c".".to_owned(), &fstat(&root)?));
        list.add(&root, b"")?;
        list.files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(list)
    }

    /// Adds what is in a directory, whose path ends with a slash unless it is the root's.
    fn add(&mut self, directory: &OwnedFd, path: &[u8]) -> io::Result<()> {
        for name in Dir::read_from(directory)? {
            let name = name?;
            let name = name.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let entry = Entry::new(joined(path, name), &statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?);
            match FileType::from_raw_mode(entry.mode) {
                FileType::RegularFile => self.files.push(entry),
                FileType::Directory => {
                    let below = [entry.path.as_bytes(), b"/"].concat();
                    self.directories.push(entry);
                    self.add(&openat(directory, name, directory_flags(), Mode::empty())?, &below)?;
                }
                kind => {
                    let text = format!("{:?}: neither a directory nor a file: {kind:?}", entry.path);
                    return Err(io::Error::new(ErrorKind::Unsupported, text));
                }
            }
        }
        Ok(())
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The list as a file holds it.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![];
        for entry in self.directories.iter().chain(&self.files) {
            bytes.extend([entry.mode, entry.uid, entry.gid].iter().flat_map(|number| number.to_le_bytes()));
            bytes.extend(entry.size.to_le_bytes());
            let times = [entry.accessed.0, entry.accessed.1, entry.modified.0, entry.modified.1];
            bytes.extend(times.iter().flat_map(|number| number.to_le_bytes()));
            bytes.extend(entry.path.as_bytes_with_nul());
        }
        bytes
    }

    /// The list that [`Self::to_bytes`] made bytes of.
    ///
    /// # Errors
    ///
    /// `InvalidData` where that is not so.
    pub(crate) fn from_bytes(mut bytes: &[u8]) -> io::Result<Self> {
        let mut list = Self::default();
        while !bytes.is_empty() {
            let entry = Entry::take(&mut bytes).ok_or(ErrorKind::InvalidData)?;
            match FileType::from_raw_mode(entry.mode) {
                FileType::Directory => list.directories.push(entry),
                _ => list.files.push(entry),
            }
        }
        Ok(list)
    }
}

impl Entry {
    fn new(path: CString, stat: &Stat) -> Self {
        Self {
            path,
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            accessed: (stat.st_atime, nanoseconds(stat.st_atime_nsec)),
            modified: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let [mode, uid, gid] = [short(bytes)?, short(bytes)?, short(bytes)?];
        let size = u64::from_le_bytes(*split(bytes)?);
        let (accessed, modified) = ((long(bytes)?, long(bytes)?), (long(bytes)?, long(bytes)?));
        let path = CStr::from_bytes_until_nul(bytes).ok()?;
        *bytes = bytes.get(path.count_bytes() + 1..)?;
        Some(Self { path: path.to_owned(), mode, uid, gid, size, accessed, modified })
    }
}

fn split<'bytes, const LENGTH: usize>(bytes: &mut &'bytes [u8]) -> Option<&'bytes [u8; LENGTH]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

fn short(bytes: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*split(bytes)?))
}

fn long(bytes: &mut &[u8]) -> Option<i64> {
    Some(i64::from_le_bytes(*split(bytes)?))
}

/// Unsigned on some platforms; below 10^9 on all.
fn nanoseconds(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(0)
}

fn joined(path: &[u8], name: &CStr) -> CString {
    CString::new([path, name.to_bytes()].concat()).unwrap_or_else(|_| name.to_owned())
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_survives_encoding_but_no_part_of_it() {
        let entry = |path: &CStr, mode| Entry {
            path: path.to_owned(),
            mode,
            uid: 1,
            gid: u32::MAX,
            size: 7 << 40,
            accessed: (-1, 999_999_999),
            modified: (i64::MAX, 0),
        };
        let directories = vec![entry(c".", 0o040_700), entry(c"a", 0o042_755)];
        let list = List { directories, files: vec![entry(c"a/\xff\n", 0o100_644)] };
        let bytes = list.to_bytes();
        assert_eq!(List::from_bytes(&bytes).unwrap(), list);
        assert!(List::from_bytes(&bytes[..bytes.len() - 1]).is_err());
        assert!(List::from_bytes(&bytes[..20]).is_err());
    }
}
