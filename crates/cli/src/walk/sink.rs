//! Destinations of the entries of a walk: sums, rows on standard output, a catalog. One sink for all threads.

use std::hint::black_box;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use atta_catalog::{Columns, Format, RowWriter, ShardRecord};
use atta_entry::{Entry, Failure};
use atta_ops::resume::JobPlace;
use atta_ops::walk::{Summary, Tasks, Visit, Waiting};
use atta_runtime::{Outbox, Session, Stop, Stream};
use rustix::fd::OwnedFd;

use super::arguments::{Callback, WalkArguments};
use crate::run::catalog::{CatalogShard, CatalogSink};
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::print_rows;
use crate::run::job::resume_command;
use crate::run::left_out::LeftOut;
use crate::run::logged::WithLog;
use crate::run::parts::{Parts, ThreadRows, lost_names};
use crate::run::refused::Refused;
use crate::run::settings::ROWS_BYTES;
use crate::run::settings::ROWS_BYTES_TERMINAL;
use crate::run::share::Share;

/// Stream of whole rows for standard output.
pub(super) const ROWS: Stream = Stream(0);

/// Destinations of the entries.
pub(crate) struct Sink {
    pub(crate) summary: Summary,
    pub(crate) failures: Failures,
    pub(crate) catalog: Option<CatalogSink>,
    /// Of a catalog whose walk has a log.
    parts: Option<Parts<Share>>,
    /// The walk has a log.
    has_job: bool,
    /// The command that goes on with the job, on the first rank.
    pub(crate) resume: Option<String>,
    /// The job, if there is one, ends with the launch: no command goes on with it.
    ends_with_launch: bool,
    format: Option<RowFormat>,
    /// Where rows go if another rank has standard output.
    rows_to: Option<Outbox>,
    callback: Callback,
    fatal: Mutex<Option<Fatal>>,
    stop: Stop,
    left_out: LeftOut,
}

/// State of one thread.
pub(crate) struct SinkWorker {
    share: Share,
    writer: Option<RowWriter>,
    rows: Vec<u8>,
    shard: CatalogShard,
    /// In place of the shard, if the walk has a log.
    parts: Option<ThreadRows>,
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
    /// The directory of the job, if there is one.
    pub(crate) job: Option<JobPlace>,
}

