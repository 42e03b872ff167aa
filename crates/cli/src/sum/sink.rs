//! Destinations of entries with digests: rows on standard output, at once or sorted; a catalog; the comparison with a record. One sink for
//! all threads.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_catalog::{Columns, Format, RowWriter, digest_line};
use atta_entry::{Entry, Errno, Failure, Kind, Operation};
use atta_ops::digest::Hash;
use atta_ops::sorted::{Sorter, key_of};
use atta_ops::sum::Watch;
use atta_ops::sum::check::{Item, Items};
use atta_runtime::Stop;

use super::arguments::{SumArguments, SumFormat};
use crate::run::catalog::{CatalogShard, CatalogSink};
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::{describe, print_rows};
use crate::run::refused::Refused;
use crate::run::settings::ROWS_BYTES;
use crate::run::settings::ROWS_BYTES_TERMINAL;
use crate::run::settings::spill_directory;

/// Destinations of the entries.
pub(crate) struct Sink {
    pub(crate) failures: Failures,
    pub(crate) catalog: Option<CatalogSink>,
    format: Option<SumFormat>,
    terminal: bool,
    sorter: Option<Mutex<Sorter>>,
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
    path: Vec<u8>,
    shard: CatalogShard,
}

impl Sink {
    pub(crate) fn new(
        arguments: &SumArguments,
        failures: Failures,
        found: Option<Items>,
        is_list: bool,
        stop: Stop,
    ) -> Result<Self, Refused> {
        let columns = Columns::Digests;
        let begin =
            |place: &std::path::PathBuf| CatalogSink::begin(place, columns, &arguments.effort, &failures, 1);
        let catalog = arguments.output.as_ref().map(begin).transpose()?;
        let sorter = || Mutex::new(Sorter::new(arguments.effort.memory / 4, &spill_directory()));
        let sink = Self {
            catalog,
            format: arguments.rows(),
            terminal: io::stdout().is_terminal(),
            sorter: arguments.sort.then(sorter),
            found: found.map(Mutex::new),
            is_list,
            failed: AtomicU64::new(0),
            fatal: Mutex::new(None),
            stop,
            failures,
        };
        if sink.format == Some(SumFormat::Csv) {
            sink.keep(print_rows(&atta_catalog::header(Format::Csv, columns)));
        }
        Ok(sink)
    }

    /// Records an error, if there is one, and stops the run.
    fn keep(&self, done: Result<(), Fatal>) {
        if let Err(fatal) = done {
            self.fail(fatal);
        }
    }

    /// Records why the run cannot go on, and stops it.
    pub(crate) fn fail(&self, fatal: Fatal) {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fatal);
        self.stop.set();
    }

    /// The first reason why the run cannot go on.
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
        if let Some(sorter) = &self.sorter {
            let pushed = lock(sorter).push(&key_of(&entry.path()), &worker.rows);
            worker.rows.clear();
            return self.keep(pushed.map_err(|error| cannot_sort(&error)));
        }
        let most = if self.terminal { ROWS_BYTES_TERMINAL } else { ROWS_BYTES };
        if worker.rows.len() >= most {
            self.flush(worker);
        }
    }

    fn flush(&self, worker: &mut SinkWorker) {
        if !worker.rows.is_empty() {
            self.keep(print_rows(&worker.rows));
            worker.rows.clear();
        }
    }
}

/// The error for records that could not be sorted; it names the spill directory.
pub(crate) fn cannot_sort(error: &io::Error) -> Fatal {
    let what = format!("cannot sort in {}: {}", spill_directory().display(), describe(error));
    Fatal::Failed { what, hint: Some("more --memory, or TMPDIR where there is more room".to_owned()) }
}

impl Watch for Sink {
    type Worker = SinkWorker;

    fn worker(&self, _index: usize) -> SinkWorker {
        let writer = |format| RowWriter::new(format, Columns::Digests, self.terminal);
        let writer = match self.format {
            Some(SumFormat::Ndjson) => Some(writer(Format::Ndjson)),
            Some(SumFormat::Csv) => Some(writer(Format::Csv)),
            Some(SumFormat::B3sum) | None => None,
        };
        SinkWorker { writer, rows: Vec::new(), path: Vec::new(), shard: CatalogShard::default() }
    }

    fn entry(&self, worker: &mut SinkWorker, entry: &Entry<'_>, digest: Option<&Hash>) {
        let digest = digest.map(Hash::as_bytes);
        if let Some(format) = self.format {
            self.print(worker, format, entry, digest);
        }
        if let Some(catalog) = &self.catalog {
            self.keep(catalog.push(&mut worker.shard, entry, digest));
        }
        if let Some(found) = &self.found {
            let item = Item {
                path: entry.path(),
                kind: entry.kind,
                size: (entry.kind == Kind::File).then(|| entry.size()),
                digest: digest.copied(),
                target: entry.target.map(<[u8]>::to_vec),
            };
            let pushed = lock(found).push(&item);
            self.keep(pushed.map_err(|error| cannot_sort(&error)));
        }
    }

    fn failure(&self, _worker: &mut SinkWorker, failure: &Failure<'_>) {
        if self.is_list && is_missing(failure) {
            return;
        }
        if let Some(found) = &self.found {
            if failure.operation == Operation::Custom("read back") {
                // Tasks were lost: a path that was not found may exist.
                let what = format!("nothing can be compared: {failure}");
                return self.fail(Fatal::Failed { what, hint: Some("more --memory".to_owned()) });
            }
            let pushed = lock(found).fail(&failure.path);
            self.keep(pushed.map_err(|error| cannot_sort(&error)));
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.failures.add(failure);
    }

    fn finish(&self, worker: &mut SinkWorker) {
        self.flush(worker);
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
