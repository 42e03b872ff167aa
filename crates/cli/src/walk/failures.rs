//! What becomes of entries that failed: lines on standard error, rows in files. They never stop the run.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_entry::{Errno, Failure};

use super::Refused;
use super::arguments::WalkArguments;
use super::sink::Fatal;

/// Lines printed without --verbose: a broken tree must not bury the summary.
const LINES_MAX: u64 = 20;

/// Where failures go, for all threads.
pub(crate) struct Failures {
    inner: Mutex<Inner>,
}

struct Inner {
    lines_max: u64,
    lines: u64,
    file: Option<BufWriter<File>>,
    file_name: String,
    catalog: Option<BufWriter<File>>,
    row: Vec<u8>,
    error: Option<io::Error>,
}

impl Failures {
    pub(crate) fn new(arguments: &WalkArguments) -> Result<Self, Refused> {
        let mut inner = Inner {
            lines_max: if arguments.verbose { u64::MAX } else { LINES_MAX },
            lines: 0,
            file: None,
            file_name: String::new(),
            catalog: None,
            row: Vec::new(),
            error: None,
        };
        if let Some(path) = &arguments.errors {
            inner.file_name = printable(path);
            if arguments.from_list.as_ref().is_some_and(|list| is_same_file(list, path)) {
                let what = format!("--errors and --from-list are the same file: {}", inner.file_name);
                return Err(Refused::usage(what, "the list would be lost; write the errors to a new file"));
            }
            inner.file = Some(BufWriter::new(create(path).map_err(|error| {
                Refused::fatal(format!("cannot write errors: {}: {}", inner.file_name, describe(&error)))
            })?));
        }
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// Rows also go to the catalog's file.
    pub(crate) fn also_to(&self, catalog: File) {
        self.lock().catalog = Some(BufWriter::new(catalog));
    }

    pub(crate) fn add(&self, failure: &Failure<'_>) {
        let mut inner = self.lock();
        inner.lines += 1;
        if inner.lines <= inner.lines_max {
            let mut line = failure.to_string();
            line.push('\n');
            let _ = io::stderr().write_all(line.as_bytes());
        } else if inner.lines == inner.lines_max + 1 {
            let _ = io::stderr().write_all(
                b"further errors are only counted; --verbose prints all, --errors FILE keeps them\n",
            );
        }
        let Inner { file, catalog, row, error, .. } = &mut *inner;
        if file.is_some() || catalog.is_some() {
            row.clear();
            atta_catalog::failure_row(failure, row);
            for writer in [file, catalog].into_iter().flatten() {
                if let Err(failed) = writer.write_all(row) {
                    error.get_or_insert(failed);
                }
            }
        }
    }

    /// Writes out what is buffered.
    pub(crate) fn flush(&self) -> Result<(), Fatal> {
        let mut inner = self.lock();
        let Inner { file, catalog, error, .. } = &mut *inner;
        for writer in [file, catalog].into_iter().flatten() {
            if let Err(failed) = writer.flush() {
                error.get_or_insert(failed);
            }
        }
        match inner.error.take() {
            Some(error) => {
                let what = format!("cannot write errors: {}: {}", inner.file_name, describe(&error));
                Err(Fatal::Failed { what, hint: None })
            }
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a private file for rows, which tell names that not everybody may know. A file that is there already is written
/// over only if it is the caller's own and has no other name: in a directory that others can write, somebody may have
/// planted a link to a file that is to be spoilt. Devices and pipes are written to as they are.
pub(crate) fn create(path: &std::path::Path) -> io::Result<File> {
    let mut new = OpenOptions::new();
    match new.write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let mut old = OpenOptions::new();
    old.write(true);
    // `/dev/stdout` is a link, and a pipe of the shell's is one below `/dev/fd`.
    if !path.starts_with("/dev") && !path.starts_with("/proc") {
        old.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    let file = old.open(path)?;
    let stat = rustix::fs::fstat(&file)?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_nlink != 1 {
            return Err(io::Error::other("it exists, and belongs to somebody else or has several names"));
        }
        file.set_len(0)?;
    }
    Ok(file)
}

/// Whether two paths lead to the same file that exists.
fn is_same_file(one: &std::path::Path, other: &std::path::Path) -> bool {
    // Asked by path, not by opening: a list may be a pipe.
    let identity =
        |path: &std::path::Path| rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    matches!((identity(one), identity(other)), (Some(one), Some(other)) if one == other)
}

/// A path of the command line in a message: a shell's pattern may have put any name there.
pub(crate) fn printable(path: &std::path::Path) -> String {
    atta_entry::escape(path.as_os_str().as_encoded_bytes())
}

/// An I/O error as `reason (ERRNO)`.
pub(crate) fn describe(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |number| Errno(number).to_string())
}
