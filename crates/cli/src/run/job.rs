//! The job of a command that can be resumed: its directory is opened or made, and messages say how to go on. What is done is the command's part.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atta_catalog::CatalogPlace;
use atta_entry::{Errno, shell_quote};
use atta_ops::copy::parent_of;
use atta_ops::resume::{JobPlace, LoggedJob, NotBegun, Request, RunningJob};
use atta_ops::walk;
use serde_json::Value;

use super::catalog::refuse;
use super::deaths::Deaths;
use super::file::{print_rows, printable};
use super::history::{End, Known};
use super::line;
use super::messages::{complain, exit, hint};
use super::outcome;
use super::refused::Refused;
use crate::size::grouped;

/// A job and its directory.
pub(crate) struct Job {
    /// The thread that writes the log may begin it.
    pub(crate) running: Arc<RunningJob>,
    summary: Kept,
    has_all_roots: bool,
    /// Whether ranks of this launch have died.
    pub(crate) deaths: Deaths,
    /// Each rank keeps it itself, and it ends with the launch: nobody can resume it.
    pub(crate) is_own: bool,
}

/// How a summary is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Text,
    Json,
    /// On standard error: rows go to standard output.
    BesideRows,
    Nothing,
}

/// What a command asks for.
pub(crate) struct Asked {
    /// The job that is there is forgotten.
    pub(crate) restarts: bool,
    /// See [`Job`].
    pub(crate) deaths: Deaths,
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
    /// A directory that becomes the copy.
    Itself,
}

impl TargetIs {
    pub(crate) const ALL: [Self; 3] = [Self::Name, Self::Directory, Self::Itself];

    /// The directory that a copy is put into.
    fn top(self, target: &[u8]) -> &[u8] {
        match self {
            Self::Name => parent_of(target),
            Self::Directory | Self::Itself => target,
        }
    }
}

/// TARGET, as each run of a job must have it.
pub(crate) fn describe_target(target: &[u8], is: TargetIs) -> Result<Vec<u8>, Refused> {
    let mut path = working_directory()?.join(OsStr::from_bytes(target)).into_os_string().into_vec();
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    let is = match is {
        TargetIs::Name => &b" (the name of the copy)"[..],
        TargetIs::Directory => b" (a directory)",
        TargetIs::Itself => b" (the copy itself)",
    };
    Ok([b"TARGET ", path.as_slice(), is].concat())
}

/// What TARGET is to the job in a directory, if that copies to TARGET.
pub(crate) fn target_of(place: &JobPlace, target: &[u8]) -> Option<TargetIs> {
    let request = LoggedJob::request_of(place).ok()?;
    TargetIs::ALL
        .into_iter()
        .find(|is| describe_target(target, *is).is_ok_and(|described| request.agrees.contains(&described)))
}

/// Where the job of a copy is, unless the user names a directory.
pub(crate) fn place_in_target(sources: &[Vec<u8>], target: &[u8], is: TargetIs) -> Result<JobPlace, Refused> {
    let directory = working_directory()?;
    let of_source = |source: &Vec<u8>| Place::of(&directory, source).path;
    let mut request: Vec<_> = sources.iter().map(of_source).collect();
    request.push(describe_target(target, is)?);
    let request: Vec<_> = request.iter().map(Vec::as_slice).collect();
    Ok(JobPlace::in_target(Path::new(OsStr::from_bytes(is.top(target))), &request))
}

/// A catalog, as each run of its job must have it.
pub(crate) fn describe_catalog(output: &Path) -> Result<Vec<u8>, Refused> {
    Ok([b"CATALOG ", path_of_catalog(output)?.as_os_str().as_bytes()].concat())
}

/// A table of differences, as each run of its job must have it.
pub(crate) fn describe_report(output: &Path) -> Result<Vec<u8>, Refused> {
    Ok([b"REPORT ", path_of_catalog(output)?.as_os_str().as_bytes()].concat())
}

/// Where the job of a comparison is that writes a table: one for each table.
pub(crate) fn place_of_report(output: &Path) -> Result<JobPlace, Refused> {
    let path = path_of_catalog(output)?;
    let parent = path.parent().unwrap_or(&path);
    Ok(JobPlace::in_target(parent, &[b"REPORT", path.as_os_str().as_bytes()]))
}

