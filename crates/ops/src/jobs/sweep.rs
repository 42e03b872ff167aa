//! Finds leftovers of ended runs below the directory that they ran in, and counts or removes them. It looks only where a run made
//! something according to its record. `tree.rs` does the removal.

use atta_sys as sys;
use std::collections::HashSet;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::{Entry, Errno, Failure, Kind, Operation};
use rustix::fd::{AsFd, OwnedFd};

use super::record::Record;
use super::tree::{Manner, Tally, dispose};
use crate::jobs::names::{Namer, PREFIX};
use crate::tree::operation::{Cx, Handler};
use crate::tree::{self, Start};

/// At most this many leftovers and failures are listed; all are counted.
const FOUND_MAX: usize = 1000;

/// A name that an ended run has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its path.
    pub path: Vec<u8>,
    /// Entries at it and below it.
    pub entries: u64,
    /// Bytes on the disk that have no other name.
    pub bytes: u64,
}

/// The result of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(crate) found: Vec<Leftover>,
    pub(crate) names: u64,
    pub(crate) tally: Tally,
    pub(crate) failures: Vec<Failure<'static>>,
    /// Directories that could not be read, and names that could not be removed.
    pub(crate) failed: u64,
    pub(crate) stopped: bool,
}

/// The directory that runs worked in: TOP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Top<'a> {
    pub(crate) opened: &'a OwnedFd,
    pub(crate) path: &'a [u8],
}

/// The handler of the walk.
struct Sweep<'a> {
    namers: &'a [&'a Namer],
    /// Names in the directory of the runs below which they made something; none: anywhere.
    below: Option<HashSet<CString>>,
    manner: Manner,
    swept: Mutex<Swept>,
}

/// Finds what these runs left below TOP, and removes it if `manner` requests that.
pub(crate) fn sweep(
    top: Top<'_>,
    runs: &[(&Namer, &Record)],
    options: &tree::Options<'_>,
    manner: Manner,
) -> Swept {
    let makes = || runs.iter().flat_map(|(_, record)| &record.makes).map(|makes| makes.name.clone());
    let below = (!makes().any(|name| name.as_c_str() == c".")).then(|| makes().collect());
    let namers: Vec<_> = runs.iter().map(|(namer, _)| *namer).collect();
    let handler = Sweep { namers: &namers, below, manner, swept: Mutex::default() };
    // With a slash: the path may end in a link.
    let path = [top.path, b"/"].concat();
    let is_same = || -> Result<bool, Errno> {
        let (named, opened) = (sys::stat_path(&path, true)?, sys::stat_of(top.opened)?);
        Ok((named.device, named.inode) == (opened.device, opened.inode))
    };
    if is_same() != Ok(true) {
        handler.fail(Operation::OpenDirectory, &path, is_same().err().unwrap_or(Errno::STALE));
        return handler.swept.into_inner().unwrap_or_else(PoisonError::into_inner);
    }
    let options = tree::Options {
        one_file_system: true,
        lite: true,
        threads: options.threads,
        memory_bytes: options.memory_bytes,
        spill_directory: options.spill_directory.clone(),
        stop: options.stop.clone(),
        features: options.features,
        cores: options.cores,
        ..tree::Options::default()
    };
    let walked = tree::run_alone(&handler, [Start::new(path)], &options, |_, _| {});
    let mut swept = handler.swept.into_inner().unwrap_or_else(PoisonError::into_inner);
    swept.stopped = walked.stopped;
    swept.found.sort_by(|one, other| one.path.cmp(&other.path));
    swept
}

impl Sweep<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Swept> {
        self.swept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, operation: Operation, path: &[u8], errno: Errno) {
        self.add_failure(Failure {
            operation,
            root: path.to_vec().into(),
            path: path.to_vec().into(),
            errno,
            spelled: None,
            at: None,
        });
    }

    fn add_failure(&self, failure: Failure<'static>) {
        let mut swept = self.lock();
        swept.failed += 1;
        if swept.failures.len() < FOUND_MAX {
            swept.failures.push(failure);
        }
    }

    /// Counts one name that a run left, and removes it if requested.
    fn dispose(&self, descriptor: &Arc<OwnedFd>, entry: &Entry<'_>) {
        let name = CString::new(entry.name).unwrap_or_default();
        let mut tally = Tally::default();
        let done = dispose(descriptor.as_fd(), &name, &self.manner, &mut tally);
        let path = entry.path();
        let mut swept = self.lock();
        swept.names += 1;
        swept.tally.entries += tally.entries;
        swept.tally.bytes += tally.bytes;
        if swept.found.len() < FOUND_MAX {
            let Tally { entries, bytes } = tally;
            swept.found.push(Leftover { path: path.to_vec(), entries, bytes });
        }
        drop(swept);
        if let Err(errno) = done {
            self.fail(Operation::Custom("remove"), &path, errno);
        }
    }
}

impl Handler for Sweep<'_> {
    type Worker = ();
    type State = ();

    fn worker(&self, _index: usize) {}

    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let here = cx.here();
        let Cx { tasks, .. } = cx;
        let Some(here) = here else { return };
        if entry.name.starts_with(PREFIX) && self.namers.iter().any(|namer| namer.gave(entry.name)) {
            self.dispose(here.descriptor, entry);
            return tasks.prune();
        }
        let is_elsewhere = |below: &HashSet<CString>| {
            here.directory.parent().is_none() && !below.iter().any(|name| name.as_bytes() == entry.name)
        };
        if entry.kind == Kind::Directory && self.below.as_ref().is_some_and(is_elsewhere) {
            tasks.prune();
        }
    }

    fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

    fn failure(&self, (): &mut (), failure: &Failure<'_>) {
        // A removed name is no leftover.
        if failure.errno != Errno::NOENT {
            self.fail(failure.operation, &failure.path, failure.errno);
        }
    }

    fn finish(&self, (): &mut ()) {}
}
