//! The manifest of a copy (`--manifest`): one row for each entry of the target, sorted by path. The first rank writes it, when all ranks
//! are done. It computes no digests.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_catalog::{Digested, digest_line, digested_row};
use atta_entry::{Code as _, Kind};
use atta_ops::copy::ManifestRow;
use atta_ops::sorted::{Sorter, key_of};
use atta_runtime::{Outbox, Stop, Stream};

use super::arguments::{CopyArguments, ManifestFormat};
use crate::run::fatal::Fatal;
use crate::run::file::{create, describe, printable};
use crate::run::refused::Refused;
use crate::run::settings::{ROWS_BYTES, spill_directory};

/// Stream of rows of other ranks, one after the other.
pub(super) const ROWS: Stream = Stream(2);

/// See the head of this file.
pub(super) struct Manifest {
    file: File,
    name: String,
    /// Paths begin with `./`, and TARGET does not.
    is_short: bool,
    format: ManifestFormat,
    sorter: Mutex<Sorter>,
    /// The first error of the sorter. It ends the copy.
    error: Mutex<Option<io::Error>>,
    stop: Stop,
}

/// Where a rank's rows go.
pub(super) enum Rows<'a> {
    /// They are not wanted.
    Nowhere,
    Here(&'a Manifest),
    /// To the first rank.
    Outbox(Outbox),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) entries: u64,
    /// Regular files without a digest.
    pub(super) without_digest: u64,
}

impl Rows<'_> {
    /// Adds rows of this rank.
    pub(super) fn add(&self, rows: &[ManifestRow]) {
        match self {
            Self::Nowhere => {}
            Self::Here(manifest) => rows.iter().for_each(|row| manifest.add(row)),
            Self::Outbox(outbox) => {
                let mut bytes = Vec::new();
                rows.iter().for_each(|row| row.encode(&mut bytes));
                outbox.push(ROWS, &bytes);
            }
        }
    }
}

impl Manifest {
    /// Creates the file, if one is wanted. An existing file is emptied.
    pub(super) fn begin(arguments: &CopyArguments, stop: Stop) -> Result<Option<Self>, Refused> {
        let Some(path) = &arguments.manifest else { return Ok(None) };
        let name = printable(path);
        let file = create(path).map_err(|error| {
            Refused::fatal(format!("cannot write manifest: {name}: {}", describe(&error)))
        })?;
        let sorter = Mutex::new(Sorter::new(arguments.effort.memory / 4, &spill_directory()));
        let (format, error) = (arguments.manifest_format, Mutex::default());
        let target = arguments.paths.last().map(|path| path.as_encoded_bytes());
        let is_short = target.is_some_and(|target| target != b"." && !target.starts_with(b"./"));
        Ok(Some(Self { file, name, is_short, format, sorter, error, stop }))
    }

    fn add(&self, row: &ManifestRow) {
        if let Err(error) = lock(&self.sorter).push(&key_of(&row.path), &row.encoded()) {
            lock(&self.error).get_or_insert(error);
            self.stop.set();
        }
    }

    /// Takes rows of another rank. False: they cannot be decoded.
    pub(super) fn receive(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some(row) = ManifestRow::decode(&mut bytes) else { return false };
            self.add(&row);
        }
        true
    }

    /// Writes the rows of a copy that is complete, until the run is asked to end.
    /// None: it was asked to end.
    pub(super) fn write(&self) -> Result<Option<Written>, Fatal> {
        let failed = |error: &io::Error| {
            let what = format!("cannot write manifest: {}: {}", self.name, describe(error));
            Fatal::Failed { what, hint: None }
        };
        if let Some(error) = lock(&self.error).take() {
            return Err(failed(&error));
        }
        let written = self.write_sorted().map_err(|error| failed(&error))?;
        if self.stop.is_set() {
            // What is not whole is of no use. A pipe has no length.
            let _ = self.file.set_len(0);
            return Ok(None);
        }
        Ok(Some(written))
    }

    fn write_sorted(&self) -> io::Result<Written> {
        let mut sorter = lock(&self.sorter);
        let mut sorted = sorter.sorted()?.peekable();
        let mut written = Written { name: self.name.clone(), entries: 0, without_digest: 0 };
        let mut out = Vec::new();
        while let Some(record) = sorted.next().filter(|_| !self.stop.is_set()) {
            let (key, value) = record?;
            let damaged = || io::Error::other("what was written came back as something else");
            let mut row = ManifestRow::decode_all(&value).ok_or_else(damaged)?;
            // Names that a directory lists twice, and entries that failed after they were made.
            while let Some(again) = sorted.next_if(|next| matches!(next, Ok((next, _)) if *next == key)) {
                let again = ManifestRow::decode_all(&again?.1).ok_or_else(damaged)?;
                row.is_failed |= again.is_failed;
                row.digest = row.digest.or(again.digest);
            }
            if !row.is_failed {
                self.append(row, &mut written, &mut out);
            }
            if out.len() >= ROWS_BYTES {
                (&self.file).write_all(&std::mem::take(&mut out))?;
            }
        }
        (&self.file).write_all(&out)?;
        Ok(written)
    }

    fn append(&self, row: ManifestRow, written: &mut Written, out: &mut Vec<u8>) {
        let ManifestRow { mut path, kind, size, digest, target, .. } = row;
        if self.is_short && path.starts_with(b"./") {
            path.drain(..2);
        }
        let is_file = kind == Kind::File;
        written.without_digest += u64::from(is_file && digest.is_none());
        match (self.format, digest) {
            (ManifestFormat::Ndjson, _) => {
                digested_row(&Digested { path, kind, size: is_file.then_some(size), digest, target }, out);
            }
            (ManifestFormat::B3sum, Some(digest)) => digest_line(&digest, &path, false, out),
            (ManifestFormat::B3sum, None) => return,
        }
        written.entries += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
