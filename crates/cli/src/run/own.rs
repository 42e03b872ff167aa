//! The job of a walk whose logs the ranks keep themselves (`--survive K`): each rank has a directory of its own, and K other ranks keep
//! copies of its log in memory. After deaths the ranks that are left exchange what they have of the logs, and go on as from a directory that all see.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use atta_entry::Errno;
use atta_ledger::{LogSoFar, unite};
use atta_ops::resume::OwnDirectory;
use atta_runtime::{Mirror, RankError, Session};

use super::file::printable;

/// Where there is memory for files.
const IN_MEMORY: &str = "/dev/shm";

/// The job, on one rank.
#[derive(Debug)]
pub(crate) struct OwnJob {
    /// Made when the first view begins; the error says why it cannot be made.
    directory: OnceLock<Result<OwnDirectory, String>>,
    copies: u32,
    /// What this rank keeps for others, of the current view.
    mirror: Mutex<Option<Mirror>>,
}

impl OwnJob {
    /// A job of whose logs so many other ranks have copies.
    pub(crate) fn new(copies: u32) -> Self {
        Self { directory: OnceLock::new(), copies, mirror: Mutex::default() }
    }

    fn directory(&self) -> Result<&OwnDirectory, String> {
        self.directory.get_or_init(make_directory).as_ref().map_err(Clone::clone)
    }

    /// The directory of the job on this rank.
    pub(crate) fn path(&self) -> &Path {
        self.directory().map_or(Path::new(""), OwnDirectory::path)
    }

    /// The header of the job, on the rank that has begun it.
    pub(crate) fn header(&self) -> Vec<u8> {
        self.directory().map(OwnDirectory::header).unwrap_or_default()
    }

    /// Takes over the header. If it cannot be written, the rank does not find the job, and says so.
    pub(crate) fn put_header(&self, header: &[u8]) {
        let _ = self.directory().map(|directory| directory.put_header(header));
    }

    /// Begins a view. After deaths all ranks take over what any of them has of the logs of the view before. Returns why that failed on one.
    pub(crate) fn enter(
        &self,
        session: &mut Session<'_>,
        after_deaths: bool,
    ) -> Result<Option<String>, RankError> {
        let mut mirror = self.mirror.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = self.directory().map(drop);
        if after_deaths {
            // On the disk first: another rank may die before all have it.
            let kept = mirror.take().map(|mirror| mirror.kept()).unwrap_or_default();
            done = done.and_then(|()| self.put(&kept));
            let own = self.directory().map(OwnDirectory::last_logs).unwrap_or_default();
            let of_all = session.all_reduce(own, unite)?;
            done = done.and_then(|()| self.put(&of_all)).and_then(|()| self.forget_without_first());
        }
        let failed = session.all_reduce(done.err(), |one, other| *one = one.take().or(other))?;
        session.mirror_logs(self.copies);
        *mirror = session.mirror();
        Ok(failed)
    }

    fn put(&self, logs: &[LogSoFar]) -> Result<(), String> {
        let directory = self.directory()?;
        logs.iter()
            .try_for_each(|(name, bytes)| directory.put_log(*name, bytes))
            .map_err(|errno| self.full(errno))
    }

    fn forget_without_first(&self) -> Result<(), String> {
        self.directory()?.forget_without_first().map_err(|errno| self.full(errno))
    }

    fn full(&self, errno: Errno) -> String {
        format!("cannot keep logs of other ranks in {}: {errno}", printable(self.path()))
    }
}

/// Makes a directory in `TMPDIR` if that is set and can be used, else in memory.
fn make_directory() -> Result<OwnDirectory, String> {
    let named = std::env::var_os("TMPDIR").filter(|named| !named.is_empty()).map(PathBuf::from);
    let bases = named.into_iter().chain([PathBuf::from(IN_MEMORY), std::env::temp_dir()]);
    let mut why = None;
    for base in bases {
        match OwnDirectory::begin(&base) {
            Ok(directory) => return Ok(directory),
            Err(errno) => drop(why.get_or_insert((base, errno))),
        }
    }
    let why = why.map_or_else(String::new, |(base, errno)| format!(" in {}: {errno}", printable(&base)));
    Err(format!("cannot make a directory for --survive{why}"))
}
