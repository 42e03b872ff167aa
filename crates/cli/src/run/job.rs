//! The job of a command that can be resumed: its directory is opened or made, and messages say how to go on. What is done is the command's part.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use atta_entry::shell_quote;
use atta_ops::resume::{LoggedJob, NotBegun, Request};
use atta_ops::walk;

use super::file::{print_rows, printable};
use super::messages::{complain, exit, hint};
use super::refused::Refused;
use crate::size::grouped;

/// A job and its directory.
pub(crate) struct Job {
    pub(crate) logged: LoggedJob,
    path: PathBuf,
    summary: Kept,
    has_all_roots: bool,
}

/// How a summary is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Text,
    Json,
    Nothing,
}

/// What a command asks for.
pub(crate) struct Asked {
    /// The job that is there is forgotten.
    pub(crate) restarts: bool,
    /// Options that each run must have.
    pub(crate) agrees: Vec<Vec<u8>>,
    /// Trees that each run must have.
    pub(crate) roots: Vec<Vec<u8>>,
}

/// What TARGET is to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetIs {
    /// The name of the copy.
    Name,
    /// A directory that copies are put into.
    Directory,
}

/// TARGET, as each run of a job must have it.
pub(crate) fn describe_target(target: &[u8], is: TargetIs) -> Result<Vec<u8>, Refused> {
    let path = working_directory()?.join(OsStr::from_bytes(target)).into_os_string().into_vec();
    let is = match is {
        TargetIs::Name => &b" (the name of the copy)"[..],
        TargetIs::Directory => b" (a directory)",
    };
    Ok([b"TARGET ", path.as_slice(), is].concat())
}

/// What TARGET is to the job in a directory, if that copies to TARGET.
pub(crate) fn target_of(path: &Path, target: &[u8]) -> Option<TargetIs> {
    let request = LoggedJob::request_of(path).ok()?;
    [TargetIs::Name, TargetIs::Directory]
        .into_iter()
        .find(|is| describe_target(target, *is).is_ok_and(|described| request.agrees.contains(&described)))
}

/// Begins a job, or goes on with it. Of a job that is complete, it prints the summary again.
pub(crate) fn begin(path: &Path, asked: Asked, summary: Kept) -> Result<Job, Refused> {
    let Asked { restarts, mut agrees, roots } = asked;
    let directory = working_directory()?;
    let roots: Vec<_> = roots.iter().map(|root| Place::of(&directory, root)).collect();
    let has_all_roots = roots.iter().all(|root| root.inode.is_some());
    agrees.splice(..0, roots.iter().map(Place::described));
    let arguments = std::env::args_os().skip(1).map(OsStringExt::into_vec).collect();
    let request = Request { directory: directory.into_os_string().into_vec(), arguments, agrees };
    let begin = if restarts { LoggedJob::begin_anew } else { LoggedJob::begin };
    match begin(path, &request) {
        Ok(logged) => Ok(Job { logged, path: path.to_owned(), summary, has_all_roots }),
        Err(NotBegun::Complete(kept)) => Err(print_kept(path, &kept, summary)),
        Err(error) => Err(refused(&error, path)),
    }
}

/// A tree: its path, and its inode unless it is missing. A mount that is missing, or another tree under the same path, must not be taken for
/// one that has lost its entries.
struct Place {
    path: Vec<u8>,
    inode: Option<u64>,
}

impl Place {
    fn of(directory: &Path, root: &[u8]) -> Self {
        let path = directory.join(OsStr::from_bytes(root)).into_os_string().into_vec();
        let inode = walk::look_at(root).ok().map(|metadata| metadata.inode);
        Self { path, inode }
    }

    fn described(&self) -> Vec<u8> {
        let inode = self.inode.map_or_else(|| " (missing)".to_owned(), |inode| format!(" (inode {inode})"));
        [self.path.as_slice(), inode.as_bytes()].concat()
    }
}

/// The exit code and both forms of a summary, as a job that is complete keeps them.
pub(crate) fn kept(code: u8, json: &str, text: &str) -> Vec<u8> {
    format!("{code}\n{json}\n{text}").into_bytes()
}

