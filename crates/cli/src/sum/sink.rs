//! Destinations of entries with digests: rows on standard output, at once or sorted; a catalog; the comparison with a record. One sink for
//! all threads of a rank. Ranks other than the first send it what is printed, sorted or compared.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_catalog::{Columns, Format, RowWriter, ShardRecord, digest_line};
use atta_entry::{Code as _, Entry, Errno, Failure, Kind, Operation};
use atta_ops::digest::Hash;
use atta_ops::resume::JobPlace;
use atta_ops::sorted::{Sorter, key_of};
use atta_ops::sum::check::{Item, Items};
use atta_ops::sum::{self, Watch};
use atta_ops::walk::Waiting;
use atta_runtime::{Outbox, Results as _, Seat, Session, Stop, Stream};
use rustix::fd::OwnedFd;

use super::arguments::{SumArguments, SumFormat};
use crate::run::catalog::{CatalogShard, CatalogSink};
use crate::run::failures::{FAILURES, Failures};
use crate::run::fatal::Fatal;
use crate::run::file::{describe, print_rows};
use crate::run::job::Job;
use crate::run::left_out::LeftOut;
use crate::run::logged::WithLog;
use crate::run::parts::{Gathered, Parts, ThreadRows, lost_names};
use crate::run::refused::Refused;
use crate::run::settings::ROWS_BYTES;
use crate::run::settings::ROWS_BYTES_TERMINAL;
use crate::run::settings::spill_directory;

/// Stream of rows for standard output.
const ROWS: Stream = Stream(0);
/// Stream of records that are sorted or compared: keys and values.
const RECORDS: Stream = Stream(2);

/// Destinations of the entries.
pub(crate) struct Sink {
    pub(crate) failures: Failures,
    pub(crate) catalog: Option<CatalogSink>,
    /// Of a catalog whose run has a log.
    parts: Option<Parts<Sums>>,
    left_out: LeftOut,
    format: Option<SumFormat>,
    terminal: bool,
    /// Leads to the first rank, on the others.
    outbox: Option<Outbox>,
    sorts: bool,
    compares: bool,
    /// Rows to be sorted, on the first rank.
    sorter: Option<Mutex<Sorter>>,
    /// Items to be compared, on the first rank.
    found: Option<Mutex<Items>>,
    /// A listed path that does not exist is missing, not failed.
    is_list: bool,
    failed: AtomicU64,
    fatal: Mutex<Option<Fatal>>,
    stop: Stop,
}

/// State of one thread.
pub(crate) struct SinkWorker {
    writer: Option<RowWriter>,
    rows: Vec<u8>,
    /// Records for the first rank.
    records: Vec<u8>,
    path: Vec<u8>,
    shard: CatalogShard,
    /// In place of the shard, if the run has a log.
    parts: Option<ThreadRows>,
    /// Of the current names.
    gathered: Gathered,
}

/// What a slice comes to.
pub(super) type Sums = sum::Sums<Gathered>;

/// How the first rank runs.
pub(crate) struct Setting<'a> {
    pub(crate) is_list: bool,
    pub(crate) job: Option<&'a JobPlace>,
}

/// What the first rank has opened, for the sinks of other ranks.
#[derive(Debug, Default)]
pub(crate) struct FirstSide {
    /// The directory of the catalog while it is written.
    partial: Option<Vec<u8>>,
    terminal: bool,
    is_list: bool,
    /// The directory of the job, if there is one.
    job: Option<Vec<u8>>,
}

atta_entry::record!(FirstSide { partial, terminal, is_list, job });

impl FirstSide {
    pub(super) fn job_directory(&self) -> Option<PathBuf> {
        self.job.clone().map(|path| PathBuf::from(OsString::from_vec(path)))
    }
}

