//! What `atta launch` learns of a job: a small file that `launch` makes, to which the first rank appends lines. A launcher's exit code does not
//! say whether a job has come to its end: it may be 0 after the job was aborted. Nothing else depends on the file.
//!
//! ```text
//!   begun          a job with a log has begun, or goes on
//!   complete CODE  the job is done, and its log is about to be removed: it must not be started again
//!   ended CODE     the command has come to its end, and its report is final
//! ```
//!
//! Any rank that is the first one writes; of several lines of a kind the last one counts. The file is opened for each line and closed after
//! it, so that NFS shows the line to the host of `launch`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use super::file::{describe, printable};
use super::line;
use super::messages::complain;
use super::refused::Refused;

const BEGUN: &str = "begun";
const COMPLETE: &str = "complete ";
const ENDED: &str = "ended ";

/// What the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// A job with a log has begun.
    pub(crate) has_begun: bool,
    /// The exit code of a job whose log is about to be removed, or was.
    pub(crate) complete: Option<u8>,
    /// The exit code of the command.
    pub(crate) ended: Option<u8>,
}

impl Outcome {
    /// Lines that are cut or unknown say nothing.
    pub(crate) fn from_text(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        for line in whole.filter_map(|line| std::str::from_utf8(line).ok()) {
            let code = |name| line.strip_prefix(name)?.parse().ok();
            found.has_begun |= line == BEGUN;
            found.complete = code(COMPLETE).or(found.complete);
            found.ended = code(ENDED).or(found.ended);
        }
        found
    }

    /// The same as lines.
    #[cfg(test)]
    pub(crate) fn to_text(self) -> String {
        let line = |name, code: Option<u8>| code.map(|code| format!("{name}{code}\n")).unwrap_or_default();
        let begun = if self.has_begun { format!("{BEGUN}\n") } else { String::new() };
        begun + &line(COMPLETE, self.complete) + &line(ENDED, self.ended)
    }
}

/// Whether `atta launch` has started this process.
pub(crate) fn is_wanted() -> bool {
    line::outcome().is_some()
}

/// Looks whether the file can be written, on the first rank and before anything is done.
pub(crate) fn check() -> Result<(), Refused> {
    let Some(path) = line::outcome() else { return Ok(()) };
    open(path).map(drop).map_err(|error| {
        let (host, name) = (atta_ops::resume::host(), printable(path));
        let what = format!("host {host} cannot open the file of atta launch: {name}: {}", describe(&error));
        Refused::usage(what, "name a directory that all hosts share: atta launch --shared DIR")
    })
}

/// A job with a log has begun, or goes on.
pub(crate) fn begun() {
    append(BEGUN);
}

/// The job is done. Comes before its log is removed: after that, the same command would begin another job.
pub(crate) fn complete(code: u8) {
    append(&format!("{COMPLETE}{code}"));
}

/// The command has come to its end, and its report is final.
pub(crate) fn ended(code: u8) {
    append(&format!("{ENDED}{code}"));
}

fn append(text: &str) {
    let Some(path) = line::outcome() else { return };
    let written = open(path).and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
    if let Err(error) = written {
        let what = format!(
            "note: cannot write to the file of atta launch: {}: {}",
            printable(path),
            describe(&error)
        );
        complain(&what, None);
    }
}

/// Opens the file, which must be a regular file of this user. It is not created.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().append(true).custom_flags(flags).open(path)?;
    let stat = rustix::fs::fstat(&file)?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() || stat.st_uid != rustix::process::geteuid().as_raw()
    {
        return Err(io::Error::other("it is not a regular file of this user"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_line_of_a_kind_counts() {
        let of = |text: &str| Outcome::from_text(text.as_bytes());
        let begun = Outcome { has_begun: true, ..Outcome::default() };
        assert_eq!(of(""), Outcome::default());
        assert_eq!(of("begun\n"), begun);
        assert_eq!(of("begun\nended 4\nbegun\nended 0\n"), Outcome { ended: Some(0), ..begun });
        assert_eq!(of("begun\ncomplete 3\n"), Outcome { complete: Some(3), ..begun });
    }

    #[test]
    fn damaged_lines_say_nothing() {
        let lines: [&[u8]; 8] = [
            b"ended 0",
            b"ended 256\n",
            b"ended -1\n",
            b"ended\n",
            b"begu",
            b"\xffbegun\n",
            b"begun \n",
            b"ended 0x\n",
        ];
        for text in lines {
            assert_eq!(Outcome::from_text(text), Outcome::default(), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn only_a_file_of_this_user_is_opened() {
        let scratch = atta_testkit::scratch::Scratch::new("outcome").unwrap();
        let (file, link, pipe) = (scratch.join("file"), scratch.join("link"), scratch.join("pipe"));
        assert!(open(&file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
        assert!(!file.exists());
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(open(&file).is_ok());
        assert!(open(&link).is_err());
        // A pipe that nobody reads, and one that somebody reads.
        assert!(open(&pipe).is_err());
        let _reader =
            OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&pipe);
        assert!(open(&pipe).is_err());
        assert!(open(scratch.path()).is_err());
    }
}
