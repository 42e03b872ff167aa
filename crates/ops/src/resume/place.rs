//! Where the directory of a job is: one that a user names, or a private one in the target of a copy. What is in it is the part of others.
//!
//! ```text
//!   DIR                          atta copy --job DIR
//!   TOP/.atta.UID/job.NAME       TOP: TARGET, or the directory that TARGET is made in; NAME follows from sources and TARGET.
//!                                Of a catalog: the directory that it is made in; NAME follows from its path
//! ```

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atta_entry::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode};

use super::directories as logs;
use super::error::NotBegun;
use super::files::{CATALOG, Holding, forget_files, read_header, short, try_hold};
use crate::jobs;
use crate::jobs::names::Namer;
use crate::metadata::give::times;
use atta_sys::{self as sys, retry};

/// How often the directory of all runs is made again if other processes remove it.
const MAKE_TRIES: u32 = 16;

/// The place of the directory of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlace {
    path: PathBuf,
    in_target: Option<InTarget>,
}

/// A directory in that of all runs of this user.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InTarget {
    top: PathBuf,
    name: CString,
}

impl From<&Path> for JobPlace {
    /// A directory with this path. It may be that of a job in the target of a copy.
    fn from(path: &Path) -> Self {
        Self { path: path.to_owned(), in_target: InTarget::of(path) }
    }
}

impl InTarget {
    fn of(path: &Path) -> Option<Self> {
        let (name, home) = (path.file_name()?, path.parent()?);
        if home.file_name()?.as_bytes() != home_name().as_bytes() || !logs::is_name(name.as_bytes()) {
            return None;
        }
        let top = home.parent().filter(|top| !top.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        Some(Self { top: top.to_owned(), name: CString::new(name.as_bytes()).ok()? })
    }

    fn top(&self) -> Result<OwnedFd, NotBegun> {
        let top = sys::open_directory_path(self.top.as_os_str().as_bytes(), true);
        top.map_err(|errno| NotBegun::Failed("open", errno))
    }

    /// The directory of all runs of this user.
    fn home(&self) -> Result<OwnedFd, NotBegun> {
        home_in(&self.top()?)
    }

    /// Makes the directory of the job. A copy has made that of all runs before; a walk has not, and other runs may remove that at their end.
    fn make(&self) -> Result<Result<(), Errno>, NotBegun> {
        let top = self.top()?;
        let mut made = Err(Errno::NOENT);
        for _ in 0..MAKE_TRIES {
            match retry(|| rustix::fs::mkdirat(&top, home_name(), Mode::RWXU)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(NotBegun::Failed("make", errno)),
            }
            made = match home_in(&top) {
                Ok(home) => retry(|| rustix::fs::mkdirat(&home, &self.name, Mode::RWXU)),
                Err(NotBegun::Failed(_, Errno::NOENT)) => Err(Errno::NOENT),
                Err(error) => return Err(error),
            };
            if made != Err(Errno::NOENT) {
                break;
            }
        }
        Ok(made)
    }
}

impl JobPlace {
    /// In the target of a copy, for this request, or beside a catalog. `top`: the directory that the copy or the catalog is put into.
    #[must_use]
    pub fn in_target(top: &Path, request: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in request {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        // Another request of the same name is refused: it differs.
        let name = logs::name_of(&hasher.finalize());
        let home = top.join(OsStr::from_bytes(home_name().as_bytes()));
        let path = home.join(OsStr::from_bytes(name.as_bytes()));
        Self { path, in_target: Some(InTarget { top: top.to_owned(), name }) }
    }

    /// The places of jobs in a directory that copies are put into. There may be no job in some.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn all_in(top: &Path) -> Result<Vec<Self>, NotBegun> {
        let home = top.join(OsStr::from_bytes(home_name().as_bytes()));
        let of_all = InTarget { top: top.to_owned(), name: CString::default() };
        let opened = match of_all.home() {
            Err(NotBegun::Failed(_, Errno::NOENT | Errno::NOTDIR | Errno::LOOP) | NotBegun::NotPrivate) => {
                return Ok(Vec::new());
            }
            opened => opened?,
        };
        let names = logs::names_in(&opened).map_err(|errno| NotBegun::Failed("read", errno))?;
        let names = names.iter().map(|name| home.join(OsStr::from_bytes(name.as_bytes())));
        Ok(names.map(|path| Self::from(path.as_path())).collect())
    }