impl Sink {
    pub(crate) fn new(
        arguments: &SumArguments,
        failures: Failures,
        Setting { is_list, job }: Setting<'_>,
        session: &Session<'_>,
    ) -> Result<Self, Refused> {
        let (columns, ranks) = (Columns::Digests, session.seat().ranks as usize);
        // A launcher may give a rank a terminal of its own, although what is printed goes to a file.
        let terminal = session.is_alone() && io::stdout().is_terminal();
        let effort = &arguments.effort;
        let begin = |place: &PathBuf| match job {
            Some(job) => Ok(CatalogSink::of_job(job.catalog(), place, columns, effort, ranks)),
            None => CatalogSink::begin(place, columns, effort, &failures, ranks),
        };
        let catalog = arguments.output.as_ref().map(begin).transpose()?;
        let (memory, directory) = (arguments.effort.memory / 4, spill_directory());
        let side = FirstSide { partial: None, terminal, is_list, job: None };
        let mut sink =
            Self::with(arguments, failures, catalog, &side, session.stop()).with_job(job, arguments);
        sink.sorter = sink.sorts.then(|| Mutex::new(Sorter::new(memory, &directory)));
        sink.found = sink.compares.then(|| Mutex::new(Items::new(memory, &directory)));
        if sink.format == Some(SumFormat::Csv) {
            sink.keep(print_rows(&atta_catalog::header(Format::Csv, columns)));
        }
        Ok(sink)
    }

    /// The sink of a rank other than the first, which gets what is printed, sorted or compared.
    pub(crate) fn of_rank(
        arguments: &SumArguments,
        outbox: Outbox,
        mut side: FirstSide,
        stop: Stop,
        seat: Seat,
    ) -> Self {
        let partial = side.partial.take().map(|path| PathBuf::from(OsString::from_vec(path)));
        let numbers = (seat.rank as usize, seat.ranks as usize);
        let job = side.job_directory().map(|path| JobPlace::from(path.as_path()));
        let catalog = partial.zip(arguments.output.as_ref()).map(|(partial, place)| {
            CatalogSink::join((&partial, job.is_some()), place, Columns::Digests, &arguments.effort, numbers)
        });
        let sink = Self::with(arguments, Failures::Root(outbox.clone()), catalog, &side, stop);
        let mut sink = sink.with_job(job.as_ref(), arguments);
        sink.outbox = Some(outbox);
        sink
    }

    fn with(
        arguments: &SumArguments,
        failures: Failures,
        catalog: Option<CatalogSink>,
        side: &FirstSide,
        stop: Stop,
    ) -> Self {
        Self {
            failures,
            catalog,
            parts: None,
            left_out: LeftOut::default(),
            format: arguments.rows(),
            terminal: side.terminal,
            outbox: None,
            sorts: arguments.sort,
            compares: arguments.check.is_some(),
            sorter: None,
            found: None,
            is_list: side.is_list,
            failed: AtomicU64::new(0),
            fatal: Mutex::new(None),
            stop,
        }
    }

    fn with_job(self, job: Option<&JobPlace>, arguments: &SumArguments) -> Self {
        let parts = job.map(|_| Parts::new(arguments.part_rows, self.stop.clone()));
        Self { parts, left_out: LeftOut::of(job), ..self }
    }

