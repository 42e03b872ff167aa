//! The two trees of a comparison as one rank sees them, and the names of files with several names.

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::{Change, Difference, Failure, Kind, Operation, escape};
use atta_runtime::{Outbox, Stream};

use super::links::{Links, Sets};
use super::pair::Both;
use super::{Options, Totals, Watch};
use crate::file::source::Identity;
use crate::refused::Refused;
use crate::resume::Recheck;
use crate::sorted::errno_of;
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
    /// The devices of SOURCE and TARGET on this host.
    devices: [u64; 2],
}

impl Trees {
    /// Checks both roots. Opens the target if both are directories.
    ///
    /// # Errors
    /// One of the two does not exist, or only one is a directory.
    pub fn open(source: &[u8], target: &[u8], options: &Options<'_>) -> Result<Self, Refused> {
        let (top, devices) = open(source, target, options.walk.features)?;
        let memory = options.walk.memory_bytes / LINKS_PART;
        let sets = Sets::new(memory, &options.walk.spill_directory, options.walk.stop.clone());
        let path = |path: &[u8]| CString::new(path).unwrap_or_default();
        Ok(Self {
            source: path(source),
            target: path(target),
            top,
            links: Links::Here(Box::new(Mutex::new(sets))),
            devices,
        })
    }

    /// Looks again at directories that earlier runs of a job have finished.
    #[must_use]
    pub fn recheck(&self, options: &Options<'_>) -> Recheck {
        Recheck::of_two(self.source.to_bytes(), self.target.to_bytes(), &options.walk)
    }

    /// Both files as all ranks know them: hosts number the device of a root differently. Devices mounted below the roots keep their
    /// numbers, which may differ between hosts, too.
    pub(super) fn files_of(&self, both: &Both) -> [Identity; 2] {
        let mut files = both.identities();
        for ((device, _), root) in files.iter_mut().zip(self.devices) {
            if *device == root {
                *device = 0;
            }
        }
        files
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

/// TARGET opened, if both roots are directories, and the devices of both.
type Opened = (Option<Arc<Directory>>, [u64; 2]);

/// Checks both roots. Opens the target if both are directories.
fn open(source: &[u8], target: &[u8], features: Features) -> Result<Opened, Refused> {
    let hint = "both must be there; nothing was compared";
    let look = |name: &str, path: &[u8]| {
        let found = sys::stat_path(path, false);
        let found = found.map_err(|errno| Refused::failed(&format!("stat {name}"), path, errno, hint))?;
        Ok((found.kind(), found.device))
    };
    let ((from, device), (to, other)) = (look("SOURCE", source)?, look("TARGET", target)?);
    let devices = [device, other];
    match (from, to) {
        (Kind::Directory, Kind::Directory) => {}
        (one, other) if one == Kind::Directory || other == Kind::Directory => {
            let (from, to) = (escape(source), escape(target));
            let what = format!("SOURCE is a {} and TARGET a {}: {from}, {to}", one.name(), other.name());
            let hint =
                "name two directories, or two entries that are none; a slash at the end follows a link";
            return Err(Refused { what, hint: hint.into(), is_usage: false });
        }
        _ => return Ok((None, devices)),
    }
    let cannot = |errno| Refused::failed("open TARGET", target, errno, hint);
    let opened = Arc::new(sys::open_directory_path(target, false).map_err(cannot)?);
    let place = sys::place_of(&opened, features).map_err(cannot)?;
    let path = CString::new(target).unwrap_or_default();
    Ok((Some(Directory::root(path, 0, opened, place)), devices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_entry::Metadata;

    #[test]
    fn devices_of_the_roots_are_the_same_on_all_hosts() {
        let scratch = atta_testkit::scratch::Scratch::new("trees").unwrap();
        let path = scratch.path().as_os_str().as_encoded_bytes();
        let trees = Trees::open(path, path, &Options::default()).unwrap();
        let [device, _] = trees.devices;
        let on = |device| Metadata { device, inode: 7, ..Metadata::default() };
        let files = |source, target| trees.files_of(&Both { source: on(source), target: on(target) });
        assert_eq!(files(device, device), [(0, 7), (0, 7)]);
        assert_eq!(files(device + 1, device), [(device + 1, 7), (0, 7)]);
    }
}