/// One path for each catalog or table, however it is spelled, as far as its directory can be found.
fn path_of_catalog(output: &Path) -> Result<PathBuf, Refused> {
    let CatalogPlace { place, parent } = CatalogPlace::of(output).map_err(|error| refuse(&error))?;
    let parent = walk::real_path(&parent).unwrap_or(working_directory()?.join(parent));
    Ok(parent.join(place.file_name().unwrap_or_default()))
}

/// Where the job of a walk with a catalog is: one for each catalog.
pub(crate) fn place_of_catalog(output: &Path) -> Result<JobPlace, Refused> {
    let path = path_of_catalog(output)?;
    let parent = path.parent().unwrap_or(&path);
    Ok(JobPlace::in_target(parent, &[b"CATALOG", path.as_os_str().as_bytes()]))
}

/// Removes a job whose catalog has got its name, if its process was killed before it could do that.
pub(crate) fn remove_ended(place: &JobPlace) {
    if matches!(place.number(), Ok(None)) {
        return place.remove_rest();
    }
    if place.number().is_err() || place.has_catalog() {
        return;
    }
    let ended = LoggedJob::resume(place).ok().filter(|logged| logged.has_logs() && !place.has_catalog());
    if let Some(logged) = ended {
        // What is left is removed by atta clean.
        let _ = logged.remove(false);
    }
}

/// Begins a job, or goes on with it. Of a job that is complete, it prints the summary again.
pub(crate) fn begin(place: &JobPlace, asked: Asked, summary: Kept) -> Result<Job, Refused> {
    let job = open(place, asked, summary)?;
    Known::of(&job.running).keep();
    outcome::begun();
    Ok(job)
}

/// The same of a job that each rank keeps itself: no list has it, `atta launch` does not start it again, and no option begins it anew.
pub(crate) fn begin_own(place: &JobPlace, asked: Asked, summary: Kept) -> Result<Job, Refused> {
    let opened = open(place, asked, summary);
    let opened = opened.map_err(|refused| Refused::fatal(refused.what().to_owned()))?;
    Ok(Job { is_own: true, ..opened })
}

fn open(place: &JobPlace, asked: Asked, summary: Kept) -> Result<Job, Refused> {
    let begin = if asked.restarts { LoggedJob::begin_anew } else { LoggedJob::begin };
    let deaths = asked.deaths.clone();
    let (request, has_all_roots) = asked.request()?;
    match begin(place, &request) {
        Ok(logged) => {
            let running = Arc::new(logged.into());
            Ok(Job { running, summary, has_all_roots, deaths, is_own: false })
        }
        Err(NotBegun::Complete(kept)) => Err(print_kept(place.path(), &kept, summary)),
        Err(error) => Err(refused(&error, place)),
    }
}

/// The number of the job of a copy in its target, if there is one.
pub(crate) fn number_at(place: &JobPlace) -> Result<Option<[u8; 16]>, Refused> {
    place.number().map_err(|error| refused(&error, place))
}

/// As [`begin`], for a job that is there. None: its last process has removed it meanwhile.
pub(crate) fn begin_there(place: &JobPlace, asked: Asked, summary: Kept) -> Result<Option<Job>, Refused> {
    let begun = begin(place, asked, summary);
    match begun {
        Err(_) if matches!(place.number(), Ok(None)) => Ok(None),
        begun => begun.map(Some),
    }
}

/// A job in the target of a copy that begins when its log is first written.
pub(crate) fn later(place: &JobPlace, asked: Asked, summary: Kept) -> Result<Job, Refused> {
    let (request, has_all_roots) = asked.request()?;
    let running = RunningJob::later(place.clone(), &request).map_err(|error| refused(&error, place))?;
    Ok(Job { running: Arc::new(running), summary, has_all_roots, deaths: Deaths::default(), is_own: false })
}

