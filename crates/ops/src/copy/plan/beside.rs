//! Other runs in the same TARGET. A copy refuses to make what another run is making, reports other runs, and removes leftovers of ended
//! runs or reports them. See `jobs.rs` for how runs are identified.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use atta_entry::{Errno, escape, shell_quote};
use rustix::fd::OwnedFd;

use crate::copy::commit::stores::Stores;
use crate::copy::options::{Fsync, Leftovers, Notice, Options, Watch};
use crate::copy::plan::roots::{Destination, Roots};
use crate::copy::target::mirror::Shared;

use crate::jobs::directory::open_private;
use crate::jobs::names::Namer;
use crate::jobs::others::{Other, State, made_since, remove_other};
use crate::jobs::record::{LogPlace, Makes, Record};
use crate::jobs::sweep::{Top, sweep};
use crate::jobs::tree::Manner;
use crate::jobs::{self, Begun, Job, Setting};
use crate::refused::Refused;
use crate::resume::JobPlace;
use atta_sys as sys;
use atta_sys::file_systems::Durability;

/// Where a copy writes, and what it makes.
pub(crate) struct Place<'a> {
    pub(crate) target: &'a Destination,
    pub(crate) roots: &'a Roots,
    pub(crate) shared: &'a Shared,
    pub(crate) stores: &'a Stores,
    pub(crate) options: &'a Options<'a>,
    pub(crate) watch: &'a dyn Watch,
}

/// Makes the private directory of a copy, on its first rank. `None`: it cannot be made.
///
/// # Errors
/// Another run makes the same new name, or is present and excluded by the options.
pub(crate) fn begin(place: &Place<'_>, sources: &[Vec<u8>]) -> Result<Option<Job>, Refused> {
    let Place { target, roots, shared, stores, options, watch } = *place;
    let (top, namer) = (&target.top, &shared.namer);
    let identity = sys::stat_of(top).map_or((0, 0), |top| (top.device, top.inode));
    let is_locked = target.is_taken();
    let record = Record::of_this_process(namer.job(), identity, target.is_into(), made_by(top, roots))
        .with_log(options.log_place())
        .with_request(options.request.clone())
        .with_since(goes_on_since(place));
    let setting = Setting {
        top,
        namer,
        own_uid: stores.own_uid(identity.0),
        is_alone: is_wanted(&namer.home(), sources, roots),
        // One sync of the file system makes the record durable together with the data that it identifies.
        is_durable: match (options.fsync, stores.top_durability()) {
            (Fsync::None, _) | (_, Durability::Volatile) | (Fsync::Batch, Durability::Whole) => false,
            (Fsync::Batch | Fsync::File, _) => true,
        },
        features: options.walk.features,
    };
    let begun =
        jobs::begin(&setting, &record, |others| refuse(&record, others, is_locked, options.exclusive))?;
    let Begun { job, others, lockless } = match begun {
        Ok(begun) => begun,
        Err(errno) if options.exclusive => return Err(not_exclusive(&target.path, errno)),
        Err(errno) => {
            report_crowd(None, is_locked, watch);
            watch.notice(&Notice::NoRecord(errno));
            return Ok(None);
        }
    };
    match lockless {
        Some(errno) if options.exclusive => return Err(not_exclusive(&target.path, errno)),
        Some(errno) => watch.notice(&Notice::NoLocks(errno)),
        None => {}
    }
    report_crowd(others.iter().find(|other| runs(other) && meets(&record, &other.record)), is_locked, watch);
    // An earlier run of this job is none of them.
    let others = others.into_iter().filter(|other| other.record.job != namer.job());
    others.for_each(|other| place.settle(other, identity));
    // It may have taken long to remove what earlier runs left. If this run is killed now, a later one looks for names that were born soon after this.
    let _ = job.touch();
    Ok(Some(job))
}

/// When the name of this copy was born, if a run for the same request has made it and was killed before its job began. This run may be killed as early,
/// after it has removed the record of that one.
fn goes_on_since(Place { target, roots, shared, options, .. }: &Place<'_>) -> Option<u64> {
    let request = options.request.as_deref().filter(|_| !target.is_into())?;
    let home = open_private(&target.top, &shared.namer.home(), None).ok()?;
    let home = Arc::new(home);
    roots.names().iter().find_map(|name| made_since(&target.top, &home, request, name))
}

/// The names that the copy makes in TOP.
fn made_by(top: &OwnedFd, roots: &Roots) -> Vec<Makes> {
    let names = roots.names();
    let is_new = |name: &CString| sys::stat_at(top, name, false).is_err_and(|errno| errno == Errno::NOENT);
    names.into_iter().map(|name| Makes { is_new: is_new(&name), name }).collect()
}

/// Whether the copy itself makes an entry of that name in TOP.
fn is_wanted(home: &CString, sources: &[Vec<u8>], roots: &Roots) -> bool {
    sources.iter().any(|source| match roots.find(source) {
        Some(root) if root.name.as_c_str() == c"." => {
            sys::stat_path(&[source.as_slice(), home.as_bytes()].join(&b'/'), false).is_ok()
        }
        Some(root) => root.name == *home,
        None => false,
    })
}

/// Whether another run counts as running.
fn runs(other: &Other) -> bool {
    match other.state {
        State::Runs => true,
        State::Ended { .. } => false,
        State::Unknown => other.record.is_of_this_boot() && other.record.holder.is_alive(),
    }
}

/// Whether two runs write to the same names.
fn meets(one: &Record, other: &Record) -> bool {
    let has = |record: &Record, name: &CString| record.makes.iter().any(|makes| makes.name == *name);
    let any = c".".to_owned();
    one.is_into && other.is_into
        || has(one, &any)
        || has(other, &any)
        || one.makes.iter().any(|makes| has(other, &makes.name))
}

