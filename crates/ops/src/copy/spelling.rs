//! Targets to which `A` and `a` are one name, or two ways to write an accent: there the second of two names of the source would
//! silently take the place of the first. It is refused instead. Which letters are alike only the target knows.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atta_entry::Errno;

use super::file::Place;
use super::handler::{CopyWorker, Copying, Where};
use super::mirror::Mirror;
use super::trouble::{Doing, Trouble};
use crate::walk::kernel;

/// Of so many the name that is in the way is told.
const NAMINGS_MOST: u64 = 1000;

impl Copying<'_> {
    /// Refuses a name that is taken by another spelling of it. `made` is something of this job's own in the same directory: if the
    /// target finds that in capital letters, it folds case.
    pub(crate) fn refuse_respelled(&self, to: &Place<'_>, made: &CStr) -> Result<(), Trouble> {
        let folds = || {
            let capitals = CString::new(made.to_bytes().to_ascii_uppercase()).unwrap_or_default();
            kernel::stat_at(&to.directory, &capitals, false).is_ok()
        };
        if *to.mirror.folds_case.get_or_init(folds) { refuse_taken(to, Doing::Rename) } else { Ok(()) }
    }

    /// The name of what is in the place of something that could not be made there, if it is spelled otherwise.
    pub(crate) fn other_spelling(&self, worker: &mut CopyWorker, at: &Where) -> Option<CString> {
        let (directory, name) = match at {
            Where::In(source, name) => (Arc::clone(&Mirror::of(source)?.target), name.clone()),
            Where::Itself(source) => {
                let mirror = Mirror::of(source)?;
                (Arc::clone(mirror.target.parent()?), mirror.target.name().to_owned())
            }
            Where::Root(path) => {
                let root = self.roots.find(path)?;
                (Arc::clone(&root.parent.target), root.name.clone())
            }
        };
        // Each takes a look at the whole directory.
        if self.namings.fetch_add(1, Ordering::Relaxed) >= NAMINGS_MOST {
            return None;
        }
        let opened = directory.descriptor(&mut worker.held, self.features).ok()?;
        kernel::other_spelling(&opened, &name)
    }
}

/// Refuses a name that is there, but not spelled so.
pub(crate) fn refuse_taken(to: &Place<'_>, doing: Doing) -> Result<(), Trouble> {
    let failed = |errno| Trouble::new(doing, errno);
    match kernel::stat_at(&to.directory, to.name, false) {
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(errno)),
        Ok(_) if kernel::has_name(&to.directory, to.name).map_err(failed)? => Ok(()),
        Ok(_) => Err(failed(Errno::EXIST)),
    }
}