impl Asked {
    /// What the job was asked for, and whether all trees are there.
    fn request(self) -> Result<(Request, bool), Refused> {
        let Self { mut agrees, roots, .. } = self;
        let directory = working_directory()?;
        let roots: Vec<_> = roots.iter().map(|root| Place::of(&directory, root)).collect();
        let has_all_roots = roots.iter().all(|root| root.inode.is_some());
        agrees.splice(..0, roots.iter().map(Place::described));
        let arguments = line::arguments().iter().cloned().map(OsStringExt::into_vec).collect();
        let request = Request { directory: directory.into_os_string().into_vec(), arguments, agrees };
        Ok((request, has_all_roots))
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

/// The exit code and both forms of a summary that was kept.
pub(crate) fn parts_of(kept: &[u8]) -> (u8, Value, String) {
    let mut parts = kept.splitn(3, |byte| *byte == b'\n');
    let code = parts.next().and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    let json = parts.next().and_then(|json| serde_json::from_slice(json).ok());
    let text = String::from_utf8_lossy(parts.next().unwrap_or_default());
    (code.unwrap_or(exit::DONE), json.unwrap_or_default(), text.into_owned())
}

/// Prints the summary of a job that is complete.
fn print_kept(path: &Path, kept: &[u8], summary: Kept) -> Refused {
    let (code, json, text) = parts_of(kept);
    let printed = match summary {
        Kept::Json => print_rows(format!("{json}\n").as_bytes()),
        Kept::Text => print_rows(text.as_bytes()),
        Kept::BesideRows => {
            // An error of standard error cannot be reported.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            Ok(())
        }
        Kept::Nothing => Ok(()),
    };
    if let Err(fatal) = printed {
        return Refused::fatal(fatal.what());
    }
    let what = match summary {
        Kept::Nothing => String::new(),
        Kept::Text | Kept::Json | Kept::BesideRows => NotBegun::Complete(Vec::new()).describe(path),
    };
    Refused::done(code, what, "--restart begins it anew")
}

/// The arguments of the command that has begun a job. Its working directory becomes that of this process. Also returns the directory of the
/// job as an absolute path. `path`: that directory, or the TARGET of a copy.
pub(crate) fn recorded(path: &Path) -> Result<(Vec<OsString>, PathBuf), Refused> {
    let place = find(path)?;
    let request = LoggedJob::request_of(&place).map_err(|error| refused(&error, &place))?;
    let job = working_directory()?.join(place.path());
    let directory = PathBuf::from(OsString::from_vec(request.directory));
    std::env::set_current_dir(&directory).map_err(|error| {
        let name = printable(&directory);
        Refused::fatal(format!("cannot change to the working directory of the job: {name}: {error}"))
    })?;
    Ok((request.arguments.into_iter().map(OsString::from_vec).collect(), job))
}

/// Finds the job of a directory: its own, that of a copy of which it is the TARGET, or that of a walk of which it is the catalog.
fn find(path: &Path) -> Result<JobPlace, Refused> {
    let own = JobPlace::from(path);
    if LoggedJob::number_of(&own).is_some() {
        return Ok(own);
    }
    match places_for(path)?.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let hint = "name the directory of a job, or the TARGET or catalog of a run that was killed";
            Err(Refused::usage(format!("there is no unfinished job in {}", printable(path)), hint))
        }
        all => {
            let paths: Vec<_> =
                all.iter().map(|place| shell_quote(place.path().as_os_str().as_bytes())).collect();
            let what = format!("there are {} unfinished jobs in {}", all.len(), printable(path));
            Err(Refused::usage(what, &format!("name one of them: {}", paths.join(" "))))
        }
    }
}

/// The jobs of copies of which a path is the TARGET, of walks of which it is the catalog, and of comparisons of which it is the table.
pub(crate) fn places_for(path: &Path) -> Result<Vec<JobPlace>, Refused> {
    let target = path.as_os_str().as_bytes();
    let of_target = describe_target(target, TargetIs::Name)?;
    let described = [Some(of_target), describe_catalog(path).ok(), describe_report(path).ok()];
    let makes_it = |place: &JobPlace| {
        let has = |request: Request| described.iter().flatten().any(|what| request.agrees.contains(what));
        LoggedJob::request_of(place).is_ok_and(has)
    };
    let is_there = |place: &JobPlace| LoggedJob::number_of(place).is_some();
    let parent = parent_of(target);
    // `.` and the like have none.
    let above =
        if parent == target { None } else { JobPlace::all_in(Path::new(OsStr::from_bytes(parent))).ok() };
    let above = above.into_iter().flatten().filter(makes_it);
    let own = JobPlace::all_in(path).map_err(|error| refused(&error, &JobPlace::from(path)))?;
    Ok(own.into_iter().filter(is_there).chain(above).collect())
}

fn working_directory() -> Result<PathBuf, Refused> {
    std::env::current_dir()
        .map_err(|error| Refused::fatal(format!("cannot find the working directory: {error}")))
}

fn refused(error: &NotBegun, place: &JobPlace) -> Refused {
    let what = error.describe(place.path());
    match error {
        NotBegun::Differs(_) if place.is_in_target() => {
            let advice = "give the options of the run that was killed, or forget its job with --restart";
            Refused::usage(what, advice)
        }
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
        NotBegun::Invalid | NotBegun::Failed(..) if place.is_in_target() => {
            let advice = "--no-job runs without it, and leaves it alone; --restart forgets it";
            Refused::fatal_with(what, Some(advice.to_owned()))
        }
        _ => Refused::fatal(what),
    }
}