/// Refuses a new name that another run is making, and any overlap under `--exclusive`.
fn refuse(own: &Record, others: &[Other], is_locked: bool, is_exclusive: bool) -> Result<(), Refused> {
    // An earlier run of this job has ended if its job could be taken, whatever its lock says: a server may release that late.
    let is_another = |other: &&Other| runs(other) && other.record.job != own.job;
    for Other { record, .. } in others.iter().filter(is_another) {
        let is_same = |one: &&Makes| record.makes.iter().any(|other| other.is_new && other.name == one.name);
        if let Some(Makes { name, .. }) = own.makes.iter().filter(|makes| makes.is_new).find(is_same) {
            let what = format!("another copy is making {}: {}", escape(name.to_bytes()), record.holder);
            return Err(refused(what, "wait for it to end, or choose another TARGET".to_owned()));
        }
        if is_exclusive && meets(own, record) {
            let what = format!("another copy is writing to TARGET: {}", record.holder);
            return Err(refused(what, "wait for it to end, or leave --exclusive out".to_owned()));
        }
    }
    match is_exclusive && is_locked {
        true => {
            let what = "another copy is writing to TARGET, or somebody else holds its lock".to_owned();
            Err(refused(what, "wait for it to end, or leave --exclusive out".to_owned()))
        }
        false => Ok(()),
    }
}

fn refused(what: String, hint: String) -> Refused {
    Refused { what, hint: hint.into(), is_usage: false }
}

fn not_exclusive(path: &[u8], errno: Errno) -> Refused {
    let hint = "whether another copy is writing there cannot be found out; leave --exclusive out";
    Refused::failed("lock TARGET", path, errno, hint)
}

fn report_crowd(other: Option<&Other>, is_locked: bool, watch: &dyn Watch) {
    if let Some(other) = other {
        watch.notice(&Notice::Crowded(Some(other.record.holder.clone())));
    } else if is_locked {
        watch.notice(&Notice::Crowded(None));
    }
}

impl Place<'_> {
    /// Whether a later run may go on with the job of another one, and its directory if that is known.
    fn job_of(&self, other: &Other) -> Option<Option<Vec<u8>>> {
        match other.record.log? {
            LogPlace::Elsewhere => Some(None),
            LogPlace::Here => {
                let path = Path::new(OsStr::from_bytes(&self.target.path));
                match JobPlace::of_number(path, other.record.job) {
                    Ok(place) => Some(Some(place?.path().as_os_str().as_bytes().to_vec())),
                    // It may be there.
                    Err(_) => Some(None),
                }
            }
        }
    }

    /// Removes the leftovers of an ended run of the same user, host and boot. Reports any others.
    fn settle(&self, other: Other, top: (u64, u64)) {
        let Self { target, options, watch, .. } = *self;
        if runs(&other) {
            return;
        }
        let holder = other.record.holder.clone();
        let is_own = other.record.is_of_this_boot()
            && other.record.top == top
            && other.record.uid == rustix::process::geteuid().as_raw();
        if options.given_up != Some(other.record.job)
            && let Some(job) = self.job_of(&other)
        {
            return watch.notice(&Notice::Resumable { holder, directory: target.path.clone(), job });
        }
        // Only the record says what that directory is.
        if other.record.request != options.request && other.has_begun(&target.top) {
            return watch.notice(&Notice::Begun { holder, directory: target.path.clone() });
        }
        if !is_own || !matches!(other.state, State::Ended { .. }) {
            return watch.notice(&Notice::Left { holder, directory: target.path.clone() });
        }
        let walk = &options.walk;
        let manner = Manner { removes: true, stop: walk.stop.clone(), features: walk.features };
        let swept = sweep(
            Top { opened: &target.top, path: &target.path },
            &[(&other.namer, &other.record)],
            walk,
            manner.clone(),
        );
        let is_swept = swept.failed == 0 && !swept.stopped;
        if !is_swept || remove_other(other, &target.top, &manner).is_err() {
            return watch.notice(&Notice::Left { holder, directory: target.path.clone() });
        }
        if swept.names > 0 {
            watch.notice(&Notice::Removed { holder, entries: swept.tally.entries, bytes: swept.tally.bytes });
        }
    }
}

/// Lists this run's own leftovers below TOP.
pub(crate) fn left_by(
    (top, path): (&Arc<OwnedFd>, &[u8]),
    namer: &Namer,
    record: &Record,
    options: &Options<'_>,
) -> Leftovers {
    let walk = &options.walk;
    // This run's stop flag may be set already, and the leftovers are still to be listed.
    let walk = &crate::tree::Options {
        stop: atta_runtime::Stop::new(),
        threads: walk.threads,
        spill_directory: walk.spill_directory.clone(),
        features: walk.features,
        ..crate::tree::Options::default()
    };
    let manner = Manner { removes: false, stop: walk.stop.clone(), features: walk.features };
    let swept = sweep(Top { opened: top, path }, &[(namer, record)], walk, manner);
    let (entries, bytes) = (swept.tally.entries, swept.tally.bytes);
    Leftovers { directory: path.to_vec(), entries, bytes, some: swept.found }
}

impl Leftovers {
    /// The command that removes them.
    #[must_use]
    pub fn command(&self) -> String {
        clean_command(&self.directory)
    }
}

/// The command that removes the leftovers of ended runs in a directory.
#[must_use]
pub fn clean_command(directory: &[u8]) -> String {
    format!("atta clean --yes -- {}", shell_quote(directory))
}
