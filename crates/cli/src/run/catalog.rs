//! The catalog that a command writes: one shard for each thread, or several if its walk has a log (`parts.rs`), and the manifest at the end. The
//! command chooses the entries.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use atta_catalog::{
    Catalog, Columns, ErrorTotals, Manifest, RootName, RowGroup, Shard, ShardRecord, UnsyncedShard,
};
use atta_entry::Entry;
use serde_json::Value;

use crate::arguments::EffortArguments;
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::printable;
use crate::run::line;
use crate::run::refused::Refused;
use crate::run::settings::rfc3339;

/// The catalog that is being written.
pub(crate) struct CatalogSink {
    columns: Columns,
    row_group_bytes: usize,
    place: PathBuf,
    /// Its directory while it is being written, if that is in the directory of a job.
    in_job: Option<PathBuf>,
    inner: Mutex<CatalogInner>,
}

/// The shard of one thread, created with its first entry.
#[derive(Default)]
pub(crate) struct CatalogShard(Option<(usize, Shard<File>)>);

struct CatalogInner {
    catalog: Option<Catalog>,
    shards: Vec<(usize, ShardRecord)>,
    /// The number of the next shard of this rank, and the step to the one after it.
    next: usize,
    step: usize,
}

/// Data that a catalog records besides its rows.
pub(crate) struct Recorded {
    /// Roots of the walk.
    pub(crate) roots: Vec<Vec<u8>>,
    pub(crate) totals: Value,
    /// Failed entries by error name.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) started: SystemTime,
    /// The command that has begun the job, without the program's name, and when that was; none: this one.
    pub(crate) job: Option<(Vec<Vec<u8>>, SystemTime)>,
}

/// Why a catalog cannot be begun.
pub(crate) fn refuse(error: &atta_catalog::Error) -> Refused {
    let hint = matches!(error, atta_catalog::Error::CatalogNotEmpty { .. })
        .then(|| "a catalog is written to a new or an empty directory".to_owned());
    Refused::fatal_with(error.to_string(), hint)
}

impl CatalogSink {
    /// Begins a catalog in a new directory; failures are recorded there as well.
    pub(crate) fn begin(
        place: &Path,
        columns: Columns,
        effort: &EffortArguments,
        failures: &Failures,
        ranks: usize,
    ) -> Result<Self, Refused> {
        let mut catalog = Catalog::begin(place).map_err(|error| refuse(&error))?;
        failures.also_to(catalog.errors_file().map_err(|error| refuse(&error))?);
        Ok(Self::new(place, columns, effort, (0, ranks)).with(catalog))
    }

    /// The catalog of a walk with a log. It is written in the directory of the job, `partial`, from [`open`](Self::open) on.
    pub(crate) fn of_job(
        partial: PathBuf,
        place: &Path,
        columns: Columns,
        effort: &EffortArguments,
        ranks: usize,
    ) -> Self {
        Self { in_job: Some(partial), ..Self::new(place, columns, effort, (0, ranks)) }
    }

    /// Joins a catalog that another rank has begun. `is_of_job`: its walk has a log.
    pub(crate) fn join(
        (partial, is_of_job): (&Path, bool),
        place: &Path,
        columns: Columns,
        effort: &EffortArguments,
        numbers: (usize, usize),
    ) -> Self {
        let in_job = is_of_job.then(|| partial.to_owned());
        let joined = Catalog::join(partial, place, is_of_job);
        Self { in_job, ..Self::new(place, columns, effort, numbers) }.with(joined)
    }

    fn new(place: &Path, columns: Columns, effort: &EffortArguments, (next, step): (usize, usize)) -> Self {
        let threads = effort.threads.max(atta_runtime::available_cores()) as u64;
        let share = usize::try_from(effort.memory / 4 / threads).unwrap_or(usize::MAX);
        let inner = CatalogInner { catalog: None, shards: Vec::new(), next, step };
        Self {
            columns,
            row_group_bytes: share.clamp(256 << 10, atta_catalog::ROW_GROUP_BYTES),
            place: place.to_owned(),
            in_job: None,
            inner: Mutex::new(inner),
        }
    }

    fn with(self, catalog: Catalog) -> Self {
        self.lock().catalog = Some(catalog);
        self
    }

    /// Begins the catalog of a job, or goes on with it. Failures are recorded there from now on.
    pub(crate) fn open(&self, failures: &Failures) -> Result<(), Fatal> {
        let Some(partial) = &self.in_job else { return Ok(()) };
        let opened = Catalog::of_job(partial, &self.place, rustix::process::geteuid().as_raw()).and_then(
            |mut catalog| {
                failures.also_to(catalog.errors_file()?);
                Ok(catalog)
            },
        );
        self.lock().catalog = Some(opened.map_err(|error| self.failed(&error))?);
        Ok(())
    }

