//! The job of a command that can be resumed: its directory is opened or made, and messages say how to go on. What is done is the command's part.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use atta_entry::shell_quote;
use atta_ops::resume::{LoggedJob, NotBegun, Request};

use super::file::{print_rows, printable};
use super::messages::{complain, exit, hint};
use super::refused::Refused;
use super::settings::rfc3339;
use crate::size::grouped;

/// A job and its directory.
pub(crate) struct Job {
    pub(crate) logged: LoggedJob,
    path: PathBuf,
}

/// Begins a job, or goes on with it. `agrees`: what each run of it must ask for, given the working directory. Of a job that is complete, it
/// prints the summary again. `restarts`: the job that is there is forgotten.
pub(crate) fn begin(
    path: &Path,
    restarts: bool,
    agrees: impl FnOnce(&Path) -> Vec<Vec<u8>>,
) -> Result<Job, Refused> {
    let directory = working_directory()?;
    let agrees = agrees(&directory);
    let arguments = std::env::args_os().skip(1).map(OsStringExt::into_vec).collect();
    let request = Request { directory: directory.into_os_string().into_vec(), arguments, agrees };
    let begin = if restarts { LoggedJob::begin_anew } else { LoggedJob::begin };
    match begin(path, &request) {
        Ok(logged) => Ok(Job { logged, path: path.to_owned() }),
        Err(error) => {
            if let NotBegun::Complete(summary) = &error {
                print_rows(summary).map_err(|fatal| Refused::fatal(fatal.what()))?;
            }
            Err(refused(&error, path))
        }
    }
}

/// The arguments of the command that has begun a job. Its working directory becomes that of this process. Also returns the directory of the
/// job as an absolute path.
pub(crate) fn recorded(path: &Path) -> Result<(Vec<OsString>, PathBuf), Refused> {
    let request = LoggedJob::request_of(path).map_err(|error| refused(&error, path))?;
    let job = working_directory()?.join(path);
    let directory = PathBuf::from(OsString::from_vec(request.directory));
    std::env::set_current_dir(&directory).map_err(|error| {
        let what =
            format!("cannot change to the working directory of the job: {}: {error}", printable(&directory));
        Refused::fatal(what)
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
            Refused::usage(what, "name an empty directory, one that is missing, or that of a job")
        }
        NotBegun::Complete(_) => Refused::done(what, "--restart begins it anew"),
        NotBegun::Runs(_) => Refused::fatal_with(what, Some("wait for it, or end it first".to_owned())),
        _ => Refused::fatal(what),
    }
}

impl Job {
    /// Says that the run goes on with what earlier runs have done.
    pub(crate) fn report_earlier(&self, entries: u64) {
        let began = rfc3339(UNIX_EPOCH + Duration::from_secs(self.logged.began()));
        let (path, entries) = (printable(&self.path), grouped(entries));
        let what = format!(
            "resuming the job in {path}, begun at {began}: {entries} entries are not looked at again"
        );
        complain(&what, None);
    }

    /// Completes the job, or says how to go on with it. Returns the exit code if it cannot be completed. `summary`: what is said of it later.
    pub(crate) fn end(self, summary: &str, is_whole: bool) -> Option<u8> {
        if !is_whole {
            hint(&format!("to do what is left: {}", self.command()));
            return None;
        }
        let name = printable(&self.path);
        let error = self.logged.complete(summary.as_bytes()).err()?;
        complain(&format!("cannot complete the job in {name}: {error}"), None);
        Some(exit::FATAL)
    }

    /// The command that goes on with it, quoted for a shell.
    fn command(&self) -> String {
        let path = self.path.as_os_str().as_encoded_bytes();
        let end = if path.starts_with(b"-") { "-- " } else { "" };
        format!("atta resume {end}{}", shell_quote(path))
    }
}
