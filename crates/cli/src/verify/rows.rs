//! Output of differences and of entries that could not be compared: rows on standard output, a table, lines on standard error. Ranks other
//! than the first send it theirs.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_catalog::{DifferenceTable, difference_row, difference_text};
use atta_entry::{Code as _, Difference, Failure};
use atta_ops::resume::JobPlace;
use atta_ops::verify::{Findings, Watch};
use atta_runtime::{Outbox, Session, Stop, Stream};
use rustix::fd::OwnedFd;

use super::arguments::{DifferenceFormat, VerifyArguments};
use crate::run::failures::{FAILURES, Failures};
use crate::run::fatal::Fatal;
use crate::run::file::{create, describe, print_rows, printable};
use crate::run::left_out::LeftOut;
use crate::run::logged::WithLog;
use crate::run::refused::Refused;
use crate::run::settings::ROWS_BYTES;

/// Stream of differences.
const DIFFERENCES: Stream = Stream(0);
/// Stream of names of files with several names.
pub(super) const LINKS: Stream = Stream(2);

/// See the head of this file.
pub(crate) struct Rows {
    out: Out,
    ends_at_first: bool,
    pub(super) failures: Failures,
    stop: Stop,
    left_out: LeftOut,
    /// Why a rank other than the first cannot continue.
    fatal: Mutex<Option<Fatal>>,
}

/// Where differences go.
enum Out {
    /// To this process' files.
    Here(Box<Here>),
    /// To the first rank.
    There(Outbox),
}

/// What the first rank writes.
struct Here {
    format: Option<DifferenceFormat>,
    is_watched: bool,
    inner: Mutex<Inner>,
}

struct Inner {
    buffer: Vec<u8>,
    table: Option<Table>,
    fatal: Option<Fatal>,
}

/// A table that is being written.
struct Table {
    path: PathBuf,
    rows: DifferenceTable,
    /// A second handle, to sync it.
    file: File,
}

impl Rows {
    /// Opens the output: on the first rank.
    pub(super) fn new(
        arguments: &VerifyArguments,
        (job, stop): (Option<&JobPlace>, Stop),
        session: &Session<'_>,
    ) -> Result<Self, Refused> {
        let failures = Failures::new(arguments.report.verbose, arguments.report.errors.as_deref(), None)?;
        let table = arguments.output.as_deref().map(Table::create).transpose()?;
        let here = Here {
            format: arguments.row_format(),
            // A launcher may give a rank a terminal of its own, although what is printed goes to a file.
            is_watched: session.is_alone() && io::stdout().is_terminal(),
            inner: Mutex::new(Inner { buffer: Vec::new(), table, fatal: None }),
        };
        let (out, ends_at_first) = (Out::Here(Box::new(here)), arguments.ends_at_first());
        let (left_out, fatal) = (LeftOut::of(job), Mutex::default());
        Ok(Self { out, ends_at_first, failures, stop, left_out, fatal })
    }

    /// The output of a rank other than the first, which gets it.
    pub(super) fn of_rank(
        arguments: &VerifyArguments,
        (job, stop): (Option<&JobPlace>, Stop),
        outbox: Outbox,
    ) -> Self {
        let failures = Failures::Root(outbox.clone());
        let (out, ends_at_first) = (Out::There(outbox), arguments.ends_at_first());
        let (left_out, fatal) = (LeftOut::of(job), Mutex::default());
        Self { out, ends_at_first, failures, stop, left_out, fatal }
    }

    /// Why this rank cannot continue, if it is not the first.
    pub(super) fn take_fatal(&self) -> Option<Fatal> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Writes differences that earlier runs have found.
    pub(super) fn add_earlier(&self, differences: &[u8]) -> Result<(), Fatal> {
        match self.receive_differences(differences) {
            true => Ok(()),
            false => {
                let what = "a log of the job holds no differences of this command".to_owned();
                Err(Fatal::Failed { what, hint: Some("--restart begins the job anew".to_owned()) })
            }
        }
    }

    /// Takes what another rank sent.
    pub(super) fn receive(&self, rank: u32, stream: Stream, bytes: &[u8]) {
        let is_known = match stream {
            DIFFERENCES => self.receive_differences(bytes),
            FAILURES => self.failures.receive(bytes),
            _ => false,
        };
        if !is_known && let Out::Here(here) = &self.out {
            here.lock().fatal.get_or_insert(Fatal::protocol(rank));
            self.stop.set();
        }
    }

