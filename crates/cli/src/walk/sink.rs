//! Where the entries of a walk go: into sums, rows on standard output, a catalog. One for all threads.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use atta_catalog::{
    Catalog, Columns, ErrorTotals, Format, Manifest, RootName, RowWriter, Shard, ShardRecord,
};
use atta_entry::{Entry, Failure};
use atta_ops::walk::{Summary, Tasks, Totals, Visit};
use atta_runtime::{Outbox, Stop};

use super::arguments::{Callback, WalkArguments};
use super::failures::Failures;
use super::ranks::ROWS;
use super::report::Report;
use super::{Refused, by_errno, rfc3339, root_paths};
use crate::exit;
use crate::fatal::{Fatal, output_error};
use crate::file::printable;

/// Bytes of rows that a thread gathers before it writes them: few system calls, and a reader need not wait long.
const ROWS_BYTES: usize = 32 << 10;
/// The same on a terminal.
const ROWS_BYTES_TERMINAL: usize = 512;

/// Where the entries go.
pub(crate) struct Sink {
    pub(crate) summary: Summary,
    pub(crate) failures: Failures,
    pub(crate) catalog: Option<CatalogSink>,
    format: Option<RowFormat>,
    /// Where rows go if not to standard output: to the rank that has it.
    rows_to: Option<Outbox>,
    callback: Callback,
    fatal: Mutex<Option<Fatal>>,
    stop: Stop,
}

/// What one thread keeps.
pub(crate) struct SinkWorker {
    pub(crate) totals: Totals,
    writer: Option<RowWriter>,
    rows: Vec<u8>,
    shard: Option<(usize, Shard<File>)>,
    path: Vec<u8>,
    checksum: u64,
}

/// How rows on standard output look.
struct RowFormat {
    format: Format,
    columns: Columns,
    terminal: bool,
}

/// What other ranks must know of the root's side.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootSide {
    /// Where the catalog is being written, if there is to be one.
    pub(crate) partial: Option<PathBuf>,
    /// Whether rows go to a terminal in the end.
    pub(crate) terminal: bool,
}

/// The catalog that is being written.
pub(crate) struct CatalogSink {
    columns: Columns,
    row_group_bytes: usize,
    place: PathBuf,
    inner: Mutex<CatalogInner>,
}

struct CatalogInner {
    catalog: Option<Catalog>,
    shards: Vec<(usize, ShardRecord)>,
    /// Shards of this rank are numbered from `first` in steps of `step`.
    first: usize,
    step: usize,
}

impl Sink {
    pub(crate) fn new(
        arguments: &WalkArguments,
        summary: Summary,
        failures: Failures,
        stop: Stop,
        ranks: usize,
    ) -> Result<Self, Refused> {
        let catalog = arguments
            .output
            .as_ref()
            .map(|place| CatalogSink::begin(place, arguments, &failures, ranks))
            .transpose()?;
        let sink = Self {
            summary,
            failures,
            catalog,
            format: arguments.row_format().map(|format| RowFormat {
                format,
                columns: arguments.columns(),
                terminal: io::stdout().is_terminal(),
            }),
            rows_to: None,
            callback: arguments.callback,
            fatal: Mutex::new(None),
            stop,
        };
        if let Some(format) = arguments.row_format() {
            let mut header = atta_catalog::header(format, arguments.columns());
            sink.write_rows(&mut header);
        }
        Ok(sink)
    }

    /// The sink of a rank other than the root: what only the root can write goes to it.
    pub(crate) fn of_rank(
        arguments: &WalkArguments,
        summary: Summary,
        outbox: Outbox,
        stop: Stop,
        root: RootSide,
        (rank, ranks): (usize, usize),
    ) -> Self {
        let catalog = root
            .partial
            .zip(arguments.output.as_ref())
            .map(|(partial, place)| CatalogSink::join(&partial, place, arguments, (rank, ranks)));
        Self {
            summary,
            failures: Failures::Root(outbox.clone()),
            catalog,
            format: arguments.row_format().map(|format| RowFormat {
                format,
                columns: arguments.columns(),
                terminal: root.terminal,
            }),
            rows_to: Some(outbox),
            callback: arguments.callback,
            fatal: Mutex::new(None),
            stop,
        }
    }

