//! `copy-limit -t THREADS SOURCE TARGET`: the raw limit of copying a tree on this machine.
//!
//! From a list made beforehand it makes the nine system calls that no copy of a small file can do without (openat, openat,
//! pread, pwrite, fchown, fchmod, utimensat, close, close) on some threads, and nothing else: nothing is walked, looked at
//! twice, hashed, renamed or retried, holes are filled, and links are not known. What a real copy takes beyond this time is
//! its own overhead. With `-d` it hashes what it reads (BLAKE3), each buffer by itself, and makes nothing of it: the raw limit
//! of a copy with digests.
//!
//! ```text
//!   copy-limit --list SOURCE > LIST            makes the list
//!   copy-limit -t 2 -l LIST SOURCE TARGET      copies by it: the process's whole time is the limit's
//!   copy-limit -t 2 SOURCE TARGET              makes the list first, which the seconds that it prints do not contain
//! ```
//!
//! It is a yardstick, not a tool: it stops at the first error and leaves behind what it has made. SOURCE and TARGET are
//! believed to stay what they are.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program reports on its terminal")]

mod list;
mod worker;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::list::List;
use crate::worker::Way;

const USAGE: &str = "usage: copy-limit [-t THREADS] [-k CHUNK-BYTES] [-d] [-l LIST] SOURCE TARGET\n       \
                     copy-limit --list SOURCE";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    threads: usize,
    /// Bytes of a piece that one thread copies at a time; 0 for whole files.
    chunk_bytes: u64,
    /// Hash what is read.
    is_hashed: bool,
    list: Option<PathBuf>,
    /// Write the list instead of copying.
    is_listing: bool,
    source: PathBuf,
    /// Empty where a list is made.
    target: PathBuf,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args_os().skip(1)) {
        Ok(arguments) => arguments,
        Err(reason) => {
            eprintln!("copy-limit: {reason}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let ended = if arguments.is_listing { tell_list(&arguments.source) } else { copy(&arguments) };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("copy-limit: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tell_list(source: &Path) -> io::Result<()> {
    io::stdout().write_all(&List::of(source)?.to_bytes())
}

fn copy(arguments: &Arguments) -> io::Result<()> {
    let list = match &arguments.list {
        Some(path) => List::from_bytes(&std::fs::read(path)?)?,
        None => List::of(&arguments.source)?,
    };
    let Arguments { threads, chunk_bytes, is_hashed, source, target, .. } = arguments;
    let start = Instant::now();
    worker::copy(&list, source, target, *threads, Way { chunk_bytes: *chunk_bytes, is_hashed: *is_hashed })?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "threads={threads} files={} directories={} bytes={} seconds={seconds:.4}",
        list.files.len(),
        list.directories.len(),
        list.bytes()
    );
    Ok(())
}

/// The number of threads defaults to the number of cores.
fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Arguments, String> {
    let mut threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut chunk_bytes, mut is_hashed, mut list) = (0, false, None);
    let (mut is_listing, mut paths) = (false, vec![]);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{} needs a value", argument.display()));
        match argument.to_str() {
            Some("-t") => threads = number(&value()?)?,
            Some("-k") => chunk_bytes = number(&value()?)?,
            Some("-d") => is_hashed = true,
            Some("-l") => list = Some(PathBuf::from(value()?)),
            Some("--list") => is_listing = true,
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let mut paths = paths.into_iter();
    let source = paths.next().ok_or("no SOURCE given")?;
    let target = if is_listing { PathBuf::new() } else { paths.next().ok_or("no TARGET given")? };
    match paths.next() {
        Some(more) => Err(format!("too much: {}", more.display())),
        None => Ok(Arguments { threads, chunk_bytes, is_hashed, list, is_listing, source, target }),
    }
}

fn number<N: std::str::FromStr + PartialOrd + From<u8>>(text: &OsString) -> Result<N, String> {
    let number = text.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > N::from(0));
    number.ok_or_else(|| format!("not a number above 0: {}", text.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Arguments, String> {
        parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments() {
        let options = parsed(&["-t", "3", "-k", "4096", "-d", "-l", "/list", "/a", "/b"]).unwrap();
        assert_eq!((options.threads, options.chunk_bytes, options.is_hashed), (3, 4096, true));
        assert_eq!(options.list.as_deref(), Some(Path::new("/list")));
        assert_eq!((options.source, options.target), (PathBuf::from("/a"), PathBuf::from("/b")));
        assert!(parsed(&["--list", "/a"]).unwrap().is_listing);
        for wrong in [&["/a"][..], &[], &["-t", "0", "/a", "/b"], &["/a", "/b", "/c"], &["-l"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