    /// The job with that number, as names of temporary files have it, among those in a directory that copies are put into.
    ///
    /// # Errors
    /// A job cannot be read: it may be the one.
    pub(crate) fn of_number(top: &Path, number: u64) -> Result<Option<Self>, NotBegun> {
        for place in Self::all_in(top)? {
            if place.number()?.map(short) == Some(number) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Whether the directory that it is in can be opened: then it is known whether it is there.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        let above = match &self.in_target {
            Some(in_target) => in_target.top.as_path(),
            None => self.path.parent().unwrap_or(&self.path),
        };
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        sys::open_directory_path(above.as_os_str().as_bytes(), true).is_ok()
    }

    /// The number of the job there. None: there is no such directory of this user's, or no job in it.
    ///
    /// # Errors
    /// There may be one: it cannot be read, or is of another version.
    pub fn number(&self) -> Result<Option<[u8; 16]>, NotBegun> {
        match self.open() {
            Err(NotBegun::Failed(_, Errno::NOENT | Errno::NOTDIR | Errno::LOOP) | NotBegun::NotPrivate) => {
                Ok(None)
            }
            // A copy opens that directory too, so none has begun a job there.
            Err(NotBegun::Failed(_, Errno::ACCES | Errno::PERM)) if !self.is_reachable() => Ok(None),
            opened => Ok(read_header(&opened?)?.map(|header| header.number)),
        }
    }

    /// The name of its directory, if it is in the target of a copy or beside a catalog.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.in_target.as_ref().map(|in_target| in_target.name.to_string_lossy().into_owned())
    }

    /// Whether the directory with this name, where the job puts its copy, was made by a run of this job that has not come to its end, although the job
    /// may not have begun. Its record says that it makes that name, its temporary directory is gone, and the directory was born when the run began.
    #[must_use]
    pub fn has_made(&self, name: &CStr) -> bool {
        let Some(in_target) = &self.in_target else { return false };
        let (Ok(top), Ok(home), Some(request)) = (in_target.top(), in_target.home(), self.name()) else {
            return false;
        };
        jobs::others::made_since(&top, &Arc::new(home), &request, name).is_some()
    }

