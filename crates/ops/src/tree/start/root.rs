//! A root as all objects of its directory share it: its path, which directory it is, and its descriptor while one of them holds it. It is
//! opened on the thread that first needs it: a path of the operator may lead to a server that does not respond. It knows no tasks.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use atta_entry::Errno;
use atta_sys::{self as sys, Features, Place};
use rustix::fd::OwnedFd;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Root {
    /// The path as given; empty for the working directory, if listed paths are not to begin with `./`.
    pub(crate) path: Vec<u8>,
    /// The kernel's path of it. Read only when links are followed.
    real_path: OnceLock<Option<Vec<u8>>>,
    /// Which directory it was when it was first opened.
    place: OnceLock<Place>,
    /// The descriptor that was opened last.
    opened: Mutex<Weak<OwnedFd>>,
}

impl Root {
    pub(crate) fn new(path: Vec<u8>) -> Self {
        Self { path, real_path: OnceLock::new(), place: OnceLock::new(), opened: Mutex::default() }
    }

    /// Its inode, or 0 if this process has not opened it.
    pub(crate) fn inode(&self) -> u64 {
        self.place.get().map_or(0, |place| place.inode)
    }

    /// The kernel's path of it, to recognise absolute links that lead below it.
    pub(crate) fn real_path(&self, descriptor: impl AsFd) -> Option<&[u8]> {
        self.real_path.get_or_init(|| sys::real_path(descriptor)).as_deref()
    }

    /// Opens it. It must be the directory that it was before.
    ///
    /// # Errors
    /// `ESTALE` if its path leads to another directory now, else the kernel's error.
    pub(crate) fn open(&self, follow: bool, features: Features) -> Result<(Arc<OwnedFd>, Place), Errno> {
        let descriptor = Arc::new(sys::open_directory_path(&self.path, follow)?);
        let place = sys::place_of(&descriptor, features)?;
        let first = self.place.get_or_init(|| place);
        if (first.device, first.inode) != (place.device, place.inode) {
            return Err(Errno::STALE);
        }
        *self.opened() = Arc::downgrade(&descriptor);
        Ok((descriptor, place))
    }

    /// Its descriptor, opened unless it is open. Links in its path are followed, since the operator named it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn descriptor(&self, features: Features) -> Result<(Arc<OwnedFd>, Place), Errno> {
        let opened = self.opened().upgrade();
        match opened.zip(self.place.get()) {
            Some((descriptor, place)) => Ok((descriptor, *place)),
            None => self.open(true, features),
        }
    }

    fn opened(&self) -> MutexGuard<'_, Weak<OwnedFd>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
