//! A copy with a log of its job, in TARGET or in a directory that the user names (`--job`): what earlier runs have copied is not copied again.
//! `run/logged.rs` has the log.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use atta_entry::escape;
use atta_ops::copy::{Copy, Found, Results, is_there};
use atta_ops::resume::{JobPlace, LoggedJob, Rechecked, place_of, short};
use atta_ops::walk::{self, FromLog, Gone, Journal};
use atta_runtime::{Log, LogLimits, RankError, Results as _, Session, Stop};

use super::arguments::CopyArguments;
use crate::run::earlier::Earlier;
use crate::run::fatal::Fatal;
use crate::run::history::Known;
use crate::run::job::{self, Asked, Job, TargetIs};
use crate::run::logged::{self, EarlierRuns, RunOfJob, later, report_no_log, write_first, write_while};
use crate::run::messages::complain;
use crate::run::outcome;
use crate::run::refused::Refused;
use crate::run::together::FromAll;
use crate::size::grouped;

/// The rank that reads the logs of earlier runs.
const FIRST: u32 = 0;

/// What the first rank has decided when its log is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Begins {
    /// The copy does not begin.
    #[default]
    Not,
    Logged,
    Unlogged,
}

atta_entry::choice!(Begins { 0 => Not, 1 => Logged, 2 => Unlogged });

/// The job of a copy, as the first rank has begun it.
pub(super) struct OfCopy {
    pub(super) job: Job,
    pub(super) target: TargetIs,
    /// The number of the job that was there, if it is forgotten.
    pub(super) given_up: Option<u64>,
}

/// Begins the job of a copy, or goes on with it. None: the copy is refused, or has no log.
pub(super) fn begun(
    arguments: &CopyArguments,
    (sources, target): (Vec<Vec<u8>>, &[u8]),
    session: &Session<'_>,
) -> Result<Option<OfCopy>, Refused> {
    if !sources.iter().all(|source| is_there(source)) {
        return Ok(None);
    }
    let asking = Asking { arguments, sources, target };
    match &arguments.job {
        Some(directory) => asking.named(&JobPlace::from(directory.as_path()), session).map(Some),
        None if has_job(arguments, session) => asking.in_target().map(Some),
        None => Ok(None),
    }
}

/// Whether a copy without `--job` has a log.
fn has_job(arguments: &CopyArguments, session: &Session<'_>) -> bool {
    let is_other = arguments.dry_run || arguments.list().is_some() || arguments.manifest.is_some();
    !arguments.no_job
        && !is_other
        && !arguments.in_place
        && arguments.keep.keeps_modes()
        && session.runs_tasks()
}

/// What a copy asks for.
struct Asking<'a> {
    arguments: &'a CopyArguments,
    sources: Vec<Vec<u8>>,
    target: &'a [u8],
}

impl Asking<'_> {
    /// In a directory that the user has named.
    fn named(self, place: &JobPlace, session: &Session<'_>) -> Result<OfCopy, Refused> {
        let Self { arguments, target, .. } = self;
        if !session.runs_tasks() {
            let what = "--job with --schedule centralized, where the first rank copies nothing".to_owned();
            return Err(Refused::usage(
                what,
                "take another schedule; the first rank does what is left first",
            ));
        }
        if !arguments.keep.keeps_modes() {
            let what = "--job needs the modes of directories, and --preserve keeps none".to_owned();
            return Err(Refused::usage(what, "add mode to --preserve"));
        }
        // After the first run there may be a directory where TARGET is the name of the copy.
        let is = job::target_of(place, target).unwrap_or_else(|| self.target_is());
        self.begin(place, is, arguments.restart)
    }

    /// In TARGET, or where that is made: the job that a run with the same sources and TARGET has left, or a new one.
    fn in_target(self) -> Result<OfCopy, Refused> {
        let Self { arguments, target, .. } = self;
        let is = self.target_is();
        // After the first run there may be a directory where TARGET is the name of the copy.
        for is in [TargetIs::Name, is] {
            let place = job::place_in_target(&self.sources, target, is)?;
            // An update looks at everything.
            let restarts = arguments.restart || arguments.update;
            let number = match place.number() {
                Err(_) if arguments.restart => return self.begin(&place, is, true),
                _ => job::number_at(&place)?,
            };
            if let Some(number) = number {
                let given_up = restarts.then(|| short(number));
                let begun = job::begin_there(&place, self.asked(is, restarts)?, arguments.report.kept())?;
                if let Some(job) = begun {
                    return Ok(OfCopy { job, target: is, given_up });
                }
            }
        }
        // A run that was killed in its first second has no job yet, but may have made TARGET.
        let as_name = job::place_in_target(&self.sources, target, TargetIs::Name)?;
        let is = if is == TargetIs::Directory && as_name.has_made(&last_name(target)) {
            TargetIs::Name
        } else {
            is
        };
        let place = job::place_in_target(&self.sources, target, is)?;
        let job = job::later(&place, self.asked(is, false)?, arguments.report.kept())?;
        Ok(OfCopy { job, target: is, given_up: None })
    }

    fn begin(self, place: &JobPlace, is: TargetIs, restarts: bool) -> Result<OfCopy, Refused> {
        let given_up = if restarts { LoggedJob::number_of(place).map(short) } else { None };
        let job = job::begin(place, self.asked(is, restarts)?, self.arguments.report.kept())?;
        Ok(OfCopy { job, target: is, given_up })
    }

    fn asked(&self, is: TargetIs, restarts: bool) -> Result<Asked, Refused> {
        let mut agrees = self.arguments.agrees();
        agrees.push(job::describe_target(self.target, is)?);
        let deaths = self.arguments.deaths.clone();
        Ok(Asked { restarts, deaths, agrees, roots: self.sources.clone() })
    }

    /// What TARGET is before the first run.
    fn target_is(&self) -> TargetIs {
        let found = walk::look_at(self.target);
        let is_directory = found.is_ok_and(|found| found.kind() == atta_entry::Kind::Directory);
        match (is_directory, self.arguments.no_target_directory) {
            (false, _) => TargetIs::Name,
            (true, false) => TargetIs::Directory,
            (true, true) if self.target.ends_with(b"/") => TargetIs::Itself,
            (true, true) => TargetIs::Name,
        }
    }
}

