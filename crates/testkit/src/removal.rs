//! Removes a tree of any depth, with unreadable directories in it, through two descriptors and without recursion.
//! Follows no link. Does not lift immutable flags and does not unmount: its caller does that first.
//!
//! A chain of 10^5 levels is longer than any path and any descriptor table allow. So a non-empty directory is moved to the top of the tree
//! and emptied later. No entry is ever more than two levels below the directory being emptied.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags};
use rustix::fs::{chmodat, fchmod, fstat, openat, renameat_with, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

/// Removes the directory at `path` and everything below it.
///
/// # Errors
/// The first error, after which part of the tree remains.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let mut removal = Removal { top: open_directory(CWD, path)?, waiting: BTreeSet::new(), moved: 0 };
    loop {
        let mut removed = removal.empty(None)?;
        while let Some(name) = removal.waiting.pop_first() {
            removed += removal.empty(Some(&name))?;
            match unlinkat(&removal.top, &name, AtFlags::REMOVEDIR) {
                Ok(()) => {}
                // A directory may skip names while it shrinks; the next pass finds them under this name.
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if removed > 0 => {}
            outcome => return Ok(outcome?),
        }
    }
}

struct Removal {
    top: OwnedFd,
    /// Names in the top directory of the directories moved there.
    waiting: BTreeSet<CString>,
    moved: u64,
}

impl Removal {
    /// Empties the top directory, or the one of this name in it, and returns the number of entries removed.
    fn empty(&mut self, name: Option<&CStr>) -> io::Result<u64> {
        let directory = open_directory(&self.top, name.unwrap_or(c"."))?;
        let mut removed = 0;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let entry_name = entry.file_name();
            let is_waiting = name.is_none() && self.waiting.contains(entry_name);
            if entry_name == c"." || entry_name == c".." || is_waiting {
                continue;
            }
            self.remove_entry(&directory, entry_name)?;
            removed += 1;
        }
        Ok(removed)
    }

    fn remove_entry(&mut self, directory: &OwnedFd, name: &CStr) -> io::Result<()> {
        match unlinkat(directory, name, AtFlags::empty()) {
            // Linux returns EISDIR; POSIX specifies EPERM.
            Err(Errno::ISDIR | Errno::PERM) => {}
            outcome => return Ok(outcome?),
        }
        match unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(self.move_up(directory, name)?),
            outcome => Ok(outcome?),
        }
    }

    fn move_up(&mut self, directory: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        loop {
            let waiting = CString::new(format!(".removal-{}", self.moved)).map_err(|_nul| Errno::INVAL)?;
            self.moved += 1;
            // Never replaces an entry of the tree that has this name.
            let flags = RenameFlags::NOREPLACE;
            match renameat_with(directory, name, &self.top, &waiting, flags) {
                Ok(()) => {
                    self.waiting.insert(waiting);
                    return Ok(());
                }
                Err(Errno::EXIST) => {}
                // A move rewrites the directory's "..", so its owner needs write permission on it.
                Err(Errno::ACCESS) => chmodat(directory, name, Mode::RWXU, AtFlags::empty())?,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Opens a directory for reading, and gives its owner all rights on it.
fn open_directory<Fd: AsFd, P: Arg + Copy>(at: Fd, name: P) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(&at, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            chmodat(&at, name, Mode::RWXU, AtFlags::empty())?;
            openat(&at, name, flags, Mode::empty())?
        }
        outcome => outcome?,
    };
    let mode = Mode::from_raw_mode(fstat(&directory)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        fchmod(&directory, Mode::RWXU)?;
    }
    Ok(directory)
}
