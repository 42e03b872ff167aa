//! The catalog that a command writes: one shard for each thread, and the manifest at the end. The command chooses the entries.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use atta_catalog::{Catalog, Columns, ErrorTotals, Manifest, RootName, Shard, ShardRecord};
use atta_entry::Entry;
use serde_json::Value;

use crate::arguments::EffortArguments;
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::printable;
use crate::run::refused::Refused;
use crate::run::settings::rfc3339;

/// The catalog that is being written.
pub(crate) struct CatalogSink {
    columns: Columns,
    row_group_bytes: usize,
    place: PathBuf,
    inner: Mutex<CatalogInner>,
}

/// The shard of one thread, created with its first entry.
#[derive(Default)]
pub(crate) struct CatalogShard(Option<(usize, Shard<File>)>);

struct CatalogInner {
    catalog: Option<Catalog>,
    shards: Vec<(usize, ShardRecord)>,
    /// Shards of this rank are numbered from `first` in steps of `step`.
    first: usize,
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
        let refuse = |error: atta_catalog::Error| {
            let hint = matches!(error, atta_catalog::Error::CatalogNotEmpty { .. })
                .then(|| "a catalog is written to a new or an empty directory".to_owned());
            Refused::fatal_with(error.to_string(), hint)
        };
        let mut catalog = Catalog::begin(place).map_err(refuse)?;
        failures.also_to(catalog.errors_file().map_err(refuse)?);
        Ok(Self::new(catalog, place, columns, effort, (0, ranks)))
    }

    /// Joins a catalog that another rank has begun.
    pub(crate) fn join(
        partial: &Path,
        place: &Path,
        columns: Columns,
        effort: &EffortArguments,
        numbers: (usize, usize),
    ) -> Self {
        Self::new(Catalog::join(partial, place), place, columns, effort, numbers)
    }

    fn new(
        catalog: Catalog,
        place: &Path,
        columns: Columns,
        effort: &EffortArguments,
        (first, step): (usize, usize),
    ) -> Self {
        let threads = effort.threads.max(atta_runtime::available_cores()) as u64;
        let share = usize::try_from(effort.memory / 4 / threads).unwrap_or(usize::MAX);
        let inner = CatalogInner { catalog: Some(catalog), shards: Vec::new(), first, step };
        Self {
            columns,
            row_group_bytes: share.clamp(256 << 10, atta_catalog::ROW_GROUP_BYTES),
            place: place.to_owned(),
            inner: Mutex::new(inner),
        }
    }

    /// The directory while it is being written, for other ranks.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        self.lock().catalog.as_ref().map(|catalog| catalog.partial().to_owned())
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
        let mut inner = self.lock();
        let index = inner.first + inner.shards.len() * inner.step;
        let Some(catalog) = &mut inner.catalog else { return Err(atta_catalog::Error::ShardBroken) };
        let file = catalog.shard_file(index)?;
        let record = ShardRecord::new(index, atta_catalog::ShardSummary { rows: 0, bytes: 0 });
        inner.shards.push((index, record));
        Ok((index, Shard::with_row_group_bytes(file, self.columns, self.row_group_bytes)?))
    }

    fn end_shard(&self, index: usize, shard: Shard<File>) -> atta_catalog::Result<()> {
        let summary = shard.finish()?;
        if let Some((_, record)) = self.lock().shards.iter_mut().find(|(number, _)| *number == index) {
            *record = ShardRecord::new(index, summary);
        }
        Ok(())
    }

    fn failed(&self, error: &atta_catalog::Error) -> Fatal {
        let why = error.errno().map_or_else(|| error.to_string(), |errno| errno.to_string());
        let what = format!("cannot write catalog: {}: {why}", printable(&self.place));
        Fatal::Failed { what, hint: Some("nothing was left under that name".to_owned()) }
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
        manifest.options =
            std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        (manifest.started, manifest.finished) = (rfc3339(recorded.started), rfc3339(SystemTime::now()));
        manifest.totals = recorded.totals;
        let count = recorded.errors.values().sum();
        manifest.errors = ErrorTotals { count, by_errno: recorded.errors, ..ErrorTotals::default() };
        let mut inner = self.lock();
        manifest.shards = std::mem::take(&mut inner.shards).into_iter().map(|(_, record)| record).collect();
        manifest.shards.sort_by(|one, other| one.file.cmp(&other.file));
        let Some(catalog) = inner.catalog.take() else { return Ok(()) };
        catalog.commit(&manifest).map_err(|error| self.failed(&error))
    }

    /// Removes the partial catalog, without waiting for threads.
    pub(crate) fn abandon(&self) {
        drop(self.lock().catalog.take());
    }

    fn lock(&self) -> MutexGuard<'_, CatalogInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