/// The last name of a path. Empty if it has none.
fn last_name(path: &[u8]) -> CString {
    let name = Path::new(OsStr::from_bytes(path)).file_name();
    CString::new(name.unwrap_or_default().as_bytes()).unwrap_or_default()
}

/// The log of a rank, and what goes into it.
pub(super) struct LogOfRank {
    log: Log,
    pub(super) journal: Journal<Results>,
    /// What earlier runs have come to. Only on the first rank.
    pub(super) earlier: Results,
    limits: LogLimits,
}

impl LogOfRank {
    fn new(log: Log, journal: Journal<Results>, earlier: Results) -> Self {
        Self { log, journal, earlier, limits: LogLimits::default() }
    }

    /// Sets when the log is written.
    pub(super) fn with_limits(self, limits: LogLimits) -> Self {
        Self { limits, ..self }
    }
}

/// Whether the job begins when its log is first written.
fn is_later(job: &Job) -> bool {
    job.running.begun().is_none()
}

/// Begins the job of several ranks: they write their logs from the start. False: the copy goes on without logs.
pub(super) fn begin_for_all(job: &Job, session: &Session<'_>) -> bool {
    if session.is_alone() || !is_later(job) {
        return true;
    }
    let begun = job.running.begin();
    if begun.is_ok() {
        Known::of(&job.running).keep();
        outcome::begun();
    }
    begun.inspect_err(|error| report_no_log(&error.describe(job.running.place().path()))).is_ok()
}

/// Reads what earlier runs have done, on the first rank, and makes the log of this run.
pub(super) fn first(
    job: &Job,
    copy: &Copy<'_>,
    (memory_bytes, found): (u64, Option<FromAll<Results>>),
) -> Result<(LogOfRank, Earlier), Fatal> {
    let mut journal = RunOfJob::of(job).journal(FIRST).with_closing();
    if is_later(job) {
        return Ok((LogOfRank::new(later(job), journal, Results::default()), Earlier::default()));
    }
    let mut runs = EarlierRuns::open(job, memory_bytes, found)?;
    let (mut earlier, mut found) = read_earlier(&mut runs, &mut journal, copy)?;
    if let Some(gone) = found.lost.take() {
        journal = RunOfJob::of(job).journal(FIRST).with_closing();
        let is_all = runs.void(&journal, &gone)?;
        report_gone(&gone, is_all);
        // What is done again has not changed since: the other directories are looked at again.
        (earlier, found) = read_earlier(&mut runs, &mut journal, copy)?;
    }
    let (journal, file) = runs.begin(journal)?;
    // Paths are those below a root.
    let one = found.changed_one.map(|one| if one.is_empty() { b"SOURCE itself".to_vec() } else { one });
    let rechecked = Rechecked { changed: found.changed, one, ..Rechecked::default() };
    let before = Earlier::of(job, (earlier.entries(), Some(earlier.bytes())), rechecked);
    Ok((LogOfRank::new(file.into(), journal, earlier), before))
}

