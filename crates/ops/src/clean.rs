//! Lists the names that ended runs left in a directory, and removes them on request. A name belongs to a run only if the run's record
//! proves it. Any other name is data, whatever its form.
//!
//! It prints nothing, and never removes anything of a run that may still be running.

use atta_sys as sys;
use std::sync::Arc;

use atta_entry::{Errno, Failure, Kind};
use rustix::fd::OwnedFd;

pub use crate::jobs::record::Holder;
pub use crate::jobs::sweep::Leftover;
pub use crate::refused::Refused;

use crate::jobs::directory::open_private;
use crate::jobs::names;
use crate::jobs::others::{Other, State, other, others_in, remove_other};
use crate::jobs::sweep::{Top, sweep};
use crate::jobs::tree::{Manner, Tally};
use crate::resume::{self, Ended};
use crate::tree;

/// The most runs to examine.
const DIRECTORIES_MAX: usize = 4096;

/// How to clean.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// How to walk the directory: threads, memory, stop.
    pub walk: tree::Options<'a>,
    /// Whether to remove the names found.
    pub removes: bool,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is running; its names are left alone.
    Runs,
    /// It has ended.
    Ended,
    /// Unknown: the file system has no locks, and the run did not start on this host since its last boot.
    Unknown,
}

/// A run that has a record in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The process that holds the record.
    pub holder: Holder,
    /// Whether it is still running.
    pub life: Life,
}

/// Result of a run, in output order.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The runs found.
    pub runs: Vec<Run>,
    /// Names left by ended runs, at most the first thousand.
    pub leftovers: Vec<Leftover>,
    /// Number of all such names.
    pub names: u64,
    /// Entries at these names and below them.
    pub entries: u64,
    /// Disk space in bytes that they use, or used.
    pub bytes: u64,
    /// Entries that could not be read or removed, at most the first thousand.
    pub failures: Vec<Failure<'static>>,
    /// Number of all failures.
    pub failed: u64,
    /// Whether the run ended early on request.
    pub stopped: bool,
}

impl Outcome {
    /// Removes jobs that no process holds and none of these runs goes on with, or counts them. Returns the numbers of jobs that are held.
    fn remove_jobs(
        &mut self,
        (top, path): (&Arc<OwnedFd>, &[u8]),
        runs: &[Other],
        manner: &Manner,
    ) -> Vec<u64> {
        let running = runs.iter().filter(|other| run_of(other).life == Life::Runs);
        let mut held: Vec<_> = running.map(|other| other.record.job).collect();
        for job in resume::all_below(top).into_iter().filter(|job| may_act_on(job.uid())) {
            match job.remove(&held, manner.removes) {
                Ok(Ended::Removed(tally)) => self.add_removed(tally),
                Ok(Ended::Held(number)) => held.extend(number),
                Ok(Ended::Unknown) => {}
                Err(errno) => self.fail(&[path, job.path().as_slice()].join(&b'/'), errno),
            }
        }
        held
    }

    /// Counts the record of a run, which was removed.
    fn add_removed(&mut self, Tally { entries, bytes }: Tally) {
        self.entries += entries;
        self.bytes += bytes;
    }

    /// Counts a record that could not be removed.
    fn fail(&mut self, path: &[u8], errno: Errno) {
        let operation = atta_entry::Operation::Custom("remove");
        let (root, path) = (path.to_vec().into(), path.to_vec().into());
        self.failures.push(Failure { operation, root, path, errno, spelled: None, at: None });
        self.failed += 1;
    }
}

/// Finds the names that ended runs left in a directory and below it. It ends early when `options.walk.stop` is set.
///
/// # Errors
/// The directory cannot be read.
pub fn run(directory: &[u8], options: &Options<'_>) -> Result<Outcome, Refused> {
    let cannot =
        |errno| Refused::failed("open DIR", directory, errno, "DIR is the directory that a message named");
    let top = sys::open_directory_path(directory, true).map(Arc::new).map_err(cannot)?;
    let others = runs_in(&top).map_err(cannot)?;
    let mut outcome = Outcome { runs: others.iter().map(run_of).collect(), ..Outcome::default() };
    let walk = &options.walk;
    let manner = Manner { removes: options.removes, stop: walk.stop.clone(), features: walk.features };
    // Jobs go first: their logs speak of what is removed.
    let held = outcome.remove_jobs((&top, directory), &others, &manner);
    let is_ended = |other: &Other| run_of(other).life != Life::Runs && !held.contains(&other.record.job);
    let ended: Vec<_> = others.into_iter().filter(is_ended).collect();
    if ended.is_empty() || outcome.failed > 0 {
        return Ok(outcome);
    }
    let runs: Vec<_> = ended.iter().map(|other| (&other.namer, &other.record)).collect();
    let swept = sweep(Top { opened: &top, path: directory }, &runs, walk, manner.clone());
    let is_swept = swept.failed == 0 && !swept.stopped;
    outcome.leftovers = swept.found;
    outcome.names = swept.names;
    outcome.add_removed(swept.tally);
    outcome.failures.extend(swept.failures);
    outcome.failed += swept.failed;
    outcome.stopped = swept.stopped;
    // Records go last: without them, leftovers cannot be recognized.
    if is_swept {
        for other in ended {
            let path = [directory, other.path().as_slice()].join(&b'/');
            match remove_other(other, &top, &manner) {
                Ok(removed) => outcome.add_removed(removed),
                Err(errno) => outcome.fail(&path, errno),
            }
        }
    }
    Ok(outcome)
}

/// Returns the runs that have records in a directory.
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
            Some(_) => runs.extend(other(top, name).ok().flatten().filter(is_trusted)),
            None => {
                let home = open_private(top, name, None).map(Arc::new);
                runs.extend(home.iter().flat_map(others_in).filter(is_trusted));
            }
        }
        if runs.len() >= DIRECTORIES_MAX {
            break;
        }
    }
    Ok(runs)
}

/// Whether this user may act on a record: it is the user's own, or the user is root, who may remove any file anyway.
fn is_trusted(other: &Other) -> bool {
    may_act_on(other.record.uid)
}

fn may_act_on(uid: u32) -> bool {
    let own = rustix::process::geteuid();
    own.is_root() || uid == own.as_raw()
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
