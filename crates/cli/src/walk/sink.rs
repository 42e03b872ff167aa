//! Destinations of the entries of a walk: sums, rows on standard output, a catalog. One sink for all threads.

use std::hint::black_box;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use atta_catalog::{Columns, Format, RowWriter, ShardRecord};
use atta_entry::{Entry, Failure};
use atta_ops::resume;
use atta_ops::walk::{self, Summary, Tasks, Totals, Visit};
use atta_runtime::{Outbox, Session, Stop, Stream};
use rustix::fd::OwnedFd;

use super::arguments::{Callback, WalkArguments};
use crate::run::catalog::{CatalogShard, CatalogSink};
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::print_rows;
use crate::run::refused::Refused;
use crate::run::settings::ROWS_BYTES;
use crate::run::settings::ROWS_BYTES_TERMINAL;

/// Stream of whole rows for standard output.
pub(super) const ROWS: Stream = Stream(0);

/// Destinations of the entries.
pub(crate) struct Sink {
    pub(crate) summary: Summary,
    pub(crate) failures: Failures,
    pub(crate) catalog: Option<CatalogSink>,
    format: Option<RowFormat>,
    /// Where rows go if another rank has standard output.
    rows_to: Option<Outbox>,
    callback: Callback,
    fatal: Mutex<Option<Fatal>>,
    stop: Stop,
    /// Device and inode of the job's directory, which is left out.
    job: OnceLock<(u64, u64)>,
}

/// State of one thread.
pub(crate) struct SinkWorker {
    totals: Totals,
    writer: Option<RowWriter>,
    rows: Vec<u8>,
    shard: CatalogShard,
    path: Vec<u8>,
    checksum: u64,
}

/// Format of rows on standard output.
struct RowFormat {
    format: Format,
    columns: Columns,
    terminal: bool,
}

/// Facts about the root's output that other ranks need.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootSide {
    /// Directory of the catalog while it is being written, if there is one.
    pub(crate) partial: Option<PathBuf>,
    /// Whether rows end up on a terminal.
    pub(crate) terminal: bool,
}

impl Sink {
    pub(crate) fn new(
        arguments: &WalkArguments,
        summary: Summary,
        failures: Failures,
        session: &Session<'_>,
    ) -> Result<Self, Refused> {
        let ranks = session.seat().ranks as usize;
        // Open MPI gives the first rank a terminal, whatever its own output is.
        let terminal = session.is_alone() && io::stdout().is_terminal();
        let catalog = arguments
            .output
            .as_ref()
            .map(|place| CatalogSink::begin(place, arguments.columns(), &arguments.effort, &failures, ranks))
            .transpose()?;
        let sink = Self {
            summary,
            failures,
            catalog,
            format: arguments.row_format().map(|format| RowFormat {
                format,
                columns: arguments.columns(),
                terminal,
            }),
            rows_to: None,
            callback: arguments.callback,
            fatal: Mutex::new(None),
            stop: session.stop(),
            job: OnceLock::new(),
        };
        if let Some(format) = arguments.row_format() {
            let mut header = atta_catalog::header(format, arguments.columns());
            sink.write_rows(&mut header);
        }
        Ok(sink)
    }

    /// The sink of a rank other than the root: it sends the root the output that only the root can write.
    pub(crate) fn of_rank(
        arguments: &WalkArguments,
        summary: Summary,
        outbox: Outbox,
        stop: Stop,
        root: RootSide,
        (rank, ranks): (usize, usize),
    ) -> Self {
        let catalog = root.partial.zip(arguments.output.as_ref()).map(|(partial, place)| {
            CatalogSink::join(&partial, place, arguments.columns(), &arguments.effort, (rank, ranks))
        });
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
            job: OnceLock::new(),
        }
    }

    /// Leaves out the directory of the job, which changes while the walk runs.
    pub(crate) fn leave_out(&self, directory: &OwnedFd) {
        if let Ok(place) = resume::place_of(directory) {
            let _ = self.job.set(place);
        }
    }

    fn is_left_out(&self, entry: &Entry<'_>) -> bool {
        let Some(&(device, inode)) = self.job.get().filter(|(_, inode)| *inode == entry.inode) else {
            return false;
        };
        let found = entry.metadata.map(|metadata| (metadata.device, metadata.inode));
        let found = found
            .or_else(|| walk::look_at(&entry.path()).ok().map(|metadata| (metadata.device, metadata.inode)));
        found == Some((device, inode))
    }

    /// The first reason why the run cannot continue.
    pub(crate) fn take_fatal(&self) -> Option<Fatal> {
        crate::run::settings::take(&self.fatal)
    }

    /// Removes the partial catalog, without waiting for threads.
    pub(crate) fn abandon(&self) {
        if let Some(catalog) = &self.catalog {
            catalog.abandon();
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

    /// Directory of the catalog while it is being written, if there is one.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        self.catalog.as_ref()?.partial()
    }

    /// Hands this rank's shards over to the root.
    pub(crate) fn hand_over(&self) -> Result<Vec<ShardRecord>, Fatal> {
        self.catalog.as_ref().map_or(Ok(Vec::new()), CatalogSink::hand_over)
    }

    /// Takes over the shards that other ranks handed over.
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
        let printed = print_rows(rows);
        rows.clear();
        if let Err(fatal) = printed {
            self.fail(fatal);
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
    type Results = Totals;

    fn results<'w>(&self, worker: &'w mut SinkWorker) -> Option<&'w mut Totals> {
        Some(&mut worker.totals)
    }

    fn worker(&self, _index: usize) -> SinkWorker {
        SinkWorker {
            totals: Totals::default(),
            writer: self.format.as_ref().map(RowFormat::writer),
            rows: Vec::new(),
            shard: CatalogShard::default(),
            path: Vec::new(),
            checksum: 0,
        }
    }

    fn handed_over(&self, _worker: &mut SinkWorker, results: &mut Totals) {
        self.summary.count_links(results);
    }

    fn excluded(&self, worker: &mut SinkWorker, count: u64) {
        worker.totals.excluded += count;
    }

    fn entry(&self, worker: &mut SinkWorker, entry: &Entry<'_>, tasks: &mut Tasks) {
        if self.is_left_out(entry) {
            return tasks.prune();
        }
        self.summary.add(&mut worker.totals, entry);
        if let (Some(format), Some(writer)) = (&self.format, &mut worker.writer) {
            writer.append(entry, &mut worker.rows);
            if worker.rows.len() >= format.gather_bytes() {
                self.write_rows(&mut worker.rows);
            }
        }
        if let Some(catalog) = &self.catalog
            && let Err(fatal) = catalog.push(&mut worker.shard, entry, None)
        {
            self.fail(fatal);
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
        if let Some(catalog) = &self.catalog
            && let Err(fatal) = catalog.end(&mut worker.shard)
        {
            self.fail(fatal);
        }
    }
}

impl SinkWorker {
    /// Uses every attribute and the whole path, like an operation that needs them all.
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
