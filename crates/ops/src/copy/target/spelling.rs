//! Targets that fold names: `A` and `a`, or two encodings of an accent, are one name. The second of two such source names would silently
//! replace the first, so it is refused instead. Only the target knows which letters are equal.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fd::OwnedFd;

use crate::copy::handler::Copying;
use crate::copy::target::mirror::{Location, Mirror};
use crate::copy::thread::Worker;
use atta_sys as sys;

/// Maximum number of failures for which the conflicting name is reported.
const NAMINGS_MOST: u64 = 1000;

impl Copying<'_> {
    /// Whether a directory of the target folds case.
    ///
    /// `made` is an entry of this job in it. If the target finds `made` in capital letters, it folds case.
    pub(crate) fn folds_case(mirror: &Mirror, directory: &OwnedFd, made: &CStr) -> bool {
        *mirror.folds_case.get_or_init(|| {
            let capitals = CString::new(made.to_bytes().to_ascii_uppercase()).unwrap_or_default();
            sys::stat_at(directory, &capitals, false).is_ok()
        })
    }

    /// The existing, differently spelled name that prevents an entry from being made.
    pub(crate) fn other_spelling(&self, worker: &mut Worker, at: &Location) -> Option<CString> {
        let (directory, name) = match at {
            Location::In(source, name) => (Arc::clone(&Mirror::of(source)?.target), name.clone()),
            Location::Itself(source) => {
                let mirror = Mirror::of(source)?;
                (Arc::clone(mirror.target.parent()?), mirror.target.name().to_owned())
            }
            Location::Target(directory) => (Arc::clone(directory.parent()?), directory.name().to_owned()),
            Location::Root(path) => {
                let root = self.roots.find(path)?;
                (Arc::clone(&root.parent.target), root.name.clone())
            }
        };
        // Each search reads the whole directory.
        if self.namings.fetch_add(1, Ordering::Relaxed) >= NAMINGS_MOST {
            return None;
        }
        let opened = directory.descriptor(&mut worker.scratch.held, self.features).ok()?;
        sys::other_spelling(&opened, &name)
    }
}