    /// Adds these shards of earlier runs. Returns the first number that none has.
    pub(crate) fn keep_earlier(&self, shards: Vec<ShardRecord>) -> Result<usize, Fatal> {
        let mut inner = self.lock();
        let Some(catalog) = &inner.catalog else { return Ok(0) };
        let first = catalog.check_shards(&shards).map_err(|error| match error {
            atta_catalog::Error::CatalogRead { path, reason } => {
                let what =
                    format!("a part of the unfinished catalog is lost: {}: {reason}", printable(&path));
                Fatal::Failed { what, hint: Some("--restart begins the job anew".to_owned()) }
            }
            error => self.failed(&error),
        })?;
        inner.shards.extend(shards.into_iter().map(|record| (usize::MAX, record)));
        inner.next += first;
        Ok(first)
    }

    /// Removes the shards of earlier runs that were not added.
    pub(crate) fn remove_others(&self) -> Result<(), Fatal> {
        let inner = self.lock();
        let Some(catalog) = &inner.catalog else { return Ok(()) };
        let removed = catalog.remove_others(inner.shards.iter().map(|(_, record)| record));
        removed.map_err(|error| self.failed(&error))
    }

    /// Numbers the shards of this rank from a number on that no earlier run has used.
    pub(crate) fn number_from(&self, first: usize) {
        self.lock().next += first;
    }

