//! Files and directories named on the command line: creating them, and naming them in messages.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use atta_entry::Errno;
use serde_json::Value;

use crate::output;
use crate::run::fatal::{Fatal, output_error};

/// Prints a summary.
pub(crate) fn print(text: &str) -> Result<(), Fatal> {
    print_rows(text.as_bytes())
}

/// Prints whole rows.
pub(crate) fn print_rows(rows: &[u8]) -> Result<(), Fatal> {
    output::write(rows).map_err(|error| output_error(&error))
}

/// Writes the statistics of a run to a file.
pub(crate) fn write_stats(path: &Path, stats: &Value) -> Result<(), Fatal> {
    let written = create(path).and_then(|mut file| file.write_all(format!("{stats:#}\n").as_bytes()));
    written.map_err(|error| {
        let what = format!("cannot write statistics: {}: {}", printable(path), describe(&error));
        Fatal::Failed { what, hint: None }
    })
}

/// Creates a private directory, unless it exists, and writes files into it.
pub(crate) fn write_all(directory: &Path, files: &[(String, String)]) -> Result<(), Fatal> {
    let failed = |path: &Path, error: &io::Error| {
        let what = format!("cannot draw: {}: {}", printable(path), describe(error));
        Fatal::Failed { what, hint: None }
    };
    let made = std::fs::DirBuilder::new().mode(0o700).recursive(true).create(directory);
    made.map_err(|error| failed(directory, &error))?;
    for (name, text) in files {
        let path = directory.join(name);
        let written = create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

/// Creates a private file for rows, which contain names that other users may not see. An existing file is overwritten only if the caller
/// owns it and it has no other name: in a directory that others can write, an attacker may have planted a link to another file. Devices
/// and pipes are written to as they are.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let file = open_kept(path)?;
    let stat = rustix::fs::fstat(&file)?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// The same, but an existing file keeps its bytes.
pub(crate) fn open_kept(path: &Path) -> io::Result<File> {
    let mut new = OpenOptions::new();
    match new.write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let mut old = OpenOptions::new();
    old.write(true);
    // `/dev/stdout` is a link, and a pipe of the shell is one below `/dev/fd`.
    if !path.starts_with("/dev") && !path.starts_with("/proc") {
        old.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    let file = old.open(path)?;
    let stat = rustix::fs::fstat(&file)?;
    let is_plain = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    if is_plain && (stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_nlink != 1) {
        return Err(io::Error::other("it exists, and belongs to somebody else or has several names"));
    }
    Ok(file)
}

/// A path of the command line, escaped for messages: a shell pattern may expand to any name.
pub(crate) fn printable(path: &Path) -> String {
    atta_entry::escape(path.as_os_str().as_encoded_bytes())
}

/// An I/O error as `reason (ERRNO)`.
pub(crate) fn describe(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |number| Errno(number).to_string())
}
