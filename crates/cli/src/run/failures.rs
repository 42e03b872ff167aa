//! Failed entries: lines on standard error, rows in files. They never stop the run. Under MPI one rank writes them, and the others send
//! theirs to it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::{Code as _, Failure};
use atta_runtime::{Outbox, Stream};

use super::refused::Refused;
use crate::run::fatal::Fatal;
use crate::run::file::{create, describe, printable};

/// Stream of failures of other ranks, as bytes for [`Failures::receive`].
pub(crate) const FAILURES: Stream = Stream(1);
/// Lines printed without --verbose, at most: errors of a broken tree must not bury the summary.
const LINES_MAX: u64 = 20;

/// Destination of failures, for all threads. Clones are the same one.
#[derive(Clone)]
pub(crate) enum Failures {
    Here(Arc<Mutex<Inner>>),
    Root(Outbox),
    /// With the name of a node.
    OfNode(String, Box<Self>),
}

pub(crate) struct Inner {
    lines_max: u64,
    lines: u64,
    file: Option<BufWriter<File>>,
    file_name: String,
    catalog: Option<BufWriter<File>>,
    error: Option<io::Error>,
}

impl Failures {
    /// Prints all lines, or the first ones; also writes to `errors`, which must not be the list that the run starts from.
    pub(crate) fn new(verbose: bool, errors: Option<&Path>, list: Option<&Path>) -> Result<Self, Refused> {
        let mut inner = Inner {
            lines_max: if verbose { u64::MAX } else { LINES_MAX },
            lines: 0,
            file: None,
            file_name: String::new(),
            catalog: None,
            error: None,
        };
        if let Some(path) = errors {
            inner.file_name = printable(path);
            if list.is_some_and(|list| is_same_file(list, path)) {
                let what = format!("--errors and --from-list are the same file: {}", inner.file_name);
                return Err(Refused::usage(what, "the list would be lost; write the errors to a new file"));
            }
            inner.file = Some(BufWriter::new(create(path).map_err(|error| {
                Refused::fatal(format!("cannot write errors: {}: {}", inner.file_name, describe(&error)))
            })?));
        }
        Ok(Self::Here(Arc::new(Mutex::new(inner))))
    }

    /// Also writes rows to the catalog's file.
    pub(crate) fn also_to(&self, catalog: File) {
        if let Self::Here(inner) = self {
            lock(inner).catalog = Some(BufWriter::new(catalog));
        }
    }

    pub(crate) fn add(&self, failure: &Failure<'_>) {
        self.add_encoded(line_and_row(failure));
    }

    fn add_encoded(&self, (line, row): (String, Vec<u8>)) {
        match self {
            Self::Here(inner) => lock(inner).add(line.as_bytes(), &row),
            Self::Root(outbox) => outbox.push(FAILURES, &(line, row).encoded()),
            Self::OfNode(node, to) => to.add_encoded((format!("{node}: {line}"), row_of(node, &row))),
        }
    }

    /// Adds rows of failures that an earlier run has reported to the files.
    pub(crate) fn add_earlier(&self, rows: &[u8]) {
        if let (Self::Here(inner), false) = (self, rows.is_empty()) {
            lock(inner).write(rows);
        }
    }

    /// Takes failures of another rank. Returns false if the bytes cannot be decoded.
    pub(crate) fn receive(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some((line, row)) = <(String, Vec<u8>)>::decode(&mut bytes) else { return false };
            if let Self::Here(inner) = self {
                lock(inner).add(line.as_bytes(), &row);
            }
        }
        true
    }

    /// Writes out what is buffered.
    pub(crate) fn flush(&self) -> Result<(), Fatal> {
        let Self::Here(inner) = self else { return Ok(()) };
        lock(inner).flush()
    }

    /// The same for what runs on a node: its name precedes each failure.
    pub(crate) fn of_node(&self, name: &str) -> Self {
        Self::OfNode(name.to_owned(), Box::new(self.clone()))
    }
}

/// A row with the name of a node, before its other members.
fn row_of(node: &str, row: &[u8]) -> Vec<u8> {
    let others = row.strip_prefix(b"{").unwrap_or(row);
    [format!("{{\"node\":{},", serde_json::Value::from(node)).as_bytes(), others].concat()
}

/// A failure as a line, and as a row.
fn line_and_row(failure: &Failure<'_>) -> (String, Vec<u8>) {
    let mut row = Vec::new();
    atta_catalog::failure_row(failure, &mut row);
    (format!("{failure}\n"), row)
}

impl Inner {
    fn add(&mut self, line: &[u8], row: &[u8]) {
        let inner = self;
        inner.lines += 1;
        if inner.lines <= inner.lines_max {
            let _ = io::stderr().write_all(line);
        } else if inner.lines == inner.lines_max + 1 {
            let _ = io::stderr().write_all(
                b"further errors are only counted; --verbose prints all, --errors FILE keeps them\n",
            );
        }
        inner.write(row);
    }

    fn write(&mut self, rows: &[u8]) {
        for writer in [&mut self.file, &mut self.catalog].into_iter().flatten() {
            if let Err(failed) = writer.write_all(rows) {
                self.error.get_or_insert(failed);
            }
        }
    }

    fn flush(&mut self) -> Result<(), Fatal> {
        for writer in [&mut self.file, &mut self.catalog].into_iter().flatten() {
            if let Err(failed) = writer.flush() {
                self.error.get_or_insert(failed);
            }
        }
        match self.error.take() {
            Some(error) => {
                let what = format!("cannot write errors: {}: {}", self.file_name, describe(&error));
                Err(Fatal::Failed { what, hint: None })
            }
            None => Ok(()),
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether two paths lead to the same existing file.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    // Compared by path, without opening: a list may be a pipe.
    let identity = |path: &Path| rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    matches!((identity(one), identity(other)), (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_a_node_begins_with_its_name() {
        let row = row_of("a\"b", b"{\"path\":\"c\"}\n");
        let value: serde_json::Value = serde_json::from_slice(&row).unwrap();
        assert_eq!(value, serde_json::json!({"node": "a\"b", "path": "c"}));
        assert!(row.ends_with(b"\n"));
    }
}
