//! Failures of entries: counted, completed with facts about the target, and reported. Detects a target without space. No copying, and no
//! decision what to do about a failure.
//!
//! Targets may fold names: `A` and `a`, or two encodings of an accent, are one name. The second of two such source names would silently
//! replace the first, so it is refused instead. Only the target knows which letters are equal: the report names the other spelling.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_entry::Failure;
use atta_runtime::Stop;

use crate::copy::options::Watch;
use crate::copy::plan::roots::Roots;
use crate::copy::results::totals::Totals;
use crate::copy::space::Space;
use crate::copy::target::mirror::{Location, Mirror};
use crate::file::error::FileError;
use crate::tree::directory::Directory;
use crate::tree::listing::descriptor_cache::DescriptorCache;
use atta_sys::{self as sys, Features};

/// Maximum number of failures for which the conflicting name is reported.
const NAMINGS_MOST: u64 = 1000;

/// Reports failures.
pub(crate) struct Failures<'a> {
    pub(crate) watch: &'a dyn Watch,
    /// Set when the target is full.
    stop: &'a Stop,
    pub(crate) space: Space,
    /// How often a directory was searched for the other spelling of a taken name.
    namings: AtomicU64,
}

/// A failed entry: where it is, and why.
pub(crate) struct Failed<'a> {
    pub(crate) at: &'a Location,
    pub(crate) error: FileError,
    pub(crate) roots: &'a Roots,
    pub(crate) features: Features,
}

impl<'a> Failures<'a> {
    pub(crate) fn new(watch: &'a dyn Watch, stop: &'a Stop) -> Self {
        Self { watch, stop, space: Space::default(), namings: AtomicU64::new(0) }
    }

    /// Counts a failure and reports it.
    pub(crate) fn report(&self, totals: &mut Totals, failure: &Failure<'_>) {
        *totals.failures.entry(failure.errno).or_default() += 1;
        self.watch.failure(failure);
    }

    /// Counts and reports the failure of an entry. Stops the copy if the target is full.
    pub(crate) fn report_entry(&self, totals: &mut Totals, held: &mut DescriptorCache, failed: &Failed<'_>) {
        let Failed { at, error, .. } = failed;
        let (operation, errno) = error.described();
        let (root, path) = at.root_and_path();
        totals.changed += u64::from(*error == FileError::Changed);
        if error.is_for_want_of_room() && self.space.miss() {
            self.stop.set();
        }
        let other = if error.is_taken() { self.other_spelling(held, failed) } else { None };
        let spelled = other.as_ref().map(|name| name.as_bytes().into());
        let at = if error.is_of_target() { target_path(at, failed.roots) } else { None };
        let (root, path, at) = (root.into(), path.into(), at.map(Into::into));
        self.report(totals, &Failure { operation, root, path, errno, spelled, at });
    }

    /// The existing, differently spelled name that prevents an entry from being made.
    fn other_spelling(&self, held: &mut DescriptorCache, failed: &Failed<'_>) -> Option<CString> {
        let (directory, name) = place_in_target(failed.at, failed.roots)?;
        // Each search reads the whole directory.
        if self.namings.fetch_add(1, Ordering::Relaxed) >= NAMINGS_MOST {
            return None;
        }
        let opened = directory.descriptor(held, failed.features).ok()?;
        sys::other_spelling(&opened, &name)
    }
}

/// The target directory of an entry, and its name there.
fn place_in_target(at: &Location, roots: &Roots) -> Option<(Arc<Directory>, CString)> {
    Some(match at {
        Location::In(source, name) => (Arc::clone(&Mirror::of(source)?.target), name.clone()),
        Location::Itself(source) => {
            let mirror = Mirror::of(source)?;
            (Arc::clone(mirror.target.parent()?), mirror.target.name().to_owned())
        }
        Location::Target(directory) => (Arc::clone(directory.parent()?), directory.name().to_owned()),
        Location::Root(path) => {
            let root = roots.find(path)?;
            (Arc::clone(&root.parent.target), root.name.clone())
        }
    })
}

/// The target path of a source entry.
pub(crate) fn target_path(at: &Location, roots: &Roots) -> Option<Vec<u8>> {
    match at {
        Location::Root(path) => roots.find(path).map(|root| root.parent.path_of(&root.name)),
        Location::In(directory, name) => Mirror::of(directory).map(|mirror| mirror.path_of(name)),
        Location::Itself(_) | Location::Target(_) => None,
    }
}
