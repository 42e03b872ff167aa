//! Lists what runs that have ended left in a directory under names of their own, and removes it if that is wanted. A name is one of
//! theirs only if the record of a run proves it; any other is data, whatever it looks like.
//!
//! It prints nothing, and removes nothing of a run that may still be running.

use atta_sys as sys;
use std::sync::Arc;

use atta_entry::{Errno, Failure, Kind};
use rustix::fd::OwnedFd;

pub use crate::jobs::record::Holder;
pub use crate::jobs::sweep::Leftover;
pub use crate::refused::Refused;

use crate::jobs::names;
use crate::jobs::sweep::sweep;
use crate::jobs::tree::{Manner, Tally};
use crate::jobs::{self, Other, State};
use crate::tree;

/// Directories of runs that are looked at.
const DIRECTORIES_MAX: usize = 4096;

/// How it is done.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// How the directory is walked: threads, memory, stop.
    pub walk: tree::Options<'a>,
    /// Whether what is found is removed.
    pub removes: bool,
}

/// What a run is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs: what it makes is left alone.
    Runs,
    /// It has ended.
    Ended,
    /// The file system has no locks, and the run is none of this host since its last start: nobody knows.
    Unknown,
}

/// A run that has a record there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Who it is.
    pub holder: Holder,
    /// Whether it still runs.
    pub life: Life,
}

/// What was found, in the order in which it is to be shown.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The runs.
    pub runs: Vec<Run>,
    /// Names that runs have left which have ended, the first thousand of them.
    pub leftovers: Vec<Leftover>,
    /// All of them.
    pub names: u64,
    /// Entries at these names and below them.
    pub entries: u64,
    /// Bytes on the disk that they have, or had.
    pub bytes: u64,
    /// What could not be read or removed, the first thousand.
    pub failures: Vec<Failure<'static>>,
    /// All of it.
    pub failed: u64,
    /// Whether it ended early because it was asked to.
    pub stopped: bool,
}

/// Looks for what ended runs have left in a directory, and below it. It ends early when `options.walk.stop` is set.
///
/// # Errors
/// The directory cannot be read.
pub fn run(directory: &[u8], options: &Options<'_>) -> Result<Outcome, Refused> {
    let cannot =
        |errno| Refused::failed("open DIR", directory, errno, "DIR is the directory that a message named");
    let top = sys::open_directory_path(directory, true).map(Arc::new).map_err(cannot)?;
    let others = runs_in(&top).map_err(cannot)?;
    let mut outcome = Outcome { runs: others.iter().map(run_of).collect(), ..Outcome::default() };
    let ended: Vec<_> = others.iter().filter(|other| run_of(other).life != Life::Runs).collect();
    if ended.is_empty() {
        return Ok(outcome);
    }
    let walk = &options.walk;
    let manner = Manner { removes: options.removes, stop: walk.stop.clone(), features: walk.features };
    let runs: Vec<_> = ended.iter().map(|other| (&other.namer, &other.record)).collect();
    let swept = sweep((&*top, directory), &runs, walk, manner.clone());
    let is_swept = swept.failed == 0 && !swept.stopped;
    outcome.leftovers = swept.found;
    (outcome.names, outcome.entries, outcome.bytes) = (swept.names, swept.tally.entries, swept.tally.bytes);
    outcome.failures.extend(swept.failures);
    outcome.failed += swept.failed;
    outcome.stopped = swept.stopped;
    // The record goes last: without it nobody could tell what is left.
    if is_swept {
        ended.iter().for_each(|other| remove_record(other, &top, directory, &manner, &mut outcome));
    }
    Ok(outcome)
}

/// The runs that have their records in a directory.
fn runs_in(top: &Arc<OwnedFd>) -> Result<Vec<Other>, Errno> {
    let mut runs = Vec::new();
    let entries = rustix::fs::Dir::read_from(top).map_err(|error| Errno(error.raw_os_error()))?;
    for entry in entries {
        let entry = entry.map_err(|error| Errno(error.raw_os_error()))?;
        let name = entry.file_name();
        let Some(names::Parsed { tag, serial: None, .. }) = names::parse(name.to_bytes()) else { continue };
        if !matches!(sys::kind_of(entry.file_type()), Kind::Directory | Kind::Unknown) {
            continue;
        }
        match tag {
            Some(_) => runs.extend(jobs::other(top, name).ok().flatten().filter(is_trusted)),
            None => {
                let home = jobs::open_private(top, name, None).map(Arc::new);
                runs.extend(home.iter().flat_map(jobs::others_in).filter(is_trusted));
            }
        }
        if runs.len() >= DIRECTORIES_MAX {
            break;
        }
    }
    Ok(runs)
}

/// Whether this user may act on what a record says: it is its own, or this is root, who may remove what others have anyway.
fn is_trusted(other: &Other) -> bool {
    let own = rustix::process::geteuid();
    own.is_root() || other.record.uid == own.as_raw()
}

fn run_of(other: &Other) -> Run {
    let life = match other.state {
        State::Runs => Life::Runs,
        State::Ended { .. } => Life::Ended,
        State::Unknown if !other.record.is_of_this_boot() => Life::Unknown,
        State::Unknown if other.record.holder.is_alive() => Life::Runs,
        State::Unknown => Life::Ended,
    };
    Run { holder: other.record.holder.clone(), life }
}

fn remove_record(other: &Other, top: &OwnedFd, directory: &[u8], manner: &Manner, outcome: &mut Outcome) {
    match jobs::remove_other(other, top, manner) {
        Ok(Tally { entries, bytes }) => {
            outcome.entries += entries;
            outcome.bytes += bytes;
        }
        Err(errno) => {
            let path = [directory, other.name.as_bytes()].join(&b'/');
            let operation = atta_entry::Operation::Custom("remove");
            let (root, at) = (path.clone().into(), None);
            outcome.failures.push(Failure { operation, root, path: path.into(), errno, spelled: None, at });
            outcome.failed += 1;
        }
    }
}
