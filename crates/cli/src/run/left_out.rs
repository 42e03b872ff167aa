//! The directories of a job, which change while the run goes on: they are left out of the tree. Nothing else of it is.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use atta_entry::Entry;
use atta_ops::resume::{self, JobPlace};
use atta_ops::walk;
use rustix::fd::OwnedFd;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// Device and inode of the job's directory.
    job: OnceLock<(u64, u64)>,
    /// The directory of all runs that it is in, which may be made later: name and path.
    home: Option<(Vec<u8>, PathBuf)>,
}

impl LeftOut {
    /// None: there is no job.
    pub(crate) fn of(job: Option<&JobPlace>) -> Self {
        let named = |home: PathBuf| Some((home.file_name()?.as_bytes().to_vec(), home));
        Self { home: job.and_then(JobPlace::home).and_then(named), job: OnceLock::new() }
    }

    /// Leaves out the directory of the job.
    pub(crate) fn add(&self, directory: &OwnedFd) {
        if let Ok(place) = resume::place_of(directory) {
            let _ = self.job.set(place);
        }
    }

    /// Whether an entry is left out, with all below it.
    #[inline]
    pub(crate) fn has(&self, entry: &Entry<'_>) -> bool {
        self.job.get().is_some_and(|place| is_at(entry, *place)) || self.is_home(entry)
    }

    /// The same for the last name of an entry, with its device and inode.
    pub(crate) fn has_at(&self, name: &[u8], place: (u64, u64)) -> bool {
        let is_home = |(of, home): &(Vec<u8>, PathBuf)| {
            let found = (of == name).then(|| walk::look_at(home.as_os_str().as_bytes()).ok()).flatten();
            found.is_some_and(|found| (found.device, found.inode) == place)
        };
        self.job.get() == Some(&place) || self.home.as_ref().is_some_and(is_home)
    }

    #[inline]
    fn is_home(&self, entry: &Entry<'_>) -> bool {
        let Some((_, home)) = self.home.as_ref().filter(|(name, _)| *name == entry.name) else {
            return false;
        };
        let found = walk::look_at(home.as_os_str().as_bytes());
        found.is_ok_and(|found| is_at(entry, (found.device, found.inode)))
    }
}

/// Whether an entry is the one with this device and inode. Asked for each entry of the tree.
#[inline]
fn is_at(entry: &Entry<'_>, place: (u64, u64)) -> bool {
    entry.inode == place.1 && is_on(entry, place)
}

/// The same for one with that inode.
#[cold]
fn is_on(entry: &Entry<'_>, (device, inode): (u64, u64)) -> bool {
    let found = entry.metadata.map(|metadata| (metadata.device, metadata.inode));
    let found =
        found.or_else(|| walk::look_at(&entry.path()).ok().map(|metadata| (metadata.device, metadata.inode)));
    found == Some((device, inode))
}
