//! What a served directory would lose if the machine went down now: bytes of files that were written and not synced since, and
//! names whose directory was not synced since. Keeps track, and loses them on request; it serves nothing.
//!
//! It is stricter than a real file system: a file loses all its bytes, not only the last ones, and what was replaced does not
//! come back.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use super::nodes::Nodes;
use crate::removal;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Files with bytes that were not synced, by inode.
    files: HashMap<u64, Arc<OwnedFd>>,
    /// Names that were not synced, by the inode of their directory.
    names: HashMap<u64, Names>,
}

#[derive(Debug)]
struct Names {
    directory: Arc<OwnedFd>,
    names: HashSet<OsString>,
}

impl Unsynced {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a file have changed.
    pub(super) fn add_file(&self, inode: u64, file: Arc<OwnedFd>) {
        self.lock().files.insert(inode, file);
    }

    /// A directory has a new name in it.
    pub(super) fn add_name(&self, inode: u64, directory: Arc<OwnedFd>, name: &OsStr) {
        let mut state = self.lock();
        let new = || Names { directory, names: HashSet::new() };
        state.names.entry(inode).or_insert_with(new).names.insert(name.to_owned());
    }

    /// A directory has lost a name.
    pub(super) fn remove_name(&self, inode: u64, name: &OsStr) {
        if let Some(names) = self.lock().names.get_mut(&inode) {
            names.names.remove(name);
        }
    }

    /// A file was synced.
    pub(super) fn sync_file(&self, inode: u64) {
        self.lock().files.remove(&inode);
    }

    /// A directory was synced.
    pub(super) fn sync_directory(&self, inode: u64) {
        self.lock().names.remove(&inode);
    }

    /// Loses all that was not synced.
    pub(super) fn lose(&self) -> io::Result<()> {
        let State { files, names } = std::mem::take(&mut *self.lock());
        for file in files.values() {
            let opened = openat(CWD, Nodes::path_to(file), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::fs::ftruncate(opened, 0)?;
        }
        for Names { directory, names } in names.values() {
            for name in names {
                lose_name(directory, name)?;
            }
        }
        Ok(())
    }
}

fn lose_name(directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        // It was renamed, or lost with a directory above it.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => removal::remove(&Path::new(&Nodes::path_to(directory)).join(name)),
        Err(errno) => Err(errno.into()),
    }
}