/// Prints the summary of a job that is complete.
fn print_kept(path: &Path, kept: &[u8], summary: Kept) -> Refused {
    let mut parts = kept.splitn(3, |byte| *byte == b'\n');
    let code = parts.next().and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    let (json, text) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let printed = match summary {
        Kept::Json => print_rows(&[json, b"\n"].concat()),
        Kept::Text => print_rows(text),
        Kept::Nothing => Ok(()),
    };
    if let Err(fatal) = printed {
        return Refused::fatal(fatal.what());
    }
    let what = match summary {
        Kept::Nothing => String::new(),
        Kept::Text | Kept::Json => NotBegun::Complete(Vec::new()).describe(path),
    };
    Refused::done(code.unwrap_or(exit::DONE), what, "--restart begins it anew")
}

/// The arguments of the command that has begun a job. Its working directory becomes that of this process. Also returns the directory of the
/// job as an absolute path.
pub(crate) fn recorded(path: &Path) -> Result<(Vec<OsString>, PathBuf), Refused> {
    let request = LoggedJob::request_of(path).map_err(|error| refused(&error, path))?;
    let job = working_directory()?.join(path);
    let directory = PathBuf::from(OsString::from_vec(request.directory));
    std::env::set_current_dir(&directory).map_err(|error| {
        let name = printable(&directory);
        Refused::fatal(format!("cannot change to the working directory of the job: {name}: {error}"))
    })?;
    Ok((request.arguments.into_iter().map(OsString::from_vec).collect(), job))
}

fn working_directory() -> Result<PathBuf, Refused> {
    std::env::current_dir()
        .map_err(|error| Refused::fatal(format!("cannot find the working directory: {error}")))
}

fn refused(error: &NotBegun, path: &Path) -> Refused {
    let what = error.describe(path);
    match error {
        NotBegun::Differs(_) => {
            Refused::usage(what, "name another directory, or forget the job there with --restart")
        }
        NotBegun::NotAJob => {
            Refused::usage(what, "name a directory that is missing or empty, or that of a job")
        }
        NotBegun::NotPrivate => Refused::fatal_with(
            what,
            Some("its mode must be 0700; one that is missing is made so".to_owned()),
        ),
        NotBegun::Writes(_) => {
            let advice = "end that process; if its host has failed, put a copy in the place of the log";
            Refused::fatal_with(what, Some(advice.to_owned()))
        }
        NotBegun::Runs(_) => {
            let advice = "wait for it, or end it; if its host has failed, remove the file 'holder' there";
            Refused::fatal_with(what, Some(advice.to_owned()))
        }
        _ => Refused::fatal(what),
    }
}

impl Job {
    /// Whether all trees were there when this run began.
    pub(crate) fn has_all_roots(&self) -> bool {
        self.has_all_roots
    }

    /// Says that the run goes on with what earlier runs have done.
    pub(crate) fn report_earlier(&self, entries: u64) {
        if self.summary == Kept::Nothing {
            return;
        }
        let (path, began, entries) = (printable(&self.path), self.logged.began(), grouped(entries));
        let what = format!(
            "resuming the job in {path}, begun at {began}: {entries} entries are not looked at again"
        );
        complain(&what, None);
    }

    /// The command that has begun the job, with the program's name.
    pub(crate) fn line(&self) -> Vec<OsString> {
        let arguments = self.logged.arguments().iter().cloned().map(OsString::from_vec);
        std::iter::once(OsString::from("atta")).chain(arguments).collect()
    }

    /// Completes the job. Returns the exit code if that fails. `kept`: see [`kept`].
    pub(crate) fn complete(self, kept: &[u8]) -> Option<u8> {
        let name = printable(&self.path);
        let error = self.logged.complete(kept).err()?;
        complain(&format!("cannot complete the job in {name}: {error}"), None);
        Some(exit::FATAL)
    }

    /// Says how to go on with the job after a run with this exit code. Returns the code.
    pub(crate) fn advise(self, code: u8) -> u8 {
        let what = if code == exit::PARTIAL { "to try again what failed" } else { "to do what is left" };
        hint(&format!("{what}: {}", self.command()));
        code
    }

    /// The command that goes on with it, quoted for a shell.
    fn command(&self) -> String {
        let path = self.path.as_os_str().as_encoded_bytes();
        let end = if path.starts_with(b"-") { "-- " } else { "" };
        format!("atta resume {end}{}", shell_quote(path))
    }
}