/// Adds to a new journal what earlier runs have done. Returns what that comes to, and what has become of it since.
fn read_earlier(
    runs: &mut EarlierRuns<'_, Results>,
    journal: &mut Journal<Results>,
    copy: &Copy<'_>,
) -> Result<(Results, Found), Fatal> {
    let (mut earlier, mut finished) = (Results::default(), copy.finished());
    let runs_are_trusted = runs.are_trusted();
    let read = runs.read(journal, &mut |found| match found {
        FromLog::Results(share) => earlier.add(&share),
        _ if runs_are_trusted => {}
        FromLog::Seen(at, seen, stage) => finished.add(at, seen, stage),
        FromLog::Names(at, names) => finished.add_names(at, names),
        FromLog::Part(_) | FromLog::Marked(..) => {}
    });
    let found = finished.end();
    read?;
    let Some((path, errno)) = &found.failed else { return Ok((earlier, found)) };
    let what =
        format!("cannot look at a directory in TARGET that the job has copied: {}: {errno}", escape(path));
    let hint = "when it can be reached, give the same command again";
    Err(Fatal::Failed { what, hint: Some(hint.to_owned()) })
}

/// Reports what is copied again since it is gone. `is_all`: everything is.
fn report_gone(gone: &Gone, is_all: bool) {
    let what = match gone {
        Gone::Many => "many directories that the job has copied are gone from TARGET".to_owned(),
        Gone::Some(places) => {
            let one = places.first().map(|(_, path)| escape(path)).unwrap_or_default();
            let one = if one.is_empty() { "that of SOURCE".to_owned() } else { one };
            match places.len() as u64 {
                1 => format!(
                    "a directory that the job has copied is gone from TARGET, is another one, or lacks files: {one}"
                ),
                count => format!(
                    "{} directories that the job has copied are gone from TARGET, are others, or lack files; one is {one}",
                    grouped(count)
                ),
            }
        }
    };
    let hint = match is_all {
        true => "everything is copied again",
        false => "it is copied again, with what was copied in the same seconds",
    };
    complain(&format!("note: {what}"), Some(hint));
}

/// The log of any other rank. `path`: the directory of the job. Also returns device and inode of that directory.
pub(super) fn other(
    path: &Path,
    of_job: RunOfJob,
    rank: u32,
) -> Result<(LogOfRank, Option<(u64, u64)>), Fatal> {
    let (directory, file) = of_job.join(path, rank)?;
    let underway = of_job.underway(&directory, rank);
    let journal = of_job.journal(rank).with_closing().with_underway(underway);
    Ok((LogOfRank::new(file.into(), journal, Results::default()), place_of(&directory).ok()))
}

/// Copies while the log is written, on the first rank. Returns `None` if the copy has not begun, on all ranks, and what of the log failed.
pub(super) fn copy_first<T>(
    LogOfRank { log, journal, earlier, limits }: LogOfRank,
    copy: Copy<'_>,
    (stop, session): (&Stop, &mut Session<'_>),
    act: impl FnOnce(Copy<'_>, &mut Session<'_>) -> Result<T, RankError>,
) -> Result<(Option<T>, Option<Fatal>), RankError> {
    // Without earlier logs, the first frame says nothing of them.
    let is_later = matches!(log, Log::Later(_));
    let (journal, mut fatal) = (&journal, None);
    let (done, written) = write_while((log, journal, limits), stop, |log| {
        let begun = if is_later { Ok(()) } else { write_first(log, session.is_alone()) };
        let begins = if begun.is_ok() { Begins::Logged } else { Begins::Not };
        let is_begun = session.broadcast(Some(begins))? != Begins::Not;
        fatal = begun.err();
        let own = logged::OfCopy(log);
        if is_begun { act(copy.logged(journal, &own, earlier), session).map(Some) } else { Ok(None) }
    });
    Ok((done?, fatal.or(written.err())))
}

/// The same on any other rank. Also returns what of the log failed.
pub(super) fn copy_other<T>(
    LogOfRank { log, journal, earlier, limits }: LogOfRank,
    copy: Copy<'_>,
    stop: &Stop,
    act: impl FnOnce(Copy<'_>) -> Result<T, RankError>,
) -> (Result<T, RankError>, Result<(), Fatal>) {
    let journal = &journal;
    write_while((log, journal, limits), stop, |log| act(copy.logged(journal, &logged::OfCopy(log), earlier)))
}

/// Device and inode of the directory of the job.
pub(super) fn place(job: &Job) -> Option<(u64, u64)> {
    let begun = job.running.begun().and_then(Result::ok);
    begun.and_then(|logged| place_of(logged.directory()).ok())
}