    /// The first reason for which the run could not go on.
    pub(crate) fn take_fatal(&self) -> Option<Fatal> {
        super::take(&self.fatal)
    }

    /// Removes what was written of a catalog, without waiting for threads.
    pub(crate) fn abandon(&self) {
        if let Some(catalog) = &self.catalog {
            drop(catalog.lock().catalog.take());
        }
    }

    pub(crate) fn fail(&self, fatal: Fatal) {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fatal);
        self.stop.set();
    }

    /// Whether rows go to a terminal.
    pub(crate) fn is_on_terminal(&self) -> bool {
        self.format.as_ref().is_some_and(|format| format.terminal)
    }

    /// Where the catalog is being written, if there is to be one.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        self.catalog.as_ref()?.partial()
    }

    /// Hands this rank's shards over to the root.
    pub(crate) fn hand_over(&self) -> Result<Vec<ShardRecord>, Fatal> {
        self.catalog.as_ref().map_or(Ok(Vec::new()), CatalogSink::hand_over)
    }

    /// Takes over what other ranks handed over.
    pub(crate) fn take_over(&self, shards: Vec<ShardRecord>) {
        if let Some(catalog) = &self.catalog {
            catalog.take_over(shards);
        }
    }

    /// Writes whole rows to standard output, or to the rank that has it.
    pub(crate) fn write_rows(&self, rows: &mut Vec<u8>) {
        if let Some(outbox) = &self.rows_to {
            outbox.push(ROWS, rows);
            rows.clear();
            return;
        }
        let mut output = io::stdout().lock();
        let written = output.write_all(rows).and_then(|()| output.flush());
        rows.clear();
        if let Err(error) = written {
            self.fail(output_error(&error));
        }
    }

    fn add_to_catalog(&self, catalog: &CatalogSink, worker: &mut SinkWorker, entry: &Entry<'_>) {
        let pushed = match &mut worker.shard {
            Some((_, shard)) => shard.push(entry),
            None => catalog.start_shard().and_then(|(index, shard)| {
                let (_, shard) = worker.shard.insert((index, shard));
                shard.push(entry)
            }),
        };
        if let Err(error) = pushed {
            self.fail(catalog.failed(&error));
        }
    }
}

impl RowFormat {
    fn writer(&self) -> RowWriter {
        RowWriter::new(self.format, self.columns, self.terminal)
    }

    fn gather_bytes(&self) -> usize {
        if self.terminal { ROWS_BYTES_TERMINAL } else { ROWS_BYTES }
    }
}

impl Visit for Sink {
    type Worker = SinkWorker;

    fn worker(&self, _index: usize) -> SinkWorker {
        SinkWorker {
            totals: Totals::default(),
            writer: self.format.as_ref().map(RowFormat::writer),
            rows: Vec::new(),
            shard: None,
            path: Vec::new(),
            checksum: 0,
        }
    }

    fn entry(&self, worker: &mut SinkWorker, entry: &Entry<'_>, _tasks: &mut Tasks) {
        self.summary.add(&mut worker.totals, entry);
        if let (Some(format), Some(writer)) = (&self.format, &mut worker.writer) {
            writer.append(entry, &mut worker.rows);
            if worker.rows.len() >= format.gather_bytes() {
                self.write_rows(&mut worker.rows);
            }
        }
        if let Some(catalog) = &self.catalog {
            self.add_to_catalog(catalog, worker, entry);
        }
        if self.callback == Callback::Full {
            worker.use_all(entry);
        }
    }

    fn failure(&self, worker: &mut SinkWorker, failure: &Failure<'_>) {
        worker.totals.fail(failure);
        self.failures.add(failure);
    }

    fn finish(&self, worker: &mut SinkWorker) {
        if !worker.rows.is_empty() {
            self.write_rows(&mut worker.rows);
        }
        black_box(worker.checksum);
        if let (Some(catalog), Some((index, shard))) = (&self.catalog, worker.shard.take())
            && let Err(error) = catalog.end_shard(index, shard)
        {
            self.fail(catalog.failed(&error));
        }
    }
}

