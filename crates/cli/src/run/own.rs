//! The job of a walk whose logs the ranks keep themselves (`--survive K`): each rank has a directory of its own, and copies of its log are in the memory of
//! the K next ranks. After deaths the ranks that are left tell each other what they have, and go on as from a directory that all see.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use atta_entry::Errno;
use atta_ledger::LogName;
use atta_ops::resume::OwnDirectory;
use atta_runtime::{Mirror, RankError, Session};

use super::file::printable;
use super::refused::Refused;

/// Where there is memory for files.
const IN_MEMORY: &str = "/dev/shm";

/// The job, on one rank.
pub(crate) struct OwnJob {
    directory: OwnDirectory,
    copies: u32,
    /// What this rank keeps for others, of the current view.
    mirror: Mutex<Option<Mirror>>,
}

impl std::fmt::Debug for OwnJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnJob").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// A log as far as a rank has it.
type LogSoFar = (LogName, Vec<u8>);

impl OwnJob {
    /// Makes the directory, in `TMPDIR` if that is set and can be used, else in memory.
    pub(crate) fn begin(copies: u32) -> Result<Self, Refused> {
        let named = std::env::var_os("TMPDIR").filter(|named| !named.is_empty()).map(PathBuf::from);
        let bases = named.into_iter().chain([PathBuf::from(IN_MEMORY), std::env::temp_dir()]);
        let mut first = None;
        for base in bases {
            match OwnDirectory::begin(&base) {
                Ok(directory) => return Ok(Self { directory, copies, mirror: Mutex::default() }),
                Err(errno) => drop(first.get_or_insert((base, errno))),
            }
        }
        let why =
            first.map_or_else(String::new, |(base, errno)| format!(" in {}: {errno}", printable(&base)));
        let what = format!("cannot make a directory for --survive{why}");
        Err(Refused::fatal_with(what, Some("TMPDIR names another directory".to_owned())))
    }

    /// The directory of the job on this rank.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The header of the job, on the rank that has begun it.
    pub(crate) fn header(&self) -> Vec<u8> {
        self.directory.header()
    }

    /// Takes over the header. If it cannot be written, the rank does not find the job, and says so.
    pub(crate) fn put_header(&self, header: &[u8]) {
        let _ = self.directory.put_header(header);
    }

    /// Begins a view. After deaths all ranks take over what any of them has of the logs of the view before. Returns why that failed on one.
    pub(crate) fn enter(
        &self,
        session: &mut Session<'_>,
        after_deaths: bool,
    ) -> Result<Option<String>, RankError> {
        let mut mirror = self.mirror.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failed = None;
        if after_deaths {
            // On the disk first: another rank may die before all have it.
            let kept = mirror.take().map_or(Ok(()), |mirror| self.put(&mirror.kept()));
            let of_all = session.all_reduce(self.directory.last_logs(), add_logs)?;
            let put =
                kept.and_then(|()| self.put(&of_all)).and_then(|()| self.directory.forget_without_first());
            let path = printable(self.path());
            let why = put.err().map(|errno| format!("cannot keep logs of other ranks in {path}: {errno}"));
            failed = session.all_reduce(why, |one, other| *one = one.take().or(other))?;
        }
        session.mirror_logs(self.copies);
        *mirror = session.mirror();
        Ok(failed)
    }

    fn put(&self, logs: &[LogSoFar]) -> Result<(), Errno> {
        logs.iter().try_for_each(|(name, bytes)| self.directory.put_log(*name, bytes))
    }
}

/// Unites logs. Of each, the longest one counts.
fn add_logs(logs: &mut Vec<LogSoFar>, more: Vec<LogSoFar>) {
    for (name, bytes) in more {
        match logs.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if known.len() < bytes.len() => *known = bytes,
            Some(_) => {}
            None => logs.push((name, bytes)),
        }
    }
}