    /// The directory of all runs of this user that it is in, if it is in the target of a copy or beside a catalog.
    #[must_use]
    pub fn home(&self) -> Option<PathBuf> {
        let in_target = self.in_target.as_ref()?;
        Some(in_target.top.join(OsStr::from_bytes(home_name().as_bytes())))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is in the target of a copy, or beside a catalog: then it is removed when the run has come to its end.
    #[must_use]
    pub fn is_in_target(&self) -> bool {
        self.in_target.is_some()
    }

    /// The directory, which must be private.
    pub(super) fn open(&self) -> Result<OwnedFd, NotBegun> {
        let directory = match &self.in_target {
            Some(in_target) => {
                private(jobs::directory::open_private(&in_target.home()?, &in_target.name, None))
            }
            None => {
                let path = self.path.as_os_str().as_bytes();
                sys::open_directory_path(path, false).map_err(|errno| NotBegun::Failed("open", errno))
            }
        }?;
        let found = sys::stat_descriptor(&directory).map_err(|errno| NotBegun::Failed("open", errno))?;
        let is_own = found.uid == rustix::process::geteuid().as_raw() && found.mode & 0o077 == 0;
        if is_own { Ok(directory) } else { Err(NotBegun::NotPrivate) }
    }

    /// The directory of a catalog that is not complete, in it.
    #[must_use]
    pub fn catalog(&self) -> PathBuf {
        self.path.join(OsStr::from_bytes(CATALOG.to_bytes()))
    }

    /// Whether there is such a directory, or that cannot be found out.
    #[must_use]
    pub fn has_catalog(&self) -> bool {
        let found = |directory: OwnedFd| sys::stat_at(&directory, CATALOG, false);
        self.open().map_or(true, |directory| found(directory) != Err(Errno::NOENT))
    }

    /// Makes it, unless something is there.
    pub(super) fn make(&self) -> Result<(), NotBegun> {
        let made = match &self.in_target {
            Some(in_target) => in_target.make()?,
            None => retry(|| rustix::fs::mkdir(&self.path, Mode::RWXU)),
        };
        match made {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(NotBegun::Failed("make", errno)),
        }
    }

    /// Removes what a job that could not be begun, or was being removed, has left in the target of a copy or beside a catalog, unless it is a job, or
    /// another process has begun one. What cannot be removed is removed by `atta clean`.
    pub fn remove_rest(&self) {
        let Some(in_target) = &self.in_target else { return };
        let (Ok(top), Ok(home)) = (in_target.top(), in_target.home()) else { return };
        if let Ok(directory) = self.open() {
            let Ok(Holding::Free(held)) = try_hold(&directory) else { return };
            if !matches!(read_header(&directory), Ok(None)) || forget_files(&directory, true).is_err() {
                return;
            }
            // NFS keeps names of files that are open.
            drop(held);
            let _ = sys::remove_empty(&home, &in_target.name);
        }
        // Other runs may be in it.
        let _ = retry(|| rustix::fs::unlinkat(&top, home_name(), AtFlags::REMOVEDIR));
    }

    /// Removes it from the target of a copy; it is empty. `keeps_times`: the directory that it is in is itself a copy, which has its times.
    pub(super) fn remove(&self, keeps_times: bool) -> Result<(), Errno> {
        let Some(in_target) = &self.in_target else { return Ok(()) };
        let top = sys::open_directory_path(in_target.top.as_os_str().as_bytes(), true)?;
        let home = jobs::directory::open_private(&top, &home_name(), None)?;
        match sys::remove_empty(&home, &in_target.name) {
            // The same command begins there again.
            Ok(()) | Err(Errno::NOTEMPTY) => {}
            Err(errno) => return Err(errno),
        }
        // Other runs may be in it.
        let remove = || retry(|| rustix::fs::unlinkat(&top, home_name(), AtFlags::REMOVEDIR));
        if !keeps_times {
            let _ = remove();
            return Ok(());
        }
        let before = sys::stat_descriptor(&top)?;
        match remove() {
            // It has got the mode of its source.
            Err(Errno::ACCES) => {
                let set_mode = |mode| retry(|| rustix::fs::fchmod(&top, Mode::from_raw_mode(mode)));
                set_mode(before.mode & 0o7777 | 0o700)?;
                let _ = remove();
                set_mode(before.mode & 0o7777)?;
            }
            Ok(()) => {}
            // Another run is in it.
            Err(_) => return Ok(()),
        }
        retry(|| rustix::fs::futimens(&top, &times(&before)))
    }
}

/// The directory of all runs of this user.
fn home_in(top: &OwnedFd) -> Result<OwnedFd, NotBegun> {
    private(jobs::directory::open_private(top, &home_name(), Some(rustix::process::geteuid().as_raw())))
}

/// The name of the directory of all runs of this user.
fn home_name() -> CString {
    Namer::new(0).home()
}

/// What is there and not private is nobody's job.
fn private(opened: Result<OwnedFd, Errno>) -> Result<OwnedFd, NotBegun> {
    opened.map_err(|errno| match errno {
        Errno::STALE => NotBegun::NotPrivate,
        errno => NotBegun::Failed("open", errno),
    })
}
