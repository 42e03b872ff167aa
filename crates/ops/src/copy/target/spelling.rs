//! Targets to which `A` and `a` are one name, or two ways to write an accent: there the second of two names of the source would
//! silently take the place of the first. It is refused instead. Which letters are alike only the target knows.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atta_entry::Errno;
use rustix::fd::OwnedFd;

use crate::copy::handler::{CopyWorker, Copying};
use crate::copy::target::file::Place;
use crate::copy::target::mirror::Mirror;
use crate::file::error::{FileError, Step};
use crate::tree::location::Location;
use atta_sys as sys;

/// Of so many the name that is in the way is told.
const NAMINGS_MOST: u64 = 1000;

impl Copying<'_> {
    /// Whether a directory of the target takes two spellings for one name. `made` is something of this job's own in it: if the
    /// target finds that in capital letters, it folds case.
    pub(crate) fn folds_case(mirror: &Mirror, directory: &OwnedFd, made: &CStr) -> bool {
        *mirror.folds_case.get_or_init(|| {
            let capitals = CString::new(made.to_bytes().to_ascii_uppercase()).unwrap_or_default();
            sys::stat_at(directory, &capitals, false).is_ok()
        })
    }

    /// The name of what is in the place of something that could not be made there, if it is spelled otherwise.
    pub(crate) fn other_spelling(&self, worker: &mut CopyWorker, at: &Location) -> Option<CString> {
        let (directory, name) = match at {
            Location::In(source, name) => (Arc::clone(&Mirror::of(source)?.target), name.clone()),
            Location::Itself(source) => {
                let mirror = Mirror::of(source)?;
                (Arc::clone(mirror.target.parent()?), mirror.target.name().to_owned())
            }
            Location::Root(path) => {
                let root = self.roots.find(path)?;
                (Arc::clone(&root.parent.target), root.name.clone())
            }
        };
        // Each takes a look at the whole directory.
        if self.namings.fetch_add(1, Ordering::Relaxed) >= NAMINGS_MOST {
            return None;
        }
        let opened = directory.descriptor(&mut worker.held, self.features).ok()?;
        sys::other_spelling(&opened, &name)
    }
}

/// Refuses a name that is there, but not spelled so.
pub(crate) fn refuse_taken(to: &Place<'_>, step: Step) -> Result<(), FileError> {
    let failed = |errno| FileError::new(step, errno);
    match sys::stat_at(&to.directory, to.name, false) {
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(errno)),
        Ok(_) if sys::has_name(&to.directory, to.name).map_err(failed)? => Ok(()),
        Ok(_) => Err(failed(Errno::EXIST)),
    }
}