    /// The catalog of a run with a log, and what a thread has for it.
    fn parts_of<'w>(
        &self,
        worker: &'w mut SinkWorker,
    ) -> Option<(&Parts<Sums>, &CatalogSink, &'w mut ThreadRows)> {
        let (own, catalog) = worker.parts.as_mut().zip(self.catalog.as_ref())?;
        self.parts.as_ref().map(|parts| (parts, catalog, own))
    }

    /// What other ranks need to know of this sink.
    pub(crate) fn side(&self, job: Option<&Job>) -> FirstSide {
        let partial = self.catalog.as_ref().and_then(CatalogSink::partial);
        let partial = partial.map(|path| path.into_os_string().into_vec());
        let job = job.map(|job| job.running.place().path().as_os_str().as_bytes().to_vec());
        FirstSide { partial, terminal: self.terminal, is_list: self.is_list, job }
    }

    /// Takes what another rank sent.
    pub(crate) fn receive(&self, rank: u32, stream: Stream, bytes: &[u8]) {
        let is_known = match stream {
            ROWS => {
                self.keep(print_rows(bytes));
                true
            }
            FAILURES => self.failures.receive(bytes),
            RECORDS => self.receive_records(bytes),
            _ => false,
        };
        if !is_known {
            self.fail(Fatal::protocol(rank));
        }
    }

    fn receive_records(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some((key, value)) = <(Vec<u8>, Vec<u8>)>::decode(&mut bytes) else { return false };
            self.keep(self.add_record(&key, &value));
        }
        true
    }

    /// Adds a record to be sorted or compared, on the first rank.
    fn add_record(&self, key: &[u8], value: &[u8]) -> Result<(), Fatal> {
        let pushed = match (&self.found, &self.sorter) {
            (Some(found), _) => lock(found).push_record(key, value),
            (None, Some(sorter)) => lock(sorter).push(key, value),
            (None, None) => Ok(()),
        };
        pushed.map_err(|error| cannot_sort(&error))
    }

    /// As `add_record`, on any rank.
    fn push_record(&self, worker: &mut SinkWorker, path: &[u8], value: &Vec<u8>) {
        let key = key_of(path);
        if self.outbox.is_none() {
            return self.keep(self.add_record(&key, value));
        }
        key.encode(&mut worker.records);
        value.encode(&mut worker.records);
        if worker.records.len() >= ROWS_BYTES {
            self.send_records(worker);
        }
    }

    fn send_records(&self, worker: &mut SinkWorker) {
        if let Some(outbox) = &self.outbox
            && !worker.records.is_empty()
        {
            outbox.push(RECORDS, &worker.records);
            worker.records.clear();
        }
    }

    /// Closes the catalog of this rank; returns the records of its shards for the first rank, or why this rank cannot continue.
    pub(crate) fn hand_over(&self) -> Result<Vec<ShardRecord>, Fatal> {
        let handed = self.catalog.as_ref().map_or(Ok(Vec::new()), CatalogSink::hand_over);
        self.take_fatal().map_or(handed, Err)
    }

    /// Removes the unfinished catalog.
    pub(crate) fn abandon(&self) {
        self.catalog.iter().for_each(CatalogSink::abandon);
    }

    /// Records an error, if there is one, and stops the run.
    fn keep(&self, done: Result<(), Fatal>) {
        if let Err(fatal) = done {
            self.fail(fatal);
        }
    }

    /// Records why the run cannot continue, and stops it.
    pub(crate) fn fail(&self, fatal: Fatal) {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fatal);
        self.stop.set();
    }

    /// The first reason why the run cannot continue.
    pub(crate) fn take_fatal(&self) -> Option<Fatal> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How many entries failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether any output shows all attributes.
    pub(crate) fn shows_attributes(&self) -> bool {
        self.catalog.is_some() || !matches!(self.format, None | Some(SumFormat::B3sum))
    }

    /// Takes the items that were found, for the comparison.
    pub(crate) fn take_found(&mut self) -> Option<Items> {
        self.found.take().map(|found| found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prints the sorted rows, until the run is asked to end.
    pub(crate) fn print_sorted(&self) -> Result<(), Fatal> {
        let Some(sorter) = &self.sorter else { return Ok(()) };
        let mut sorter = lock(sorter);
        let mut rows = Vec::new();
        let sorted = sorter.sorted().map_err(|error| cannot_sort(&error))?;
        for record in sorted.take_while(|_| !self.stop.is_set()) {
            rows.extend(record.map_err(|error| cannot_sort(&error))?.1);
            if rows.len() >= ROWS_BYTES {
                print_rows(&std::mem::take(&mut rows))?;
            }
        }
        print_rows(&rows)
    }

    fn print(
        &self,
        worker: &mut SinkWorker,
        format: SumFormat,
        entry: &Entry<'_>,
        digest: Option<&[u8; 32]>,
    ) {
        match (&mut worker.writer, format) {
            (Some(writer), _) => writer.append_digested(entry, digest, &mut worker.rows),
            (None, _) => {
                let Some(digest) = digest else { return };
                worker.path.clear();
                entry.path_into(&mut worker.path);
                digest_line(digest, &worker.path, self.terminal, &mut worker.rows);
            }
        }
        if self.sorts {
            let mut rows = std::mem::take(&mut worker.rows);
            self.push_record(worker, &entry.path(), &rows);
            rows.clear();
            worker.rows = rows;
            return;
        }
        let most = if self.terminal { ROWS_BYTES_TERMINAL } else { ROWS_BYTES };
        if worker.rows.len() >= most {
            self.flush(worker);
        }
    }

    fn flush(&self, worker: &mut SinkWorker) {
        if !worker.rows.is_empty() {
            match &self.outbox {
                Some(outbox) => outbox.push(ROWS, &worker.rows),
                None => self.keep(print_rows(&worker.rows)),
            }
            worker.rows.clear();
        }
    }
}

/// The error for records that could not be sorted; it names the spill directory.
pub(crate) fn cannot_sort(error: &io::Error) -> Fatal {
    let what = format!("cannot sort in {}: {}", spill_directory().display(), describe(error));
    Fatal::Failed { what, hint: Some("more --memory, or TMPDIR where there is more room".to_owned()) }
}

impl WithLog<Sums> for Sink {
    fn catalog(&self) -> Option<&CatalogSink> {
        self.catalog.as_ref()
    }

    fn parts(&self) -> Option<&Parts<Sums>> {
        self.parts.as_ref()
    }

    fn fail(&self, fatal: Fatal) {
        Self::fail(self, fatal);
    }

    fn leave_out(&self, directory: &OwnedFd) {
        self.left_out.add(directory);
    }
}

impl Watch for Sink {
    type Worker = SinkWorker;
    type Gathered = Gathered;

    fn worker(&self, _index: usize) -> SinkWorker {
        let writer = |format| RowWriter::new(format, Columns::Digests, self.terminal);
        let writer = match self.format {
            Some(SumFormat::Ndjson) => Some(writer(Format::Ndjson)),
            Some(SumFormat::Csv) => Some(writer(Format::Csv)),
            Some(SumFormat::B3sum) | None => None,
        };
        SinkWorker {
            writer,
            rows: Vec::new(),
            records: Vec::new(),
            path: Vec::new(),
            shard: CatalogShard::default(),
            parts: self.parts.as_ref().map(|_| ThreadRows::new(Columns::Digests)),
            gathered: Gathered::default(),
        }
    }

    fn leaves_out(&self, entry: &Entry<'_>) -> bool {
        self.left_out.has(entry)
    }

    fn sharing(&self, worker: &mut SinkWorker, gathered: &mut Gathered) {
        gathered.add(&std::mem::take(&mut worker.gathered));
        if let Some((_, _, own)) = self.parts_of(worker) {
            own.share(gathered);
        }
    }

    fn slice_ended(&self, worker: &mut SinkWorker, gathered: &mut Gathered, is_whole: bool) {
        gathered.add(&std::mem::take(&mut worker.gathered));
        if let Some((_, catalog, own)) = self.parts_of(worker) {
            self.keep(own.slice_ended(catalog, gathered, is_whole));
        }
    }

    fn keep_noted(&self, worker: &mut SinkWorker, waiting: Waiting<'_, Sums>, is_last: bool) {
        if let Some((parts, catalog, own)) = self.parts_of(worker) {
            self.keep(match is_last {
                false => parts.keep(catalog, own, waiting),
                true => parts.keep_last(catalog, own, waiting),
            });
        }
    }

    fn handed_over(&self, gathered: &mut Gathered) {
        // They are in the log and in the files of errors.
        gathered.vanished.clear();
    }

    fn entry(&self, worker: &mut SinkWorker, entry: &Entry<'_>, digest: Option<&Hash>) {
        let digest = digest.map(Hash::as_bytes);
        if let Some(format) = self.format {
            self.print(worker, format, entry, digest);
        }
        if let Some(catalog) = &self.catalog {
            self.keep(match &mut worker.parts {
                Some(own) => own.push(catalog, entry, digest),
                None => catalog.push(&mut worker.shard, entry, digest),
            });
        }
        if self.compares {
            let item = Item {
                path: entry.path(),
                kind: entry.kind,
                size: (entry.kind == Kind::File).then(|| entry.size()),
                digest: digest.copied(),
                target: entry.target.map(<[u8]>::to_vec),
            };
            self.push_record(worker, &item.path, &Items::value(&item));
        }
    }

    fn failure(&self, worker: &mut SinkWorker, failure: &Failure<'_>) {
        if self.is_list && is_missing(failure) {
            return;
        }
        if self.compares {
            if failure.operation == Operation::Custom("read back") {
                // Tasks were lost: a path that was not found may exist.
                let what = format!("nothing can be compared: {failure}");
                return self.fail(Fatal::Failed { what, hint: Some("more --memory".to_owned()) });
            }
            self.push_record(worker, &failure.path, &Vec::new());
        }
        if self.parts.is_some() {
            worker.gathered.fail(failure);
            self.keep(lost_names(failure).map_or(Ok(()), Err));
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.failures.add(failure);
    }

    fn finish(&self, worker: &mut SinkWorker) {
        self.flush(worker);
        self.send_records(worker);
        if let Some(catalog) = &self.catalog {
            self.keep(catalog.end(&mut worker.shard));
        }
    }
}

/// Whether a listed path does not exist.
fn is_missing(failure: &Failure<'_>) -> bool {
    let is_look = matches!(failure.operation, Operation::Stat | Operation::OpenDirectory);
    is_look && matches!(failure.errno, Errno::NOENT | Errno::NOTDIR)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