impl Sink {
    pub(crate) fn new(
        arguments: &WalkArguments,
        summary: Summary,
        failures: Failures,
        (job, session): (Option<&JobPlace>, &Session<'_>),
    ) -> Result<Self, Refused> {
        let ranks = session.seat().ranks as usize;
        // Open MPI gives the first rank a terminal, whatever its own output is.
        let terminal = session.is_alone() && io::stdout().is_terminal();
        let (columns, effort) = (arguments.columns(), &arguments.effort);
        let catalog = match (&arguments.output, job) {
            (None, _) => None,
            (Some(place), None) => Some(CatalogSink::begin(place, columns, effort, &failures, ranks)?),
            (Some(place), Some(job)) => {
                Some(CatalogSink::of_job(job.catalog(), place, columns, effort, ranks))
            }
        };
        let sink = Self {
            summary,
            failures,
            parts: catalog.as_ref().and(job).map(|_| Parts::new(arguments.part_rows, session.stop())),
            catalog,
            has_job: job.is_some(),
            resume: job.filter(|_| arguments.own.is_none()).map(resume_command),
            ends_with_launch: arguments.own.is_some(),
            format: arguments.row_format().map(|format| RowFormat {
                format,
                columns: arguments.columns(),
                terminal,
            }),
            rows_to: None,
            callback: arguments.callback,
            fatal: Mutex::new(None),
            stop: session.stop(),
            left_out: LeftOut::of(job),
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
        let RootSide { partial, terminal, job } = root;
        let catalog = partial.zip(arguments.output.as_ref()).map(|(partial, place)| {
            let partial = (partial.as_path(), job.is_some());
            CatalogSink::join(partial, place, arguments.columns(), &arguments.effort, (rank, ranks))
        });
        Self {
            summary,
            failures: Failures::Root(outbox.clone()),
            parts: catalog.as_ref().and(job.as_ref()).map(|_| Parts::new(arguments.part_rows, stop.clone())),
            catalog,
            has_job: job.is_some(),
            resume: None,
            ends_with_launch: arguments.own.is_some(),
            format: arguments.row_format().map(|format| RowFormat {
                format,
                columns: arguments.columns(),
                terminal,
            }),
            rows_to: Some(outbox),
            callback: arguments.callback,
            fatal: Mutex::new(None),
            stop,
            left_out: LeftOut::of(job.as_ref()),
        }
    }

    /// Reports a failure of the catalog, which ends the run.
    fn note(&self, done: Result<(), Fatal>) {
        if let Err(fatal) = done {
            self.fail(fatal);
        }
    }

    /// The catalog of a walk with a log, and what a thread has for it.
    fn parts_of<'w>(
        &self,
        worker: &'w mut SinkWorker,
    ) -> Option<(&Parts<Share>, &CatalogSink, &'w mut ThreadRows, &'w mut Share)> {
        let SinkWorker { parts, share, .. } = worker;
        let (own, catalog) = parts.as_mut().zip(self.catalog.as_ref())?;
        self.parts.as_ref().map(|parts| (parts, catalog, own, share))
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

impl WithLog<Share> for Sink {
    fn catalog(&self) -> Option<&CatalogSink> {
        self.catalog.as_ref()
    }

    fn parts(&self) -> Option<&Parts<Share>> {
        self.parts.as_ref()
    }

    fn fail(&self, fatal: Fatal) {
        Self::fail(self, if self.ends_with_launch { fatal.without_hint() } else { fatal });
    }

    fn leave_out(&self, directory: &OwnedFd) {
        self.left_out.add(directory);
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
    type Results = Share;

    fn results<'w>(&self, worker: &'w mut SinkWorker) -> Option<&'w mut Share> {
        Some(&mut worker.share)
    }

    fn worker(&self, _index: usize) -> SinkWorker {
        SinkWorker {
            share: Share::default(),
            writer: self.format.as_ref().map(RowFormat::writer),
            rows: Vec::new(),
            shard: CatalogShard::default(),
            parts: self
                .parts
                .as_ref()
                .and(self.catalog.as_ref())
                .map(|catalog| ThreadRows::new(catalog.columns())),
            path: Vec::new(),
            checksum: 0,
        }
    }

    fn sharing(&self, worker: &mut SinkWorker) {
        if let Some((_, _, own, share)) = self.parts_of(worker) {
            own.share(&mut share.gathered);
        }
    }

    fn slice_ended(&self, worker: &mut SinkWorker, results: Option<&mut Share>, is_whole: bool) {
        if let Some((_, catalog, own, share)) = self.parts_of(worker) {
            let gathered = &mut results.unwrap_or(share).gathered;
            self.note(own.slice_ended(catalog, gathered, is_whole));
        }
    }

    fn keep_noted(&self, worker: &mut SinkWorker, waiting: Waiting<'_, Share>, is_last: bool) {
        if let Some((parts, catalog, own, _)) = self.parts_of(worker) {
            self.note(match is_last {
                false => parts.keep(catalog, own, waiting),
                true => parts.keep_last(catalog, own, waiting),
            });
        }
    }

    fn handed_over(&self, _worker: &mut SinkWorker, results: &mut Share) {
        self.summary.count_links(&mut results.totals);
        // They are in the log and in the files of errors.
        results.gathered.vanished.clear();
    }

    fn excluded(&self, worker: &mut SinkWorker, count: u64) {
        worker.share.totals.excluded += count;
    }

    fn entry(&self, worker: &mut SinkWorker, entry: &Entry<'_>, tasks: &mut Tasks) {
        if self.left_out.has(entry) {
            return tasks.prune();
        }
        self.summary.add(&mut worker.share.totals, entry);
        if let (Some(format), Some(writer)) = (&self.format, &mut worker.writer) {
            writer.append(entry, &mut worker.rows);
            if worker.rows.len() >= format.gather_bytes() {
                self.write_rows(&mut worker.rows);
            }
        }
        if let Some(catalog) = &self.catalog {
            self.note(match &mut worker.parts {
                Some(own) => own.push(catalog, entry, None),
                None => catalog.push(&mut worker.shard, entry, None),
            });
        }
        if self.callback == Callback::Full {
            worker.use_all(entry);
        }
    }

    fn failure(&self, worker: &mut SinkWorker, failure: &Failure<'_>) {
        worker.share.totals.fail(failure);
        if self.has_job {
            worker.share.gathered.fail(failure);
            self.note(lost_names(failure).map_or(Ok(()), Err));
        }
        self.failures.add(failure);
    }

    fn finish(&self, worker: &mut SinkWorker) {
        if !worker.rows.is_empty() {
            self.write_rows(&mut worker.rows);
        }
        black_box(worker.checksum);
        if let Some(catalog) = &self.catalog {
            self.note(catalog.end(&mut worker.shard));
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
