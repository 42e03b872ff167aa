//! Directories of jobs with logs beside the records of runs (`place.rs`): which there are, of any user, and how one that nobody goes on with is
//! removed. What is in them is read by others.

use std::ffi::CString;
use std::sync::Arc;

use atta_entry::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::AtFlags;

use super::files::{Holding, forget_files, number_in, try_hold};
use crate::jobs::directory::open_private;
use crate::jobs::names::{self, Parsed};
use crate::jobs::tree::Tally;
use atta_sys as sys;

const PREFIX: &[u8] = b"job.";
/// Digits of a name.
const DIGITS: usize = 16;
/// Most names in a directory that are looked at.
const NAMES_MAX: usize = 4096;

/// The name of such a directory. `hash`: of what was asked for.
pub(crate) fn name_of(hash: &blake3::Hash) -> CString {
    let name = [PREFIX, &hash.to_hex().as_bytes()[..DIGITS]].concat();
    CString::new(name).unwrap_or_default()
}

/// Whether a name is that of such a directory.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let digits = name.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == DIGITS && digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The names of such directories in that of all runs of a user.
pub(crate) fn names_in(home: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = sys::names_of(home, NAMES_MAX)?;
    names.retain(|name| is_name(name.as_bytes()));
    names.sort_unstable();
    Ok(names)
}

/// A directory of a job with a log.
#[derive(Debug)]
pub(crate) struct JobDirectory {
    top: Arc<OwnedFd>,
    /// The directory that it is in, and its name.
    home: CString,
    name: CString,
    uid: u32,
}

/// What has become of a job.
pub(crate) enum Ended {
    /// It was removed, or counted.
    Removed(Tally),
    /// A process holds it, or goes on with it; its number, if it has a header.
    Held(Option<u64>),
    /// Nothing proves that it is a job of this version: it is data.
    Unknown,
}

/// The jobs of all users below a directory that copies are put into.
pub(crate) fn all_below(top: &Arc<OwnedFd>) -> Vec<JobDirectory> {
    let is_home = |name: &CString| {
        matches!(names::parse(name.as_bytes()), Some(Parsed { tag: None, serial: None, .. }))
    };
    // A directory may have many names; only few of them are such.
    let homes = sys::names_of(top, usize::MAX).unwrap_or_default();
    let mut found = Vec::new();
    for home in homes.into_iter().filter(is_home) {
        let Ok(opened) = open_private(top, &home, None) else { continue };
        let Ok(uid) = sys::stat_descriptor(&opened).map(|found| found.uid) else { continue };
        let of_name = |name| JobDirectory { top: Arc::clone(top), home: home.clone(), name, uid };
        found.extend(names_in(&opened).unwrap_or_default().into_iter().map(of_name));
    }
    found
}

impl JobDirectory {
    /// The user whose it is.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Its path below TOP.
    pub(crate) fn path(&self) -> Vec<u8> {
        [self.home.as_bytes(), self.name.as_bytes()].join(&b'/')
    }

    /// Removes it, or counts it, unless a process holds it or it is one of `running`.
    ///
    /// # Errors
    /// The first failure. What is left of it is no job, or the same one.
    pub(crate) fn remove(&self, running: &[u64], removes: bool) -> Result<Ended, Errno> {
        let home = open_private(&self.top, &self.home, None)?;
        let directory = open_private(&home, &self.name, None)?;
        let number = number_in(&directory);
        if number.is_some_and(|number| running.contains(&number)) {
            return Ok(Ended::Held(number));
        }
        let held = match try_hold(&directory)? {
            Holding::Free(held) => held,
            Holding::Held => return Ok(Ended::Held(number)),
        };
        let Some((files, bytes)) = forget_files(&directory, removes)? else {
            return Ok(Ended::Unknown);
        };
        if removes {
            // NFS keeps names of files that are open.
            drop(held);
            sys::remove_empty(&home, &self.name)?;
            // Runs may be in it.
            let _ = sys::retry(|| rustix::fs::unlinkat(&self.top, &self.home, AtFlags::REMOVEDIR));
        }
        let tally = Tally { entries: files + 1, bytes };
        Ok(Ended::Removed(tally))
    }
}