    /// The directory while it is being written, for other ranks.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        let opened = || self.lock().catalog.as_ref().map(|catalog| catalog.partial().to_owned());
        self.in_job.clone().or_else(opened)
    }

    pub(crate) fn columns(&self) -> Columns {
        self.columns
    }

    /// Bytes of rows in memory before they are encoded.
    pub(crate) fn row_group_bytes(&self) -> usize {
        self.row_group_bytes
    }

    /// Writes rows to a part, which is begun if there is none, and clears them.
    pub(crate) fn write_rows(
        &self,
        part: &mut Option<(usize, Shard<File>)>,
        rows: &mut RowGroup,
    ) -> Result<(), Fatal> {
        let written = match part {
            Some((_, shard)) => shard.write_rows(rows),
            None => self.new_shard().and_then(|begun| part.insert(begun).1.write_rows(rows)),
        };
        written.map_err(|error| {
            rows.clear();
            self.failed(&error)
        })
    }

    /// Ends a part with its last rows. None: it has none.
    pub(crate) fn end_part(
        &self,
        part: &mut Option<(usize, Shard<File>)>,
        rows: &mut RowGroup,
    ) -> Result<Option<(usize, ShardRecord)>, Fatal> {
        if rows.rows() > 0 {
            self.write_rows(part, rows)?;
        }
        let Some((index, shard)) = part.take() else { return Ok(None) };
        let summary = shard.finish().map_err(|error| self.failed(&error))?;
        let record = ShardRecord::new(index, summary);
        self.lock().shards.push((index, record.clone()));
        Ok(Some((index, record)))
    }

    /// Syncs parts that have ended.
    pub(crate) fn sync_parts(&self, indices: impl Iterator<Item = usize>) -> Result<(), Fatal> {
        let unsynced: Option<Vec<_>> = {
            let mut inner = self.lock();
            indices.map(|index| inner.catalog.as_mut()?.unsynced(index)).collect()
        };
        // Without the catalog, which was given up, nothing is known of them.
        let synced = unsynced
            .ok_or(atta_catalog::Error::ShardBroken)
            .and_then(|shards| UnsyncedShard::sync_all(&shards));
        synced.map_err(|error| self.failed(&error))
    }

    /// Hands the shards of this rank over to the root; returns their records.
    pub(crate) fn hand_over(&self) -> Result<Vec<ShardRecord>, Fatal> {
        let mut inner = self.lock();
        let shards = std::mem::take(&mut inner.shards);
        let Some(catalog) = inner.catalog.take() else { return Ok(Vec::new()) };
        catalog.hand_over().map_err(|error| self.failed(&error))?;
        Ok(shards.into_iter().map(|(_, record)| record).collect())
    }

    /// Takes over the shards that another rank handed over.
    pub(crate) fn take_over(&self, shards: Vec<ShardRecord>) {
        let mut inner = self.lock();
        inner.shards.extend(shards.into_iter().map(|record| (usize::MAX, record)));
    }

    /// Adds an entry to a thread's shard, with the digest of its content if the columns have one.
    pub(crate) fn push(
        &self,
        shard: &mut CatalogShard,
        entry: &Entry<'_>,
        digest: Option<&[u8; 32]>,
    ) -> Result<(), Fatal> {
        let pushed = match &mut shard.0 {
            Some((_, shard)) => shard.push_digested(entry, digest),
            None => self.start_shard().and_then(|started| {
                let (_, shard) = shard.0.insert(started);
                shard.push_digested(entry, digest)
            }),
        };
        pushed.map_err(|error| self.failed(&error))
    }

    /// Ends a thread's shard.
    pub(crate) fn end(&self, shard: &mut CatalogShard) -> Result<(), Fatal> {
        let Some((index, shard)) = shard.0.take() else { return Ok(()) };
        self.end_shard(index, shard).map_err(|error| self.failed(&error))
    }

    fn start_shard(&self) -> atta_catalog::Result<(usize, Shard<File>)> {
        let (index, shard) = self.new_shard()?;
        let record = ShardRecord::new(index, atta_catalog::ShardSummary { rows: 0, bytes: 0 });
        self.lock().shards.push((index, record));
        Ok((index, shard))
    }

    fn new_shard(&self) -> atta_catalog::Result<(usize, Shard<File>)> {
        let mut inner = self.lock();
        let index = inner.next;
        inner.next += inner.step;
        let Some(catalog) = &mut inner.catalog else { return Err(atta_catalog::Error::ShardBroken) };
        let file = catalog.shard_file(index)?;
        Ok((index, Shard::with_row_group_bytes(file, self.columns, self.row_group_bytes)?))
    }

    fn end_shard(&self, index: usize, shard: Shard<File>) -> atta_catalog::Result<()> {
        let summary = shard.finish()?;
        if let Some((_, record)) = self.lock().shards.iter_mut().find(|(number, _)| *number == index) {
            *record = ShardRecord::new(index, summary);
        }
        Ok(())
    }

    pub(crate) fn failed(&self, error: &atta_catalog::Error) -> Fatal {
        let why = error.errno().map_or_else(|| error.to_string(), |errno| errno.to_string());
        let what = format!("cannot write catalog: {}: {why}", printable(&self.place));
        let hint = match self.in_job {
            _ if matches!(error, atta_catalog::Error::CatalogUnsynced { .. }) => {
                return Fatal::Failed { what: error.to_string(), hint: None };
            }
            None => "nothing was left under that name",
            Some(_) => "what is done is kept: when it can be written, give the same command again",
        };
        Fatal::Failed { what, hint: Some(hint.to_owned()) }
    }

    /// Completes the catalog and gives it its name.
    pub(crate) fn commit(&self, recorded: Recorded) -> Result<(), Fatal> {
        if self.lock().shards.is_empty() {
            // An empty result is a table without rows, not a directory without tables.
            let ended = self.start_shard().and_then(|(index, shard)| self.end_shard(index, shard));
            ended.map_err(|error| self.failed(&error))?;
        }
        let mut manifest = Manifest::new("atta", env!("CARGO_PKG_VERSION"), self.columns);
        manifest.roots = recorded.roots.iter().map(|path| RootName::from(path.as_slice())).collect();
        let own = || line::arguments().iter().cloned().map(OsString::into_vec).collect();
        // Rows of earlier runs are as old as the job.
        let (words, started) = recorded.job.unwrap_or_else(|| (own(), recorded.started));
        manifest.options = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        (manifest.started, manifest.finished) = (rfc3339(started), rfc3339(SystemTime::now()));
        manifest.totals = recorded.totals;
        let count = recorded.errors.values().sum();
        manifest.errors = ErrorTotals { count, by_errno: recorded.errors, ..ErrorTotals::default() };
        let mut inner = self.lock();
        manifest.shards = std::mem::take(&mut inner.shards).into_iter().map(|(_, record)| record).collect();
        manifest.shards.sort_by(|one, other| one.file.cmp(&other.file));
        let Some(catalog) = inner.catalog.take() else { return Ok(()) };
        catalog.commit(&manifest).map_err(|error| self.failed(&error))
    }

    /// What an interrupted run says of it.
    pub(crate) fn why_not_written(&self) -> &'static str {
        match self.in_job {
            None => "no catalog was written",
            Some(_) => "the catalog is not complete",
        }
    }

    /// Removes the partial catalog, without waiting for threads, unless a later run goes on with it.
    pub(crate) fn abandon(&self) {
        drop(self.lock().catalog.take());
    }

    fn lock(&self) -> MutexGuard<'_, CatalogInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