    fn receive_differences(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some(difference) = Difference::decode(&mut bytes) else { return false };
            self.difference(&difference);
        }
        true
    }

    /// Discards the output: nothing was compared.
    pub(super) fn abandon(self) {
        // The caller reports the reason.
        drop(self.finish(false));
    }

    /// Writes the buffer, and completes the table or discards a partial one. Returns why the run could not continue, if so.
    pub(super) fn finish(self, is_whole: bool) -> Option<Fatal> {
        let Out::Here(here) = self.out else { return None };
        let mut inner = here.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        if inner.fatal.is_none() {
            inner.write();
        }
        if let Some(table) = inner.table.take() {
            if is_whole && inner.fatal.is_none() {
                inner.fatal = table.finish().err();
            } else {
                table.abandon();
            }
        }
        inner.fatal.or_else(|| self.failures.flush().err())
    }
}

impl Here {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a difference. Returns whether the run can go on.
    fn add(&self, difference: &Difference<'_>) -> bool {
        let mut row = Vec::new();
        match self.format {
            Some(DifferenceFormat::Text) => difference_text(difference, &mut row),
            Some(DifferenceFormat::Ndjson) => difference_row(difference, &mut row),
            None => {}
        }
        let mut inner = self.lock();
        inner.add(&row, difference, self.is_watched);
        inner.fatal.is_none()
    }
}

impl WithLog<Findings> for Rows {
    const CLOSES: bool = true;

    fn fail(&self, fatal: Fatal) {
        match &self.out {
            Out::Here(here) => {
                here.lock().fatal.get_or_insert(fatal);
            }
            Out::There(_) => {
                let mut own = self.fatal.lock().unwrap_or_else(PoisonError::into_inner);
                own.get_or_insert(fatal);
            }
        }
        self.stop.set();
    }

    fn leave_out(&self, directory: &OwnedFd) {
        self.left_out.add(directory);
    }
}

impl Watch for Rows {
    fn difference(&self, difference: &Difference<'_>) {
        let goes_on = match &self.out {
            Out::Here(here) => here.add(difference),
            Out::There(outbox) => {
                outbox.push(DIFFERENCES, &difference.encoded());
                true
            }
        };
        if !goes_on || self.ends_at_first {
            self.stop.set();
        }
    }

    fn leaves_out(&self, (name, place): (&[u8], (u64, u64))) -> bool {
        self.left_out.has_at(name, place)
    }

    fn failure(&self, failure: &Failure<'_>) {
        self.failures.add(failure);
    }
}

impl Inner {
    fn add(&mut self, row: &[u8], difference: &Difference<'_>, is_watched: bool) {
        if self.fatal.is_some() {
            return;
        }
        self.buffer.extend_from_slice(row);
        if is_watched || self.buffer.len() >= ROWS_BYTES {
            self.write();
        }
        if let Some(table) = &mut self.table
            && let Err(error) = table.rows.push(difference)
        {
            self.fatal = Some(table.cannot(&error));
        }
    }

    fn write(&mut self) {
        if let Err(fatal) = print_rows(&self.buffer) {
            self.fatal.get_or_insert(fatal);
        }
        self.buffer.clear();
    }
}

impl Table {
    fn create(path: &Path) -> Result<Self, Refused> {
        let cannot = |error: &io::Error| {
            Refused::fatal(format!("cannot write differences: {}: {}", printable(path), describe(error)))
        };
        let file = create(path).map_err(|error| cannot(&error))?;
        let second = file.try_clone().map_err(|error| cannot(&error))?;
        let rows = DifferenceTable::create(second).map_err(|error| {
            Refused::fatal(format!("cannot write differences: {}: {error}", printable(path)))
        })?;
        Ok(Self { path: path.to_owned(), rows, file })
    }

    fn cannot(&self, error: &impl std::fmt::Display) -> Fatal {
        let what = format!("cannot write differences: {}: {error}", printable(&self.path));
        Fatal::Failed { what, hint: None }
    }

    fn finish(self) -> Result<(), Fatal> {
        let Self { path, rows, file } = self;
        let cannot = |error: String| {
            let what = format!("cannot write differences: {}: {error}", printable(&path));
            Fatal::Failed { what, hint: None }
        };
        rows.finish().map_err(|error| cannot(error.to_string()))?;
        match file.sync_all() {
            // EINVAL: a pipe, or a device.
            Err(error) if error.raw_os_error() != Some(22) => Err(cannot(describe(&error))),
            _ => Ok(()),
        }
    }

    /// Discards the table. Without its footer no reader accepts it; it is emptied all the same.
    fn abandon(self) {
        // Dropping the writer may still write what it holds.
        drop(self.rows);
        // A pipe or a device cannot be emptied.
        let _ = self.file.set_len(0);
    }
}
