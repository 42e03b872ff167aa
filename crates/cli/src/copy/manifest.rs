//! The manifest of a copy (`--manifest`): one row for each entry of the target, sorted by path. The first rank writes it, when all ranks
//! are done. It computes no digests.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_catalog::{Digested, digest_line, digested_row};
use atta_entry::{Code, Kind};
use atta_ops::copy::ManifestRow;
use atta_ops::sorted::{Sorter, is_below, key_of};
use atta_runtime::{Outbox, Stop, Stream};

use super::arguments::{CopyArguments, ManifestFormat};
use crate::run::fatal::Fatal;
use crate::run::file::{create, describe, printable};
use crate::run::refused::Refused;
use crate::run::settings::{ROWS_BYTES, spill_directory};

/// Stream of rows of other ranks, one after the other.
pub(super) const ROWS: Stream = Stream(2);

/// Rows that are sent together.
const ROWS_AT_ONCE: usize = 256;

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
                for some in rows.chunks(ROWS_AT_ONCE) {
                    let mut bytes = Vec::new();
                    some.iter().for_each(|row| row.encode(&mut bytes));
                    outbox.push(ROWS, &bytes);
                }
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

    /// Writes the rows of a copy that is complete. None: the run was asked to end before all were written.
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
        let (mut out, mut lost): (Vec<u8>, Option<Vec<u8>>) = (Vec::new(), None);
        while let Some(record) = sorted.next().filter(|_| !self.stop.is_set()) {
            let (key, value) = record?;
            let damaged = || io::Error::other("what was written came back as something else");
            let mut row = ManifestRow::decode_all(&value).ok_or_else(damaged)?;
            // Names that a directory lists twice, and entries that failed after they were made.
            while let Some(again) = sorted.next_if(|next| matches!(next, Ok((next, _)) if *next == key)) {
                let again = ManifestRow::decode_all(&again?.1).ok_or_else(damaged)?;
                row = merged(row, &again);
            }
            // What is below a directory that did not get its name comes right after it.
            if lost.as_ref().is_none_or(|lost| !is_below(&key, lost)) {
                lost = (row.is_failed && row.kind == Kind::Directory).then(|| key.clone());
                if !row.is_failed {
                    self.append(row, &mut written, &mut out);
                }
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

/// Two rows of one path as one.
fn merged(one: ManifestRow, other: &ManifestRow) -> ManifestRow {
    let is_failed = one.is_failed || other.is_failed;
    let is_directory = [&one, other].iter().any(|row| row.is_failed && row.kind == Kind::Directory);
    let kind = if is_directory { Kind::Directory } else { one.kind };
    // Of a file that was copied twice, and changed in between, nobody knows which copy was the last.
    let digest = match (one.digest, other.digest) {
        (Some(digest), Some(another)) => (digest == another).then_some(digest),
        (digest, another) => digest.or(another),
    };
    ManifestRow { is_failed, kind, digest, ..one }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use atta_testkit::scratch::Scratch;

    use super::*;

    fn row(path: &str, kind: Kind, digest: Option<u8>) -> ManifestRow {
        let digest = digest.map(|byte| [byte; 32]);
        ManifestRow { path: path.into(), kind, size: 1, digest, target: None, is_failed: false }
    }

    #[test]
    fn rows_of_what_failed_are_left_out() {
        let scratch = Scratch::new("manifest-rows").unwrap();
        let path = scratch.join("m");
        let manifest = Manifest {
            file: create(&path).unwrap(),
            name: "m".to_owned(),
            is_short: true,
            format: ManifestFormat::Ndjson,
            sorter: Mutex::new(Sorter::new(1 << 20, scratch.path())),
            error: Mutex::default(),
            stop: Stop::new(),
        };
        let failed = |path, kind| ManifestRow { is_failed: true, ..row(path, kind, None) };
        let rows = [
            row("t/d/e/f", Kind::File, Some(1)),
            row("t/d", Kind::Directory, None),
            row("t/d.x", Kind::File, Some(2)),
            failed("t/d", Kind::Directory),
            row("t/d/g", Kind::File, Some(3)),
            row("t/changed", Kind::File, Some(4)),
            row("t/changed", Kind::File, Some(5)),
            row("t/twice", Kind::File, Some(6)),
            row("t/twice", Kind::File, Some(6)),
            row("t/bad", Kind::File, Some(7)),
            failed("t/bad", Kind::Unknown),
            row("./t/z", Kind::Directory, None),
        ];
        let (here, others) = rows.split_at(6);
        Rows::Here(&manifest).add(here);
        let bytes: Vec<u8> = others.iter().flat_map(Code::encoded).collect();
        assert!(manifest.receive(&bytes) && !manifest.receive(&bytes[..7]));
        let written = manifest.write().ok().flatten().unwrap();
        assert_eq!((written.entries, written.without_digest), (4, 1));
        let text = std::fs::read_to_string(&path).unwrap();
        let found: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let paths: Vec<_> = found.iter().map(|row| row["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["t/changed", "t/d.x", "t/twice", "t/z"]);
        assert_eq!(found[0]["not_read"], true);
    }
}