/// The command that goes on with a job, quoted for a shell.
pub(crate) fn resume_command(place: &JobPlace) -> String {
    let path = place.path().as_os_str().as_encoded_bytes();
    let end = if path.starts_with(b"-") { "-- " } else { "" };
    format!("atta resume {end}{}", shell_quote(path))
}

impl Job {
    /// What a catalog records of it: the arguments of its command, and when it began.
    pub(crate) fn recorded(&self) -> (Vec<Vec<u8>>, SystemTime) {
        let began = UNIX_EPOCH + Duration::from_secs(self.running.began_seconds());
        (self.running.arguments().to_vec(), began)
    }

    /// Removes a job that has done nothing.
    pub(crate) fn give_up(self) {
        if self.running.run() == 1 && self.is_in_target() {
            let begun = Arc::into_inner(self.running).and_then(RunningJob::into_begun);
            // What is left is removed by atta clean.
            let _ = begun.and_then(Result::ok).map(|logged| logged.remove(false));
        }
    }

    /// Whether all trees were there when this run began.
    pub(crate) fn has_all_roots(&self) -> bool {
        self.has_all_roots
    }

    /// Says that the run goes on with what earlier runs have done.
    pub(crate) fn report_earlier(&self, entries: u64) {
        if self.summary == Kept::Nothing || self.deaths.leave_new_job() {
            return;
        }
        let (path, began, entries) = (printable(self.path()), self.running.began(), grouped(entries));
        let what = format!(
            "resuming the job in {path}, begun at {began}: {entries} entries are not looked at again"
        );
        complain(&what, None);
    }

    /// The command that has begun the job, with the program's name.
    pub(crate) fn line(&self) -> Vec<OsString> {
        let arguments = self.running.arguments().iter().cloned().map(OsString::from_vec);
        std::iter::once(OsString::from("atta")).chain(arguments).collect()
    }

    /// Whether it is in the target of a copy or beside a catalog: then it ends with the run that comes to its end, also if entries failed.
    pub(crate) fn is_in_target(&self) -> bool {
        self.running.place().is_in_target()
    }

    /// Whether a later run can go on with it.
    pub(crate) fn is_kept(&self) -> bool {
        self.running.begun().is_some_and(|begun| begun.is_ok())
    }

    fn path(&self) -> &Path {
        self.running.place().path()
    }

    /// Completes the job. Returns the exit code if that fails. `kept`: see [`kept`].
    pub(crate) fn complete(self, kept: &[u8]) -> Option<u8> {
        self.end(kept, |logged| logged.complete(kept))
    }

    /// Removes the job from the target of a copy, or beside the catalog of a walk, that has come to its end. Returns the exit code if that fails. `keeps_times`: the directory that
    /// it is in is itself a copy.
    pub(crate) fn remove(self, kept: &[u8], keeps_times: bool) -> Option<u8> {
        self.end(kept, |logged| logged.remove(keeps_times))
    }

    fn end(self, kept: &[u8], end: impl FnOnce(LoggedJob) -> Result<(), Errno>) -> Option<u8> {
        let (name, known) = (printable(self.path()), Known::of(&self.running));
        // The log is closed: nobody else has it.
        let logged = Arc::into_inner(self.running)?.into_begun()?.ok()?;
        let (code, json, text) = parts_of(kept);
        if self.is_own {
            return None;
        }
        outcome::complete(code);
        Known { ended: Some(End { code, json, text }), ..known }.keep();
        let error = end(logged).err()?;
        complain(&format!("cannot complete the job in {name}: {error}"), None);
        Some(exit::FATAL)
    }

    /// Says how to go on with the job after a run with this exit code. Returns the code.
    pub(crate) fn advise(self, code: u8) -> u8 {
        let what = if code == exit::PARTIAL { "to try again what failed" } else { "to do what is left" };
        self.advise_for(what, code)
    }

    /// The same. `what`: what the command is for.
    pub(crate) fn advise_for(self, what: &str, code: u8) -> u8 {
        if self.is_own {
            return code;
        }
        hint(&format!("{what}: {}", self.command()));
        code
    }

    /// The command that goes on with it, quoted for a shell.
    fn command(&self) -> String {
        resume_command(self.running.place())
    }
}