impl SinkWorker {
    /// Uses every attribute and the whole path, as an operation that needs them all would.
    fn use_all(&mut self, entry: &Entry<'_>) {
        self.path.clear();
        entry.path_into(&mut self.path);
        let mut sum =
            self.path.iter().fold(u64::from(entry.depth), |sum, &byte| sum.wrapping_add(u64::from(byte)));
        if let Some(metadata) = black_box(entry.metadata) {
            let times = [metadata.atime, metadata.mtime, metadata.ctime, metadata.btime.unwrap_or_default()];
            for time in times {
                sum =
                    sum.wrapping_add(time.seconds.cast_unsigned()).wrapping_add(u64::from(time.nanoseconds));
            }
            for number in [metadata.mode, metadata.uid, metadata.gid, metadata.nlink] {
                sum = sum.wrapping_add(u64::from(number));
            }
            for number in [metadata.size, metadata.blocks, metadata.inode, metadata.device] {
                sum = sum.wrapping_add(number);
            }
        }
        self.checksum = self.checksum.wrapping_add(sum);
    }
}

impl CatalogSink {
    fn begin(
        place: &std::path::Path,
        arguments: &WalkArguments,
        failures: &Failures,
        ranks: usize,
    ) -> Result<Self, Refused> {
        let refuse = |error: atta_catalog::Error| {
            let hint = matches!(error, atta_catalog::Error::CatalogNotEmpty { .. })
                .then(|| "a catalog is written to a new or an empty directory".to_owned());
            Refused { code: exit::FATAL, what: error.to_string(), hint }
        };
        let mut catalog = Catalog::begin(place).map_err(refuse)?;
        failures.also_to(catalog.errors_file().map_err(refuse)?);
        Ok(Self::new(catalog, place, arguments, (0, ranks)))
    }

    fn join(
        partial: &std::path::Path,
        place: &std::path::Path,
        arguments: &WalkArguments,
        numbers: (usize, usize),
    ) -> Self {
        Self::new(Catalog::join(partial, place), place, arguments, numbers)
    }

    fn new(
        catalog: Catalog,
        place: &std::path::Path,
        arguments: &WalkArguments,
        (first, step): (usize, usize),
    ) -> Self {
        let threads = arguments.threads.max(atta_runtime::available_cores()) as u64;
        let share = usize::try_from(arguments.memory / 4 / threads).unwrap_or(usize::MAX);
        let inner = CatalogInner { catalog: Some(catalog), shards: Vec::new(), first, step };
        Self {
            columns: arguments.columns(),
            row_group_bytes: share.clamp(256 << 10, atta_catalog::ROW_GROUP_BYTES),
            place: place.to_owned(),
            inner: Mutex::new(inner),
        }
    }

    /// The directory while it is being written, for other ranks.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        self.lock().catalog.as_ref().map(|catalog| catalog.partial().to_owned())
    }

    /// Hands the shards of this rank over to the root: what they are.
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

    /// Ends the catalog and gives it its name.
    pub(crate) fn commit(
        self,
        arguments: &WalkArguments,
        report: &Report<'_>,
        started: SystemTime,
        finished: SystemTime,
    ) -> Result<(), Fatal> {
        if self.lock().shards.is_empty() {
            // An empty result is a table without rows, not a directory without tables.
            let ended = self.start_shard().and_then(|(index, shard)| self.end_shard(index, shard));
            ended.map_err(|error| self.failed(&error))?;
        }
        let mut manifest = Manifest::new("atta", env!("CARGO_PKG_VERSION"), self.columns);
        manifest.roots = root_paths(arguments).iter().map(|path| RootName::from(path.as_slice())).collect();
        manifest.options =
            std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        (manifest.started, manifest.finished) = (rfc3339(started), rfc3339(finished));
        manifest.totals = report.totals_json();
        let totals = report.totals;
        manifest.errors =
            ErrorTotals { count: totals.failed(), by_errno: by_errno(totals), ..ErrorTotals::default() };
        let mut inner = self.lock();
        manifest.shards = std::mem::take(&mut inner.shards).into_iter().map(|(_, record)| record).collect();
        manifest.shards.sort_by(|one, other| one.file.cmp(&other.file));
        let Some(catalog) = inner.catalog.take() else { return Ok(()) };
        catalog.commit(&manifest).map_err(|error| self.failed(&error))
    }

    /// Removes what was written.
    pub(crate) fn abandon(self) {
        drop(self.lock().catalog.take());
    }

    fn lock(&self) -> MutexGuard<'_, CatalogInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
