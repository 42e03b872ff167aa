//! Names of files that were removed while they were open, kept until they are closed, as an NFS client does. Which files are open is decided in
//! `over.rs`. This module serves nothing.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, renameat, unlinkat};
use rustix::io::Result;

const PREFIX: &[u8] = b".nfs";

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// By inode: the directory and the kept name.
    names: Mutex<HashMap<u64, (Arc<OwnedFd>, String)>>,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Arc<OwnedFd>, String)>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is such a name: a client cannot remove it.
    pub(super) fn is_kept(name: &OsStr) -> bool {
        name.as_bytes().starts_with(PREFIX)
    }

    /// Gives an open file a kept name in place of this one.
    pub(super) fn keep(&self, directory: Arc<OwnedFd>, name: &OsStr, inode: u64) -> Result<()> {
        let kept = format!(".nfs{inode:016x}{:08x}", 1);
        renameat(&directory, name, &directory, &kept)?;
        self.lock().insert(inode, (directory, kept));
        Ok(())
    }

    /// The file was closed: removes its kept name, if it has one.
    pub(super) fn close(&self, inode: u64) {
        if let Some((directory, name)) = self.lock().remove(&inode) {
            // Somebody may have removed it without the client.
            let _gone = unlinkat(directory, name, AtFlags::empty());
        }
    }
}
