//! Other runs of the same user in one place: their records, whether they still run, and the removal of what an ended one has left in its private
//! directory. How to handle them is decided in `copy/plan/beside.rs` and `clean.rs`.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use atta_entry::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::AtFlags;

use super::directory::{RECORD, open_private, read_record, remove_own};
use super::names::{self, Namer};
use super::record::Record;
use super::tree;
use atta_sys as sys;

/// Seconds from the begin of a run, or from the end of its preparations, to the birth of what it makes before its job begins.
const BORN_WITHIN: i64 = 3;
/// Runs of one user in one place that are looked at.
pub(crate) const RUNS_MAX: usize = 4096;

/// Whether the run of a record still runs.
#[derive(Debug)]
pub(crate) enum State {
    /// Another process holds its lock.
    Runs,
    /// The lock was free. This process holds it now, as long as this value lives.
    Ended { lock: OwnedFd },
    /// The file system does not support locks.
    Unknown,
}

/// Another run, by its record.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) record: Record,
    pub(crate) namer: Namer,
    pub(crate) state: State,
    /// When its record was written, or [touched](super::Job::touch), in seconds since 1970 by the clock of the file system.
    written: i64,
    /// Where its private directory is, and its name there.
    pub(crate) above: Arc<OwnedFd>,
    pub(crate) name: CString,
}

impl Other {
    /// Whether this run was asked for by that request, and has made the directory with this name, born then, in TOP. Its job may not have begun.
    fn has_made(&self, top: &OwnedFd, request: &str, (name, born): (&CStr, i64)) -> bool {
        let is_new = match self.record.since {
            Some(since) => i64::try_from(since) == Ok(born),
            None => (-1..=BORN_WITHIN).contains(&(born - self.written)),
        };
        let has_alias =
            || !matches!(sys::stat_at(top, &self.namer.of_directory(name), false), Err(Errno::NOENT));
        self.record.makes_new(request, name) && is_new && !has_alias()
    }

    /// Whether this run has made a name in TOP, although its job may not have begun.
    pub(crate) fn has_begun(&self, top: &OwnedFd) -> bool {
        let Some(request) = &self.record.request else { return false };
        let has_made =
            |name: &CStr| birth(top, name).is_some_and(|born| self.has_made(top, request, (name, born)));
        self.record.makes.iter().any(|makes| has_made(&makes.name))
    }

    /// The path of its private directory, below the directory that the runs are in.
    pub(crate) fn path(&self) -> Vec<u8> {
        match self.name == self.namer.alone() {
            true => self.name.as_bytes().to_vec(),
            false => [self.namer.home().as_bytes(), self.name.as_bytes()].join(&b'/'),
        }
    }
}

/// The runs whose directories are in that of all runs.
pub(crate) fn others_in(home: &Arc<OwnedFd>) -> Vec<Other> {
    others_among(home, |_| true)
}

/// When the directory with this name in TOP was born, if a run for this request has made it, and its job may not have begun. The record of that run
/// says that it makes the name, its temporary directory is gone, and the directory was born soon after the record was written or touched; or the record of one
/// that went on with it says when it was born. In seconds since 1970.
pub(crate) fn made_since(top: &OwnedFd, home: &Arc<OwnedFd>, request: &str, name: &CStr) -> Option<u64> {
    let born = birth(top, name)?;
    let is_made = others_in(home).iter().any(|other| other.has_made(top, request, (name, born)));
    u64::try_from(born).ok().filter(|_| is_made)
}

/// When a name was born, in seconds since 1970, if the file system keeps that.
fn birth(top: &OwnedFd, name: &CStr) -> Option<i64> {
    Some(sys::stat_at(top, name, true).ok()?.btime?.seconds)
}

pub(super) fn others_among(home: &Arc<OwnedFd>, is_wanted: impl Fn(&CString) -> bool) -> Vec<Other> {
    let names = sys::names_of(home, RUNS_MAX).unwrap_or_default();
    let wanted = names.iter().filter(|name| is_wanted(name));
    wanted.filter_map(|name| other(home, name).ok().flatten()).collect()
}

/// The run whose private directory has that name. None: there is no record that proves it.
pub(crate) fn other(above: &Arc<OwnedFd>, name: &CStr) -> Result<Option<Other>, Errno> {
    let directory = open_private(above, name, None)?;
    let Some((opened, record)) = read_record(&directory)? else { return Ok(None) };
    let written = sys::stat_descriptor(&opened)?.mtime.seconds;
    let namer = Namer::of(record.job, record.uid.to_string().as_bytes());
    if name != namer.tag().as_c_str() && name != namer.alone().as_c_str() {
        return Ok(None);
    }
    let state = match sys::locks::try_lock(&opened) {
        // The run has ended just now, and removes its directory.
        Ok(()) if !sys::is_name_of(&directory, RECORD, &opened) => return Ok(None),
        Ok(()) => State::Ended { lock: opened },
        Err(Errno::AGAIN) => State::Runs,
        Err(_) => State::Unknown,
    };
    Ok(Some(Other { record, namer, state, written, above: Arc::clone(above), name: name.to_owned() }))
}

/// Removes, or counts, the private directory of another run with its contents, and the directory of all runs if it was the last one.
/// Returns what it held. The record goes last: without it, nobody can tell whose the rest is.
pub(crate) fn remove_other(other: Other, top: &OwnedFd, manner: &tree::Manner) -> Result<tree::Tally, Errno> {
    let Other { above, name, namer, state, .. } = other;
    let mut tally = tree::Tally::default();
    let directory = match open_private(&above, &name, None) {
        Err(Errno::NOENT) => return Ok(tally),
        opened => opened?,
    };
    tally.add(&sys::stat_descriptor(&directory)?);
    let names = sys::names_of(&directory, usize::MAX)?;
    for name in names.iter().filter(|name| name.as_c_str() != RECORD) {
        tree::dispose(directory.as_fd(), name, manner, &mut tally)?;
    }
    if let Ok(record) = sys::stat_at(&directory, RECORD, false) {
        tally.add(&record);
    }
    if manner.removes {
        let mut lock = match state {
            State::Ended { lock } => Some(lock),
            State::Runs | State::Unknown => None,
        };
        remove_own(&above, &directory, &name, &mut lock)?;
        // Other runs may be in it.
        let _ = rustix::fs::unlinkat(top, namer.home(), AtFlags::REMOVEDIR);
    }
    Ok(tally)
}

/// The namer of the run that gave a name, which is `parsed`, if the run's record is in that directory.
pub(crate) fn namer_in(directory: impl AsFd, parsed: names::Parsed<'_>) -> Option<Namer> {
    let tag = CString::new(parsed.tag?).ok()?;
    let home = CString::new([names::PREFIX, parsed.uid].concat()).ok()?;
    let alone = CString::new([home.as_bytes(), b".", tag.as_bytes()].concat()).ok()?;
    let in_home =
        open_private(directory.as_fd(), &home, None).and_then(|home| open_private(&home, &tag, None));
    let own = in_home.or_else(|_| open_private(directory.as_fd(), &alone, None)).ok()?;
    let (_, record) = read_record(&own).ok().flatten()?;
    let namer = Namer::of(record.job, parsed.uid);
    (namer.tag() == tag).then_some(namer)
}
