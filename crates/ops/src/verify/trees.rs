//! The two trees of a comparison as one rank sees them, and the names of files with several names.

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::{Change, Difference, Failure, Kind, Operation, escape};
use atta_runtime::{Outbox, Stream};

use super::links::{Links, Sets, errno_of};
use super::{Options, Totals, Watch};
use crate::refused::Refused;
use crate::tree::directory::Directory;
use atta_sys::{self as sys, Features};

/// The share of the walk's memory for names of files with several names, as a divisor.
const LINKS_PART: u64 = 4;

/// Both trees, as this rank sees them, and where names of files with several names are collected.
#[derive(Debug)]
pub struct Trees {
    /// SOURCE as given.
    pub(super) source: CString,
    /// TARGET as given.
    pub(super) target: CString,
    /// TARGET opened, if both are directories.
    pub(super) top: Option<Arc<Directory>>,
    pub(super) links: Links,
}

impl Trees {
    /// Checks both roots. Opens the target if both are directories.
    ///
    /// # Errors
    /// One of the two does not exist, or only one is a directory.
    pub fn open(source: &[u8], target: &[u8], options: &Options<'_>) -> Result<Self, Refused> {
        let top = open(source, target, options.walk.features)?;
        let memory = options.walk.memory_bytes / LINKS_PART;
        let sets = Sets::new(memory, &options.walk.spill_directory, options.walk.stop.clone());
        let path = |path: &[u8]| CString::new(path).unwrap_or_default();
        Ok(Self {
            source: path(source),
            target: path(target),
            top,
            links: Links::Here(Box::new(Mutex::new(sets))),
        })
    }

    /// Sends names of files with several names to the first rank, through this stream: for all other ranks.
    #[must_use]
    pub fn with_links_sent(self, outbox: Outbox, stream: Stream) -> Self {
        Self { links: Links::There(outbox, stream), ..self }
    }

    /// Adds names that another rank has sent. On the first rank.
    pub fn receive(&self, names: &[u8]) {
        if let Links::Here(sets) = &self.links {
            sets.lock().unwrap_or_else(PoisonError::into_inner).add_all(names);
        }
    }

    /// Reports names that are one file on one side only, in path order, and adds them to `totals`. On the first rank, when it has the names
    /// of all ranks. Ends early if the run is stopped.
    pub fn conclude(&self, watch: &dyn Watch, totals: &mut Totals) {
        let Links::Here(sets) = &self.links else { return };
        let mut sets = sets.lock().unwrap_or_else(PoisonError::into_inner);
        let compared = sets.each_differing(|path, details| {
            let change = Change::Different(details);
            totals.count(&change);
            watch.difference(&Difference { path: path.into(), kind: Kind::File, change });
        });
        if let Err(error) = compared {
            let (operation, errno) = (Operation::Custom("compare the hard links of"), errno_of(&error));
            *totals.failures.entry(errno).or_default() += 1;
            let root = self.source.to_bytes();
            watch.failure(&Failure {
                operation,
                root: root.into(),
                path: root.into(),
                errno,
                spelled: None,
                at: None,
            });
        }
    }
}

/// Checks both roots. Opens the target if both are directories.
fn open(source: &[u8], target: &[u8], features: Features) -> Result<Option<Arc<Directory>>, Refused> {
    let hint = "both must be there; nothing was compared";
    let look = |name: &str, path: &[u8]| {
        let found = sys::stat_path(path, false);
        let found = found.map_err(|errno| Refused::failed(&format!("stat {name}"), path, errno, hint))?;
        Ok(found.kind())
    };
    match (look("SOURCE", source)?, look("TARGET", target)?) {
        (Kind::Directory, Kind::Directory) => {}
        (one, other) if one == Kind::Directory || other == Kind::Directory => {
            let (from, to) = (escape(source), escape(target));
            let what = format!("SOURCE is a {} and TARGET a {}: {from}, {to}", one.name(), other.name());
            let hint =
                "name two directories, or two entries that are none; a slash at the end follows a link";
            return Err(Refused { what, hint: hint.into(), is_usage: false });
        }
        _ => return Ok(None),
    }
    let cannot = |errno| Refused::failed("open TARGET", target, errno, hint);
    let opened = Arc::new(sys::open_directory_path(target, false).map_err(cannot)?);
    let place = sys::place_of(&opened, features).map_err(cannot)?;
    let path = CString::new(target).unwrap_or_default();
    Ok(Some(Directory::root(path, 0, opened, place)))
}
